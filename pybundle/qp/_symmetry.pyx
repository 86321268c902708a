"""How far a matrix is from symmetric, in one reading of it from memory."""

import numpy as np

cdef extern from "_kernels.h" nogil:
    double pb_two_products(int n, const double* row, const double* p, double weight, double* out)


def asymmetry(const double[:, :] H):
    """max |H p - H'p| for a fixed p without zeros: rounding for a symmetric H; NaN if an entry is not finite.

    H (m, m) has contiguous rows. Both products come out of one pass, row after row.
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
