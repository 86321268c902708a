"""Blocks of planes of all examples: what they learn, passes over them, sums of their multipliers."""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t, int64_t

import numpy as np

from pybundle.solvers.block._bcfw import NAMES

from pybundle.bundle._block_storage cimport Block, hash_plane, pb_prefetch
from pybundle.features._compiled_oracle cimport CompiledOracle
from pybundle.solvers.block._bcfw cimport TOWARDS, BlockSteps

cdef extern from "_clock.h" nogil:
    double pb_seconds()

cdef size_t FETCHED = 8192          # bytes of the next block that are read ahead
cdef double BREATH = 0.05           # seconds between two looks for signals while an oracle is asked


def _entries(slopes):
    """Indices, values and where each row starts, without stored zeros: a checkpoint holds none, and names follow."""
    indices, values, starts = slopes.indices, slopes.data, slopes.indptr.astype(np.int64, copy=False)
    if values.all():
        return indices, values, starts
    kept = np.flatnonzero(values)
    return indices[kept], values[kept], np.searchsorted(kept, starts).astype(np.int64, copy=False)


cdef class Blocks(BlockSteps):
    """All blocks of a risk; parameters as of `BlockSteps`. Not for two threads at once.

    Attributes
    ----------
    visits : int
        Oracle steps taken, by this object.
    """

    cdef readonly Py_ssize_t visits

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
        other.n_merged, other.merging_error = self.n_merged, self.merging_error
        other._metric, other.metric = self._metric, self.metric
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
        self._check(rows, offsets, start)
        check_entries(index, start, dim)
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

    # ------------------------------------------------------------------ passes

    def visit(self, rows, offsets, slopes, bint towards=False):
        """Adds a plane to each of these blocks, then takes steps there; gives the sum of the gaps met.

        As `learn` and `climb`. With `towards` the new plane is the target of the step.
        """
        places = self.learn(rows, offsets, slopes)
        return self.climb(rows, places if towards else None)

    def learn(self, const Py_ssize_t[::1] rows, const double[::1] offsets, slopes):
        """Adds a plane to each of these blocks, multipliers stay; gives the places of the planes in their blocks.

        Parameters
        ----------
        rows, offsets : array, shape (len,)
        slopes : csr_array, shape (len, dim)
            int32 indices, sorted, no duplicates; zeros are left out.
        """
        indices, values, starts = _entries(slopes)
        cdef const int32_t[::1] index = indices
        cdef const double[::1] value = values
        cdef const int64_t[::1] start = starts
        cdef Py_ssize_t j
        self._check(rows, offsets, start)
        check_entries(index, start, self.dim)
        places = np.empty(rows.shape[0], dtype=np.int32)
        cdef int32_t[::1] place = places
        with nogil:
            for j in range(rows.shape[0]):
                place[j] = self._add(&self.blocks[rows[j]], offsets[j], start[j + 1] - start[j],
                                     &index[0] + start[j] if start[j + 1] > start[j] else NULL,
                                     &value[0] + start[j] if start[j + 1] > start[j] else NULL)
                self._breathe()
        return places

    def climb(self, const Py_ssize_t[::1] rows, places=None):
        """An oracle step on each of these blocks, towards the planes at `places` if given; the sum of the gaps met."""
        cdef Py_ssize_t j, n = rows.shape[0]
        cdef const int32_t[::1] place = places
        cdef const int32_t* target = NULL
        cdef double total
        self._check_rows(rows)
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
            total = self._climb(&rows[0], n, target)
        return total

    def ask(self, CompiledOracle oracle, const Py_ssize_t[::1] rows, Py_ssize_t batch, bint towards=False,
            double most_bytes=INFINITY):
        """Asks `oracle` for planes of these examples, `batch` of them at one point, and visits their blocks.

        Ends after the batch that makes the blocks larger than `most_bytes`, or in which an interrupt came. Gives the
        sum of the gaps met.
        """
        cdef Py_ssize_t first = 0, n = rows.shape[0], size
        cdef double total = 0.0, looked = pb_seconds(), now
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        cdef int32_t[::1] places = np.empty(batch, dtype=np.int32)
        self._check_rows(rows)
        with nogil:
            while first < n and (first == 0 or self.bytes <= most_bytes):
                size = min(batch, n - first)
                self._learn(oracle, &rows[first], size, &places[0])
                total += self._climb(&rows[first], size, &places[0] if towards else NULL)
                first, now = first + size, pb_seconds()
                if fabs(now - looked) > BREATH:
                    looked = now
                    with gil:
                        PyErr_CheckSignals()
        return total

    cdef int _learn(self, CompiledOracle oracle, const Py_ssize_t* rows, Py_ssize_t n, int32_t* places) except -1 nogil:
        """Stores the most violated planes of n examples at the present point; multipliers stay."""
        cdef Py_ssize_t j
        cdef int64_t start
        oracle.place(self.x)
        oracle.find(rows, n)
        for j in range(n):
            if j + 1 < n:
                fetch(&self.blocks[rows[j + 1]])
            start = oracle.planes.indptr[j]
            places[j] = self._add(&self.blocks[rows[j]], oracle.losses[j], oracle.planes.indptr[j + 1] - start,
                                  oracle.planes.indices + start, oracle.planes.data + start)
        return 0

    cdef double _climb(self, const Py_ssize_t* rows, Py_ssize_t n, const int32_t* places) noexcept nogil:
        """Steps on n blocks, one after another, towards the planes at `places` unless NULL; the sum of the gaps met."""
        cdef Py_ssize_t j
        cdef double total = 0.0
        for j in range(n):
            if j + 1 < n:
                fetch(&self.blocks[rows[j + 1]])
            total += self._step(&self.blocks[rows[j]], -1 if places == NULL else places[j], False)
            self._count(0)
            self.visits += 1
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

    # ------------------------------------------------------------------ what is known

    def aggregate(self):
        """(B, phi, sum_iq alpha_iq |psi_iq|), summed afresh in float64, block after block; sets `offset`."""
        offsets, slopes, sizes = self.aggregate_parts(np.zeros(self.n_blocks, dtype=np.intp), 1)
        self.offset = offsets[0]
        return self.offset, slopes[0], sizes[0]

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


cdef int check_entries(const int32_t[::1] index, const int64_t[::1] start, Py_ssize_t dim) except -1:
    """ValueError for rows that reach beyond the entries, or entries beyond the weights."""
    cdef Py_ssize_t j
    cdef bint fits = start[0] == 0 and start[start.shape[0] - 1] <= index.shape[0]
    for j in range(1, start.shape[0]):
        fits &= start[j - 1] <= start[j]
    for j in range(index.shape[0]):
        fits &= 0 <= index[j] < dim
    if not fits:
        raise ValueError(f"slopes must be a valid CSR matrix of {dim} columns; see check_format(full_check=True)")
    return 0


cdef void fetch(const Block* b) noexcept nogil:
    """Starts to read a block that is next."""
    cdef size_t k = 0
    while k < b.filled and k < FETCHED:
        pb_prefetch(b.memory + k)
        k += 64
