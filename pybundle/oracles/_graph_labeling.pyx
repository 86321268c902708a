"""Labels and relaxed points of a batch of graphs: allocates memory and calls the kernels for each graph."""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

from ._graphcut cimport cut_graphs, pb_labelling

cdef extern from "_graph_relaxation.h" nogil:
    ctypedef struct pb_scores:
        int K, n, m, shared
        const double* unaries
        const int64_t* edges
        const double* tables
        double* messages
    ctypedef struct pb_graph:
        double* best_d
    ctypedef struct pb_soft:
        pass
    ctypedef struct pb_search:
        int* labels
        int* trial
        double upper
    size_t pb_graph_layout(pb_graph*, char*, int, size_t, size_t, int)
    size_t pb_soft_layout(pb_soft*, char*, int, size_t, size_t)
    void pb_graph_load(pb_graph*, const pb_scores*)
    void pb_hard_search(pb_graph*, pb_search*, double, int, double)
    void pb_soft_search(const pb_graph*, pb_soft*, pb_search*, double, int)
    void pb_store_messages(pb_graph*, const pb_scores*, const double*)
    void pb_store_point(const pb_graph*, const pb_soft*, const pb_scores*, double*, double*, double*)
    double pb_given_score(const pb_scores*, const int*)
    double pb_bound(const pb_graph*)
    int pb_submodular(const pb_scores*, double*)

cdef enum:
    FIND_BOUND, FIND_LABELS, FIND_POINTS
BOUND, LABELS, POINTS = FIND_BOUND, FIND_LABELS, FIND_POINTS
"""What `solve` computes: only the bound of the given messages, or labellings, or points of the local polytope."""

# A sweep of max-sum that closes a smaller share of the gap is the last one. Points go on with soft sweeps, after at
# most MOST_SWEEPS; these close the gap faster, but take three times as long.
cdef double LEAST_SHARE = 0.002, LEAST_SHARE_OF_POINTS = 0.03
cdef int MOST_SWEEPS = 30


cdef struct Output:
    int* labels        # (N,), of LABELS
    double* nodes      # (N, K), of POINTS
    double* tables     # (M, K, K), of POINTS
    double* values     # (n_graphs,)
    double* uppers


cdef int cut_graph(const pb_scores* s, double* tables, unsigned char* ones, int* labels, double* value,
                   double* upper) noexcept nogil:
    """Label one graph of two labels by a minimum cut; tables (m, 2, 2) are submodular."""
    cdef pb_labelling problem
    cdef int64_t[2] nodes = [0, s.n]
    cdef int64_t[2] edges = [0, s.m]
    cdef int64_t[3] error
    cdef int v, status
    problem.unary, problem.pairs, problem.edges = s.unaries, tables, s.edges
    problem.two_unaries = problem.tables = problem.wide = True
    status = cut_graphs(&problem, nodes, edges, 0, 1, ones, value, upper, error)
    for v in range(s.n):
        labels[v] = ones[v]
    return status


