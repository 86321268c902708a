# Arc marginals (n, n) and log partition function of spanning arborescences.
#   scores (n, n) row-major, n >= 2; column 0 and the diagonal are not used; scratch: n (2 n + 4) doubles
#   entropy: NULL, or receives a lower bound on the entropy: `error` of `tree_errors` and roundings are subtracted
# Returns 1 for success; 0 if no tree has a weight above 0 or scores are out of range; 2 if scores spread so far that
# logarithms were used: errors of the marginals then have no bound, and marginals are computed only if entropy is NULL.
cdef int tree_marginals(int n, const double* s, bint single_root, double* out, double* log_partition, double* scratch,
                        double error, double* entropy) noexcept nogil
