"""The risk that the known planes of all examples define, and its multipliers; a block method has found these planes.

    R(w) = sum_i max_q u_iq(w),   u_iq = l_iq + <psi_iq, w>,   q = 0 the truth, u_i0 = 0

This R lies below the risk from which the planes come, so lower bounds from its multipliers hold for that risk, too.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from ...core.plane import Plane
from ...core.protocols import RiskBase
from ...core.ragged import ranges
from ._faces import GramProduct
from ._proximal_steps import plane_step
from .multipliers import Faces, Multipliers, Step

HALVINGS = 40       # number of bisections of [0, 1] in a line search


class KnownPlanes(RiskBase):
    """The risk of known planes, with the members that the augmented Lagrangian method uses.

    Planes and truths share one numbering, example after example; the truth of an example comes first.

    Parameters
    ----------
    n_examples : int
    rows : intp array, shape (m,)
        The example of every plane, ascending; truths are left out.
    offsets : ndarray, shape (m,)
    slopes : csr_array, shape (m, dim)
    """

    n_parts = 1
    lower_bounds = np.zeros(1)

    def __init__(self, n_examples, rows, offsets, slopes):
        self.n_examples, self.dim = n_examples, slopes.shape[1]
        self.slopes, self.offsets = slopes, offsets
        self.starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_examples) + 1)])
        self.places = np.arange(len(rows)) + rows + 1       # indices of planes among planes and truths
        self.losses = self.with_truths(offsets)
        self.is_plane = self.with_truths(1.0) > 0.0

    def with_truths(self, values):
        """Return values of planes with zeros for truths, shape (n + m,)."""
        all_values = np.zeros(self.starts[-1])
        all_values[self.places] = values
        return all_values

    def scores(self, w):
        """Return `<psi_iq, w>`, shape (n + m,)."""
        return self.with_truths(self.slopes @ w)

    def line_search(self, s0, s1, a, b):
        """Return the t in [0, 1] that minimises `a t + b t^2 / 2 + R` at scores `s0 + t (s1 - s0)`, and R at t."""
        rise, first, sizes = s1 - s0, self.starts[:-1], np.diff(self.starts)
        u0, low, high = s0 + self.losses, 0.0, 1.0
        for _ in range(HALVINGS):
            t = 0.5 * (low + high)
            u = u0 + t * rise
            is_top = u == np.repeat(np.maximum.reduceat(u, first), sizes)
            slope = a + b * t + float(np.maximum.reduceat(np.where(is_top, rise, -np.inf), first).sum())
            low, high = (low, t) if slope > 0.0 else (t, high)
        return low, float(np.maximum.reduceat(u0 + low * rise, first).sum())


class PlaneMultipliers(Multipliers):
    """Multipliers of planes and truths of `KnownPlanes`, arrays of shape (n + m,)."""

    def __init__(self, risk):
        super().__init__(risk)
        m, entries = max(len(risk.offsets), 1), risk.slopes.data
        self.squared_radius, self.row_size = float(entries @ entries) / m, len(entries) / m

    def truth(self):
        return 1.0 - self.risk.is_plane

    def complete(self, alpha):
        """Return multipliers of planes and truths; a truth gets 1 minus the sum over the planes of its example."""
        full = self.risk.with_truths(alpha)
        first = self.risk.starts[:-1]
        full[first] = np.maximum(1.0 - np.add.reduceat(full, first), 0.0)
        return full

    def check(self, alpha):
        """Return the multipliers, which are feasible already."""
        return alpha

    def step(self, alpha, scores, sigma):
        """Return the proximal `Step` at scores (n + m,) in O(n + m)."""
        out, support = np.empty_like(alpha), np.empty(self.risk.n_examples, dtype=np.int32)
        smooth, value = plane_step(self.risk.starts, alpha, scores + self.risk.losses, sigma, out, support)
        return Step(out, support, smooth, float(out @ self.risk.losses), value)

    def aggregate(self, alpha, support):
        """Return the `Plane` of the multipliers without errors, because its bound only decides when to stop."""
        weights = alpha[self.risk.places]
        used = np.flatnonzero(weights)
        return Plane(float(weights @ self.risk.offsets), self.risk.slopes[used].T @ weights[used])

    def faces(self, step, largest=None):
        return PlaneFaces(self.risk, step, largest)


class PlaneFaces(Faces):
    """The operator `sum_i Psi_i' J_i Psi_i`; Psi_i has the slopes of example i as rows, J_i is as in `multipliers.py`.

    The directions of a face are Helmert contrasts: the mean of its first j planes minus the next plane. Labellings of
    an example share most features, which cancel, so directions are much sparser than planes.
    """

    def __init__(self, risk, step, largest=None):
        super().__init__(step, largest)
        self._directions = self._helmert(self.sizes) @ self._planes(risk, step, self.rows)
        self._directions.eliminate_zeros()
        j = ranges(self.sizes - 1) + 1
        scale = 1.0 / np.sqrt(j * (j + 1.0))
        self._directions.data *= np.repeat(scale, np.diff(self._directions.indptr))
        self._gram_product = GramProduct(self._directions)

    @staticmethod
    def _planes(risk, step, kept):
        # returns the slopes of the planes on the faces of `kept` as rows, face after face; rows of truths are empty
        is_kept = np.zeros(risk.n_examples, dtype=bool)
        is_kept[kept] = True
        on = np.flatnonzero(np.repeat(is_kept, np.diff(risk.starts)) & (step.alpha > 0.0))
        slopes = risk.slopes[np.searchsorted(risk.places, on[risk.is_plane[on]])]
        lengths = np.zeros(len(on), dtype=np.int64)
        lengths[risk.is_plane[on]] = np.diff(slopes.indptr)
        return csr_array((slopes.data, slopes.indices, np.concatenate([[0], np.cumsum(lengths)])),
                         shape=(len(on), risk.dim))

    @staticmethod
    def _helmert(sizes):
        # returns rows (1, ..., 1, -j) with j ones for every face; with integers, common features cancel exactly
        j = ranges(sizes - 1) + 1
        ends = np.cumsum(j + 1)
        indices = ranges(j + 1) + np.repeat(np.repeat(np.cumsum(sizes) - sizes, sizes - 1), j + 1)
        values = np.ones(len(indices))
        values[ends - 1] = -j
        return csr_array((values, indices, np.concatenate([[0], ends])), shape=(len(j), int(sizes.sum())))

    def product(self, v):
        return self._gram_product(v) * self.fraction

    def diagonal(self):
        entries = self._directions
        return np.bincount(entries.indices, entries.data**2, entries.shape[1]) * self.fraction
