# A point W in the layout of the score kernels, with the point V from which it follows, for compiled block steps.

from pybundle.features._rows cimport Rows
from pybundle.solvers.block._shrinkage cimport Shrinkage


cdef class PackedPoint:
    cdef Rows features
    cdef readonly bint is_single
    # W in units of scores: (K, padded d) for dense rows, (d, padded K) for CSR, (m, 1) if W is sparse
    cdef readonly object packed
    cdef object unshrunk            # V; W itself without a penalty
    cdef void* W                    # addresses of the entries of `packed` and `unshrunk`
    cdef void* V
    cdef Shrinkage shrinkage        # None without a penalty
    cdef Shrinkage base_shrinkage
    cdef readonly double s          # the curvature lam + kappa
    cdef Py_ssize_t ldw
    cdef double[::1] base           # (K,) terms of the bias in scores, then the weights that belong to no feature
    cdef double[::1] base_unshrunk
    cdef int dense
    cdef int ldc                    # distance of two rows of coefficients
    cdef bint is_centred            # whether intercepts have no penalty; `set_intercepts` sets the numbers below
    cdef double excess, unit
    cdef const double[::1] products, origin
    cdef double[::1] sums, pull

    # returns the term of score k of a row that comes from intercepts without penalty
    cdef inline double intercept(self, Py_ssize_t k, Py_ssize_t row) noexcept nogil:
        return self.origin[k] + (self.excess - self.products[row]) * self.sums[k] - self.pull[k]

    # updates `sums` and `pull`, which `intercept` reads, after `W_k += coef X_i`
    cdef inline void move_intercept(self, Py_ssize_t k, Py_ssize_t row, double coef) noexcept nogil:
        self.sums[k] += self.unit * coef
        self.pull[k] += self.unit * coef * self.products[row]
