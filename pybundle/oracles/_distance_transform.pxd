ctypedef fused number:
    int
    double

# For p = 0..m-1 computes values[p] = max_q f[q] - a d^2 - b d with d = p + shift - q and q = 0..n-1. argmax[p] is the
# smallest q of the maximum, or 0 if all of f is -inf. a may have any sign, and f may hold -inf. `reciprocals` sets
# inverse[k] = 1 / (2 |a| k) for k = 1..n-1. hull and z (n,) are scratch. The values are computed again at argmax[p] by
# the formula above, from left to right.
cdef void line_transform(int n, const double* f, double a, double b, const double* inverse, int m, double shift,
                         double* values, int* argmax, int* hull, double* z) noexcept nogil

# Sets inverse (n,) for line_transform.
cdef void reciprocals(int n, double a, double* inverse) noexcept nogil

# Sets B (n, m) to the transpose of A (m, n)
cdef void transpose(int m, int n, const number* A, number* B) noexcept nogil
