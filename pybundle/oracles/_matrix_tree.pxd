# Computes arc marginals (n, n) and the log partition function of spanning arborescences. scores (n, n), n >= 2, is
# row-major; column 0 and the diagonal are not read. scratch holds n (2 n + 4) doubles. entropy is NULL or receives a
# lower bound on the entropy: `error`, from `tree_errors`, and the roundings are subtracted. Returns 1 for success, and
# 0 if no tree has a weight above 0 or scores are out of range. Returns 2 if scores spread so far that logarithms were
# used. Then the errors of the marginals have no bound, and the marginals are computed only if entropy is NULL.
cdef int tree_marginals(int n, const double* s, bint single_root, double* out, double* log_partition, double* scratch,
                        double error, double* entropy) noexcept nogil
