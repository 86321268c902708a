"""The data of a risk with a piecewise linear loss of one score, as rows of the interior point method.

    R(w) = sum_i max over lo_i <= a_i <= hi_i of a_i r_i - flat |a_i|,      r = y - A w

Row i of A holds the features of example i with scale and intercept, times the label in classification. The multiplier
a_i is minus a derivative of loss i with respect to `(A w)_i`. Examples of weight 0 are left out.
"""

from __future__ import annotations

import copy

import numpy as np

from ...core.plane import Plane
from ...core.rounding import UNIT
from ...proof.multipliers import ROWS, n_terms


class Rows:
    """The m rows of the examples with positive weight; vectors have shape (m,).

    The array `A` (m, dim) lacks the labels, so that it can be X itself without a copy; `signs` are the labels. `y` are
    the targets, `lo` and `hi` the limits of the multipliers, rounded inwards, and `places` the indices of the examples.
    """

    def __init__(self, risk):
        low, high, linear, _, self.flat = risk.curve
        self.places, data = np.flatnonzero(risk.sample_weight > 0.0), risk.examples
        whole, c = data.dense(slice(None)), risk.sample_weight[self.places]
        self.A = np.ascontiguousarray(whole if len(c) == len(whole) else whole[self.places])
        labels = np.asarray(risk.labels)[self.places]
        self.signs = None if risk.is_regression else labels.astype(np.float64)
        self.y = (labels if risk.is_regression else np.zeros(len(c))) + linear
        self.lo, self.hi = (np.nextafter(c * end, 0.0) for end in (-high, -low))
        # the error bounds in `plane` are proportional to these norms of columns and sizes of targets
        self._norms = np.sqrt(np.einsum("ij,ij->j", self.A, self.A))
        self._size = np.abs(self.y) + 2.0 * abs(linear) + self.flat

    def some(self, index):
        """Return the rows in `index`, for steps only: `plane` needs the object with all rows."""
        part = copy.copy(self)
        for name in ("A", "y", "lo", "hi", "signs"):
            setattr(part, name, None if getattr(self, name) is None else getattr(self, name)[index])
        return part

    def product(self, w):
        """Return `A w` with the labels, shape (m,)."""
        scores = self.A @ w
        return scores if self.signs is None else self.signs * scores

    def transposed(self, a):
        """Return `A' a` with the labels, shape (dim,)."""
        a, total = a if self.signs is None else self.signs * a, np.zeros(self.A.shape[1])
        for first in range(0, len(a), ROWS):
            total += a[first:first + ROWS] @ self.A[first:first + ROWS]
        return total

    def plane(self, a, slope, problem):
        """Return the `Plane` that multipliers a within their limits define; `slope` is `A' a`.

        Besides the roundings of the sums, each product has two or three further roundings: one by the scale of the
        data, and one or two by a `Shift` that has moved columns or targets.
        """
        m = len(a)
        terms = a * self.y - self.flat * np.abs(a)
        error = 1.02 * UNIT * n_terms(m) * float(np.linalg.norm(a)) * self._norms
        if problem.means is not None:
            error = error + np.abs(problem.means) * error[-1]
        sizes = float(np.abs(a) @ self._size)
        return Plane(float(np.sum(terms)), -slope, error, 1.01 * UNIT * (np.log2(m + 1.0) + 64.0) * sizes)
