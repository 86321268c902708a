"""A point of the master QP: feasibility, gradient, gap.

The duality gap at x is a sum over parts,

    gap = sum_p ( <x_p, g_p> - min(g_p) ),   g = scale H x - f,   where g is 0 for the zero plane,

which bounds q(x) - min q from above. A variable without a sum adds g x if g >= 0. If g < 0, no bound is finite, and an
estimate is added, twice the gain of a Newton step in this variable: |g| max(x, |g| / (scale H_jj)).
"""

from libc.math cimport fabs
from libc.string cimport memset

import numpy as np

from pybundle.core cimport _blas

cdef extern from "_kernels.h" nogil:
    void pb_add_rows(int m, int n_rows, const double** row, const double* weight, double* y)

# A smaller weight is a rounding error and becomes 0: planes are dropped only after weights of exactly 0 for some time.
cdef double CRUMB = 1e-15


cdef class Point:

    def __cinit__(self):
        self.room = 0

    cdef int reserve(self, Py_ssize_t n) except -1:
        cdef double[:, ::1] reals
        cdef int[::1] integers
        cdef Py_ssize_t[::1] addresses
        cdef unsigned char[::1] bytes_
        if n <= self.room:
            return 0
        n = max(n, 2 * self.room)
        reals = np.empty((6, n))
        integers = np.empty(n, dtype=np.intc)
        addresses = np.empty(n, dtype=np.intp)
        bytes_ = np.empty(n, dtype=np.uint8)
        self._arrays = (reals.base, integers.base, addresses.base, bytes_.base)
        self.rest, self.g, self.mean, self.least = &reals[0, 0], &reals[1, 0], &reals[2, 0], &reals[3, 0]
        self.sums, self.weights = &reals[4, 0], &reals[5, 0]
        self.best = &integers[0]
        self.rows = <const double**>&addresses[0]
        self.slack = &bytes_[0]
        self.room = n
        return 0

    # ------------------------------------------------------------------ the feasible set

    cdef void normalise(self) noexcept nogil:
        """Set negative weights to 0 and scale sums to 1; in a part of zero weights, the best vertex gets weight 1."""
        cdef Problem* q = &self.problem
        cdef int j, p
        cdef double vertex
        cdef double* total = self.sums
        cdef double* least = self.least
        for p in range(q.n_parts):
            total[p] = 0.0
            self.best[p] = -1
        for j in range(q.m):
            p = q.parts[j]
            if not self.x[j] > CRUMB:
                self.x[j] = 0.0
            elif p >= 0:
                total[p] += self.x[j]
        for j in range(q.m):
            p = q.parts[j]
            if p >= 0 and total[p] == 0.0 and not self.slack[p]:
                vertex = 0.5 * q.scale * q.H[j * q.ldh + j] - q.f[j]
                if self.best[p] < 0 or vertex < least[p]:
                    self.best[p] = j
                    least[p] = vertex
            elif p >= 0 and (total[p] > 1.0 or not self.slack[p]):
                self.x[j] /= total[p]
        for p in range(q.n_parts):
            if self.best[p] >= 0:
                self.x[self.best[p]] = 1.0
            self.rest[p] = 1.0 - total[p] if self.slack[p] and total[p] < 1.0 else 0.0
        self.refresh()

    cdef int support(self) noexcept nogil:
        cdef int j, n = 0
        for j in range(self.problem.m):
            n += self.x[j] > 0.0
        return n

    cdef void restore_sums(self, double* x, double* rest) noexcept nogil:
        """Scale x >= 0 so that its sums are feasible, because the gap bounds q(x) - min q only at feasible points."""
        cdef Problem* q = &self.problem
        cdef int j, p
        for p in range(q.n_parts):
            self.sums[p] = 0.0
        for j in range(q.m):
            if q.parts[j] >= 0:
                self.sums[q.parts[j]] += x[j]
        for j in range(q.m):
            p = q.parts[j]
            if p >= 0 and x[j] != 0.0 and (self.sums[p] > 1.0 or rest[p] <= 0.0):
                x[j] /= self.sums[p]
        for p in range(q.n_parts):
            rest[p] = 1.0 - self.sums[p] if rest[p] > 0.0 and self.sums[p] < 1.0 else 0.0

    # ------------------------------------------------------------------ gradient, value, gap

    cdef void multiply(self, const double* x, double* h) noexcept nogil:
        cdef Problem* q = &self.problem
        cdef int j, count = 0
        for j in range(q.m):
            if x[j] != 0.0:
                self.rows[count] = q.H + j * q.ldh
                self.weights[count] = x[j]
                count += 1
        # h = x @ H; BLAS is faster if more than half of x is nonzero
        if 2 * count > q.m:
            _blas.symv(q.m, q.H, <int>q.ldh, x, h)
        else:
            memset(h, 0, q.m * sizeof(double))
            pb_add_rows(q.m, count, self.rows, self.weights, h)

    cdef void refresh(self) noexcept nogil:
        self.multiply(self.x, self.h)
        self.stale = False

    cdef void assess(self) noexcept nogil:
        cdef Problem* q = &self.problem
        cdef int j, p
        cdef double product = 0.0, linear = 0.0, den
        for p in range(q.n_parts):
            self.mean[p] = 0.0
            self.least[p] = 0.0 if self.slack[p] else 1e300
        self.mean[q.n_parts] = 0.0
        self.gap = 0.0
        for j in range(q.m):
            self.g[j] = q.scale * self.h[j] - q.f[j]
            p = q.parts[j]
            if self.x[j] != 0.0:
                product += self.x[j] * self.h[j]
                linear += self.x[j] * q.f[j]
            if p >= 0:
                self.mean[p] += self.x[j] * self.g[j]
                if self.g[j] < self.least[p]:
                    self.least[p] = self.g[j]
            elif self.g[j] >= 0.0:
                self.gap += self.g[j] * self.x[j]
            else:
                den = q.scale * q.H[j * q.ldh + j]
                self.gap += max(-self.g[j] * self.x[j], self.g[j] * self.g[j] / den if den > 0.0 else 1e300)
        for p in range(q.n_parts):
            if self.least[p] < 1e300:
                self.gap += max(0.0, self.mean[p] - self.least[p])
        self.value = 0.5 * q.scale * product - linear
        self.size = 0.5 * q.scale * product + fabs(linear)

    cdef void notice(self, double shift) noexcept nogil:
        """Record half of the bound d'Hd <= -shift mean(H_jj) d'd for some d, because the factor has rounding errors."""
        cdef Problem* q = &self.problem
        cdef int j
        cdef double total = 0.0, largest = 0.0
        for j in range(q.m):
            total += q.H[j * q.ldh + j]
            largest = max(largest, q.H[j * q.ldh + j])
        if largest > 0.0:
            self.curvature = min(self.curvature, -0.5 * shift * total / (q.m * largest))
