# A point W in the layout of the score kernels, with the point V from which it follows, for compiled block steps.

from pybundle.features._rows cimport Rows
from pybundle.solvers.block._shrinkage cimport Shrinkage


cdef class PackedPoint:
    cdef Rows features
    cdef readonly bint is_single
    # W in units of scores: (K, padded d) for dense rows, (d, padded K) for CSR, (m, 1) if W is sparse
    cdef readonly object packed
    cdef object unshrunk            # V; W itself without a penalty
    cdef void* W                    # where they lie
    cdef void* V
    cdef Shrinkage shrinkage        # or None
    cdef Shrinkage base_shrinkage
    cdef readonly double s          # the curvature lam + kappa
    cdef Py_ssize_t ldw
    cdef double[::1] base           # (K,) what the bias adds to scores, then the weights that belong to no feature
    cdef double[::1] base_unshrunk
    cdef int dense
    cdef int ldc                    # row length of coefficients
