# Rounds of pairwise steps on a working set.

from pybundle.qp._point cimport Point
from pybundle.qp._selection cimport Selection


cdef class WorkingSet:
    """The support and the worst violators, sorted by part, with a copy of their entries of H."""

    cdef Selection chosen
    cdef object _arrays                     # owner of `member` and `start`
    cdef Py_ssize_t room, compact_room      # memory is allocated for `room` variables and slacks; Q for compact_room
    cdef int* member                        # (n,) the variables, sorted by part
    cdef int* start                         # (n_parts + 2,) start of each part
    cdef double* Q                          # (n, n) entries of H of the variables; the same memory holds g and x
    cdef double* g                          # (n,)
    cdef double* x                          # (n,)
    cdef Py_ssize_t n_steps                 # number of steps since `begin`

    # Allocates memory for n variables and slacks; needs the GIL
    cdef int reserve(self, Py_ssize_t n) except -1
    # Starts a solve
    cdef void begin(self) noexcept nogil
    # Makes at most max_steps steps, until the gap on the working set is at most tol
    cdef int improve(self, Point point, Py_ssize_t max_steps, double tol, double floor) except -1 nogil
    cdef int _reserve_compact(self, Py_ssize_t n) except -1
    cdef void _sort_by_part(self, Point point) noexcept nogil
