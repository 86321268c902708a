"""Planes of single examples with multipliers: the dual of an n-slack bundle, ascended block by block.

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
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from cpython.exc cimport PyErr_CheckSignals

import numpy as np

from pybundle.bundle._block_storage cimport (hash_plane, pb_prefetch, pb_slope_axpy, pb_slope_dot, pb_slope_value)
from pybundle.core._atomic cimport pb_count, pb_load, pb_store
from pybundle.core._rounds cimport wait_for_all

STEPS = {"exact": EXACT, "pairwise": PAIRWISE, "frank-wolfe": TOWARDS}
NAMES = {code: name for name, code in STEPS.items()}

# Squared distance of two planes, as a share of their norms, that is rounding.
cdef double NEAR = 1e-14
# Bytes of the next block that are read ahead.
cdef size_t FETCHED = 8192
# Entries read between two looks for signals, some 50 ms.
cdef double BREATH = 5e7
# Bytes of blocks from which they are summed in halves, a millisecond each.
cdef double HALVED = 8e6


def _entries(slopes):
    """Indices, values and where each row starts, without stored zeros: a checkpoint holds none, and names follow."""
    indices, values, starts = slopes.indices, slopes.data, slopes.indptr.astype(np.int64, copy=False)
    if values.all():
        return indices, values, starts
    kept = np.flatnonzero(values)
    return indices[kept], values[kept], np.searchsorted(kept, starts).astype(np.int64, copy=False)


cdef class Blocks(BlockPlanes):
    """Blocks of all examples and the point of their multipliers; not for two threads at once.

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

    # ------------------------------------------------------------------ planes

    def forget(self, int max_idle):
        """Starts a new tick; planes not active in the last `max_idle` ones go, or are merged where in use."""
        cdef Py_ssize_t i
        cdef int q, n
        cdef Block* b
        cdef int before
        self.tick += 1
        before = self.tick - max_idle
        with nogil:
            for i in range(self.n_blocks):
                b = &self.blocks[i]
                for q in range(b.n - 1, 0, -1):
                    if b.alpha[q] == 0.0 and b.planes[q].last < before:
                        self._remove(b, q)
                n = b.n + 1
                while self.step == TOWARDS and b.n < n:
                    n = b.n
                    self._merge(b, before)

    def copy(self, nonneg=None, step="exact", int max_steps=10, int cap=100):
        """The same planes and multipliers in an object of its own, with other settings; at w = 0 until placed."""
        cdef Blocks other = Blocks(self.n_blocks, self.dim, nonneg, step, max_steps, cap)
        cdef Py_ssize_t i
        for i in range(self.n_blocks):
            other._copy_block(&other.blocks[i], &self.blocks[i])
        other.n_planes, other.tick, other.offset = self.n_planes, self.tick, self.offset
        other.n_merged, other._metric, other.metric = self.n_merged, self._metric, self.metric
        return other

    @classmethod
    def from_state(cls, n_blocks, dim, settings, storage, point):
        """The blocks that `__reduce__` described, to the last bit."""
        cdef Blocks self = cls(n_blocks, dim, *settings)
        cdef const double[::1] metric
        cdef int k
        self._take_storage(storage)
        if point.get("metric") is not None:         # Gram matrices are those of it
            metric = point["metric"]
            if metric.shape[0] != dim or not (np.isfinite(metric).all() and np.min(metric) > 0.0):
                raise ValueError(f"metric must hold {dim} finite numbers > 0")
            self._metric, self.metric = point["metric"], &metric[0]
        self.breath, self.offset = point["breath"], point["offset"]
        if not np.isfinite(point["x"]).all() or not 0.0 < point["scale"] < INFINITY:
            raise ValueError("the point must be finite, and its scale a number > 0")
        self.place(point["x"], point["scale"])
        if point["drifts"] is not None:
            self.start_averages()
            if point["drifts"].shape != (2, dim) or not np.isfinite(point["drifts"]).all():
                raise ValueError(f"drifts must be finite and of shape (2, {dim})")
            self._drifts[:] = point["drifts"]
            for k in range(2):
                self.averages[k].offset_drift, self.averages[k].count = point["averages"][k]
        return self

    @classmethod
    def from_arrays(cls, n_blocks, dim, rows, offsets, alpha, slopes):
        """The planes and multipliers that `arrays` described, or others in their form; at w = 0 until placed."""
        cdef Blocks self = cls(n_blocks, dim)
        cdef Py_ssize_t j, n
        cdef const int32_t* indices
        cdef const double* values
        cdef const Py_ssize_t[::1] row = rows
        entries = _entries(slopes)
        cdef const double[::1] offset = offsets, value = entries[1]
        cdef const int32_t[::1] index = entries[0]
        cdef const int64_t[::1] start = entries[2]
        for j in range(row.shape[0]):
            n = start[j + 1] - start[j]
            indices, values = &index[start[j]] if n else NULL, &value[start[j]] if n else NULL
            self._insert(&self.blocks[row[j]], hash_plane(offset[j], n, indices, values), offset[j], n, indices, values)
        self.assign(alpha)
        return self

    def assign(self, const double[::1] alpha):
        """Sets the multipliers of all planes, in the order of `arrays`; truths get what they leave."""
        cdef Py_ssize_t i, j = 0
        cdef int q
        cdef double rest
        cdef Block* b
        if alpha.shape[0] != self.n_planes or self.n_planes and not np.min(alpha) >= 0.0:
            raise ValueError(f"alpha must hold {self.n_planes} numbers of at least 0")
        for i in range(self.n_blocks):
            b = &self.blocks[i]
            rest, b.n_used = 1.0, 0
            for q in range(1, b.n):
                b.alpha[q] = alpha[j]
                rest -= alpha[j]
                j += 1
                if b.alpha[q] > 0.0:
                    b.n_used += 1
                    b.planes[q].last = self.tick
            b.alpha[0] = max(rest, 0.0)
            b.n_used += b.alpha[0] > 0.0
        self.aggregate()

    def __reduce__(self):
        nonneg = None if self.is_kept == NULL else np.asarray(self._is_kept, dtype=bool)
        point = {"x": self.unclipped(), "scale": self.scale, "offset": self.offset, "breath": self.breath,
                 "drifts": self._drifts, "metric": self._metric,
                 "averages": [(self.averages[k].offset_drift, self.averages[k].count) for k in range(2)]}
        settings = nonneg, NAMES[self.step], self.max_steps, self.cap
        return Blocks.from_state, (self.n_blocks, self.dim, settings, self._storage(), point)

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

    # ------------------------------------------------------------------ passes

    def visit(self, rows, offsets, slopes, bint towards=False):
        """Adds a plane to each of these blocks, then takes steps there; gives the sum of the gaps met.

        As `learn` and `climb`. With `towards` the new plane is the target of the step.
        """
        places = self.learn(rows, offsets, slopes)
        return self.climb(rows, places if towards else None)

    def learn(self, const Py_ssize_t[::1] rows, const double[::1] offsets, slopes, Blocks hand=None, shift=None):
        """Adds a plane to each of these blocks, multipliers stay; gives the places of the planes in their blocks.

        Parameters
        ----------
        rows, offsets : array, shape (len,)
        slopes : csr_array, shape (len, dim)
            int32 indices, sorted, no duplicates; zeros are left out.
        hand : Blocks, optional
            One of `hand()`: with hands of their own several threads may learn at once, each for other blocks.
        shift : object, optional
            RuntimeError where it is not the `shift` of now: a thread that is late.
        """
        indices, values, starts = _entries(slopes)
        cdef const int32_t[::1] index = indices
        cdef const double[::1] value = values
        cdef const int64_t[::1] start = starts
        cdef Py_ssize_t j
        cdef Blocks worker = self if hand is None else hand
        self._check(rows, offsets, start)
        places = np.empty(rows.shape[0], dtype=np.int32)
        cdef int32_t[::1] place = places
        worker.is_busy = True           # first: who ends a shift looks at this next
        try:
            if shift is not self.shift:
                raise RuntimeError("the pass that these planes belong to has ended")
            if worker is not self:
                worker.cap, worker.tick, worker.metric = self.cap, self.tick, self.metric
            with nogil:
                for j in range(rows.shape[0]):
                    place[j] = worker._add(&self.blocks[rows[j]], offsets[j], start[j + 1] - start[j],
                                           &index[0] + start[j] if start[j + 1] > start[j] else NULL,
                                           &value[0] + start[j] if start[j + 1] > start[j] else NULL)
                    worker._breathe()
        finally:
            worker.is_busy = False
        return places

    def hand(self):
        """Scratch and counters for `learn` in a thread of its own; when all have learnt, `settle` it."""
        return Blocks(0, self.dim)

    def settle(self, Blocks hand):
        """Takes over what a hand has counted."""
        if hand is self:
            return
        self._widen(hand.u_room)
        self.work += hand.work
        self.bytes += hand.bytes
        self.n_planes += hand.n_planes
        self.n_merged += hand.n_merged
        hand.work = hand.bytes = hand.breath = 0.0
        hand.n_planes = hand.n_merged = 0

    def climb(self, const Py_ssize_t[::1] rows, places=None):
        """An oracle step on each of these blocks, towards the planes at `places` if given; the sum of the gaps met."""
        cdef Py_ssize_t j
        cdef const int32_t[::1] place
        cdef double total = 0.0
        cdef int target = -1
        cdef bint has_places = places is not None
        self._check_rows(rows)
        if has_places:
            place = places
            if place.shape[0] != rows.shape[0]:
                raise ValueError(f"places must have one entry for each of {rows.shape[0]} rows, got {place.shape[0]}")
            for j in range(rows.shape[0]):
                if not 0 <= place[j] < self.blocks[rows[j]].n:
                    raise IndexError(f"block {rows[j]} has no plane {place[j]}")
        with nogil:
            for j in range(rows.shape[0]):
                if has_places:
                    target = place[j]
                total += self._step(&self.blocks[rows[j]], target, False)
                self._count(0)
                self._breathe()
        return total

    def sweep(self, const Py_ssize_t[::1] rows, bint used_only=False):
        """A step on each of these blocks over the planes known, or those in use; gives the sum of the gaps met."""
        cdef Py_ssize_t j
        cdef double total = 0.0
        self._check_rows(rows)
        with nogil:
            for j in range(rows.shape[0]):
                if j + 1 < rows.shape[0]:
                    fetch(&self.blocks[rows[j + 1]])
                if self.blocks[rows[j]].n > 1:
                    total += self._step(&self.blocks[rows[j]], -1, used_only)
                self._count(1)
                self._breathe()
        return total

    cdef int _breathe(self) except -1 nogil:
        if self.work - self.breath > BREATH:
            self.breath = self.work
            with gil:
                PyErr_CheckSignals()
        return 0

    cdef void _count(self, int k) noexcept nogil:
        if self.averages[k].drift != NULL:
            self.averages[k].count += 1.0

    def _check(self, const Py_ssize_t[::1] rows, const double[::1] offsets, const int64_t[::1] start):
        if offsets.shape[0] != rows.shape[0] or start.shape[0] != rows.shape[0] + 1:
            raise ValueError(f"rows, offsets and slopes must have one length, got {rows.shape[0]}, "
                             f"{offsets.shape[0]} and {start.shape[0] - 1}")
        self._check_rows(rows)

    def _check_rows(self, const Py_ssize_t[::1] rows):
        cdef Py_ssize_t j
        for j in range(rows.shape[0]):
            if not 0 <= rows[j] < self.n_blocks:
                raise IndexError(f"rows must lie in 0..{self.n_blocks - 1}, got {rows[j]}")

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
        cdef double count = self.averages[k].count
        if count == 0.0:
            return None
        count *= count + 1.0
        return self.w - self._drifts[k] / count, self.offset - self.averages[k].offset_drift / count

    # ------------------------------------------------------------------ what is known

    def aggregate(self, run=map):
        """(B, phi, sum_iq alpha_iq |psi_iq|), summed afresh in float64, block after block; sets `offset`.

        Many planes are summed in two halves, which two threads of `run(function, items)` may share.
        """
        cdef Py_ssize_t n_parts = 2 if self.bytes > HALVED else 1, size = (self.n_blocks + n_parts - 1) // n_parts
        cdef int64_t turn
        part = np.repeat(np.arange(n_parts, dtype=np.intp), size)
        sums = np.zeros(n_parts), np.zeros((n_parts, self.dim)), np.zeros(n_parts)
        self.n_sums += 1
        turn = self.n_sums
        pb_store(&self.sum_of_now, turn)
        try:
            self.work += sum(run(lambda k: self._sum(turn, k * size, (k + 1) * size, part, sums), range(n_parts)))
        finally:                # compiled: no signal comes between
            pb_store(&self.sum_of_now, 0)
            with nogil:
                wait_for_all(&self.gate)
        offset, phi, size_of_all = (each[0] if n_parts == 1 else each[0] + each[1] for each in sums)
        self.offset = offset
        return self.offset, phi, size_of_all

    def _sum(self, int64_t turn, first, last, part, sums):
        """As `aggregate_range` for that call of `aggregate`: after an interrupt an executor may still come with it."""
        pb_count(&self.gate.entered)        # before it looks
        try:
            if pb_load(&self.sum_of_now) != turn:
                raise RuntimeError("the sum that these blocks belong to has ended")
            return self.aggregate_range(first, last, part, *sums)
        finally:
            pb_count(&self.gate.left)

    def measure(self):
        """Sets the gap of every block to that over all its planes at the present point."""
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.n_blocks):
                self.blocks[i].gap = self._score(&self.blocks[i], False)
                self._breathe()

    def gaps(self):
        """Gap of every block before its last step, or as measured since, shape (n_blocks,)."""
        cdef Py_ssize_t i
        out = np.empty(self.n_blocks)
        cdef double[::1] view = out
        for i in range(self.n_blocks):
            view[i] = self.blocks[i].gap
        return out


cdef void fetch(const Block* b) noexcept nogil:
    """Starts to read a block that is next."""
    cdef size_t k = 0
    while k < b.filled and k < FETCHED:
        pb_prefetch(b.memory + k)
        k += 64
