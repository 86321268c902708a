"""Products of CSR rows with a sparse W: a feature of texts occurs with few labels, and only these pairs have weights.

The weights are the entries of a CSC matrix W (K, d), feature by feature, and for each feature in the order of labels:

    w = [W[l, j] for j = 0 .. d - 1 for l in labels_j]
"""

import numpy as np

cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from ..core._indices cimport check_indices
from ._plane_rows cimport PlaneRows
from ._rows cimport PB_CSR32, Rows


@cython.final
cdef class SparseWeightRows(Rows):
    """CSR rows for products with K linear scores; each score has weights for some of the features only.

    A token costs one product for each weight of each of its features. This class overrides `score_unpacked`,
    `score_step`, `update_step`, `entries_of`, `add_labelled` and `put`. Weights are never packed, so methods that take
    packed weights must not be called, and neither must `accumulate`.

    Parameters
    ----------
    storage, norms, n_features, n_scores
        Arguments of `Rows`; the rows must be CSR, and scale and bias are not available.
    starts : int64 array, shape (d + 1,)
        Where the weights of each feature begin in w.
    labels : int32 array, shape (m,)
        The label of each weight, ascending within a feature.

    Raises
    ------
    ValueError
        For rows that are not CSR, and for starts and labels that are not those of a CSC matrix (K, d).
    """

    cdef const int64_t[::1] starts
    cdef const int32_t[::1] labels

    def __init__(self, storage, norms, Py_ssize_t n_features, int n_scores, starts, labels):
        Rows.__init__(self, storage, norms, n_features, n_scores)
        self._args = storage, norms, n_features, n_scores, starts, labels
        if (self.kind < PB_CSR32 or len(starts) != n_features + 1 or starts[0] != 0 or starts[n_features] != len(labels)
                or np.diff(starts).min() < 0 or len(labels) and not 0 <= labels.min() <= labels.max() < n_scores):
            raise ValueError(f"rows must be CSR, starts must rise from 0 to {len(labels)}, and labels must lie in 0.."
                             f"{n_scores - 1}")
        self.starts, self.labels = starts, labels
        self.n_blocks, self.width = 1, len(labels)
        self.n_weights = self.width

    cdef inline double value(self, int64_t q) noexcept nogil:
        """Return entry q of the rows."""
        return (<const float*>self.X.data)[q] if self.kind == PB_CSR32 else (<const double*>self.X.data)[q]

    cdef inline int64_t find(self, int32_t column, int32_t label) noexcept nogil:
        """Return the index in w of the weight of a column and a label; -1 if there is none."""
        cdef int64_t p
        for p in range(self.starts[column], self.starts[column + 1]):
            if self.labels[p] == label:
                return p
        return -1

    cdef void score_unpacked(self, const double* W, const Py_ssize_t* rows, Py_ssize_t n, double* out) noexcept nogil:
        cdef Py_ssize_t r, K = self.n_scores
        cdef int64_t p, q
        cdef int32_t j
        cdef double x
        memset(out, 0, n * K * sizeof(double))
        for r in range(n):
            for q in range(self.X.indptr[rows[r]], self.X.indptr[rows[r] + 1]):
                j, x = self.X.indices[q], self.value(q)
                for p in range(self.starts[j], self.starts[j + 1]):
                    out[self.labels[p]] += x * W[p]
            out += K

    cdef void score_step(self, const Py_ssize_t* rows, Py_ssize_t n, const double* W, Py_ssize_t ldw, double* S,
                         double* out) noexcept nogil:
        self.score_unpacked(W, rows, n, out)

    cdef void update_step(self, const Py_ssize_t* rows, Py_ssize_t n, const double* coef, int ldc, double* W,
                          Py_ssize_t ldw) noexcept nogil:
        cdef Py_ssize_t e
        cdef int64_t p, q
        cdef int32_t j
        cdef double x
        for e in range(n):
            for q in range(self.X.indptr[rows[e]], self.X.indptr[rows[e] + 1]):
                j, x = self.X.indices[q], self.value(q)
                for p in range(self.starts[j], self.starts[j + 1]):
                    W[p] += x * coef[self.labels[p]]
            coef += ldc

    cdef Py_ssize_t entries_of(self, int32_t column, Py_ssize_t ldw, Py_ssize_t* first) noexcept nogil:
        first[0] = self.starts[column]
        return self.starts[column + 1] - self.starts[column]

    cdef int add_labelled(self, Py_ssize_t n, const Py_ssize_t* rows, const int32_t* labels, const double* coefs,
                          double* slope) except -1 nogil:
        cdef Py_ssize_t e
        cdef int64_t p, q
        for e in range(n):
            if not 0 <= labels[e] < self.n_scores:
                raise ValueError(f"labels must lie in 0..{self.n_scores - 1}")
            if coefs[e] != 0.0:
                for q in range(self.X.indptr[rows[e]], self.X.indptr[rows[e] + 1]):
                    p = self.find(self.X.indices[q], labels[e])
                    if p >= 0:
                        slope[p] += coefs[e] * self.value(q)
        return 0

    cdef int put(self, PlaneRows out, Py_ssize_t first, Py_ssize_t n, const Py_ssize_t* rows, const int32_t* labels,
                 const double* coefs) except -1 nogil:
        cdef Py_ssize_t e
        cdef int64_t p, q
        for e in range(n):
            if coefs[e] != 0.0:
                out.reserve(self.X.indptr[rows[e] + 1] - self.X.indptr[rows[e]])
                for q in range(self.X.indptr[rows[e]], self.X.indptr[rows[e] + 1]):
                    p = self.find(self.X.indices[q], labels[e])
                    if p >= 0:
                        out.put(first + p, coefs[e] * self.value(q))
        out.flush()
        return 0

    def add_expectations(self, const Py_ssize_t[::1] rows, const double[:, ::1] p, double[::1] slope):
        """Add sum_r p[r, l] x_rows[r] to slope (m,) in the weights of every label l; p has shape (len(rows), K)."""
        if p.shape[0] != rows.shape[0] or p.shape[1] != self.n_scores or slope.shape[0] != self.n_weights:
            raise ValueError(f"p must have shape ({rows.shape[0]}, {self.n_scores}), slope ({self.n_weights},)")
        check_indices("rows", rows, self.n_rows)
        if rows.shape[0]:
            with nogil:
                self.update_step(&rows[0], rows.shape[0], &p[0, 0], self.n_scores, &slope[0], 1)
