"""The records of the methods on multipliers of examples: BCFW, MP-BCFW, proximal BCFW, ALM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ...core.exceptions import ParameterError
from ...core.protocols import BOUNDED, FURTHER, LABELLINGS, SINGLE, require
from ...core.validation import check_choice, check_count, check_flag, check_number
from ..method import Method, choice, integer, number, option, or_none
from ..newton.alm import AugmentedLagrangian
from ..newton.label_multipliers import LabelMultipliers
from ..run import Run
from ._label_blocks import set_capacity
from .block_method import BlockMethod
from .cached_blocks import CAP, IDLE, CachedBlocks
from .exact_blocks import ExactBlocks
from .log_loss_blocks import LogLossBlocks
from .newton_blocks import NewtonBlocks
from .penalised_blocks import PenalisedBlocks
from .schedules import Accelerated, Exact, MultiPlane, Plain, Sequential


def fewer_than_cap(name, value):
    """Check the number of planes that a visit adds, all of which are kept."""
    value = integer(name, value)
    if value >= CAP:
        raise ParameterError(f"{name} must be less than {CAP}, the planes kept of an example, got {value}")
    return value


def several(name, value):
    """Check the maximum number of planes of an example, at least 2: the truth has a plane, and one more is needed."""
    return check_count(name, value, low=2)


def cost_of_call(name, value):
    """Check the cost of a call of the oracle: a number of cached steps, or "clock" to measure time."""
    if isinstance(value, str):
        return check_choice(name, value, ("clock",))
    return check_number(name, value, low=0.0, strict=True)


@dataclass(frozen=True, kw_only=True)
class BlockSteps(Method):
    """A method with Frank-Wolfe steps on the blocks of single examples; see its subclasses."""

    needs: ClassVar[tuple[Any, ...]] = (LABELLINGS, BOUNDED)
    step: str = option("frank-wolfe", choice("frank-wolfe", "pairwise", "exact"))
    gap_sampling: bool = option(False, check_flag)
    average: bool = option(False, check_flag)
    batch: int = option(1, integer)

    def on_cached(self, search: Any, schedule: Any, **options: Any) -> Run:
        """Return a run on cached planes with this schedule and further options of `CachedBlocks`."""
        return cached(search, schedule, step=self.step, average=self.average, batch=self.batch, **options)


@dataclass(frozen=True, kw_only=True)
class BCFW(BlockSteps):
    """Block-coordinate Frank-Wolfe: one example after another is decoded, and its block makes a step.

    Its steps::

        start with phi_i = 0, B_i = 0 for every example i, and w = 0
        repeat passes; in a pass, for each example i in a random order
            1  (psi, l) = the plane of the best labelling of i at w, from the oracle
            2  gamma = clip((<w, psi - phi_i> + l - B_i) lam / |psi - phi_i|^2, 0, 1)
            3  (phi_i, B_i) <- (1 - gamma) (phi_i, B_i) + gamma (psi, l)
               w = -sum_i phi_i / lam
        after each pass
            4  D = B - |phi|^2 / (2 lam) is a lower bound; phi = sum_i phi_i, B = sum_i B_i
            5  every gap_check passes one more pass at a fixed point gives F(w); stop if
               F(w) - D is small enough

    In place of phi_i the run stores the planes that phi_i is a mean of, with their multipliers. Take this method to
    compare with publications; "prox-bcfw" usually takes fewer passes.

    A pass calls the oracle once for each example, in one thread, and a step costs O(d) operations for each plane known
    of the example, fewer if planes are sparse. Memory: at most 100 planes for each example, or what `memory_limit`
    allows.

    Parameters
    ----------
    step : {"frank-wolfe", "pairwise", "exact"}
        "frank-wolfe" is line 2. "pairwise" moves weight from the worst known plane of the example to the new one, and
        "exact" makes up to seven such steps, each towards the best known plane.
    gap_sampling : bool
        True draws examples in proportion to their last known block gap, instead of random permutations.
    average : bool
        True evaluates F at averages of the points, in which point k has a weight in proportion to k.
    batch : int
        Number of examples that are decoded at one point, before their blocks step.
    gap_check : int
        Number of passes between two values of F; a run can end only at these.

    Raises
    ------
    ParameterError
        If an option is out of its range; in `minimize`, if the risk has no labellings or does not declare R >= 0, and
        for another penalty than one number lam.

    References
    ----------
    Lacoste-Julien et al. (2013), Algorithm 4; Osokin et al. (2016) for pairwise steps and sampling by gaps.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.MulticlassHinge([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [0, 1, 1])
    >>> method = pb.methods.BCFW(gap_check=5, gap_sampling=True)
    >>> result = pb.minimize(risk, lam=0.5, method=method)
    >>> result.success, result.lower_bound <= result.fun
    (True, True)
    """

    name: ClassVar[str] = "bcfw"
    gap_check: int = option(10, integer)

    def begin(self, search: Any) -> Run:
        return self.on_cached(search, Plain(self.gap_check, self.gap_sampling))


@dataclass(frozen=True, kw_only=True)
class MPBCFW(BlockSteps):
    """Multi-plane BCFW: passes over known planes between passes of the oracle; a variant, or as published.

    Its steps::

        repeat
            1  a pass of BCFW, whose planes enter the working sets of their examples
            2  repeat passes in which the best plane of an example's working set takes the part
               of the oracle, until the last one raised the dual less per unit of time than the
               iteration so far
            3  planes that were not the best of their example for max_idle iterations leave
            4  after gap_check iterations: F(w) in a pass at one point;
               D = B - |phi|^2 / (2 lam) is a lower bound

    By default most cached passes visit only the planes in use, of examples that have several; idle planes in use are
    merged in pairs, certificates add planes, too, and work is counted in place of time, so that runs repeat to the
    bit. The published algorithm is `MPBCFW(visit="all", max_idle=10, max_planes=100, cost="clock")`, with the numbers
    of the authors' code. On images with a costly oracle it takes fewer calls of the oracle than the default (22 against
    37 for an example to a gap of 1e-2), in about the same time. Take either to compare with publications; "prox-bcfw"
    is faster.

    A cached step costs O(planes of the example times their entries). Memory: the planes of all examples.

    Parameters
    ----------
    step, gap_sampling, average, batch
        As in `BCFW`.
    gap_check : int
        Passes between two certificates.
    visit : {"used", "all"}
        Whether most cached passes visit only planes in use, of examples with several, or all planes of all examples.
        "all" takes Frank-Wolfe steps in permutations only.
    max_idle : int
        Number of iterations in which a plane was neither found nor the best one, after which it leaves.
    max_planes : int
        Maximum number of planes of an example.
    max_cached : int
        Maximum number of cached passes in an iteration.
    cost : float or "clock"
        Number of cached steps as which a call of the oracle counts; "clock" measures time, as in the paper. Such a run
        does not repeat to the last bit, and takes no checkpoint.

    Raises
    ------
    ParameterError
        If an option is out of its range; in `minimize`, for `cost="clock"` with a checkpoint, for a risk that does not
        declare R >= 0 or has no labellings, and for another penalty than one number lam.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.MulticlassHinge([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0, 1, 1])
    >>> published = pb.methods.MPBCFW(visit="all", max_idle=10, max_planes=100,
    ...                                   cost="clock")
    >>> pb.minimize(risk, lam=0.1, method=published).success
    True

    References
    ----------
    Shah, Kolmogorov & Lampert (2015).
    """

    name: ClassVar[str] = "mp-bcfw"
    gap_check: int = option(5, integer)
    visit: str = option("used", choice("used", "all"))
    max_idle: int = option(IDLE, integer)
    max_planes: int = option(CAP, several)
    max_cached: int = option(1000, integer)
    cost: float | str = option(20.0, cost_of_call)

    def begin(self, search: Any) -> Run:
        if self.visit == "all" and (self.step != "frank-wolfe" or self.gap_sampling):      # [Shah2015] has neither
            raise ParameterError("visit='all' takes step='frank-wolfe' and gap_sampling=False, got step="
                                 f"{self.step!r}, gap_sampling={self.gap_sampling}; leave one of them out")
        schedule = MultiPlane(self.gap_check, self.gap_sampling, self.cost, self.max_cached)
        return self.on_cached(search, schedule, cap=self.max_planes, visit=self.visit, max_idle=self.max_idle)


@dataclass(frozen=True, kw_only=True)
class ProxBCFW(Method):
    """Proximal block-coordinate Frank-Wolfe: steps on the blocks of single examples, about a moving centre.

    Its steps::

        start with phi = 0, B = 0;  in the first iteration c = w = w0
        repeat
            1  q = lam / (lam + kappa);   c = w + (1 - sqrt q) / (1 + sqrt q) (w - w_before);
               w_before = w;   w = (kappa c - phi) / (lam + kappa)
            2  in the first iterations, for each example in a random order: decode it at w, add
               the plane to its block, and maximise the dual of the proximal problem over the
               block; w follows
            3  the same without the oracle, over known planes, until the block gaps sum to a
               fraction of the gap
            4  from the last of these iterations on: decode all examples at one point, which
               gives F and new planes; the point is w, or, with stored planes once F has risen,
               the middle between w and the best point
            5  D = B - |phi|^2 / (2 lam) is a lower bound for any c; stop if the least F - D is
               within the tolerance

    The centre is not extrapolated once, that is c = w, if the last centre pulled w back or F has risen twice. Line 2 is
    for the first five iterations if planes are stored (four if `n_best` > 1). Where labels can be enumerated, the run
    stores multipliers of all labels instead, a step maximises over all of them exactly, and line 2 is for the first
    iteration, or for three with working sets of labels. For a log-loss the run stores distributions of labellings; then
    all iterations have line 2, every third has line 4, and the centre is not extrapolated.

    Take it for structured models, for classes, and for losses of one score; "auto" takes it there. Line 4 uses `n_jobs`
    threads, lines 2 and 3 use one. A step costs O(d) for each plane known of the example, fewer if planes are sparse.
    Memory: at most 100 planes for each example, or what `memory_limit` allows; for enumerable labels n_examples
    n_classes multipliers and as many scores.

    Parameters
    ----------
    kappa : float, optional
        Weight of the proximal centre. None is `sqrt(lam Rbar^2)` with Rbar^2 the mean squared norm of the planes, their
        median if labels can be enumerated; half of it with working sets of labels (64 classes or more), smaller for
        fewer sparse rows than columns in use, and at first if examples are nearly orthogonal. With a penalty it starts
        there and then balances what penalty and risk contribute to the gap. 0 is no centre.
    batch : int, optional
        Number of examples that line 2 decodes at one point, if planes are stored; None is n_examples / 32, from 1 to
        32.
    n_best : int
        Number of labellings that a call of the oracle adds, if the model can return more than the best: there are fewer
        passes, each of which costs more. Useful if the oracle takes most of the time. At most 99.

    Raises
    ------
    ParameterError
        If an option is out of its range; in `minimize`, if the risk offers no access to single examples or does not
        declare R >= 0, if it has a penalty that its blocks do not take, for `n_best` > 1 if the model returns the best
        labelling only, and if `memory_limit` is too small.

    References
    ----------
    Lin, Mairal & Harchaoui (2015) for the centre; Lacoste-Julien et al. (2013) for the blocks; Keerthi et al. (2008)
    for exact steps; Collins et al. (2008) for a log-loss; Franc & Sonnenburg (2009) for points between the best one and
    w. The combination is our own.

    Examples
    --------
    >>> import pybundle as pb
    >>> model = pb.models.Chain(n_labels=2, n_features=1)
    >>> risk = pb.risks.Structured(model, [[[0.0], [1.0]], [[1.0]]], [[0, 1], [1]])
    >>> method = pb.methods.ProxBCFW(kappa=2.0, n_best=2)
    >>> result = pb.minimize(risk, lam=0.5, method=method, tol=1e-4)
    >>> result.success, result.lower_bound <= result.fun
    (True, True)
    """

    name: ClassVar[str] = "prox-bcfw"
    needs: ClassVar[tuple[Any, ...]] = (SINGLE, BOUNDED)
    penalties: ClassVar[str] = "separable"
    kappa: float | None = option(None, or_none(number(low=0.0)))
    batch: int | None = option(None, or_none(integer))
    n_best: int = option(1, fewer_than_cap)

    def begin(self, search: Any) -> Run:
        """Return a run on multipliers of labels if these can be enumerated, distributions with a log-loss, or planes.
        """
        risk, kappa, n_best = search.risk, self.kappa, self.n_best
        if n_best > 1 and not FURTHER.holds(risk):
            raise ParameterError(f"n_best must be 1 for a model that returns the best labelling only, got {n_best}; "
                                 "chains with margin rescaling and dependency trees return more")
        if risk.log_loss_tokens is not None:
            if search.settings.record is not None and search.problem.classes is None:
                raise ParameterError("method 'prox-bcfw' keeps no evidence of a log-loss, got evidence=True; use "
                                     "'auto'")
            check_memory(search, LogLossBlocks.bytes_needed(risk), "distributions of labellings", "'lbfgs'")
            return BlockMethod(search, LogLossBlocks, Sequential(), kappa)
        if risk.has_exact_blocks and search.problem.penalty.nonneg is None:
            if search.settings.record is not None and risk.oracle is None:
                raise ParameterError("method 'prox-bcfw' keeps no evidence of a loss without labellings, got "
                                     "evidence=True; use 'auto'")
            check_memory(search, ExactBlocks.bytes_needed(risk, search.problem), "multipliers and scores",
                         "method 'oca'")
            kind = PenalisedBlocks if search.problem.even is None else ExactBlocks
            return BlockMethod(search, kind, on_labels(risk), kappa)
        if search.problem.square is None:
            raise ParameterError("method 'prox-bcfw' takes a penalty, a centre or free weights where labels can be "
                                 f"enumerated or with a log-loss, got {type(risk).__name__}; use 'oca'")
        require("method 'prox-bcfw' with weights >= 0", [LABELLINGS], risk, "use method 'oca'")
        return cached(search, accelerated(n_best), kappa, batch=self.batch or default_batch(risk),
                      n_best=n_best)


@dataclass(frozen=True, kw_only=True)
class ALM(Method):
    """Augmented Lagrangian with semismooth Newton steps, for hinge losses at fine tolerances.

    Its steps::

        Phi(w) = lam/2 |w|^2 + sum_i max_a <a, u_i(w)> - |a - alpha_i|^2 / (2 sigma),  where
            u_i(w) has the loss plus the score of each labelling of example i; the maximiser a
            in the simplex is a_i(w)
        start with alpha_i at the truths, or with the multipliers of a warm start
        repeat
            1  solve (lam + sigma A'A) d = -Phi'(w) by conjugate gradients or Cholesky factors;
               A has rows for the examples whose a_i(w) has two labellings or more
            2  w <- w + t d with t = 1, 1/2, 1/4, ... until Phi decreases enough
            3  F at w, and at the best point of the segment from the best point so far to w;
               a(w) is feasible, and so its dual value D is a lower bound; stop if both are
               close
            4  if |Phi'(w)|^2 / (2 lam) is at most a tenth of the gap:  alpha <- a(w),
               sigma <- growth sigma

    This is the proximal point method on the dual, whose step is sigma. It works on multipliers of all labels if these
    can be enumerated. Else the problem of the planes of the labellings found so far is solved in this way, to 30 % of
    the gap; then the oracle is called at its minimiser, which gives F and new planes.

    Take it for tolerances below 1e-4; "auto" does after "prox-bcfw", from whose multipliers it starts. A step costs one
    pass for the scores of d, and part of one for each product with A, at most 60 of them; or a Cholesky factor of the
    matrix of all weights (up to 2000) or of all rows of A (up to 6000). Memory: n_examples n_classes multipliers and
    scores, or the planes found, all of which are kept while they have weight.

    Parameters
    ----------
    sigma : float, optional
        First step of the proximal point method. None is `lam / (Rbar^2 sqrt(g))` with Rbar^2 the mean squared norm of
        the planes and g the relative gap at the start, at most 1.
    growth : float
        Factor of sigma from one proximal step to the next.

    Raises
    ------
    ParameterError
        If an option is out of its range; in `minimize`, if the risk has no labellings or does not declare R >= 0, for
        another penalty than one number lam, for weights that are kept at or above 0, and for a `memory_limit` if labels
        cannot be enumerated.

    References
    ----------
    Li, Sun & Toh (2018), for the lasso; here for the dual of a hinge risk.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.MulticlassHinge([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [0, 1, 1])
    >>> result = pb.minimize(risk, lam=0.5, method=pb.methods.ALM(growth=2.0), tol=1e-9)
    >>> result.success, result.lower_bound <= result.fun
    (True, True)
    """

    name: ClassVar[str] = "alm"
    needs: ClassVar[tuple[Any, ...]] = (LABELLINGS, BOUNDED)
    sigma: float | None = option(None, or_none(number(low=0.0, strict=True)))
    growth: float = option(1.5, number(low=1.0))

    def begin(self, search: Any) -> Run:
        """Return a run on multipliers of labels, or on planes if there are too many."""
        if search.problem.penalty.nonneg is not None:
            raise ParameterError("method 'alm' takes no constraints w_k >= 0; use method 'oca'")
        if search.risk.has_exact_blocks:
            return AugmentedLagrangian(search, LabelMultipliers(search.risk), self.sigma, self.growth)
        if search.settings.memory_limit is not None:
            raise ParameterError("memory_limit must be None for method 'alm' on planes of examples, which solves with "
                                 "all of them at once; use method 'prox-bcfw' or 'oca'")
        return cached(search, Exact(), core=NewtonBlocks, sigma=self.sigma, growth=self.growth)


def cached(search, schedule, kappa=None, core=CachedBlocks, **options):
    """Build a run of a block method on cached planes."""
    settings = search.settings
    return BlockMethod(search, core, schedule, kappa, memory_limit=settings.memory_limit, record=settings.record,
                       **options)


def check_memory(search, needed, what, other):
    """Refuse a memory limit below the bytes `needed` for `what`; the error suggests the method `other`."""
    limit = search.settings.memory_limit
    if limit is not None and limit < needed:
        raise ParameterError(f"memory_limit must be at least {needed} bytes for method 'prox-bcfw', {what} of "
                             f"{search.risk.n_examples} examples, got {limit}; raise it or use {other}")


def default_batch(risk):
    """Return the number of examples decoded at one point in a sequential pass."""
    return min(max(risk.n_examples // 32, 1), 32)


def on_labels(risk):
    """Build the schedule of runs on multipliers of labels.

    With working sets, the first passes look at all labels, and cached passes, of which there are many, at few labels.
    """
    if set_capacity(risk.engine):
        return Accelerated(opening=3, most_passes=30)
    return Accelerated(fraction_before=0.06, most_passes=12)


def accelerated(n_best=1):
    """Build the schedule of runs on cached planes, to which each visit of an example adds `n_best` planes."""
    # with n_best > 1 more planes are known early, and more cached passes pay off
    opening, fraction = (5, 0.2) if n_best == 1 else (4, 0.1)
    # on graphs share 0.5 took up to a third fewer passes than share 1; on chains, where F rises late, as many
    return Accelerated(opening, fraction, fraction_before=fraction, most_passes=100, share=0.5)
