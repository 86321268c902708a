# Multipliers of all examples of a hinge risk, and the working sets of labels of those with many.

from libc.stdint cimport int32_t

from pybundle.features._rows cimport real
from pybundle.risks._engine cimport Engine
from pybundle.solvers.block._packed_point cimport PackedPoint


cdef struct Example:         # what a step needs of an example beside x_i and alpha_i: half a cache line
    double c
    double square            # |x_i|^2, scale and bias included
    int32_t y
    int32_t vertex           # label if alpha_i is a vertex, else -1; binary: 0, 1, -1
    int32_t active
    int32_t n_near           # labels of the working set; 0: none, the next step looks at all labels


cdef extern from *:
    """
    #if defined(__GNUC__)
    #define PB_FETCH(p) __builtin_prefetch((p), 0, 2)
    #else
    #define PB_FETCH(p) ((void)0)
    #endif
    """
    void prefetch "PB_FETCH"(const void*) noexcept nogil


cdef class LabelBlocks(PackedPoint):
    cdef Engine e
    cdef readonly object alpha, examples
    cdef readonly object near    # (n, most_near) labels of the working sets
    cdef readonly double margin  # a label is near if its score is within this of the best
    cdef Example* rows
    cdef int32_t* near_of
    cdef Py_ssize_t most_near    # most labels of a working set; 0 if all steps look at all labels
    cdef float[:, ::1] alpha32
    cdef double[:, ::1] alpha64


# The working set of a row becomes the labels near the best score `top` or with a multiplier, if these are not too many;
# u[k * stride] are the scores, losses included.
cdef void keep_near(LabelBlocks blocks, Py_ssize_t row, const real* u, int stride, double top) noexcept nogil
