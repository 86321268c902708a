"""The end of a run: its gap is checked in float64, and its result is made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.plane import Plane
from ..runtime.lower_bound import Bracket, ball, certify
from ..runtime.result import CROSSING, Result, Status, sentence
from ..runtime.stopping import GapBelow, relative_gap
from .diagnostics import LONG, UNFINISHED, advice, hint
from .search import fingerprint_of
from .state import Known


def confirm(run):
    """Return whether the gap meets the tolerance in float64, too, so that the run may end; else go on in float64.

    The run also ends after four attempts that failed, or if it follows the stopping rule of a paper; then `finish`
    decides the status.
    """
    if not _is_close_from_reference(run):
        return False
    search, own = run.search, _certify(run)
    if run.is_published or search.margin < 0.1 or rule_of_users(search).holds(*search.bracket.range):
        return True
    search.margin *= 0.5
    search.fun, search.values = own.fun, None           # the values of the parts had lower precision
    search.risk_value = own.fun - run.problem.value(search.w)
    search.risk = run.risk.derive(precision="float64")
    run.to_float64()
    return False


def _is_close_from_reference(run):
    """Return whether the gap is within the default of atol, which follows from the `Size` of F.

    If only atol can end the run, and the size is not known, a pass at its reference point computes the size. If that
    point is better than all points so far, the run starts again from that point.
    """
    search, size, gap = run.search, run.search.size, run.settings.gap
    if (gap.atol is not None or size.is_known or run.is_published
            or GapBelow(gap.tol).holds(search.fun, search.bound.value)):
        return True
    point = size.point()
    planes = search.planes(point)
    fun = float(planes.values.sum()) + run.problem.value(point)
    size.know(fun)
    if fun < search.fun:
        run.start(point)
        search.observe_planes(point, planes)
    return search.is_close()


def finish(run, status, ask_risk=True, risk=None):
    """Return the result, with the certificate for the best point.

    With `ask_risk=False`, for a risk that failed, the risk is not called again, but its values so far count. `risk`
    replaces the risk of the run in the last pass and as the source of error bounds.
    """
    run.settle()
    search = run.search
    if search.bound is None and not search.is_refuted and np.isfinite(search.lower_bounds).all():
        # the run ended before its first bound: take the bound that the risk declares
        search.bound = search.bound_from(Plane(float(search.lower_bounds.sum()), np.zeros(run.risk.dim)))
        search.bound_version += 1
    if search.bound is not None and not _is_certified(search):
        try:
            _certify(run, ask_risk, risk)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
    bracket = search.bracket
    if not _is_certified(search):
        lower = float(search.lower_bounds.sum()) if search.bound is None else search.bound.value
        bracket = Bracket(search.fun, -np.inf if search.is_refuted else lower, certified=False)
    elif not np.isfinite(search.risk_value):
        search.fun, search.risk_value = bracket.fun, bracket.fun - run.problem.value(search.w)
    rule, (highest, lower) = rule_of_users(search), bracket.range
    gap, success = rule.gap(highest, lower), bool(bracket.certified and rule.holds(highest, lower))
    if run.is_published:
        success = bracket.certified and status is Status.CONVERGED
    elif success and status in UNFINISHED:          # the certificate closes the gap that the run left open
        status = Status.CONVERGED
    elif status is Status.CONVERGED and not success:
        status = Status.STALLED
    trace = run.trace
    about_data = hint(search) if trace.n_passes >= LONG else ""
    return Result(
        x=search.w.copy(), fun=bracket.fun, lower_bound=lower, error=bracket.error, gap=gap,
        inference_gap=min(gap, relative_gap(highest, highest - search.inference, rule.least)),
        risk=run.risk.kind, slope=bracket.slope, certified=bracket.certified, success=success, status=status,
        certificate=None,
        ball=ball(run.problem, search.w, bracket, search.bound) if bracket.certified else None,
        message=_message(run, status, bracket, gap, about_data), hint=about_data,
        nit=trace.n_iter, n_passes=trace.n_passes, n_cached_passes=trace.n_cached_passes, n_planes=run.n_planes(),
        max_planes=trace.max_planes, seconds=trace.clock.seconds(),
        history=trace.history.columns(rule.least), state=state_kept(run),
        **({} if run.risk.remote is None else {"rounds": run.risk.remote.rounds}))


def state_kept(run):
    """Return the state from which another run may start: only the point if the risk contradicted itself."""
    search = run.search
    state = Known(search.w, np.inf, fingerprint_of(run.risk)) if search.is_refuted else run.state()
    if state is not None:
        state.size = search.size.value
    return state


# ---------------------------------------------------------------------- what users get
def for_user(search, w):
    """Return the point that users get for w: in the coordinates of their data, with free weights of least norm."""
    w = w if search.risk.shift is None else search.risk.shift.to_user(w)
    return w if search.moves is None else search.moves.least(w)


def rule_of_users(search):
    """Return the rule for the point that users get: atol is at least the change of R if its intercepts are rounded.

    It is also at least twice the rounding error of F(w) if F(w), as computed, equals the bound up to rounding, as it
    does where the minimum is 0, if that error is negligible.
    """
    rule, bracket = search.rule, search.bracket
    if search.settings.gap.atol is not None or search.w is None:
        return rule
    least = 0.0 if search.risk.shift is None else _rounding_of_intercepts(search)
    if _is_certified(search) and bracket.fun - bracket.lower_bound <= search.size.rounding:
        least = max(least, 2.0 * min(bracket.error, search.size.negligible) + 2.0 * search.size.rounding)
    return GapBelow(rule.tol, max(rule.atol, least))


def _rounding_of_intercepts(search):
    """Return a bound on the change of R when the intercepts of the best point are rounded in user coordinates."""
    constant = search.risk.constant
    return 0.5 * search.risk.shift.spacing(search.w) * (constant.linear + constant.root * max(search.fun, 0.0) ** 0.5)


def atol_met(run, fun, lower_bound):
    """Return atol in the scale of the user if it ended the run, or None if the relative gap ended the run."""
    settings = run.settings
    is_relative = run.is_published or GapBelow(settings.gap.tol).holds(fun, lower_bound)
    return None if is_relative else settings.factor * rule_of_users(run.search).atol


def _message(run, status, bracket, gap, about_data):
    search, numbers = run.search, (bracket.fun, bracket.lower_bound, bracket.error)
    if _is_certified(search) and not bracket.certified and np.isfinite(numbers).all():
        return CROSSING + (f"; {search.choice}" if search.choice else "")       # value and bound cross: no gap
    words = [search.choice, search.moves and "columns without penalty depend on each other: w has the least norm",
             run.risk.assumption]
    return sentence(status, gap, run.settings.gap.tol, "; ".join(filter(None, words)),
                    advice(run, status, bracket, about_data) if status in UNFINISHED else about_data,
                    atol_met(run, *bracket.range))


# ---------------------------------------------------------------------- the bracket
def _certify(run, ask_risk=True, risk=None):
    """Set `search.bracket` to the `Bracket` at the point that users get; return the `Bracket` at the best point.

    If the risk must not be asked and its value is not known with an error, nothing is set, and the result is None.
    """
    search, risk, found = run.search, run.risk if risk is None else risk, run.problem.dependence
    search.moves = found if ask_risk and found is not None and len(found.left_out) else None
    shift, bound, limits = run.risk.shift, search.bound, search.limits
    with search.working("oracle"):
        known = run.known_value()
        if known is None:
            known = _trusted_value(search, risk) if ask_risk else search.exact_value(risk)
        if known is None and not ask_risk:
            return None
        own = kept = certify(risk, run.problem, search.w, bound, known, limits)
        if ask_risk and (shift is not None or search.moves is not None):   # bracket at the point of users
            w = for_user(search, search.w)
            kept = certify(risk, run.problem, w if shift is None else shift.from_user(w), bound, None, limits)
            run.trace.n_passes += 1
        elif shift is not None:
            kept = replace(own, error=own.error + _rounding_of_intercepts(search))
    search.bracket, search.bracket_of = kept, (search.version, search.bound_version)
    run.trace.n_passes += known is None
    return own


def _trusted_value(search, risk):
    """Return values at the best point, and their errors, if another pass would not give better values; else None.

    A plain function would return the same values; another inexact decoding may prove less.
    """
    repeats = search.values is not None and risk is search.risk and risk.precision == "float64"
    if not repeats or (risk.values is not None and risk.decodes_exactly):
        return None
    return search.exact_value(risk) or (search.values, 0.0)


def _is_certified(search):
    return search.bracket is not None and search.bracket_of == (search.version, search.bound_version)
