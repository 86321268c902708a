"""Features of tokens as a group of an online learner: lazily scaled weights for every feature and label."""

import numpy as np
import scipy.sparse as sp

from libc.stdint cimport int32_t, int64_t

from pybundle.mkl._groups cimport Gradient, Group, dot
from pybundle.mkl._lazy cimport LazyVectors


cdef class FeatureGroup(Group):
    """Features of the tokens with their weights: row j of theta belongs to feature j, column c to label c.

    Parameters
    ----------
    theta : LazyVectors, shape (n_features, n_labels)
    storage : (array,) of shape (n, n_features), or (data, int32 indices, int64 indptr), all float64
        The indices of each row are sorted.
    """

    cdef bint is_sparse
    cdef const double[:, ::1] X
    cdef const double[::1] data
    cdef const int32_t[::1] indices
    cdef const int64_t[::1] indptr

    def __init__(self, LazyVectors theta, storage):
        self.theta, self.n_labels, self.is_sparse = theta, <int>theta.width, len(storage) == 3
        if self.is_sparse:
            self.data, self.indices, self.indptr = storage
        else:
            self.X = storage[0]

    def image(self, coefs, links):
        X = self._features()
        scores = (coefs.T @ X) @ X.T
        return scores.toarray() if sp.issparse(scores) else np.asarray(scores)

    def lengths(self):
        X = self._features()
        return np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel() if self.is_sparse else np.einsum("tj,tj->t", X, X))

    def place(self, coefs):
        Group.place(self, self._features().T @ coefs)

    def _features(self):
        if not self.is_sparse:
            return np.asarray(self.X)
        return sp.csr_array((np.asarray(self.data), np.asarray(self.indices), np.asarray(self.indptr)),
                            shape=(len(self.indptr) - 1, self.theta.n_rows))

    cdef void add_scores(self, Py_ssize_t first, Py_ssize_t count, double* S) noexcept nogil:
        cdef Py_ssize_t t, j
        cdef double s = self.theta.scale[0]
        if self.theta.is_zero[0]:
            return
        for t in range(count):
            if self.is_sparse:
                for j in range(self.indptr[first + t], self.indptr[first + t + 1]):
                    self.add_feature(self.indices[j], s * self.data[j], S + t * self.n_labels)
            else:
                for j in range(self.X.shape[1]):
                    if self.X[first + t, j] != 0.0:
                        self.add_feature(j, s * self.X[first + t, j], S + t * self.n_labels)

    cdef inline void add_feature(self, Py_ssize_t j, double x, double* S) noexcept nogil:
        cdef const double* v = self.theta.read(j)
        cdef Py_ssize_t c
        if v != NULL:
            for c in range(self.n_labels):
                S[c] += x * v[c]

    cdef double kernel(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
        cdef int64_t i, j
        cdef double total = 0.0
        if not self.is_sparse:
            return dot(&self.X[a, 0], &self.X[b, 0], self.X.shape[1])
        i, j = self.indptr[a], self.indptr[b]
        while i < self.indptr[a + 1] and j < self.indptr[b + 1]:
            if self.indices[i] == self.indices[j]:
                total += self.data[i] * self.data[j]
                i += 1
                j += 1
            elif self.indices[i] < self.indices[j]:
                i += 1
            else:
                j += 1
        return total

    cdef void measure(self, const Gradient* g, double* product, double* square) noexcept nogil:
        cdef Py_ssize_t r, q, j, z, L = self.n_labels
        cdef const double* C
        cdef const double* v
        cdef double delta = 0.0, norm = 0.0, joint
        for r in range(g.n_rows):
            C, z = g.coefs + r * L, g.tokens[r]
            if self.theta.is_zero[0]:
                pass
            elif self.is_sparse:
                for j in range(self.indptr[z], self.indptr[z + 1]):
                    v = self.theta.read(self.indices[j])
                    if v != NULL:
                        delta += self.data[j] * dot(C, v, L)
            else:
                for j in range(self.X.shape[1]):
                    v = self.theta.read(j)
                    if v != NULL and self.X[z, j] != 0.0:
                        delta += self.X[z, j] * dot(C, v, L)
            for q in range(r + 1):
                joint = dot(C, g.coefs + q * L, L)
                if joint != 0.0:
                    norm += (1.0 if q == r else 2.0) * joint * self.kernel(z, g.tokens[q])
        product[0], square[0] = delta, norm

    cdef void step(self, const Gradient* g, double amount) noexcept nogil:
        cdef Py_ssize_t r, j, z
        cdef const double* C
        for r in range(g.n_rows):
            C, z = g.coefs + r * self.n_labels, g.tokens[r]
            if self.is_sparse:
                for j in range(self.indptr[z], self.indptr[z + 1]):
                    self.theta.add(self.indices[j], C, amount * self.data[j])
            else:
                for j in range(self.X.shape[1]):
                    if self.X[z, j] != 0.0:
                        self.theta.add(j, C, amount * self.X[z, j])
