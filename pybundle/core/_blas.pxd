# Wrappers of BLAS and LAPACK. All matrices are row-major; `ld` is the distance between rows.
# In _blas.pyx the comment above each call is the NumPy expression that it computes.

ctypedef fused real:
    float
    double

cdef double dot(int n, const double* x, const double* y) noexcept nogil
cdef void axpy(int n, double a, const real* x, real* y) noexcept nogil
# y = alpha A x + beta y,  A (m, n)
cdef void gemv(int m, int n, double alpha, const real* A, int ld, const real* x,
               double beta, real* y) noexcept nogil
# y = alpha A' x + beta y,  A (m, n), x (m,), y (n,)
cdef void gemv_t(int m, int n, double alpha, const real* A, int ld, const real* x,
                 double beta, real* y) noexcept nogil
# y = A x,  A (n, n) symmetric; only the lower triangle is read, half of what gemv reads
cdef void symv(int n, const double* A, int ld, const double* x, double* y) noexcept nogil
# C = A B',  A (m, k), B (n, k), C (m, n)
cdef void gemm_nt(int m, int n, int k, const real* A, int lda, const real* B, int ldb,
                  real* C, int ldc) noexcept nogil
# Replaces the lower triangle of A by L, A = L L'; returns 0, or the order of the first leading minor that is <= 0
cdef int potrf(int n, real* A, int ld) noexcept nogil
# Solves L x = b (or L' x = b if transposed) in place for every row b of B (nrhs, n)
cdef void trsm(int n, int nrhs, const real* L, int ld, real* B, int ldb, bint transposed) noexcept nogil
# C += sign A A' in the lower triangle of C,  A (n, k)
cdef void syrk(int n, int k, double sign, const real* A, int lda, real* C, int ldc) noexcept nogil
# x = L^-1 x (or L'^-1 x if transposed) for one vector, in a third of the time of trsm
cdef void trsv(int n, const real* L, int ld, real* x, bint transposed) noexcept nogil
