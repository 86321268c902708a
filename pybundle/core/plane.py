"""The currency of the package: planes `offset + <slope, w>` that lie below a convex risk."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse


class Planes(NamedTuple):
    """One plane for each part of a risk, taken at one query point w.

    `R_p(v) >= offsets[p] + <slopes[p], v>` for all v, with equality at v = w up to rounding.

    Attributes
    ----------
    values : ndarray, shape (P,)
        `R_p(w)`, sums over the examples of a part.
    offsets : ndarray, shape (P,)
        Computed as sums of losses where the risk can (no cancellation), never stale.
    slopes : ndarray or csr_array, shape (P, dim)
        float64; C-contiguous when dense. Owned by the receiver.
    """

    values: np.ndarray
    offsets: np.ndarray
    slopes: object

    def dot(self, w):
        """`<slopes[p], w>` for every part, shape (P,).

        One part at a time: a product of all rows at once would let the bits of a part depend on the others.
        """
        if issparse(self.slopes):
            return np.asarray(self.slopes @ w).ravel()
        return np.array([slope @ w for slope in self.slopes])

    @classmethod
    def from_subgradients(cls, values, slopes, w):
        """Planes of a general convex risk: `offset = R_p(w) - <slope, w>`."""
        values = np.asarray(values, dtype=np.float64)
        return cls(values, values - np.asarray(slopes @ w).ravel(), slopes)

    def density(self):
        """Share of stored slope entries that are not zero."""
        rows, dim = self.slopes.shape
        count = self.slopes.nnz if issparse(self.slopes) else np.count_nonzero(self.slopes)
        return count / max(1, rows * dim)


class PartialPlanes(NamedTuple):
    """Planes of some parts only: row j belongs to part `parts[j]`."""

    parts: np.ndarray
    planes: Planes
    round: Any = None
