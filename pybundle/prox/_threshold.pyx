"""The threshold of proximity operators and projections that are usually computed with a sort: tau with

    sum_i (y_i - tau)_+ = mass + c tau,        c >= 0.

c = 0, mass = radius:  projection onto the simplex and, for norms, onto the l1-ball (Duchi et al. 2008)
c = 1/t, mass = 0:     prox of t/2 |.|_1^2 for norms y >= 0 (Martins et al. 2010, Algorithm 2)

The left side minus the right is convex in tau, so Newton's method from below increases to the root without passing it,
and numbers below an iterate can be dropped (Michelot 1986 for the simplex). A round costs O(numbers left), and few
rounds are needed. Inputs that shrink slowly are sorted after ROUNDS rounds, so the worst case is O(n log n) as in the
papers.

Numbers are stored as v_i = y_i - max(y) <= 0, and the threshold as a level < 0 relative to the maximum. All terms of
the level then have one sign, and v_i - level is accurate to the last digits if mass or c are far below y, where
y_i - tau would cancel.

setup.py compiles this file without reordering of sums: (y - top) - level must not become y - (top + level).
"""

from libc.math cimport INFINITY
from libc.stdlib cimport free, malloc, qsort

cdef enum:
    ROUNDS = 48
    BLOCK = 1024        # count of numbers in a partial sum; the rounding error of the total grows with n / BLOCK
    LANES = 8

# Above HUGE, sums of many numbers may overflow; they are then computed in units of 1 / SHRINK.
cdef double HUGE = 1e280, SHRINK = 2.0**-60


cdef double _sum(const double* v, Py_ssize_t n) noexcept nogil:
    cdef double lane[LANES]
    cdef double total = 0.0
    cdef Py_ssize_t i = 0, stop
    cdef int k
    while i < n:
        stop = min(n, i + BLOCK)
        for k in range(LANES):
            lane[k] = 0.0
        while i + LANES <= stop:
            for k in range(LANES):
                lane[k] += v[i + k]
            i += LANES
        while i < stop:
            lane[0] += v[i]
            i += 1
        total += ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]))
    return total


cdef inline double _root(double total, Py_ssize_t n, double top, double mass, double c) noexcept nogil:
    # Returns the level that n of the numbers alone would have, from the sum of their differences to the largest number.
    # The level of all numbers is at least as large.
    return (total - mass) / (n + c) - top * (c / (n + c))


cdef int _descending(const void* a, const void* b) noexcept nogil:
    cdef double x = (<const double*>a)[0], y = (<const double*>b)[0]
    return (x < y) - (x > y)


cdef double _level(double* v, Py_ssize_t n, double level, double top, double mass, double c) noexcept nogil:
    # Returns the level of all numbers. v (n,) holds the numbers above `level`, which is a lower bound of the result; v
    # is overwritten.
    cdef double total
    cdef Py_ssize_t i, kept
    cdef int _
    for _ in range(ROUNDS):
        level = _root(_sum(v, n), n, top, mass, c)
        kept = 0
        for i in range(n):              # without a branch, which the processor could not predict
            v[kept] = v[i]
            kept += v[i] > level
        if kept == n or kept == 0:      # kept is 0 if the level rounds to 0
            return level
        n = kept
    qsort(v, n, sizeof(double), _descending)
    total, i = v[0], 1
    level = _root(total, i, top, mass, c)
    while i < n and v[i] > level:
        total += v[i]
        i += 1
        level = _root(total, i, top, mass, c)
    return level


cdef int shrink(const double* y, Py_ssize_t n, double mass, double c, double* out) noexcept nogil:
    cdef Py_ssize_t i, kept = 0
    cdef double top = -INFINITY, origin, level, value, unit
    cdef double* v = <double*>malloc(n * sizeof(double))
    if v == NULL:
        return 0
    for i in range(n):
        top = max(top, y[i])
    unit = SHRINK if (top if c > 0.0 else mass) > HUGE else 1.0     # top or mass bounds |y_i - top| above the level
    origin = top
    level = _root(0.0, 1, unit * top, unit * mass, c)       # the level of the largest number alone
    for i in range(n):
        value = unit * (y[i] - top)
        v[kept] = value
        kept += value > level
    if kept > 0:
        level = _level(v, kept, level, unit * top, unit * mass, c)
    if c > 0.0 and level < -0.5 * unit * top:
        # tau is far below the maximum: tau itself is then more accurate than the level
        kept = 0
        for i in range(n):
            v[kept] = unit * y[i]
            kept += unit * (y[i] - top) > level
        level = _sum(v, kept) / (kept + c)
        origin = 0.0
    level /= unit
    for i in range(n):
        out[i] = max((y[i] - origin) - level, 0.0)
    free(v)
    return 1


def subtract_threshold(const double[::1] y, double mass, double c, double[::1] out):
    """Compute `out = max(y - tau, 0)`, expected O(n); out may be y.

    Parameters
    ----------
    y : (n,), n > 0
        Finite; nonnegative if c > 0.
    mass, c : float >= 0
        One of them is 0.
    """
    cdef bint done
    with nogil:
        done = shrink(&y[0], y.shape[0], mass, c, &out[0])
    if not done:
        raise MemoryError
