"""Advice for runs that ended before the gap reached the tolerance, or took long: what to change in the problem."""

from __future__ import annotations

import numpy as np

from ..core.plane import Plane
from ..runtime.result import Status
from .scaling import columns_in_words, scaling

UNFINISHED = (Status.ITERATION_LIMIT, Status.TIME_LIMIT, Status.STALLED)
VERY_LONG = 500     # passes after which less uneven columns are named, too
LONG = 100          # passes after which the scaling of flat data is examined: well scaled data need fewer


def hint(run):
    """Return what in the data explains many passes; "" if there were few, or nothing does."""
    passes = run.trace.n_passes
    return "" if passes < LONG else scaling(run.risk, uneven=100.0 if passes < VERY_LONG else 30.0)


def is_separated(run, certificate):
    """Return whether every loss of a log-loss is below log 2, so that all truths win, and no weight has a penalty.

    Along the ray through this point F falls to 0, which it has nowhere.
    """
    objective, weights = run.objective, getattr(run.risk, "sample_weight", None)
    if not (getattr(run.risk, "log_loss", False) and weights is not None and objective.is_free.any()):
        return False
    penalty = objective.penalty
    lower, upper, has_rate = penalty.lower, penalty.upper, (penalty.l2 > 0.0) | (penalty.l1 > 0.0)
    is_cone = objective.rows is None and np.isin([lower, -upper], [0.0, -np.inf]).all()
    return bool(is_cone and not (has_rate & (lower < upper)).any()
                and certificate.fun < np.log(2.0) * np.min(weights[weights > 0.0]))


def advice(run, status, certificate, about_data, many=300, wide=0.1, near=1e-6, finest=1e-8):
    """Return advice for a finished run, or "".

    Parameters
    ----------
    run : Run
    status : Status
    certificate : Bracket
    about_data : str
        What `hint` returns.
    many, wide : float
        If the gap is still so wide after so many passes, the problem is the cause, not the limit.
    near : float
        A best value below this fraction of F(0) counts as about 0.
    finest : float
        Largest rounding error, as a fraction of F, of a well scaled problem.
    """
    found, objective, tol = [], run.objective, run.settings.gap.tol
    if status not in UNFINISHED:
        return about_data
    difference, size = certificate.fun + certificate.error - certificate.lower_bound, run.trace.size
    is_near_zero = certificate.fun == 0.0 or max(difference, abs(certificate.fun)) <= near * abs(size)
    if not run.trace.knows_zero and certificate.lower_bound > 0.1 * abs(certificate.fun):
        is_near_zero = False        # a far start makes `size` vast
    is_wide = difference > wide * abs(certificate.fun) and run.trace.n_passes >= many and not is_near_zero
    is_rough = certificate.error > max(0.1 * tol, finest) * abs(certificate.fun)
    if is_near_zero and run.risk.examples is None:          # values cancel; there are no data to scale
        is_rough = False
    if is_near_zero:
        found.append(f"the objective is about 0: pass atol, {2.0 * run.settings.factor * difference:.1g} holds here")
    if run.settings.memory_limit is not None and (status is Status.STALLED or run.is_short_of_memory()):
        signs = "" if objective.nonneg is None else " (sign constraints use part of it)"
        found.append(f"raise memory_limit{signs}")
    is_known = run.are_weights_limited or objective.anchors is not None
    n_free = 0 if is_known else int(np.count_nonzero(objective.is_free))
    is_unbounded = is_separated(run, certificate)
    if is_unbounded:
        found.append("the classes are separable: without a penalty F has no minimum; penalise the weights (finite C)")
    elif n_free:
        near = [] if objective.dependence is None else objective.dependence.near
        found.append(f"the bound needs limits of the {n_free} weights without penalty: " + (
            f"leave out {columns_in_words(run.risk, near)}, but for rounding a sum of others" if near
            else "penalise them, or leave out columns that are nearly sums of others"))
    if about_data:
        found.append(about_data)
    elif ((is_wide and not n_free) or is_rough) and not is_unbounded:
        weak = "take a smaller radius" if objective.radius is not None else "raise lam (lower C)"
        found.append(f"{weak} or scale X to about 1: the regularisation is weak for data of this scale")
    if run.bound is not None and run.risk.remote is not None and run.risk.remote.is_single:
        exact = objective.lower_bound(Plane(run.bound.plane.offset, run.bound.plane.slope))
        if exact - run.bound.value > 0.5 * tol * abs(certificate.fun):
            found.append("use compress='exact': the rounding of planes to float32 is counted against the bound")
    if not run.choice and (is_wide or status is Status.STALLED):
        found.append("use method 'auto'")
    return "; ".join(found)
