# Rows of features: scores of blocks of rows, and sums of rows that are added to slopes.

from libc.stdint cimport int32_t, int64_t

from ._plane_rows cimport PlaneRows

cdef extern from "_matrix.h" nogil:
    ctypedef struct pb_matrix:
        const void* data
        const int32_t* indices
        const int64_t* indptr
        Py_ssize_t d
    ctypedef void (*pb_score_fn)(const pb_matrix*, const Py_ssize_t*, int, int, const void*, Py_ssize_t, int,
                                 void*) noexcept nogil
    ctypedef void (*pb_accumulate_fn)(const pb_matrix*, const Py_ssize_t*, const double*, int,
                                      double*) noexcept nogil
    ctypedef void (*pb_top2_fn)(const void*, int, void*, void*, int32_t*) noexcept nogil
    ctypedef void (*pb_dots_fn)(const pb_matrix*, Py_ssize_t, const Py_ssize_t*, int, void*) noexcept nogil
    ctypedef void (*pb_update_fn)(const pb_matrix*, const Py_ssize_t*, int, const void*, int, int, void*,
                                  Py_ssize_t) noexcept nogil
    ctypedef struct pb_kernels:
        const char* name
        int lanes32
        pb_score_fn* score32
        pb_score_fn* score64
        pb_accumulate_fn* accumulate
        pb_top2_fn top2_32
        pb_top2_fn top2_64
        pb_dots_fn* dots32
        pb_dots_fn* dots64
        pb_score_fn* step32
        pb_score_fn* step64
        pb_update_fn* update32
        pb_update_fn* update64
    int PB_FLOAT32, PB_FLOAT64, PB_UINT8, PB_CSR32, PB_CSR64

cdef enum:
    BLOCK = 64    # number of rows of a block, equal to PB_BLOCK of the kernels
    STEP = 4      # number of rows that a sequential method scores together, equal to PB_STEP

ctypedef fused real:
    float
    double


cdef class PackedWeights:
    # W in the layout of the kernels: its rows padded with zeros (dense X), or its transpose with padded columns (CSR)
    cdef readonly str precision
    cdef float[:, ::1] W32      # empty unless the precision is float32
    cdef double[:, ::1] W64
    cdef double[::1] base       # bias * W[:, d]
    cdef double tau_row         # the label of a float32 score is certain if its margin exceeds tau_row |x_i| + tau
    cdef double tau
    cdef bint is_single


cdef class Rows:
    cdef readonly object storage             # (X,) or (data, indices, indptr): keeps the memory alive
    cdef readonly int kind
    cdef readonly Py_ssize_t n_rows, n_features
    cdef readonly int n_scores
    # n_weights = n_blocks * width. Each score has a block of `width` weights; a sparse W is a single block
    cdef readonly Py_ssize_t n_blocks, width, n_weights
    cdef readonly double scale, bias
    cdef readonly bint has_bias
    cdef const double[::1] norms
    cdef double largest_norm
    cdef pb_matrix X
    cdef const pb_kernels* kernels
    cdef object _args

    # Raises ValueError unless the weights were packed by `pack` of rows with the same shape of W
    cdef int check_weights(self, PackedWeights w) except -1
    # Pack w = W.ravel() again, in float64
    cdef void refresh(self, PackedWeights packed, const double* w) noexcept nogil
    # Sets S (n_scores, BLOCK) to the scores of n rows; the next `ahead` rows are prefetched
    cdef void score(self, PackedWeights w, const Py_ssize_t* rows, int n, int ahead, void* S) noexcept nogil
    # Sets out (n, n_scores) to the scores of n rows in float64; S (n_scores, BLOCK) is scratch. If `packed` is None,
    # the rows must be CSR, and `score_unpacked` does the work
    cdef void score_all(self, PackedWeights packed, const double* W, const Py_ssize_t* rows, Py_ssize_t n, double* S,
                        double* out) noexcept nogil
    # Sets out (n, n_scores) to the scores of n CSR rows, read from W (n_blocks, width) without packing
    cdef void score_unpacked(self, const double* W, const Py_ssize_t* rows, Py_ssize_t n, double* out) noexcept nogil
    # Sets out (n, n_scores) to the scores of n rows at W in the layout of `PackedPoint`; sums are taken in another
    # order than in `score_all`. S (n_scores, BLOCK) is scratch
    cdef void score_step(self, const Py_ssize_t* rows, Py_ssize_t n, const double* W, Py_ssize_t ldw, double* S,
                         double* out) noexcept nogil
    # Adds coef[e * ldc + k] X_rows[e] to the weights of score k, e < n <= STEP; W is in the layout of `PackedPoint`
    cdef void update_step(self, const Py_ssize_t* rows, Py_ssize_t n, const double* coef, int ldc, double* W,
                          Py_ssize_t ldw) noexcept nogil
    # Returns how many entries of the W of `update_step` belong to a column of CSR rows; sets `first` to the first index
    cdef Py_ssize_t entries_of(self, int32_t column, Py_ssize_t ldw, Py_ssize_t* first) noexcept nogil
    # Adds sum_e coef[e] x_rows[e] to slope (width,), without scale
    cdef void accumulate(self, const Py_ssize_t* rows, const double* coef, int n, double* slope) noexcept nogil
    # Adds coefs[e] x_rows[e] to the block of labels[e] in slope (n_weights,) for every e, without scale
    cdef int add_labelled(self, Py_ssize_t n, const Py_ssize_t* rows, const int32_t* labels, const double* coefs,
                          double* slope) except -1 nogil
    # Appends the sums of `add_labelled`, times the scale, to the open row of `out`; block 0 begins at entry `first`.
    # Entries must not be waiting
    cdef int put(self, PlaneRows out, Py_ssize_t first, Py_ssize_t n, const Py_ssize_t* rows, const int32_t* labels,
                 const double* coefs) except -1 nogil
    cdef int _put_sparse(self, PlaneRows out, Py_ssize_t start, const Py_ssize_t* rows, const double* coefs,
                         int n) except -1 nogil


cdef class RowSums:
    cdef readonly Rows features
    cdef readonly Py_ssize_t n_planes, end
    cdef Py_ssize_t first
    cdef const Py_ssize_t[::1] rows
    cdef const int32_t[::1] labels
    cdef const double[::1] coefs
    cdef const int64_t[::1] starts

    cdef int put(self, PlaneRows out, Py_ssize_t j) except -1 nogil
