"""Planes of single examples, one block for each, with multipliers and Gram matrices.

A block holds the planes `l_q + <psi_q, w>` known of its example, the truth (0, 0) first, and multipliers alpha in the
simplex over them. `BlockSteps` moves them.
"""

from libc.math cimport sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memset

import numpy as np

from pybundle.bundle._block_storage cimport (Plane, hash_plane, padded, pb_return_pages, pb_slope, pb_slope_axpy,
                                             pb_slope_dot, pb_slope_value, slope_bytes)
from pybundle.core._indices cimport check_indices


# Rounding of a weighted mean of two slopes, as a share of the mean of their norms.
cdef double MERGING = 3.03 * 2.0 ** -53


cdef class BlockPlanes(BlockStorage):
    """What planes a block has: new ones, merged ones, their sums; `BlockSteps` moves multipliers."""

    # ------------------------------------------------------------------ planes

    cdef int _find(self, Block* b, uint64_t name, double offset, Py_ssize_t n, const int32_t* index,
                   const double* value) noexcept nogil:
        """Place of an equal plane in the block, or -1."""
        cdef int q
        cdef Py_ssize_t k
        cdef pb_slope* a
        if n == 0 and offset == 0.0:
            return 0
        for q in range(1, b.n):
            a = &b.planes[q].slope
            if b.planes[q].name != name or b.planes[q].offset != offset or (a.index != NULL and a.n != n):
                continue
            if a.index != NULL and n and memcmp(a.index, index, n * sizeof(int32_t)):      # C forbids NULL, of none too
                continue
            k = 0
            while k < n and pb_slope_value(a, k if a.index != NULL else index[k]) == value[k]:
                k += 1
            if k == n:
                return q
        return -1

    cdef int _add(self, Block* b, double offset, Py_ssize_t n, const int32_t* index,
                  const double* value) except -1 nogil:
        """Place of the plane in the block, which it enters if it is new."""
        cdef uint64_t name = hash_plane(offset, n, index, value)
        cdef int q = self._find(b, name, offset, n, index, value)
        if q >= 0:
            b.planes[q].last = self.tick
            return q
        if b.n >= self.cap:
            self._make_room(b)
        return self._insert(b, name, offset, n, index, value)

    cdef int _insert(self, Block* b, uint64_t name, double offset, Py_ssize_t n, const int32_t* index,
                     const double* value) except -1 nogil:
        """Place of a plane that the block does not know."""
        cdef int q, new
        cdef Py_ssize_t k
        cdef double norm = 0.0, weighted
        self._reserve(b, b.n + 1)
        new = b.n
        self._store(b, &b.planes[new], name, offset, n, index, value)
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

    def weigh(self, metric):
        """From now on `<a, b> = sum_j metric_j a_j b_j`, metric > 0 (dim,); Gram matrices afresh.

        Planes and multipliers stay. The point has to be placed again: x then is metric times what it was.
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
        """The Gram matrix of a block from its planes."""
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

    cdef void _remove(self, Block* b, int q) noexcept nogil:
        """Forgets plane q, whose multiplier is 0; the last one takes its place."""
        cdef int last = b.n - 1, r
        cdef Plane* a = &b.planes[q]
        b.wasted += padded(slope_bytes(&a.slope))
        if q < last:
            b.planes[q] = b.planes[last]
            b.alpha[q] = b.alpha[last]
            for r in range(last):
                b.gram[q * b.room + r] = b.gram[last * b.room + r]
                b.gram[r * b.room + q] = b.gram[r * b.room + last]
            b.gram[q * b.room + q] = b.gram[last * b.room + last]
        b.n = last
        self.n_planes -= 1

    cdef int _make_room(self, Block* b) except -1 nogil:
        """One plane fewer: the one without a multiplier that was idle for longest, or two merged."""
        cdef int q, worst = -1
        for q in range(1, b.n):
            if b.alpha[q] == 0.0 and (worst < 0 or b.planes[q].last < b.planes[worst].last):
                worst = q
        if worst >= 0:
            self._remove(b, worst)
            return 0
        return self._merge(b, self.tick + 1)

    cdef int _merge(self, Block* b, int before) except -1 nogil:
        """The two planes in use of least multipliers, idle since before tick `before`, become their weighted mean."""
        cdef int q, i = -1, j = -1, r, which
        cdef double a, share, norm, offset
        cdef Py_ssize_t k, count = 0
        cdef int32_t* index
        cdef double* value
        cdef Plane merged
        for q in range(1, b.n):
            if b.alpha[q] > 0.0 and b.planes[q].last < before:
                if i < 0 or b.alpha[q] < b.alpha[i]:
                    i, j = q, i
                elif j < 0 or b.alpha[q] < b.alpha[j]:
                    j = q
        if j < 0:
            return 0
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
        norm = 0.0              # from Gram entries it would cancel where slopes do, and a square must not be negative
        for k in range(count):
            norm += value[k] * value[k] * (1.0 if self.metric == NULL else self.metric[index[k]])
        memset(&merged, 0, sizeof(Plane))
        offset = share * b.planes[i].offset + (1.0 - share) * b.planes[j].offset
        # three roundings of each entry, against the combination with weights that sum to 1 exactly
        self.merging_error += MERGING * (share * sqrt(self._square(b, i)) + (1.0 - share) * sqrt(self._square(b, j)))
        try:
            self._store(b, &merged, hash_plane(offset, count, index, value), offset, count, index, value)
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
        return 0

    def shrink(self, double limit):
        """Brings `bytes` down to `limit`, phi and B of the multipliers as they are; whether that could be.

        From the largest blocks on, no further than need be: planes without a multiplier go, then planes in use become
        their weighted mean, down to one for each block (and its truth). Slopes move closer meanwhile.
        """
        cdef Py_ssize_t i, start
        cdef int most = 2, before
        cdef Block* b
        for i in range(self.n_blocks):
            most = max(most, self.blocks[i].n)
        start = self.tick * 7919 % max(self.n_blocks, 1)        # not always the same ones
        while self.bytes > limit:
            with nogil:
                for i in range(self.n_blocks):
                    if self.bytes <= limit:
                        break
                    b = &self.blocks[(start + i) % self.n_blocks]
                    before = b.n + 1
                    while b.n > most and b.n < before:
                        before = b.n
                        self._make_room(b)
                    if b.room > max(b.n, 2):
                        self._resize(b, max(b.n, 2))
                    if b.wasted:
                        self._extend(b, 0)
            if most == 2:
                break
            most = max(2, 3 * most // 4)
        with nogil:
            pb_return_pages()       # smaller pieces leave holes that later ones do not all fit
        return self.bytes <= limit

    # ------------------------------------------------------------------ what is known

    def aggregate_parts(self, const Py_ssize_t[::1] part, Py_ssize_t n_parts):
        """The same for every part: offsets (P,), slopes (P, dim), sizes (P,); block i belongs to part[i]."""
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
                if total > 1.0:                 # rounding; sums of at most 1 are what makes a bound
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
        return offsets, slopes, sizes

    cdef double _square(self, const Block* b, int q) noexcept nogil:
        """|psi|^2 of a plane in the Euclidean norm."""
        cdef Py_ssize_t k
        cdef double total = 0.0
        if self.metric == NULL:
            return b.gram[q * b.room + q]
        for k in range(b.planes[q].slope.n):
            total += pb_slope_value(&b.planes[q].slope, k) ** 2
        return total

    def mean_squared_norm(self):
        """Mean <psi, psi> of all planes, truths left out; 0 without any."""
        cdef Py_ssize_t i
        cdef int q
        cdef double total = 0.0
        for i in range(self.n_blocks):
            for q in range(1, self.blocks[i].n):
                total += self.blocks[i].gram[q * self.blocks[i].room + q]
        return total / self.n_planes if self.n_planes else 0.0


cdef void sort_entries(Py_ssize_t n, int32_t* index, double* value) noexcept nogil:
    """Shell sort by index."""
    cdef Py_ssize_t gap = n // 2, i, j
    cdef int32_t key
    cdef double v
    while gap > 0:
        for i in range(gap, n):
            key, v = index[i], value[i]
            j = i
            while j >= gap and index[j - gap] > key:
                index[j], value[j] = index[j - gap], value[j - gap]
                j -= gap
            index[j], value[j] = key, v
        gap //= 2
