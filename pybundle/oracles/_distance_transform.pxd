ctypedef fused number:
    int
    double

# values[p] = max_q f[q] - a d^2 - b d,  d = p + shift - q,  p = 0..m-1,  q = 0..n-1; the smallest q of a tie.
# a may have any sign, f may hold -inf. inverse[k] = 1 / (2 |a| k), k = 1..n-1, from `reciprocals`. argmax[p] = 0 if
# all of f is -inf. Scratch: hull (n,), z (n,). Values are recomputed at argmax[p] by the formula above, left to right.
cdef void line_transform(int n, const double* f, double a, double b, const double* inverse, int m, double shift,
                         double* values, int* argmax, int* hull, double* z) noexcept nogil

# Sets inverse (n,) for line_transform.
cdef void reciprocals(int n, double a, double* inverse) noexcept nogil

# B (n, m) = A' for A (m, n)
cdef void transpose(int m, int n, const number* A, number* B) noexcept nogil
