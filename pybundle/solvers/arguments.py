"""Checks the arguments of a solve, and turns them into the objects that a run needs."""

from __future__ import annotations

import numbers
from dataclasses import replace

import numpy as np
from scipy import LowLevelCallable

from ..core.exceptions import InputTypeError, ParameterError
from ..core.protocols import check_risk, completed, is_risk
from ..core.validation import (
    bool_array,
    check_integer,
    check_number,
    check_vector,
    is_scalar,
)
from ..features.dependence import dependence_in
from ..models.decoded import takes_accuracy
from ..proof.anchors import anchors_of
from ..proof.given import penalty_of
from ..proof.score_limits import score_limits
from ..prox import Box, Penalty, SquaredL2
from ..prox.base import names_of
from ..prox.of_norm import Square
from ..prox.separable import NOTHING, spread
from ..risks import Function
from ..runtime.executors import single_threaded_blas
from ..runtime.stopping import GapBelow, MaxIterations, TimeLimit
from .bundle.bundle_method import parts_within
from .bundle.constraints import as_rows, check_feasible
from .methods import METHODS, is_in_ball
from .plane_checks import lower_bounds_of
from .problem.problem import Problem
from .state import Settings, is_fine

LARGEST = 1e100
"""Bound on lam, radius, their inverses and the entries of w0, so that products of squares stay finite."""


def as_risk(risk, w0):
    """Return the argument `risk` as an object with all members of `RiskBase`."""
    if isinstance(w0, numbers.Real):
        raise ParameterError(f"w0 must be a vector, got the number {w0}; if this is the regularisation constant, write "
                             f"lam={w0}")
    if is_risk(risk):
        check_risk(risk)
        return completed(risk)
    if isinstance(risk, LowLevelCallable):
        raise InputTypeError("risk must have a dimension, got a LowLevelCallable, which has none; pass "
                             "pb.risks.Function(compiled, dim, n_parts), or for the oracle of single examples "
                             "pb.risks.ExampleFunctions(solve, plane, n_examples, dim, label_size)")
    if not callable(risk):
        raise InputTypeError(f"risk must be a risk or a callable fun(w) -> (value, subgradient), "
                             f"got {type(risk).__name__}")
    if w0 is None:
        raise ParameterError("w0 must be given with a plain callable, because it defines the dimension; or pass "
                             "pb.risks.Function(fun, dim)")
    w0 = check_vector("w0", w0)
    how = {"accuracy": np.inf} if takes_accuracy(risk) else {}
    with single_threaded_blas():         # because later calls of `risk` have one thread, too
        answers = [risk(w0.copy(), **how)]      # this shows the number of parts, and `replayed` returns it at w0

    def replayed(w, **how):
        return answers.pop() if answers and np.array_equal(w, w0) else risk(w, **how)

    replayed.__wrapped__ = risk         # `Function` reads the parameters of `risk`
    try:
        shape = np.shape(answers[0][0])
    except (TypeError, ValueError, IndexError):      # Function raises the error for a wrong answer
        shape = ()
    return Function(replayed, len(w0), n_parts=shape[0] if shape else 1)


def signs_of(risk):
    """Return the constraints w_k >= 0 of a risk as a mask, or None if there are none."""
    if risk.nonneg is None:
        return None
    mask = bool_array("nonneg of the risk", risk.nonneg, (risk.dim,), "it is a mask of the weights")
    return mask.copy() if mask.any() else None


def make_problem(method, risk, signs=None, n=1, *, lam=None, penalty=None, constraints=None):
    """Return the `Problem` of lam or of penalty: exactly one of these is given, and is multiplied by n."""
    if (lam is None) == (penalty is None):
        raise ParameterError("exactly one of lam and penalty must be given, got "
                             + ("none of them" if lam is None else "lam and penalty"))
    if penalty is not None and is_in_ball(penalty):
        if constraints is not None:
            raise ParameterError("constraints take lam or another penalty, got Ball; pass Box and constraints")
        if method.name not in ("bmrm", "auto"):
            raise ParameterError(f"penalty Ball belongs to methods 'cutting-plane' and 'auto', got method="
                                 f"{method.name!r}; pass lam")
    if lam is not None and is_scalar(lam):
        lam = _check_scale("lam", lam)
        if risk.free is None and constraints is None:
            return Problem(Square(n * lam, signs))
        penalty = SquaredL2(lam)
    elif lam is not None:
        lam = check_vector("lam", lam, risk.dim if risk.free is None else np.count_nonzero(~risk.free))
        if lam.min() < 0.0 or lam.max() > LARGEST:
            raise ParameterError(f"lam must lie between 0 and {LARGEST:g}, got {lam.min():g} to {lam.max():g}; scale "
                                 "the risk")
        penalty = SquaredL2(lam)
    return _penalised(penalty, risk, signs, n, constraints)


