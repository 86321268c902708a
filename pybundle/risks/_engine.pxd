# The engine that computes a pass of a linear risk. It turns blocks of rows into scores, scores into the value, the
# offset and the coefficients of each loss, and coefficients into slopes.

from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t

from ..features._rows cimport BLOCK, Rows, PackedWeights, real


cdef enum Loss:
    MULTICLASS = 0    # c max_k [L(y, k) + s_k - s_y],  K >= 2 scores
    HINGE = 1         # c max(0, 1 - y s),              one score, y = -1 or +1
    LOGISTIC = 2      # c log(1 + exp(-y s)),           one score, y = -1 or +1
    CURVE = 3         # c l(y s - t),                   one score, y = -1 or +1, target t


cdef struct Curve:    # l(u) = max over low <= beta <= high of beta u - linear beta - square/2 beta^2 - flat |beta|
    double low
    double high
    double linear
    double square
    double flat


cdef inline double curve_slope(const Curve* h, double u) noexcept nogil:
    """Return the beta that maximises `beta u - h(beta)`; it is the slope of the loss at u."""
    cdef double v = u - h.linear, beta
    beta = v - h.flat if v > h.flat else v + h.flat if v < -h.flat else 0.0
    if h.square > 0.0:
        beta /= h.square
    elif beta != 0.0:
        beta = INFINITY if beta > 0.0 else -INFINITY
    return min(max(beta, h.low), h.high)


cdef inline double curve_term(const Curve* h, double beta, double u) noexcept nogil:
    """Return `beta u - h(beta)`."""
    return beta * u - (h.linear * beta + 0.5 * h.square * beta * beta + h.flat * fabs(beta))


cdef inline double curve_loss(const Curve* h, double u) noexcept nogil:
    """Return the loss at u; the maximum with 0 removes negative results of rounding."""
    return max(curve_term(h, curve_slope(h, u), u), 0.0)


cdef struct Block:    # scratch of one call; arrays have BLOCK entries unless another size is given
    void* scores           # K x BLOCK, class by class
    double* scores64       # K x BLOCK, for the rows whose float32 label is not certain
    int32_t* label
    double* coef           # derivative of the loss r_i by the score of `label`; by the score of the truth it is -coef
    double* value          # loss r_i without its weight c_i
    double* offset         # offset of the plane of example i with its weight c_i
    double* margin         # difference of the two best scores, or |1 - y s| for one score
    void* best
    void* second
    double* truth
    Py_ssize_t* unsure     # rows to be scored again
    int* place             # positions of the unsure rows in the block
    int* start             # K + 1: first entry of each class
    Py_ssize_t* entry_row  # 2 BLOCK
    double* entry_coef     # 2 BLOCK


cdef place_block(Block* b, int K)


cdef class Engine(Rows):
    cdef readonly Py_ssize_t n_examples
    cdef readonly int loss
    cdef readonly bint has_cost
    cdef const int32_t[::1] y
    cdef const double[::1] c
    cdef const double[:, ::1] cost
    cdef double largest_loss
    cdef Curve curve
    cdef const double[::1] target
    cdef public double offset_unit       # relative rounding error of a sum of offsets

    cdef void _label(self, real* S, const Py_ssize_t* rows, int n, Block* b) noexcept nogil
    cdef void _rescore_unsure(self, PackedWeights w, const Py_ssize_t* rows, int n, Block* b) noexcept nogil
    cdef double _loss_of(self, const double* S, Py_ssize_t i, double reach, double shift,
                         double* error) noexcept nogil
    cdef double _decide(self, const Py_ssize_t* rows, int n, Block* b, double* offset) noexcept nogil
    cdef void _accumulate(self, const Py_ssize_t* rows, int n, Block* b, double* slope) noexcept nogil
