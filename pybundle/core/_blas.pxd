# The only door to BLAS and LAPACK. All matrices are row-major; `ld` is the distance between rows.
# Above each call in _blas.pyx stands the NumPy expression that it computes.

cdef double dot(int n, const double* x, const double* y) noexcept nogil
cdef void axpy(int n, double a, const double* x, double* y) noexcept nogil
# y = alpha A x + beta y,  A (m, n)
cdef void gemv(int m, int n, double alpha, const double* A, int ld, const double* x,
               double beta, double* y) noexcept nogil
# y = alpha A' x + beta y,  A (m, n), x (m,), y (n,)
cdef void gemv_t(int m, int n, double alpha, const double* A, int ld, const double* x,
                 double beta, double* y) noexcept nogil
# y = A x,  A (n, n) symmetric, of which only the lower triangle is read: half the memory of gemv
cdef void symv(int n, const double* A, int ld, const double* x, double* y) noexcept nogil
# C = A B',  A (m, k), B (n, k), C (m, n)
cdef void gemm_nt(int m, int n, int k, const double* A, int lda, const double* B, int ldb,
                  double* C, int ldc) noexcept nogil
# Cholesky of the lower triangle in place, A = L L'; 0, or the order of the first bad minor
cdef int potrf(int n, double* A, int ld) noexcept nogil
# B (nrhs, n) row-major: solves A x = b for every row of B, A = L L' from potrf
cdef void potrs(int n, int nrhs, const double* L, int ld, double* B, int ldb) noexcept nogil
# B (nrhs, n) row-major: solves L x = b (or L' x = b where transposed) for every row of B
cdef void trsm(int n, int nrhs, const double* L, int ld, double* B, int ldb, bint transposed) noexcept nogil
# C += sign A A' in the lower triangle of C,  A (n, k)
cdef void syrk(int n, int k, double sign, const double* A, int lda, double* C, int ldc) noexcept nogil
# x = L^-1 x (or L'^-1 x where transposed), one vector; a third of the time of trsm
cdef void trsv(int n, const double* L, int ld, double* x, bint transposed) noexcept nogil
