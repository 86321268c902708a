"""How a run ends: is its best point close enough in float64, too, and what result and message follow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.plane import Plane
from ..runtime.lower_bound import Bracket, ball, certify
from ..runtime.result import CROSSING, Result, Status, sentence
from ..runtime.stopping import GapBelow
from .diagnostics import advice, hint


def confirm(run):
    """Return whether the float64 certificate meets the tolerance, too; if not, the run continues in float64.

    After four failed attempts, and for the stopping rule of a paper, return True as well; `finish` decides the status.
    """
    if not _is_close_from_zero(run):
        return False
    own, bracket = _certify(run), run.bracket
    if run.settings.stop == "published" or run.margin < 0.1 or run.rule_of_users.holds(*bracket.range):
        return True
    run.margin *= 0.5
    run.fun = own.fun
    run.risk_value = own.fun - run.objective.value(run.w)
    run.best_values = None         # they are from a coarser pass
    run.risk = run.risk.derive(precision="float64")
    run.to_float64()
    return False


def _is_close_from_zero(run):
    """Whether the run may end by the default of atol, which follows from F at `home` and not from the start.

    One pass if the relative gap has not ended the run and that value is not known; the run starts again from there
    if it is better than all points so far.
    """
    gap = run.settings.gap
    if (gap.atol is not None or run.trace.knows_zero or run.settings.stop == "published"
            or GapBelow(gap.tol).holds(run.fun, run.bound.value)):
        return True
    home = run.home
    planes = run.evaluate(home)
    value = float(planes.values.sum())
    fun = value + run.objective.value(home)
    run.trace.size, run.trace.knows_zero = run.size_of(fun), True
    if fun < run.fun:
        run.start(home)
        run.observe(home, value, planes.values)
    return run.is_close()


def finish(run, status, ask_risk=True, risk=None):
    """Return the result, with the certificate for the best point.

    A risk that failed is not called again (`ask_risk`), but its values so far count. `risk` replaces that of the run in
    the last pass and for its errors.
    """
    run = run.at_work
    run.settle()
    if run.bound is None and not run.is_refuted and np.isfinite(run.lower_bounds).all():
        # it ended before its first bound: there is what the risk declares
        run.bound = run.proves(Plane(float(run.lower_bounds.sum()), np.zeros(run.risk.dim)))
    if run.bound is not None and not _is_certified(run):
        try:
            _certify(run, ask_risk, risk)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
    bracket = run.bracket
    if not _is_certified(run):
        lower = float(run.lower_bounds.sum()) if run.bound is None else run.bound.value
        bracket = Bracket(run.fun, -np.inf if run.is_refuted else lower, certified=False)
    elif not np.isfinite(run.risk_value):
        run.fun, run.risk_value = bracket.fun, bracket.fun - run.objective.value(run.w)
    rule, (highest, lower) = run.rule_of_users, bracket.range
    gap, success = rule.gap(highest, lower), bracket.certified and rule.holds(highest, lower)
    if run.settings.stop == "published":
        success = bracket.certified and status is Status.CONVERGED
    elif success and status is Status.STALLED:      # by what the certificate has gained
        status = Status.CONVERGED
    elif status is Status.CONVERGED and not success:
        status = Status.STALLED
    trace, about_data = run.trace, hint(run)
    return Result(
        x=run.w.copy(), fun=bracket.fun, lower_bound=lower, error=bracket.error, gap=gap,
        slope=bracket.slope, certified=bracket.certified, success=success, status=status, certificate=None,
        ball=ball(run.objective, run.w, bracket, run.bound) if bracket.certified else None,
        message=_message(run, status, bracket, gap, about_data), hint=about_data,
        nit=trace.n_iter, n_passes=trace.n_passes, n_cached_passes=trace.n_cached_passes, n_planes=run.n_planes(),
        max_planes=trace.max_planes, seconds=trace.clock.seconds(),
        history=trace.history.arrays(rule.least), state=run.kept_state(),
        **({} if run.risk.remote is None else {"rounds": run.risk.remote.rounds}))


def atol_met(run, fun, lower_bound):
    """Return atol in the scale of the user if it ended the run, None if the relative gap did."""
    is_relative = run.settings.stop == "published" or GapBelow(run.settings.gap.tol).holds(fun, lower_bound)
    return None if is_relative else run.settings.factor * run.rule_of_users.atol


def _message(run, status, bracket, gap, about_data):
    numbers = bracket.fun, bracket.lower_bound, bracket.error
    if _is_certified(run) and not bracket.certified and np.isfinite(numbers).all():
        return CROSSING + (f"; {run.choice}" if run.choice else "")       # a gap would mean nothing
    words = [run.choice, run.moves and "columns without penalty depend on each other: w has the least norm"]
    return sentence(status, gap, run.settings.gap.tol, "; ".join(filter(None, words)),
                    advice(run, status, bracket, about_data), atol_met(run, *bracket.range))


def _certify(run, ask_risk=True, risk=None):
    """Set `run.bracket` for the point that the user gets; return the bracket of the run's own point."""
    risk, found = run.risk if risk is None else risk, run.objective.dependence
    run.moves = found if ask_risk and found is not None and len(found.left_out) else None
    shift = run.risk.shift
    with run.trace.clock.phase("oracle"):
        known = run.known_value()
        if known is None:
            known = _trusted_value(run, risk) if ask_risk else run.evaluated_value(risk)
        if known is None and not ask_risk:
            return None
        own = kept = certify(risk, run.objective, run.w, run.bound, known, run.limits)
        if ask_risk and (shift is not None or run.moves is not None):   # at the point of users
            w = run.for_user(run.w)
            kept = certify(risk, run.objective, w if shift is None else shift.from_user(w), run.bound, None, run.limits)
            run.trace.n_passes += 1
        elif shift is not None:
            kept = replace(own, error=own.error + run.rounding_of_intercepts())
    run.bracket, run.bracket_of = kept, (run.w, run.bound)      # both, also where Ctrl-C ends a pass
    run.trace.n_passes += known is None
    return own


def _trusted_value(run, risk):
    """Return the values at the best point if another pass would only repeat them, as one of a plain function."""
    repeats = run.best_values is not None and risk is run.risk and risk.precision == "float64"
    if not repeats or risk.values is not None:
        return None
    return run.evaluated_value(risk) or (run.best_values, 0.0)


def _is_certified(run):
    return run.bracket is not None and run.bracket_of[0] is run.w and run.bracket_of[1] is run.bound
