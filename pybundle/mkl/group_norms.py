"""The penalty of multiple kernel learning: the square of the sum of the norms of groups, and inner products by group.

A point is a vector (dim,). For kernels it has two rows (2, N): coefficients of tokens, and scores, which are the Gram
matrix times the coefficients. In a group, `<a, b>` is the sum of a_j b_j; for kernels, of the coefficients of a times
the scores of b. Points are only scaled and added, which acts on both rows alike, so that features of a kernel are never
formed.
"""

from __future__ import annotations

import numpy as np

from ..prox.of_norm import OfNorm, Square


class GroupNorms(OfNorm):
    """`Omega(w) = lam/2 (sum_k |w_k|)^2`; the bound of a plane is `offset - max_k |phi_k|^2 / (2 lam)`.

    >>> import numpy as np
    >>> norms = GroupNorms(2.0, np.array([0, 0, 1]), 2)
    >>> norms.value(np.array([3.0, 4.0, 1.0])), float(norms.cost(np.array([3.0, 4.0, 1.0]), 0.0))
    (36.0, 6.25)
    """

    def __init__(self, lam, labels, n_groups, nonneg=None):
        self.lam, self.labels, self.n_groups, self.nonneg = lam, labels, n_groups, nonneg
        self._sums = group_sums(labels, n_groups)

    @property
    def square(self):
        """The square of block methods, for the inner product of fixed kernel weights."""
        return Square(self.lam, self.nonneg)

    def norms(self, w):
        """Return |w_k|, shape (n_groups,)."""
        return np.sqrt(np.maximum(self.products(w, w), 0.0))

    def products(self, a, b):
        """Return the inner products of a and b group by group, shape (n_groups,)."""
        return self._sums(a * b if a.ndim == 1 else a[0] * b[-1])

    def value(self, w):
        return 0.5 * self.lam * float(self.norms(w).sum()) ** 2

    def cost(self, slope, error):
        return (self.norms(self.effective(slope)).max() + error) ** 2 / (2.0 * self.lam)

    def point(self, phi, lam):
        """Return the minimiser of the model: 0 except in the group with the largest |phi_k|."""
        phi = self.effective(phi)
        return np.where(self.labels == self.norms(phi).argmax(), -phi / lam, 0.0)


def group_sums(labels, n_groups):
    """Return a function that maps values (dim,) to their sums by group, shape (n_groups,).

    >>> group_sums(np.array([0, 0, 1]), 2)(np.array([1.0, 2.0, 4.0]))
    array([3., 4.])
    """
    starts = np.searchsorted(labels, np.arange(n_groups))
    if (np.diff(starts, append=len(labels)) > 0).all() and (np.diff(labels) >= 0).all():
        return lambda values: np.add.reduceat(values, starts)        # faster, as groups are contiguous
    return lambda values: np.bincount(labels, values, n_groups)
