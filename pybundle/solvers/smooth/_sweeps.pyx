"""Coordinate descent on a quadratic function with l1 norms and bounds, and Gram matrices of weighted sparse rows.

A step from the value z of one coordinate minimises `g (x - z) + h/2 (x - z)^2 + l1 |x|` over lower <= x <= upper; g and
h are the first and second derivative of the quadratic function along this coordinate.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint64_t

GROUP_OF_SUMS = 128
cdef int64_t GROUP = GROUP_OF_SUMS


cdef inline double step(double* z, double g, double h, double l1, double lower, double upper) noexcept nogil:
    """Replace z by the minimiser x; return `x - z`."""
    cdef double old = z[0], v = h * old - g, x
    x = (v - l1) / h if v > l1 else (v + l1) / h if v < -l1 else 0.0
    z[0] = min(max(x, lower), upper)
    return z[0] - old


def sweep_gram(const double[:, ::1] H, double[::1] z, double[::1] g, const double[::1] l1, const double[::1] lower,
               const double[::1] upper):
    """Minimise over each coordinate once, in order; update z and the gradient g (m,) for the Hessian H (m, m). O(m^2).
    """
    cdef Py_ssize_t j, k, m = H.shape[0]
    cdef double d
    if H.shape[1] != m or not m == z.shape[0] == g.shape[0] == l1.shape[0] == lower.shape[0] == upper.shape[0]:
        raise ValueError(f"H must have shape ({m}, {m}), and the vectors {m} entries")
    with nogil:
        for k in range(m):
            if H[k, k] > 0.0:
                d = step(&z[k], g[k], H[k, k], l1[k], lower[k], upper[k])
                if d != 0.0:
                    for j in range(m):
                        g[j] += d * H[k, j]


def descend(const double[::1] data, const int32_t[::1] indices, const int64_t[::1] indptr, int32_t[::1] columns,
            const double[::1] weights, const double[::1] means, const double[::1] moduli, double[::1] z,
            const double[::1] g, const double[::1] l1, const double[::1] lower, const double[::1] upper, double goal,
            int most, uint64_t seed):
    """Sweep over `columns` in random order until their violations of optimality sum to at most `goal`.

    At most `most` sweeps are made. The Hessian is `A' diag(weights) A + diag(moduli)`, where A (n, m) is a CSC matrix
    with the means subtracted from its columns; g is the gradient at the initial z. A coordinate is skipped while it is
    at a kink or bound and F rises on both sides at a rate above 1/n of the largest violation in the last sweep; once
    the other coordinates meet the goal, all take part again. Returns the product of A with the change of z, the number
    of entries read, and whether the goal is met.
    """
    cdef Py_ssize_t j, k, r, n = weights.shape[0], m = z.shape[0], n_all = columns.shape[0], n_active = n_all
    cdef int64_t q, n_read = 0
    cdef int32_t i
    cdef int n_sweeps = 0
    cdef bint is_done = False
    cdef double d, slope, left, right, a, violation, rest, largest, total = 0.0, shift = 0.0, moved = 0.0
    cdef double firm = INFINITY
    cdef double[::1] h = np.empty(m), sums = np.empty(m), first = np.array(z), u = np.zeros(n)
    if (indptr.shape[0] != m + 1 or indices.shape[0] != data.shape[0]
            or not m == means.shape[0] == moduli.shape[0] == g.shape[0] == l1.shape[0] == lower.shape[0]
            == upper.shape[0]):
        raise ValueError(f"vectors must have {m} entries")
    with nogil:
        for i in range(n):
            total += weights[i]
        for j in range(n_all):
            k = columns[j]
            h[k] = sums[k] = 0.0
            for q in range(indptr[k], indptr[k + 1]):
                a = data[q] * weights[indices[q]]
                sums[k] += a
                h[k] += a * data[q]
            h[k] = max(h[k] + means[k] * (means[k] * total - 2.0 * sums[k]) + moduli[k], 1e-300)
        while n_sweeps < most:
            n_sweeps += 1
            rest = largest = 0.0
            j = 0
            while j < n_active:
                seed ^= seed << 13
                seed ^= seed >> 7
                seed ^= seed << 17
                r = j + <Py_ssize_t>((seed >> 11) % <uint64_t>(n_active - j))
                k = columns[r]
                columns[r] = columns[j]
                columns[j] = <int32_t>k
                slope = g[k] + moduli[k] * (z[k] - first[k]) + shift * sums[k] - means[k] * moved
                for q in range(indptr[k], indptr[k + 1]):
                    i = indices[q]
                    slope += data[q] * weights[i] * u[i]
                n_read += indptr[k + 1] - indptr[k]
                right = INFINITY if z[k] >= upper[k] else slope + (l1[k] if z[k] >= 0.0 else -l1[k])
                left = -INFINITY if z[k] <= lower[k] else slope + (l1[k] if z[k] > 0.0 else -l1[k])
                if min(right, -left) > firm:
                    n_active -= 1
                    columns[j] = columns[n_active]
                    columns[n_active] = <int32_t>k
                    continue
                violation = max(max(left, -right), 0.0)
                rest += violation
                largest = max(largest, violation)
                d = step(&z[k], slope, h[k], l1[k], lower[k], upper[k]) if violation > 0.0 else 0.0
                if d != 0.0:
                    shift -= d * means[k]
                    moved += d * (sums[k] - means[k] * total)
                    for q in range(indptr[k], indptr[k + 1]):
                        u[indices[q]] += d * data[q]
                j += 1
            firm = largest / n
            if rest <= goal:
                if n_active == n_all:
                    is_done = True
                    break
                n_active, firm = n_all, INFINITY
        for i in range(n):
            u[i] += shift
    return np.asarray(u), n_read, is_done


def column_sums(const double[::1] data, const int32_t[::1] indices, const int64_t[::1] indptr, const double[::1] v,
                double[::1] out):
    """Set out (m,) to the products of the columns of a CSC matrix with v.

    Groups of at most GROUP products are summed, and then the sums of the groups, which keeps rounding errors small.
    """
    cdef Py_ssize_t k, m = out.shape[0]
    cdef int64_t q, start
    cdef double total, part
    if indptr.shape[0] != m + 1 or indices.shape[0] != data.shape[0]:
        raise ValueError(f"the matrix must have {m} columns")
    with nogil:
        for k in range(m):
            total, start = 0.0, indptr[k]
            while start < indptr[k + 1]:
                part = 0.0
                for q in range(start, min(start + GROUP, indptr[k + 1])):
                    part += data[q] * v[indices[q]]
                total += part
                start += GROUP
            out[k] = total


def add_gram(const double[::1] data, const int32_t[::1] indices, const int64_t[::1] indptr, const double[::1] weights,
             double[:, ::1] H, double[::1] diagonal):
    """Add `sum_i weights_i x_i x_i'` over the rows of a CSR matrix to the matrix `H + H' + diag(diagonal)`."""
    cdef Py_ssize_t i, n = weights.shape[0]
    cdef int64_t q, r
    cdef int32_t j
    cdef double a
    if indptr.shape[0] != n + 1 or H.shape[0] != H.shape[1] or diagonal.shape[0] != H.shape[0]:
        raise ValueError(f"the matrix must have {n} rows, and H must be square like diagonal")
    with nogil:
        for i in range(n):
            if weights[i] == 0.0:
                continue
            for q in range(indptr[i], indptr[i + 1]):
                j, a = indices[q], weights[i] * data[q]
                diagonal[j] += a * data[q]
                for r in range(indptr[i], q):
                    H[j, indices[r]] += a * data[r]
