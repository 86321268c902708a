"""The records of the bundle methods on planes of parts: BMRM and CPA, proximal BMRM, OCA, SGD, Frank-Wolfe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.exceptions import ParameterError
from ...core.protocols import AFFINE_SCORES, BOUNDED, EPOCHS, require
from ...core.validation import check_flag
from ..method import Method, choice, integer, number, option, or_none
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
        Accuracy of the master problem, as a fraction of the gap.
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

        repeat
            1  add the plane of each part at w_t:  a_p in dR_p(w_t),  b_p = R_p(w_t) - <a_p, w_t>
            2  w_{t+1} = argmin Omega(w) + sum_p max_i (b_pi + <a_pi, w>)       the master problem
            3  its minimum is a lower bound; stop if F at the best point is close enough

    Take it to compare with publications. `penalty=pb.prox.Ball(radius)` in place of `lam` is the cutting-plane
    algorithm in a ball, which the name "cutting-plane" stands for, too.

    Parameters
    ----------
    theta : float
        Accuracy of the master problem, as a fraction of the gap.
    max_idle : int, optional
        Solutions of the master in a row without weight after which a plane is dropped. None is 50 for one part, 8 for
        more, and 2 from 64 parts on.
    stop : {"certificate", "published"}
        "published" compares F at the current iterate with the present bound, as the paper does.

    References
    ----------
    Teo, Vishwanathan, Smola & Le (2010); Uricar & Franc (2012), Algorithm 1.
    """

    name: ClassVar[str] = "bmrm"

    def begin(self, search):
        return BundleMethod(search, LastIterate(), self)


@dataclass(frozen=True, kw_only=True)
class ProxBMRM(PartPlanes):
    """Prox-BMRM, or Prox-P-BMRM if the risk has more than one part: each step has at most the length K.

        1  w_{t+1} = argmin lam/2 |w|^2 + alpha |w - w_t|^2 + sum_p max_i (b_pi + <a_pi, w>)
        2  if no gamma is known: choose the least alpha for which |w_{t+1} - w_t| <= K, and set gamma so that T
           steps of this decrease reach the tolerance
        3  if F decreased by less than gamma: tune alpha anew

    Take it to compare with publications.

    Parameters
    ----------
    K : float or "auto"
        Largest length of a step. "auto" is 0.01 |w0|, and 0.4 for w0 = 0.
    T : int
        Horizon, in iterations.
    theta, max_idle
        As in `BMRM`.
    stop : {"certificate", "published"}
        "published" compares F at the current iterate with the present bound, as the paper does.

    References
    ----------
    Uricar & Franc (2013), Algorithm 2.
    """

    name: ClassVar[str] = "prox-bmrm"
    K: float | str = option("auto", step_length)
    T: int = option(100, integer)

    def begin(self, search):
        return BundleMethod(search, PublishedProximity(self.K, self.T, self.stop == "published"), self)


@dataclass(frozen=True, kw_only=True)
class OCA(PartPlanes):
    """Planes of parts about the best point, with an exact line search where scores are linear in w.

        1  w = argmin of the master problem, in its proximal variant about the best point w_b
        2  with a line search:  w_b = argmin F on the segment from w_b to w
        3  add the planes at w_b + mu (w - w_b), or at w without a line search

    Take it for risks that have planes only, for any penalty and for constraints; "auto" takes it there.

    Parameters
    ----------
    mu : float
        Position of the planes between best point and minimiser.
    line_search : bool, optional
        False forces the proximal variant; None searches where the risk has linear scores in memory.
    theta, max_idle, stop
        As in `BMRM`.

    References
    ----------
    Franc & Sonnenburg (2008), optimised cutting plane algorithm.
    """

    name: ClassVar[str] = "oca"
    n_parts: ClassVar[int] = 16
    penalties: ClassVar[str] = "all"
    mu: float = option(0.1, number(low=0.0, strict=True, high=1.0))
    line_search: bool | None = option(None, or_none(check_flag))

    def begin(self, search):
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

        1  for each example i in a random order:  w <- w - eta_t (lam w + n r_i'(w)),   eta_t = 1 / (lam (t0 + t))
        2  the labellings found in the epoch add up to one plane for each part; a pass at w adds another one
        3  the minimum of the master problem over these planes is a lower bound

    Take it for a rough start. It ends after 10 epochs by default, without a warning.

    Parameters
    ----------
    t0 : float, optional
        Offset of the step length; None tunes it on 10 % of the data.
    theta, max_idle, stop
        As in `BMRM`.

    References
    ----------
    Uricar & Franc (2012), section 4.
    """

    name: ClassVar[str] = "sgd"
    needs: ClassVar[tuple] = (EPOCHS,)
    n_epochs: ClassVar[int | None] = 10
    t0: float | None = option(None, or_none(number(low=1.0)))

    def begin(self, search):
        return BundleMethod(search, StochasticSubgradient(self.t0, search.settings.random_state), self)


@dataclass(frozen=True, kw_only=True)
class FrankWolfe(Method):
    """Frank-Wolfe on the dual of all examples together: a step is a pass.

        1  w = -phi / lam;  (phi_hat, B_hat) = plane of all examples at w, whose gap is g = F(w) - D
        2  gamma = clip(lam g / |phi_hat - phi|^2, 0, 1)
        3  (phi, B) <- (1 - gamma) (phi, B) + gamma (phi_hat, B_hat);  D = B - |phi|^2 / (2 lam) is a lower bound

    Take it to compare with publications; it needs most passes of all methods.

    References
    ----------
    Lacoste-Julien et al. (2013), Algorithm 2.
    """

    name: ClassVar[str] = "frank-wolfe"
    needs: ClassVar[tuple] = (BOUNDED,)

    def begin(self, search):
        return FrankWolfeRun(search)
