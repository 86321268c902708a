"""The methods by name: which options each takes, and how its run is made."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError
from ..core.protocols import AFFINE_SCORES, BOUNDED, EPOCHS, FURTHER, LABELLINGS, SMOOTH, WORKERS, completed, require
from ..core.validation import check_choice, check_integer, check_number
from .block.block_method import BlockMethod
from .block.cached_blocks import CAP, CachedBlocks
from .block.exact_blocks import ExactBlocks
from .block.frank_wolfe import FrankWolfe
from .block.schedules import Accelerated, Exact, MultiPlane, Plain
from .bundle.asynchronous import STALENESS, Asynchronous
from .bundle.bundle_method import BundleMethod
from .bundle.policies import BestPoint, LastIterate, LineSearch, PublishedProximity
from .bundle.sgd import StochasticSubgradient
from .fallback import Relay
from .newton.alm import AugmentedLagrangian
from .objective import Ball
from .smooth.lbfgs import QuasiNewton

FINE, HANDOVER = 1e-4, 1e-3
"""Tolerances below FINE are for the augmented Lagrangian, from a gap of HANDOVER on: cold it is ten times slower."""
SLOW = 150.0
"""Passes in which exact blocks have to halve the gap, or ALM goes on: with columns of unequal size, with huge C."""
COST = 20.0
"""Visits of cached blocks that a visit of the oracle counts as, where a run may not look at the clock."""
BUNDLE = ("stop", "theta", "max_idle", "warm_start")        # options of every bundle method
BLOCKS = ("kappa", "batch", "n_best", "warm_start")
INSTEAD = {"C": "lam = 1/C", "args": "bind them in fun, as by functools.partial",
           "jac": "fun returns the value and a subgradient", "x0": "did you mean w0?"} | dict.fromkeys(
               ("bounds", "constraints"), "did you mean nonneg? There are no other constraints")
"""What to use in place of options that other packages have."""
FRANK_WOLFE = ("average", "gap_sampling", "step", "gap_check", "batch", "warm_start")


class Problem(NamedTuple):
    """What a run is made from: arguments of `minimize`, checked, and the options still as they came."""

    risk: Any
    objective: Any
    settings: Any
    options: dict
    random_state: int | None
    deterministic: bool


class Method(NamedTuple):
    """`n_parts` where the caller leaves the choice, names of options, and the maker of a run."""

    n_parts: int
    options: tuple
    make: Callable


def check_options(method, options, risk, arguments):
    """Refuses options that the method does not know; `arguments` are the names of those of `minimize`."""
    unknown = sorted(set(options) - set(METHODS[method].options))
    if not unknown:
        return
    takes = usable(method, risk)
    near = get_close_matches(unknown[0], [*takes, *arguments], 1)
    if unknown[0] in INSTEAD:
        hint = INSTEAD[unknown[0]]
    elif near:
        hint = f"did you mean {near[0]}?"
    else:
        hint = f"it takes {', '.join(takes)}"
    raise ParameterError(f"unknown option {unknown[0]!r} for method {method!r}; {hint}")


def usable(method, risk):
    """Options of a method that mean something for this risk, sorted."""
    names = set(METHODS[method].options)
    risk = completed(risk)
    if risk.has_exact_blocks:
        names -= {"batch", "n_best"} if method in ("auto", "prox-bcfw") else set()
    elif not LABELLINGS.holds(risk):
        names -= {"kappa", "batch", "n_best", "lanes"}
    elif not FURTHER.holds(risk):
        names -= {"n_best"}
    if not AFFINE_SCORES.holds(risk):
        names -= {"line_search"}
    if not WORKERS.holds(risk):
        names -= {"staleness"}
    return sorted(names)


# ---------------------------------------------------------------------- bundle methods

def bundle(problem, policy):
    return BundleMethod(problem.risk, problem.objective, policy, problem.settings)


def last_iterate(problem):
    return bundle(problem, LastIterate())


def prox_bmrm(problem):
    K = problem.options.get("K", "auto")
    K = K if isinstance(K, str) and K == "auto" else check_number("K", K, low=0.0, strict=True)
    return bundle(problem, PublishedProximity(K, check_integer("T", problem.options.get("T", 100), low=1)))


def oca(problem):
    if isinstance(problem.objective, Ball):
        return last_iterate(problem)
    mu = check_number("mu", problem.options.get("mu", 0.1), low=0.0, strict=True, high=1.0)
    can_search = AFFINE_SCORES.holds(problem.risk)
    search, limit = LineSearch(mu), problem.settings.memory_limit
    fits = limit is None or (can_search and search.working_bytes(problem.risk) <= limit // 2)
    # of a mapped file the rows that count on a segment would be a second read
    wants = problem.options.get("line_search", can_search and fits and not problem.risk.is_mapped)
    if wants:
        require("line_search=True", [AFFINE_SCORES], problem.risk, "leave the option out")
    if not wants and not problem.deterministic and WORKERS.holds(problem.risk):
        staleness = check_integer("staleness", problem.options.get("staleness", STALENESS), low=1)
        return bundle(problem, Asynchronous(staleness))
    return bundle(problem, search if wants else BestPoint())


def sgd(problem):
    require("method 'sgd'", [EPOCHS], problem.risk, "use method 'oca'")
    t0 = problem.options.get("t0")
    return bundle(problem, StochasticSubgradient(
        t0 if t0 is None else check_number("t0", t0, low=1.0), problem.random_state))


# ---------------------------------------------------------------------- smooth risks

def lbfgs(problem):
    risk, memory = problem.risk, problem.options.get("memory")
    require("method 'lbfgs'", [SMOOTH], risk, "use method 'oca', or a log-loss (pb.risks.Logistic, loss='logistic')")
    memory = memory if memory is None else check_integer("memory", memory, low=1)
    return QuasiNewton(risk, problem.objective, problem.settings, memory)


# ---------------------------------------------------------------------- block methods

def cached(problem, method, schedule, kappa=None, **settings):
    """A block method on cached planes."""
    risk = problem.risk
    require(f"method {method!r}", [LABELLINGS, BOUNDED], risk, "use method 'oca'")
    core = partial(CachedBlocks, objective=problem.objective, memory_limit=problem.settings.memory_limit,
                   record=problem.settings.record, **settings)
    return blocks(problem, core, schedule, kappa)


def blocks(problem, make_core, schedule, kappa):
    return BlockMethod(problem.risk, problem.objective, problem.settings, make_core, schedule, kappa,
                       problem.random_state or 0)


def prox_bcfw(problem):
    kappa, n_best, risk = problem.options.get("kappa"), _n_best(problem), problem.risk
    if kappa is not None:
        kappa = check_number("kappa", kappa, low=0.0)
    batch = _batch(problem, default_batch(risk))
    if risk.has_exact_blocks and problem.objective.nonneg is None:
        limit, needed = problem.settings.memory_limit, ExactBlocks.bytes_needed(risk)
        if limit is not None and limit < needed:
            raise ParameterError(f"memory_limit must be at least {needed} bytes for method 'prox-bcfw', multipliers "
                                 f"and scores of {risk.n_examples} examples, got {limit}; raise it or use method 'oca'")
        return blocks(problem, ExactBlocks, Accelerated(share_before=0.06, most_passes=12), kappa)
    return cached(problem, "prox-bcfw", accelerated(n_best), kappa, batch=batch, n_best=n_best)


def default_batch(risk):
    """Examples decoded at one point in a sequential pass."""
    return min(max(risk.n_examples // 32, 1), 32)


def accelerated(n_best=1):
    """The schedule of cached planes, of which every visit brings so many."""
    opening, share = (5, 0.2) if n_best == 1 else (4, 0.1)      # more planes are known early, and worth more passes
    return Accelerated(opening, share, share_before=share, most_passes=100)


def frank_wolfe(problem):
    require("method 'frank-wolfe'", [BOUNDED], problem.risk, "use method 'oca'")
    return FrankWolfe(problem.risk, problem.objective, problem.settings)


def bcfw(problem):
    return _averaged(problem, "bcfw", Plain(*_sampling(problem, 10)))


def mp_bcfw(problem):
    cost = COST if problem.deterministic else None
    return _averaged(problem, "mp-bcfw", MultiPlane(*_sampling(problem, 5), cost=cost))


def _averaged(problem, method, schedule):
    average = problem.options.get("average", False)
    if not isinstance(average, (bool, np.bool_)):
        raise InputTypeError(f"average must be True or False, got {average!r}")
    if average and problem.objective.nonneg is not None:
        raise ParameterError("average=True takes no constraints w_k >= 0, got nonneg; leave one of them out")
    step = check_choice("step", problem.options.get("step", "frank-wolfe"), ("frank-wolfe", "pairwise", "exact"))
    return cached(problem, method, schedule, batch=_batch(problem, 1), step=step, average=bool(average))


def auto(problem):
    """The method that the capabilities of the risk speak for, the next one for where it stalls, the reason in words."""
    risk, memory = problem.risk, problem.settings.memory_limit
    if isinstance(problem.objective, Ball):
        return _because(last_iterate(problem), "'cutting-plane': a radius is given")
    if risk.smooth:
        return _because(Relay(lbfgs(problem), (oca(problem), None, np.inf)), "'lbfgs': the risk is smooth")
    if risk.is_mapped:
        return _because(oca(problem), "'oca': the data are mapped from a file, which is read in the order of its rows")
    if memory is not None:
        return _because(oca(problem), "'oca': planes of parts can be kept under a memory limit")
    if risk.has_exact_blocks and problem.objective.nonneg is None:
        if problem.settings.gap.tol < FINE:
            run = Relay(prox_bcfw(problem), (alm(problem), HANDOVER, SLOW), (oca(problem), None, np.inf))
            return _because(run, "'prox-bcfw', then 'alm': the labels of an example can be enumerated, tol is small")
        return _because(Relay(prox_bcfw(problem), (alm(problem), None, SLOW), (oca(problem), None, np.inf)),
                        "'prox-bcfw': the labels of an example can be enumerated")
    if LABELLINGS.holds(risk) and BOUNDED.holds(risk):
        if problem.settings.gap.tol < FINE and problem.objective.nonneg is None:
            run = Relay(prox_bcfw(problem), (alm(problem), HANDOVER, SLOW), (oca(problem), None, np.inf))
            return _because(run, "'prox-bcfw', then 'alm': examples can be decoded one at a time, tol is small")
        return _because(Relay(prox_bcfw(problem), (oca(problem), None, np.inf)),
                        "'prox-bcfw': examples can be decoded one at a time")
    return _because(oca(problem), "'oca': the risk gives planes of parts only")


def _because(run, words):
    getattr(run, "_current", run).choice = f"auto chose {words}"
    return run


def _batch(problem, default):
    return check_integer("batch", problem.options.get("batch", default), low=1)


def _n_best(problem):
    n_best = check_integer("n_best", problem.options.get("n_best", 1), low=1)
    if n_best >= CAP:
        raise ParameterError(f"n_best must be less than {CAP}, the planes kept of an example, got {n_best}")
    if n_best > 1 and not FURTHER.holds(problem.risk):
        raise ParameterError(f"n_best must be 1 for a model that gives the best labelling only, got {n_best}; chains "
                             "with margin rescaling and dependency trees give more")
    return n_best


def _sampling(problem, gap_check):
    gap_sampling = problem.options.get("gap_sampling", False)
    if not isinstance(gap_sampling, (bool, np.bool_)):
        raise InputTypeError(f"gap_sampling must be True or False, got {gap_sampling!r}")
    return check_integer("gap_check", problem.options.get("gap_check", gap_check), low=1), bool(gap_sampling)


# ---------------------------------------------------------------------- methods on the multipliers of all labels

def alm(problem):
    risk, objective = problem.risk, problem.objective
    if objective.nonneg is not None:
        raise ParameterError("method 'alm' takes no constraints w_k >= 0, got nonneg; use method 'oca'")
    sigma = problem.options.get("sigma")
    if sigma is not None:
        sigma = check_number("sigma", sigma, low=0.0, strict=True)
    growth = check_number("growth", problem.options.get("growth", 1.5), low=1.0)
    if risk.multipliers is None:
        if problem.settings.memory_limit is not None:
            raise ParameterError("memory_limit must be None for method 'alm' on planes of examples, which solves with "
                                 "all of them at once; use method 'prox-bcfw' or 'oca'")
        return cached(problem, "alm", Exact(), sigma=sigma, growth=growth)
    return AugmentedLagrangian(risk, objective, problem.settings, sigma, growth)


METHODS = {
    "cutting-plane": Method(1, BUNDLE, last_iterate),
    "bmrm": Method(1, BUNDLE, last_iterate),
    "prox-bmrm": Method(1, (*BUNDLE, "K", "T"), prox_bmrm),
    "oca": Method(16, (*BUNDLE, "mu", "line_search", "staleness"), oca),
    "sgd": Method(1, (*BUNDLE, "t0"), sgd),
    "bcfw": Method(1, FRANK_WOLFE, bcfw),
    "mp-bcfw": Method(1, FRANK_WOLFE, mp_bcfw),
    "prox-bcfw": Method(1, BLOCKS, prox_bcfw),
    "frank-wolfe": Method(1, ("warm_start",), frank_wolfe),
    "auto": Method(16, (*BUNDLE, *BLOCKS), auto),
    "lbfgs": Method(1, ("memory", "warm_start"), lbfgs),
    "alm": Method(1, ("sigma", "growth", "warm_start"), alm),
}
