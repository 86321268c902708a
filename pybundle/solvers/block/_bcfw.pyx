"""Steps on blocks of planes with multipliers: the dual of an n-slack bundle, ascended block by block.

    D(alpha) = B - |phi|^2 / (2 lam),   phi = sum_iq alpha_iq psi_iq,   B = sum_iq alpha_iq l_iq,

alpha_i in the simplex over the planes `l_iq + <psi_iq, w>` known of example i, the truth (0, 0) among them. With a
centre c of weight kappa and s = lam + kappa the point of the multipliers is w = (kappa c - phi) / s; passes keep it up
to date by one axpy for each plane whose multiplier changed [Lacoste-Julien et al. 2013; Joachims et al. 2009].

A step on block i takes u_q = l_iq + <psi_iq, w> and moves alpha_i:

    EXACT       up to `max_steps` pairwise steps of second order in the Gram matrix of the block
    PAIRWISE    one step from the worst plane in use towards the target [Osokin et al. 2016]
    TOWARDS     one Frank-Wolfe step towards the target, all other multipliers shrink

The target is the best known plane, or the one that the oracle has just returned. Every step is an ascent of D of the
proximal problem. With weights kept at or above 0, `w` is the clipped point; the Gram matrix then bounds the curvature
from above, so steps remain ascents.

After `weigh(m)` the regulariser and the centre are those of `sum_j w_j^2 / m_j`: the same with `|phi|^2 = sum_j m_j
phi_j^2` and w = (kappa c - m phi) / s, entry by entry.
"""

from libc.math cimport INFINITY
from libc.string cimport memcpy

from cpython.exc cimport PyErr_CheckSignals

import numpy as np

from pybundle.bundle._block_storage cimport pb_slope_axpy, pb_slope_dot, pb_slope_value

STEPS = {"exact": EXACT, "pairwise": PAIRWISE, "frank-wolfe": TOWARDS}
NAMES = {code: name for name, code in STEPS.items()}

# Squared distance of two planes, as a share of their norms, that is rounding.
cdef double NEAR = 1e-14
# Entries read between two looks for signals, some 50 ms.
cdef double BREATH = 5e7


