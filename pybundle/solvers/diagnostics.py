"""Advice for runs that ended before the gap reached the tolerance, or took long: what to change in the problem."""

from __future__ import annotations

import numpy as np

from ..core.plane import Plane
from ..runtime.result import Status
from .scaling import columns_in_words, scaling

UNFINISHED = (Status.ITERATION_LIMIT, Status.TIME_LIMIT, Status.STALLED, Status.INFERENCE)
VERY_LONG = 500     # number of passes after which smaller differences between columns are reported, too
LONG = 100          # passes after which the scaling of flat data is examined, as well scaled data need fewer passes
MANY, WIDE = 300, 0.1       # a relative gap above WIDE after MANY passes is due to the problem, not to a limit
NEAR = 1e-6         # a best value below this fraction of F(0) counts as about 0
FINEST = 1e-8       # largest rounding error, as a fraction of F, of a well scaled problem


def hint(search):
    """Return a sentence on the data if their scaling explains that a run took LONG passes or more, else ""."""
    return scaling(search.risk, uneven=100.0 if search.trace.n_passes < VERY_LONG else 30.0)


def is_separated(search, bracket):
    """Return whether F has no minimum because the classes are separated and no weight has a penalty.

    This holds for a log-loss if the loss of every example is below log 2: then every truth has the largest score, and F
    falls to 0 along the ray through the best point.
    """
    problem, weights = search.problem, getattr(search.risk, "sample_weight", None)
    if not (getattr(search.risk, "log_loss", False) and weights is not None and problem.is_free.any()):
        return False
    penalty = problem.penalty
    lower, upper, has_rate = penalty.lower, penalty.upper, (penalty.l2 > 0.0) | (penalty.l1 > 0.0)
    is_cone = problem.rows is None and np.isin([lower, -upper], [0.0, -np.inf]).all()
    return bool(is_cone and not (has_rate & (lower < upper)).any()
                and bracket.fun < np.log(2.0) * np.min(weights[weights > 0.0]))


def advice(run, status, bracket, about_data):
    """Return advice for a run whose status is in UNFINISHED, or "" if there is none; `about_data` is from `hint`."""
    if status is Status.INFERENCE:
        return ""
    search, found, problem, tol = run.search, [], run.problem, run.settings.gap.tol
    difference, size = bracket.fun + bracket.error - bracket.lower_bound, search.size.value
    is_near_zero = bracket.fun == 0.0 or max(difference, abs(bracket.fun)) <= NEAR * abs(size)
    if not search.size.is_known and bracket.lower_bound > 0.1 * abs(bracket.fun):
        is_near_zero = False        # `size` is an estimate, and huge if the run started far away
    is_wide = difference > WIDE * abs(bracket.fun) and run.trace.n_passes >= MANY and not is_near_zero
    is_rough = bracket.error > max(0.1 * tol, FINEST) * abs(bracket.fun)
    if is_near_zero and run.risk.user_rows is None:         # the error is due to cancellation, not to data
        is_rough = False
    if is_near_zero:
        found.append(f"the objective is about 0: pass atol, {2.0 * run.settings.factor * difference:.1g} holds here")
    if run.settings.memory_limit is not None and (status is Status.STALLED or run.is_short_of_memory()):
        signs = "" if problem.penalty.nonneg is None else " (sign constraints use part of it)"
        found.append(f"raise memory_limit{signs}")
    is_known = search.limits.is_proven or problem.anchors is not None
    n_free = 0 if is_known else int(np.count_nonzero(problem.is_free))
    is_unbounded = is_separated(search, bracket)
    if is_unbounded:
        found.append("the classes are separable: without a penalty F has no minimum; penalise the weights (finite C)")
    elif n_free:
        near = [] if problem.dependence is None else problem.dependence.near
        found.append(f"the bound needs limits of the {n_free} weights without penalty: " + (
            f"leave out {columns_in_words(run.risk, near)}, but for rounding a sum of others" if near
            else "penalise them, or leave out columns that are nearly sums of others, or not 0 in a single class only"))
    if about_data:
        found.append(about_data)
    elif ((is_wide and not n_free) or is_rough) and not is_unbounded:
        weak = "take a smaller radius" if problem.ball is not None else "raise lam (lower C)"
        found.append(f"{weak} or scale X to about 1: the regularisation is weak for data of this scale")
    if search.bound is not None and run.risk.remote is not None and run.risk.remote.is_single:
        exact = problem.lower_bound(Plane(search.bound.plane.offset, search.bound.plane.slope))
        if exact - search.bound.value > 0.5 * tol * abs(bracket.fun):
            found.append("use compress='exact': the rounding of planes to float32 is counted against the bound")
    if not search.choice and (is_wide or status is Status.STALLED):
        found.append("use method 'auto'")
    return "; ".join(found)
