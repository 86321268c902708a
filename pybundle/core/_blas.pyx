"""Row-major wrappers over the BLAS and LAPACK of SciPy; no other module calls these."""

from scipy.linalg.cython_blas cimport (daxpy, ddot, dgemm, dgemv, dsymv, dsyrk, dtrsm, dtrsv, saxpy, sgemm,
                                       sgemv, ssyrk, strsm, strsv)
from scipy.linalg.cython_lapack cimport dpotrf, spotrf


# BLAS solves with triangles up to this order. A larger triangle is halved first, because OpenBLAS multiplies a third
# faster than it solves.
cdef int BASE = 64


cdef double dot(int n, const double* x, const double* y) noexcept nogil:
    cdef int one = 1
    # x @ y
    return ddot(&n, <double*>x, &one, <double*>y, &one)


cdef void axpy(int n, double a, const real* x, real* y) noexcept nogil:
    cdef int one = 1
    cdef real factor = <real>a
    # y += a * x
    if real is float:
        saxpy(&n, &factor, <float*>x, &one, y, &one)
    else:
        daxpy(&n, &factor, <double*>x, &one, y, &one)


cdef void gemv(int m, int n, double alpha, const real* A, int ld, const real* x,
               double beta, real* y) noexcept nogil:
    cdef int one = 1
    cdef real a = <real>alpha, b = <real>beta
    # y = alpha * A @ x + beta * y
    if m > 0:
        if real is float:
            sgemv("T", &n, &m, &a, <float*>A, &ld, <float*>x, &one, &b, y, &one)
        else:
            dgemv("T", &n, &m, &a, <double*>A, &ld, <double*>x, &one, &b, y, &one)


cdef void gemv_t(int m, int n, double alpha, const real* A, int ld, const real* x,
                 double beta, real* y) noexcept nogil:
    cdef int one = 1
    cdef real a = <real>alpha, b = <real>beta
    # y = alpha * A.T @ x + beta * y
    if n > 0:
        if real is float:
            sgemv("N", &n, &m, &a, <float*>A, &ld, <float*>x, &one, &b, y, &one)
        else:
            dgemv("N", &n, &m, &a, <double*>A, &ld, <double*>x, &one, &b, y, &one)


cdef void symv(int n, const double* A, int ld, const double* x, double* y) noexcept nogil:
    cdef int one = 1
    cdef double unit = 1.0, zero = 0.0
    # y = A @ x
    dsymv("U", &n, &unit, <double*>A, &ld, <double*>x, &one, &zero, y, &one)


cdef void gemm_nt(int m, int n, int k, const real* A, int lda, const real* B, int ldb,
                  real* C, int ldc) noexcept nogil:
    # C = A @ B.T
    _gemm(m, n, k, 1.0, A, lda, B, ldb, 0.0, C, ldc)


cdef void _gemm(int m, int n, int k, double alpha, const real* A, int lda, const real* B, int ldb, double beta,
                real* C, int ldc) noexcept nogil:
    cdef real a = <real>alpha, b = <real>beta
    # C = alpha * A @ B.T + beta * C
    if real is float:
        sgemm("T", "N", &n, &m, &k, &a, <float*>B, &ldb, <float*>A, &lda, &b, C, &ldc)
    else:
        dgemm("T", "N", &n, &m, &k, &a, <double*>B, &ldb, <double*>A, &lda, &b, C, &ldc)


cdef int potrf(int n, real* A, int ld) noexcept nogil:
    cdef int info = 0, half = n // 2 // 16 * 16
    cdef real* low = A + <Py_ssize_t>half * ld
    # L = np.linalg.cholesky(A); the lower triangle of a row-major matrix is the upper one for LAPACK
    if n > BASE:
        info = potrf(half, A, ld)
        if info:
            return info
        trsm(half, n - half, A, ld, low, ld, False)
        syrk(n - half, half, -1.0, low, ld, low + half, ld)
        info = potrf(n - half, low + half, ld)
        return info + half if info else 0
    if real is float:
        spotrf("U", &n, A, &ld, &info)
    else:
        dpotrf("U", &n, A, &ld, &info)
    return info


cdef void trsm(int n, int nrhs, const real* L, int ld, real* B, int ldb, bint transposed) noexcept nogil:
    cdef real one = 1.0
    cdef int half = n // 2 // 16 * 16, rest = n - half, i
    # B = np.linalg.solve(L.T if transposed else L, B.T).T
    if nrhs < 4:
        for i in range(nrhs):
            trsv(n, L, ld, B + <Py_ssize_t>i * ldb, transposed)
    elif n > BASE and not transposed:
        trsm(half, nrhs, L, ld, B, ldb, False)
        # B2 -= B1 @ L21.T
        _gemm(nrhs, rest, half, -1.0, B, ldb, L + <Py_ssize_t>half * ld, ld, 1.0, B + half, ldb)
        trsm(rest, nrhs, L + <Py_ssize_t>half * (ld + 1), ld, B + half, ldb, False)
    elif real is float:
        strsm("L", "U", "N" if transposed else "T", "N", &n, &nrhs, &one, <float*>L, &ld, B, &ldb)
    else:
        dtrsm("L", "U", "N" if transposed else "T", "N", &n, &nrhs, &one, <double*>L, &ld, B, &ldb)


cdef void syrk(int n, int k, double sign, const real* A, int lda, real* C, int ldc) noexcept nogil:
    cdef real one = 1.0, a = <real>sign
    # C += sign * A @ A.T, lower triangle
    if real is float:
        ssyrk("U", "T", &n, &k, &a, <float*>A, &lda, &one, C, &ldc)
    else:
        dsyrk("U", "T", &n, &k, &a, <double*>A, &lda, &one, C, &ldc)


cdef void trsv(int n, const real* L, int ld, real* x, bint transposed) noexcept nogil:
    cdef int one = 1
    # x = np.linalg.solve(L.T if transposed else L, x)
    if real is float:
        strsv("U", "N" if transposed else "T", "N", &n, <float*>L, &ld, x, &one)
    else:
        dtrsv("U", "N" if transposed else "T", "N", &n, <double*>L, &ld, x, &one)
