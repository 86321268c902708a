"""Steps to the minimiser of a simplex QP on a face, with one factor for many faces.

For a base B of variables, E the indicator of their parts, and multiples of 1 added inside each part (which
change nothing while sums are kept, and make the matrix definite exactly when the reduced Hessian is),

    K = H_BB + c E E' + shift I = L L',     c = mean diagonal of H.

The step s from x minimises 1/2 s'Ks - r's subject to C's = b, where the columns of C are those of E (sums
kept) and unit vectors (variables held at zero):

    R = C'L^-T,   R R' mu = R L^-1 r - b,   s = L^-T (L^-1 r - R' mu).

So a variable that leaves the face costs one triangular solve, one that returns costs nothing, and a new one
borders L: the factor is built once. This is the face step of Wolfe 1976 ("Finding the nearest point in a
polytope") and of Kiwiel 1989 ("A dual method for certain positive semidefinite quadratic programming
problems") with block changes. Because r is the residual at x, `shift` acts as a proximal term and leaves no
error in the limit.
"""

from libc.math cimport fabs
from libc.string cimport memcpy, memmove, memset

import numpy as np

from pybundle.core cimport _blas

cdef extern from "_kernels.h" nogil:
    void pb_gather(int n, const double* row, const int* index, const int* part, int p, double coupling,
                   double* out)

# Violations of a sum or of a zero: what calls for a correction, and what is given up.
cdef double LOOSE = 1e-13, HOPELESS = 1e-9
# Variables held at once: up to FEW by one triangular solve each, more by BLAS 3 in blocks of BLOCK.
cdef int FEW = 4, BLOCK = 16


