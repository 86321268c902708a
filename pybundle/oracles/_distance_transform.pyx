"""Generalised distance transform of one line by an upper envelope, and of maps line by line.

    values[p] = max_q f(q) - a (p - q)^2 - b (p - q)

Two candidates r < q are parabolas in p of the same shape and cross once, at

    p = (f(r) - f(q)) / (2 a (q - r)) + (q + r) / 2 - b / (2 a),

so for a > 0 the larger index wins to the right of that point, for a < 0 to the left of it. One sweep finds the
candidates that win somewhere, with their crossings in order (Felzenszwalb and Huttenlocher 2012, Algorithm "DT(f)",
there for a = 1, b = 0); a second sweep reads off the winners. The sums f(q) - a q^2 of the textbook form are avoided:
at q = 10^6 they would lose twelve digits of f.
"""

from libc.float cimport DBL_MIN
from libc.math cimport INFINITY, fabs, isfinite

import numpy as np

# Up to this distance from a crossing, relative to the terms of the crossing, a position takes the larger value.
cdef double NEAR = 1e-13


cdef void reciprocals(int n, double a, double* inverse) noexcept nogil:
    cdef int k
    for k in range(1, n):
        inverse[k] = 1.0 / (2.0 * fabs(a) * k) if fabs(a) >= DBL_MIN else 0.0


cdef inline double _at(double f, double a, double b, double d) noexcept nogil:
    return f - a * (d * d) - b * d


cdef void line_transform(int n, const double* f, double a, double b, const double* inverse, int m, double shift,
                         double* values, int* argmax, int* hull, double* z) noexcept nogil:
    cdef int k = -1, last, p, step, q, r, _
    cdef double s, t, near, middle, sign, best, other, d
    if fabs(a) < DBL_MIN or not isfinite(b / (2.0 * a)):
        _tilted(n, f, a, b, m, shift, values, argmax)
        return
    # From here on positions are t = sign (p + shift + b / (2 a)), so that larger indices win to the right.
    sign = 1.0 if a > 0.0 else -1.0
    for q in range(n):
        if f[q] == -INFINITY:
            continue
        s = -INFINITY
        while k >= 0:
            r = hull[k]
            s = (f[r] - f[q]) * inverse[q - r] + sign * 0.5 * (q + r)
            if s > z[k]:
                break
            k -= 1
        if k < 0:
            s = -INFINITY
        k += 1
        hull[k] = q
        z[k] = s
    last = k
    if last < 0:
        for p in range(m):
            values[p] = -INFINITY
            argmax[p] = 0
        return
    middle = shift + b / (2.0 * a)
    near = NEAR * (n + m + fabs(middle))
    p = 0 if a > 0.0 else m - 1
    step = 1 if a > 0.0 else -1
    k = 0
    for _ in range(m):
        t = sign * (p + middle)
        d = p + shift
        best = _at(f[hull[k]], a, b, d - hull[k])
        while k < last and t >= z[k + 1] - near:
            other = _at(f[hull[k + 1]], a, b, d - hull[k + 1])
            # near the crossing the larger value decides; in a tie the smaller index wins
            if t <= z[k + 1] + near and other <= best:
                break
            best = other
            k += 1
        values[p] = best
        argmax[p] = hull[k]
        p += step


cdef void _tilted(int n, const double* f, double a, double b, int m, double shift, double* values,
                  int* argmax) noexcept nogil:
    """Transform with a = 0: the candidate with the largest f(q) + b q wins everywhere."""
    cdef int p, q, best = 0
    cdef double top = -INFINITY
    for q in range(n):
        if f[q] + b * q > top:
            top = f[q] + b * q
            best = q
    for p in range(m):
        values[p] = _at(f[best], a, b, p + shift - best)
        argmax[p] = best


cdef void transpose(int m, int n, const number* A, number* B) noexcept nogil:
    cdef int i, j, low, high
    # columns are copied in groups of eight, a cache line of doubles, so that each line of A and B is loaded once
    for low in range(0, n, 8):
        high = min(n, low + 8)
        for i in range(m):
            for j in range(low, high):
                B[<Py_ssize_t>j * m + i] = A[<Py_ssize_t>i * n + j]


def transform_lines(const double[:, ::1] f, double a, double b, double[:, ::1] values, int[:, ::1] argmax):
    """Transform every row of f."""
    cdef int n = <int>f.shape[1]
    cdef Py_ssize_t i
    cdef double[::1] inverse = np.empty(n), z = np.empty(n)
    cdef int[::1] hull = np.empty(n, np.int32)
    with nogil:
        reciprocals(n, a, &inverse[0])
        for i in range(f.shape[0]):
            line_transform(n, &f[i, 0], a, b, &inverse[0], n, 0.0, &values[i, 0], &argmax[i, 0], &hull[0], &z[0])


def transform_maps(const double[:, :, ::1] f, const double[::1] a, const double[::1] b, double[:, :, ::1] values,
                   int[:, :, ::1] argmax):
    """Transform every map f[i] (H, W): first its rows, then its columns, which are rows of the transposed map."""
    cdef int height = <int>f.shape[1], width = <int>f.shape[2], x, y, longest = max(height, width)
    cdef Py_ssize_t i, e
    cdef double[::1] inverse_y = np.empty(height), inverse_x = np.empty(width), z = np.empty(longest)
    cdef double[:, ::1] rows = np.empty((height, width)), turned = np.empty((width, height))
    cdef double[:, ::1] columns = np.empty((width, height))
    cdef int[:, ::1] row_of = np.empty((width, height), np.int32), column_of = np.empty((height, width), np.int32)
    cdef int[:, ::1] row_at = np.empty((height, width), np.int32)
    cdef int[::1] hull = np.empty(longest, np.int32)
    with nogil:
        reciprocals(height, a[0], &inverse_y[0])
        reciprocals(width, a[1], &inverse_x[0])
        for i in range(f.shape[0]):
            for y in range(height):
                line_transform(width, &f[i, y, 0], a[1], b[1], &inverse_x[0], width, 0.0, &rows[y, 0],
                               &column_of[y, 0], &hull[0], &z[0])
            transpose(height, width, &rows[0, 0], &turned[0, 0])
            for x in range(width):
                line_transform(height, &turned[x, 0], a[0], b[0], &inverse_y[0], height, 0.0, &columns[x, 0],
                               &row_of[x, 0], &hull[0], &z[0])
            transpose(width, height, &columns[0, 0], &values[i, 0, 0])
            transpose(width, height, &row_of[0, 0], &row_at[0, 0])
            for y in range(height):
                for x in range(width):
                    e = row_at[y, x]
                    argmax[i, y, x] = <int>(e * width + column_of[e, x])
