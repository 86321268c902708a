"""`CompiledOracle` finds the most violated planes of examples in compiled code, without the GIL."""

import numpy as np

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc


cdef class CompiledOracle:
    """Base class of oracles without the GIL: the oracle of a structure implements `fill`, see `_compiled_oracle.pxd`.

    Parameters
    ----------
    dim : int
    batch : int
        Largest number of examples in one call.
    width : int
        Width of the scratch block of `PlaneRows`.
    """

    def __init__(self, Py_ssize_t dim, Py_ssize_t batch, Py_ssize_t width=0):
        self.planes, self.losses = PlaneRows(dim, batch, width), np.empty(batch)
        self.offsets, self.weights = np.zeros(batch + 1, dtype=np.int64), None

    def __dealloc__(self):
        free(self.labels)

    def working_bytes(self):
        """Return about how many bytes the oracle holds between passes."""
        return self.planes.working_bytes()

    def weigh(self, weights):
        """Multiply planes by the weights (n_examples,) of their examples in all later calls."""
        self.weights = weights

    cdef int place(self, const double* w) except -1 nogil:
        self.w = w
        return 0

    cdef int fill(self, const Py_ssize_t* rows, Py_ssize_t n) except -1 nogil:
        with gil:
            raise NotImplementedError

    cdef int find(self, const Py_ssize_t* rows, Py_ssize_t n) except -1 nogil:
        self.planes.clear()
        self.fill(rows, n)
        if self.weights is not None:
            self._weigh(rows, n)
        return 0

    cdef void _weigh(self, const Py_ssize_t* rows, Py_ssize_t n) noexcept nogil:
        cdef double* values = self.planes.data
        cdef int32_t* indices = self.planes.indices
        cdef int64_t* ends = &self.planes.indptr[0]
        cdef Py_ssize_t j
        cdef int64_t e, first = 0, size = 0
        cdef double c
        for j in range(n):
            c = self.weights[rows[j]]
            self.losses[j] *= c
            for e in range(first, ends[j + 1]):
                indices[size], values[size] = indices[e], c * values[e]
                size += values[size] != 0.0         # drops entries that became 0 by underflow
            first, ends[j + 1] = ends[j + 1], size

    cdef int32_t* room_for_labels(self, const int64_t* starts, const Py_ssize_t* rows, Py_ssize_t n) except NULL nogil:
        cdef Py_ssize_t j
        cdef void* found
        for j in range(n):
            self.offsets[j + 1] = self.offsets[j] + starts[rows[j] + 1] - starts[rows[j]]
        # `rows` may repeat examples, so their labels may outnumber those of `batch` examples
        if self.labels == NULL or self.offsets[n] > self.room:
            found = realloc(self.labels, sizeof(int32_t) * (self.offsets[n] + 1))
            if found == NULL:
                with gil:
                    raise MemoryError(f"no room for {self.offsets[n]} labels")
            self.labels, self.room = <int32_t*>found, self.offsets[n]
        return self.labels
