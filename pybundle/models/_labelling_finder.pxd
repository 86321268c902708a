# What finders of structured models share: labels of a batch, one example after another, from which planes are written.

from libc.stdint cimport int32_t, int64_t

from ..features._plane_rows cimport PlaneRows
from ..features._rows_finder cimport RowsFinder


cdef class LabellingFinder(RowsFinder):

    cdef const int64_t[::1] starts          # labels of example i: starts[i + 1] - starts[i]
    cdef int64_t[::1] offsets
    cdef double[::1] values

    # The loss-augmented labellings of n examples, labels[offsets[j]:offsets[j + 1]], and values relative to the truth
    cdef int decode(self, Py_ssize_t n, const Py_ssize_t* rows, const int64_t* offsets, int32_t* labels,
                    double* values) except -1 nogil
    # Their losses, and their slopes as further rows of `out`
    cdef int write(self, Py_ssize_t n, const Py_ssize_t* rows, const int64_t* offsets, const int32_t* labels,
                   PlaneRows out, double* losses) except -1 nogil
