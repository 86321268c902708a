# The pass engine: blocks of rows -> scores -> loss (value, offset, coefficients) -> slopes.

from libc.stdint cimport int32_t, int64_t

cdef extern from "_kernels.h" nogil:
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
    ctypedef struct pb_kernels:
        const char* name
        int lanes32
        pb_score_fn* score32
        pb_score_fn* score64
        pb_accumulate_fn* accumulate
        pb_top2_fn top2_32
        pb_top2_fn top2_64
    const pb_kernels* pb_kernels_at(int level)
    int PB_FLOAT32, PB_FLOAT64, PB_UINT8, PB_CSR32, PB_CSR64

cdef enum:
    BLOCK = 64    # rows of a block: PB_BLOCK of the kernels, as a constant that Cython knows

ctypedef fused real:
    float
    double

cdef enum Loss:
    MULTICLASS = 0    # c max_k [L(y, k) + s_k - s_y],  K >= 2 scores
    HINGE = 1         # c max(0, 1 - y s),              one score, y = -1 or +1
    LOGISTIC = 2      # c log(1 + exp(-y s)),           one score, y = -1 or +1


cdef struct Block:    # scratch of one shard; arrays of BLOCK entries unless said
    void* scores           # K x BLOCK, class by class
    double* scores64       # K x BLOCK, for the rows whose float32 label is not certain
    int32_t* label
    double* coef           # derivative of r_i by its label's score (minus it: by the truth's)
    double* value          # r_i / c_i
    double* offset         # offset of the plane of example i, c_i included
    double* margin         # distance to the nearest change of label
    void* best
    void* second
    double* truth
    Py_ssize_t* unsure     # rows to be scored again, and where they stand in the block
    int* place
    int* start             # K + 1: entries by class
    Py_ssize_t* entry_row  # 2 BLOCK
    double* entry_coef     # 2 BLOCK


cdef Block* new_block(int K) except NULL
cdef void free_block(Block* b) noexcept


cdef class Weights:
    # W packed for the kernels: rows padded with zeros (dense), or W' with padded classes (CSR)
    cdef readonly str precision
    cdef float[:, ::1] W32
    cdef double[:, ::1] W64
    cdef double[::1] base       # bias * W[:, d]
    cdef double tau_row         # a float32 label is certain where its margin exceeds tau_row |x_i| + tau
    cdef double tau


cdef class Engine:
    cdef readonly object storage             # (X,) or (data, indices, indptr): keeps the memory alive
    cdef readonly int kind
    cdef readonly Py_ssize_t n_examples, n_features, width
    cdef readonly int n_scores
    cdef readonly int loss
    cdef readonly double scale, bias
    cdef readonly bint has_bias, has_cost
    cdef const int32_t[::1] y
    cdef const double[::1] c
    cdef const double[:, ::1] cost
    cdef const double[::1] norms
    cdef double largest_loss, largest_norm
    cdef pb_matrix X
    cdef const pb_kernels* kernels
    cdef object _args

    cdef void _score(self, Weights w, const Py_ssize_t* rows, int n, int ahead, Block* b) noexcept nogil
    cdef void _label(self, real* S, const Py_ssize_t* rows, int n, Block* b) noexcept nogil
    cdef void _certain(self, Weights w, const Py_ssize_t* rows, int n, Block* b) noexcept nogil
    cdef double _loss_of(self, const double* S, Py_ssize_t i, double reach, double* error) noexcept nogil
    cdef double _decide(self, const Py_ssize_t* rows, int n, Block* b, double* offset) noexcept nogil
    cdef void _accumulate(self, const Py_ssize_t* rows, int n, Block* b, double* slope) noexcept nogil
