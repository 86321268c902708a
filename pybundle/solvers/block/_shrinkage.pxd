# Threshold and bounds of a penalty that is a sum over entries, for compiled steps.

from libc.stdint cimport int32_t

from pybundle.features._rows cimport real


cdef class Shrinkage:
    cdef readonly object limits         # (4, ...): thresholds, factors, lower and upper bounds
    cdef const void* first
    cdef Py_ssize_t plane               # number of entries of one of the four arrays
    cdef bint is_uniform                # whether all entries have the same limits

    # computes W[at] from V[at] for start <= at < stop
    cdef void apply(self, const real* V, real* W, Py_ssize_t start, Py_ssize_t stop) noexcept nogil

    # computes W from V at the first `size` entries of the n rows `rows`, where all rows have length ld
    cdef void apply_at(self, const real* V, real* W, const int32_t* rows, Py_ssize_t n, Py_ssize_t ld,
                       Py_ssize_t size) noexcept nogil
