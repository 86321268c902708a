# Compiled code that finds the most violated planes of examples, without a return to Python for each of them.

from libc.stdint cimport int32_t, int64_t

from ._plane_rows cimport PlaneRows


cdef class CompiledOracle:

    cdef const double* w
    cdef PlaneRows planes           # slopes psi_j of the examples of the last call, one row each
    cdef double[::1] losses         # losses of the same examples; plane j is losses[j] + <psi_j, w>
    cdef const double[::1] weights  # weights of all examples; None if all weights are 1
    # set by `room_for_labels`: the labels of the j-th example are offsets[j]..offsets[j + 1] - 1
    cdef int64_t[::1] offsets
    cdef int32_t* labels
    cdef int64_t room

    # Sets w for the next calls; w must not change meanwhile. A subclass may extend this method to prepare w
    cdef int place(self, const double* w) except -1 nogil
    # Subclasses write the most violated planes of n examples: slopes to the empty `planes`, losses to `losses`
    cdef int fill(self, const Py_ssize_t* rows, Py_ssize_t n) except -1 nogil
    # Calls `fill` and multiplies the planes by the weights of the examples; n is at most `batch`
    cdef int find(self, const Py_ssize_t* rows, Py_ssize_t n) except -1 nogil
    # Returns memory for the labels of n examples and sets `offsets`; example i has starts[i + 1] - starts[i] labels
    cdef int32_t* room_for_labels(self, const int64_t* starts, const Py_ssize_t* rows, Py_ssize_t n) except NULL nogil
    cdef void _weigh(self, const Py_ssize_t* rows, Py_ssize_t n) noexcept nogil
