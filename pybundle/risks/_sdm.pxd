# Exact block steps of the dual of a hinge risk: multipliers and the point that belongs to them.

from ..features._rows cimport PB_FLOAT32, PB_UINT8
from ._block_step cimport Example
from ._engine cimport Engine


cdef class Blocks:
    cdef Engine e
    cdef readonly bint is_single
    cdef readonly object beta, packed, examples
    cdef readonly double s
    cdef public double visits
    cdef Example* rows
    cdef double constant         # of <x_i, x_j>, in units of scale^2: the bias
    cdef float[:, ::1] beta32
    cdef double[:, ::1] beta64
    cdef void* W
    cdef Py_ssize_t ldw
    cdef double[::1] base
    cdef int dense, ldc
    cdef Py_ssize_t patience     # rows between two looks for signals


cdef extern from *:
    """
    #if defined(__GNUC__)
    #define PB_FETCH(p) __builtin_prefetch((p), 0, 2)
    #else
    #define PB_FETCH(p) ((void)0)
    #endif
    """
    void prefetch "PB_FETCH"(const void*) noexcept nogil


cdef inline void fetch_row(Engine e, Py_ssize_t i) noexcept nogil:
    # a dense row on its way into the cache: rows that are far apart come slowly one by one
    cdef Py_ssize_t size = e.n_features * (1 if e.kind == PB_UINT8 else 4 if e.kind == PB_FLOAT32 else 8), at = 0
    cdef const char* row = <const char*>e.X.data + i * size
    while at < size:
        prefetch(row + at)
        at += 64
