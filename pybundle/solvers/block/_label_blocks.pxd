# Multipliers of all examples, and working sets of their labels if these are many: see `_label_blocks.pyx`.

from libc.stdint cimport int32_t

from pybundle.features._rows cimport real
from pybundle.risks._engine cimport Engine
from pybundle.solvers.block._packed_point cimport PackedPoint


cdef struct Example:         # data of a step besides x_i and alpha_i; 32 bytes are half a cache line
    double c                 # weight of the example
    double square            # |x_i|^2, scale and bias included; with a penalty s sum_j x_ij^2 / s_j
    int32_t y                # the truth; -1 or 1 if binary, the sign of the score if the loss is a curve
    int32_t vertex           # label of a vertex alpha_i, else -1; with one score see `step_at_binary`, `curve_vertex`
    int32_t active           # whether the next passes should visit the example
    int32_t n_near           # size of the working set; 0 if there is none, so that the next step looks at all labels


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
    cdef readonly object near    # (n, set_capacity) labels of the working sets
    cdef readonly double margin  # labels are near if their score exceeds the best score minus `margin`
    cdef Example* rows
    cdef int32_t* near_of
    cdef Py_ssize_t set_capacity    # maximum size of a working set; 0 if all steps look at all labels
    cdef float[:, ::1] alpha32
    cdef double[:, ::1] alpha64

    cdef Py_ssize_t find_active(self, Py_ssize_t* found) noexcept nogil


# Sets the working set of a row to the labels near the best score `top` or with a multiplier > 0, or empties it if these
# are too many. u[k * stride] are scores plus losses. After a step u may be from before the step, but `top` must be new.
cdef void keep_near(LabelBlocks blocks, Py_ssize_t row, const real* u, int stride, double top) noexcept nogil
