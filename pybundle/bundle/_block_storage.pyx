"""Planes of single examples in memory: slopes of a block in one piece, multipliers, Gram matrices, and their arrays.

Slopes are sparse or dense, float32 where nothing is lost; a pass over the planes of a block streams through them.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

import numpy as np
from scipy.sparse import csr_array

cdef int MOST_ROOM = 1024       # planes that a stored block may have room for, which once were more


cdef class BlockStorage:
    """Storage; `BlockPlanes` says which planes a block has, `Blocks` moves multipliers.

    Attributes
    ----------
    n_blocks, dim : int
    n_planes : int
        Without the truths.
    work : float
        Entries of planes read so far.
    bytes : float
        Memory of planes, multipliers and Gram matrices.
    cap : int
        Most planes of a block, the truth included: beyond, the one idle for longest goes, or two become one.
    tick : int
        Iterations so far.
    n_merged : int
        Times that two planes became one.
    merging_error : float
        Bound on the rounding errors of all merged slopes together, in the Euclidean norm.
    """

    def __cinit__(self, Py_ssize_t n_blocks, Py_ssize_t dim, *_settings, **_named):
        cdef double[::1] view
        cdef Py_ssize_t i
        self.blocks = NULL
        self.u = self.change = NULL
        self.metric = NULL
        self.n_blocks, self.dim, self.cap = n_blocks, dim, 100
        self._scratch = np.zeros(dim)
        view = self._scratch
        self.dense = &view[0]
        self.blocks = <Block*>calloc(max(n_blocks, 1), sizeof(Block))      # of 0 bytes it may give NULL
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

    # ------------------------------------------------------------------ memory

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
        return 0 if n <= b.room else self._resize(b, max(n, 2 * b.room))

    cdef int _resize(self, Block* b, int room) except -1 nogil:
        """Arrays for `room` planes, at least those that are there."""
        cdef int q
        cdef Plane* planes
        cdef double* alpha
        cdef double* gram
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

    cdef char* _extend(self, Block* b, size_t need) except NULL nogil:
        """Where `need` more bytes of slopes begin. The others move closer: a copy is cheaper than memory never used."""
        cdef size_t used = 0, size = b.filled - b.wasted + need
        cdef int q
        cdef char* memory
        cdef pb_slope* a
        memory = <char*>malloc(size + 1)        # of no bytes might be NULL
        if memory == NULL:
            with gil:
                raise MemoryError
        for q in range(1, b.n):
            a = &b.planes[q].slope
            if a.n:                 # a slope of zeros has no memory, and C forbids copies from NULL, of no bytes too
                memcpy(memory + used, a.value, slope_bytes(a))
            place_slope(a, memory + used)
            used += padded(slope_bytes(a))
        free(b.memory)
        self.bytes += <double>size - <double>b.filled
        b.memory, b.filled, b.wasted = memory, size, 0
        return memory + used

    cdef int _store(self, Block* b, Plane* a, uint64_t name, double offset, Py_ssize_t n, const int32_t* index,
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
        memory = self._extend(b, padded(slope_bytes(&a.slope)))
        place_slope(&a.slope, memory)
        if dense:
            memset(memory, 0, self.dim * item)
        elif n:
            memcpy(<void*>a.slope.index, index, n * sizeof(int32_t))
        for k in range(n):
            if single:
                (<float*>memory)[index[k] if dense else k] = <float>value[k]
            else:
                (<double*>memory)[index[k] if dense else k] = value[k]
        a.offset = offset
        a.name = name
        return 0

    cdef int _copy_block(self, Block* new, const Block* b) except -1:
        """Planes and multipliers of a block of another object."""
        cdef int q
        cdef Py_ssize_t r
        cdef char* memory = self._extend(new, b.filled - b.wasted)
        self._reserve(new, b.n)
        for q in range(b.n):
            new.planes[q] = b.planes[q]
            new.alpha[q] = b.alpha[q]
            for r in range(b.n):
                new.gram[q * new.room + r] = b.gram[q * b.room + r]
            if q:
                if b.planes[q].slope.n:
                    memcpy(memory, b.planes[q].slope.value, slope_bytes(&b.planes[q].slope))
                place_slope(&new.planes[q].slope, memory)
                memory += padded(slope_bytes(&b.planes[q].slope))
        new.n, new.n_used, new.gap = b.n, b.n_used, b.gap
        return 0

    # ------------------------------------------------------------------ as arrays

    def sizes(self, bint used_only=False):
        """Planes of every block, or those with a multiplier, the truth included, shape (n_blocks,)."""
        cdef Py_ssize_t i
        out = np.empty(self.n_blocks, dtype=np.intp)
        cdef Py_ssize_t[::1] view = out
        for i in range(self.n_blocks):
            view[i] = self.blocks[i].n_used if used_only else self.blocks[i].n
        return out

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

    def arrays(self):
        """Planes and multipliers: rows (m,) the block of each, truths left out; offsets, alpha (m,); CSR (m, dim)."""
        cdef Py_ssize_t i, j = 0, at = 0, k, entries = 0, n = 0
        cdef int q
        cdef pb_slope* a
        for i in range(self.n_blocks):
            n += self.blocks[i].n - 1
            for q in range(1, self.blocks[i].n):
                entries += self.blocks[i].planes[q].slope.n
        rows, start = np.empty(n, dtype=np.intp), np.zeros(n + 1, dtype=np.int64)
        offsets, alpha = np.empty(n), np.empty(n)
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
        slopes = csr_array((n, self.dim))
        slopes.data, slopes.indices, slopes.indptr = data[:at], indices[:at], start
        return rows, offsets, alpha, slopes

    def _storage(self):
        """All there is to know of the planes, to the last bit, as arrays: block after block, truths first.

        `room` and `wasted` are about memory: what a limit allows next depends on it.
        """
        cdef Py_ssize_t i, j = 0, at = 0
        cdef int q, r
        cdef Block* b
        _, offsets, _, slopes = self.arrays()
        n = len(offsets) + self.n_blocks
        sizes, last = self.sizes(), np.empty(n, dtype=np.int32)
        used, gaps = np.empty(self.n_blocks, dtype=np.int32), np.empty(self.n_blocks)
        room, wasted = np.empty(self.n_blocks, dtype=np.int32), np.empty(self.n_blocks, dtype=np.int64)
        all_alpha, gram = np.empty(n), np.empty(int(np.sum(sizes * sizes)))
        cdef int32_t[::1] tick = last, n_used = used
        cdef double[::1] multiplier = all_alpha, product = gram, gap = gaps
        cdef int32_t[::1] rooms = room
        cdef int64_t[::1] waste = wasted
        for i in range(self.n_blocks):
            b = &self.blocks[i]
            n_used[i], gap[i] = b.n_used, b.gap
            rooms[i], waste[i] = b.room, b.wasted
            for q in range(b.n):
                tick[j], multiplier[j] = b.planes[q].last, b.alpha[q]
                j += 1
                for r in range(b.n):
                    product[at] = b.gram[q * b.room + r]
                    at += 1
        return {"sizes": sizes, "last": last, "alpha": all_alpha, "gram": gram, "used": used, "gaps": gaps,
                "offsets": offsets, "slopes": slopes, "tick": self.tick, "work": self.work,
                "n_merged": self.n_merged, "merging_error": self.merging_error, "room": room, "wasted": wasted}

    def _take_storage(self, state):
        """Becomes what `_storage` described; nothing is known here yet."""
        cdef const Py_ssize_t[::1] size = state["sizes"]
        cdef const int32_t[::1] tick = state["last"], n_used = state["used"]
        cdef const double[::1] multiplier = state["alpha"], product = state["gram"], gap = state["gaps"]
        cdef const double[::1] offset = state["offsets"], value = state["slopes"].data
        cdef const int32_t[::1] index = state["slopes"].indices
        cdef const int64_t[::1] start = state["slopes"].indptr.astype(np.int64)
        cdef const int32_t[::1] room = state["room"]
        cdef const int64_t[::1] wasted = state["wasted"]
        cdef Py_ssize_t i, j = 0, at = 0, plane = 0, k
        cdef int q, r, n, used
        cdef Block* b
        cdef const int32_t* indices
        cdef const double* values
        n_all = int(np.sum(state["sizes"]))
        if (size.shape[0] != self.n_blocks or n_used.shape[0] != self.n_blocks or gap.shape[0] != self.n_blocks
                or (np.asarray(state["sizes"]) < 1).any() or (np.asarray(state["sizes"]) > n_all).any()
                or room.shape[0] != self.n_blocks or wasted.shape[0] != self.n_blocks or tick.shape[0] != n_all
                or multiplier.shape[0] != n_all or offset.shape[0] != n_all - self.n_blocks
                or product.shape[0] != int(np.sum(np.asarray(state["sizes"]) ** 2))
                or state["slopes"].shape != (n_all - self.n_blocks, self.dim)):
            raise ValueError("the arrays of blocks do not agree")
        for name, low in (("alpha", 0.0), ("gaps", 0.0), ("gram", -np.inf), ("offsets", -np.inf)):
            if not (np.isfinite(state[name]).all() and (state[name] >= low).all()):
                raise ValueError(f"{name} of blocks must be finite, and multipliers and gaps at least 0")
        if not np.isfinite(state["slopes"].data).all():
            raise ValueError("slopes of blocks must be finite")
        for i in range(self.n_blocks):
            b = &self.blocks[i]
            n = <int>size[i]
            self._reserve(b, n)
            for q in range(1, n):
                k = start[plane + 1] - start[plane]
                indices, values = &index[start[plane]] if k else NULL, &value[start[plane]] if k else NULL
                self._store(b, &b.planes[q], hash_plane(offset[plane], k, indices, values), offset[plane], k, indices,
                            values)
                b.n = q + 1             # slopes before this one move when memory grows
                plane += 1
            used = 0
            for q in range(n):
                b.planes[q].last, b.alpha[q] = tick[j], multiplier[j]
                used += multiplier[j] > 0.0
                j += 1
                for r in range(n):
                    b.gram[q * b.room + r] = product[at]
                    at += 1
                if b.gram[q * b.room + q] < 0.0:
                    raise ValueError("squares of slopes must not be negative")
            b.n_used, b.gap = n_used[i], gap[i]
            if used != b.n_used:
                raise ValueError("the planes in use are those with a multiplier")
            if not (n <= room[i] <= max(2 * max(n, self.cap), MOST_ROOM) and
                    0 <= wasted[i] <= self.cap * <int64_t>padded(12 * self.dim)):
                raise ValueError("blocks must have room for their planes, and not much more")
            self._resize(b, room[i])
            self._extend(b, wasted[i])
            b.wasted = wasted[i]
        self.n_planes, self.tick, self.work = plane, state["tick"], state["work"]
        if not 0.0 <= state["merging_error"] < np.inf:
            raise ValueError("merging_error of blocks must be a number of at least 0")
        self.n_merged, self.merging_error = state["n_merged"], state["merging_error"]


cdef size_t slope_bytes(const pb_slope* a) noexcept nogil:
    return a.n * ((4 if a.is_single else 8) + (4 if a.index != NULL else 0))


cdef size_t padded(size_t size) noexcept nogil:
    return (size + 7) // 8 * 8


cdef void place_slope(pb_slope* a, char* memory) noexcept nogil:
    """Points to a slope of this kind and size at `memory`: values first."""
    a.value = memory
    if a.index != NULL:
        a.index = <int32_t*>(memory + a.n * (4 if a.is_single else 8))


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
