"""The run that the methods on smooth risks share: every trial of a line search gives a plane, which proves a bound.

    repeat
        1  take a trial point from the steps of the method
        2  evaluate F at this point in one pass, which also finds a plane of the risk
        3  prove a lower bound from this plane; stop if best value and bound are close
        4  the trial is the next iterate if it is good enough

One step of the run is one trial. The plane at w alone proves `F(w*) >= F(w) - |grad F(w)|^2 / (2 lam)`: with offset
b = R(w) - <a, w> and g = a + lam w, `b - |a|^2 / (2 lam) = F(w) - |g|^2 / (2 lam)`. With a separable penalty the bound
is `Penalty.bound` of the plane. For a square alone, the new plane is first combined with the plane of the best bound,
as a step of Frank-Wolfe does; but not if evidence is kept, which would have to hold the points of all planes.
"""

from __future__ import annotations

import numpy as np

from ...core.exceptions import NumericalError, ParameterError
from ...core.kept import check_array, check_float
from ...core.plane import Plane, combined
from ...runtime.result import Status
from ..bundle.evidence_of_points import of_points
from ..evidence.proof import of_distributions
from ..run import Run
from .quasi_newton import Orthants

SINGLE, DOUBLE = 1e-6, 1e-12
"""Relative rounding errors of values of risks in float32 and float64."""
FEWEST = 5
"""Minimum number of pairs of L-BFGS. `memory_limit` must have room for three times as many vectors (dim,)."""


class SmoothRun(Run):
    """A run on a smooth risk; a subclass sets the attribute `steps`, and has a method `trial`."""

    kept = "steps", "newest", "_newest", "_origin"
    patience = 60

    def __init__(self, search):
        super().__init__(search)
        limit, dim = self.settings.memory_limit, self.risk.dim
        if limit is not None and limit < 24 * FEWEST * dim:
            raise ParameterError(f"memory_limit must be at least {24 * FEWEST * dim} bytes for dimension {dim}, got "
                                 f"{limit}; raise it")
        self.newest = None              # the newest plane
        self._newest = self._origin = -1    # indices of the points of the newest plane and of the best bound

    # ------------------------------------------------------------------ start, step
    def start(self, w0, state=None):
        """Evaluate the risk at `w0`, or at the point of `state`."""
        search, w = self.search, self.search.take(w0, state)
        known = float(search.lower_bounds.sum())
        if np.isfinite(known):
            search.offer(search.bound_from(Plane(known, np.zeros(self.risk.dim))))
        self._begin_at(w)

    def iterate(self):
        """Make one trial of the line search; return a Status if the run is over, else None."""
        search = self.search
        if search.is_close():
            return Status.CONVERGED
        self.trace.n_iter += 1
        x = self.trial()
        if x is None:
            return Status.CONVERGED if search.is_close() else Status.STALLED
        fun, gradient = self._value_and_gradient(self.problem.coordinates.outer(x))
        probe = search.probe()
        if probe is not None:
            self._value_and_gradient(probe)
        if search.is_close():
            return Status.CONVERGED
        return None if self.steps.update(x, fun, gradient) else Status.STALLED

    def orthants(self):
        """Return bounds and l1 norm of the objective, or None if it has neither."""
        problem = self.problem
        if problem.is_linear:         # the penalty has neither l1 norms nor bounds that a step must know
            return None
        omega = problem.scaled_entries(self.risk.dim)
        return Orthants(omega.l1, omega.lower, omega.upper)

    def n_planes(self):
        return int(self.trace.max_planes > 0)

    def evidence(self, risk):
        if self.settings.record is None or self.search.bound is None:
            return None
        points = self.settings.record.points        # the newest point may be that of a probe, so w is tried, too
        points = [*(points[k] for k in {self._newest, self._origin} if k >= 0), self.search.w]
        if self.problem.classes is None:
            return of_points(self.search, risk, points)
        proofs = [of_distributions(risk, self.problem, risk.distributions(w)) for w in points]
        return max(proofs, key=lambda proof: proof.bound.value)

    def to_float64(self):
        self.search.fun, self.search.values = np.inf, None       # the next pass replaces the float32 values
        self._begin_at(self.search.w)

    def known_value(self):
        """Return the values of the pass at the best point, if the risk bounds their rounding errors."""
        return self.search.exact_value(self.risk)

    def restore(self, arrays):
        super().restore(arrays)
        self.steps.check((self.risk.dim,))
        if self.newest is not None:
            check_float("an offset", self.newest.offset)
            check_array("a slope", self.newest.slope, (self.risk.dim,))

    # ------------------------------------------------------------------ inside
    def _begin_at(self, w):
        self.steps.rounding = SINGLE if self.risk.precision == "float32" else DOUBLE
        self.steps.begin(self.problem.coordinates.inner(w), *self._value_and_gradient(w))

    def _value_and_gradient(self, w):
        """Evaluate F and its gradient at w in one pass, and improve the bound with the plane at w."""
        search = self.search
        planes, fun = search.visit(w)
        plane = search.summed(planes)
        with np.errstate(over="ignore"):
            if not np.isfinite(plane.slope @ plane.slope):
                raise NumericalError("squares of the slopes overflow; scale the data or the risk down")
        with search.working("qp"):
            is_best, self.newest = search.offer(search.bound_from(self._strongest(plane))), plane
            if self.settings.record is not None:
                self._newest = planes.origin
                self._origin = self._newest if is_best else self._origin
                self.settings.record.keep([self._newest, self._origin])
        self.trace.max_planes = 1
        search.log(fun)
        problem = self.problem
        return fun, problem.moduli * (w - problem.penalty.centre) + problem.coordinates.slope(plane.slope)

    def _strongest(self, plane):
        """Return the plane for a bound: the new plane, if possible combined with the plane of the best bound."""
        square, bound = self.problem.square, self.search.bound
        if square is None or square.nonneg is not None or bound is None or self.settings.record is not None:
            return plane
        return combined(bound.plane, plane, self.problem.point(bound.plane.slope, square.lam), square.lam)
