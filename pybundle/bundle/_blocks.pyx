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
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from cpython.exc cimport PyErr_CheckSignals

import numpy as np
from scipy.sparse import csr_array

cdef extern from "_plane.h" nogil:
    ctypedef struct pb_slope:
        Py_ssize_t n
        const int32_t* index
        const void* value
        int is_single
    double pb_slope_dot(const pb_slope* a, const double* w)
    void pb_slope_axpy(const pb_slope* a, double factor, double* w)
    double pb_slope_value(const pb_slope* a, Py_ssize_t k)
    void pb_prefetch(const void* address)

cdef struct Plane:
    pb_slope slope
    double offset
    uint64_t name       # hash of offset and slope: equal planes are stored once
    int last            # tick of the last activity

cdef struct Block:
    int n, room         # planes, and room for them
    int n_used          # planes with a multiplier
    Plane* planes       # the truth first
    double* alpha
    double* gram        # (room, room)
    char* memory        # the slopes, one after another: a pass streams through them
    size_t filled, size, wasted
    double gap          # max u - <alpha, u> before the last step

cdef struct Average:
    # sum_k 2k w_k / (K (K + 1)) over the points w_k after each of K steps, held as w - drift / (K (K + 1))
    double* drift
    double offset_drift
    double count

cdef enum Step:
    EXACT, PAIRWISE, TOWARDS

STEPS = {"exact": EXACT, "pairwise": PAIRWISE, "frank-wolfe": TOWARDS}

# Squared distance of two planes, as a share of their norms, that is rounding.
cdef double NEAR = 1e-14
# Bytes of the next block that are read ahead.
cdef size_t FETCHED = 8192
# Entries read between two looks for signals, some 50 ms.
cdef double BREATH = 5e7


