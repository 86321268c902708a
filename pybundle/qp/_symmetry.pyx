"""Measure the asymmetry of a matrix in one pass over its memory."""

import numpy as np

cdef extern from "_kernels.h" nogil:
    double pb_two_products(int n, const double* row, const double* p, double weight, double* out)


def asymmetry(const double[:, :] H):
    """Return max |H p - H'p| for a fixed p without zeros; NaN if an entry is not finite.

    It is rounding if H is symmetric. H (m, m) has contiguous rows; one pass computes both products.
    """
    cdef Py_ssize_t m = H.shape[0], ld, i
    probe = 1.0 + 0.5 * np.cos(np.arange(m) ** 1.5)
    left, right = np.zeros(m), np.empty(m)
    cdef const double[::1] p = probe
    cdef double[::1] out = left, total = right
    if m == 0:
        return 0.0
    ld = H.strides[0] // 8
    with nogil:
        for i in range(m):
            total[i] = pb_two_products(<int>m, &H[0, 0] + i * ld, &p[0], p[i], &out[0])
    return np.abs(left - right).max()