cdef class Face:

    def __cinit__(self):
        self.capacity = self.row_capacity = self.side = self.n = self.n_parts = self.n_held = 0

    cdef int reserve(self, int n, int n_parts) except -1:
        cdef int rows = n_parts + n, old = self.n, i
        cdef double[:, ::1] L, R, M, F
        cdef double[::1] y, z, t
        cdef int[::1] index, part, row, held
        if n <= self.capacity and rows <= self.row_capacity:
            return 0
        # Rows an odd number of cache lines apart: a power of two would put a column into one cache set.
        n = max(n, self.capacity)
        rows = max(n_parts + n, self.row_capacity)
        L = np.empty((n, n // 16 * 16 + 24))
        R = np.empty((rows, L.shape[1]))
        M = np.empty((rows, rows))
        F = np.empty((rows, rows))
        y = np.empty(n)
        z = np.empty(n)
        t = np.empty(rows)
        index = np.empty(n, dtype=np.intc)
        part = np.empty(n, dtype=np.intc)
        row = np.empty(n, dtype=np.intc)
        held = np.empty(rows, dtype=np.intc)
        for i in range(old):
            memcpy(&L[i, 0], self.L + <Py_ssize_t>i * self.stride, (i + 1) * sizeof(double))
            index[i], part[i], row[i] = self.index[i], self.part[i], self.row[i]
        for i in range(self.n_parts + self.n_held if self.capacity else 0):
            memcpy(&R[i, 0], self.R + <Py_ssize_t>i * self.stride, old * sizeof(double))
            memcpy(&M[0, 0] + <Py_ssize_t>i * self.side, self.M + <Py_ssize_t>i * self.side,
                   (i + 1) * sizeof(double))
            held[i] = self.held[i]
        self._arrays = (L.base, R.base, M.base, F.base, y.base, z.base, t.base, index.base, part.base,
                        row.base, held.base)
        self.L, self.R, self.M, self.F = &L[0, 0], &R[0, 0], &M[0, 0], &F[0, 0]
        self.y, self.z, self.t = &y[0], &z[0], &t[0]
        self.index, self.part, self.row, self.held = &index[0], &part[0], &row[0], &held[0]
        self.capacity, self.row_capacity, self.stride = n, rows, <int>L.shape[1]
        return 0

    cdef void clear(self, int n_parts, double coupling, double shift) noexcept nogil:
        cdef int i, j
        self.n = self.n_held = 0
        self.n_parts = n_parts
        self.coupling = coupling
        self.shift = shift
        self.side = 0
        self._widen(n_parts)
        for i in range(n_parts):
            for j in range(i + 1):
                self.M[<Py_ssize_t>i * self.side + j] = 0.0

    cdef void _widen(self, int rows) noexcept nogil:
        """M gets room for more rows, which lie close: each page of fresh memory costs time."""
        cdef int i, side = min(self.row_capacity, rows // 8 * 16 + 24)
        if rows > self.side:
            for i in range(self.n_parts + self.n_held - 1 if self.side else 0, 0, -1):
                memmove(self.M + <Py_ssize_t>i * side, self.M + <Py_ssize_t>i * self.side,
                        (i + 1) * sizeof(double))
            self.side = side

    cdef int append(self, const double* H, Py_ssize_t ldh, const int* index, const int* part,
                    int k) noexcept nogil:
        cdef int n = self.n, rows = self.n_parts + self.n_held, i, j, info, v, p
        cdef Py_ssize_t ld = self.stride
        cdef double* out
        cdef double* corner = self.L + n * ld + n
        for i in range(k):
            self.index[n + i] = index[i]
            self.part[n + i] = part[i]
            self.row[n + i] = -1
        for i in range(n, n + k):
            v = self.index[i]
            p = self.part[i]
            out = self.L + i * ld
            if v >= 0:
                pb_gather(i + 1, H + v * ldh, self.index, self.part, p,
                          self.coupling if p < self.n_parts else 0.0, out)
            else:
                for j in range(i + 1):
                    out[j] = self.coupling if self.part[j] == p else 0.0
            out[i] += self.shift
        if n:
            # L21 = K21 L11^-T,   L22 = chol(K22 - L21 L21')
            _blas.trsm(n, k, self.L, self.stride, self.L + n * ld, self.stride, False)
            _blas.syrk(k, n, -1.0, self.L + n * ld, self.stride, corner, self.stride)
        info = _blas.potrf(k, corner, self.stride)
        if info:
            return info
        # the new columns of R: (C_2' - R_1 L21') L22^-T
        if n and rows:
            _blas.gemm_nt(rows, k, n, self.R, self.stride, self.L + n * ld, self.stride,
                          self.R + n, self.stride)
        for i in range(rows):
            out = self.R + i * ld + n
            for j in range(k):
                out[j] = -out[j] if n else 0.0
                if i < self.n_parts and self.part[n + j] == i:
                    out[j] += 1.0
        if rows:
            _blas.trsm(k, rows, corner, self.stride, self.R + n, self.stride, False)
            _blas.syrk(rows, k, 1.0, self.R + n, self.stride, self.M, self.side)
        self.n = n + k
        return 0

    cdef void hold(self, const int* position, int k) noexcept nogil:
        cdef int first = self.n_parts + self.n_held, i, j, size, start = self.n, n = self.n
        cdef Py_ssize_t ld = self.stride, d
        cdef double* new = self.R + first * ld
        self._widen(first + k)
        for i in range(k):
            for j in range(n):
                new[i * ld + j] = 0.0
            new[i * ld + position[i]] = 1.0
            self.held[self.n_held + i] = position[i]
            self.row[position[i]] = self.n_held + i
        # L^-1 e_d is zero before d; a block of rows starts at its least d
        i = 0
        while i < k:
            size = 1 if k <= FEW else min(BLOCK, k - i)
            d = position[i]
            for j in range(1, size):
                d = min(d, position[i + j])
            start = min(start, d)
            if size == 1:
                _blas.trsv(n - d, self.L + d * ld + d, self.stride, new + i * ld + d, False)
            else:
                _blas.trsm(n - d, size, self.L + d * ld + d, self.stride, new + i * ld + d, self.stride,
                           False)
            i += size
        self.n_held += k
        # M's new rows = new @ R.T
        _blas.gemm_nt(k, first + k, n - start, new + start, self.stride, self.R + start, self.stride,
                      self.M + <Py_ssize_t>first * self.side, self.side)

    cdef void release_to(self, int k) noexcept nogil:
        while self.n_held > k:
            self.n_held -= 1
            self.row[self.held[self.n_held]] = -1

    cdef void release(self, int position) noexcept nogil:
        # The last held row takes the place of the freed one.
        cdef int gone = self.row[position], last = self.n_held - 1, a = self.n_parts + gone, b, j
        cdef Py_ssize_t ld = self.stride, ldm = self.side
        b = self.n_parts + last
        self.row[position] = -1
        self.n_held = last
        if gone == last:
            return
        memcpy(self.R + a * ld, self.R + b * ld, self.n * sizeof(double))
        self.held[gone] = self.held[last]
        self.row[self.held[gone]] = gone
        for j in range(a):
            self.M[a * ldm + j] = self.M[b * ldm + j]
        self.M[a * ldm + a] = self.M[b * ldm + b]
        for j in range(a + 1, b):
            self.M[j * ldm + a] = self.M[b * ldm + j]

    cdef void aim(self, const double* rhs) noexcept nogil:
        memcpy(self.y, rhs, self.n * sizeof(double))
        _blas.trsv(self.n, self.L, self.stride, self.y, False)

    cdef int solve(self, const double* x, const double* lack, double* step) noexcept nogil:
        cdef int n = self.n, rows = self.n_parts + self.n_held, i, info
        cdef Py_ssize_t ldm = self.side
        cdef double miss
        memcpy(step, self.y, n * sizeof(double))
        for i in range(rows):
            memcpy(self.F + i * ldm, self.M + i * ldm, (i + 1) * sizeof(double))
        info = _blas.potrf(rows, self.F, self.side) if rows else 0
        if info:
            return info
        for i in range(self.n_parts):
            self.t[i] = -lack[i]
        for i in range(self.n_held):
            self.t[self.n_parts + i] = x[self.held[i]]
        # t = R @ step - b
        _blas.gemv(rows, n, 1.0, self.R, self.stride, step, 1.0, self.t)
        self._correct(rows, step)
        _blas.trsv(n, self.L, self.stride, step, True)
        # A nearly singular face leaves the constraints inexact: repeat with what is missing.
        miss = self._violation(x, lack, step)
        if miss > LOOSE:
            memcpy(self.z, step, n * sizeof(double))
            memset(step, 0, n * sizeof(double))
            self._correct(rows, step)
            _blas.trsv(n, self.L, self.stride, step, True)
            _blas.axpy(n, 1.0, self.z, step)
            if not self._violation(x, lack, step) <= HOPELESS:
                return n + 1
        return 0

    cdef void _correct(self, int rows, double* step) noexcept nogil:
        """step -= R.T @ (R R')^-1 t, which overwrites t."""
        _blas.trsv(rows, self.F, self.side, self.t, False)
        _blas.trsv(rows, self.F, self.side, self.t, True)
        _blas.gemv_t(rows, self.n, -1.0, self.R, self.stride, self.t, 1.0, step)

    cdef double _violation(self, const double* x, const double* lack, const double* step) noexcept nogil:
        """t = C'step - b; its largest entry."""
        cdef int i, p
        cdef double worst = 0.0
        for i in range(self.n_parts):
            self.t[i] = -lack[i]
        for i in range(self.n):
            p = self.part[i]
            if p < self.n_parts:
                self.t[p] += step[i]
            if self.row[i] >= 0:
                self.t[self.n_parts + self.row[i]] = step[i] + x[i]
        for i in range(self.n_parts + self.n_held):
            if not fabs(self.t[i]) <= worst:
                worst = fabs(self.t[i])
        return worst
