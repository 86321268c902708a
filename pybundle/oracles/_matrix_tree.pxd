# Arc marginals (n, n) and log partition function of spanning arborescences.
#   scores (n, n) row-major, n >= 2; column 0 and the diagonal are not used; scratch: n (2 n + 4) doubles
#   entropy: NULL, or receives that of the distribution or less: `error` of `tree_errors` and roundings are taken off
# Returns 1; 2 where the scores spread so far that logarithms were needed: marginals have no bound on their errors
# then, and are made only where no entropy is wanted; 0 where no tree has weight, or scores are out of range
cdef int tree_marginals(int n, const double* s, bint single_root, double* out, double* log_partition, double* scratch,
                        double error, double* entropy) noexcept nogil
