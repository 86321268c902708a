# Most violated planes of examples from compiled code, for passes that do not return to Python in between.

from libc.stdint cimport int32_t, int64_t

from ._plane_rows cimport PlaneRows


cdef class CompiledOracle:

    cdef const double* w
    cdef PlaneRows planes           # slopes psi_j of the last examples, a row each
    cdef double[::1] losses         # their losses: the planes are `losses[j] + <psi_j, w>`
    cdef const double[::1] weights  # weights of all examples; None if all are 1
    cdef int64_t[::1] offsets       # labels of the j-th example: offsets[j]..offsets[j + 1], of `room_for_labels`
    cdef int32_t* labels
    cdef int64_t room

    # Set w for the next calls; it must not change meanwhile. Subclasses may extend this, to prepare w
    cdef int place(self, const double* w) except -1 nogil
    # Subclasses write the most violated planes of n examples to `planes`, which is empty, and `losses`
    cdef int fill(self, const Py_ssize_t* rows, Py_ssize_t n) except -1 nogil
    # Call `fill`, and multiply by the weights of the examples; n is at most `batch`
    cdef int find(self, const Py_ssize_t* rows, Py_ssize_t n) except -1 nogil
    # Return room for the labels of n examples, of which example i has starts[i + 1] - starts[i]; set `offsets`
    cdef int32_t* room_for_labels(self, const int64_t* starts, const Py_ssize_t* rows, Py_ssize_t n) except NULL nogil
    cdef void _weigh(self, const Py_ssize_t* rows, Py_ssize_t n) noexcept nogil
