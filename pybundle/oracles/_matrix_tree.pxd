# Arc marginals (n, n) and log partition function of spanning arborescences.
#   scores (n, n) row-major, n >= 2; column 0 and the diagonal are not used; scratch: n (n + 4) doubles
# False where no tree has weight, or the scores spread too far for float64
cdef bint tree_marginals(int n, const double* s, bint single_root, double* out, double* log_partition,
                         double* scratch) noexcept nogil
