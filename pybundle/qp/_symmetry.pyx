"""How far a matrix is from symmetric, in one reading of it from memory."""

import numpy as np


def asymmetry(const double[:, :] H):
    """max |H p - H'p| for a fixed p without zeros: rounding for a symmetric H; NaN where an entry is not finite.

    H (m, m) has contiguous rows. Both products come out of one pass, row after row.
    """
    cdef Py_ssize_t m = H.shape[0], ld, i, j
    probe = 1.0 + 0.5 * np.cos(np.arange(m) ** 1.5)
    left, right = np.zeros(m), np.empty(m)
    cdef const double[::1] p = probe
    cdef double[::1] out = left, total = right
    cdef const double* row
    cdef double sum_, weight
    if m == 0:
        return 0.0
    ld = H.strides[0] // 8
    with nogil:
        for i in range(m):
            row = &H[0, 0] + i * ld
            weight = p[i]
            sum_ = 0.0
            for j in range(m):
                sum_ = sum_ + row[j] * p[j]
                out[j] = out[j] + weight * row[j]
            total[i] = sum_
    return np.abs(left - right).max()
