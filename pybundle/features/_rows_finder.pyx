"""What finders share: for each half of a batch rows of its own, that are filled again and again."""

import numpy as np


cdef class RowsFinder(PlaneFinder):
    """The base of finders whose planes are `PlaneRows`.

    Parameters
    ----------
    dim : int
    batch : int
        Most examples asked for at once.
    width : int
        Of `PlaneRows`.
    """

    def __init__(self, Py_ssize_t dim, Py_ssize_t batch, Py_ssize_t width=0):
        self.first, self.second = PlaneRows(dim, batch, width), PlaneRows(dim, batch, width)
        self.losses = np.empty((2, batch))

    def working_bytes(self):
        return 2 * self.first.working_bytes()

    cdef int find(self, int k, const Py_ssize_t* rows, Py_ssize_t n, FoundPlanes* found) except -1 nogil:
        if k == 0:
            return self._find(k, rows, n, self.first, found)
        return self._find(k, rows, n, self.second, found)

    cdef int _find(self, int k, const Py_ssize_t* rows, Py_ssize_t n, PlaneRows out,
                   FoundPlanes* found) except -1 nogil:
        out.clear()
        self.fill(k, rows, n, out, &self.losses[k, 0])
        found.losses, found.starts = &self.losses[k, 0], &out.indptr[0]
        found.indices, found.values = out.indices, out.data
        return 0

    cdef int fill(self, int k, const Py_ssize_t* rows, Py_ssize_t n, PlaneRows out, double* losses) except -1 nogil:
        with gil:
            raise NotImplementedError
