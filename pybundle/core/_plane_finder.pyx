"""Planes of single examples from compiled code, for passes that never come back to Python in between."""


cdef class PlaneFinder:
    """The base of what finds planes without the GIL, see `_plane_finder.pxd`."""

    cdef int place(self, const double* w) except -1 nogil:
        with gil:
            raise NotImplementedError

    cdef int find(self, int k, const Py_ssize_t* rows, Py_ssize_t n, FoundPlanes* found) except -1 nogil:
        with gil:
            raise NotImplementedError
