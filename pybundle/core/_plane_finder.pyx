"""Planes of single examples from compiled code, for passes that never come back to Python in between."""


cdef class PlaneFinder:
    """The base of what finds planes without the GIL, see `_plane_finder.pxd`."""

    def working_bytes(self):
        """What it holds from pass to pass, about."""
        return 0

    cdef int place(self, const double* w) except -1 nogil:
        with gil:
            raise NotImplementedError

    cdef int find(self, const Py_ssize_t* rows, Py_ssize_t n, FoundPlanes* found) except -1 nogil:
        with gil:
            raise NotImplementedError


cdef class WeightedFinder(PlaneFinder):
    """The planes of another finder times the weights of their examples."""

    def __init__(self, PlaneFinder finder, weights):
        self.finder, self.weights = finder, weights

    def working_bytes(self):
        return self.finder.working_bytes()

    cdef int place(self, const double* w) except -1 nogil:
        return self.finder.place(w)

    cdef int find(self, const Py_ssize_t* rows, Py_ssize_t n, FoundPlanes* found) except -1 nogil:
        cdef Py_ssize_t j
        cdef int64_t e, first, size = 0
        cdef double c
        self.finder.find(rows, n, found)
        first = found.starts[0]
        for j in range(n):
            c = self.weights[rows[j]]
            found.losses[j] *= c
            for e in range(first, found.starts[j + 1]):
                found.indices[size], found.values[size] = found.indices[e], c * found.values[e]
                size += found.values[size] != 0.0       # of a small weight nothing may be left
            first, found.starts[j + 1] = found.starts[j + 1], size
        return 0
