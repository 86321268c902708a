"""Vectors theta_k = scale_k v_k: a step touches only the features that are active, a prox only the scale.

Averages without dense work (between resets, v_t = sum of increments d_r, S_t = s_1 + ... + s_t):

    sum_t s_t v_t = S_T v_T - u,      u = sum_r S_{r-1} d_r

At a reset the sum S is kept, and a row that is touched, or read, in a later epoch brings its part of the average up to
date with it. Folding a small scale into v flushes all rows first: with another unit of v the two terms would no longer
cancel.
"""

import numpy as np

from libc.stdlib cimport free, malloc

SMALLEST = 1e-4


cdef class LazyVectors:
    """Rows of `width` numbers, each in one group.

    Parameters
    ----------
    n_rows, width, n_groups : int
    labels : int32 array, shape (n_rows,), or None
        Group of every row; with None it is `row >> shift`.
    shift : int
    averaging : bool
    """

    def __cinit__(self, Py_ssize_t n_rows, Py_ssize_t width, Py_ssize_t n_groups=1, labels=None, int shift=62,
                  bint averaging=False):
        self.n_rows, self.width, self.n_groups, self.averaging = n_rows, width, n_groups, averaging
        self.v = np.zeros((n_rows, width))
        self.stamp, self.today = np.zeros(n_rows, np.int32), np.zeros(n_groups, np.int32)
        self.scale, self.square, self.sums = np.ones(n_groups), np.zeros(n_groups), np.zeros(n_groups)
        self.is_zero = np.ones(n_groups, np.int32)
        kept = n_rows if averaging else 0
        self.u, self.total = np.zeros((kept, width)), np.zeros((kept, width))
        self.labels = np.zeros(0, np.int32) if labels is None else labels
        self.shift, self.room, self.n_ticks, self.held = shift, 0, 0.0, NULL

    def __dealloc__(self):
        free(self.held)

    cdef inline int group(self, Py_ssize_t row) noexcept nogil:
        return self.labels[row] if self.labels.shape[0] else <int>(row >> self.shift)

    cdef inline const double* read(self, Py_ssize_t row) noexcept nogil:
        cdef int k = self.group(row)
        return NULL if self.is_zero[k] or self.stamp[row] != self.today[k] else &self.v[row, 0]

    cdef inline double* touch(self, Py_ssize_t row) noexcept nogil:
        cdef int k = self.group(row)
        cdef double then
        cdef Py_ssize_t j
        if self.stamp[row] != self.today[k]:
            if self.averaging:
                then = self.held[k * self.room + self.stamp[row]]
                for j in range(self.width):
                    self.total[row, j] += then * self.v[row, j] - self.u[row, j]
                    self.u[row, j] = 0.0
            for j in range(self.width):
                self.v[row, j] = 0.0
            self.stamp[row] = self.today[k]
        return &self.v[row, 0]

    cdef inline void add(self, Py_ssize_t row, const double* coefs, double amount) noexcept nogil:
        cdef double* at = self.touch(row)
        cdef double* u
        cdef double past
        cdef Py_ssize_t j
        for j in range(self.width):
            at[j] += amount * coefs[j]
        if self.averaging:
            u = &self.u[row, 0]
            past = amount * self.sums[self.group(row)]
            for j in range(self.width):
                u[j] += past * coefs[j]

    cdef int reset(self, Py_ssize_t k) except -1 nogil:
        cdef double* held
        cdef Py_ssize_t room, g, e
        self.is_zero[k], self.square[k], self.scale[k] = 1, 0.0, 1.0
        if self.averaging:
            if self.today[k] >= self.room:
                room = 2 * self.room + 16
                held = <double*>malloc(self.n_groups * room * sizeof(double))
                if held == NULL:
                    with gil:
                        raise MemoryError
                for g in range(self.n_groups):
                    for e in range(self.room):
                        held[g * room + e] = self.held[g * self.room + e]
                free(self.held)
                self.held, self.room = held, room
            self.held[k * self.room + self.today[k]] = self.sums[k]
            self.sums[k] = 0.0
        self.today[k] += 1
        return 0

    cdef int rescale(self, Py_ssize_t k, double factor) except -1 nogil:
        self.scale[k] *= factor
        if self.scale[k] < SMALLEST:
            self.refold(k)
        return 0

    cdef void refold(self, Py_ssize_t k) noexcept nogil:
        cdef Py_ssize_t i, j
        cdef double s = self.scale[k]
        for i in range(self.n_rows):
            if self.group(i) != k:
                continue
            self.touch(i)
            for j in range(self.width):
                if self.averaging:
                    self.total[i, j] += self.sums[k] * self.v[i, j] - self.u[i, j]
                    self.u[i, j] = 0.0
                self.v[i, j] *= s
        self.square[k] *= s * s
        self.scale[k], self.sums[k] = 1.0, 0.0

    cdef void tick(self) noexcept nogil:
        cdef Py_ssize_t k
        self.n_ticks += 1.0
        if self.averaging:
            for k in range(self.n_groups):
                if not self.is_zero[k]:
                    self.sums[k] += self.scale[k]

    def settle(self):
        """All scales 1, every row of today; gives v itself, now theta."""
        cdef Py_ssize_t i, j, k
        cdef double s
        with nogil:
            for i in range(self.n_rows):
                self.touch(i)
                k = self.group(i)
                s = 0.0 if self.is_zero[k] else self.scale[k]
                for j in range(self.width):
                    if self.averaging:
                        self.total[i, j] += self.sums[k] * self.v[i, j] - self.u[i, j]
                        self.u[i, j] = 0.0
                    self.v[i, j] *= s
            for k in range(self.n_groups):
                self.square[k] *= self.scale[k] * self.scale[k]
                self.scale[k], self.sums[k] = 1.0, 0.0
        return np.asarray(self.v)

    def today_rows(self):
        """v (n_rows, width) itself, rows of earlier days as zeros; without averages only."""
        cdef Py_ssize_t i
        for i in range(self.n_rows):
            self.touch(i)
        return np.asarray(self.v)

    def point(self):
        """theta, shape (n_rows, width), a copy."""
        return self.settle().copy()

    def average(self):
        """The mean of the points at all ticks, shape (n_rows, width)."""
        if not self.averaging or self.n_ticks == 0:
            return self.point()
        self.settle()
        return np.asarray(self.total) / self.n_ticks

    def set(self, theta, total=None, n_ticks=0.0):
        """Starts from theta (n_rows, width), and from a sum of points where averages go on."""
        cdef Py_ssize_t i, j
        np.asarray(self.v)[:] = theta
        np.asarray(self.stamp)[:] = 0
        np.asarray(self.today)[:] = 0
        np.asarray(self.scale)[:] = 1.0
        np.asarray(self.sums)[:] = 0.0
        np.asarray(self.square)[:] = 0.0
        np.asarray(self.u)[:] = 0.0
        self.n_ticks = n_ticks
        if self.averaging:
            np.asarray(self.total)[:] = 0.0 if total is None else total
        for i in range(self.n_rows):
            for j in range(self.width):
                self.square[self.group(i)] += self.v[i, j] * self.v[i, j]
        for i in range(self.n_groups):
            self.is_zero[i] = self.square[i] == 0.0

    def __reduce__(self):
        labels = np.asarray(self.labels) if self.labels.shape[0] else None
        theta = self.point()
        total = np.asarray(self.total) if self.averaging else None
        return _restore, ((self.n_rows, self.width, self.n_groups, labels, self.shift, self.averaging), theta, total,
                          self.n_ticks)

    def norms(self):
        """|theta_k|, shape (n_groups,)."""
        return np.where(self.is_zero, 0.0, np.sqrt(np.maximum(self.square, 0.0)) * self.scale)

    @property
    def scales(self):
        """scale_k, 0 for groups that are 0; shape (n_groups,)."""
        return np.where(self.is_zero, 0.0, self.scale)

    @property
    def state(self):
        """v, stamps of its rows and of the groups: what kernels outside read; do not change."""
        return np.asarray(self.v), np.asarray(self.stamp), np.asarray(self.today)


def _restore(arguments, theta, total, n_ticks):
    vectors = LazyVectors(*arguments)
    vectors.set(theta, total, n_ticks)
    return vectors
