"""The size of F: its value at a reference point, from which the default of atol is computed."""

from __future__ import annotations

import numpy as np

from ...core.kept import Kept
from ...core.protocols import constant_of
from ...runtime.lower_bound import CLIPPED
from ...runtime.stopping import SHARE


class Size(Kept):
    """F at the reference point `point()`, or the risk of the best constant score if that is less.

    Constant scores count because columns may sum to one, as dummy variables do. Until a pass has computed the size, the
    largest of F at the first point and of offsets of planes is an estimate.

    Attributes
    ----------
    value : float
        The size, or the estimate.
    is_known : bool
    rounding : float
        The part of F that is due to rounding at a point where no example has a loss and the penalty is 0; else 0.
    negligible : float
        A rounding error far below the change of R when all scores change by 1, or below the sum of the weights times
        the largest cost if that change is not known.
    """

    kept = ("value", "is_known", "rounding")

    def __init__(self, risk, problem):
        self._risk, self._problem, self._constant = risk, problem, constant_of(risk)
        self.value, self.is_known, self.rounding = 0.0, False, 0.0
        weights, costs = getattr(risk, "sample_weight", None), getattr(risk, "loss", None)
        change = self._constant.linear + 0.25 * self._constant.root**2
        if not change and weights is not None:
            change = float(np.sum(weights)) * (float(costs.max()) if isinstance(costs, np.ndarray) else 1.0)
        self.negligible = CLIPPED * change
        self._is_at_zero = not np.any(problem.penalty.centre)       # whether `point()` is 0 apart from intercepts

    def point(self):
        """Return the feasible point nearest to the centre of the penalty, with intercepts at the best constant."""
        w = np.zeros(self._risk.dim) + self._problem.penalty.centre
        if self._risk.free is not None:
            w[self._risk.free] = self._constant.score
        return self._problem.project(w)

    def know(self, fun):
        """Set the size from F at `point()`."""
        self.value, self.is_known = min(float(fun), self._constant.value or np.inf), True

    def at_least(self, value):
        """Raise the estimate to `value`, which is a value of F or the size in another run."""
        self.value = max(float(value), self.value)

    def begin(self, w, fun):
        """Use F at the first point of a run: it is the size if that point is `point()`, else it raises the estimate."""
        if self.is_known:
            return
        is_far = w.any() or self._constant.score
        if np.array_equal(w, self.point()) if is_far else self._is_at_zero:
            self.know(fun)
        else:
            self.at_least(fun)

    def bounded(self, bound, fun):
        """Raise the estimate if the best bound, a `LowerBound`, or the best value of F shows that it is too low."""
        if not self.is_known and self._is_at_zero:      # the offset of a plane is at most F(0)
            self.at_least(bound.offset)
        elif self.value == 0.0 and np.isfinite(fun - bound.value):      # F(0) is 0, for instance with one class
            self.value = max(float(fun - bound.value), 0.0)

    def atol(self, bound):
        """Return the default of atol: a share of the most that F can fall, size minus best lower bound `bound`.

        It is at least twice the rounding of a value that should be 0.
        """
        lower = self.value if bound is None else bound.value
        return max(SHARE * max(self.value - lower, 0.0) if lower > -np.inf else 0.0, 2.0 * self.rounding)
