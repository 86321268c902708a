"""Dense plane storage: slopes as rows of one C-contiguous array that grows by half its size.

`n` planes of dimension `dim` take `8 n dim` bytes. All products go through BLAS.
"""

import numpy as np

from pybundle.core cimport _blas

cdef extern from "_inner.h" nogil:
    int pb_inner(int m, int n, int d, const double* A, const double* B, double* C)


cdef class DensePlanes:
    """Slopes `a_j` as rows; rows 0..len-1 are alive, in no particular order.

    Memory layout: `_rows[capacity, dim]`, float64; rows from `len` on are unused.
    """

    is_sparse = False

    def __init__(self, Py_ssize_t dim, Py_ssize_t capacity=32):
        self.dim = dim
        self.count = 0
        self._rows = np.empty((max(1, capacity), dim))
        self.view = self._rows

    def __len__(self):
        return self.count

    @property
    def nbytes(self):
        """Bytes of the rows in use."""
        return 8 * self.count * self.dim

    cdef const double* row(self, Py_ssize_t j) noexcept nogil:
        return &self.view[j, 0]

    cdef void add_combination(self, const double* weights, double* phi) noexcept nogil:
        cdef Py_ssize_t j
        for j in range(self.count):
            if weights[j] != 0.0:
                _blas.axpy(<int>self.dim, weights[j], self.row(j), phi)

    cdef void multiply(self, const double* w, Py_ssize_t first, double* y) noexcept nogil:
        _blas.gemv(<int>(self.count - first), <int>self.dim, 1.0, self.row(first), <int>self.dim, w, 0.0, y)

    def append(self, slopes):
        """Adds the rows of `slopes` (k, dim), dense or sparse."""
        cdef Py_ssize_t k = slopes.shape[0], need = self.count + k
        if need > self._rows.shape[0]:
            rows = np.empty((max(need, self._rows.shape[0] * 3 // 2), self.dim))
            rows[:self.count] = self._rows[:self.count]
            self._rows = rows
            self.view = rows
        self._rows[self.count:need] = slopes.toarray() if hasattr(slopes, "toarray") else slopes
        self.count = need

    def inner(self, Py_ssize_t first):
        """`A[first:] @ A.T`, shape (len - first, len): one product of `2 dim len (len - first)` flops."""
        out = np.empty((self.count - first, self.count))
        cdef double[:, ::1] C = out
        cdef int new = <int>(self.count - first), n = <int>self.count, d = <int>self.dim
        if new > 0:
            with nogil:
                if not pb_inner(new, n, d, self.row(first), self.row(0), &C[0, 0]):
                    _blas.gemm_nt(new, n, d, self.row(first), d, self.row(0), d, &C[0, 0], n)
        return out

    def combine(self, const double[::1] weights):
        """`A.T @ weights`, shape (dim,); reads only rows of non-zero weight."""
        out = np.zeros(self.dim)
        cdef double[::1] phi = out
        if weights.shape[0] != self.count:
            raise ValueError(f"weights must have shape ({self.count},), got ({weights.shape[0]},)")
        if self.count:
            with nogil:
                self.add_combination(&weights[0], &phi[0])
        return out

    def dot(self, const double[::1] w, Py_ssize_t first=0):
        """`A[first:] @ w`, shape (len - first,)."""
        out = np.empty(self.count - first)
        cdef double[::1] y = out
        if w.shape[0] != self.dim:
            raise ValueError(f"w must have shape ({self.dim},), got ({w.shape[0]},)")
        if first < self.count:
            with nogil:
                self.multiply(&w[0], first, &y[0])
        return out

    def keep(self, const Py_ssize_t[::1] order):
        """Row k becomes old row `order[k]`; needs `order[k] >= k` or a row not read later (see `survivors`)."""
        cdef Py_ssize_t k
        for k in range(order.shape[0]):
            if order[k] != k:
                self.view[k, :] = self.view[order[k], :]
        self.count = order.shape[0]

    def equal(self, Py_ssize_t i, Py_ssize_t j):
        """Whether the rows i and j hold the same numbers."""
        cdef Py_ssize_t k
        if not (0 <= i < self.count and 0 <= j < self.count):
            raise ValueError(f"rows must lie in 0..{self.count - 1}, got {i} and {j}")
        with nogil:
            for k in range(self.dim):
                if self.view[i, k] != self.view[j, k]:
                    break
            else:
                k = self.dim
        return k == self.dim

    def arrays(self):
        """Named arrays for saving, which share memory."""
        return {"slopes": self._rows[:self.count]}

    def restore(self, arrays):
        """Inverse of `arrays`, for a store without planes."""
        self.append(arrays["slopes"])
