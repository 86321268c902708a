"""Most violated planes by way of labellings, for passes in compiled code."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

import numpy as np

from ..features._plane_rows cimport PlaneRows
from ..features._rows_finder cimport RowsFinder


cdef class LabellingFinder(RowsFinder):
    """The base of what decodes examples and writes the planes of what it found.

    Parameters
    ----------
    starts : int64 array, shape (n_examples + 1,)
        Where the labels of the examples begin.
    dim : int
    batch : int
        Most examples asked for at once.
    width : int
        Of `PlaneRows`.
    """

    def __init__(self, starts, Py_ssize_t dim, Py_ssize_t batch, Py_ssize_t width=0):
        RowsFinder.__init__(self, dim, batch, width)
        self.starts = starts
        self.offsets, self.values = np.zeros(batch + 1, dtype=np.int64), np.empty(batch)

    cdef int fill(self, const Py_ssize_t* rows, Py_ssize_t n, PlaneRows out, double* losses) except -1 nogil:
        cdef int64_t* offsets = &self.offsets[0]
        cdef Py_ssize_t j
        for j in range(n):
            offsets[j + 1] = offsets[j] + self.starts[rows[j] + 1] - self.starts[rows[j]]
        # no bound but this: a long example may be asked for many times
        cdef int32_t* labels = <int32_t*>malloc(sizeof(int32_t) * (offsets[n] + 1))
        if labels == NULL:
            with gil:
                raise MemoryError(f"no room for {offsets[n]} labels")
        try:
            self.decode(n, rows, offsets, labels, &self.values[0])
            self.write(n, rows, offsets, labels, out, losses)
        finally:
            free(labels)
        return 0

    cdef int decode(self, Py_ssize_t n, const Py_ssize_t* rows, const int64_t* offsets, int32_t* labels,
                    double* values) except -1 nogil:
        with gil:
            raise NotImplementedError

    cdef int write(self, Py_ssize_t n, const Py_ssize_t* rows, const int64_t* offsets, const int32_t* labels,
                   PlaneRows out, double* losses) except -1 nogil:
        with gil:
            raise NotImplementedError