cdef class Blocks:
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
        Most planes of a block, the truth included: beyond, the one idle for longest goes, or two become one.

    Attributes
    ----------
    w : ndarray, shape (dim,)
        The point; the caller sets it by `place`.
    offset : float
        B.
    work : float
        Entries of planes read so far.
    n_planes : int
        Without the truths.
    """

    cdef readonly Py_ssize_t n_blocks, dim, n_planes
    cdef readonly object w
    cdef readonly double offset, scale, work
    cdef readonly double bytes
    cdef readonly int tick
    cdef public int cap
    cdef int max_steps, step
    cdef object _free, _mask, _scratch, _u
    cdef double* x              # the point before clipping
    cdef double* clipped        # w; the same as x where nothing is kept nonnegative
    cdef unsigned char* mask
    cdef double* dense          # (dim,) zeros between uses
    cdef double* u
    cdef double* change
    cdef int u_room
    cdef Block* blocks
    cdef Average averages[2]
    cdef object _drifts
    cdef double breath

    def __cinit__(self, Py_ssize_t n_blocks, Py_ssize_t dim, nonneg=None, step="exact", int max_steps=10,
                  int cap=100):
        cdef double[::1] view
        cdef unsigned char[::1] mask
        cdef Py_ssize_t i
        self.blocks = NULL
        self.u = self.change = NULL
        self.n_blocks, self.dim, self.cap = n_blocks, dim, cap
        self.step, self.max_steps = STEPS[step], max_steps
        self.scale = 1.0
        self.w = np.zeros(dim)
        view = self.w
        self.clipped = self.x = &view[0]
        self._scratch = np.zeros(dim)
        view = self._scratch
        self.dense = &view[0]
        self.mask = NULL
        if nonneg is not None:
            self._free, self._mask = np.zeros(dim), np.ascontiguousarray(nonneg).view(np.uint8)
            view, mask = self._free, self._mask
            self.x, self.mask = &view[0], &mask[0]
        self.blocks = <Block*>calloc(n_blocks, sizeof(Block))
        if self.blocks == NULL:
            raise MemoryError
        self._widen(16)
        for i in range(n_blocks):
            self._add_truth(&self.blocks[i])

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.blocks != NULL:
            for i in range(self.n_blocks):
                free(self.blocks[i].memory)
                free(self.blocks[i].planes)
                free(self.blocks[i].alpha)
                free(self.blocks[i].gram)
            free(self.blocks)
        free(self.u)
        free(self.change)

    # ------------------------------------------------------------------ the point

    def place(self, x, double scale):
        """Sets s = `scale` and the point, which the caller has computed from phi; clipped here."""
        cdef const double[::1] view = x
        if view.shape[0] != self.dim:
            raise ValueError(f"x must have {self.dim} entries")
        self.scale = scale
        memcpy(self.x, &view[0], self.dim * sizeof(double))
        self._clip()

    def unclipped(self):
        """(kappa c - phi) / s, before weights were kept nonnegative; a copy."""
        return np.array(self.w if self.mask == NULL else self._free)

    cdef void _clip(self) noexcept nogil:
        cdef Py_ssize_t k
        if self.mask != NULL:
            for k in range(self.dim):
                self.clipped[k] = 0.0 if self.mask[k] and self.x[k] < 0.0 else self.x[k]

    cdef void _shift(self, const Plane* a, double factor) noexcept nogil:
        """x += factor psi, and what follows from it."""
        cdef Py_ssize_t k, j
        pb_slope_axpy(&a.slope, factor, self.x)
        if self.mask != NULL:
            for k in range(a.slope.n):
                j = a.slope.index[k] if a.slope.index != NULL else k
                self.clipped[j] = 0.0 if self.mask[j] and self.x[j] < 0.0 else self.x[j]
        for k in range(2):
            if self.averages[k].drift != NULL:
                pb_slope_axpy(&a.slope, factor * self.averages[k].count * (self.averages[k].count + 1.0),
                              self.averages[k].drift)

    # ------------------------------------------------------------------ planes

    cdef int _widen(self, int n) except -1 nogil:
        cdef double* u
        cdef double* change
        if n <= self.u_room:
            return 0
        u = <double*>realloc(self.u, n * sizeof(double))
        if u != NULL:
            self.u = u
        change = <double*>realloc(self.change, n * sizeof(double))
        if change != NULL:
            self.change = change
        if u == NULL or change == NULL:
            with gil:
                raise MemoryError
        self.u_room = n
        return 0

    cdef int _add_truth(self, Block* b) except -1 nogil:
        self._reserve(b, 2)
        memset(&b.planes[0], 0, sizeof(Plane))
        b.alpha[0], b.gram[0], b.n, b.n_used = 1.0, 0.0, 1, 1
        return 0

    cdef int _reserve(self, Block* b, int n) except -1 nogil:
        cdef int room, q
        cdef Plane* planes
        cdef double* alpha
        cdef double* gram
        if n <= b.room:
            return 0
        room = max(n, 2 * b.room)
        planes = <Plane*>malloc(room * sizeof(Plane))
        alpha = <double*>malloc(room * sizeof(double))
        gram = <double*>malloc(<size_t>room * room * sizeof(double))
        if planes == NULL or alpha == NULL or gram == NULL:
            free(planes)
            free(alpha)
            free(gram)
            with gil:
                raise MemoryError
        if b.n:
            memcpy(planes, b.planes, b.n * sizeof(Plane))
            memcpy(alpha, b.alpha, b.n * sizeof(double))
            for q in range(b.n):
                memcpy(gram + q * room, b.gram + q * b.room, b.n * sizeof(double))
        free(b.planes)
        free(b.alpha)
        free(b.gram)
        self.bytes += (room - b.room) * (sizeof(Plane) + 8.0) + 8.0 * (<double>room * room - <double>b.room * b.room)
        b.planes, b.alpha, b.gram, b.room = planes, alpha, gram, room
        return self._widen(room)

    cdef int _make_memory(self, Block* b, size_t need) except -1 nogil:
        """Room for `need` more bytes of slopes; they move closer where some were forgotten."""
        cdef size_t size, used = 0
        cdef int q
        cdef char* memory
        cdef pb_slope* a
        if b.filled + need <= b.size:
            return 0
        size = (b.filled - b.wasted + need) * 3 // 2
        memory = <char*>malloc(size)
        if memory == NULL:
            with gil:
                raise MemoryError
        for q in range(1, b.n):
            a = &b.planes[q].slope
            memcpy(memory + used, a.value, slope_bytes(a))
            place_slope(a, memory + used)
            used += padded(slope_bytes(a))
        free(b.memory)
        self.bytes += <double>size - <double>b.size
        b.memory, b.size, b.filled, b.wasted = memory, size, used, 0
        return 0

    cdef int _store(self, Block* b, Plane* a, double offset, Py_ssize_t n, const int32_t* index,
                    const double* value) except -1 nogil:
        """The slope goes into the memory of the block: dense where that takes less, float32 where nothing is lost."""
        cdef Py_ssize_t k
        cdef bint single = True, dense
        cdef size_t item
        cdef char* memory
        for k in range(n):
            if <double><float>value[k] != value[k]:
                single = False
                break
        item = sizeof(float) if single else sizeof(double)
        dense = n * (item + sizeof(int32_t)) >= self.dim * item
        a.slope.n = self.dim if dense else n
        a.slope.is_single = single
        a.slope.index = NULL if dense else index        # only whether there is one counts here
        self._make_memory(b, padded(slope_bytes(&a.slope)))
        memory = b.memory + b.filled
        b.filled += padded(slope_bytes(&a.slope))
        place_slope(&a.slope, memory)
        if dense:
            memset(memory, 0, self.dim * item)
        else:
            memcpy(<void*>a.slope.index, index, n * sizeof(int32_t))
        for k in range(n):
            if single:
                (<float*>memory)[index[k] if dense else k] = <float>value[k]
            else:
                (<double*>memory)[index[k] if dense else k] = value[k]
        a.offset = offset
        a.name = hash_plane(offset, n, index, value)
        return 0

    cdef int _find(self, Block* b, double offset, Py_ssize_t n, const int32_t* index,
                   const double* value) noexcept nogil:
        """Place of an equal plane in the block, or -1."""
        cdef uint64_t name = hash_plane(offset, n, index, value)
        cdef int q
        cdef Py_ssize_t k
        cdef pb_slope* a
        if n == 0 and offset == 0.0:
            return 0
        for q in range(1, b.n):
            a = &b.planes[q].slope
            if b.planes[q].name != name or b.planes[q].offset != offset or (a.index != NULL and a.n != n):
                continue
            if a.index != NULL and memcmp(a.index, index, n * sizeof(int32_t)):
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
        cdef int q = self._find(b, offset, n, index, value)
        if q >= 0:
            b.planes[q].last = self.tick
            return q
        if b.n >= self.cap:
            self._make_room(b)
        return self._insert(b, offset, n, index, value)

    cdef int _insert(self, Block* b, double offset, Py_ssize_t n, const int32_t* index,
                     const double* value) except -1 nogil:
        """Place of a plane that the block does not know."""
        cdef int q, new
        cdef Py_ssize_t k
        cdef double norm = 0.0
        self._reserve(b, b.n + 1)
        new = b.n
        self._store(b, &b.planes[new], offset, n, index, value)
        for k in range(n):
            self.dense[index[k]] = value[k]
            norm += value[k] * value[k]
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
        cdef double a, share, norm
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
        memset(&merged, 0, sizeof(Plane))
        try:
            self._store(b, &merged, share * b.planes[i].offset + (1.0 - share) * b.planes[j].offset, count, index,
                        value)
        finally:
            free(index)
            free(value)
        merged.last = max(b.planes[i].last, b.planes[j].last)
        norm = (share * share * b.gram[i * b.room + i] + 2.0 * share * (1.0 - share) * b.gram[i * b.room + j]
                + (1.0 - share) * (1.0 - share) * b.gram[j * b.room + j])
        for q in range(b.n):
            b.gram[i * b.room + q] = share * b.gram[i * b.room + q] + (1.0 - share) * b.gram[j * b.room + q]
            b.gram[q * b.room + i] = b.gram[i * b.room + q]
        b.gram[i * b.room + i] = norm
        b.wasted += padded(slope_bytes(&b.planes[i].slope))
        b.planes[i] = merged
        b.alpha[i] = a
        b.alpha[j] = 0.0
        b.n_used -= 1
        self._remove(b, j)
        return 0

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
        cdef int q, r
        cdef Block* b
        cdef Block* new
        for i in range(self.n_blocks):
            b, new = &self.blocks[i], &other.blocks[i]
            other._reserve(new, b.n)
            other._make_memory(new, b.filled - b.wasted)
            for q in range(b.n):
                new.planes[q] = b.planes[q]
                new.alpha[q] = b.alpha[q]
                for r in range(b.n):
                    new.gram[q * new.room + r] = b.gram[q * b.room + r]
                if q:
                    memcpy(new.memory + new.filled, b.planes[q].slope.value, slope_bytes(&b.planes[q].slope))
                    place_slope(&new.planes[q].slope, new.memory + new.filled)
                    new.filled += padded(slope_bytes(&b.planes[q].slope))
            new.n, new.n_used, new.gap = b.n, b.n_used, b.gap
        other.n_planes, other.tick, other.offset = self.n_planes, self.tick, self.offset
        return other

    def arrays(self):
        """Planes and multipliers: rows (m,) the block of each, truths left out; offsets, alpha (m,); CSR (m, dim)."""
        cdef Py_ssize_t i, j = 0, at = 0, k, entries = 0
        cdef int q
        cdef pb_slope* a
        for i in range(self.n_blocks):
            for q in range(1, self.blocks[i].n):
                entries += self.blocks[i].planes[q].slope.n
        rows, start = np.empty(self.n_planes, dtype=np.intp), np.zeros(self.n_planes + 1, dtype=np.int64)
        offsets, alpha = np.empty(self.n_planes), np.empty(self.n_planes)
        indices, data = np.empty(entries, dtype=np.int32), np.empty(entries)
        cdef Py_ssize_t[::1] row = rows
        cdef int64_t[::1] starts = start
        cdef double[::1] offset = offsets, multiplier = alpha, value = data
        cdef int32_t[::1] index = indices
        for i in range(self.n_blocks):
            for q in range(1, self.blocks[i].n):
                a = &self.blocks[i].planes[q].slope
                row[j], offset[j], multiplier[j] = i, self.blocks[i].planes[q].offset, self.blocks[i].alpha[q]
                for k in range(a.n):
                    if pb_slope_value(a, k) != 0.0:
                        index[at] = a.index[k] if a.index != NULL else <int32_t>k
                        value[at] = pb_slope_value(a, k)
                        at += 1
                j += 1
                starts[j] = at
        slopes = csr_array((self.n_planes, self.dim))
        slopes.data, slopes.indices, slopes.indptr = data[:at], indices[:at], start
        return rows, offsets, alpha, slopes

    @classmethod
    def from_arrays(cls, n_blocks, dim, rows, offsets, alpha, slopes):
        """The blocks that `arrays` described; at w = 0 until placed."""
        cdef Blocks self = cls(n_blocks, dim)
        cdef Py_ssize_t j
        cdef const Py_ssize_t[::1] row = rows
        cdef const double[::1] offset = offsets, multiplier = alpha, value = slopes.data
        cdef const int32_t[::1] index = slopes.indices
        cdef const int64_t[::1] start = slopes.indptr.astype(np.int64)
        cdef Block* b
        cdef int place
        for j in range(row.shape[0]):
            b = &self.blocks[row[j]]
            place = self._insert(b, offset[j], start[j + 1] - start[j],
                                 &index[start[j]] if start[j + 1] > start[j] else NULL,
                                 &value[start[j]] if start[j + 1] > start[j] else NULL)
            b.alpha[place] = multiplier[j]
            b.n_used += multiplier[j] > 0.0
            b.alpha[0] -= multiplier[j]
        for j in range(n_blocks):
            b = &self.blocks[j]
            if not b.alpha[0] > 0.0:            # rounding
                b.alpha[0] = 0.0
                b.n_used -= 1
        self.aggregate()
        return self

    def __reduce__(self):
        return Blocks.from_arrays, (self.n_blocks, self.dim, *self.arrays())

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
                self.u[q] = b.planes[q].offset + pb_slope_dot(&b.planes[q].slope, self.clipped)
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

    def visit(self, const Py_ssize_t[::1] rows, const double[::1] offsets, slopes, bint towards=False):
        """Adds a plane to each of these blocks and takes a step there; gives the sum of the gaps met.

        offsets (len,), slopes CSR (len, dim) with int32 indices, sorted, no duplicates. With `towards` the new plane is
        the target of the step.
        """
        return self._take(rows, offsets, slopes, True, towards)

    def learn(self, const Py_ssize_t[::1] rows, const double[::1] offsets, slopes):
        """Adds a plane to each of these blocks; multipliers stay. As `visit` otherwise."""
        self._take(rows, offsets, slopes, False, False)

    cdef double _take(self, const Py_ssize_t[::1] rows, const double[::1] offsets, slopes, bint step,
                      bint towards) except? -1.0:
        cdef const int32_t[::1] index = slopes.indices
        cdef const double[::1] value = slopes.data
        cdef const int64_t[::1] start = slopes.indptr.astype(np.int64, copy=False)
        cdef Py_ssize_t j
        cdef int place
        cdef double total = 0.0
        self._check(rows, offsets, start)
        with nogil:
            for j in range(rows.shape[0]):
                place = self._add(&self.blocks[rows[j]], offsets[j], start[j + 1] - start[j],
                                  &index[0] + start[j] if start[j + 1] > start[j] else NULL,
                                  &value[0] + start[j] if start[j + 1] > start[j] else NULL)
                if step:
                    total += self._step(&self.blocks[rows[j]], place if towards else -1, False)
                    self._count(0)
                self._breathe()
        return total

    def sweep(self, const Py_ssize_t[::1] rows, bint used_only=False):
        """A step on each of these blocks over the planes known, or those in use; gives the sum of the gaps met."""
        cdef Py_ssize_t j
        cdef double total = 0.0
        for j in range(rows.shape[0]):
            if not 0 <= rows[j] < self.n_blocks:
                raise IndexError(f"rows must lie in 0..{self.n_blocks - 1}, got {rows[j]}")
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
        cdef Py_ssize_t j
        if offsets.shape[0] != rows.shape[0] or start.shape[0] != rows.shape[0] + 1:
            raise ValueError(f"rows, offsets and slopes must have one length, got {rows.shape[0]}, "
                             f"{offsets.shape[0]} and {start.shape[0] - 1}")
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

    def aggregate(self):
        """(B, phi, sum_iq alpha_iq |psi_iq|), summed afresh in float64, block after block; sets `offset`."""
        offsets, slopes, sizes = self.aggregate_parts(np.zeros(self.n_blocks, dtype=np.intp), 1)
        self.offset = offsets[0]
        return self.offset, slopes[0], sizes[0]

    def aggregate_parts(self, const Py_ssize_t[::1] part, Py_ssize_t n_parts):
        """The same for every part: offsets (P,), slopes (P, dim), sizes (P,); block i belongs to part[i]."""
        cdef Py_ssize_t i
        cdef int q
        cdef Block* b
        cdef double total
        offsets, slopes, sizes = np.zeros(n_parts), np.zeros((n_parts, self.dim)), np.zeros(n_parts)
        cdef double[::1] offset = offsets, size = sizes
        cdef double[:, ::1] phi = slopes
        if part.shape[0] != self.n_blocks or self.n_blocks and not 0 <= np.min(part) <= np.max(part) < n_parts:
            raise ValueError(f"part must name one of {n_parts} parts for each of {self.n_blocks} blocks")
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
                        size[part[i]] += b.alpha[q] * b.gram[q * b.room + q] ** 0.5
                        self.work += b.planes[q].slope.n
        return offsets, slopes, sizes

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

    def sizes(self, bint used_only=False):
        """Planes of every block, or those with a multiplier, the truth included, shape (n_blocks,)."""
        cdef Py_ssize_t i
        out = np.empty(self.n_blocks, dtype=np.intp)
        cdef Py_ssize_t[::1] view = out
        for i in range(self.n_blocks):
            view[i] = self.blocks[i].n_used if used_only else self.blocks[i].n
        return out

    def mean_squared_norm(self):
        """Mean |psi|^2 of all planes, truths left out; 0 without any."""
        cdef Py_ssize_t i
        cdef int q
        cdef double total = 0.0
        for i in range(self.n_blocks):
            for q in range(1, self.blocks[i].n):
                total += self.blocks[i].gram[q * self.blocks[i].room + q]
        return total / self.n_planes if self.n_planes else 0.0

    def block(self, Py_ssize_t i):
        """Planes and multipliers of block i: offsets (n,), slopes dense (n, dim), alpha (n,)."""
        cdef Block* b
        cdef int q
        cdef double[:, ::1] view
        if not 0 <= i < self.n_blocks:
            raise IndexError(f"i must lie in 0..{self.n_blocks - 1}, got {i}")
        b = &self.blocks[i]
        slopes = np.zeros((b.n, self.dim))
        view = slopes
        for q in range(1, b.n):
            pb_slope_axpy(&b.planes[q].slope, 1.0, &view[q, 0])
        return (np.array([b.planes[q].offset for q in range(b.n)]), slopes,
                np.array([b.alpha[q] for q in range(b.n)]))


cdef size_t slope_bytes(const pb_slope* a) noexcept nogil:
    return a.n * ((4 if a.is_single else 8) + (4 if a.index != NULL else 0))


cdef size_t padded(size_t size) noexcept nogil:
    return (size + 7) // 8 * 8


cdef void place_slope(pb_slope* a, char* memory) noexcept nogil:
    """Points to a slope of this kind and size at `memory`: values first."""
    a.value = memory
    if a.index != NULL:
        a.index = <int32_t*>(memory + a.n * (4 if a.is_single else 8))


cdef void fetch(const Block* b) noexcept nogil:
    """Starts to read a block that is next."""
    cdef size_t k = 0
    while k < b.filled and k < FETCHED:
        pb_prefetch(b.memory + k)
        k += 64


cdef uint64_t hash_plane(double offset, Py_ssize_t n, const int32_t* index, const double* value) noexcept nogil:
    """FNV-1a over words: equal planes have equal hashes."""
    cdef uint64_t h = 14695981039346656037ULL, word
    cdef Py_ssize_t k
    memcpy(&word, &offset, 8)
    h = (h ^ word) * 1099511628211ULL
    for k in range(n):
        memcpy(&word, &value[k], 8)
        h = (h ^ word ^ <uint64_t>index[k]) * 1099511628211ULL
        h ^= h >> 29
    return h


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
