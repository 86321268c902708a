"""A primal-dual interior point method for piecewise linear losses of one score: quantile, absolute error, hinge.

A step costs a few passes and the solution of d linear equations. If rows outnumber columns, 7 to 50 steps usually reach
a relative gap of 1e-5, even if columns differ in scale [Portnoy & Koenker 1997]. The multipliers of each iterate prove
a bound. Their plane should have slope 0 at weights without penalty, but rounding leaves a small slope at these. If the
intercept is the only such weight, anchors remove this slope (`proof.anchors`). Otherwise the bound falls by the slope
times the limits of these weights (`proof.score_limits`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from ...core.kept import check_array
from ...proof import Multipliers
from ...runtime.lower_bound import LowerBound
from ...runtime.result import Status
from ..evidence.limits import with_limits
from ..evidence.proof import WIDER, Proof, of_labels
from ..run import Run
from .barrier import Barrier
from .few_rows import near_corners, of_sample, size_of_sample
from .rows import Rows

PASSES = 4.0        # cost of a step in passes: each product with A or A' counts 1/2, and forming A'QA counts 1
DONE = 1e-3         # an iterate is final if its complementarity gap is below this fraction of the tolerance
FRACTION = 0.3      # a problem of a few rows is solved until its gap is this fraction of the tolerance
STEPS, LITTLE = 3, 1 << 14      # maximum number of steps in an iteration if X has at most LITTLE entries, else 1


class InteriorPoint(Run):
    """The interior point method for a risk with a `curve` and a separable penalty.

    The penalty may fix weights, but may have no other bounds on them.
    """

    kept = "point", "best", "n_near"
    patience = 12

    def __init__(self, search):
        super().__init__(search)
        self.point, self.best = None, (-np.inf, None)       # best bound and its multipliers
        self.n_near = 0         # number of rows with variable multipliers in the next solve; 0 for all rows

    def restore(self, arrays):
        super().restore(arrays)
        is_right = self.n_near == 0 if self.point is not None else 0 < self.n_near < self.barrier.m
        if not is_right:
            raise ValueError("n_near must be a number of rows")
        if self.point is None:
            return
        shape = self.barrier.y.shape
        check_array("w", self.point.w, (self.risk.dim,))
        for name, low in (("a", -np.inf), ("u", 0.0), ("v", 0.0)):
            check_array(name, getattr(self.point, name), shape, low=low)
        if (self.point.a < self.barrier.lo).any() or (self.point.a > self.barrier.hi).any():
            raise ValueError("multipliers are outside of their boxes")

    # ------------------------------------------------------------------ the problem
    @cached_property
    def barrier(self):
        """The `Barrier` of all rows."""
        omega = self.problem.scaled_entries(self.risk.dim)
        return Barrier(Rows(self.risk), omega.l1, omega.l2, omega.centre,
                       np.where(omega.lower == omega.upper, omega.lower, np.nan))

    # ------------------------------------------------------------------ start, step
    def start(self, w0, state=None):
        """Start from w0, or from the best point of another run.

        If a sample would be much smaller than the data, the sample is solved first. Otherwise the first iterate is at
        w0 or, if w0 is 0, at a least-squares solution.
        """
        search, w0 = self.search, self.problem.project(w0 if state is None else state.w)
        search.observe(w0, self.barrier.loss(self.barrier.residuals(w0)))
        search.take(w0, state)      # the bound of `state` needs limits of free weights, which `observe` proves
        self.n_near = size_of_sample(self.barrier.m, self.risk.dim)
        if self.n_near:
            w, n_steps = of_sample(self.barrier, self.n_near)
            search.observe(w, self.barrier.loss(self.barrier.residuals(w)))
            self.trace.n_passes += PASSES * n_steps + 1.0
        else:
            self.point = self.barrier.first(w0 if w0.any() else None)
            self._look()

    def iterate(self):
        """Do Newton steps or one solve of a few rows; return a Status if the run is over, else None."""
        search = self.search
        self.trace.n_iter += 1
        value = search.fun
        if self.n_near and not search.is_close():
            self._solve_few()
        elif not search.is_close():
            left = self.barrier.gap(self.point) / self._most()
            if left <= DONE and search.idle > 1:      # what remains of the gap is due to rounding
                return Status.STALLED
            if not self._has_moved():
                return Status.STALLED
            value = self._look()
        search.log(value)
        return Status.CONVERGED if search.is_close() else None

    def _has_moved(self):
        """Make Newton steps; return whether rounding errors have allowed one.

        On little data value and bound cost more than a step, so they wait for STEPS steps or a small gap.
        """
        barrier, before, most = self.barrier, self.point, self._most()
        for _ in range(STEPS if barrier.m * self.risk.dim <= LITTLE else 1):
            try:
                with self.search.working("qp", passes=PASSES):
                    self.point = barrier.step(self.point)
            except np.linalg.LinAlgError:
                break
            if barrier.gap(self.point) <= most:
                break
        return self.point is not before

    def _solve_few(self):
        # solves with the rows nearest to a corner, and reports value and bound for all rows
        barrier, size = self.barrier, self.n_near
        with self.search.working("qp"):
            w, a, n_steps = near_corners(barrier, self.search.w, size, FRACTION * self._most())
        self.trace.n_passes += PASSES * n_steps + 1.0
        self.search.observe(w, barrier.loss(barrier.residuals(w)))
        self._prove(a, barrier.rows.transposed(a))
        self.n_near = 2 * size if 4 * size <= barrier.m else 0
        if self.n_near == 0:
            self.point = barrier.first(self.search.w)

    def _look(self):
        """Report value and bound of the iterate to the search; return the value at its thresholded weights."""
        barrier, point = self.barrier, self.point
        with self.search.working("oracle"):
            r, slope = barrier.known(point)
            w = barrier.thresholded(point)
            value = self.search.observe(w, barrier.loss(barrier.residuals(w) if len(barrier.sharp) else r))
        if barrier.gap(point) <= DONE * self._most():       # thresholding may raise F by more than the gap
            self.search.observe(np.array(point.w), barrier.loss(r))
        self._prove(barrier.multipliers(point.a), slope)
        return value

    def _most(self):
        rule = self.search.rule
        return max(rule.tol * abs(self.search.fun), rule.atol, 1e-300)

    def _prove(self, a, slope):
        # offers the bound that the multipliers a prove; `slope` is A'a
        bound = self.search.bound_from(self.barrier.rows.plane(a, slope, self.problem))
        if bound.value > self.best[0]:
            self.best = bound.value, a
        self.search.offer(bound)

    # ------------------------------------------------------------------ evidence
    def evidence(self, risk):
        a, rows, (within, limits) = self.best[1], self.barrier.rows, with_limits(self.search, risk)
        if a is None:
            return None
        plane = rows.plane(a, rows.transposed(a), self.problem)
        whole = np.zeros(risk.n_examples)
        whole[rows.places] = a
        if self.risk.oracle is not None:
            plane = replace(plane, slope_error=float(np.linalg.norm(plane.slope_error)))
            return of_labels(risk, self.problem, whole, plane, within)._replace(limits=limits)
        plane = replace(plane, slope_error=WIDER * plane.slope_error, offset_error=WIDER * plane.offset_error)
        bound = LowerBound.of(self.problem, plane, within)
        return Proof(Multipliers(-whole), bound, None, limits)
