"""Loops over groups: norms, scaling, and the prox of one overlapping group after another.

Group g holds the entries `offsets[g]..offsets[g + 1] - 1` of a vector in the order of the groups, or of a list of
indices. Norms neither overflow nor underflow: if the plain sum of squares is near the range of float64, it is computed
again in units of the largest entry.
"""

from libc.math cimport fabs, isfinite, sqrt

import numpy as np

# A sum of squares between these numbers has full accuracy.
cdef double LEAST = 1e-280, LARGEST = 1e300


cdef double _norm(const double* x, Py_ssize_t n) noexcept nogil:
    cdef double total = 0.0, largest = 0.0, unit
    cdef Py_ssize_t i
    if n == 1:
        return fabs(x[0])
    for i in range(n):
        total += x[i] * x[i]
    if LEAST < total < LARGEST:
        return sqrt(total)
    for i in range(n):
        largest = max(largest, fabs(x[i]))
    if largest == 0.0 or not isfinite(largest):
        return largest
    # scale in two steps, because the reciprocal of a denormal number would be infinite
    unit = 1e290 if largest < 1e-290 else 1.0
    largest *= unit
    total = 0.0
    for i in range(n):
        total += (x[i] * unit / largest) * (x[i] * unit / largest)
    return largest * sqrt(total) / unit


def group_norms(const double[::1] x, const Py_ssize_t[::1] offsets, double[::1] out):
    """Compute `out[g] = |x_g|`."""
    cdef Py_ssize_t g
    with nogil:
        for g in range(out.shape[0]):
            out[g] = _norm(&x[0] + offsets[g], offsets[g + 1] - offsets[g])


def group_scale(const double[::1] x, const Py_ssize_t[::1] offsets, const double[::1] factors, double[::1] out):
    """Compute `out_g = factors[g] x_g`; out may be x."""
    cdef Py_ssize_t g, i
    with nogil:
        for g in range(factors.shape[0]):
            for i in range(offsets[g], offsets[g + 1]):
                out[i] = factors[g] * x[i] if factors[g] != 0.0 else 0.0     # no negative zeros


def shrink_in_turn(double[::1] z, const Py_ssize_t[::1] indices, const Py_ssize_t[::1] offsets,
                   const double[::1] radii, double[::1] v):
    """Sweep over the groups: `v_g = projection of z_g + v_g onto the ball of radii[g]`, `z_g += v_g(old) - v_g`.

    From v = 0, one sweep applies the prox of one group after another. Repeated sweeps are block coordinate ascent in
    the dual of the prox of the sum (Jenatton et al. 2011, Algorithm 1). Groups of radius 0 are skipped.

    Parameters
    ----------
    z : (d,)
        x minus the sum of all v_g; changed in place.
    v : (sum of sizes,)
        Multipliers, in the order of `indices`; changed in place.
    """
    cdef Py_ssize_t g, k, start, size, longest = 0
    cdef double norm, fraction
    for g in range(radii.shape[0]):
        longest = max(longest, offsets[g + 1] - offsets[g])
    cdef double[::1] x = np.empty(longest)
    with nogil:
        for g in range(radii.shape[0]):
            if radii[g] == 0.0:
                continue
            start, size = offsets[g], offsets[g + 1] - offsets[g]
            for k in range(size):
                x[k] = z[indices[start + k]] + v[start + k]
            norm = _norm(&x[0], size)
            if norm <= radii[g]:
                for k in range(size):
                    v[start + k] = x[k]
                    z[indices[start + k]] = 0.0
            else:
                fraction = radii[g] / norm
                for k in range(size):
                    v[start + k] = fraction * x[k]
                    z[indices[start + k]] = (1.0 - fraction) * x[k]


def first_crossing(const Py_ssize_t[::1] indices, const Py_ssize_t[::1] offsets, Py_ssize_t dim):
    """Return the first two groups that overlap though neither holds the other; (-1, -1) if the groups form a tree.

    Groups come in order of size. `last[k]` is the latest group that holds feature k; in a tree, the next group with
    this feature holds all of `last[k]`.
    """
    cdef Py_ssize_t[::1] last = np.full(dim, -1, dtype=np.intp)
    cdef Py_ssize_t[::1] seen = np.zeros(max(len(offsets) - 1, 1), dtype=np.intp)
    cdef Py_ssize_t g, k, h
    for g in range(offsets.shape[0] - 1):
        for k in range(offsets[g], offsets[g + 1]):
            if last[indices[k]] >= 0:
                seen[last[indices[k]]] += 1
        for k in range(offsets[g], offsets[g + 1]):
            h = last[indices[k]]
            if h >= 0 and seen[h] != offsets[h + 1] - offsets[h]:
                return h, g
        for k in range(offsets[g], offsets[g + 1]):
            last[indices[k]] = g
    return -1, -1