cdef class BlockSteps(BlockPlanes):
    """The point of the multipliers and steps on one block; `Blocks` passes over many.

    Parameters
    ----------
    n_blocks, dim : int
    nonneg : bool array, shape (dim,), optional
        Weights kept at or above 0.
    step : {"exact", "pairwise", "frank-wolfe"}
    max_steps : int
        Pairwise steps of an exact block.
    cap : int
        Most planes of a block, the truth included.

    Attributes
    ----------
    w : ndarray, shape (dim,)
        The point; the caller sets it by `place`.
    offset : float
        B.
    """

    def __cinit__(self, Py_ssize_t n_blocks, Py_ssize_t dim, nonneg=None, step="exact", int max_steps=10,
                  int cap=100):
        cdef double[::1] view
        cdef const uint8_t[::1] kept
        self.cap, self.step, self.max_steps = cap, STEPS[step], max_steps
        self.scale = 1.0
        self.w = np.zeros(dim)
        view = self.w
        self.x, self.free, self.is_kept = &view[0], NULL, NULL
        if nonneg is not None:
            self._free, self._is_kept = np.zeros(dim), np.array(nonneg, dtype=np.uint8)
            if self._is_kept.shape != (dim,):
                raise ValueError(f"nonneg must have shape ({dim},), got {self._is_kept.shape}")
            view, kept = self._free, self._is_kept
            self.free, self.is_kept = &view[0], &kept[0]

    # ------------------------------------------------------------------ the point

    def place(self, x, double scale):
        """Sets s = `scale` and the point, which the caller has computed from phi; clipped here."""
        cdef const double[::1] view = x
        cdef Py_ssize_t k
        if view.shape[0] != self.dim:
            raise ValueError(f"x must have {self.dim} entries")
        self.scale = scale
        memcpy(self.x, &view[0], self.dim * sizeof(double))
        if self.is_kept != NULL:
            memcpy(self.free, &view[0], self.dim * sizeof(double))
            for k in range(self.dim):
                if self.is_kept[k]:
                    self.x[k] = max(self.free[k], 0.0)

    def unclipped(self):
        """(kappa c - phi) / s, before weights were kept nonnegative; a copy."""
        return np.array(self.w) if self.is_kept == NULL else np.where(self._is_kept, self._free, self.w)

    cdef void _shift(self, const Plane* a, double factor) noexcept nogil:
        """x += factor psi, and what follows from it."""
        cdef Py_ssize_t k, j
        if self.metric == NULL:
            pb_slope_axpy(&a.slope, factor, self.x)
        else:
            for k in range(a.slope.n):
                j = a.slope.index[k] if a.slope.index != NULL else k
                self.x[j] += factor * self.metric[j] * pb_slope_value(&a.slope, k)
        if self.is_kept != NULL:
            for k in range(a.slope.n):
                j = a.slope.index[k] if a.slope.index != NULL else k
                if self.is_kept[j]:
                    self.free[j] += (factor if self.metric == NULL else factor * self.metric[j]) * pb_slope_value(
                        &a.slope, k)
                    self.x[j] = max(self.free[j], 0.0)
        for k in range(2):
            if self.averages[k].drift != NULL:
                pb_slope_axpy(&a.slope, factor * self.averages[k].count * (self.averages[k].count + 1.0),
                              self.averages[k].drift)

    # ------------------------------------------------------------------ steps

    cdef double _score(self, Block* b, bint used_only) noexcept nogil:
        """u of all planes, or of those with a multiplier alone, and the gap of the block."""
        cdef int q
        cdef double best = -INFINITY, mean = 0.0
        for q in range(b.n):
            if b.alpha[q] == 0.0 and used_only:
                self.u[q] = -INFINITY
                continue
            self.u[q] = 0.0
            if q:
                self.u[q] = b.planes[q].offset + pb_slope_dot(&b.planes[q].slope, self.x)
            self.work += b.planes[q].slope.n
            best = max(best, self.u[q])
            mean += b.alpha[q] * self.u[q]
        return max(best - mean, 0.0)

    cdef double _step(self, Block* b, int target, bint used_only) noexcept nogil:
        """A step on the block towards plane `target`, -1 for the best one; the gap before it."""
        cdef int q, best = 0, n = b.n
        cdef double gap = self._score(b, used_only)
        for q in range(1, n):
            if self.u[q] > self.u[best]:
                best = q
        if not used_only:
            b.gap = gap
        b.planes[best].last = self.tick
        if target < 0 or self.step == EXACT:
            target = best
        if gap == 0.0:
            return gap
        memcpy(self.change, b.alpha, n * sizeof(double))
        if self.step == TOWARDS:
            self._towards(b, target)
        else:
            self._pairwise(b, target)
        b.n_used = 0
        for q in range(n):
            b.n_used += b.alpha[q] > 0.0
            self.change[q] = b.alpha[q] - self.change[q]
            if b.alpha[q] > 0.0 and self.step != TOWARDS:
                b.planes[q].last = self.tick
            if q and self.change[q] != 0.0:
                self._shift(&b.planes[q], -self.change[q] / self.scale)
                self.work += b.planes[q].slope.n
                self.offset += self.change[q] * b.planes[q].offset
                for best in range(2):
                    if self.averages[best].drift != NULL:
                        self.averages[best].offset_drift += (self.change[q] * b.planes[q].offset
                                                             * self.averages[best].count
                                                             * (self.averages[best].count + 1.0))
        return gap

    cdef void _pairwise(self, Block* b, int target) noexcept nogil:
        cdef int step, q, i = target, j, n = b.n
        cdef double den, best_den, gain, best_gain, tau, difference
        cdef double* G = b.gram
        for step in range(1 if self.step == PAIRWISE else self.max_steps):
            if step:
                i = 0
                for q in range(1, n):
                    if self.u[q] > self.u[i]:
                        i = q
            j = -1
            best_gain = 0.0
            best_den = 1.0
            for q in range(n):
                difference = self.u[i] - self.u[q]
                if b.alpha[q] <= 0.0 or not difference > 0.0:
                    continue
                den = G[i * b.room + i] + G[q * b.room + q] - 2.0 * G[i * b.room + q]
                den = max(den, NEAR * (G[i * b.room + i] + G[q * b.room + q])) / self.scale
                if self.step == PAIRWISE:
                    gain = difference
                else:
                    tau = min(difference / den, b.alpha[q]) if den > 0.0 else b.alpha[q]
                    gain = tau * (difference - 0.5 * tau * den)
                if gain > best_gain:
                    best_gain, best_den, j = gain, den, q
            if j < 0:
                return
            difference = self.u[i] - self.u[j]
            tau = difference / best_den if best_den > 0.0 else b.alpha[j]
            if tau >= b.alpha[j]:
                tau = b.alpha[j]
                b.alpha[j] = 0.0
            else:
                b.alpha[j] -= tau
            b.alpha[i] += tau
            tau /= self.scale
            for q in range(n):
                self.u[q] -= tau * (G[q * b.room + i] - G[q * b.room + j])

    cdef void _towards(self, Block* b, int t) noexcept nogil:
        cdef int q, r, n = b.n
        cdef double along = 0.0, square = 0.0, mean = 0.0, row, distance, gamma
        cdef double* G = b.gram
        for q in range(n):
            if b.alpha[q] == 0.0:
                continue
            row = 0.0
            for r in range(n):
                row += b.alpha[r] * G[q * b.room + r]
            square += b.alpha[q] * row
            along += b.alpha[q] * G[q * b.room + t]
            mean += b.alpha[q] * self.u[q]
        distance = (G[t * b.room + t] - 2.0 * along + square) / self.scale
        if not self.u[t] > mean:
            return
        gamma = min((self.u[t] - mean) / distance, 1.0) if distance > 0.0 else 1.0
        for q in range(n):
            b.alpha[q] *= 1.0 - gamma
        b.alpha[t] += gamma

    cdef int _breathe(self) except -1 nogil:
        if self.work - self.breath > BREATH:
            self.breath = self.work
            with gil:
                PyErr_CheckSignals()
        return 0

    # ------------------------------------------------------------------ averages

    def start_averages(self):
        """Averages over the points after oracle steps and after cached ones begin here, and are kept from now on."""
        cdef double[:, ::1] view
        cdef int k
        self._drifts = np.zeros((2, self.dim))
        view = self._drifts
        for k in range(2):
            self.averages[k].drift = &view[k, 0]
            self.averages[k].offset_drift = self.averages[k].count = 0.0

    def average(self, int k):
        """The average of the points after oracle steps (k = 0) or cached ones (1): (w, B), or None before any."""
        if not 0 <= k < 2:
            raise ValueError(f"k must be 0 or 1, got {k}")
        cdef double count = self.averages[k].count
        if count == 0.0:
            return None
        count *= count + 1.0
        return self.w - self._drifts[k] / count, self.offset - self.averages[k].offset_drift / count

    cdef void _count(self, int k) noexcept nogil:
        if self.averages[k].drift != NULL:
            self.averages[k].count += 1.0
