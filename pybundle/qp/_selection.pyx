"""Selection of the variables of a round: the support of the point, and those that violate optimality most.

The violation of variable j is the square of its reduced cost over H_jj, a multiple of the gain of a step in j.
"""

import numpy as np

from pybundle.qp._point cimport Point, Problem, part_of


cdef class Selection:

    def __cinit__(self):
        self.room = self.n = 0

    cdef int reserve(self, Py_ssize_t n) except -1:
        cdef double[:, ::1] reals
        cdef int[:, ::1] integers
        if n > self.room:
            n = max(n, 2 * self.room)
            reals = np.empty((2, n))
            integers = np.empty((3, n), dtype=np.intc)
            self._arrays = (reals.base, integers.base)
            self.key, self.key_copy = &reals[0, 0], &reals[1, 0]
            self.variable, self.part, self.position = &integers[0, 0], &integers[1, 0], &integers[2, 0]
            self.room = n
        return 0

    cdef void clear(self, Point point) noexcept nogil:
        cdef int j
        self.n = 0
        for j in range(point.problem.m + point.problem.n_parts):
            self.position[j] = -1

    cdef void add_support(self, Point point, bint slacks) noexcept nogil:
        cdef int j, m = point.problem.m
        for j in range(m + (point.problem.n_parts if slacks else 0)):
            if self.position[j] < 0 and (point.x[j] if j < m else point.rest[j - m]) > 0.0:
                self.variable[self.n] = j
                self.part[self.n] = part_of(&point.problem, j)
                self.n += 1

    cdef void add_violators(self, Point point, int most, double floor) noexcept nogil:
        cdef Problem* q = &point.problem
        cdef int j, p, count = 0, listed = self.n
        cdef double bar, cost
        for j in range(listed):
            self.position[self.variable[j]] = 0         # so that no variable is added twice
        for j in range(q.m + q.n_parts):
            if j < q.m:
                p = q.parts[j]
                cost = point.g[j] - (point.mean[p] if p >= 0 else 0.0)
            else:
                p = j - q.m
                if not point.slack[p]:
                    continue
                cost = -point.mean[p]
            if self.position[j] < 0 and cost < (-floor if p >= 0 else 0.0):
                self.key[count] = key_of(q, j, cost)
                self.key_copy[count] = self.key[count]
                self.variable[listed + count] = j
                count += 1
        for j in range(listed):
            self.position[self.variable[j]] = -1
        if count > most:
            bar = smallest(self.key_copy, count, most)
            p = 0
            for j in range(count):
                if self.key[j] <= bar and p < most:
                    self.variable[listed + p] = self.variable[listed + j]
                    p += 1
            count = p
        self.n = listed + count
        for j in range(listed, self.n):
            self.part[j] = part_of(q, self.variable[j])


cdef double key_of(const Problem* q, int j, double cost) noexcept nogil:
    # Dividing by H_jj matters, because slopes of planes differ by orders of magnitude.
    cdef double norm = q.H[j * q.ldh + j] if j < q.m else 0.0
    return -cost * cost / norm if norm > 0.0 else -1e300


cdef double smallest(double* values, int n, int k) noexcept nogil:
    cdef int low = 0, high = n - 1, i, j
    cdef double pivot, keep
    k -= 1
    while low < high:
        pivot = values[(low + high) // 2]
        i = low
        j = high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                keep = values[i]
                values[i] = values[j]
                values[j] = keep
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return values[k]
