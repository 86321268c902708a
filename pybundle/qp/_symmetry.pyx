"""How far a matrix is from symmetric, in one reading of it."""

from libc.math cimport fabs

cdef enum:
    TILE = 32       # two tiles of float64 stay in the first cache


def asymmetry(const double[:, :] H):
    """max |H_ij - H_ji| of a square matrix with contiguous rows; NaN where an entry is not finite."""
    cdef Py_ssize_t m = H.shape[0], ld, i, j, i0, j0
    cdef double worst = 0.0, sum_ = 0.0, tile, difference
    cdef const double* a
    cdef const double* b
    if m == 0:
        return 0.0
    ld = H.strides[0] // 8
    a = &H[0, 0]
    with nogil:
        for i0 in range((m + TILE - 1) // TILE):
            for j0 in range(i0 + 1):
                tile = 0.0
                for i in range(TILE * i0, min(TILE * i0 + TILE, m)):
                    b = a + i
                    for j in range(TILE * j0, min(TILE * j0 + TILE, i + 1)):
                        difference = a[i * ld + j] - b[j * ld]
                        tile = max(tile, fabs(difference))
                        sum_ += 0.0 * difference            # NaN as soon as one is infinite or NaN
                worst = max(worst, tile)
    return worst + sum_
