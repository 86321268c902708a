# Exact block steps of the dual of a hinge risk: multipliers and the point that belongs to them.

from ._block_step cimport Example
from ._engine cimport Engine

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define PB_FETCH(p) __builtin_prefetch((p), 0, 2)
    #else
    #define PB_FETCH(p) ((void)0)
    #endif
    """
    void prefetch "PB_FETCH"(const void*) noexcept nogil


cdef class Blocks:
    cdef Engine e
    cdef readonly bint is_single
    cdef readonly object beta, packed, examples
    cdef readonly double s
    cdef readonly double visits
    cdef Example* rows
    cdef double constant         # of <x_i, x_j>, in units of scale^2: the bias
    cdef float[:, ::1] beta32
    cdef double[:, ::1] beta64
    cdef Py_ssize_t ldw
    cdef double[::1] base
    cdef int dense, ldc
    cdef Py_ssize_t patience     # rows between two looks for signals
