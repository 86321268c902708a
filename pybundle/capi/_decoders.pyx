"""The decoders of `pybundle.h`: each checks its arguments, allocates scratch and calls a kernel, without the GIL."""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc

from pybundle.oracles._arborescence cimport FOUND, max_tree, tree_scratch
from pybundle.oracles._chain cimport best_labelling, chain_marginals
from pybundle.oracles._graphcut cimport cut_graphs, pb_labelling
from pybundle.oracles._matrix_tree cimport tree_marginals

cdef extern from "pybundle.h" nogil:
    int PB_OK, PB_PARAMETER, PB_MEMORY

cdef int64_t LONGEST = 2**31 - 1, MOST_WORDS = 29999, LARGEST_GRAPH = 1 << 29


cdef bint are_scores(int64_t n, const double* scores) noexcept nogil:
    """Return whether n scores are finite or -inf; NULL stands for n zeros."""
    cdef int64_t k
    if scores != NULL:
        for k in range(n):
            if not scores[k] < INFINITY:
                return False
    return True


cdef int chain_code(int found) noexcept nogil:
    return PB_OK if found == 1 else PB_MEMORY if found < 0 else PB_PARAMETER


cdef bint is_chain(int64_t length, int64_t n_labels, const double* unary, const double* transition,
                   const double* start, const double* end) noexcept nogil:
    return (1 <= length <= LONGEST and 1 <= n_labels <= 46340 and unary != NULL and transition != NULL
            and are_scores(n_labels * n_labels, transition) and are_scores(n_labels, start)
            and are_scores(n_labels, end))


cdef int viterbi(int64_t length, int64_t n_labels, const double* unary, const double* transition, const double* start,
                 const double* end, int32_t* labelling, double* value) noexcept nogil:
    if labelling == NULL or value == NULL or not is_chain(length, n_labels, unary, transition, start, end):
        return PB_PARAMETER
    return chain_code(best_labelling(length, n_labels, unary, transition, start, end, labelling, value))


cdef int forward_backward(int64_t length, int64_t n_labels, const double* unary, const double* transition,
                          const double* start, const double* end, double* log_partition, double* nodes, double* pairs,
                          double* entropy) noexcept nogil:
    cdef double found[2]
    cdef int code
    if (log_partition == NULL or nodes == NULL or pairs == NULL
            or not is_chain(length, n_labels, unary, transition, start, end)):
        return PB_PARAMETER
    code = chain_code(chain_marginals(length, n_labels, unary, transition, start, end, log_partition, nodes, pairs,
                                      NULL if entropy == NULL else found))
    if entropy != NULL and code == PB_OK:
        entropy[0] = found[0]
    return code


cdef int max_arborescence(int64_t n_words, const double* scores, int32_t single_root, int32_t* heads,
                          double* value) noexcept nogil:
    cdef int n, status
    cdef void* scratch
    if not 1 <= n_words <= MOST_WORDS or scores == NULL or heads == NULL or value == NULL:
        return PB_PARAMETER
    n = <int>n_words + 1
    scratch = malloc(tree_scratch(n))
    if scratch == NULL:
        return PB_MEMORY
    status = max_tree(n, scores, single_root != 0, <int*>heads, value, scratch)
    free(scratch)
    return PB_OK if status == FOUND else PB_PARAMETER


cdef int arborescence_marginals(int64_t n_words, const double* scores, int32_t single_root, double* marginals,
                                double* log_partition) noexcept nogil:
    cdef int64_t h, m
    cdef int n, found
    cdef double* scratch
    if not 1 <= n_words <= MOST_WORDS or scores == NULL or marginals == NULL or log_partition == NULL:
        return PB_PARAMETER
    n = <int>n_words + 1
    for h in range(n):
        for m in range(1, n):
            if h != m and not scores[h * n + m] <= 1e300:
                return PB_PARAMETER
    scratch = <double*>malloc(sizeof(double) * <size_t>n * (2 * n + 4))
    if scratch == NULL:
        return PB_MEMORY
    found = tree_marginals(n, scores, single_root != 0, marginals, log_partition, scratch, 0.0, NULL)
    free(scratch)
    return PB_OK if found else PB_PARAMETER


cdef int min_cut(int64_t n_nodes, int64_t n_edges, const double* unary, const int32_t* edges, const double* weights,
                 const double* tables, uint8_t* labels, double* value, double* upper) noexcept nogil:
    cdef int64_t node_offsets[2]
    cdef int64_t edge_offsets[2]
    cdef int64_t error[3]
    cdef pb_labelling problem
    cdef int status
    if (not 1 <= n_nodes <= LARGEST_GRAPH or not 0 <= n_edges <= LARGEST_GRAPH or unary == NULL or labels == NULL
            or value == NULL or upper == NULL):
        return PB_PARAMETER
    if n_edges > 0 and (edges == NULL or (weights == NULL) == (tables == NULL)):
        return PB_PARAMETER
    problem.unary, problem.edges, problem.pairs = unary, edges, weights if tables == NULL else tables
    problem.two_unaries, problem.tables, problem.wide = 1, tables != NULL, 0
    node_offsets[0] = edge_offsets[0] = 0
    node_offsets[1], edge_offsets[1] = n_nodes, n_edges
    status = cut_graphs(&problem, node_offsets, edge_offsets, 0, 1, labels, value, upper, error)
    return PB_OK if status == 0 else PB_MEMORY if status == -2 else PB_PARAMETER
