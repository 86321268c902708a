"""Exact line search of hinge risks, which are sums of maxima of lines.

Example i contributes c_i max_k u_ik(t) with lines u_ik(t) = c_ik + t e_ik. The index k runs over the K labels
(multiclass), or over the two choices 0 and 1 - y s (binary hinge). Every maximum is convex, so an example with the same
label at both ends of a bracket is linear between them; it leaves the search, and its line joins a common sum.

    1  evaluate both ends of the bracket, shard by shard; most examples leave the search here
    2  take safeguarded secant steps on the monotone derivative, until few examples are left
    3  for these examples, go from one breakpoint of their lines to the next
"""

from functools import partial

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memset

from ..features._rows cimport real
from ._engine cimport MULTICLASS, Engine

from .partition import SHARD_ROWS

cdef enum:
    FEW = 32                # step 3 begins when at most this many examples are left,
    MOST_SWEEPS = 100       # or after this many steps of the secant method


cdef struct Lines:
    const int32_t* y
    const double* c
    const double* cost      # K x K or NULL
    int K
    Py_ssize_t columns      # number of scores in a row
    bint binary


cdef struct Best:           # the maximum at one t; if labels tie, both extreme slopes are kept
    double value
    int low                 # label of the least slope, which is the left derivative
    int high                # label of the largest slope, which is the right derivative
    double slope_low
    double slope_high


cdef struct Search:
    double a, b             # coefficients of a t + b t^2 / 2, which is added to the risk
    double lo, hi           # bracket
    double g_lo, g_hi       # right derivative at lo, negative; left derivative at hi, positive
    double fixed, slope     # value at t = 0 and slope of the summed lines of the examples that left the search
    Py_ssize_t left         # number of examples in the search
    Py_ssize_t* active      # rows of the examples in the search
    int32_t* at_lo          # labels of the active rows at lo
    int32_t* at_hi          # labels of the active rows at hi
    int32_t* label          # scratch of the secant steps, one entry for each example
    int32_t* other
    double* change
    double* rise


cdef Lines lines_of(Engine engine) noexcept:
    cdef Lines p
    p.y, p.c, p.binary = &engine.y[0], &engine.c[0], engine.loss != MULTICLASS
    p.cost = &engine.cost[0, 0] if engine.has_cost else NULL
    p.K, p.columns = 2 if p.binary else engine.n_scores, engine.n_scores
    return p


cdef inline double line(const Lines* p, const real* s0, const real* s1, Py_ssize_t i, int k,
                        double* slope) noexcept nogil:
    # Returns c_ik and sets slope to e_ik.
    cdef int y = p.y[i]
    cdef double loss
    s0 += i * p.columns
    s1 += i * p.columns
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
    # Returns whether the truth is the best label at t = 0 and t = 1, and so between them, where value and slope
    # are 0.
    cdef int y = p.y[i], k
    cdef real first, last
    s0 += i * p.columns
    s1 += i * p.columns
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


def both_ends(Engine engine, const real[:, ::1] S0, const real[:, ::1] S1, double upper, Py_ssize_t start):
    """Evaluate the examples of the shard that begins at `start` at t = 0 and t = upper.

    Returns
    -------
    active, at_lo, at_hi : ndarray
        Rows of the examples whose label changes, and their labels at both ends.
    sums : tuple of 6 floats
        R at both ends, the right derivative at 0, the left derivative at `upper`, and value and slope of the summed
        lines of all other examples.
    """
    cdef Lines p = lines_of(engine)
    cdef Py_ssize_t stop = min(start + <Py_ssize_t>SHARD_ROWS, engine.n_examples), i, left = 0
    cdef Py_ssize_t[::1] active = np.empty(stop - start, dtype=np.intp)
    cdef int32_t[::1] at_lo = np.empty(stop - start, dtype=np.int32), at_hi = np.empty(stop - start, dtype=np.int32)
    cdef double value = 0.0, cut = 0.0, rise = 0.0, fall = 0.0, fixed = 0.0, slope = 0.0, c
    cdef const real* s0 = &S0[0, 0]
    cdef const real* s1 = &S1[0, 0]
    cdef Best first, last
    with nogil:
        for i in range(start, stop):
            if upper <= 1.0 and is_idle(&p, s0, s1, i):
                continue
            c = p.c[i]
            first, last = maximum(&p, s0, s1, i, 0.0), maximum(&p, s0, s1, i, upper)
            value += c * first.value
            cut += c * last.value
            rise += c * first.slope_high
            fall += c * last.slope_low
            if first.high == last.low or first.slope_high == last.slope_low:
                fixed += c * first.value
                slope += c * first.slope_high
            else:
                active[left], at_lo[left], at_hi[left] = i, first.high, last.low
                left += 1
    return (np.array(active[:left]), np.array(at_lo[:left]), np.array(at_hi[:left]),
            (value, cut, rise, fall, fixed, slope))


