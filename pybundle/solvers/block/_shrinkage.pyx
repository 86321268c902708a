"""Threshold and bounds of a penalty that is a sum over entries: a point w follows from a point v, entry by entry,

    w = clip( sign(v) max(|v| - threshold, 0) factor, lower, upper ).

For the penalty `l2/2 w^2 + l1 |w|` within bounds, this is the minimiser of penalty, `<phi, w>` and `kappa/2 w^2` if
`v = -phi/s`, `factor = s / (l2 + kappa)`, and the threshold is l1/s.
"""

from libc.math cimport fabs
from libc.stdint cimport int32_t


cdef inline real shrunk(real v, real threshold, real factor, real lower, real upper) noexcept nogil:
    cdef real size = (<real>fabs(v) - threshold) * factor
    size = size if size > 0 else 0
    size = size if v > 0 else -size
    size = size if size > lower else lower
    return size if size < upper else upper


cdef class Shrinkage:
    """Thresholds, factors and bounds of the entries of a point.

    Parameters
    ----------
    limits : ndarray, shape (4, ...), C-contiguous, float32 or float64
        Thresholds, factors, lower and upper bounds. The shape behind the 4 is that of the points, or (1,) if these
        numbers are the same for all entries.
    """

    def __init__(self, limits):
        self.limits = limits
        self.first = <const void*><size_t>limits.ctypes.data
        self.plane = limits[0].size
        self.is_uniform = self.plane == 1

    cdef void apply(self, const real* V, real* W, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
        cdef const real* limits = <const real*>self.first
        cdef Py_ssize_t at, n = self.plane
        if self.is_uniform:
            for at in range(start, stop):
                W[at] = shrunk(V[at], limits[0], limits[1], limits[2], limits[3])
        else:
            for at in range(start, stop):
                W[at] = shrunk(V[at], limits[at], limits[n + at], limits[2 * n + at], limits[3 * n + at])

    cdef void apply_at(self, const real* V, real* W, const int32_t* rows, Py_ssize_t n, Py_ssize_t ld,
                       Py_ssize_t size) noexcept nogil:
        cdef const real* limits = <const real*>self.first
        cdef real t = limits[0], f = limits[1], low = limits[2], high = limits[3]
        cdef Py_ssize_t j
        if self.is_uniform and size == 1:       # rows have one entry, so ld is 1
            for j in range(n):
                W[rows[j]] = shrunk(V[rows[j]], t, f, low, high)
        else:
            for j in range(n):
                self.apply(V, W, ld * rows[j], ld * rows[j] + size)
