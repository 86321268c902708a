# Most violated planes of examples from compiled code, for passes that never come back to Python in between.

from libc.stdint cimport int32_t, int64_t

from ._plane_rows cimport PlaneRows


cdef class CompiledOracle:

    cdef const double* w
    cdef PlaneRows planes           # slopes psi_j of the examples last asked for, a row each
    cdef double[::1] losses         # and their losses: planes `losses[j] + <psi_j, w>`
    cdef const double[::1] weights  # weights of all examples; None if all are 1
    cdef int64_t[::1] offsets       # labels of the j-th example: offsets[j]..offsets[j + 1], of `room_for_labels`
    cdef int32_t* labels
    cdef int64_t room

    # w of what is asked next, which stays as it is meanwhile; to be extended where more is made of it
    cdef int place(self, const double* w) except -1 nogil
    # To be written: most violated planes of n examples as rows of `planes`, which is empty, and their `losses`
    cdef int fill(self, const Py_ssize_t* rows, Py_ssize_t n) except -1 nogil
    # What `fill` does, weights of the examples included; n is at most what it was made for
    cdef int find(self, const Py_ssize_t* rows, Py_ssize_t n) except -1 nogil
    # Room for the labels of n examples, of which example i has starts[i + 1] - starts[i]; sets `offsets`
    cdef int32_t* room_for_labels(self, const int64_t* starts, const Py_ssize_t* rows, Py_ssize_t n) except NULL nogil
    cdef void _weigh(self, const Py_ssize_t* rows, Py_ssize_t n) noexcept nogil
