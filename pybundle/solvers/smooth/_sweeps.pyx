"""Coordinate descent on a quadratic function with l1 norms and bounds, and Gram matrices of weighted sparse rows.

One step on coordinate k minimises `g (x - z) + h/2 (x - z)^2 + l1 |x|` over lower <= x <= upper.
"""

from libc.stdint cimport int32_t, int64_t


cdef inline double step(double* z, double g, double h, double l1, double lower, double upper) noexcept nogil:
    """Minimise along the coordinate of z; return the change of z."""
    cdef double old = z[0], v = h * old - g, x
    x = (v - l1) / h if v > l1 else (v + l1) / h if v < -l1 else 0.0
    z[0] = min(max(x, lower), upper)
    return z[0] - old


def sweep_gram(const double[:, ::1] H, double[::1] z, double[::1] g, const double[::1] l1, const double[::1] lower,
               const double[::1] upper):
    """Minimise over one coordinate after the other; z and the gradient g (m,) follow. H (m, m), O(m^2)."""
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


def sweep_columns(const double[::1] data, const int32_t[::1] indices, const int64_t[::1] indptr,
                  const double[::1] weights, const double[::1] means, const double[::1] sums, const double[::1] h,
                  double[::1] z, const double[::1] g, const double[::1] l1, const double[::1] lower,
                  const double[::1] upper, double[::1] u):
    """The same for H = A' diag(weights) A + diag(moduli), A the columns of a CSC matrix minus their means: O(nnz).

    `sums` are the products of the columns with the weights, h is the diagonal of H, and g stays the gradient at the
    first z. u (n,), zeros, becomes the product of the columns without means with the change of z.
    """
    cdef Py_ssize_t k, m = z.shape[0]
    cdef int64_t q
    cdef int32_t i
    cdef double d, slope, total = 0.0, shift = 0.0, moved = 0.0
    if (indptr.shape[0] != m + 1 or weights.shape[0] != u.shape[0] or indices.shape[0] != data.shape[0]
            or not m == means.shape[0] == sums.shape[0] == h.shape[0] == g.shape[0] == l1.shape[0] == lower.shape[0]
            == upper.shape[0]):
        raise ValueError(f"vectors must have {m} entries, and u as many as weights")
    with nogil:
        for k in range(u.shape[0]):
            total += weights[k]
        for k in range(m):
            if h[k] <= 0.0:
                continue
            slope = shift * sums[k] - means[k] * moved
            for q in range(indptr[k], indptr[k + 1]):
                i = indices[q]
                slope += data[q] * weights[i] * u[i]
            d = step(&z[k], g[k] + slope, h[k], l1[k], lower[k], upper[k])
            if d != 0.0:
                shift -= d * means[k]
                moved += d * (sums[k] - means[k] * total)
                for q in range(indptr[k], indptr[k + 1]):
                    u[indices[q]] += d * data[q]


def add_gram(const double[::1] data, const int32_t[::1] indices, const int64_t[::1] indptr, const double[::1] weights,
             double[:, ::1] H, double[::1] diagonal):
    """Add `sum_i weights_i x_i x_i'` of the rows of a CSR matrix, as H + H' + diag(diagonal)."""
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
