"""What to change where a run ended before its gap reached the tolerance, beside the tolerance and the limits."""

from __future__ import annotations

from ..runtime.result import Status
from .objective import Ball

UNFINISHED = (Status.ITERATION_LIMIT, Status.TIME_LIMIT, Status.STALLED)
MANY = 300          # passes after which a gap still above WIDE tells of the problem, not of the limit
WIDE = 0.1
FINEST = 1e-8       # share of F that rounding takes of it in a well scaled problem at most


def advice(run, status, certificate):
    """Words for a finished run, "" where there is nothing to say.

    Parameters
    ----------
    run : Run
    status : Status
    certificate : Bracket
    """
    if status not in UNFINISHED:
        return ""
    found, objective, tol = [], run.objective, run.settings.gap.tol
    is_wide = certificate.gap > WIDE and run.trace.n_passes >= MANY
    if run.settings.memory_limit is not None and (status is Status.STALLED or run.is_short_of_memory()):
        signs = "" if objective.nonneg is None else ", where weights that must not be negative take the room of planes"
        found.append(f"raise memory_limit{signs}")
    if is_wide or certificate.error > max(0.1 * tol, FINEST) * abs(certificate.fun):
        weak = "take a smaller radius" if isinstance(objective, Ball) else "raise lam (lower C)"
        found.append(f"{weak} or scale X to about 1: the regularisation is weak for data of this scale")
    if getattr(run.risk, "is_single", False) and run.bound is not None:
        exact = objective.lower_bound(run.bound.offset, run.bound.phi)
        if exact - run.bound.value > 0.5 * tol * abs(certificate.fun):
            found.append("use compress='exact': the rounding of planes to float32 is counted against the bound")
    if not run.choice and (is_wide or status is Status.STALLED):
        found.append("use method 'auto'")
    return "; ".join(found)
