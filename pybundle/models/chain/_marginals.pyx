"""Sums over the marginals of chains: differences to the truths, and expected features of sparse tokens."""

import numpy as np

from libc.stdint cimport int32_t, int64_t

ctypedef fused real:
    float
    double


def subtract_truths(double[:, ::1] p, const int32_t[::1] truth, const int64_t[::1] offsets, const double[::1] scales,
                    double[:, ::1] pairs, double[::1] start, double[::1] end):
    """Set `p[t] = scale (p[t] - e_truth)`, and add to the slopes of pairs and ends.

    p (N, K) are the marginals of the positions, one item after another, with truth (N,), offsets (n + 1,) and scales
    (n,). The true transitions, times the scale of their item, are subtracted from `pairs` (K, K). The sums of the first
    and of the last rows of p are added to start and end (K,), which may be empty.
    """
    cdef Py_ssize_t i, t, k, K = p.shape[1]
    cdef double scale
    with nogil:
        for i in range(offsets.shape[0] - 1):
            scale = scales[i]
            for t in range(offsets[i], offsets[i + 1]):
                for k in range(K):
                    p[t, k] *= scale
                p[t, truth[t]] -= scale
                if t > offsets[i]:
                    pairs[truth[t - 1], truth[t]] -= scale
            for k in range(start.shape[0]):
                start[k] += p[offsets[i], k]
            for k in range(end.shape[0]):
                end[k] += p[offsets[i + 1] - 1, k]


cdef class ColumnSums:
    """Sums `sum_t p[t, k] x_t` for sparse rows x_t and every k, with memory for the columns that occur.

    Each column has a row of K sums, in the order of first occurrence. So an entry of x updates K neighbouring numbers,
    while in W (K, d) itself they would be far apart.
    """

    cdef object _storage
    cdef const int32_t[::1] indices
    cdef const int64_t[::1] indptr
    cdef int32_t[::1] place         # row of a column in `sums`, or -1
    cdef double[:, ::1] sums
    cdef Py_ssize_t n_columns

    def __init__(self, storage, Py_ssize_t n_features, Py_ssize_t n_labels, const Py_ssize_t[::1] rows):
        # `rows` are all rows that will be added; the number of their entries bounds the memory
        self._storage = storage
        self.indices, self.indptr = storage[1], storage[2]
        self.place = np.full(n_features, -1, dtype=np.int32)
        cdef Py_ssize_t r, entries = 0
        for r in range(rows.shape[0]):
            entries += self.indptr[rows[r] + 1] - self.indptr[rows[r]]
        self.sums = np.empty((min(n_features, entries), n_labels))

    def add(self, const Py_ssize_t[::1] rows, const double[:, ::1] p):
        """Add the given rows, row r times p[r] (K,)."""
        if p.shape[0] != rows.shape[0] or p.shape[1] != self.sums.shape[1]:
            raise ValueError(f"p must have shape ({rows.shape[0]}, {self.sums.shape[1]})")
        data = self._storage[0]
        if data.dtype == np.float32:
            self._add[float](data, rows, p)
        else:
            self._add[double](data, rows, p)

    cdef void _add(self, const real[::1] data, const Py_ssize_t[::1] rows, const double[:, ::1] p):
        cdef Py_ssize_t r, e, k, K = p.shape[1]
        cdef int32_t c
        cdef double x
        cdef double* sums
        with nogil:
            for r in range(rows.shape[0]):
                for e in range(self.indptr[rows[r]], self.indptr[rows[r] + 1]):
                    x = data[e]
                    c = self.place[self.indices[e]]
                    if c < 0:
                        c = <int32_t>self.n_columns
                        self.n_columns += 1
                        self.place[self.indices[e]] = c
                        sums = &self.sums[c, 0]
                        for k in range(K):
                            sums[k] = x * p[r, k]
                    else:
                        sums = &self.sums[c, 0]
                        for k in range(K):
                            sums[k] += x * p[r, k]

    def add_to(self, double[:, :] W):
        """Add the sums to W (K, d)."""
        cdef Py_ssize_t j, k
        cdef int32_t c
        with nogil:
            for j in range(self.place.shape[0]):
                c = self.place[j]
                if c >= 0:
                    for k in range(self.sums.shape[1]):
                        W[k, j] += self.sums[c, k]
