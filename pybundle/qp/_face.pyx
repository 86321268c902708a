"""Steps to the minimiser of a simplex QP on a face, with one factor for many faces.

For a base B of variables and the indicator E of their parts,

    K = H_BB + c E E' + shift I = L L',     c = mean diagonal of H,

All terms are multiplied by a power of two that brings c near 1. The term c E E' is constant on points whose parts have
fixed sums, and makes the matrix definite exactly if the reduced Hessian is definite.

The step s from x minimises 1/2 s'Ks - r's subject to C's = b. The columns of C are those of E, which fix the sums, and
unit vectors, which hold variables at zero:

    R = C'L^-T,   R R' mu = R L^-1 r - b,   s = L^-T (L^-1 r - R' mu).

So the factor is built once: a variable that leaves the face costs one triangular solve, one that returns costs nothing,
and a new one borders L. This is the face step of Wolfe 1976 ("Finding the nearest point in a polytope") and of Kiwiel
1989 ("A dual method for certain positive semidefinite quadratic programming problems") with block changes.

Because r is the residual at x, `shift` acts as a proximal term and leaves no error in the limit. For the same reason L
may be rounded to float32: the next round, with r from float64, is a step of iterative refinement. In float32 sums are
right up to a small fraction of the step, in float64 up to rounding. One source serves both precisions: public methods
choose one, private methods are typed by their pointer.
"""

from libc.math cimport fabs, frexp, ldexp
from libc.string cimport memcpy, memset

import numpy as np

from pybundle.core cimport _blas
from pybundle.core._blas cimport real

cdef extern from "_memory.h" nogil:
    void* pb_allocate(size_t size)
    void pb_free(void* memory)

cdef extern from "_kernels.h" nogil:
    void pb_gather_float(int n, const double* row, const int* index, const int* part, int p, double unit,
                         double coupling, float* out)
    void pb_gather_double(int n, const double* row, const int* index, const int* part, int p, double unit,
                          double coupling, double* out)

# Violations of the constraints on sums and held variables: above the first number a step is corrected, above the second
# it fails. In float32 both are fractions of the step, because sums and zeros are restored after a step.
cdef double LOOSE = 1e-13, HOPELESS = 1e-9, LOOSE_SINGLE = 1e-4, HOPELESS_SINGLE = 1e-2
# A pivot below this fraction of its diagonal entry is mostly rounding in float32.
cdef float LEAST_PIVOT = 1e-5
# Up to FEW variables held in one call take one triangular solve each; more are solved in blocks of BLOCK by BLAS 3.
cdef int FEW = 4, BLOCK = 16
# Number of variables appended at a time: their rows fit into the cache, and a failure is noticed early.
cdef int SLAB = 128


cdef void* _allocate(size_t size) except NULL:
    cdef void* memory = pb_allocate(size)
    if memory == NULL:
        raise MemoryError(f"no memory for a factor of {size} bytes")
    return memory


