"""Batch Frank-Wolfe on the dual: a step makes one pass, which gives one plane of the whole risk, and a line search.

    (phi, B) <- (1 - gamma) (phi, B) + gamma (phi_hat, B_hat),   gamma = clip(lam g / |phi_hat - phi|^2, 0, 1)

Here (phi_hat, B_hat) is the plane of all examples at w = -phi / lam, and g = F(w) - D the gap [Lacoste-Julien et al.
2013, Algorithm 2]. The line search is exact, and every pass tells the gap.
"""

from __future__ import annotations

import numpy as np

from ...core.exceptions import NumericalError
from ...core.kept import check_array, check_float
from ...core.plane import Plane, combined
from ...runtime.result import Status
from ..run import Run
from .evidence_of_points import of_points


class FrankWolfe(Run):
    """Batch Frank-Wolfe from the zero plane: every part of the risk must be bounded below by 0.

    The first step goes towards the plane at `w0`, which is also the first best point.
    """

    kept = "_plane", "_newest"

    def start(self, w0, state=None):
        """Start from the zero plane; compute the plane at `w0`."""
        search, w = self.search, self.search.take(w0, state)
        zero = np.zeros(self.risk.dim)
        search.offer(search.bound_from(Plane(float(search.lower_bounds.sum()), zero)))
        self._plane = Plane(0.0, zero)
        self._newest = self._look(w)
        search.log(search.fun)

    def iterate(self):
        """Do one line search and one pass."""
        problem, search, lam = self.problem, self.search, self.problem.square.lam
        self._plane = combined(self._plane, self._newest, problem.point(self._plane.slope, lam), lam)
        self.trace.n_iter += 1
        self._newest = self._look(problem.point(self._plane.slope, lam))
        search.log(self._value)
        return Status.CONVERGED if search.is_close() else None

    def evidence(self, risk):
        record = self.settings.record
        if record is None or self.search.bound is None:
            return None
        return of_points(self.search, risk, list(record.points.values()))

    def restore(self, arrays):
        super().restore(arrays)
        for plane in (self._plane, self._newest):
            check_array("the plane", plane.slope, (self.risk.dim,))
            check_float("an offset", plane.offset)
            check_float("a slope error", plane.slope_error, 0.0)
            check_float("an offset error", plane.offset_error, 0.0)

    def _look(self, w):
        search = self.search
        planes, self._value = search.visit(w)
        if self.settings.record is not None:
            self.settings.record.keep(range(planes.origin - 100, planes.origin + 1))
        search.offer(search.bound_from(self._plane))
        plane = search.summed(planes)
        if not float(np.abs(plane.slope).sum()) < 1e153:        # below this sum, squares of differences are finite
            raise NumericalError("squares of the slopes overflow; scale the data or the risk down")
        return plane
