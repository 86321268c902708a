"""The records of the bundle methods on planes of parts: BMRM and CPA, proximal BMRM, OCA, SGD, Frank-Wolfe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ...core.exceptions import ParameterError
from ...core.protocols import AFFINE_SCORES, BOUNDED, EPOCHS, require
from ...core.validation import check_flag
from ..method import Method, choice, integer, number, option, or_none
from ..run import Run
from .bundle_method import BundleMethod
from .frank_wolfe import FrankWolfe as FrankWolfeRun
from .policies import BestPoint, LastIterate, LineSearch, PublishedProximity
from .sgd import StochasticSubgradient


def step_length(name, value):
    """Check the step length of `ProxBMRM`: "auto" or a positive number."""
    return value if isinstance(value, str) and value == "auto" else number(low=0.0, strict=True)(name, value)


@dataclass(frozen=True, kw_only=True)
class PartPlanes(Method):
    """A method on planes of the parts of a risk; see its subclasses.

    Parameters
    ----------
    theta : float
        Accuracy of the master problem, as a fraction of the gap; it is at most 1e-3 and at least 1e-12 of the best
        value.
    max_idle : int, optional
        Solutions of the master in a row without weight after which a plane is dropped. None is 50 for one part, 8 for
        more, and 2 from 64 parts on.
    stop : {"certificate", "published"}
        "certificate" compares the best value with the best bound, "published" uses the rule of the method's paper on
        the current iterate.
    """

    theta: float = option(0.05, number(low=0.0, strict=True, high=0.9))
    max_idle: int | None = option(None, or_none(integer))
    stop: str = option("certificate", choice("certificate", "published"))


@dataclass(frozen=True, kw_only=True)
class BMRM(PartPlanes):
    """BMRM, or P-BMRM if the risk has more than one part; in a ball the cutting-plane algorithm.

    Its steps::

        repeat for t = 0, 1, ...
            1  add the plane of each part at w_t:  a_p in dR_p(w_t), b_p = R_p(w_t) - <a_p, w_t>
            2  w_{t+1} = argmin lam/2 |w|^2 + sum_p max_j (b_pj + <a_pj, w>),  the master
               problem, j being the planes of part p;
               in a ball argmin sum_p max_j (b_pj + <a_pj, w>) over |w| <= radius
            3  the dual value of its multipliers is a lower bound D; stop if F at the best point
               is close enough to D

    Differences from the papers: a part that declares a lower bound has that bound as a plane, too, unless
    `zero_plane=False`; masters are solved to the fraction `theta` of the gap; and idle planes are dropped. Take this
    method to compare with publications. `penalty=pb.prox.Ball(radius)` in place of `lam` is the cutting-plane algorithm
    in a ball, which the name "cutting-plane" stands for, too, and which "auto" takes for a ball.

    An iteration is a pass, O(P m d) operations for products of the P new planes with the m stored ones, and a quadratic
    program of m variables, by SMO. Memory: 8 m d bytes for dense planes, 12 for each entry of sparse ones, and 24 m^2;
    m is about P (max_idle + 2), or less under a `memory_limit`.

    Parameters
    ----------
    theta : float
        Accuracy of the master problem, as a fraction of the gap; it is at most 1e-3 and at least 1e-12 of the best
        value.
    max_idle : int, optional
        Solutions of the master in a row without weight after which a plane is dropped. None is 50 for one part, 8 for
        more, and 2 from 64 parts on.
    stop : {"certificate", "published"}
        "published" compares F at the current iterate w_t (in a ball: at the best one) with the present D, as the papers
        do; "certificate" compares the best value with the best bound.
    zero_plane : bool
        False leaves out the planes that declared lower bounds give, such as 0 for a hinge: then the multipliers of a
        part sum to 1, as in the papers. True lets them sum to at most 1.

    Raises
    ------
    ParameterError
        If an option is out of its range; in `minimize`, for a penalty that is neither one number lam nor a ball, for
        constraints, and for a `memory_limit` that has no room for three planes of each part.

    References
    ----------
    Teo, Vishwanathan, Smola & Le (2010), Algorithm 2; Uricar & Franc (2012), Algorithms 1 and 2.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> result = pb.minimize(risk, lam=1.0, method=pb.methods.BMRM(theta=0.02), n_parts=3)
    >>> result.success, result.lower_bound <= result.fun
    (True, True)
    >>> pb.minimize(risk, penalty=pb.prox.Ball(0.5), method="cutting-plane").success
    True
    """

    name: ClassVar[str] = "bmrm"
    zero_plane: bool = option(True, check_flag)

    def begin(self, search: Any) -> Run:
        return BundleMethod(search, LastIterate(), self, self.zero_plane)


@dataclass(frozen=True, kw_only=True)
class ProxBMRM(PartPlanes):
    """Prox-BMRM, or Prox-P-BMRM if the risk has more than one part: a proximal term limits the length of steps.

    Its steps::

        w(alpha) = argmin lam/2 |w|^2 + alpha |w - w_t|^2 + sum_p max_j (b_pj + <a_pj, w>),
            the planes as in BMRM
        start with the planes at w_0 and alpha = 0
        repeat for t = 0, 1, ...
            1  w+ = w(alpha);  if t > 0, a pass at w+
            2  if t = 0 or F(w_t) - F(w+) < gamma:
                   alpha = the least of 0, 1, 2, 4, ... with |w(alpha) - w_t| <= K
                   if t = 0 or that is another alpha:  w+ = w(alpha), and a pass at w+
                   gamma = (F(w+) - D / (1 - tol)) / T,  where D is the lower bound of the
                       master without the proximal term
            3  w_{t+1} = w+;  the planes of these passes enter the model

    Steps that all decrease F by gamma reach the tolerance within T iterations. Differences from the paper are those of
    `BMRM`. By default the run ends as others do; every fifth master is also solved without the proximal term then, for
    its bound. Take this method to compare with publications.

    Cost and memory are those of `BMRM`, with two or three quadratic programs in an iteration, and two passes where
    alpha changes.

    Parameters
    ----------
    K : float or "auto"
        Largest length |w_{t+1} - w_t| of a step when alpha is tuned. "auto" is 0.01 |w_0|, and 0.4 for w_0 = 0.
    T : int
        Number of iterations within which steps of the present decrease must reach the tolerance.
    theta : float
        Accuracy of the master problem, as a fraction of the gap; it is at most 1e-3 and at least 1e-12 of the best
        value.
    max_idle : int, optional
        Solutions of the master in a row without weight after which a plane is dropped. None is 50 for one part, 8 for
        more, and 2 from 64 parts on.
    stop : {"certificate", "published"}
        "published" compares F(w+) with D in line 2, when alpha has been tuned, as the paper does; "certificate"
        compares the best value with the best bound.
    zero_plane : bool
        False leaves out the planes that declared lower bounds give, such as 0 for a hinge: then the multipliers of a
        part sum to 1, as in the papers. True lets them sum to at most 1.

    Raises
    ------
    ParameterError
        If an option is out of its range; in `minimize`, for another penalty than one number lam, for constraints, and
        for a `memory_limit` that has no room for three planes of each part.

    References
    ----------
    Uricar, Franc & Hlavac (2013), Algorithm 2.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> result = pb.minimize(risk, lam=1.0, method=pb.methods.ProxBMRM(K=0.4, T=50))
    >>> result.success, result.lower_bound <= result.fun
    (True, True)
    """

    name: ClassVar[str] = "prox-bmrm"
    K: float | str = option("auto", step_length)
    T: int = option(100, integer)
    zero_plane: bool = option(True, check_flag)

    def begin(self, search: Any) -> Run:
        return BundleMethod(search, PublishedProximity(self.K, self.T, self.stop == "published"), self, self.zero_plane)


@dataclass(frozen=True, kw_only=True)
class OCA(PartPlanes):
    """The optimised cutting plane algorithm: planes of parts near the best point, found by a line search if possible.

    Its steps::

        with a line search, repeat
            1  w = argmin lam/2 |w|^2 + sum_p max_j (b_pj + <a_pj, w>);  its dual value is a
               lower bound D
            2  w_b <- argmin F on the segment from the best point w_b to w
            3  add the planes of all parts at w_b + mu (w - w_b)
        without it, repeat
            1  w = argmin Omega(w) + alpha |w - w_b|^2 + sum_p max_j (b_pj + <a_pj, w>);  its
               multipliers, and every fifth time those of the problem without the proximal term,
               prove a lower bound D
            2  add the planes of all parts at w;  w_b <- w if F falls by a tenth of what the
               model predicts, or more
            3  alpha falls after good steps and rises after poor ones
        stop if F(w_b) - D is within the tolerance

    Omega is the penalty. The line search needs scores that are linear in w, in this process, and one number lam. Take
    this method for risks that have only planes, for any penalty and for constraints; "auto" takes it there.

    An iteration is one pass, O(P m d) operations for products of the P new planes with the m stored ones, and one or
    two quadratic programs of m variables; another penalty than a square makes them a convex problem of m variables.
    Memory: 8 m d bytes for dense planes, 12 for each entry of sparse ones, and 24 m^2; m is about P (max_idle + 2), or
    less under a `memory_limit`. The line search keeps the scores of all examples five times.

    Parameters
    ----------
    mu : float
        Position of the planes that follow a line search, between the best point (0) and the minimiser of the model (1).
    line_search : bool, optional
        True demands the line search, False forbids it. None searches where the risk has linear scores, its data are in
        memory, and half of a `memory_limit` has room for the scores.
    theta : float
        Accuracy of the master problem, as a fraction of the gap; it is at most 1e-3 and at least 1e-12 of the best
        value.
    max_idle : int, optional
        Solutions of the master in a row without weight after which a plane is dropped. None is 50 for one part, 8 for
        more, and 2 from 64 parts on.
    stop : {"certificate", "published"}
        "published" compares F at the newest point with the present D; "certificate" compares the best value with the
        best bound.

    Raises
    ------
    ParameterError
        If an option is out of its range; in `minimize`, for `line_search=True` with a penalty, or with a risk without
        linear scores, and for a `memory_limit` that has no room for three planes of each part.

    References
    ----------
    Franc & Sonnenburg (2009), for the line search. The rules of alpha are our own.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> method = pb.methods.OCA(max_idle=20)
    >>> result = pb.minimize(risk, penalty=pb.prox.L1(0.5), method=method)
    >>> result.success, result.lower_bound <= result.fun
    (True, True)
    """

    name: ClassVar[str] = "oca"
    n_parts: ClassVar[int] = 16
    penalties: ClassVar[str] = "all"
    mu: float = option(0.1, number(low=0.0, strict=True, high=1.0))
    line_search: bool | None = option(None, or_none(check_flag))

    def begin(self, search: Any) -> Run:
        """Return a run with line search if scores are affine in w, else the proximal bundle around the best point."""
        risk, limit, line_search = search.risk, search.settings.memory_limit, self.line_search
        if search.problem.square is None:
            if line_search:
                raise ParameterError("line_search=True takes one number lam, got a penalty; leave the option out")
            return BundleMethod(search, BestPoint(), self)
        policy = LineSearch(self.mu)
        if line_search:
            require("line_search=True", [AFFINE_SCORES], risk, "leave the option out")
        if line_search is None:
            # the line search would read the rows of a mapped file a second time
            line_search = AFFINE_SCORES.holds(risk) and not risk.is_mapped and (
                limit is None or policy.working_bytes(risk) <= limit // 2)
        return BundleMethod(search, policy if line_search else BestPoint(), self)


@dataclass(frozen=True, kw_only=True)
class SGD(PartPlanes):
    """Stochastic subgradient descent, whose planes prove a bound.

    Its steps::

        repeat epochs
            1  for each example i in a random order:
                   w <- w - (lam w + n_examples r_i'(w)) / (lam (t0 + t)),  t <- t + 1
            2  the labellings found in the epoch add up to one plane for each part; a pass at w
               gives F(w) and others
            3  the dual value of the master problem over these planes (see BMRM) is a lower
               bound D
            4  stop if F at the best point is close enough to D

    Take it for a rough start, or to compare with publications. It ends after 10 epochs by default, without a warning,
    and `max_iter` counts epochs.

    An epoch visits every example once in one thread, and its pass once more; a step costs O(entries of x_i) on rows of
    flat data and O(d) else. Memory: two planes for each part and epoch, as in `BMRM`.

    Parameters
    ----------
    t0 : float, optional
        Offset of the step length, at least 1. None takes the best of 1, 10, ..., 1e8 after an epoch on a tenth of the
        data.
    theta : float
        Accuracy of the master problem, as a fraction of the gap; it is at most 1e-3 and at least 1e-12 of the best
        value.
    max_idle : int, optional
        Solutions of the master in a row without weight after which a plane is dropped. None is 50 for one part, 8 for
        more, and 2 from 64 parts on.
    stop : {"certificate", "published"}
        "published" compares F at the end of the epoch with the present D; "certificate" compares the best value with
        the best bound.

    Raises
    ------
    ParameterError
        If an option is out of its range; in `minimize`, for a risk without access to single examples, and for another
        penalty than one number lam.

    References
    ----------
    Uricar & Franc (2012), section 4; the bound is our own.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> method = pb.methods.SGD(t0=10.0)
    >>> result = pb.minimize(risk, lam=1.0, method=method, max_iter=5, random_state=1)
    >>> result.nit <= 5, result.lower_bound <= result.fun
    (True, True)
    """

    name: ClassVar[str] = "sgd"
    needs: ClassVar[tuple[Any, ...]] = (EPOCHS,)
    n_epochs: ClassVar[int | None] = 10
    t0: float | None = option(None, or_none(number(low=1.0)))

    def begin(self, search: Any) -> Run:
        return BundleMethod(search, StochasticSubgradient(self.t0, search.settings.random_state), self)


@dataclass(frozen=True, kw_only=True)
class FrankWolfe(Method):
    """Frank-Wolfe on the dual of all examples together: a step is a pass.

    Its steps::

        start with phi = 0, B = 0
        repeat
            1  w = -phi / lam;  a pass at w gives F(w) and (phi_hat, B_hat), the plane of all
               examples there
            2  D = B - |phi|^2 / (2 lam) is a lower bound;  stop if F at the best point is close
               enough to D
            3  gamma = clip(lam (F(w) - D) / |phi_hat - phi|^2, 0, 1)
            4  (phi, B) <- (1 - gamma) (phi, B) + gamma (phi_hat, B_hat)

    The first plane is that at `w0`. Take it to compare with publications; it usually needs more passes than other
    methods. A step is one pass and O(d) operations. Memory: some vectors of d numbers; `memory_limit` is not looked at.

    Raises
    ------
    ParameterError
        In `minimize`, if the risk does not declare R >= 0, and for another penalty than one number lam.

    References
    ----------
    Lacoste-Julien et al. (2013), Algorithm 2.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> result = pb.minimize(risk, lam=5.0, method=pb.methods.FrankWolfe())
    >>> result.success, result.lower_bound <= result.fun
    (True, True)
    """

    name: ClassVar[str] = "frank-wolfe"
    needs: ClassVar[tuple[Any, ...]] = (BOUNDED,)

    def begin(self, search: Any) -> Run:
        return FrankWolfeRun(search)
