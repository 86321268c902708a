"""What every run has: best point, best bound and history. A method adds `start`, `iterate`, `describe`, and its state.

A `Solve` calls `start`, `step`, `progress` and `describe`; `ending` says whether a run may end, and makes its result.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.sparse import issparse

from ..core.exceptions import ContradictionError, NumericalError, OracleError, ParameterError
from ..core.object_graph import check_array, check_float
from ..core.plane import Plane
from ..core.protocols import completed
from ..core.rounding import UNIT
from ..core.validation import read_only
from ..proof.score_limits import ScoreLimits
from ..prox import Separable
from ..prox.base import Rounding
from ..prox.of_norm import Square
from ..risks.partition import SHARD_ROWS
from ..risks.reduction import WAVE
from ..runtime.clock import Clock
from ..runtime.history import History
from ..runtime.lower_bound import LEAST, Bracket, LowerBound
from ..runtime.result import Status
from ..runtime.stopping import SHARE, GapBelow, Progress
from .plane_checks import as_arrays, check_planes, lower_bounds_of, norms_of, refuse_above
from .problem.coordinates import Coordinates
from .problem.free_weights import FreeWeights, ProvenLimits
from .problem.objective import Objective
from .state import Settings, State, Trace

NAMELESS = "unknown"
"""Replaces a fingerprint that could not be computed; no other run can start from such a state."""
UNSTATED = 2.0**-40
"""Rounding error of scores of a risk without `slope_sizes`, as a fraction of the norm of the steepest slope so far."""


def is_fine(tol):
    """Whether a tolerance needs float64 scores (errors in float32 are about 1e-6) and Newton steps."""
    return tol < 1e-4


def working_bytes(risk, n_parts, vectors=8, numbers=4):
    """Of new planes of so many parts, of some vectors of length dim, and of some numbers of all examples."""
    slopes = n_parts + vectors + min(WAVE, -(-risk.n_examples // SHARD_ROWS))
    return 8 * (slopes * risk.dim + numbers * risk.n_examples)


class Run:
    """A run of one method on one risk; subclasses add `start`, `iterate`, `describe` and what they keep.

    Attributes
    ----------
    w, risk_value, fun : ndarray, float, float
        Best point, `R(w)`, `F(w)`.
    best_values : ndarray, shape (P,), or None
        Values of the parts at w.
    bracket, bracket_of : Bracket or None, (ndarray, LowerBound) or None
        The last bracket in float64, and the point and the bound that it is of.
    margin : float
        Factor of the tolerance, at first 1; halved whenever float64 does not confirm the gap.
    bound : LowerBound or None
        Best lower bound with the plane that proves it.
    limits, free : ProvenLimits or None, FreeWeights or None
        What is proven of weights without penalty, and the planes from which it is.
    trace : Trace
    is_refuted : bool
        The risk has contradicted itself.
    patience : int
        Steps in a row that moved neither best value nor best bound, after which the run has stalled.
    at_work : Run
        The present run of a sequence of methods; otherwise this run.
    serialised : tuple of type
        Classes that its state is made of, for checkpoints; subclasses name only what they add.
    """

    serialised: tuple = (Settings, GapBelow, State, Trace, Clock, History, LowerBound, Plane, Bracket, Status,
                         Objective, Coordinates, Square, Separable, Rounding, ScoreLimits, FreeWeights)
    patience = 300
    _idle = 0
    best_values = None
    moves = None            # `Dependence` of free columns once F at the point of least norm is certified
    is_refuted = False
    choice = ""             # reason for the method, if "auto" chose it

    def __init__(self, risk, objective, settings):
        self.risk, self.objective, self.settings = completed(risk), objective, settings
        self.trace = Trace()
        self.w, self.risk_value, self.fun, self.bound = None, np.inf, np.inf, None
        self.lower_bounds = lower_bounds_of(risk)
        self._steepest = np.zeros(risk.n_parts)         # norms of the steepest slopes so far
        self.bracket, self.bracket_of, self.margin = None, None, 1.0
        self.limits = None if objective.is_of_norm else ProvenLimits(objective)
        self.free = FreeWeights.of(objective, self.limits)

    @property
    def at_work(self):
        return self

    def succeed(self, run):
        """Continue the run of another method: its counters, best bound, and what it has proven."""
        self.trace, self.choice, self.bound = run.trace, run.choice, run.bound
        self.limits, self.free = run.limits, run.free

    # ------------------------------------------------------------------ steps
    def step(self):
        """One iteration; a Status when the run is over, else None."""
        before = self._standing()
        status = self.iterate()
        if status is not None:
            return status
        self._idle = 0 if self._standing() != before else self._idle + 1
        return self.stalled() if self.is_stalled() else None

    def _standing(self):
        return self.fun, -np.inf if self.bound is None else self.bound.value

    def is_stalled(self):
        """Whether neither best value nor best bound has moved for long."""
        found = self.objective.dependence      # columns that are nearly sums of others are hardly ever limited
        return self._idle >= (self.patience if found is None or not found.near else min(self.patience, 30))

    def stalled(self):
        """Return the status at which a stalled run ends, or None if it can continue in another way."""
        return Status.STALLED

    @property
    def home(self):
        """The feasible point nearest to the centre, with intercepts at the best constant: `trace.size` is F there.

        `trace.size` is at most R of the best constant, though, where that is not 0: columns may make up for a constant.
        """
        w = np.zeros(self.risk.dim) + self.objective.centre
        if self.risk.free is not None:
            w[self.risk.free] = self.risk.constant[0]
        return self.objective.project(w)

    def size_of(self, fun):
        """Return F at `home`, or R of the best constant if that is less."""
        return min(float(fun), self.risk.constant[1] or np.inf)

    @property
    def rule(self):
        """When best value and best bound are close enough, with atol as a number: a share of what the run can gain."""
        gap = self.settings.gap
        if gap.atol is not None:
            return gap
        lower = self.trace.size if self.bound is None else self.bound.value
        return GapBelow(gap.tol, SHARE * max(self.trace.size - lower, 0.0) if lower > -np.inf else 0.0)

    @property
    def rule_of_users(self):
        """The same for the point that users get: rounding its intercepts to float64 may cost as much, in any run."""
        rule = self.rule
        if self.settings.gap.atol is not None or self.risk.shift is None or self.w is None:
            return rule
        return GapBelow(rule.tol, max(rule.atol, self.rounding_of_intercepts()))

    def rounding_of_intercepts(self):
        """Bound how much R changes when the intercepts of the best point are rounded for users."""
        linear, root = self.risk.steepness
        return 0.5 * self.risk.shift.spacing(self.w) * (linear + root * max(self.fun, 0.0) ** 0.5)

    def for_user(self, w):
        """Return the point that users get for w: in their coordinates, with free weights of least norm."""
        w = w if self.risk.shift is None else self.risk.shift.to_user(w)
        return w if self.moves is None else self.moves.least(w)

    # ------------------------------------------------------------------ what subclasses answer
    def n_planes(self):
        """Planes kept at the moment."""
        return 0

    def state(self):
        """What another run could start from, or None."""
        return State(self.w, self.risk_value, self.fingerprint(), bound=self.bound)

    def settle(self):
        """Choose the last point if no value of F is known yet; called before the run is finished."""

    def evidence(self, risk):
        """Return the `Proof` of a lower bound over the data of `risk`, or None."""
        return None

    def adopt(self, fresh):
        """Takes from a fresh run of the same problem what a checkpoint does not hold of this one."""

    def kept_state(self):
        """Return what another run may start from: only the point if the risk has contradicted itself."""
        state = State(self.w, np.inf, self.fingerprint()) if self.is_refuted else self.state()
        if state is not None:
            state.size = self.trace.size
        return state

    def to_float64(self):
        """float32 was not enough for the certificate: `risk` now works in float64."""

    def known_value(self):
        """Return R at the best point in float64 and a bound on its rounding error, if a pass has computed both."""
        return None

    def evaluated_value(self, risk):
        """Return the same from the values at the best point if `risk` can bound their errors, or None."""
        if self.best_values is None or risk.precision != "float64" or risk.value_errors is None:
            return None
        return self.best_values, risk.value_errors(self.w, self.best_values)

    def blame(self, error):
        """Drop what proves nothing after an error: everything, if the risk contradicted itself.

        The planes of a risk that is not convex bound nothing, and what it declares may be wrong too: all that is left
        then is the best point and its value as the risk gave it.
        """
        if isinstance(error, OracleError) and error.__cause__ is None:
            self.best_values = None
        if isinstance(error, ContradictionError):
            self.best_values, self.bound, self.is_refuted = None, None, True

    def is_short_of_memory(self):
        """Whether `memory_limit` has cost it planes."""
        return False

    def check_state(self):
        """Refuses what a checkpoint should not hold, see `core.object_graph`; `w` is None before the start."""
        risk, bound = self.risk, self.bound
        if not np.array_equal(self.lower_bounds, lower_bounds_of(risk)):
            raise ValueError("lower_bounds are those of another risk")
        if self.w is not None:
            check_array("w", self.w, (risk.dim,))
        if self.best_values is not None:
            check_array("best_values", self.best_values, (risk.n_parts,))
        check_float("fun", self.fun)
        check_float("size", self.trace.size, 0.0)
        if bound is not None:
            plane = bound.plane
            check_array("slope", plane.slope, (risk.dim,))
            check_float("slope_error", float(np.min(plane.slope_error)), 0.0)
            check_float("offset_error", plane.offset_error, 0.0)
            again = self.proves(plane)
            scale = abs(plane.offset) + abs(plane.offset - again.value)
            # a bound that is older than the limits of free weights is below what follows from them
            least = -np.inf if self.are_weights_limited else again.value - 1e-9 * scale
            if not least <= bound.value <= again.value + 1e-9 * scale:
                raise ValueError("a lower bound is not what its evidence proves")
        if self.bracket is not None:
            known = self.bracket
            value = self.proves(self.bracket_of[1].plane).value
            if not known.lower_bound <= min(value + 1e-9 * abs(known.fun), known.fun):
                raise ValueError("a certificate is not what its evidence proves")

    # ------------------------------------------------------------------ passes
    def evaluate(self, w):
        """Planes at w: one pass."""
        if not np.isfinite(w).all():
            raise NumericalError(f"w overflows for {self.objective}; use a larger lam, or scale the data")
        with self.trace.clock.phase("oracle"):
            planes = as_arrays(self.risk.planes(read_only(w)))
        self.trace.n_passes += 1
        planes = self.check(planes)
        if self.free is not None:
            self.free.add(self.summed(planes))
        return self.noted(planes, w)

    def noted(self, planes, w):
        """Return the planes with the index of their point, if evidence is kept."""
        record = self.settings.record
        return planes if record is None else planes._replace(origin=record.point(w))

    def allowance(self, w, slope_errors):
        """Bound how far rounding can lift planes with these errors above the risk at w, by parts.

        Planes and values have the errors of slopes and of scores, both proportional to |w|. They need not be small
        compared with values: if classes are separated, risk and planes tend to 0, but scores do not.
        """
        unit = (self.risk.dim + 16.0) * (2.0**-24 if self.risk.precision == "float32" else UNIT)
        if self._sizes is None:
            scores = max(unit, UNSTATED) * np.minimum(self._steepest, 1e300)
        else:
            scores = unit * self._sizes
        return 2.0 * (slope_errors + scores) * (float(np.linalg.norm(w)) + LEAST)

    @cached_property
    def _sizes(self):
        """Bounds on the norms of slopes if the risk states them, or None; computed from all examples."""
        return self.risk.slope_sizes

    def check(self, planes):
        """Return planes with their errors; refuse a wrong shape, NaN, and what lies above the risk at the best point.
        """
        planes = check_planes(planes, self.risk)
        if self._sizes is None:
            self._steepest = np.maximum(self._steepest, norms_of(planes.slopes))
        if self.w is None or self.best_values is None:
            return planes
        products, best = planes.dot(self.w), self.best_values
        above = planes.offsets + products - best - self.allowance(self.w, planes.slope_errors)
        scale = np.abs(planes.offsets) + np.abs(products) + np.abs(best) + np.abs(planes.values)
        refuse_above(above, scale, self.rounding, "the plane at the new point", "the best point so far")
        return planes

    def summed(self, planes):
        """Return the `Plane` of all parts together; what rounding may have added to its offset is subtracted."""
        slopes, offsets, n_parts = planes.slopes, planes.offsets, self.risk.n_parts
        additions = (n_parts - 1) * UNIT
        errors = planes.offset_errors + additions
        norms = self.objective.coordinates.norms(norms_of(slopes), planes.last_entries)
        slope = np.asarray(slopes.sum(axis=0)).ravel() if n_parts > 1 or issparse(slopes) else slopes[0]
        error = float(planes.slope_errors.sum()) + 1.01 * additions * float(norms.sum())
        return Plane(float(offsets.sum()) - 1.01 * float(errors @ np.abs(offsets)), slope, error)

    rounding = 1e-6    # tolerance of comparisons of planes, as a share of the numbers: wide enough for float32

    # ------------------------------------------------------------------ best point and best bound
    def observe(self, w, risk_value, values=None):
        """Make w the best point if it is better, and freeze it; return `F(w)`.

        w becomes read-only, because the stored values were computed at it.
        """
        fun = self.objective.value(w) + risk_value
        if np.isfinite(fun) and not np.isfinite(self.fun) and not self.trace.knows_zero:
            self.trace.knows_zero = (
                np.array_equal(w, self.home) if w.any() or self.risk.constant[0] else not np.any(self.objective.centre))
            self.trace.size = self.size_of(fun) if self.trace.knows_zero else max(float(fun), self.trace.size)
        if fun < self.fun and self.objective.contains(w):
            w.setflags(write=False)
            self.w, self.risk_value, self.fun = w, risk_value, fun
            self.best_values = values
            if self.objective.score_limits is not None:
                self.limits.hold(fun, self.trace.size)
        if self.w is None:
            raise NumericalError(f"F must be finite at the first point, got {fun:g} for |w| = {np.linalg.norm(w):.3g}; "
                                 "start closer to 0 (w0), or scale data and penalty down")
        return fun

    @property
    def are_weights_limited(self):
        """Whether bounds use limits of free weights."""
        return self.limits is not None and self.limits.level < np.inf

    def proves(self, plane):
        """Return the `LowerBound` that follows from a plane."""
        return LowerBound.of(self.objective, plane, self.limits)

    def probe(self):
        """Return a point whose plane may limit free weights, or None."""
        return None if self.free is None else self.free.probe(self)

    def offer(self, bound):
        """Keep a lower bound if it is better than the present one and than the bound that the risk declares."""
        declared = float(self.lower_bounds.sum())
        if bound.value < declared:      # by rounding, if the optimum is 0
            known = self.bound if self._standing()[1] >= declared else self.proves(
                Plane(declared, np.zeros_like(bound.plane.slope)))
            bound = max(known, bound, key=lambda bound: bound.value)        # a penalty may be negative
        if self.bound is None or bound.value > self.bound.value:
            self.bound = bound
        if not self.trace.knows_zero and not np.any(self.objective.centre):     # a plane at w = 0 is at most F(0)
            self.trace.size = max(bound.offset, self.trace.size)
        elif self.trace.size == 0.0 and np.isfinite(self.fun - bound.value):        # F(0) = 0, as of one class
            self.trace.size = max(float(self.fun - bound.value), 0.0)

    def is_close(self):
        """Whether best value and best bound are within the tolerance."""
        return self.bound is not None and np.isfinite(self.fun) and self.rule.holds(
            self.fun, self.bound.value, self.margin)

    def log(self, value):
        """A row of the history."""
        bound = -np.inf if self.bound is None else self.bound.value
        self.trace.history.record(self.trace.clock.elapsed(), self.trace.n_passes, value, self.fun, bound)

    def progress(self):
        """Return the progress for stopping rules and callbacks; they cannot write into the best point."""
        bound = -np.inf if self.bound is None else self.bound.value
        return Progress(read_only(self.w), self.fun, bound, self.trace.n_iter, self.trace.n_passes, self.n_planes(),
                        self.trace.clock.seconds(), self.settings.gap.tol, self.rule.least)

    def fingerprint(self):
        """Return what identifies the risk, or None."""
        try:
            return self.risk.fingerprint
        except Exception:       # raised by an oracle that fails by now
            return NAMELESS

    def take(self, state):
        """Take over size and bound of the state of another run; refuse a state of another risk."""
        mine, theirs = self.fingerprint(), state.fingerprint
        if state.w.shape != (self.risk.dim,) or theirs == NAMELESS or (
                mine is not None and theirs is not None and mine != theirs):
            raise ParameterError("warm_start must be a run on the same risk (data, labels, weights, partition), got "
                                 "one on another; pass w0=result.x to start from its point only. Data that were "
                                 "changed in place since that run are other data")
        self.trace.size = max(state.size, self.trace.size)
        if state.bound is not None:
            self.offer(self.proves(state.bound.plane))