def _penalised(penalty, risk, signs, n, constraints):
    """Return the `Problem` of a penalty and of linear constraints; `signs` become bounds of the penalty."""
    if not isinstance(penalty, Penalty):
        raise InputTypeError(f"penalty must be a penalty of pybundle.prox, got {type(penalty).__name__}; for "
                             "lam/2 |w|^2 pass lam")
    if risk.free is not None and not is_in_ball(penalty):
        penalty = _of_held(penalty, ~risk.free)
    if signs is not None and not penalty.is_separable and not is_in_ball(penalty):
        raise ParameterError("a risk with nonneg takes lam, Ball or a separable penalty, got "
                             f"{names_of(penalty)}; pass one of these")
    if signs is not None:
        penalty = penalty + Box(np.where(signs, 0.0, -np.inf))
    # the intercept of centred columns is b + <means, w>, which a sign of the intercept b does not bound
    means = None if signs is not None and risk.free is not None and (signs & risk.free).any() else risk.means
    omega = penalty.canonical(risk.dim)
    if omega.ball is not None:
        _check_scale("radius", omega.radius)
        return Problem(omega)
    if omega.entries is not None:
        _check_sizes(omega)
        if constraints is None and _is_square(omega):
            held = omega.lower == 0.0
            return Problem(Square(n * float(omega.l2[0]), held if held.any() else None))
    if not omega.has_exact_prox(risk.dim):
        raise ParameterError("penalty must have an exact prox, got OverlappingGroupLasso with sweeps=1 of groups that "
                             "are no tree; pass more sweeps, such as 1000")
    if not omega.has_bound():
        raise ParameterError(f"penalty must prove lower bounds, got {names_of(omega)} without a method least(phi, "
                             "error), or with positive moduli without a minimiser(phi, weight, centre); write it, or "
                             "add SquaredL2(rate)")
    rows = None if constraints is None else as_rows(constraints, risk.dim)
    if rows is not None:
        check_feasible(Problem(omega, 0.0, rows=rows))
    problem = Problem(omega, float(lower_bounds_of(risk).sum()), float(n), means, rows)
    if problem.is_free.any():
        problem = _bounded(problem, risk)
    steep = np.full(risk.dim, LARGEST)
    if min(problem.penalty.scaling(steep), problem.penalty.scaling(-steep)) < 1.0 and not np.isfinite(
            problem.floor):
        raise ParameterError("penalty proves no lower bound for a risk without lower_bounds, because it does not grow "
                             "faster than its slopes; add SquaredL2 or Box, or let the risk declare lower_bounds")
    return problem


def _bounded(problem, risk):
    """Return the problem with free weights bounded, if possible: by anchors, dependent columns, or `score_limits`."""
    omega, means, rows = problem.penalty, problem.means, problem.rows
    anchors = anchors_of(risk, omega, means, rows)
    has_means = anchors is not None and anchors.means is not None
    found = None if has_means else dependence_in(risk, omega, rows)
    if found is not None:
        bounds = np.where(np.isin(np.arange(risk.dim), found.left_out), 0.0, np.inf)
        omega = omega.within(-bounds, bounds)
        anchors = anchors_of(risk, omega, means, rows)
    problem = replace(problem, penalty=omega, dependence=found, anchors=anchors,
                      means=means if anchors is None else anchors.means)
    if anchors is not None or not problem.is_free.any():        # all free weights may be held at 0 now
        return problem
    limits = score_limits(risk, penalty_of(omega, risk.dim), means, 0.0, problem.factor)
    return replace(problem, score_limits=limits)


def _is_square(omega):
    """Return whether a penalty is `lam/2 |w|^2`, with signs or without, because more methods take this one."""
    has_signs = ((omega.lower == 0.0) | (omega.lower == -np.inf)).all() and (omega.upper == np.inf).all()
    return omega.is_of_squares and has_signs and omega.l2.min() == omega.l2.max() >= 1.0 / LARGEST


def _check_sizes(penalty):
    """Refuse entries of vast size: their products overflow."""
    for name in NOTHING:
        value = getattr(penalty, name)
        vast = np.flatnonzero((np.abs(value) > LARGEST) & np.isfinite(value))
        if len(vast):
            remedy = "leave out bounds that do not exist" if name in ("lower", "upper") else "scale the risk"
            raise ParameterError(f"{name} of the penalty must have entries of at most {LARGEST:g}, got "
                                 f"{value[vast[0]]:g} at index {vast[0]}; {remedy}")


