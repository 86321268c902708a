"""Rounds of pairwise steps, each on a working set that fits into the cache.

A round takes the support of x and the variables that violate optimality most, copies their entries of H, and runs
`_smo` on them.
"""
import numpy as np

from pybundle.qp._point cimport Point, Problem
from pybundle.qp._selection cimport Selection
from pybundle.qp._smo cimport smo

# Number of steps after which sums are restored, because each step may add a rounding error to them.
cdef Py_ssize_t DRIFT = 1000


cdef extern from "_memory.h" nogil:
    void* pb_allocate(size_t size)
    void pb_free(void* memory)


cdef class WorkingSet:

    def __cinit__(self):
        self.chosen = Selection()
        self.room = self.compact_room = 0
        self.Q = NULL

    def __dealloc__(self):
        pb_free(self.Q)

    cdef int reserve(self, Py_ssize_t n) except -1:
        cdef int[:, ::1] integers
        self.chosen.reserve(n)
        if n > self.room:
            n = max(n, 2 * self.room)
            integers = np.empty((2, n), dtype=np.intc)
            self._arrays = integers.base
            self.member, self.start = &integers[0, 0], &integers[1, 0]
            self.room = n
        return 0

    cdef int _reserve_compact(self, Py_ssize_t n) except -1:
        n = max(n, 5 * self.compact_room // 4)          # growth by a quarter, as Q has n^2 entries
        pb_free(self.Q)
        self.compact_room = 0
        self.Q = <double*>pb_allocate((n * n + 2 * n) * sizeof(double))
        if self.Q == NULL:
            raise MemoryError(f"no memory for the entries of H of {n} variables")
        self.g, self.x = self.Q + n * n, self.Q + n * n + n
        self.compact_room = n
        return 0

    cdef void begin(self) noexcept nogil:
        self.n_steps = 0

    cdef int improve(self, Point point, Py_ssize_t max_steps, double tol, double floor) except -1 nogil:
        cdef Problem* q = &point.problem
        cdef int j, k, n
        cdef Py_ssize_t n_steps
        cdef double gap
        cdef const double* row
        cdef double* out
        self.chosen.clear(point)
        self.chosen.add_support(point, False)
        for j in range(q.n_parts):
            self.chosen.position[q.m + j] = 0                # `smo` handles slacks itself
        self.chosen.add_violators(point, max(64, self.chosen.n), floor)
        self._sort_by_part(point)
        n = self.chosen.n
        if n > self.compact_room:
            with gil:
                self._reserve_compact(n)
        for j in range(n):
            row = q.H + self.member[j] * q.ldh
            out = self.Q + <Py_ssize_t>j * n
            for k in range(n):
                out[k] = row[self.member[k]]
            self.g[j] = point.g[self.member[j]]
            self.x[j] = point.x[self.member[j]]
        n_steps = smo(n, self.Q, n, q.scale, self.g, self.x, q.n_parts, self.start, point.rest, point.slack, tol,
                      max_steps, &gap)
        self.n_steps += n_steps
        for j in range(n):
            point.x[self.member[j]] = self.x[j]
        if self.n_steps // DRIFT != (self.n_steps - n_steps) // DRIFT:
            point.restore_sums(point.x, point.rest)
        point.refresh()
        return 0

    cdef void _sort_by_part(self, Point point) noexcept nogil:
        """Fill `member` and `start` by a stable counting sort of the chosen variables by parts."""
        cdef int j, p, n_parts = point.problem.n_parts
        for p in range(n_parts + 2):
            self.start[p] = 0
        for j in range(self.chosen.n):
            self.start[self.chosen.part[j] + 1] += 1
        for p in range(n_parts + 1):
            self.start[p + 1] += self.start[p]
        for j in range(self.chosen.n):
            p = self.chosen.part[j]
            self.member[self.start[p]] = self.chosen.variable[j]
            self.start[p] += 1
        for p in range(n_parts, 0, -1):
            self.start[p] = self.start[p - 1]
        self.start[0] = 0
