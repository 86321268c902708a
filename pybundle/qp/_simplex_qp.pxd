# The solver of the master problem of a bundle method; an object keeps its workspace from call to call.

from pybundle.qp._active_set cimport ActiveSet
from pybundle.qp._point cimport Point
from pybundle.qp._working_set cimport WorkingSet


cdef struct Goal:
    double tol, rtol            # duality gap to reach: absolute, and relative to the size of q; the larger one counts
    Py_ssize_t max_steps        # maximum number of pairwise steps plus face solves
    int method                  # see METHODS


cdef class SimplexQP:
    """min 1/2 scale x'Hx - f'x over a product of simplices and a nonnegative block; see `_simplex_qp.pyx`."""

    cdef Point point
    cdef WorkingSet pairs
    cdef ActiveSet faces

    cdef int _run(self, const Goal* goal) except -1 nogil
    cdef Py_ssize_t _n_steps(self) noexcept nogil
