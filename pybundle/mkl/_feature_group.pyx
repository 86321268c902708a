"""Features of tokens as a group of an online learner, with lazily scaled weights for every feature and label."""

import numpy as np
import scipy.sparse as sp

from libc.stdint cimport int32_t, int64_t

from pybundle.mkl._groups cimport Gradient, Group, dot
from pybundle.mkl._lazy cimport LazyVectors

from pybundle.mkl.kernels import squares_of


cdef class FeatureGroup(Group):
    """Features of the tokens with their weights: row j of theta belongs to feature j, column c to label c.

    Parameters
    ----------
    theta : LazyVectors, shape (n_features, n_labels)
    X : float64 array or CSR, shape (n, n_features)
        The indices in each row of a CSR matrix are sorted and distinct.
    """

    cdef bint is_sparse
    cdef object X
    cdef const double[::1] data
    # columns of the entries if X is CSR; if X is dense, columns 0..d-1, stored once for all rows
    cdef const int32_t[::1] indices
    cdef const int64_t[::1] indptr

    def __init__(self, LazyVectors theta, X):
        self.theta, self.n_labels, self.is_sparse, self.X = theta, <int>theta.width, sp.issparse(X), X
        n, d = X.shape
        self.data = X.data if self.is_sparse else X.reshape(-1)
        self.indices = (X.indices if self.is_sparse else np.arange(d)).astype(np.int32, copy=False)
        self.indptr = (X.indptr if self.is_sparse else np.arange(n + 1) * d).astype(np.int64, copy=False)

    def image(self, coefs, links):
        scores = (coefs.T @ self.X) @ self.X.T
        return scores.toarray() if sp.issparse(scores) else np.asarray(scores)

    def lengths(self):
        return np.sqrt(squares_of(self.X))

    def place(self, coefs):
        Group.place(self, self.X.T @ coefs)

    cdef inline Py_ssize_t row(self, Py_ssize_t t, const double** x, const int32_t** columns) noexcept nogil:
        """Point to the values of a token and to their columns; return the number of values."""
        x[0] = &self.data[0] + self.indptr[t]
        columns[0] = &self.indices[0] + (self.indptr[t] if self.is_sparse else 0)
        return self.indptr[t + 1] - self.indptr[t]

    cdef void add_scores(self, Py_ssize_t first, Py_ssize_t count, double* S) noexcept nogil:
        cdef Py_ssize_t t, j, c
        cdef double a, s = self.theta.scale[0]
        cdef const double* x
        cdef const double* v
        cdef const int32_t* columns
        if self.theta.is_zero[0]:
            return
        for t in range(count):
            for j in range(self.row(first + t, &x, &columns)):
                v = self.theta.read(columns[j]) if x[j] != 0.0 else NULL
                if v != NULL:
                    a = s * x[j]
                    for c in range(self.n_labels):
                        S[t * self.n_labels + c] += a * v[c]

    cdef double kernel(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
        cdef const double* x
        cdef const double* z
        cdef const int32_t* columns
        cdef const int32_t* others
        cdef Py_ssize_t m = self.row(a, &x, &columns), n = self.row(b, &z, &others), i = 0, j = 0
        cdef double total = 0.0
        if not self.is_sparse:
            return dot(x, z, n)
        while i < m and j < n:
            if columns[i] == others[j]:
                total += x[i] * z[j]
                i += 1
                j += 1
            elif columns[i] < others[j]:
                i += 1
            else:
                j += 1
        return total

    cdef void measure(self, const Gradient* g, double* product, double* square) noexcept nogil:
        cdef Py_ssize_t r, j, L = self.n_labels
        cdef const double* x
        cdef const double* v
        cdef const int32_t* columns
        cdef double delta = 0.0
        for r in range(g.n_rows if not self.theta.is_zero[0] else 0):
            for j in range(self.row(g.tokens[r], &x, &columns)):
                v = self.theta.read(columns[j]) if x[j] != 0.0 else NULL
                if v != NULL:
                    delta += x[j] * dot(g.coefs + r * L, v, L)
        product[0], square[0] = delta, self.square(g)

    cdef void step(self, const Gradient* g, double amount) noexcept nogil:
        cdef Py_ssize_t r, j
        cdef const double* x
        cdef const int32_t* columns
        for r in range(g.n_rows):
            for j in range(self.row(g.tokens[r], &x, &columns)):
                if x[j] != 0.0:
                    self.theta.add(columns[j], g.coefs + r * self.n_labels, amount * x[j])
