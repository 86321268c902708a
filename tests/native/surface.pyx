# cython: language_level=3
"""Everything that `cimport pybundle` offers, called from a module outside the package."""

import numpy as np

cimport pybundle
from libc.stdint cimport int32_t, int64_t
from pybundle cimport (
    BAD_SCORE,
    FOUND,
    NO_TREE,
    Alphabet,
    ChainTables,
    DensePlanes,
    PlaneRows,
    TreeStatus,
    line_transform,
    max_tree,
    plane_function,
    reciprocals,
    risk_function,
    segment,
    segment_pairs,
    smo,
    solve_function,
    tree_scratch,
)


def tree(const double[:, ::1] scores):
    cdef int n = scores.shape[0]
    heads, room = np.empty(n, dtype=np.int32), np.empty(pybundle.tree_scratch(n) // 8 + 1)
    cdef int[::1] found = heads
    cdef double[::1] scratch = room
    cdef double value = 0.0
    cdef TreeStatus status
    with nogil:
        status = max_tree(n, &scores[0, 0], False, &found[0], &value, &scratch[0])
    assert status == FOUND and status != NO_TREE and status != BAD_SCORE
    return heads, value


def chain(ChainTables tables, const double[:, ::1] unary):
    cdef Py_ssize_t length = unary.shape[0]
    labels, room = np.empty(length, dtype=np.int32), np.empty(length * tables.ld + 8)
    cdef int32_t[::1] found = labels
    cdef double[::1] scratch = room
    cdef double value = 0.0
    cdef int good
    with nogil:
        good = tables.viterbi(length, &unary[0, 0], &scratch[0], &found[0], &value)
    assert good
    return labels, value


def cover(const double[:, ::1] scores, const double[:, ::1] transition):
    cdef int[2] widths = [1, 2]
    cdef int[3] runs = [0, 1, 2]
    cdef Alphabet alphabet = Alphabet(2, &widths[0], 2, &runs[0], &widths[0])
    cdef Py_ssize_t W = scores.shape[0], n
    cdef double[::1] f = np.empty((W + 2) * 2)
    cdef int[::1] back = np.empty((W + 2) * 2, dtype=np.int32), labels = np.empty(W, dtype=np.int32)
    cdef double value = 0.0
    if transition is None:
        n = segment(&scores[0, 0], W, alphabet, &f[0], &back[0], &labels[0], &value)
    else:
        n = segment_pairs(&scores[0, 0], &transition[0, 0], W, alphabet, &f[0], &back[0], &labels[0], &value)
    return np.asarray(labels)[:n].tolist(), value


def line(const double[::1] f, double a, double b):
    cdef int n = f.shape[0]
    cdef double[::1] inverse = np.empty(n), values = np.empty(n), z = np.empty(n)
    cdef int[::1] argmax = np.empty(n, dtype=np.int32), hull = np.empty(n, dtype=np.int32)
    with nogil:
        reciprocals(n, a, &inverse[0])
        line_transform(n, &f[0], a, b, &inverse[0], n, 0.0, &values[0], &argmax[0], &hull[0], &z[0])
    return np.asarray(values), np.asarray(argmax)


def master(const double[:, ::1] H, const double[::1] f, double tol):
    """One part, from its first vertex."""
    cdef int m = H.shape[0]
    cdef int[2] start = [0, m]
    cdef double[2] rest = [0.0, 0.0]
    cdef unsigned char[1] has_slack = [0]
    cdef double[::1] x = np.eye(m)[0].copy(), g = np.asarray(H)[0] - f
    cdef double gap = 0.0
    with nogil:
        smo(m, &H[0, 0], m, 1.0, &g[0], &x[0], 1, start, rest, has_slack, tol, 10000, &gap)
    return np.asarray(x), gap


def dense(DensePlanes planes, const double[::1] weights, const double[::1] w):
    """A' weights, A w and the entries of the first row."""
    cdef double[::1] phi = np.zeros(planes.dim), y = np.empty(planes.count)
    with nogil:
        planes.add_combination(&weights[0], &phi[0])
        planes.multiply(&w[0], 0, &y[0])
    return np.asarray(phi), np.asarray(y), [planes.row(0)[k] for k in range(planes.dim)]


def sparse(Py_ssize_t dim, const int32_t[:, ::1] indices, const double[:, ::1] values):
    """One CSR row for each row of entries."""
    cdef PlaneRows rows = PlaneRows(dim, indices.shape[0])
    cdef Py_ssize_t j, k
    with nogil:
        for j in range(indices.shape[0]):
            rows.reserve(indices.shape[1])
            for k in range(indices.shape[1]):
                rows.put(indices[j, k], values[j, k])
            rows.close()
    return rows.matrix()


cdef api int risk(const double* w, int64_t dim, int64_t part, double* value, double* slope,
                  void* user_data) noexcept nogil:
    value[0] = max(w[part], -w[part])
    slope[part] = 1.0 if w[part] > 0.0 else -1.0
    return 0


cdef api int solve(const double* w, int64_t dim, int64_t example, int32_t* labelling, double* value, double* upper,
                   void* user_data) noexcept nogil:
    labelling[0] = w[0] < 1.0
    value[0] = max(0.0, 1.0 - w[0])
    return 0


cdef api int plane(int64_t example, const int32_t* labelling, double* loss, int64_t* n_entries, int32_t* indices,
                   double* values, void* user_data) noexcept nogil:
    loss[0] = n_entries[0] = labelling[0]
    indices[0], values[0] = 0, -1.0
    return 0


cdef risk_function first = risk         # the signatures are those that are declared
cdef solve_function second = solve
cdef plane_function third = plane
