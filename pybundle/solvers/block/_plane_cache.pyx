"""Planes of single examples, one block for each, with multipliers and Gram matrices.

A block holds the known planes `l_q + <psi_q, w>` of its example, the truth (0, 0) first, and multipliers alpha in the
simplex over them. This class adds, merges and drops planes; its subclass in `_bcfw.pyx` changes the multipliers.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

import numpy as np

from pybundle.core._indices cimport check_indices
from pybundle.solvers.block._block cimport (StoredPlane, extend_block, find_plane, free_block, padded,
                                            pb_return_pages, pb_slope, pb_slope_axpy, pb_slope_dot, pb_slope_value,
                                            remove_plane, resize_block, slope_bytes, sort_entries, store_plane)
from pybundle.solvers.block._plane_cache cimport LEFT, is_candidate

from pybundle.core.plane import Plane, Planes
from pybundle.core.rounding import UNIT
from pybundle.core.sparse import check_sparse

# Rounding error of a weighted mean of two slopes, divided by the weighted mean of their norms.
cdef double MERGING = 3.03 * 2.0 ** -53
# Number of entries of slopes read between two checks for signals, which takes about 50 ms.
cdef double ENTRIES_PER_CHECK = 5e7


cdef class PlaneCache:
    """The known planes of all examples, with their multipliers.

    Parameters
    ----------
    n_blocks, dim : int

    Attributes
    ----------
    n_blocks, dim : int
    n_planes : int
        Number of planes without the truths.
    work : float
        Number of entries of planes read so far.
    bytes : float
        Memory of planes, multipliers and Gram matrices.
    cap : int
        Maximum number of planes in the working set of a block; the truth counts if it is in the set. To make room for
        a further plane, the plane that was idle longest is dropped, or two planes are merged.
    merges : bool
        Whether idle planes with multipliers > 0 are merged.
    tick : int
        Number of iterations so far.
    n_merged : int
        Number of merges of two planes.
    merging_error : float
        Bound on the rounding errors of all merged slopes together, in the Euclidean norm.
    offset : float
        B, the sum of multipliers times offsets.
    """

    def __cinit__(self, Py_ssize_t n_blocks, Py_ssize_t dim, *_settings, **_named):
        cdef double[::1] view
        cdef Py_ssize_t i
        self.blocks = NULL
        self.u = self.change = NULL
        self.metric = NULL
        self.n_blocks, self.dim, self.cap, self.merges = n_blocks, dim, 100, False
        self._scratch = np.zeros(dim)
        view = self._scratch
        self.dense = &view[0]
        self.blocks = <Block*>calloc(max(n_blocks, 1), sizeof(Block))      # calloc(0) may return NULL
        if self.blocks == NULL:
            raise MemoryError
        for i in range(n_blocks):
            self._reserve(&self.blocks[i], 2)
            memset(&self.blocks[i].planes[0], 0, sizeof(StoredPlane))
            self.blocks[i].alpha[0], self.blocks[i].gram[0] = 1.0, 0.0
            self.blocks[i].n = self.blocks[i].n_used = 1

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.blocks != NULL:
            for i in range(self.n_blocks):
                free_block(&self.blocks[i])
            free(self.blocks)
        free(self.u)
        free(self.change)

    cdef int _reserve(self, Block* b, int n) except -1 nogil:
        return 0 if n <= b.room else self._resize(b, max(n, 2 * b.room))

    cdef int _resize(self, Block* b, int room) except -1 nogil:
        """Allocate arrays for `room` planes, in the block and in the work space of steps."""
        resize_block(b, room, &self.bytes)
        if room > self.u_room:
            free(self.u)
            free(self.change)
            self.u, self.change, self.u_room = <double*>malloc(room * 8), <double*>malloc(room * 8), room
            if self.u == NULL or self.change == NULL:
                self.u_room = 0
                with gil:
                    raise MemoryError
        return 0

    # ------------------------------------------------------------------ adding and dropping planes

    def add(self, const Py_ssize_t[::1] rows, const double[::1] offsets, slopes):
        """Add a plane to each of the blocks `rows`; return the indices of the planes in their blocks.

        Parameters
        ----------
        rows, offsets : array, shape (len,)
        slopes : csr_array, shape (len, dim)
            int32 indices, sorted, without duplicates; stored zeros are ignored. The multipliers of new planes are 0.
        """
        if slopes.format != "csr" or slopes.shape != (offsets.shape[0], self.dim) or offsets.shape[0] != rows.shape[0]:
            raise ValueError(f"rows, offsets and slopes must have one length, and slopes be CSR of {self.dim} columns, "
                             f"got {rows.shape[0]}, {offsets.shape[0]} and {slopes.format} of shape {slopes.shape}")
        indices, values, starts = _entries(check_sparse("slopes", slopes, ValueError))
        cdef const int32_t[::1] index = indices
        cdef const double[::1] value = values
        cdef const int64_t[::1] start = starts
        cdef Py_ssize_t j
        check_indices("rows", rows, self.n_blocks)
        places = np.empty(rows.shape[0], dtype=np.int32)
        cdef int32_t[::1] place = places
        with nogil:
            for j in range(rows.shape[0]):
                place[j] = self._add(&self.blocks[rows[j]], offsets[j], start[j + 1] - start[j],
                                     &index[0] + start[j] if start[j + 1] > start[j] else NULL,
                                     &value[0] + start[j] if start[j + 1] > start[j] else NULL)
                self._check_signals()
        return places

    cdef int _add(self, Block* b, double offset, Py_ssize_t n, const int32_t* index,
                  const double* value) except -1 nogil:
        """Return the place of a plane in the block, after inserting it if it is new."""
        cdef int q = find_plane(b, offset, n, index, value), r, size = 0
        if b.n >= self.cap and (q < 0 or not is_candidate(b, q, self.max_idle)):
            for r in range(b.n):
                size += is_candidate(b, r, self.max_idle)
            if size >= self.cap:
                self._make_room(b)
                q = find_plane(b, offset, n, index, value)      # the plane may have another place now
        if q < 0:
            return self._insert(b, offset, n, index, value)
        b.planes[q].last = self.tick
        return q

    cdef int _insert(self, Block* b, double offset, Py_ssize_t n, const int32_t* index,
                     const double* value) except -1 nogil:
        """Insert a plane that is not in the block; return its place."""
        cdef int q, new
        cdef Py_ssize_t k
        cdef double norm = 0.0, weighted
        self._reserve(b, b.n + 1)
        new = b.n
        store_plane(b, &b.planes[new], offset, n, index, value, self.dim, &self.bytes)
        for k in range(n):
            weighted = value[k] if self.metric == NULL else self.metric[index[k]] * value[k]
            self.dense[index[k]] = weighted
            norm += value[k] * weighted
        self.work += n
        for q in range(new):
            b.gram[new * b.room + q] = b.gram[q * b.room + new] = pb_slope_dot(&b.planes[q].slope, self.dense)
            self.work += b.planes[q].slope.n
        b.gram[new * b.room + new] = norm
        for k in range(n):
            self.dense[index[k]] = 0.0
        b.alpha[new] = 0.0
        b.planes[new].last = self.tick
        b.n += 1
        self.n_planes += 1
        return new

    cdef void _remove(self, Block* b, int q) noexcept nogil:
        remove_plane(b, q)
        self.n_planes -= 1

    cdef bint _make_room(self, Block* b) except -1 nogil:
        """Drop the longest idle plane without a multiplier, else merge two planes; return whether anything changed.

        If `max_idle` > 0, the longest idle plane leaves the working set instead, also if it has a multiplier.
        """
        cdef int q, worst = -1
        for q in range(self.max_idle == 0, b.n):
            if is_candidate(b, q, self.max_idle) and (self.max_idle or b.alpha[q] == 0.0) and (
                    worst < 0 or b.planes[q].last < b.planes[worst].last):
                worst = q
        if worst < 0:
            return self._merge(b, self.tick + 1)
        if worst and b.alpha[worst] == 0.0:
            self._remove(b, worst)
        else:
            b.planes[worst].last = LEFT
            if self.merges:
                self._merge(b, LEFT + 1)
        return True

    def forget(self, int max_idle):
        """Begin a new tick; of planes idle for `max_idle` ticks drop those without a multiplier, and merge others."""
        cdef Py_ssize_t i
        self.tick += 1
        with nogil:
            for i in range(self.n_blocks):
                self._forget(&self.blocks[i], self.tick - max_idle)

    cdef int _forget(self, Block* b, int before) except -1 nogil:
        cdef int q
        for q in range(b.n - 1, -1, -1):
            if b.planes[q].last >= before:
                continue
            if q and b.alpha[q] == 0.0:
                self._remove(b, q)
            elif self.max_idle:
                b.planes[q].last = LEFT
        while self.merges and self._merge(b, before):
            pass
        return 0

    cdef bint _merge(self, Block* b, int before) except -1 nogil:
        """Merge the two planes of least multipliers > 0 idle since before tick `before`; return whether two exist."""
        cdef int q, i = -1, j = -1, r, which
        cdef double a, share, norm, offset
        cdef Py_ssize_t k, count = 0
        cdef int32_t* index
        cdef double* value
        cdef StoredPlane merged
        for q in range(1, b.n):
            if b.alpha[q] > 0.0 and b.planes[q].last < before:
                if i < 0 or b.alpha[q] < b.alpha[i]:
                    i, j = q, i
                elif j < 0 or b.alpha[q] < b.alpha[j]:
                    j = q
        if j < 0:
            return False
        a = b.alpha[i] + b.alpha[j]
        share = b.alpha[i] / a
        pb_slope_axpy(&b.planes[i].slope, share, self.dense)
        pb_slope_axpy(&b.planes[j].slope, 1.0 - share, self.dense)
        k = min(self.dim, b.planes[i].slope.n + b.planes[j].slope.n)
        index = <int32_t*>malloc(k * sizeof(int32_t) + 1)
        value = <double*>malloc(k * sizeof(double) + 1)
        if index == NULL or value == NULL:
            free(index)
            free(value)
            memset(self.dense, 0, self.dim * sizeof(double))
            with gil:
                raise MemoryError
        for which in range(2):
            r = j if which else i
            for k in range(b.planes[r].slope.n):
                q = b.planes[r].slope.index[k] if b.planes[r].slope.index != NULL else <int>k
                if self.dense[q] != 0.0:
                    index[count], value[count] = q, self.dense[q]
                    count += 1
                    self.dense[q] = 0.0
        sort_entries(count, index, value)
        norm = 0.0              # summed anew, as a norm from Gram entries could become negative by cancellation
        for k in range(count):
            norm += value[k] * value[k] * (1.0 if self.metric == NULL else self.metric[index[k]])
        memset(&merged, 0, sizeof(StoredPlane))
        offset = share * b.planes[i].offset + (1.0 - share) * b.planes[j].offset
        # an entry of the merged slope differs by three roundings from the exact mean, whose weights sum to 1
        self.merging_error += MERGING * (share * sqrt(self._square(b, i)) + (1.0 - share) * sqrt(self._square(b, j)))
        try:
            store_plane(b, &merged, offset, count, index, value, self.dim, &self.bytes)
        finally:
            free(index)
            free(value)
        merged.last = max(b.planes[i].last, b.planes[j].last)
        for q in range(b.n):
            b.gram[i * b.room + q] = share * b.gram[i * b.room + q] + (1.0 - share) * b.gram[j * b.room + q]
            b.gram[q * b.room + i] = b.gram[i * b.room + q]
        b.gram[i * b.room + i] = norm
        b.wasted += padded(slope_bytes(&b.planes[i].slope))
        self.n_merged += 1
        b.planes[i] = merged
        b.alpha[i] = a
        b.alpha[j] = 0.0
        b.n_used -= 1
        self._remove(b, j)
        return True

    def shrink(self, double limit):
        """Reduce `bytes` to `limit` without a change of phi and B; return whether that was possible.

        The largest blocks come first, and no more planes are lost than necessary. Planes without a multiplier are
        dropped; then planes are merged, until each block has its truth and one more plane. Memory becomes compact.
        """
        cdef Py_ssize_t i, start
        cdef int most = 2
        cdef Block* b
        for i in range(self.n_blocks):
            most = max(most, self.blocks[i].n)
        start = self.tick * 7919 % max(self.n_blocks, 1)        # each tick begins with another block
        while self.bytes > limit:
            with nogil:
                for i in range(self.n_blocks):
                    if self.bytes <= limit:
                        break
                    b = &self.blocks[(start + i) % self.n_blocks]
                    while b.n > most and self._make_room(b):
                        pass
                    if b.room > max(b.n, 2):
                        self._resize(b, max(b.n, 2))
                    if b.wasted:
                        extend_block(b, 0, &self.bytes)
            if most == 2:
                break
            most = max(2, 3 * most // 4)
        with nogil:
            pb_return_pages()       # because later blocks do not all fit into the holes of the heap
        return self.bytes <= limit

    cdef int _check_signals(self) except -1 nogil:
        if self.work - self.checked > ENTRIES_PER_CHECK:
            self.checked = self.work
            with gil:
                PyErr_CheckSignals()
        return 0

    # ------------------------------------------------------------------ inner products

    def weigh(self, metric):
        """Let `<a, b> = sum_j metric_j a_j b_j` from now on, with metric > 0 (dim,); compute Gram matrices again.

        Planes and multipliers do not change. The caller has to set the point again, with metric phi in place of phi.
        """
        cdef const double[::1] view = metric
        cdef Py_ssize_t i
        if view.shape[0] != self.dim:
            raise ValueError(f"metric must have {self.dim} entries")
        self._metric, self.metric = metric, &view[0]
        with nogil:
            for i in range(self.n_blocks):
                self._multiply(&self.blocks[i])

    cdef void _multiply(self, Block* b) noexcept nogil:
        """Compute the Gram matrix of a block from its planes."""
        cdef int q, r
        cdef Py_ssize_t k, j
        cdef pb_slope* a
        for q in range(1, b.n):
            a = &b.planes[q].slope
            for k in range(a.n):
                j = a.index[k] if a.index != NULL else k
                self.dense[j] = self.metric[j] * pb_slope_value(a, k)
            for r in range(1, q + 1):
                b.gram[q * b.room + r] = b.gram[r * b.room + q] = pb_slope_dot(&b.planes[r].slope, self.dense)
                self.work += b.planes[r].slope.n
            for k in range(a.n):
                self.dense[a.index[k] if a.index != NULL else k] = 0.0

    cdef double _square(self, const Block* b, int q) noexcept nogil:
        """Return |psi_q|^2 in the Euclidean norm, whatever the metric is."""
        cdef Py_ssize_t k
        cdef double total = 0.0
        if self.metric == NULL:
            return b.gram[q * b.room + q]
        for k in range(b.planes[q].slope.n):
            total += pb_slope_value(&b.planes[q].slope, k) ** 2
        return total

    def extent(self):
        """Return the mean <psi, psi> of all planes without the truths, and their largest offset; 0 without planes."""
        cdef Py_ssize_t i
        cdef int q
        cdef double total = 0.0, most = 0.0
        for i in range(self.n_blocks):
            for q in range(1, self.blocks[i].n):
                total += self.blocks[i].gram[q * self.blocks[i].room + q]
                most = max(most, self.blocks[i].planes[q].offset)
        return total / max(self.n_planes, 1), most

    # ------------------------------------------------------------------ sums

    def aggregate(self, double slope_error=0.0, double offset_error=0.0):
        """Return the `Plane` (B, phi) as a new sum in float64, with the errors of `of_parts`; set `offset` to B."""
        found = self.of_parts(np.zeros(self.n_blocks, dtype=np.intp), np.array([slope_error]), np.array([offset_error]))
        self.offset = found.offsets[0]
        return Plane(self.offset, found.slopes[0], float(found.slope_errors[0]),
                     float(found.offset_errors[0]) * abs(self.offset))

    def of_parts(self, const Py_ssize_t[::1] part, slope_errors, offset_errors):
        """Return the `Planes` (B_p, phi_p) of parts, with values NaN; block i belongs to part[i].

        For the stored planes of a part, `slope_errors` (P,) bound the error of the sum of slopes, and `offset_errors`
        (P,) the relative errors of offsets. The rounding errors of the sums of this method are added.
        """
        cdef Py_ssize_t n_parts = len(slope_errors)
        offsets, slopes, sizes = np.zeros(n_parts), np.zeros((n_parts, self.dim)), np.zeros(n_parts)
        cdef double[::1] offset = offsets, size = sizes
        cdef double[:, ::1] phi = slopes
        cdef Py_ssize_t i
        cdef int q
        cdef Block* b
        cdef double total
        if part.shape[0] != self.n_blocks:
            raise ValueError(f"part must have {self.n_blocks} entries, one a block, got {part.shape[0]}")
        check_indices("part", part, n_parts)
        with nogil:
            for i in range(self.n_blocks):
                b = &self.blocks[i]
                total = 0.0
                for q in range(1, b.n):
                    total += b.alpha[q]
                if total > 1.0:                 # this is due to rounding, but a bound needs sums of at most 1
                    for q in range(1, b.n):
                        b.alpha[q] /= total
                    total = 1.0
                b.n_used += (total < 1.0) - (b.alpha[0] > 0.0)
                b.alpha[0] = 1.0 - total
                for q in range(1, b.n):
                    if b.alpha[q] > 0.0:
                        offset[part[i]] += b.alpha[q] * b.planes[q].offset
                        pb_slope_axpy(&b.planes[q].slope, b.alpha[q], &phi[part[i], 0])
                        size[part[i]] += b.alpha[q] * sqrt(self._square(b, q))
                        self.work += b.planes[q].slope.n
        # terms counts roundings: of the sum, of each plane (a difference of features, times a loss, times a weight),
        # and of the sums of multipliers, which may exceed 1 by rounding; sizes are sum_iq alpha_iq |psi_iq|
        terms, merged = 2.02 * (np.bincount(part, self.sizes() - 1, n_parts) + 6.0), 3.03 * self.n_merged
        return Planes(np.full(n_parts, np.nan), offsets, slopes,
                      slope_errors + self.merging_error + terms * UNIT * sizes,
                      offset_errors + (terms + merged) * UNIT)

    def assign(self, const double[::1] alpha):
        """Set the multipliers of all planes, in the order of `Blocks.arrays`; truths make the sum of a block 1."""
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

    def sizes(self, bint used_only=False):
        """Return the number of planes, or planes in use, of each block with its truth, shape (n_blocks,)."""
        cdef Py_ssize_t i
        out = np.empty(self.n_blocks, dtype=np.intp)
        cdef Py_ssize_t[::1] view = out
        for i in range(self.n_blocks):
            view[i] = self.blocks[i].n_used if used_only else self.blocks[i].n
        return out


def _entries(slopes):
    """Return indices, values and row starts of a CSR matrix, leaving out zeros that it stores.

    Without stored zeros, as in planes from a checkpoint, arrays are not copied.
    """
    indices, values, starts = slopes.indices, slopes.data, slopes.indptr.astype(np.int64, copy=False)
    if values.all():
        return indices, values, starts
    kept = np.flatnonzero(values)
    return indices[kept], values[kept], np.searchsorted(kept, starts).astype(np.int64, copy=False)
