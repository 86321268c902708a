"""Methods on the multipliers of examples: proximal BCFW, BCFW, MP-BCFW, augmented Lagrangian."""

from __future__ import annotations

from ...core.exceptions import ParameterError
from ...core.protocols import BOUNDED, FURTHER, LABELLINGS, SINGLE, STORED, require
from ...core.validation import check_choice, check_flag, check_integer, check_number
from ..method import WARM_START, Method, Option, choice, integer, number, or_none
from ..newton.alm import AugmentedLagrangian
from ..newton.label_multipliers import LabelMultipliers
from ._label_blocks import set_capacity
from .block_method import BlockMethod
from .cached_blocks import CAP, IDLE, CachedBlocks
from .exact_blocks import ExactBlocks
from .log_loss_blocks import LogLossBlocks
from .newton_blocks import NewtonBlocks
from .penalised_blocks import PenalisedBlocks
from .schedules import Accelerated, Exact, MultiPlane, Plain, Sequential


def cached(search, schedule, kappa=None, core=CachedBlocks, **options):
    """Build a run of a block method on cached planes."""
    settings = search.settings
    return BlockMethod(search, core, schedule, kappa, memory_limit=settings.memory_limit, record=settings.record,
                       **options)


def prox_bcfw(search, kappa, batch, n_best):
    """Build a run on multipliers of labels if these can be enumerated, distributions with a log-loss, or planes."""
    risk = search.risk
    if n_best > 1 and not FURTHER.holds(risk):
        raise ParameterError(f"n_best must be 1 for a model that returns the best labelling only, got {n_best}; chains "
                             "with margin rescaling and dependency trees return more")
    if risk.log_loss_tokens is not None:
        if search.settings.record is not None and search.problem.classes is None:
            raise ParameterError("method 'prox-bcfw' keeps no evidence of a log-loss, got evidence=True; use 'auto'")
        check_memory(search, LogLossBlocks.bytes_needed(risk), "distributions of labellings", "'lbfgs'")
        return BlockMethod(search, LogLossBlocks, Sequential(), kappa)
    refuse_penalty(search.problem, risk)
    if risk.has_exact_blocks and search.problem.penalty.nonneg is None:
        if search.settings.record is not None and risk.oracle is None:
            raise ParameterError("method 'prox-bcfw' keeps no evidence of a loss without labellings, got "
                                 "evidence=True; use 'auto'")
        check_memory(search, ExactBlocks.bytes_needed(risk, search.problem), "multipliers and scores", "method 'oca'")
        kind = PenalisedBlocks if search.problem.even is None else ExactBlocks
        return BlockMethod(search, kind, on_labels(risk), kappa)
    require("method 'prox-bcfw' with weights >= 0", [LABELLINGS], risk, "use method 'oca'")
    return cached(search, accelerated(n_best), kappa, batch=default_batch(risk) if batch is None else batch,
                  n_best=n_best)


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


def bcfw(search, gap_check, gap_sampling, **options):
    """Build a BCFW run."""
    return cached(search, Plain(gap_check, gap_sampling), **options)


def mp_bcfw(search, gap_check, gap_sampling, cost, max_cached, max_planes, **options):
    """Build an MP-BCFW run."""
    if options["visit"] == "all" and (options["step"] != "frank-wolfe" or gap_sampling):      # it knows no gaps
        raise ParameterError("visit='all' takes step='frank-wolfe' and gap_sampling=False, got step="
                             f"{options['step']!r}, gap_sampling={gap_sampling}; leave one of them out")
    return cached(search, MultiPlane(gap_check, gap_sampling, cost, max_cached), cap=max_planes, **options)


def alm(search, sigma, growth):
    """Build a run of the augmented Lagrangian method on multipliers of labels, or on planes if there are too many."""
    if search.problem.penalty.nonneg is not None:
        raise ParameterError("method 'alm' takes no constraints w_k >= 0, got nonneg; use method 'oca'")
    if search.risk.has_exact_blocks:
        return AugmentedLagrangian(search, LabelMultipliers(search.risk), sigma, growth)
    if search.settings.memory_limit is not None:
        raise ParameterError("memory_limit must be None for method 'alm' on planes of examples, which solves with "
                             "all of them at once; use method 'prox-bcfw' or 'oca'")
    return cached(search, Exact(), core=NewtonBlocks, sigma=sigma, growth=growth)


def fewer_than_cap(name, value):
    """Check the number of planes that a visit adds, all of which are kept."""
    value = integer(name, value)
    if value >= CAP:
        raise ParameterError(f"{name} must be less than {CAP}, the planes kept of an example, got {value}")
    return value


def several(name, value):
    """Check the most planes kept of an example, which are the truth and another one at least."""
    return check_integer(name, value, low=2)


def cost_of_call(name, value):
    """Check the number of cached steps as which a call of the oracle counts, or "clock"."""
    if isinstance(value, str):
        return check_choice(name, value, ("clock",))
    return check_number(name, value, low=0.0, strict=True)


BLOCKS = {"kappa": Option(None, or_none(number(low=0.0)), (SINGLE,)), "batch": Option(None, integer, (STORED,)),
          "n_best": Option(1, fewer_than_cap, (FURTHER,)), **WARM_START}
STEPS = {"average": Option(False, check_flag), "gap_sampling": Option(False, check_flag),
         "step": Option("frank-wolfe", choice("frank-wolfe", "pairwise", "exact")),
         "batch": Option(1, integer, (LABELLINGS,)), **WARM_START}
PROX_BCFW = Method("prox-bcfw", prox_bcfw, BLOCKS, needs=(SINGLE, BOUNDED),
                   penalties="separable")
BCFW = Method("bcfw", bcfw, {**STEPS, "gap_check": Option(10, integer)}, needs=(LABELLINGS, BOUNDED))
CACHED = {"visit": Option("used", choice("used", "all")), "max_idle": Option(IDLE, integer),
          "max_planes": Option(CAP, several), "max_cached": Option(1000, integer), "cost": Option(20.0, cost_of_call)}
MP_BCFW = Method("mp-bcfw", mp_bcfw, {**STEPS, **CACHED, "gap_check": Option(5, integer)}, needs=(LABELLINGS, BOUNDED))
ALM = Method("alm", alm, {"sigma": Option(None, or_none(number(low=0.0, strict=True))),
                   "growth": Option(1.5, number(low=1.0)), **WARM_START},
             needs=(LABELLINGS, BOUNDED))
