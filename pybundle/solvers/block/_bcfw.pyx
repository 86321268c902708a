"""Block-coordinate Frank-Wolfe on the dual of an n-slack problem [Lacoste-Julien et al. 2013, Algorithm 4].

    D(alpha) = B - |phi|^2 / (2 lam),   phi = sum_iq alpha_iq psi_iq,   B = sum_iq alpha_iq l_iq,

where alpha_i lies in the simplex over the known planes `l_iq + <psi_iq, w>` of example i, one of which is the truth
(0, 0). With a centre c of weight kappa and s = lam + kappa the point of the multipliers is w = (kappa c - phi) / s.
Without a centre, -sum_q alpha_iq psi_iq / lam is the w_i of the paper. An oracle step at example i (`ask`, or `add` and
then `steps`) does:

    1   (l_t, psi_t) = the most violated plane of example i at w, from the oracle, becomes plane t of block i
    2   u_q = l_q + <psi_q, w> for the planes q of block i;  gap_i = max_q u_q - <alpha_i, u>
    3   gamma = min((u_t - <alpha_i, u>) s / |psi_t - sum_q alpha_iq psi_iq|^2, 1),  the best step towards t
    4   alpha_i <- (1 - gamma) alpha_i + gamma e_t
    5   w <- w - sum_q (change of alpha_iq) psi_iq / s,  B <- B + sum_q (change of alpha_iq) l_iq
    6   average of w_0, w_1, ...: wbar <- k / (k + 2) wbar + 2 / (k + 2) w

The paper stores w_i and l_i; this class stores the planes that sum to them. So a cached pass (`sweep`) can leave
out line 1, with the best known plane as t. `step` chooses between ways to do lines 3 and 4, all by the Gram matrix of
the block:

    "frank-wolfe"   as above; all other multipliers shrink
    "pairwise"      one step from the worst plane in use towards t [Osokin et al. 2016]
    "exact"         up to `max_steps` pairwise steps of second order, each towards the best plane [Joachims et al. 2009]

Every step increases D of the proximal problem. With constraints w_j >= 0, `w` is the clipped point, and the Gram matrix
is an upper bound of the curvature, so steps still increase D. After `weigh(m)`, penalty and proximal term have the
squares `sum_j w_j^2 / m_j` in place of `|w|^2`. Then `|phi|^2 = sum_j m_j phi_j^2` and w = (kappa c - m phi) / s, entry
by entry.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

import numpy as np

from pybundle.core._indices cimport check_indices
from pybundle.solvers.block._block cimport (Block, StoredPlane, copy_block, fetch_block, pb_slope_axpy,
                                            pb_slope_dot, pb_slope_value)
from pybundle.solvers.block._plane_cache cimport LEFT, PlaneCache, is_candidate
from pybundle.features._compiled_oracle cimport CompiledOracle

from pybundle.solvers.block._plane_arrays import arrays_of, set_state, state_of

cdef extern from "_clock.h" nogil:
    double pb_seconds()

cdef enum Step:
    EXACT, PAIRWISE, FRANK_WOLFE

STEPS = {"exact": EXACT, "pairwise": PAIRWISE, "frank-wolfe": FRANK_WOLFE}
NAMES = {code: name for name, code in STEPS.items()}

cdef double NEAR = 1e-14            # least squared distance of two slopes, divided by the sum of their squared norms
cdef double CHECK_EVERY = 0.05      # seconds between two checks for signals during calls of an oracle


cdef struct Average:
    # the weighted mean sum_k 2k w_k / (K (K + 1)) of the points w_k after K steps is w - drift / (K (K + 1))
    double* drift
    double offset_drift
    double count


cdef class Blocks(PlaneCache):
    """Planes and multipliers of all examples, their point, and passes over them, for one thread at a time.

    Parameters
    ----------
    n_blocks, dim : int
    nonneg : bool array, shape (dim,), optional
        Mask of the weights with a constraint w_j >= 0.
    step : {"exact", "pairwise", "frank-wolfe"}
    max_steps : int
        Maximum number of pairwise steps in one step "exact".
    cap : int
        Maximum number of planes of a block, the truth included.
    max_idle : int
        0: steps may go towards all planes. Otherwise steps go towards the working set of [Shah2015]: planes that the
        oracle has found (`add`), and that were found or best of their block in the last `max_idle` ticks. A cached step
        (`sweep`) drops all other planes, or merges those with multipliers into one plane, which only keeps phi_i.

    Attributes
    ----------
    w : ndarray, shape (dim,)
        The point, which the caller sets by `set_point`.
    curvature : float
        s = lam + kappa.
    visits : int
        Number of oracle steps of this object so far.
    """

    cdef readonly object w
    cdef readonly double curvature
    cdef readonly Py_ssize_t visits
    cdef int max_steps, step
    cdef object _free, _is_kept, _drifts
    cdef double* x              # address of the entries of w
    cdef double* free           # constrained weights before clipping; the other entries are not used
    cdef const uint8_t* is_kept     # mask of constrained weights; NULL if there are none
    cdef Average averages[2]    # averages of the points after oracle steps, and after steps of cached passes

    def __cinit__(self, Py_ssize_t n_blocks, Py_ssize_t dim, nonneg=None, step="exact", int max_steps=10,
                  int cap=100, int max_idle=0):
        cdef double[::1] view
        cdef const uint8_t[::1] kept
        cdef Py_ssize_t i
        self.cap, self.step, self.max_steps, self.max_idle = cap, STEPS[step], max_steps, max_idle
        for i in range(n_blocks if max_idle else 0):
            self.blocks[i].planes[0].last = LEFT        # truths enter working sets only when found
        self.merges = self.step == FRANK_WOLFE      # Frank-Wolfe steps leave weight on all planes
        self.curvature = 1.0
        self.w = np.zeros(dim)
        view = self.w
        self.x, self.free, self.is_kept = &view[0], NULL, NULL
        if nonneg is not None:
            self._free, self._is_kept = np.zeros(dim), np.array(nonneg, dtype=np.uint8)
            if self._is_kept.shape != (dim,):
                raise ValueError(f"nonneg must have shape ({dim},), got {self._is_kept.shape}")
            view, kept = self._free, self._is_kept
            self.free, self.is_kept = &view[0], &kept[0]

    # ------------------------------------------------------------------ passes

    def ask(self, CompiledOracle oracle, const Py_ssize_t[::1] rows, Py_ssize_t batch, bint towards=False,
            double most_bytes=INFINITY):
        """Do oracle steps at the examples `rows`, where `oracle` finds the planes of `batch` examples at one point.

        The pass ends after the batch that makes the blocks larger than `most_bytes`, or in which an interrupt came.
        The result is the sum of the block gaps before the steps.
        """
        cdef Py_ssize_t first = 0, n = rows.shape[0], size
        cdef double total = 0.0, checked = pb_seconds(), now
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        cdef int32_t[::1] places = np.empty(batch, dtype=np.int32)
        check_indices("rows", rows, self.n_blocks)
        with nogil:
            while first < n and (first == 0 or self.bytes <= most_bytes):
                size = min(batch, n - first)
                self._add_found(oracle, &rows[first], size, &places[0])
                total += self._steps(&rows[first], size, &places[0] if towards else NULL)
                first, now = first + size, pb_seconds()
                if fabs(now - checked) > CHECK_EVERY:
                    checked = now
                    with gil:
                        PyErr_CheckSignals()
        return total

    cdef int _add_found(self, CompiledOracle oracle, const Py_ssize_t* rows, Py_ssize_t n,
                        int32_t* places) except -1 nogil:
        """Do line 1: store the most violated planes of n examples at the present point."""
        cdef Py_ssize_t j
        cdef int64_t start
        oracle.place(self.x)
        oracle.find(rows, n)
        for j in range(n):
            if j + 1 < n:
                fetch_block(&self.blocks[rows[j + 1]])
            start = oracle.planes.indptr[j]
            places[j] = self._add(&self.blocks[rows[j]], oracle.losses[j], oracle.planes.indptr[j + 1] - start,
                                  oracle.planes.indices + start, oracle.planes.data + start)
        return 0

    cdef double _steps(self, const Py_ssize_t* rows, Py_ssize_t n, const int32_t* places) noexcept nogil:
        """Do lines 2 to 6 on n blocks, towards planes `places` unless NULL; return the sum of the gaps of line 2."""
        cdef Py_ssize_t j
        cdef double total = 0.0
        for j in range(n):
            if j + 1 < n:
                fetch_block(&self.blocks[rows[j + 1]])
            total += self._step(&self.blocks[rows[j]], -1 if places == NULL else places[j], False)
            self._count(0)
            self.visits += 1
        return total

    def steps(self, const Py_ssize_t[::1] rows, places=None):
        """Do lines 2 to 6 on each block, towards planes `places` if given; return the sum of the gaps of line 2."""
        cdef Py_ssize_t j, n = rows.shape[0]
        cdef const int32_t[::1] place = places
        cdef const int32_t* target = NULL
        cdef double total
        check_indices("rows", rows, self.n_blocks)
        if place is not None:
            if place.shape[0] != n:
                raise ValueError(f"places must have one entry for each of {n} rows, got {place.shape[0]}")
            for j in range(n):
                if not 0 <= place[j] < self.blocks[rows[j]].n:
                    raise IndexError(f"block {rows[j]} has no plane {place[j]}")
        if n == 0:
            return 0.0
        if place is not None:
            target = &place[0]
        with nogil:
            total = self._steps(&rows[0], n, target)
        return total

    def sweep(self, const Py_ssize_t[::1] rows, bint used_only=False):
        """Do lines 2 to 6 with all planes of each block, or only those in use; return the sum of the gaps of line 2."""
        cdef Py_ssize_t j
        cdef double total = 0.0
        check_indices("rows", rows, self.n_blocks)
        with nogil:
            for j in range(rows.shape[0]):
                if j + 1 < rows.shape[0]:
                    fetch_block(&self.blocks[rows[j + 1]])
                if self.blocks[rows[j]].n > 1:
                    total += self._step(&self.blocks[rows[j]], -1, used_only)
                    if self.max_idle:
                        self._forget(&self.blocks[rows[j]], self.tick + 1 - self.max_idle)
                self._count(1)
                self._check_signals()
        return total

    # ------------------------------------------------------------------ the step on one block

    cdef double _step(self, Block* b, int target, bint used_only) noexcept nogil:
        """Step on the block towards plane `target`, or the best plane if it is -1; return the gap before the step."""
        cdef int q, k, best = -1, n = b.n
        cdef double gap = self._score(b, used_only)             # line 2
        for q in range(n):
            if is_candidate(b, q, self.max_idle) and (best < 0 or self.u[q] > self.u[best]):
                best = q
        if not used_only:
            b.gap = gap
        if best < 0:
            return gap
        b.planes[best].last = self.tick
        if target < 0 or self.step == EXACT:
            target = best
        if gap == 0.0:
            return gap
        memcpy(self.change, b.alpha, n * sizeof(double))
        if self.step == FRANK_WOLFE:                            # lines 3, 4
            self._frank_wolfe(b, target)
        else:
            self._pairwise(b, target)
        b.n_used = 0
        for q in range(n):
            b.n_used += b.alpha[q] > 0.0
            self.change[q] = b.alpha[q] - self.change[q]
            if b.alpha[q] > 0.0 and self.step != FRANK_WOLFE:
                b.planes[q].last = self.tick
            if q and self.change[q] != 0.0:                     # lines 5, 6
                self._move_point(&b.planes[q], -self.change[q] / self.curvature)
                self.work += b.planes[q].slope.n
                self.offset += self.change[q] * b.planes[q].offset
                for k in range(2):
                    if self.averages[k].drift != NULL:
                        self.averages[k].offset_drift += (self.change[q] * b.planes[q].offset
                                                          * self.averages[k].count * (self.averages[k].count + 1.0))
        return gap

    cdef double _score(self, Block* b, bint used_only) noexcept nogil:
        """Compute u of all planes, or only of planes with a multiplier; return the block gap."""
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

    cdef void _frank_wolfe(self, Block* b, int t) noexcept nogil:
        """Move alpha_i to the best point of the segment from alpha_i to e_t."""
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
        distance = (G[t * b.room + t] - 2.0 * along + square) / self.curvature
        if not self.u[t] > mean:
            return
        gamma = min((self.u[t] - mean) / distance, 1.0) if distance > 0.0 else 1.0      # line 3
        for q in range(n):
            b.alpha[q] *= 1.0 - gamma                           # line 4
        b.alpha[t] += gamma

    cdef void _pairwise(self, Block* b, int target) noexcept nogil:
        """Move weight to plane `target`, then to the best plane: from the worst, or (EXACT) where D rises most."""
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
                den = max(den, NEAR * (G[i * b.room + i] + G[q * b.room + q])) / self.curvature
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
            tau /= self.curvature
            for q in range(n):
                self.u[q] -= tau * (G[q * b.room + i] - G[q * b.room + j])

    cdef void _move_point(self, const StoredPlane* a, double factor) noexcept nogil:
        """Add factor psi to the point (line 5), clip it, and update the averages (line 6)."""
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

    cdef void _count(self, int k) noexcept nogil:
        if self.averages[k].drift != NULL:
            self.averages[k].count += 1.0

    # ------------------------------------------------------------------ the point

    def set_point(self, x, double curvature):
        """Set s = `curvature` and the point x, which the caller has computed from phi, and which is clipped here."""
        cdef const double[::1] view = x
        cdef Py_ssize_t k
        if view.shape[0] != self.dim:
            raise ValueError(f"x must have {self.dim} entries")
        self.curvature = curvature
        memcpy(self.x, &view[0], self.dim * sizeof(double))
        if self.is_kept != NULL:
            memcpy(self.free, &view[0], self.dim * sizeof(double))
            for k in range(self.dim):
                if self.is_kept[k]:
                    self.x[k] = max(self.free[k], 0.0)

    def unclipped(self):
        """Return a copy of `(kappa c - phi) / s`, the point without clipping."""
        return np.array(self.w) if self.is_kept == NULL else np.where(self._is_kept, self._free, self.w)

    def start_averages(self):
        """Begin to average the points after oracle steps, and the points after cached steps."""
        cdef double[:, ::1] view
        cdef int k
        self._drifts = np.zeros((2, self.dim))
        view = self._drifts
        for k in range(2):
            self.averages[k].drift = &view[k, 0]
            self.averages[k].offset_drift = self.averages[k].count = 0.0

    def average(self, int k):
        """Return unclipped averages of -phi / s and B over oracle (k = 0) or cached steps (1); None without steps."""
        if not 0 <= k < 2:
            raise ValueError(f"k must be 0 or 1, got {k}")
        cdef double count = self.averages[k].count
        if count == 0.0:
            return None
        count *= count + 1.0
        return self.unclipped() - self._drifts[k] / count, self.offset - self.averages[k].offset_drift / count

    # ------------------------------------------------------------------ gaps, arrays, copies

    def measure(self):
        """Compute the gap of every block over all its planes at the present point."""
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.n_blocks):
                self.blocks[i].gap = self._score(&self.blocks[i], False)
                self._check_signals()

    def gaps(self):
        """Return the last gap of each block, from before its last step or from `measure`; shape (n_blocks,)."""
        cdef Py_ssize_t i
        out = np.empty(self.n_blocks)
        cdef double[::1] view = out
        for i in range(self.n_blocks):
            view[i] = self.blocks[i].gap
        return out

    def arrays(self):
        """Return all planes but truths: the block of each (m,), offsets, multipliers (m,), slopes as CSR (m, dim)."""
        return arrays_of(self)

    def copy(self, nonneg=None, step="exact", int max_steps=10, int cap=100, int max_idle=0):
        """Return a copy of planes and multipliers with other settings; its w is 0 until `set_point` is called."""
        cdef Blocks other = Blocks(self.n_blocks, self.dim, nonneg, step, max_steps, cap, max_idle)
        cdef Py_ssize_t i
        for i in range(self.n_blocks):
            other._reserve(&other.blocks[i], self.blocks[i].n)
            copy_block(&other.blocks[i], &self.blocks[i], &other.bytes)
        other.n_planes, other.tick, other.offset = self.n_planes, self.tick, self.offset
        other.n_merged, other.merging_error = self.n_merged, self.merging_error
        other._metric, other.metric = self._metric, self.metric
        return other

    @classmethod
    def from_state(cls, n_blocks, dim, settings, storage, point):
        """Return the blocks that `__reduce__` described, to the last bit."""
        cdef Blocks self = cls(n_blocks, dim, *settings)
        cdef const double[::1] metric
        cdef int k
        set_state(self, storage)
        if point.get("metric") is not None:         # the stored Gram matrices belong to this metric
            metric = point["metric"]
            if metric.shape[0] != dim or not (np.isfinite(metric).all() and np.min(metric) > 0.0):
                raise ValueError(f"metric must hold {dim} finite numbers > 0")
            self._metric, self.metric = point["metric"], &metric[0]
        self.checked, self.offset = point["checked"], point["offset"]
        if not np.isfinite(point["x"]).all() or not 0.0 < point["curvature"] < INFINITY:
            raise ValueError("the point must be finite, and its curvature a number > 0")
        self.set_point(point["x"], point["curvature"])
        if point["drifts"] is not None:
            self.start_averages()
            if point["drifts"].shape != (2, dim) or not np.isfinite(point["drifts"]).all():
                raise ValueError(f"drifts must be finite and of shape (2, {dim})")
            self._drifts[:] = point["drifts"]
            for k in range(2):
                self.averages[k].offset_drift, self.averages[k].count = point["averages"][k]
        return self

    def __reduce__(self):
        nonneg = None if self.is_kept == NULL else np.asarray(self._is_kept, dtype=bool)
        point = {"x": self.unclipped(), "curvature": self.curvature, "offset": self.offset, "checked": self.checked,
                 "drifts": self._drifts, "metric": self._metric,
                 "averages": [(self.averages[k].offset_drift, self.averages[k].count) for k in range(2)]}
        settings = nonneg, NAMES[self.step], self.max_steps, self.cap, self.max_idle
        return Blocks.from_state, (self.n_blocks, self.dim, settings, state_of(self), point)
