# Planes of single examples from compiled code, as passes over blocks ask for them.

from libc.stdint cimport int32_t, int64_t

cdef struct FoundPlanes:
    # One plane `losses[j] + <psi_j, w>` for each example asked for, psi_j = values[starts[j]:starts[j + 1]] at indices
    # that ascend, no zeros
    double* losses
    int64_t* starts
    int32_t* indices
    double* values


cdef class PlaneFinder:

    # w of what is asked next, which stays as it is meanwhile
    cdef int place(self, const double* w) except -1 nogil
    # The most violated planes of n examples, at most as many as it was made for; they stay until it is asked again
    cdef int find(self, const Py_ssize_t* rows, Py_ssize_t n, FoundPlanes* found) except -1 nogil


cdef class WeightedFinder(PlaneFinder):

    cdef PlaneFinder finder
    cdef const double[::1] weights