cdef int solve_graphs(const pb_scores* batch, const int64_t* nodes, const int64_t* edges, Py_ssize_t first,
                      Py_ssize_t last, int task, const double* tol, int sweeps, Output out) noexcept nogil:
    cdef Py_ssize_t i, v, most_nodes = 0, most_edges = 0, K = batch.K
    cdef size_t size, soft_size = 0
    cdef pb_graph g
    cdef pb_soft f
    cdef pb_search best
    cdef pb_scores s = batch[0]
    cdef int status = 0
    for i in range(first, last):
        most_nodes = max(most_nodes, nodes[i + 1] - nodes[i])
        most_edges = max(most_edges, edges[i + 1] - edges[i])
    size = pb_graph_layout(&g, NULL, s.K, most_nodes, most_edges, s.shared)
    if task == FIND_POINTS:
        soft_size = pb_soft_layout(&f, NULL, s.K, most_nodes, most_edges)
    cdef char* memory = <char*>malloc(size + soft_size + 2 * most_nodes * sizeof(int) + 64)
    if memory == NULL:
        return -2
    pb_graph_layout(&g, memory, s.K, most_nodes, most_edges, s.shared)
    if task == FIND_POINTS:
        pb_soft_layout(&f, memory + size, s.K, most_nodes, most_edges)
    best.labels = <int*>(memory + size + soft_size)
    best.trial = best.labels + most_nodes
    for i in range(first, last):
        s.n, s.m = <int>(nodes[i + 1] - nodes[i]), <int>(edges[i + 1] - edges[i])
        s.unaries = batch.unaries + nodes[i] * K
        s.edges = batch.edges + 2 * edges[i]
        s.tables = batch.tables if s.shared else batch.tables + edges[i] * K * K
        s.messages = NULL if batch.messages == NULL else batch.messages + 2 * edges[i] * K
        if task == FIND_LABELS and K == 2 and pb_submodular(&s, <double*>memory):
            status = cut_graph(&s, <double*>memory, <unsigned char*>best.labels, out.labels + nodes[i], out.values + i,
                               out.uppers + i)
            if status == 0:
                continue
            if status == -2:
                break
            status = 0          # a table just below submodular: messages label the graph
        pb_graph_load(&g, &s)
        if task == FIND_BOUND:
            out.uppers[i] = pb_bound(&g)
            continue
        if task == FIND_LABELS:
            pb_hard_search(&g, &best, tol[i], sweeps, LEAST_SHARE)
            for v in range(s.n):
                out.labels[nodes[i] + v] = best.labels[v]
            out.values[i] = pb_given_score(&s, best.labels)
        else:
            pb_hard_search(&g, &best, tol[i], min(sweeps, MOST_SWEEPS), LEAST_SHARE_OF_POINTS)
            pb_soft_search(&g, &f, &best, tol[i], sweeps)
            pb_store_point(&g, &f, &s, out.nodes + nodes[i] * K, out.tables + edges[i] * K * K, out.values + i)
        out.uppers[i] = max(best.upper, out.values[i])
        if s.messages != NULL:
            pb_store_messages(&g, &s, g.best_d)
    free(memory)
    return status


def solve(int task, const double[:, ::1] unaries, const int64_t[:, ::1] edges, const double[:, :, ::1] tables,
          bint shared, const int64_t[::1] node_offsets, const int64_t[::1] edge_offsets, Py_ssize_t first,
          Py_ssize_t last, const double[::1] tol, int sweeps, double[::1] uppers, double[:, :, ::1] messages=None,
          double[::1] values=None, int[::1] labels=None, double[:, ::1] nodes=None, double[:, :, ::1] points=None):
    """Do the `task` for the graphs first..last - 1 of a batch of checked arrays, and update messages in place."""
    cdef pb_scores s
    cdef Output out
    cdef int status
    if first >= last:
        return
    s.K, s.shared = <int>unaries.shape[1], shared
    s.unaries = &unaries[0, 0] if unaries.shape[0] else NULL
    s.edges = &edges[0, 0] if edges.shape[0] else NULL
    s.tables = &tables[0, 0, 0] if tables.shape[0] else NULL
    s.messages = &messages[0, 0, 0] if messages is not None and messages.shape[0] else NULL
    out.values = &values[0] if values is not None else NULL
    out.labels = &labels[0] if labels is not None and labels.shape[0] else NULL
    out.nodes = &nodes[0, 0] if nodes is not None and nodes.shape[0] else NULL
    out.tables = &points[0, 0, 0] if points is not None and points.shape[0] else NULL
    out.uppers = &uppers[0]
    with nogil:
        status = solve_graphs(&s, &node_offsets[0], &edge_offsets[0], first, last, task, &tol[0], sweeps, out)
    if status == -2:
        raise MemoryError("not enough memory for the largest graph")
