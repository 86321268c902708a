"""The size of F, which is its value at a reference point: from it the default of atol follows."""

from __future__ import annotations

import numpy as np

from ...core.kept import Kept
from ...runtime.stopping import SHARE


class Size(Kept):
    """F at `point()`, or R of the best constant where that is less, because columns may make up for a constant.

    Until a pass has told it, an estimate takes its place: the largest of F at the first point and of offsets of planes.

    Attributes
    ----------
    value : float
        The size, or the estimate.
    is_known : bool
    """

    kept = ("value", "is_known")

    def __init__(self, risk, problem):
        self._risk, self._problem, self.value, self.is_known = risk, problem, 0.0, False
        self._is_at_zero = not np.any(problem.penalty.centre)       # apart from intercepts

    def point(self):
        """Return the feasible point nearest to the centre of the penalty, with intercepts at the best constant."""
        w = np.zeros(self._risk.dim) + self._problem.penalty.centre
        if self._risk.free is not None:
            w[self._risk.free] = self._risk.constant.score
        return self._problem.project(w)

    def know(self, fun):
        """Take F at `point()`."""
        self.value, self.is_known = min(float(fun), self._risk.constant.value or np.inf), True

    def at_least(self, value):
        """Raise the estimate to a value of F, or to that of another run."""
        self.value = max(float(value), self.value)

    def begin(self, w, fun):
        """Take F at the first point, which may be `point()`."""
        if self.is_known:
            return
        is_far = w.any() or self._risk.constant.score
        if np.array_equal(w, self.point()) if is_far else self._is_at_zero:
            self.know(fun)
        else:
            self.at_least(fun)

    def bounded(self, bound, fun):
        """Take the best lower bound, next to the best value of F."""
        if not self.is_known and self._is_at_zero:      # a plane at w = 0 is at most F(0)
            self.at_least(bound.offset)
        elif self.value == 0.0 and np.isfinite(fun - bound.value):      # F(0) = 0, as with one class
            self.value = max(float(fun - bound.value), 0.0)

    def atol(self, bound):
        """Return the default of atol, a share of the most that F can fall, from the best lower bound or None."""
        lower = self.value if bound is None else bound.value
        return SHARE * max(self.value - lower, 0.0) if lower > -np.inf else 0.0
