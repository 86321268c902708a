"""Dense storage of planes: slopes are rows in blocks of memory, so that no row is copied when the storage grows.

`n` planes of dimension `dim` take `8 n dim` bytes. A kernel in `_inner.h` computes products of a few planes with all;
other products use BLAS.
"""

import numpy as np

from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from pybundle.core cimport _blas

cdef extern from "_inner.h" nogil:
    bint pb_has_inner(int m)
    void pb_inner(int m, int n, int d, const double** A, const double** B, double* C)

cdef enum:
    BLOCK_BYTES = 1 << 24       # a block has half as many rows as all blocks before, but at most this many bytes


cdef class DensePlanes:
    """Slopes `a_j` as rows 0..len-1, in no particular order. `Bundle` checks the arguments of the methods.

    Memory layout: blocks of whole rows, float64. The sizes of blocks follow from the size of the first one. Products
    are computed by blocks, and so their bits do not depend on how many rows were added at a time.
    """

    is_sparse = False

    def __init__(self, Py_ssize_t dim, Py_ssize_t capacity=32):
        self.dim = dim
        self.count = self.capacity = 0
        self._rows = NULL
        self._blocks, self._starts = [], []
        self._add_block(max(1, capacity))

    def __dealloc__(self):
        free(self._rows)

    def _add_block(self, Py_ssize_t n):
        cdef double[:, ::1] block
        cdef Py_ssize_t j
        # one more number separates blocks in memory, so that no `run` goes across two of them
        array = np.empty(n * self.dim + 1)[:n * self.dim].reshape(n, self.dim)
        cdef const double** rows = <const double**>realloc(self._rows, (self.capacity + n) * sizeof(double*))
        if rows == NULL:
            raise MemoryError(f"no room for {self.capacity + n} rows")
        self._rows = rows
        block = array
        for j in range(n):
            rows[self.capacity + j] = &block[j, 0]
        self._blocks.append(array)
        self._starts.append(self.capacity)
        self.capacity += n

    def __len__(self):
        return self.count

    @property
    def nbytes(self):
        """Bytes of the rows in use."""
        return 8 * self.count * self.dim

    cdef const double* row(self, Py_ssize_t j) noexcept nogil:
        return self._rows[j]

    cdef Py_ssize_t run(self, Py_ssize_t j) noexcept nogil:

        cdef Py_ssize_t k = j + 1
        while k < self.count and self._rows[k] == self._rows[k - 1] + self.dim:
            k += 1
        return k - j

    cdef void add_combination(self, const double* weights, double* phi) noexcept nogil:
        cdef Py_ssize_t j
        for j in range(self.count):
            if weights[j] != 0.0:
                _blas.axpy(<int>self.dim, weights[j], self.row(j), phi)

    cdef void multiply(self, const double* w, Py_ssize_t first, double* y) noexcept nogil:
        cdef Py_ssize_t j = first, n
        while j < self.count:
            n = self.run(j)
            _blas.gemv(<int>n, <int>self.dim, 1.0, self.row(j), <int>self.dim, w, 0.0, y + j - first)
            j += n

    def _grow(self, Py_ssize_t need):
        while need > self.capacity:
            self._add_block(max(len(self._blocks[0]), min(self.capacity // 2, BLOCK_BYTES // (8 * self.dim))))

    def append(self, slopes):
        """Add the rows of `slopes` (k, dim), dense or sparse."""
        slopes = slopes.toarray() if hasattr(slopes, "toarray") else slopes
        cdef Py_ssize_t need = self.count + slopes.shape[0], first = self.count, last, start
        self._grow(need)
        for block, start in zip(self._blocks, self._starts, strict=True):
            last = min(need, start + <Py_ssize_t>len(block))
            if first < last:
                block[first - start:last - start] = slopes[first - self.count:last - self.count]
                first = last
        self.count = need

    def inner(self, Py_ssize_t first):
        """Return `A[first:] @ A.T`, shape (len - first, len), in `2 dim len (len - first)` flops."""
        out = np.empty((self.count - first, self.count))
        cdef double[:, ::1] C = out
        cdef int new = <int>(self.count - first), n = <int>self.count, d = <int>self.dim
        cdef Py_ssize_t i, j, some, many
        if new > 0:
            with nogil:
                if pb_has_inner(new):
                    pb_inner(new, n, d, self._rows + first, self._rows, &C[0, 0])
                else:
                    i = first
                    while i < self.count:
                        some, j = self.run(i), 0
                        while j < self.count:
                            many = self.run(j)
                            _blas.gemm_nt(<int>some, <int>many, d, self.row(i), d, self.row(j), d,
                                          &C[i - first, j], n)
                            j += many
                        i += some
        return out

    def columns(self, const Py_ssize_t[::1] coordinates):
        """Return `A[:, coordinates]`."""
        out = np.empty((self.count, coordinates.shape[0]))
        cdef double[:, ::1] found = out
        cdef Py_ssize_t j, k
        for j in range(self.count):
            for k in range(coordinates.shape[0]):
                found[j, k] = self._rows[j][coordinates[k]]
        return out

    def combine(self, const double[::1] weights):
        """Return `A.T @ weights`, shape (dim,); rows of weight 0 are not read."""
        out = np.zeros(self.dim)
        cdef double[::1] phi = out
        if self.count:
            with nogil:
                self.add_combination(&weights[0], &phi[0])
        return out

    def dot(self, const double[::1] w, Py_ssize_t first=0):
        """Return `A[first:] @ w`, shape (len - first,)."""
        out = np.empty(self.count - first)
        cdef double[::1] y = out
        if first < self.count:
            with nogil:
                self.multiply(&w[0], first, &y[0])
        return out

    def keep(self, const Py_ssize_t[::1] order):
        """Move row `order[k]` to row k for k = 0, 1, ...; the order of `survivors` overwrites no row too early."""
        cdef Py_ssize_t k
        for k in range(order.shape[0]):
            if order[k] != k:
                memcpy(<double*>self._rows[k], self._rows[order[k]], self.dim * sizeof(double))
        self.count = order.shape[0]

    def equal(self, Py_ssize_t i, Py_ssize_t j):
        """Return whether the rows i and j contain the same numbers."""
        cdef Py_ssize_t k
        with nogil:
            for k in range(self.dim):
                if self._rows[i][k] != self._rows[j][k]:
                    break
            else:
                k = self.dim
        return k == self.dim

    def arrays(self):
        """Return the slopes as named arrays, to be saved; with a single block they are a view of it."""
        used = [block[:self.count - start] for block, start in zip(self._blocks, self._starts, strict=True)
                if start < self.count or start == 0]
        return {"slopes": used[0] if len(used) == 1 else np.concatenate(used)}

    def restore(self, arrays):
        """Add the slopes that the method `arrays` returned to an empty storage; ValueError if they do not fit."""
        slopes = arrays["slopes"]
        if slopes.ndim != 2 or slopes.shape[1] != self.dim or slopes.dtype != np.float64:
            raise ValueError(f"slopes must have {self.dim} columns of float64")
        self.append(slopes)
