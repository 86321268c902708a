"""The only door to BLAS and LAPACK: row-major wrappers over SciPy's, and memoryview twins for tests."""

from scipy.linalg.cython_blas cimport daxpy, ddot, dgemm, dgemv, dsymv, dsyrk, dtrsm, dtrsv
from scipy.linalg.cython_lapack cimport dpotrf, dpotrs


# Up to this order a triangle is left to BLAS; a larger one is halved, for OpenBLAS multiplies faster than it
# solves by a third.
cdef int BASE = 64


cdef double dot(int n, const double* x, const double* y) noexcept nogil:
    cdef int one = 1
    # x @ y
    return ddot(&n, <double*>x, &one, <double*>y, &one)


cdef void axpy(int n, double a, const double* x, double* y) noexcept nogil:
    cdef int one = 1
    # y += a * x
    daxpy(&n, &a, <double*>x, &one, y, &one)


cdef void gemv(int m, int n, double alpha, const double* A, int ld, const double* x,
               double beta, double* y) noexcept nogil:
    cdef int one = 1
    # y = alpha * A @ x + beta * y
    if m > 0:
        dgemv("T", &n, &m, &alpha, <double*>A, &ld, <double*>x, &one, &beta, y, &one)


cdef void gemv_t(int m, int n, double alpha, const double* A, int ld, const double* x,
                 double beta, double* y) noexcept nogil:
    cdef int one = 1
    # y = alpha * A.T @ x + beta * y
    if n > 0:
        dgemv("N", &n, &m, &alpha, <double*>A, &ld, <double*>x, &one, &beta, y, &one)


cdef void symv(int n, const double* A, int ld, const double* x, double* y) noexcept nogil:
    cdef int one = 1
    cdef double unit = 1.0, zero = 0.0
    # y = A @ x
    dsymv("U", &n, &unit, <double*>A, &ld, <double*>x, &one, &zero, y, &one)


cdef void gemm_nt(int m, int n, int k, const double* A, int lda, const double* B, int ldb,
                  double* C, int ldc) noexcept nogil:
    cdef double one = 1.0, zero = 0.0
    # C = A @ B.T
    dgemm("T", "N", &n, &m, &k, &one, <double*>B, &ldb, <double*>A, &lda, &zero, C, &ldc)


cdef int potrf(int n, double* A, int ld) noexcept nogil:
    cdef int info = 0, half = n // 2 // 16 * 16
    cdef double* low = A + <Py_ssize_t>half * ld
    # L = np.linalg.cholesky(A); the row-major lower triangle is LAPACK's upper one
    if n > BASE:
        info = potrf(half, A, ld)
        if info:
            return info
        trsm(half, n - half, A, ld, low, ld, False)
        syrk(n - half, half, -1.0, low, ld, low + half, ld)
        info = potrf(n - half, low + half, ld)
        return info + half if info else 0
    dpotrf("U", &n, A, &ld, &info)
    return info


cdef void potrs(int n, int nrhs, const double* L, int ld, double* B, int ldb) noexcept nogil:
    cdef int info = 0
    # B = np.linalg.solve(L @ L.T, B.T).T
    dpotrs("U", &n, &nrhs, <double*>L, &ld, B, &ldb, &info)


cdef void trsm(int n, int nrhs, const double* L, int ld, double* B, int ldb, bint transposed) noexcept nogil:
    cdef double one = 1.0, minus = -1.0
    cdef int half = n // 2 // 16 * 16, rest = n - half, i
    # B = np.linalg.solve(L.T if transposed else L, B.T).T
    if nrhs < 4:
        for i in range(nrhs):
            trsv(n, L, ld, B + <Py_ssize_t>i * ldb, transposed)
    elif n > BASE and not transposed:
        trsm(half, nrhs, L, ld, B, ldb, False)
        # B2 -= B1 @ L21.T
        dgemm("T", "N", &rest, &nrhs, &half, &minus, <double*>L + <Py_ssize_t>half * ld, &ld, B, &ldb,
              &one, B + half, &ldb)
        trsm(rest, nrhs, L + <Py_ssize_t>half * (ld + 1), ld, B + half, ldb, False)
    else:
        dtrsm("L", "U", "N" if transposed else "T", "N", &n, &nrhs, &one, <double*>L, &ld, B, &ldb)


cdef void syrk(int n, int k, double sign, const double* A, int lda, double* C, int ldc) noexcept nogil:
    cdef double one = 1.0
    # C += sign * A @ A.T, lower triangle
    dsyrk("U", "T", &n, &k, &sign, <double*>A, &lda, &one, C, &ldc)


cdef void trsv(int n, const double* L, int ld, double* x, bint transposed) noexcept nogil:
    cdef int one = 1
    # x = np.linalg.solve(L.T if transposed else L, x)
    dtrsv("U", "N" if transposed else "T", "N", &n, <double*>L, &ld, x, &one)


def _gemv(double[:, ::1] A, double[::1] x, double[::1] y, bint transposed=False):
    """Test twin: y = A x or A' x."""
    cdef int m = <int>A.shape[0], n = <int>A.shape[1]
    if x.shape[0] != (m if transposed else n) or y.shape[0] != (n if transposed else m):
        raise ValueError("shapes do not fit")
    if transposed:
        gemv_t(m, n, 1.0, &A[0, 0], n, &x[0], 0.0, &y[0])
    else:
        gemv(m, n, 1.0, &A[0, 0], n, &x[0], 0.0, &y[0])


def _gemm_nt(double[:, ::1] A, double[:, ::1] B, double[:, ::1] C):
    """Test twin: C = A B'."""
    if A.shape[1] != B.shape[1] or C.shape[0] != A.shape[0] or C.shape[1] != B.shape[0]:
        raise ValueError("shapes do not fit")
    gemm_nt(<int>A.shape[0], <int>B.shape[0], <int>A.shape[1], &A[0, 0], <int>A.shape[1],
            &B[0, 0], <int>B.shape[1], &C[0, 0], <int>C.shape[1])


def _cholesky_solve(double[:, ::1] A, double[:, ::1] B):
    """Test twin: A becomes its factor, every row of B the solution; returns LAPACK's info."""
    cdef int n = <int>A.shape[0]
    cdef int info = potrf(n, &A[0, 0], n)
    if info == 0:
        potrs(n, <int>B.shape[0], &A[0, 0], n, &B[0, 0], n)
    return info


def _triangular_solve(double[:, ::1] L, double[:, ::1] B, bint transposed=False):
    """Test twin: every row of B becomes the solution of L x = b (or L' x = b)."""
    trsm(<int>L.shape[0], <int>B.shape[0], &L[0, 0], <int>L.shape[1], &B[0, 0], <int>B.shape[1], transposed)