cdef class Face:

    def __cinit__(self):
        self.columns = self.rows = NULL
        self.capacity = self.row_capacity = self.n = self.n_parts = self.n_held = 0
        self.single = False

    def __dealloc__(self):
        pb_free(self.columns)
        pb_free(self.rows)

    cdef int reserve(self, int n, int n_rows, bint single) except -1:
        if single != self.single:
            self.n = self.n_held = self.n_parts = 0
            self.single = single
            self.stride = self.old_stride = self._stride()
        if n > self.capacity:
            n_rows = max(n_rows, self.row_capacity)
            self._reserve_columns(n)
            self.row_capacity = 0           # so that R moves, too: its rows are as long as those of L
            self._reserve_rows(n_rows)
        elif n_rows > self.row_capacity:
            self._reserve_rows(2 * n_rows)
        return 0

    cdef int _stride(self) noexcept nogil:
        """Return the distance of rows, an odd number of cache lines: with powers of two, rows share a cache set."""
        cdef int line = 32 if self.single else 16
        return self.capacity // line * line + line + line // 2

    cdef int _reserve_columns(self, int n) except -1:
        """Allocate L, y, z, index, part, row and held for n variables of either precision; R stays as it was."""
        cdef size_t item = sizeof(float) if self.single else sizeof(double), size = sizeof(double)
        cdef size_t vectors = (<size_t>n * (2 * size + 4 * sizeof(int)) + 127) // 128 * 128, i, stride
        cdef char* memory = <char*>_allocate(vectors + <size_t>n * (n // 16 * 16 + 24) * size)
        cdef char* L = memory + vectors
        cdef int* index = <int*>(memory + 2 * <size_t>n * size)
        self.old_stride, self.capacity = self.stride, n
        stride = self.stride = self._stride()
        for i in range(<size_t>self.n):
            memcpy(L + i * stride * item, <char*>self.L + i * self.old_stride * item, (i + 1) * item)
        if self.columns != NULL:        # C forbids copies from NULL, even of no bytes
            memcpy(index, self.index, self.n * sizeof(int))
            memcpy(index + n, self.part, self.n * sizeof(int))
            memcpy(index + 2 * n, self.row, self.n * sizeof(int))
            memcpy(index + 3 * n, self.held, self.n_held * sizeof(int))
        pb_free(self.columns)
        self.columns, self.L = memory, L
        self.y, self.z = memory, memory + n * size
        self.index, self.part, self.row, self.held = index, index + n, index + 2 * n, index + 3 * n
        return 0

    cdef int _reserve_rows(self, int n_rows) except -1:
        """Allocate R, M, F, t and missing for n_rows constraints."""
        cdef size_t item = sizeof(float) if self.single else sizeof(double), size = sizeof(double)
        cdef size_t side = n_rows // 16 * 16 + 24, i, rows = self.n_parts + self.n_held, stride = self.stride
        cdef size_t length = side * (self.capacity // 16 * 16 + 24) * size
        cdef char* memory = <char*>_allocate(length + 2 * side * side * size + 2 * side * size)
        cdef char* M = memory + length
        for i in range(rows):
            memcpy(memory + i * stride * item, <char*>self.R + i * self.old_stride * item, self.n * item)
            memcpy(M + i * side * item, <char*>self.M + i * self.side * item, (i + 1) * item)
        pb_free(self.rows)
        self.rows = self.R = memory
        self.M, self.F = M, M + side * side * size
        self.missing = <double*>(M + 2 * side * side * size)
        self.t = self.missing + side
        self.side = self.row_capacity = <int>side
        self.old_stride = self.stride
        return 0

    cdef void clear(self, int n_parts, double diagonal, double shift) noexcept nogil:
        cdef int i, exponent
        cdef size_t item = sizeof(float) if self.single else sizeof(double)
        # A power of two brings H into the range of float32 and rounds nothing.
        frexp(diagonal, &exponent)
        self.unit = ldexp(1.0, -exponent)
        self.n = self.n_held = 0
        self.n_parts = n_parts
        self.coupling = self.unit * diagonal
        self.shift = shift * self.coupling
        for i in range(n_parts):
            memset(<char*>self.M + i * self.side * item, 0, (i + 1) * item)

    cdef int append(self, const double* H, Py_ssize_t ldh, const int* index, const int* part,
                    int k) noexcept nogil:
        cdef int i = 0, size, info
        while i < k:
            size = min(SLAB, k - i)
            if self.single:
                info = self._append(<float*>self.L, H, ldh, index + i, part + i, size)
            else:
                info = self._append(<double*>self.L, H, ldh, index + i, part + i, size)
            if info:
                self.n = self.n_held = 0
                return info
            i += size
        return 0

    cdef int _append(self, real* L, const double* H, Py_ssize_t ldh, const int* index, const int* part,
                     int k) noexcept nogil:
        cdef int n = self.n, rows = self.n_parts + self.n_held, i, j, info, v, p
        cdef Py_ssize_t ld = self.stride
        cdef real* R = <real*>self.R
        cdef real* y = <real*>self.y
        cdef real* border = L + n * ld
        cdef real* corner = border + n
        cdef real* out
        cdef double coupling
        for i in range(k):
            self.index[n + i] = index[i]
            self.part[n + i] = part[i]
            self.row[n + i] = -1
        for i in range(n, n + k):
            v = self.index[i]
            p = self.part[i]
            out = L + i * ld
            coupling = self.coupling if p < self.n_parts else 0.0
            if v < 0:
                for j in range(i + 1):
                    out[j] = <real>(coupling if self.part[j] == p else 0.0)
            elif real is float:
                pb_gather_float(i + 1, H + v * ldh, self.index, self.part, p, self.unit, coupling, out)
            else:
                pb_gather_double(i + 1, H + v * ldh, self.index, self.part, p, self.unit, coupling, out)
            out[i] += <real>self.shift
            y[i] = out[i]
        if n:
            # L21 = K21 L11^-T,   L22 = chol(K22 - L21 L21')
            _blas.trsm(n, k, L, self.stride, border, self.stride, False)
            _blas.syrk(k, n, -1.0, border, self.stride, corner, self.stride)
        info = _blas.potrf(k, corner, self.stride)
        if info:
            return info
        if real is float:
            for i in range(k):
                if not corner[i * ld + i] * corner[i * ld + i] >= LEAST_PIVOT * y[n + i]:
                    return i + 1
        # the new columns of R: (C_2' - R_1 L21') L22^-T
        if n and rows:
            _blas.gemm_nt(rows, k, n, R, self.stride, border, self.stride, R + n, self.stride)
        for i in range(rows):
            out = R + i * ld + n
            for j in range(k):
                out[j] = -out[j] if n else 0.0
                if i < self.n_parts and self.part[n + j] == i:
                    out[j] += 1.0
        if rows:
            _blas.trsm(k, rows, corner, self.stride, R + n, self.stride, False)
            _blas.syrk(rows, k, 1.0, R + n, self.stride, <real*>self.M, self.side)
        self.n = n + k
        return 0

    cdef void hold(self, const int* position, int k) noexcept nogil:
        if self.single:
            self._hold(<float*>self.L, position, k)
        else:
            self._hold(<double*>self.L, position, k)

    cdef void _hold(self, real* L, const int* position, int k) noexcept nogil:
        cdef int first = self.n_parts + self.n_held, i, j, size, start = self.n, n = self.n
        cdef Py_ssize_t ld = self.stride, d
        cdef real* R = <real*>self.R
        cdef real* new = R + first * ld
        for i in range(k):
            memset(new + i * ld, 0, n * sizeof(real))
            new[i * ld + position[i]] = 1.0
            self.held[self.n_held + i] = position[i]
            self.row[position[i]] = self.n_held + i
        # L^-1 e_d is zero before entry d, so the rows of a block are computed from their least d on
        i = 0
        while i < k:
            size = 1 if k <= FEW else min(BLOCK, k - i)
            d = position[i]
            for j in range(1, size):
                d = min(d, position[i + j])
            start = min(start, d)
            if size == 1:
                _blas.trsv(n - d, L + d * ld + d, self.stride, new + i * ld + d, False)
            else:
                _blas.trsm(n - d, size, L + d * ld + d, self.stride, new + i * ld + d, self.stride, False)
            i += size
        self.n_held += k
        # M's new rows = new @ R.T
        _blas.gemm_nt(k, first + k, n - start, new + start, self.stride, R + start, self.stride,
                      <real*>self.M + <Py_ssize_t>first * self.side, self.side)

    cdef void release(self, int position) noexcept nogil:
        # The row of the last held variable takes the place of the row that is freed.
        cdef int gone = self.row[position], last = self.n_held - 1, a = self.n_parts + gone
        cdef size_t item = sizeof(float) if self.single else sizeof(double), row = self.stride * item
        self.row[position] = -1
        self.n_held = last
        if gone == last:
            return
        memcpy(<char*>self.R + a * row, <char*>self.R + (self.n_parts + last) * row, self.n * item)
        self.held[gone] = self.held[last]
        self.row[self.held[gone]] = gone
        if self.single:
            self._replace(<float*>self.M, a, self.n_parts + last)
        else:
            self._replace(<double*>self.M, a, self.n_parts + last)

    cdef void _replace(self, real* M, int a, int b) noexcept nogil:
        """Replace row and column a of M by row and column b, the last ones."""
        cdef int j
        cdef Py_ssize_t ldm = self.side
        for j in range(a):
            M[a * ldm + j] = M[b * ldm + j]
        M[a * ldm + a] = M[b * ldm + b]
        for j in range(a + 1, b):
            M[j * ldm + a] = M[b * ldm + j]

    cdef void aim(self, const double* rhs) noexcept nogil:
        if self.single:
            self._aim(<float*>self.y, rhs)
        else:
            self._aim(<double*>self.y, rhs)

    cdef void _aim(self, real* y, const double* rhs) noexcept nogil:
        cdef int i
        for i in range(self.n):
            y[i] = <real>(self.unit * rhs[i])
        _blas.trsv(self.n, <real*>self.L, self.stride, y, False)

    cdef int solve(self, const double* x, const double* lack, double* step) noexcept nogil:
        if self.single:
            return self._solve(<float*>self.L, x, lack, step)
        return self._solve(<double*>self.L, x, lack, step)

    cdef int _solve(self, real* L, const double* x, const double* lack, double* step) noexcept nogil:
        cdef int n = self.n, rows = self.n_parts + self.n_held, i, info, attempt
        cdef Py_ssize_t ldm = self.side
        cdef real* R = <real*>self.R
        cdef real* M = <real*>self.M
        cdef real* F = <real*>self.F
        cdef real* z = <real*>self.z
        cdef real* t = <real*>self.t
        cdef double miss = 0.0, loose = LOOSE, hopeless = HOPELESS, size
        for i in range(rows):
            memcpy(F + i * ldm, M + i * ldm, (i + 1) * sizeof(real))
        info = _blas.potrf(rows, F, self.side) if rows else 0
        if info:
            return info
        for i in range(self.n_parts):
            t[i] = <real>-lack[i]
        for i in range(self.n_held):
            t[self.n_parts + i] = <real>x[self.held[i]]
        # t = R @ y - b
        memcpy(z, <real*>self.y, n * sizeof(real))
        _blas.gemv(rows, n, 1.0, R, self.stride, z, 1.0, t)
        memset(step, 0, n * sizeof(double))
        # On a nearly singular face the step violates the constraints: a second step corrects the violation.
        for attempt in range(2):
            # z -= R' (R R')^-1 t,   step += L^-T z
            _blas.trsv(rows, F, self.side, t, False)
            _blas.trsv(rows, F, self.side, t, True)
            _blas.gemv_t(rows, n, -1.0, R, self.stride, t, 1.0, z)
            _blas.trsv(n, L, self.stride, z, True)
            for i in range(n):
                step[i] += z[i]
            miss = self._violation(x, lack, step)
            if real is float:
                size = 0.0
                for i in range(n):
                    size = max(size, fabs(step[i]))
                loose = LOOSE_SINGLE * size
                hopeless = HOPELESS_SINGLE * size
            if miss <= loose:
                return 0
            if attempt == 0:
                memset(z, 0, n * sizeof(real))
                for i in range(rows):
                    t[i] = <real>self.missing[i]
        return 0 if miss <= hopeless else n + 1

    cdef double _violation(self, const double* x, const double* lack, const double* step) noexcept nogil:
        """Set missing = C'step - b; return its largest absolute entry."""
        cdef int i, p
        cdef double worst = 0.0
        for i in range(self.n_parts):
            self.missing[i] = -lack[i]
        for i in range(self.n):
            p = self.part[i]
            if p < self.n_parts:
                self.missing[p] += step[i]
            if self.row[i] >= 0:
                self.missing[self.n_parts + self.row[i]] = step[i] + x[i]
        for i in range(self.n_parts + self.n_held):
            if not fabs(self.missing[i]) <= worst:
                worst = fabs(self.missing[i])
        return worst


def _face_step(H, const int[::1] parts, int n_parts, const int[::1] held, const double[::1] x,
               const double[::1] rhs, bint single):
    """Return, for tests, the step from x on the base of all variables; None if the factor failed."""
    cdef Face face = Face()
    cdef const double[:, ::1] H_view = H
    cdef int[::1] index = np.arange(len(H), dtype=np.intc)
    cdef double[::1] lack = 1.0 - np.bincount(parts, x, n_parts), step = np.empty(len(H))
    face.reserve(<int>len(H), n_parts + <int>held.shape[0], single)
    face.clear(n_parts, np.trace(H) / len(H), 1e-12)
    if face.append(&H_view[0, 0], len(H), &index[0], &parts[0], <int>len(H)):
        return None
    if held.shape[0]:
        face.hold(&held[0], <int>held.shape[0])
    face.aim(&rhs[0])
    return None if face.solve(&x[0], &lack[0], &step[0]) else step.base
