# Finders whose planes are rows of a growing CSR matrix, one for each half.

from ..core._plane_finder cimport FoundPlanes, PlaneFinder
from ._plane_rows cimport PlaneRows


cdef class RowsFinder(PlaneFinder):

    cdef PlaneRows first, second
    cdef double[:, ::1] losses      # of each half

    # To be written: the planes of n examples as rows of `out`, which is empty, and their losses; for half k
    cdef int fill(self, int k, const Py_ssize_t* rows, Py_ssize_t n, PlaneRows out, double* losses) except -1 nogil
    cdef int _find(self, int k, const Py_ssize_t* rows, Py_ssize_t n, PlaneRows out, FoundPlanes* found) except -1 nogil
