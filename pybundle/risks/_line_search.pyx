"""Exact line search for sums of maxima of lines.

Example i contributes c_i max_k u_ik(t), u_ik(t) = c_ik + t e_ik, with k over the K labels (multiclass) or
over {no loss, loss} (binary hinge). Every maximum is convex, so an example with the same label at both ends
of a bracket is linear between them and leaves the search for good.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from ..features._rows cimport real
from ._engine cimport MULTICLASS, Engine


cdef struct Lines:
    const int32_t* y
    const double* c
    const double* cost      # K x K or NULL
    int K
    bint binary


cdef struct Best:           # the maximum at one t; ties between labels by slope
    double value
    int low                 # label of the least slope: left derivative
    int high                # label of the largest slope: right derivative
    double slope_low
    double slope_high


cdef inline double line(const Lines* p, const real* s0, const real* s1, Py_ssize_t i, int k,
                        double* slope) noexcept nogil:
    # c_ik, and e_ik into slope
    cdef int y = p.y[i]
    cdef double loss
    if p.binary:
        slope[0] = -y * (<double>s1[0] - <double>s0[0]) if k else 0.0
        return 1.0 - y * <double>s0[0] if k else 0.0
    if p.cost == NULL:
        loss = k != y
    else:
        loss = p.cost[y * p.K + k]
    slope[0] = (<double>s1[k] - <double>s0[k]) - (<double>s1[y] - <double>s0[y])
    return loss + (<double>s0[k] - <double>s0[y])


cdef inline Best maximum(const Lines* p, const real* s0, const real* s1, Py_ssize_t i,
                         double t) noexcept nogil:
    cdef Best best
    cdef double e, v
    cdef int k
    best.value = -INFINITY
    best.low = best.high = 0
    best.slope_low = best.slope_high = 0.0
    for k in range(p.K):
        v = line(p, s0, s1, i, k, &e)
        v += t * e
        if v > best.value:
            best.value = v
            best.low = best.high = k
            best.slope_low = best.slope_high = e
        elif v == best.value:
            if e < best.slope_low:
                best.low = k
                best.slope_low = e
            if e > best.slope_high:
                best.high = k
                best.slope_high = e
    return best


cdef inline bint is_idle(const Lines* p, const real* s0, const real* s1, Py_ssize_t i) noexcept nogil:
    # whether the truth leads at t = 0 and 1, hence everywhere between: neither value nor slope there
    cdef int y = p.y[i], k
    cdef real first, last
    if p.binary:
        return y * <double>s0[0] > 1.0 and y * <double>s1[0] > 1.0
    if p.cost != NULL:
        return False
    first = last = -INFINITY
    for k in range(y):
        first = s0[k] if s0[k] > first else first
        last = s1[k] if s1[k] > last else last
    for k in range(y + 1, p.K):
        first = s0[k] if s0[k] > first else first
        last = s1[k] if s1[k] > last else last
    return <double>first - <double>s0[y] < -1.0 and <double>last - <double>s1[y] < -1.0


def line_search(Engine engine, const real[:, ::1] S0, const real[:, ::1] S1, double a, double b,
                double upper):
    """Minimiser t of a t + b t^2 / 2 + R(t) over [0, upper], and R(t)."""
    cdef Py_ssize_t n = engine.n_examples, columns = S0.shape[1], i, q, left, kept
    cdef Lines p
    cdef Best at
    cdef double lo = 0.0, hi = upper, g_lo, g_hi, t, g_low, g_high, e, e0, value, fixed, slope, width
    cdef double nearest, root, c0, c1, ci, cut
    cdef int _sweep, k
    cdef bint bisect = False
    cdef const real* s0 = &S0[0, 0]
    cdef const real* s1 = &S1[0, 0]
    cdef Py_ssize_t[::1] active = np.empty(n, dtype=np.intp)
    cdef int32_t[::1] at_lo = np.empty(n, dtype=np.int32), at_hi = np.empty(n, dtype=np.int32)
    cdef double[::1] change = np.empty(n), rise = np.empty(n)
    cdef int32_t[::1] label = np.empty(n, dtype=np.int32), other = np.empty(n, dtype=np.int32)
    p.y, p.c, p.binary = &engine.y[0], &engine.c[0], engine.loss != MULTICLASS
    p.cost = &engine.cost[0, 0] if engine.has_cost else NULL
    p.K = 2 if p.binary else engine.n_scores
    with nogil:
        # both ends at once
        g_lo, g_hi, value, fixed, slope, left = a, a + b * hi, 0.0, 0.0, 0.0, 0
        cut = 0.0
        for i in range(n):
            if hi <= 1.0 and is_idle(&p, s0 + i * columns, s1 + i * columns, i):
                continue
            ci = p.c[i]
            at = maximum(&p, s0 + i * columns, s1 + i * columns, i, 0.0)
            value += ci * at.value
            g_lo += ci * at.slope_high
            at_lo[left] = at.high
            e0 = at.slope_high
            c0 = at.value
            at = maximum(&p, s0 + i * columns, s1 + i * columns, i, hi)
            cut += ci * at.value
            g_hi += ci * at.slope_low
            at_hi[left] = at.low
            if at_lo[left] == at.low or e0 == at.slope_low:
                fixed += ci * c0
                slope += ci * e0
            else:
                active[left] = i
                left += 1
        if g_lo >= 0.0 or upper == 0.0:
            lo = hi = 0.0
        elif g_hi <= 0.0:
            lo = hi
            value = cut
        if lo < hi:
            t = lo
            for _sweep in range(100):
                if left <= 32:
                    break
                width = hi - lo
                t = lo - g_lo * width / (g_hi - g_lo)
                if bisect or not (lo < t < hi):
                    t = 0.5 * (lo + hi)
                if not (lo < t < hi):
                    break
                g_low = g_high = a + b * t + slope
                for q in range(left):
                    i = active[q]
                    at = maximum(&p, s0 + i * columns, s1 + i * columns, i, t)
                    label[q] = at.high
                    other[q] = at.low
                    g_high += p.c[i] * at.slope_high
                    g_low += p.c[i] * at.slope_low
                if g_high < 0.0:
                    lo, g_lo = t, g_high
                    for q in range(left):
                        at_lo[q] = label[q]
                elif g_low > 0.0:
                    hi, g_hi = t, g_low
                    for q in range(left):
                        at_hi[q] = other[q]
                else:
                    lo = hi = t
                    break
                bisect = hi - lo > 0.5 * width      # the secant crept: one halving
                kept = 0
                for q in range(left):
                    i = active[q]
                    if at_lo[q] == at_hi[q]:
                        c0 = line(&p, s0 + i * columns, s1 + i * columns, i, at_lo[q], &e0)
                        fixed += p.c[i] * c0
                        slope += p.c[i] * e0
                    else:
                        active[kept] = i
                        at_lo[kept] = at_lo[q]
                        at_hi[kept] = at_hi[q]
                        kept += 1
                left = kept
            # walk the remaining breakpoints from lo upwards; t is exact on the piece where the derivative
            # vanishes
            g_lo = a + slope
            for q in range(left):
                i = active[q]
                line(&p, s0 + i * columns, s1 + i * columns, i, at_lo[q], &e0)
                g_lo += p.c[i] * e0
            t = lo
            for _sweep in range(<int>left * p.K + 1 if lo < hi else 0):
                nearest = hi
                for q in range(left):          # where each example changes its label next, and to which
                    i = active[q]
                    c0 = line(&p, s0 + i * columns, s1 + i * columns, i, at_lo[q], &e0)
                    change[q] = hi
                    rise[q] = 0.0
                    for k in range(p.K):
                        c1 = line(&p, s0 + i * columns, s1 + i * columns, i, k, &e)
                        if k != at_lo[q] and e > e0 and c0 - c1 < change[q] * (e - e0):
                            change[q] = max((c0 - c1) / (e - e0), t)
                            label[q] = k
                            rise[q] = e - e0
                    nearest = min(nearest, change[q])
                root = -g_lo / b if b > 0.0 else INFINITY
                if root <= nearest:
                    t = max(root, t)
                    break
                t = nearest
                if t >= hi:
                    break
                for q in range(left):
                    if change[q] <= t:
                        g_lo += p.c[active[q]] * rise[q]
                        at_lo[q] = label[q]
                if g_lo + b * t >= 0.0:
                    break
            value = fixed + slope * t
            for q in range(left):
                i = active[q]
                at = maximum(&p, s0 + i * columns, s1 + i * columns, i, t)
                value += p.c[i] * at.value
            lo = t
    return lo, value
