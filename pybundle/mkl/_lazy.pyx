"""Lazily scaled vectors theta_k = scale_k v_k: a step touches only the active features, a prox only the scale.

Averages need no dense work. Between resets v_t is a sum of increments d_r, so with S_t = s_1 + ... + s_t

    sum_t s_t v_t = S_T v_T - u,      u = sum_r S_{r-1} d_r

A reset of a group stores its sum S. Before a row of the group is next changed, S v - u with this S is added to the
average of the row (`flush`). Before a small scale is folded into v, all rows are flushed, because u refers to the old
unit of v.
"""

import numpy as np

from libc.math cimport sqrt
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc

from pybundle.prox._threshold cimport shrink

SMALLEST = 1e-4


cdef class LazyVectors:
    """Rows of `width` numbers; each row belongs to one group.

    Parameters
    ----------
    n_rows, width, n_groups : int
    labels : int32 array, shape (n_rows,), or None
        Group of each row; if None, a row belongs to the group `row >> shift`.
    shift : int
    averaging : bool
        Whether sums are kept for `average`.
    eager : bool
        Whether a reset at once clears the rows of its group in v, so that other code may read v directly.
    """

    def __cinit__(self, Py_ssize_t n_rows, Py_ssize_t width, Py_ssize_t n_groups=1, labels=None, int shift=62,
                  bint averaging=False, bint eager=False):
        self.n_rows, self.width, self.n_groups, self.averaging = n_rows, width, n_groups, averaging
        self.v = np.zeros((n_rows, width))
        # a row with stamp -1 is 0 and adds nothing to the average
        self.stamp, self.n_resets = np.full(n_rows, -1, np.int32), np.zeros(n_groups, np.int32)
        self.eager, self.heads = eager, np.full(n_groups, -1, np.int32)
        self.following = np.full(n_rows if eager else 0, -1, np.int32)
        self.scale, self.square, self.sums = np.ones(n_groups), np.zeros(n_groups), np.zeros(n_groups)
        self.is_zero = np.ones(n_groups, np.int32)
        kept = n_rows if averaging else 0
        self.u, self.total = np.zeros((kept, width)), np.zeros((kept, width))
        self.has_labels, self.labels = labels is not None, np.zeros(0, np.int32) if labels is None else labels
        self.shift, self.room, self.n_ticks, self.held = shift, 0, 0.0, NULL

    def __dealloc__(self):
        free(self.held)

    cdef inline int group(self, Py_ssize_t row) noexcept nogil:
        return self.labels[row] if self.has_labels else <int>(row >> self.shift)

    cdef inline const double* read(self, Py_ssize_t row) noexcept nogil:
        cdef int k = self.group(row)
        return NULL if self.is_zero[k] or self.stamp[row] != self.n_resets[k] else &self.v[row, 0]

    cdef inline double* touch(self, Py_ssize_t row) noexcept nogil:
        cdef int k = self.group(row)
        if self.stamp[row] != self.n_resets[k]:
            if self.stamp[row] >= 0:
                self.flush(row, k)
            self.stamp[row] = self.n_resets[k]
            if self.eager:
                self.following[row], self.heads[k] = self.heads[k], <int32_t>row
        return &self.v[row, 0]

    cdef void flush(self, Py_ssize_t row, int k) noexcept nogil:
        cdef Py_ssize_t j
        cdef double then
        if self.averaging:
            then = self.held[k * self.room + self.stamp[row]]
            for j in range(self.width):
                self.total[row, j] += then * self.v[row, j] - self.u[row, j]
                self.u[row, j] = 0.0
        for j in range(self.width):
            self.v[row, j] = 0.0

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
            if self.n_resets[k] >= self.room:
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
            self.held[k * self.room + self.n_resets[k]] = self.sums[k]
            self.sums[k] = 0.0
        self.n_resets[k] += 1
        if self.eager:
            while self.heads[k] >= 0:
                self.flush(self.heads[k], <int>k)
                self.stamp[self.heads[k]] = -1
                self.heads[k] = self.following[self.heads[k]]
        return 0

    cdef int rescale(self, Py_ssize_t k, double factor) except -1 nogil:
        self.scale[k] *= factor
        if self.scale[k] < SMALLEST:
            self.refold(k)
        return 0

    cdef void refold(self, Py_ssize_t k) noexcept nogil:
        cdef Py_ssize_t i, j, g, first = 0, last = self.n_rows
        cdef double s
        # with labels all groups are folded at once: their scales shrink together
        if not self.has_labels and self.n_groups > 1:
            first, last = k << self.shift, min((k + 1) << self.shift, self.n_rows)
        for i in range(first, last):
            if self.stamp[i] < 0:
                continue
            self.touch(i)
            g = self.group(i)
            s = 0.0 if self.is_zero[g] else self.scale[g]
            for j in range(self.width):
                if self.averaging:
                    self.total[i, j] += self.sums[g] * self.v[i, j] - self.u[i, j]
                    self.u[i, j] = 0.0
                self.v[i, j] *= s
        for g in range(self.n_groups):
            if self.has_labels or g == k:
                self.square[g] *= self.scale[g] * self.scale[g]
                self.scale[g], self.sums[g] = 1.0, 0.0

    cdef void tick(self) noexcept nogil:
        cdef Py_ssize_t k
        self.n_ticks += 1.0
        if self.averaging:
            for k in range(self.n_groups):
                if not self.is_zero[k]:
                    self.sums[k] += self.scale[k]

    def settle(self):
        """Fold all scales into v and flush old rows; return v itself, now equal to theta."""
        cdef Py_ssize_t k
        with nogil:
            for k in range(1 if self.has_labels else self.n_groups):
                self.refold(k)
        return np.asarray(self.v)

    def current_rows(self):
        """Return v itself, (n_rows, width), after clearing rows from before a reset; only valid without averages."""
        cdef Py_ssize_t i
        for i in range(self.n_rows):
            self.touch(i)
        return np.asarray(self.v)

    def point(self):
        """Return a copy of theta, shape (n_rows, width)."""
        return self.settle().copy()

    def average(self):
        """Return the mean of the points at all calls of `tick`, shape (n_rows, width)."""
        if not self.averaging or self.n_ticks == 0:
            return self.point()
        self.settle()
        return np.asarray(self.total) / self.n_ticks

    def set(self, theta, total=None, n_ticks=0.0):
        """Set theta (n_rows, width), and the sum of `n_ticks` earlier points from which averages continue."""
        cdef Py_ssize_t i, j
        np.asarray(self.v)[:] = theta
        np.asarray(self.stamp)[:] = -1
        np.asarray(self.heads)[:] = -1
        np.asarray(self.n_resets)[:] = 0
        np.asarray(self.scale)[:] = 1.0
        np.asarray(self.sums)[:] = 0.0
        np.asarray(self.square)[:] = 0.0
        np.asarray(self.u)[:] = 0.0
        self.n_ticks = n_ticks
        if self.averaging:
            np.asarray(self.total)[:] = 0.0 if total is None else total
        for i in range(self.n_rows):
            for j in range(self.width):
                if self.v[i, j] != 0.0:
                    self.touch(i)
                    self.square[self.group(i)] += self.v[i, j] * self.v[i, j]
        for i in range(self.n_groups):
            self.is_zero[i] = self.square[i] == 0.0

    def grow(self, labels):
        """Append rows of zeros in the groups `labels`, int32 (n,)."""
        cdef Py_ssize_t n = len(labels), kept = n if self.averaging else 0
        labels = np.concatenate([self.labels, labels])
        v = np.concatenate([self.v, np.zeros((n, self.width))])
        stamp = np.concatenate([self.stamp, np.full(n, -1, np.int32)])
        following = np.concatenate([self.following, np.full(n if self.eager else 0, -1, np.int32)])
        u = np.concatenate([self.u, np.zeros((kept, self.width))])
        total = np.concatenate([self.total, np.zeros((kept, self.width))])
        # Ctrl-C must not arrive between these assignments
        self.labels, self.v, self.stamp, self.following, self.u, self.total = labels, v, stamp, following, u, total
        self.n_rows += n

    def saved(self):
        """Return the arguments of `set` that restore theta and its average, as copies."""
        theta = self.point()
        return theta, np.array(self.total) if self.averaging else None, self.n_ticks

    def __reduce__(self):
        return _restore, ((self.n_rows, self.width, self.n_groups, self.row_labels, self.shift, self.averaging,
                           self.eager), *self.saved())

    def step(self, const int32_t[::1] indices, const double[::1] data, double eta, double lam, double radius,
             regulariser=None):
        """Make a round for width 1: gradient step, prox, projection. The gradient has `data` at the rows `indices`.

        Costs O(len(indices) + n_groups log n_groups). `regulariser` is that of `TokenRounds.run`.
        """
        cdef Py_ssize_t e, k, p = self.n_groups, row
        cdef double value, total = 0.0, ratio
        scratch = np.zeros((4, p))
        cdef double[::1] product = scratch[0], square = scratch[1], before = scratch[2], after = scratch[3]
        cdef const double* v
        cdef bint plain = regulariser is None, good = True
        with nogil:
            for e in range(indices.shape[0]):
                k = self.group(indices[e])
                v = self.read(indices[e])
                square[k] += data[e] * data[e]
                if v != NULL:
                    product[k] += data[e] * v[0]
            for k in range(p):
                value = 0.0 if self.is_zero[k] else self.square[k] * self.scale[k] * self.scale[k]
                value += eta * (eta * square[k] - 2.0 * self.scale[k] * product[k])
                before[k] = sqrt(max(value, 0.0))
            if plain:
                good = shrink(&before[0], p, 0.0, 1.0 / (eta * lam), &after[0])
        if not good:
            raise MemoryError
        if not plain:
            scratch[3] = regulariser.shrink(scratch[2], eta)
        with nogil:
            for k in range(p):
                total += after[k] * after[k]
                if after[k] == 0.0:
                    if not self.is_zero[k]:
                        self.reset(k)
                    before[k] = 0.0
                else:
                    self.is_zero[k] = 0
            for e in range(indices.shape[0]):
                row = indices[e]
                k = self.group(row)
                if after[k] != 0.0:
                    self.add(row, &data[e], -eta / self.scale[k])
            ratio = min(1.0, radius / sqrt(total)) if total > 0.0 else 1.0
            for k in range(p):
                if after[k] != 0.0:
                    value = before[k] / self.scale[k]
                    self.square[k] = value * value
                    self.rescale(k, ratio * after[k] / before[k])
            self.tick()

    cdef void refresh(self) noexcept nogil:
        cdef Py_ssize_t i, j
        cdef double total
        cdef const double* v
        for i in range(self.n_groups):
            self.square[i] = 0.0
        for i in range(self.n_rows):
            v = self.read(i)
            if v != NULL:
                total = 0.0
                for j in range(self.width):
                    total += v[j] * v[j]
                self.square[self.group(i)] += total

    def renew(self):
        """Recompute the norms, since updates by formula (17) add up rounding errors."""
        with nogil:
            self.refresh()

    def expand(self, double[::1] out):
        """Write theta into `out` (n_rows,); the width must be 1."""
        cdef Py_ssize_t i
        cdef const double* v
        if out.shape[0] != self.n_rows:
            raise ValueError(f"out must have {self.n_rows} entries, got {out.shape[0]}")
        with nogil:
            for i in range(self.n_rows):
                v = self.read(i)
                out[i] = 0.0 if v == NULL else self.scale[self.group(i)] * v[0]

    def norms(self):
        """Return |theta_k|, shape (n_groups,)."""
        return np.where(self.is_zero, 0.0, np.sqrt(np.maximum(self.square, 0.0)) * self.scale)

    def penalty(self, lam, regulariser):
        """Return lam/2 (sum_k |theta_k|)^2, or the value of `regulariser` at the norms."""
        norms = self.norms()
        return 0.5 * lam * float(norms.sum()) ** 2 if regulariser is None else float(regulariser._value(norms))

    @property
    def row_labels(self):
        """Group of every row, int32 (n_rows,), or None if the group is `row >> shift`."""
        return np.asarray(self.labels) if self.has_labels else None

    @property
    def scales(self):
        """scale_k, 0 for groups that are 0; shape (n_groups,)."""
        return np.where(self.is_zero, 0.0, self.scale)

    @property
    def values(self):
        """The array v itself, shape (n_rows, width); with `eager` other code may read it."""
        return np.asarray(self.v)


def _restore(arguments, theta, total, n_ticks):
    vectors = LazyVectors(*arguments)
    vectors.set(theta, total, n_ticks)
    return vectors