def _of_held(penalty, places):
    """Return the penalty on the weights at `places`; all other weights are free."""
    inner = penalty.canonical(np.count_nonzero(places))
    if inner.entries is None:
        raise ParameterError("penalty must be L1, ElasticNet, SquaredL2 or Box without groups, or a sum of these, "
                             f"where the risk has an intercept, got {names_of(penalty)}; leave out fit_intercept")
    return spread(inner, places)


def _check_scale(name, value):
    if name == "lam" and isinstance(value, numbers.Real) and value == 0.0 and value is not False:
        raise ParameterError(f"lam must be a finite number > 0, got {value!r}; without any penalty pass "
                             "lam=np.zeros(dim)")
    value = check_number(name, value, low=0.0, strict=True)
    if not 1.0 / LARGEST <= value <= LARGEST:
        raise ParameterError(f"{name} must lie between {1.0 / LARGEST:g} and {LARGEST:g}, got {value:g}; scale the "
                             "risk")
    return value


def is_intercept_bounded(risk, penalty, signs, constraints):
    """Return whether a ball, a sign or linear constraints bound a free intercept; if so, columns are not centred."""
    if risk.free is None or risk.shift is not None:
        return False
    if is_in_ball(penalty):
        return True
    has_sign = signs is not None and (signs & risk.free).any()
    return has_sign or (constraints is not None and as_rows(constraints, risk.dim).A[:, risk.free].count_nonzero() > 0)


def make_start(w0, dim, shift=None):
    """Return a copy of w0 in the coordinates of `shift`, or zeros if w0 is None."""
    if w0 is None:
        return np.zeros(dim)
    w0 = np.array(check_vector("w0", w0, dim))
    if np.abs(w0).max(initial=0.0) > LARGEST:
        raise ParameterError(f"w0 must have entries of at most {LARGEST:g}, got {np.abs(w0).max():g}; start closer to "
                             "0")
    return w0 if shift is None else shift.from_user(w0)


def make_settings(tol, atol, memory_limit, n, random_state=None):
    """Return the `Settings`; atol is multiplied by n."""
    atol = None if atol is None else n * check_number("atol", atol, low=0.0)
    gap = GapBelow(check_number("tol", tol, low=0.0), atol)
    if memory_limit is not None:
        memory_limit = int(min(check_number("memory_limit", memory_limit, low=0.0, strict=True), 2.0**62))
    seed = 0 if random_state is None else check_integer("random_state", random_state, low=0)
    return Settings(gap, memory_limit, None, 1.0 / n, seed)


def regrouped(risk, n_parts, method, pool, settings, is_placed=False, takes_oca=False):
    """Return the risk with parts, precision and executor of this run; a risk that cannot be regrouped stays as it is.

    If workers hold the parts (`is_placed`), the risk keeps its executor, and a smooth risk has as many parts as others.
    """
    # "auto" takes a smooth risk as one part, because several dense gradients would have to be checked and added
    is_whole = method.name == "auto" and risk.smooth and not is_placed and not takes_oca
    if is_whole:
        default = METHODS["lbfgs"].n_parts
    elif is_placed and method.name == "lbfgs":
        default = METHODS["auto"].n_parts
    else:
        default = method.n_parts
    if risk.is_mapped and risk.partition != "contiguous":
        default = 1             # several parts would be read one after another, each with rows all over the file
    if settings.memory_limit is not None:
        default = parts_within(risk, settings.memory_limit, default)
    if n_parts is not None:
        n_parts = check_integer("n_parts", n_parts, low=1)
    if n_parts is None and not risk.n_parts_given:
        n_parts = min(default, max(1, risk.n_examples))
    return risk.derive(n_parts=n_parts, precision=precision_of(settings), executor=None if is_placed else pool)


def precision_of(settings):
    """Return the precision that the tolerance needs."""
    return "float64" if is_fine(settings.gap.tol) else None


def as_callbacks(callback):
    """Return the argument `callback` as a list."""
    callbacks = [] if callback is None else list(callback) if isinstance(callback, (list, tuple)) else [callback]
    for function in callbacks:
        if not callable(function):
            raise InputTypeError("callback must be callable, or a list of callables, got " + type(function).__name__)
    return callbacks


def make_rules(max_iter, time_limit, method):
    """Return the rules that end a run besides its gap and its callbacks."""
    default = method.n_epochs or 10000
    rules = [MaxIterations(check_integer("max_iter", default if max_iter is None else max_iter, low=1))]
    if time_limit is not None:
        rules.append(TimeLimit(check_number("time_limit", time_limit, low=0.0, strict=True)).start())
    return rules