cdef void narrow(const Lines* p, const real* s0, const real* s1, Search* s) noexcept nogil:
    """Shrink the bracket until few examples are left in the search; set lo = hi if the minimiser is found."""
    cdef double t, width, g_low, g_high
    cdef Py_ssize_t q
    cdef Best at
    cdef int _sweep
    cdef bint bisect = False
    for _sweep in range(MOST_SWEEPS):
        if s.left <= FEW:
            return
        width = s.hi - s.lo
        t = s.lo - s.g_lo * width / (s.g_hi - s.g_lo)
        if bisect or not (s.lo < t < s.hi):
            t = 0.5 * (s.lo + s.hi)
        if not (s.lo < t < s.hi):
            return
        g_low = g_high = s.a + s.b * t + s.slope
        for q in range(s.left):
            at = maximum(p, s0, s1, s.active[q], t)
            s.label[q], s.other[q] = at.high, at.low
            g_high += p.c[s.active[q]] * at.slope_high
            g_low += p.c[s.active[q]] * at.slope_low
        if g_high < 0.0:
            s.lo, s.g_lo = t, g_high
            s.at_lo, s.label = s.label, s.at_lo
        elif g_low > 0.0:
            s.hi, s.g_hi = t, g_low
            s.at_hi, s.other = s.other, s.at_hi
        else:
            s.lo = s.hi = t
            return
        bisect = s.hi - s.lo > 0.5 * width      # the secant step did not halve the bracket
        drop_linear(p, s0, s1, s)


cdef void drop_linear(const Lines* p, const real* s0, const real* s1, Search* s) noexcept nogil:
    """Remove examples with the same label at both ends from the search, and add their lines to the common sum."""
    cdef Py_ssize_t q, i, kept = 0
    cdef double e
    for q in range(s.left):
        i = s.active[q]
        if s.at_lo[q] == s.at_hi[q]:
            s.fixed += p.c[i] * line(p, s0, s1, i, s.at_lo[q], &e)
            s.slope += p.c[i] * e
        else:
            s.active[kept], s.at_lo[kept], s.at_hi[kept] = i, s.at_lo[q], s.at_hi[q]
            kept += 1
    s.left = kept


cdef double walk(const Lines* p, const real* s0, const real* s1, Search* s) noexcept nogil:
    """Return the minimiser: go from breakpoint to breakpoint, upwards from lo, until the derivative is not negative."""
    cdef double t = s.lo, g = s.a + s.slope, nearest, root, c0, c1, e0, e      # g + b t is the right derivative
    cdef Py_ssize_t q, i, _piece
    cdef int k
    for q in range(s.left):
        line(p, s0, s1, s.active[q], s.at_lo[q], &e0)
        g += p.c[s.active[q]] * e0
    for _piece in range(s.left * p.K + 1):
        nearest = s.hi
        for q in range(s.left):             # find for each example where its label changes next, and the new label
            i = s.active[q]
            c0 = line(p, s0, s1, i, s.at_lo[q], &e0)
            s.change[q], s.rise[q] = s.hi, 0.0
            for k in range(p.K):
                c1 = line(p, s0, s1, i, k, &e)
                if k != s.at_lo[q] and e > e0 and c0 - c1 < s.change[q] * (e - e0):
                    s.change[q], s.label[q], s.rise[q] = max((c0 - c1) / (e - e0), t), k, e - e0
            nearest = min(nearest, s.change[q])
        root = -g / s.b if s.b > 0.0 else INFINITY
        if root <= nearest:
            return max(root, t)
        t = nearest
        if t >= s.hi:
            return t
        for q in range(s.left):
            if s.change[q] <= t:
                g += p.c[s.active[q]] * s.rise[q]
                s.at_lo[q] = s.label[q]
        if g + s.b * t >= 0.0:
            return t
    return t


def line_search(Engine engine, const real[:, ::1] S0, const real[:, ::1] S1, double a, double b,
                double upper, map=map):
    """Return the minimiser t of a t + b t^2 / 2 + R(t) over [0, upper], and R(t); bit-identical for any `map`."""
    cdef Lines p = lines_of(engine)
    cdef Search s
    cdef Py_ssize_t[::1] active
    cdef int32_t[:, ::1] labels
    cdef double[:, ::1] scratch
    cdef const real* s0 = &S0[0, 0]
    cdef const real* s1 = &S1[0, 0]
    cdef double t, value
    cdef Py_ssize_t q
    memset(&s, 0, sizeof(s))        # pointers stay NULL if no example is active
    *shards, sums = zip(*map(partial(both_ends, engine, S0, S1, upper), range(0, engine.n_examples, SHARD_ROWS)))
    value, cut, rise, fall, s.fixed, s.slope = [sum(column) for column in zip(*sums)]
    s.a, s.b, s.lo, s.hi, s.g_lo, s.g_hi = a, b, 0.0, upper, a + rise, a + b * upper + fall
    if s.g_lo >= 0.0 or upper == 0.0:
        return 0.0, value
    if s.g_hi <= 0.0:
        return upper, cut
    active, at_lo, at_hi = [np.concatenate(arrays) for arrays in shards]
    s.left = active.shape[0]
    labels, scratch = np.array([at_lo, at_hi, at_lo, at_hi]), np.empty((2, s.left))
    if s.left:
        s.active, s.change, s.rise = &active[0], &scratch[0, 0], &scratch[1, 0]
        s.at_lo, s.at_hi, s.label, s.other = &labels[0, 0], &labels[1, 0], &labels[2, 0], &labels[3, 0]
    with nogil:
        narrow(&p, s0, s1, &s)
        t = walk(&p, s0, s1, &s) if s.lo < s.hi else s.lo
        value = s.fixed + s.slope * t
        for q in range(s.left):
            value += p.c[s.active[q]] * maximum(&p, s0, s1, s.active[q], t).value
    return t, value
