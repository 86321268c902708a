# The best binary labellings of a ragged batch of graphs with submodular scores, for compiled callers.

from libc.stdint cimport int64_t

cdef extern from "_graphcut.h" nogil:
    ctypedef struct pb_labelling:
        const double* unary      # (n,) scores of label 1, or (n, 2)
        const double* pairs      # (m,) weights >= 0, or (m, 2, 2) scores
        const void* edges        # (m, 2) of int32 or int64, nodes are numbered from 0 in each graph
        int two_unaries, tables, wide

# Labels the graphs first..last - 1. Graph i has the nodes nodes[i]..nodes[i + 1] - 1 and the edges edges[i]..edges[i +
# 1] - 1. Sets labels (N,), values and uppers (n_graphs,). Returns 0, or -2 if memory is short, or -1 after setting
# error (3,) to a graph, a node or edge of it, and the error code.
cdef int cut_graphs(const pb_labelling* problem, const int64_t* nodes, const int64_t* edges, Py_ssize_t first,
                    Py_ssize_t last, unsigned char* labels, double* values, double* uppers,
                    int64_t* error) noexcept nogil
