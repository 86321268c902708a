"""The records of the methods on multipliers of examples: BCFW, MP-BCFW, proximal BCFW, ALM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.exceptions import ParameterError
from ...core.protocols import BOUNDED, FURTHER, LABELLINGS, SINGLE, require
from ...core.validation import check_flag
from ..method import Method, choice, integer, number, option, or_none
from ..newton.alm import AugmentedLagrangian
from ..newton.label_multipliers import LabelMultipliers
from ._label_blocks import set_capacity
from .block_method import BlockMethod
from .cached_blocks import CAP, CachedBlocks
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


@dataclass(frozen=True, kw_only=True)
class BlockSteps(Method):
    """A method with Frank-Wolfe steps on the blocks of single examples; see its subclasses."""

    needs: ClassVar[tuple] = (LABELLINGS, BOUNDED)
    step: str = option("frank-wolfe", choice("frank-wolfe", "pairwise", "exact"))
    gap_sampling: bool = option(False, check_flag)
    average: bool = option(False, check_flag)
    batch: int = option(1, integer)

    def on_cached(self, search, schedule):
        """Return a run on cached planes that averages its points if `average`."""
        if self.average and search.problem.penalty.nonneg is not None:
            raise ParameterError("average=True takes no constraints w_k >= 0; leave one of them out")
        return cached(search, schedule, step=self.step, average=self.average, batch=self.batch)


@dataclass(frozen=True, kw_only=True)
class BCFW(BlockSteps):
    """Block-coordinate Frank-Wolfe: one example after another is decoded, and its block makes a step.

        for each example i in a random order
            1  y = the best labelling of i at w, with its plane (psi, l)
            2  gamma = clip((<w, psi - phi_i> + l - B_i) lam / |psi - phi_i|^2, 0, 1)
            3  (phi_i, B_i) <- (1 - gamma) (phi_i, B_i) + gamma (psi, l);  w moves with phi = sum_i phi_i
        4  after some passes: F(w) in a pass at one point; D = B - |phi|^2 / (2 lam) is a lower bound

    Take it to compare with publications.

    Parameters
    ----------
    step : {"frank-wolfe", "pairwise", "exact"}
        "pairwise" moves weight from the worst known plane of the example to the new one, "exact" solves over all
        known ones.
    gap_sampling : bool
        Whether examples are drawn in proportion to their last gap, instead of permutations.
    average : bool
        Whether F is evaluated at averages of the points.
    batch : int
        Examples decoded at one point.
    gap_check : int
        Passes between two certificates.

    References
    ----------
    Lacoste-Julien et al. (2013), Algorithm 4; Osokin et al. (2016).
    """

    name: ClassVar[str] = "bcfw"
    gap_check: int = option(10, integer)

    def begin(self, search):
        return self.on_cached(search, Plain(self.gap_check, self.gap_sampling))


@dataclass(frozen=True, kw_only=True)
class MPBCFW(BlockSteps):
    """Multi-plane BCFW, a variant of the published one: passes over known planes between passes of the oracle.

        1  a pass of BCFW, whose planes are stored
        2  repeat passes in which the best known plane of an example takes the part of the oracle, until the last one
           raised the dual less per unit of work than the iteration so far

    Take it if decoding is expensive and a publication asks for it; "prox-bcfw" is faster.

    Parameters
    ----------
    step, gap_sampling, average, batch
        As in `BCFW`.
    gap_check : int
        Passes between two certificates.

    References
    ----------
    Shah, Kolmogorov & Lampert (2015).
    """

    name: ClassVar[str] = "mp-bcfw"
    gap_check: int = option(5, integer)

    def begin(self, search, cost=20.0):
        return self.on_cached(search, MultiPlane(self.gap_check, self.gap_sampling, cost))


@dataclass(frozen=True, kw_only=True)
class ProxBCFW(Method):
    """Proximal block-coordinate Frank-Wolfe: exact steps on blocks, around a moving centre.

        1  move the centre c, with extrapolation;  w = (kappa c - phi) / (lam + kappa)
        2  visit examples: decode at w, add the plane to the block, maximise the dual over the known planes
        3  passes over known planes alone, until their gaps sum to a fraction of the gap
        4  F(w) in a pass at one point; the dual value of the multipliers is a lower bound

    Where labels can be enumerated, a visit maximises over all of them; for a log-loss over distributions. Take it for
    structured models and for classes; "auto" takes it there.

    Parameters
    ----------
    kappa : float, optional
        Weight of the proximal centre. None is `sqrt(lam Rbar^2)` with Rbar^2 the mean squared norm of the planes, their
        median if labels can be enumerated; half of it with working sets of labels (64 classes or more), smaller for
        fewer sparse rows than columns in use, and at first if examples are nearly orthogonal. With a penalty it starts
        there and then balances what penalty and risk contribute to the gap.
    batch : int, optional
        Examples decoded at one point in a sequential pass; None is n/32, at most 32.
    n_best : int
        Labellings added per call of the oracle, if the model can return more than the best: fewer passes, each of which
        costs more. Useful if the oracle takes most of the time.
    """

    name: ClassVar[str] = "prox-bcfw"
    needs: ClassVar[tuple] = (SINGLE, BOUNDED)
    penalties: ClassVar[str] = "separable"
    kappa: float | None = option(None, or_none(number(low=0.0)))
    batch: int | None = option(None, or_none(integer))
    n_best: int = option(1, fewer_than_cap)

    def begin(self, search):
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
        refuse_penalty(search.problem, risk)
        if risk.has_exact_blocks and search.problem.penalty.nonneg is None:
            if search.settings.record is not None and risk.oracle is None:
                raise ParameterError("method 'prox-bcfw' keeps no evidence of a loss without labellings, got "
                                     "evidence=True; use 'auto'")
            check_memory(search, ExactBlocks.bytes_needed(risk, search.problem), "multipliers and scores",
                         "method 'oca'")
            kind = PenalisedBlocks if search.problem.even is None else ExactBlocks
            return BlockMethod(search, kind, on_labels(risk), kappa)
        require("method 'prox-bcfw' with weights >= 0", [LABELLINGS], risk, "use method 'oca'")
        return cached(search, accelerated(n_best), kappa, batch=self.batch or default_batch(risk),
                      n_best=n_best)


@dataclass(frozen=True, kw_only=True)
class ALM(Method):
    """Augmented Lagrangian with semismooth Newton steps, for hinge losses at fine tolerances.

        repeat
            1  w = argmin lam/2 |w|^2 + sum_i max_a <a, u_i(w)> - |a - alpha_i|^2 / (2 sigma), a in the simplex
            2  alpha_i = the maximiser there;  sigma grows
        Newton steps with a line search solve 1; each step gives F(w) and, from feasible alpha, a lower bound

    Take it for tolerances below 1e-4; "auto" does after "prox-bcfw". It works on multipliers of all labels if these can
    be enumerated, else on planes of labellings found.

    Parameters
    ----------
    sigma : float, optional
        First step of the proximal point method on the dual; None follows from the gap at the start, and is
        `lam / Rbar^2` without a warm start.
    growth : float
        Factor of sigma from one proximal step to the next.

    References
    ----------
    Li, Sun & Toh (2018).
    """

    name: ClassVar[str] = "alm"
    needs: ClassVar[tuple] = (LABELLINGS, BOUNDED)
    sigma: float | None = option(None, or_none(number(low=0.0, strict=True)))
    growth: float = option(1.5, number(low=1.0))

    def begin(self, search):
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
    """Refuse a memory limit below the bytes that are needed of `what`; another method may do with less."""
    limit = search.settings.memory_limit
    if limit is not None and limit < needed:
        raise ParameterError(f"memory_limit must be at least {needed} bytes for method 'prox-bcfw', {what} of "
                             f"{search.risk.n_examples} examples, got {limit}; raise it or use {other}")


def refuse_penalty(problem, risk):
    """Refuse a penalty for cached planes, which take a square only."""
    if problem.square is None and not risk.has_exact_blocks:
        raise ParameterError("method 'prox-bcfw' takes a penalty or free weights where labels can be enumerated or with"
                             f" a log-loss, got {type(risk).__name__}; use 'oca'")


def default_batch(risk):
    """Return the number of examples decoded at one point in a sequential pass."""
    return min(max(risk.n_examples // 32, 1), 32)


def on_labels(risk):
    """Build the schedule of runs on multipliers of labels.

    With working sets the first passes look at all labels, and the cached ones, of which there are many, at few.
    """
    if set_capacity(risk.engine):
        return Accelerated(opening=3, most_passes=30)
    return Accelerated(fraction_before=0.06, most_passes=12)


def accelerated(n_best=1):
    """Build the schedule of runs on cached planes, to which each visit of an example adds `n_best`."""
    # with n_best > 1 more planes are known early, which deserve more passes
    opening, fraction = (5, 0.2) if n_best == 1 else (4, 0.1)
    return Accelerated(opening, fraction, fraction_before=fraction, most_passes=100)
