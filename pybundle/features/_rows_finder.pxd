# Finders whose planes are rows of a growing CSR matrix.

from ..core._plane_finder cimport FoundPlanes, PlaneFinder
from ._plane_rows cimport PlaneRows


cdef class RowsFinder(PlaneFinder):

    cdef PlaneRows planes
    cdef double[::1] losses

    # To be written: the planes of n examples as rows of `out`, which is empty, and their losses
    cdef int fill(self, const Py_ssize_t* rows, Py_ssize_t n, PlaneRows out, double* losses) except -1 nogil
