"""Most violated planes by way of labellings, for passes in compiled code."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

import numpy as np

from ..core._plane_finder cimport FoundPlanes, PlaneFinder
from ..features._plane_rows cimport PlaneRows


cdef class LabellingFinder(PlaneFinder):
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
        self.starts = starts
        self.first, self.second = PlaneRows(dim, batch, width), PlaneRows(dim, batch, width)
        self.offsets = np.zeros((2, batch + 1), dtype=np.int64)
        self.values, self.losses = np.empty((2, batch)), np.empty((2, batch))

    def working_bytes(self):
        return 2 * self.first.working_bytes()

    cdef int find(self, int k, const Py_ssize_t* rows, Py_ssize_t n, FoundPlanes* found) except -1 nogil:
        if k == 0:
            return self._find(self.first, k, rows, n, found)
        return self._find(self.second, k, rows, n, found)

    cdef int _find(self, PlaneRows out, int k, const Py_ssize_t* rows, Py_ssize_t n,
                   FoundPlanes* found) except -1 nogil:
        cdef int64_t* offsets = &self.offsets[k, 0]
        cdef Py_ssize_t j
        for j in range(n):
            offsets[j + 1] = offsets[j] + self.starts[rows[j] + 1] - self.starts[rows[j]]
        # no bound but this: a long example may be asked for many times
        cdef int32_t* labels = <int32_t*>malloc(sizeof(int32_t) * (offsets[n] + 1))
        if labels == NULL:
            with gil:
                raise MemoryError(f"no room for {offsets[n]} labels")
        found.losses = &self.losses[k, 0]
        out.clear()
        try:
            self.decode(n, rows, offsets, labels, &self.values[k, 0])
            self.write(n, rows, offsets, labels, out, found.losses)
        finally:
            free(labels)
        found.starts, found.indices, found.values = &out.indptr[0], out.indices, out.data
        return 0

    cdef int decode(self, Py_ssize_t n, const Py_ssize_t* rows, const int64_t* offsets, int32_t* labels,
                    double* values) except -1 nogil:
        with gil:
            raise NotImplementedError

    cdef int write(self, Py_ssize_t n, const Py_ssize_t* rows, const int64_t* offsets, const int32_t* labels,
                   PlaneRows out, double* losses) except -1 nogil:
        with gil:
            raise NotImplementedError
