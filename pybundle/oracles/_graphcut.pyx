"""Minimum cuts of a batch of graphs: allocates memory and calls the kernels of _graphcut.h for each graph."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

cdef extern from "_graphcut.h" nogil:
    ctypedef struct pb_arc:
        pass
    ctypedef struct pb_node:
        pass
    ctypedef struct pb_tree:
        int* fill
        int* spare
        int* orphans
    ctypedef struct pb_cut:
        pb_node* nodes
        pb_arc* arcs
        pb_tree trees[2]
    int pb_cut_check(pb_cut*, const pb_labelling*, int64_t, int64_t, double*, double*, int64_t*)
    void pb_cut_build(pb_cut*, const pb_labelling*, int64_t, int64_t, double, double, int*)
    void pb_max_flow(pb_cut*)
    void pb_cut_bound(pb_cut*, const pb_labelling*, int64_t, int64_t, double, const int*, unsigned char*, double*,
                      double*)

MAX_SIZE = 1 << 29
"""Largest number of nodes, and of edges, of a graph: one of the 32 bits of an arc number is a flag."""


cdef int cut_graphs(const pb_labelling* problem, const int64_t* nodes, const int64_t* edges, Py_ssize_t first,
                    Py_ssize_t last, unsigned char* labels, double* values, double* uppers,
                    int64_t* error) noexcept nogil:
    cdef Py_ssize_t i, most_nodes = 0, most_edges = 0, size
    cdef int64_t n, m, where = 0
    cdef int code = 0, k
    cdef int* numbers
    cdef double big = 0.0, cap = 0.0
    cdef pb_cut cut
    cdef pb_labelling graph = problem[0]
    for i in range(first, last):
        most_nodes = max(most_nodes, nodes[i + 1] - nodes[i])
        most_edges = max(most_edges, edges[i + 1] - edges[i])
    size = 6 * (most_nodes + 4) + most_edges
    cdef char* memory = <char*>malloc(2 * most_edges * sizeof(pb_arc) + (most_nodes + 1) * sizeof(pb_node)
                                      + size * sizeof(int))
    if memory == NULL:
        return -2
    cut.arcs = <pb_arc*>memory
    cut.nodes = <pb_node*>(memory + 2 * most_edges * sizeof(pb_arc))
    numbers = <int*>(cut.nodes + most_nodes + 1)
    for k in range(2):
        cut.trees[k].fill = numbers + 3 * k * (most_nodes + 4)
        cut.trees[k].spare = cut.trees[k].fill + most_nodes + 4
        cut.trees[k].orphans = cut.trees[k].spare + most_nodes + 4
    numbers += 6 * (most_nodes + 4)
    for i in range(first, last):
        n = nodes[i + 1] - nodes[i]
        m = edges[i + 1] - edges[i]
        graph.unary = problem.unary + (2 * nodes[i] if graph.two_unaries else nodes[i])
        graph.pairs = problem.pairs + (4 * edges[i] if graph.tables else edges[i])
        graph.edges = <char*>problem.edges + edges[i] * (16 if graph.wide else 8)
        code = pb_cut_check(&cut, &graph, n, m, &big, &cap, &where)
        if code != 0:
            error[0] = i
            error[1] = where
            error[2] = code
            break
        pb_cut_build(&cut, &graph, n, m, big, cap, numbers)
        pb_max_flow(&cut)
        pb_cut_bound(&cut, &graph, n, m, big, numbers, labels + nodes[i], values + i, uppers + i)
    free(memory)
    return -1 if code != 0 else 0


def solve(const double[::1] unary, edges, const double[::1] pairs, bint two_unaries, bint tables,
          const int64_t[::1] node_offsets, const int64_t[::1] edge_offsets, Py_ssize_t first, Py_ssize_t last,
          unsigned char[::1] labels, double[::1] values, double[::1] uppers):
    """Label the graphs first..last - 1 of a batch with checked offsets, shapes and types; `edges` int32 or int64, flat.

    Returns None, or (graph, node or edge, code) of an error.
    """
    cdef pb_labelling problem
    cdef const int32_t[::1] narrow
    cdef const int64_t[::1] wide
    cdef int64_t error[3]
    cdef int status
    problem.unary = &unary[0] if unary.shape[0] else NULL
    problem.pairs = &pairs[0] if pairs.shape[0] else NULL
    problem.edges = NULL
    problem.two_unaries = two_unaries
    problem.tables = tables
    problem.wide = edges.dtype.itemsize == 8
    if pairs.shape[0]:
        if problem.wide:
            wide = edges
            problem.edges = &wide[0]
        else:
            narrow = edges
            problem.edges = &narrow[0]
    if first >= last:
        return None
    with nogil:
        status = cut_graphs(&problem, &node_offsets[0], &edge_offsets[0], first, last,
                            &labels[0] if labels.shape[0] else NULL, &values[0], &uppers[0], error)
    if status == -2:
        raise MemoryError("not enough memory for the largest graph")
    return None if status == 0 else (error[0], error[1], error[2])
