# cython: language_level=3, boundscheck=False, wraparound=False
"""A compiled oracle for dependency trees, with pybundle's decoder and solver.

The score of a tree is the sum of <w, f(h, m)> over its arcs h -> m; its loss is the
number of wrong heads.
"""

import numpy as np
from scipy import LowLevelCallable

import pybundle as pb

from cpython.pycapsule cimport PyCapsule_GetContext, PyCapsule_New, PyCapsule_SetContext
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

from pybundle cimport FOUND, max_tree, tree_scratch

cdef struct Data:
    int n_nodes, n_features
    const double* arcs          # (n, n_nodes, n_nodes, n_features)
    const int32_t* heads        # (n, n_nodes), heads[., 0] = -1


cdef double score(const Data* data, const double* w, int64_t i, int64_t head,
                  int64_t node) noexcept nogil:
    cdef int64_t arc = (i * data.n_nodes + head) * data.n_nodes + node
    cdef const double* f = data.arcs + arc * data.n_features
    cdef double total = 0.0
    cdef int k
    for k in range(data.n_features):
        total += w[k] * f[k]
    return total


# pybundle calls these two functions without the GIL; `api` exports them for
# LowLevelCallable.from_cython.
cdef api int solve(const double* w, int64_t dim, int64_t i, int32_t* heads,
                   double* value, double* upper, void* user_data) noexcept nogil:
    cdef const Data* data = <const Data*>user_data
    cdef const int32_t* truth = data.heads + i * data.n_nodes
    cdef int n = data.n_nodes, h, m, code
    cdef double* scores = <double*>malloc(n * n * sizeof(double))
    cdef void* scratch = malloc(tree_scratch(n))
    if scores == NULL or scratch == NULL:
        code = -1
    else:
        for h in range(n):
            for m in range(n):
                scores[h * n + m] = 0.0
                if m != 0 and m != h:
                    scores[h * n + m] = score(data, w, i, h, m) + (truth[m] != h)
        code = max_tree(n, scores, False, <int*>heads, value, scratch) != FOUND
        for m in range(1, n):
            value[0] -= scores[truth[m] * n + m]
    free(scores)
    free(scratch)
    return code


cdef api int plane(int64_t i, const int32_t* heads, double* loss, int64_t* n_entries,
                   int32_t* indices, double* values, void* user_data) noexcept nogil:
    cdef const Data* data = <const Data*>user_data
    cdef const int32_t* truth = data.heads + i * data.n_nodes
    cdef const double* f = data.arcs + i * data.n_nodes * data.n_nodes * data.n_features
    cdef int m, k, n = data.n_nodes, d = data.n_features
    cdef int64_t at
    loss[0], n_entries[0] = 0.0, 0
    for m in range(1, n):
        if heads[m] == truth[m]:
            continue
        loss[0] += 1.0
        for k in range(d):          # indices may repeat; their entries are added
            at = n_entries[0]
            indices[at], values[at] = k, f[(heads[m] * n + m) * d + k]
            indices[at + 1], values[at + 1] = k, -f[(truth[m] * n + m) * d + k]
            n_entries[0] += 2
    return 0


cdef class Trees:
    """Sentences of equal length: arcs (n, n_nodes, n_nodes, d), heads (n, n_nodes)."""

    cdef Data data
    cdef const double[:, :, :, ::1] arcs
    cdef const int32_t[:, ::1] heads

    def __init__(self, const double[:, :, :, ::1] arcs, const int32_t[:, ::1] heads):
        self.arcs, self.heads = arcs, heads
        self.data = Data(arcs.shape[1], arcs.shape[3], &arcs[0, 0, 0, 0], &heads[0, 0])

    def risk(self, **options):
        """Return the risk of these sentences; it keeps the data alive."""
        import arborist

        capsule = PyCapsule_New(&self.data, "arborist.Data", release)
        PyCapsule_SetContext(capsule, <void*>self)
        Py_INCREF(self)
        solve, plane = (LowLevelCallable.from_cython(arborist, name, capsule)
                        for name in ("solve", "plane"))
        n_nodes, d = self.data.n_nodes, self.data.n_features
        return pb.risks.ExampleFunctions(solve, plane, len(self.heads), d, n_nodes,
                                         2 * n_nodes * d, **options)


cdef void release(capsule) noexcept:
    Py_DECREF(<object>PyCapsule_GetContext(capsule))


def train(arcs, heads, **options):
    """Return the result of `pb.minimize` on these sentences."""
    trees = Trees(np.ascontiguousarray(arcs), np.ascontiguousarray(heads, dtype=np.int32))
    return pb.minimize(trees.risk(), **options)
