"""What finders share: rows of planes that are filled again and again."""

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
        self.planes, self.losses = PlaneRows(dim, batch, width), np.empty(batch)

    def working_bytes(self):
        return self.planes.working_bytes()

    cdef int find(self, const Py_ssize_t* rows, Py_ssize_t n, FoundPlanes* found) except -1 nogil:
        self.planes.clear()
        self.fill(rows, n, self.planes, &self.losses[0])
        found.losses, found.starts = &self.losses[0], &self.planes.indptr[0]
        found.indices, found.values = self.planes.indices, self.planes.data
        return 0

    cdef int fill(self, const Py_ssize_t* rows, Py_ssize_t n, PlaneRows out, double* losses) except -1 nogil:
        with gil:
            raise NotImplementedError
