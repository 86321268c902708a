"""Labels and relaxed points of a batch of graphs: allocates memory and calls the kernels for each graph."""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from ._graphcut cimport cut_graphs, pb_labelling

cdef extern from "_graph_relaxation.h" nogil:
    ctypedef struct pb_graph:
        int K, width, n, m
        const int64_t* ends
        double* best_d
        int* labels
        double* point[2]
        double value, upper
    const double PB_ONE
    size_t pb_graph_layout(pb_graph*, char*, int, size_t, size_t, int)
    void pb_graph_load(pb_graph*, const double*, const double*, Py_ssize_t, const double*)
    void pb_hard_search(pb_graph*, double, int, double)
    void pb_soft_search(pb_graph*, double, int)
    double pb_bound(const pb_graph*)

cdef enum:
    FIND_BOUND, FIND_LABELS, FIND_POINTS
BOUND, LABELS, POINTS = FIND_BOUND, FIND_LABELS, FIND_POINTS
"""What `solve` computes: the bound of the given messages alone, or labellings, or points of the local polytope."""

# The first sweep of max-sum that closes a smaller share of the gap is the last one. The task POINTS makes at most
# MOST_SWEEPS sweeps of max-sum, then soft sweeps, which close the gap faster, but take three times as long.
cdef double LEAST_SHARE = 0.002, LEAST_SHARE_OF_POINTS = 0.03
cdef int MOST_SWEEPS = 30


cdef struct Batch:
    int K, task, sweeps
    const double* unaries      # (N, K)
    const int64_t* edges       # (M, 2)
    const double* tables       # (M, K, K), tables `step` apart; `step` is 0 if all edges have the same table
    Py_ssize_t step
    const int64_t* at_nodes    # (n_graphs + 1,) offsets
    const int64_t* at_edges
    const double* tol          # (n_graphs,)
    double* messages           # (M, 2, K)
    double* uppers             # (n_graphs,)
    double* values
    int* labels                # (N,), set by the task LABELS
    double* nodes              # (N, K), set by the task POINTS
    double* points             # (M, K, K), set by the task POINTS


cdef int cut_graph(const Batch* b, Py_ssize_t i, unsigned char* ones) noexcept nogil:
    """Label graph i of two labels by a minimum cut; return whether its tables are submodular."""
    cdef pb_labelling problem
    cdef int64_t[2] nodes = [0, b.at_nodes[i + 1] - b.at_nodes[i]]
    cdef int64_t[2] edges = [0, b.at_edges[i + 1] - b.at_edges[i]]
    cdef int64_t[3] error
    cdef Py_ssize_t v
    problem.unary, problem.edges = b.unaries + 2 * b.at_nodes[i], b.edges + 2 * b.at_edges[i]
    problem.pairs = b.tables + b.step * b.at_edges[i]
    problem.two_unaries = problem.tables = problem.wide = True
    if cut_graphs(&problem, nodes, edges, 0, 1, ones, b.values + i, b.uppers + i, error) != 0:
        return False
    for v in range(nodes[1]):
        b.labels[b.at_nodes[i] + v] = ones[v]
    return True


cdef void solve_graph(const Batch* b, Py_ssize_t i, pb_graph* g) noexcept nogil:
    cdef Py_ssize_t node = b.at_nodes[i], edge = b.at_edges[i], K = b.K, k, a
    cdef double* messages = b.messages + 2 * K * edge
    g.n, g.m = <int>(b.at_nodes[i + 1] - node), <int>(b.at_edges[i + 1] - edge)
    g.ends = b.edges + 2 * edge
    if b.task == FIND_LABELS and K == 2 and cut_graph(b, i, <unsigned char*>g.labels):
        return
    pb_graph_load(g, b.unaries + K * node, b.tables + b.step * edge, b.step, messages)
    if b.task == FIND_BOUND:
        b.uppers[i] = pb_bound(g)
        return
    if b.task == FIND_LABELS:
        pb_hard_search(g, b.tol[i], b.sweeps, LEAST_SHARE)
        for k in range(g.n):
            b.labels[node + k] = g.labels[k]
    else:
        g.point[0], g.point[1] = b.nodes + K * node, b.points + K * K * edge
        pb_hard_search(g, b.tol[i], min(b.sweeps, MOST_SWEEPS), LEAST_SHARE_OF_POINTS)
        pb_soft_search(g, b.tol[i], b.sweeps)
        for k in range(g.n * K):
            g.point[0][k] /= PB_ONE
        for k in range(g.m * K * K):
            g.point[1][k] /= PB_ONE
    b.values[i], b.uppers[i] = g.value, max(g.upper, g.value)
    for a in range(2 * g.m):
        memcpy(messages + K * a, g.best_d + g.width * a, K * sizeof(double))


cdef int solve_graphs(const Batch* b, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    cdef Py_ssize_t i, n = 0, m = 0
    cdef pb_graph g
    for i in range(first, last):
        n = max(n, b.at_nodes[i + 1] - b.at_nodes[i])
        m = max(m, b.at_edges[i + 1] - b.at_edges[i])
    cdef char* memory = <char*>malloc(pb_graph_layout(&g, NULL, b.K, n, m, b.task == FIND_POINTS))
    if memory == NULL:
        return -1
    pb_graph_layout(&g, memory, b.K, n, m, b.task == FIND_POINTS)
    for i in range(first, last):
        solve_graph(b, i, &g)
    free(memory)
    return 0


def solve(int task, const double[:, ::1] unaries, const int64_t[:, ::1] edges, const double[:, :, :] tables,
          const int64_t[::1] node_offsets, const int64_t[::1] edge_offsets, Py_ssize_t first, Py_ssize_t last,
          const double[::1] tol, int sweeps, double[:, :, ::1] messages, double[::1] uppers, double[::1] values=None,
          int[::1] labels=None, double[:, ::1] nodes=None, double[:, :, ::1] points=None):
    """Do the `task` for the graphs first..last - 1 of a batch of checked arrays, and update messages in place."""
    cdef Batch b
    cdef int status
    if first >= last:
        return
    b.K, b.task, b.sweeps = <int>unaries.shape[1], task, sweeps
    b.unaries = &unaries[0, 0] if unaries.shape[0] else NULL
    b.edges = &edges[0, 0] if edges.shape[0] else NULL
    b.tables = &tables[0, 0, 0] if tables.shape[0] else NULL
    b.step = tables.strides[0] // <Py_ssize_t>sizeof(double)
    b.messages = &messages[0, 0, 0] if messages.shape[0] else NULL
    b.at_nodes, b.at_edges, b.tol = &node_offsets[0], &edge_offsets[0], &tol[0]
    b.uppers = &uppers[0]
    b.values = &values[0] if values is not None else NULL
    b.labels = &labels[0] if labels is not None and labels.shape[0] else NULL
    b.nodes = &nodes[0, 0] if nodes is not None and nodes.shape[0] else NULL
    b.points = &points[0, 0, 0] if points is not None and points.shape[0] else NULL
    with nogil:
        status = solve_graphs(&b, first, last)
    if status != 0:
        raise MemoryError("not enough memory for the largest graph")
