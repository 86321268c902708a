"""Batch Frank-Wolfe on the dual: a step makes one pass, which gives one plane of the whole risk, and a line search.

    (phi, B) <- (1 - gamma) (phi, B) + gamma (phi_hat, B_hat),   gamma = clip(lam g / |phi_hat - phi|^2, 0, 1)

Here (phi_hat, B_hat) is the plane of all examples at w = -phi / lam, and g = F(w) - D the gap [Lacoste-Julien et al.
2013, Algorithm 2]. The line search is exact, and every pass tells the gap.
"""

from __future__ import annotations

import numpy as np

from ...core.exceptions import NumericalError
from ...core.kept import check_array, check_float
from ...core.plane import Plane
from ...core.rounding import UNIT
from ...runtime.result import Status
from ..run import Run
from .evidence_of_points import of_points


class FrankWolfe(Run):
    """Batch Frank-Wolfe from the zero plane: every part of the risk must be bounded below by 0.

    The first step goes towards the plane at `w0`, which is also the first best point.
    """

    kept = "phi", "offset", "_steps", "_error", "_size", "_largest", "_plane"

    def start(self, w0, state=None):
        """Start from the zero plane; compute the plane at `w0`."""
        w = self.search.take(w0, state)
        self._steps = 0
        self._error = 0.0                       # largest `slope_error` of a plane so far
        self.phi, self.offset = np.zeros(self.risk.dim), 0.0
        self._size = self._largest = 0.0        # largest |slope| and |offset| so far; rounding is relative to them
        search = self.search
        search.offer(search.bound_from(Plane(float(search.lower_bounds.sum()), self.phi.copy())))
        self._plane = self._look(w)
        self._bound()
        search.log(search.fun)

    def iterate(self):
        """Do one line search and one pass."""
        plane, lam = self._plane, self.problem.square.lam
        change = plane.slope - self.phi
        w = self.problem.point(self.phi, lam)
        gain, curve = plane.offset - self.offset + float(change @ w), float(change @ change)
        gamma = min(lam * gain / curve, 1.0) if gain > 0.0 and curve > 0.0 else float(gain > 0.0)
        self.phi += gamma * change
        self.offset += gamma * (plane.offset - self.offset)
        self._steps += 1
        self.trace.n_iter += 1
        self._plane = self._look(self.problem.point(self.phi, lam))
        self._bound()
        self.search.log(self._value)
        return Status.CONVERGED if self.search.is_close() else None

    def evidence(self, risk):
        record = self.settings.record
        if record is None or self.search.bound is None:
            return None
        return of_points(self.search, risk, list(record.points.values()))

    def restore(self, arrays):
        super().restore(arrays)
        check_array("phi", self.phi, (self.risk.dim,))
        check_array("the plane", self._plane.slope, (self.risk.dim,))
        for number in (self._error, self._size, self._largest):
            check_float("an error", number, 0.0)

    def _look(self, w):
        planes, self._value = self.search.visit(w)
        if self.settings.record is not None:
            self.settings.record.keep(range(planes.origin - 100, planes.origin + 1))
        plane = self.search.summed(planes)
        self._error = max(self._error, plane.slope_error)
        if not float(np.abs(plane.slope).sum()) < 1e153:        # below this, squares of differences are finite
            raise NumericalError("squares of the slopes overflow; scale the data or the risk down")
        self._size = max(self._size, float(np.linalg.norm(plane.slope)))
        self._largest = max(self._largest, abs(plane.offset))
        return plane

    def _bound(self):
        rounding = (2.0 * self._steps + 4.0) * UNIT
        plane = Plane(self.offset, self.phi.copy(), self._error + rounding * self._size, rounding * self._largest)
        self.search.offer(self.search.bound_from(plane))
