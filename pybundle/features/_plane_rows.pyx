"""Sparse planes of many labellings: rows of a CSR matrix that are sorted and merged, without zeros.

A plane is the sum of pieces: rows of features in the blocks of some labels, and single indicators. Dense pieces are
summed in a block of scratch and then compressed. Sparse entries wait as pairs (index, value) until the row is sorted
and merged. No step costs O(dim), and no state is shared, so that many threads may build planes at once.
"""

import numpy as np
import scipy.sparse as sp

from cython.view cimport array
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

cdef extern from "_compress.h" nogil:
    int PB_COMPRESS_ROOM
    Py_ssize_t pb_compress(Py_ssize_t n, int32_t first, const double* block, double* data, int32_t* indices)

cdef enum:
    FEW = 48              # for at most this many entries insertion sort is faster than a radix sort
    DIGIT_BITS = 11       # the histogram of a digit has 8 kB and fits in the first-level cache


cdef class PlaneRows:
    """`n_planes` rows of `dim` entries, filled one after another by compiled callers.

    Parameters
    ----------
    dim : int
        Below 2^31: indices are int32.
    n_planes : int
    width : int
        Entries of the scratch block, 0 if nothing dense is summed.
    """

    def __cinit__(self, Py_ssize_t dim, Py_ssize_t n_planes, Py_ssize_t width=0):
        if dim > np.iinfo(np.int32).max:
            raise OverflowError(f"sparse planes need less than 2^31 weights, got {dim}")
        if min(dim, n_planes, width) < 0:
            raise ValueError(f"dim, n_planes and width must be at least 0, got {dim}, {n_planes} and {width}")
        self.dim, self.n_planes, self.width = dim, n_planes, width
        self.indptr = np.zeros(n_planes + 1, dtype=np.int64)
        self.block = <double*>calloc(max(width, 1), sizeof(double))
        if self.block == NULL:
            raise MemoryError(f"no room for a block of {width} entries")
        self._extend(64 * n_planes + 64)

    def __dealloc__(self):
        free(self.data)
        free(self.indices)
        free(self.block)
        free(self.keys)
        free(self.spare)
        free(self.values)
        free(self.order)

    def working_bytes(self):
        """Return the bytes of scratch memory, without the planes."""
        return 8 * self.width

    cdef int _extend(self, Py_ssize_t more) except -1 nogil:
        cdef Py_ssize_t capacity = self.size + more
        if capacity <= self.capacity:
            return 0
        # realloc moves the pages of a long array instead of copying its bytes
        capacity = max(capacity, 2 * self.capacity)
        cdef void* data = realloc(self.data, capacity * sizeof(double))
        if data != NULL:
            self.data = <double*>data
        cdef void* indices = realloc(self.indices, capacity * sizeof(int32_t))
        if indices != NULL:
            self.indices = <int32_t*>indices
        if data == NULL or indices == NULL:
            with gil:
                raise MemoryError(f"no room for planes of {capacity} entries")
        self.capacity = capacity
        return 0

    cdef int reserve(self, Py_ssize_t more) except -1 nogil:
        cdef Py_ssize_t room = self.waiting + more
        cdef void* found
        if room <= self.room:
            return 0
        room = max(room, 2 * self.room)
        found = realloc(self.keys, room * sizeof(uint64_t))
        if found != NULL:
            self.keys = <uint64_t*>found
            found = realloc(self.spare, room * sizeof(uint64_t))
        if found != NULL:
            self.spare = <uint64_t*>found
            found = realloc(self.values, room * sizeof(double))
        if found == NULL:
            with gil:
                raise MemoryError(f"no room for {room} entries of a plane")
        self.values, self.room = <double*>found, room
        return 0

    cdef const uint64_t* sort(self, Py_ssize_t n) noexcept nogil:
        cdef uint64_t* keys = self.keys
        cdef uint64_t* other = self.spare
        cdef uint64_t* swap
        cdef uint64_t key, differing = 0
        cdef Py_ssize_t i, j
        cdef int bits = 0, n_digits, least, digit, shift
        cdef bint is_sorted = True
        cdef int32_t[1 << DIGIT_BITS] place
        cdef int32_t total, count, mask
        for i in range(1, n):
            differing |= keys[i] ^ keys[0]
            is_sorted = is_sorted and keys[i - 1] <= keys[i]
        if is_sorted:
            return keys
        if n <= FEW:
            for i in range(1, n):
                key = keys[i]
                j = i
                while j > 0 and keys[j - 1] > key:
                    keys[j] = keys[j - 1]
                    j -= 1
                keys[j] = key
            return keys
        # stable radix sort from the least significant digit of the upper halves; the lower halves are sorted already
        differing >>= 32
        while differing >> bits:
            bits += 1
        n_digits = least = (bits + DIGIT_BITS - 1) // DIGIT_BITS
        for digit in range(least + 1, 6):
            # a digit costs two steps for each key and one for each value of the digit
            if digit * (2 * n + (1 << (bits + digit - 1) // digit)) \
                    < n_digits * (2 * n + (1 << (bits + n_digits - 1) // n_digits)):
                n_digits = digit
        bits = (bits + n_digits - 1) // n_digits
        mask = (1 << bits) - 1
        for digit in range(n_digits):
            shift = 32 + digit * bits
            memset(place, 0, (mask + 1) * sizeof(int32_t))
            for i in range(n):
                place[<int32_t>(keys[i] >> shift) & mask] += 1
            total = 0
            for i in range(mask + 1):
                count = place[i]
                place[i] = total
                total += count
            for i in range(n):
                j = <int32_t>(keys[i] >> shift) & mask
                other[place[j]] = keys[i]
                place[j] += 1
            swap = keys
            keys = other
            other = swap
        return keys

    cdef int flush(self) except -1 nogil:
        cdef Py_ssize_t n = self.waiting, size, q = 0
        cdef const uint64_t* keys
        cdef uint64_t index
        cdef double total
        if n == 0:
            return 0
        self._extend(n)
        keys = self.sort(n)
        size = self.size
        while q < n:
            index = keys[q] >> 32
            total = self.values[keys[q] & 0xFFFFFFFFu]
            q += 1
            while q < n and keys[q] >> 32 == index:
                total += self.values[keys[q] & 0xFFFFFFFFu]
                q += 1
            self.indices[size] = <int32_t>index
            self.data[size] = total
            size += total != 0.0
        self.size = size
        self.waiting = 0
        return 0

    cdef void clear(self) noexcept nogil:
        self.closed = self.size = self.waiting = 0
        if self.is_dirty:
            memset(self.block, 0, self.width * sizeof(double))
        self.is_dirty = False

    cdef int flush_block(self, Py_ssize_t first, Py_ssize_t width) except -1 nogil:
        self.is_dirty = True
        self._extend(width + PB_COMPRESS_ROOM)
        self.is_dirty = False
        self.size += pb_compress(width, <int32_t>first, self.block, self.data + self.size, self.indices + self.size)
        memset(self.block, 0, width * sizeof(double))
        return 0

    cdef Py_ssize_t arrange(self, Py_ssize_t n, const int32_t* labels, const double* coefs) except -1 nogil:
        cdef Py_ssize_t e, count = 0
        cdef void* found
        self.reserve(n)
        if n > self.order_room:
            found = realloc(self.order, n * sizeof(uint64_t))
            if found == NULL:
                with gil:
                    raise MemoryError(f"no room for the order of {n} entries")
            self.order, self.order_room = <uint64_t*>found, n
        for e in range(n):
            self.keys[count] = <uint64_t>labels[e] << 32 | <uint64_t>e
            count += coefs[e] != 0.0
        memcpy(self.order, self.sort(count), count * sizeof(uint64_t))
        return count

    cdef int close(self) except -1 nogil:
        self.flush()
        self.closed += 1
        self.indptr[self.closed] = self.size
        return 0

    def matrix(self):
        """Return the rows as csr_array (n_planes, dim); it owns the memory, so do not use this object afterwards."""
        indptr = np.asarray(self.indptr)
        if self.size <= np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)
        cdef array data, indices
        if self.size == 0:
            return sp.csr_array((np.empty(0), np.empty(0, dtype=np.int32), indptr), shape=(self.n_planes, self.dim))
        # the matrix owns both arrays from here on; realloc releases their unused ends
        data = <double[:self.size]><double*>realloc(self.data, self.size * sizeof(double))
        data.callback_free_data = free
        self.data = NULL
        indices = <int32_t[:self.size]><int32_t*>realloc(self.indices, self.size * sizeof(int32_t))
        indices.callback_free_data = free
        self.indices = NULL
        return sp.csr_array((np.asarray(data), np.asarray(indices), indptr), shape=(self.n_planes, self.dim))


def merge_rows(slopes, Py_ssize_t n_planes, Py_ssize_t dim):
    """Return a csr_array of the `n_planes` dense vectors or CSR rows in an iterable, each sorted and merged.

    Raises ValueError if the number of rows differs from `n_planes`, or if a row does not fit into `dim` columns.
    """
    cdef PlaneRows planes = PlaneRows(dim, n_planes)
    cdef const double[::1] data
    cdef const int32_t[::1] indices
    cdef Py_ssize_t q
    for slope in slopes:
        if planes.closed == n_planes:
            raise ValueError(f"slopes must be {n_planes} rows, got more")
        if sp.issparse(slope):
            found, values = slope.indices, slope.data
        else:
            found = np.flatnonzero(slope)
            values = slope[found]
        data, indices = np.ascontiguousarray(values), np.ascontiguousarray(found, dtype=np.int32)
        if data.shape[0] != indices.shape[0]:
            raise ValueError(f"slopes must have as many indices as values, got {indices.shape[0]} and {data.shape[0]}")
        planes.reserve(data.shape[0])
        for q in range(data.shape[0]):
            if not 0 <= indices[q] < dim:
                raise ValueError(f"slopes must have indices 0..{dim - 1}, got {indices[q]} in row {planes.closed}")
            planes.put(indices[q], data[q])
        planes.close()
    if planes.closed < n_planes:
        raise ValueError(f"slopes must be {n_planes} rows, got {planes.closed}")
    return planes.matrix()
