"""A kernel as a group of an online learner, with dual coefficients of tokens and labels.

theta_k = sum_(z, c) A[z, c] phi_k(z) x e_c, over tokens z and labels c, is never formed. The group stores the
coefficients A, and the scores F[c, x] = sum_z A[z, c] K_k(x, z) of all training tokens. A step adds a row of the Gram
matrix to F for each coefficient that it changes, in O(n); to recompute the scores of a single token would cost
O(n n_labels).
"""

import numpy as np
import scipy.sparse as sp

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from pybundle.mkl._groups cimport Gradient, Group
from pybundle.mkl._lazy cimport SMALLEST, LazyVectors

ROWS = 512

ctypedef fused real:
    float
    double


cdef void add_row(double* F, const real* row, const int32_t* indices, Py_ssize_t n, double a) noexcept nogil:
    """Add a times a row to F; the row is dense if there are no indices."""
    cdef Py_ssize_t x
    if indices == NULL:
        for x in range(n):
            F[x] += a * row[x]
    else:
        for x in range(n):
            F[indices[x]] += a * row[x]


cdef class KernelGroup(Group):
    """A kernel on the tokens of a call.

    Parameters
    ----------
    gram : (array,) of shape (n, n), or (data, int32 indices, int64 indptr) of a CSR matrix, float32 or float64
        Symmetric; the indices of each row are sorted.
    n_labels : int
    support : array, shape (n_old, n_labels), or None
        Coefficients of the support tokens of earlier data.
    scores : array, shape (n_labels, n), or None
        Scores of the n tokens by these coefficients.
    square : float
        Squared norm of theta_k for these coefficients.
    averaging : bool
    """

    cdef Py_ssize_t n, n_old
    cdef bint is_sparse, is_single            # whether the Gram matrix is CSR, and float32
    cdef bint is_stale                        # whether the scores are 0, although F may hold other numbers
    cdef object gram
    cdef const float[::1] data32              # values of the Gram matrix, row by row
    cdef const double[::1] data64
    cdef const int32_t[::1] indices
    cdef const int64_t[::1] indptr
    cdef double[:, ::1] F

    def __init__(self, gram, int n_labels, support=None, scores=None, double square=0.0, bint averaging=False):
        self.is_sparse, self.n_labels = len(gram) == 3, n_labels
        self.is_single = gram[0].dtype == np.float32
        self.n = len(gram[2]) - 1 if self.is_sparse else len(gram[0])
        data = gram[0].reshape(-1)
        self.data32 = data if self.is_single else np.zeros(1, np.float32)
        self.data64 = np.zeros(1) if self.is_single else data
        self.gram = gram[0]
        if self.is_sparse:
            _, self.indices, self.indptr = gram
            self.gram = sp.csr_array(gram, shape=(self.n, self.n))
        self.n_old = 0 if support is None else len(support)
        self.theta = LazyVectors(self.n_old + self.n, n_labels, averaging=averaging)
        self.F = np.zeros((n_labels, self.n)) if scores is None else scores
        if self.n_old:
            theta = np.zeros((self.n_old + self.n, n_labels))
            theta[:self.n_old] = support
            self.theta.set(theta)
            self.theta.square[0], self.theta.is_zero[0] = square, square <= 0.0

    cdef double kernel(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
        cdef int64_t low, high, middle
        if not self.is_sparse:
            return self.data32[a * self.n + b] if self.is_single else self.data64[a * self.n + b]
        low, high = self.indptr[a], self.indptr[a + 1]
        while low < high:
            middle = (low + high) // 2
            if self.indices[middle] < b:
                low = middle + 1
            else:
                high = middle
        if low == self.indptr[a + 1] or self.indices[low] != b:
            return 0.0
        return self.data32[low] if self.is_single else self.data64[low]

    cdef void add_scores(self, Py_ssize_t first, Py_ssize_t count, double* S) noexcept nogil:
        cdef Py_ssize_t t, c
        cdef double s = self.theta.scale[0]
        cdef const double* F
        if self.theta.is_zero[0]:
            return
        for c in range(self.n_labels):
            F = &self.F[c, first]
            for t in range(count):
                S[t * self.n_labels + c] += s * F[t]

    cdef void measure(self, const Gradient* g, double* product, double* square) noexcept nogil:
        cdef Py_ssize_t r, c, L = self.n_labels
        cdef double delta = 0.0
        for r in range(g.n_rows if not self.theta.is_zero[0] else 0):
            for c in range(L):
                if g.coefs[r * L + c] != 0.0:
                    delta += g.coefs[r * L + c] * self.F[c, g.tokens[r]]
        product[0], square[0] = delta, self.square(g)

    cdef void step(self, const Gradient* g, double amount) noexcept nogil:
        cdef Py_ssize_t r, c, z, L = self.n_labels
        cdef int64_t first, count = self.n
        cdef const int32_t* indices = NULL
        cdef double a
        if self.is_stale:
            memset(&self.F[0, 0], 0, L * self.n * sizeof(double))
            self.is_stale = False
        for r in range(g.n_rows):
            z = g.tokens[r]
            self.theta.add(self.n_old + z, g.coefs + r * L, amount)
            first = z * self.n
            if self.is_sparse:
                first, count = self.indptr[z], self.indptr[z + 1] - self.indptr[z]
                indices = &self.indices[0] + first
            for c in range(L):
                a = amount * g.coefs[r * L + c]
                if a == 0.0:
                    continue
                if self.is_single:
                    add_row(&self.F[c, 0], &self.data32[0] + first, indices, count, a)
                else:
                    add_row(&self.F[c, 0], &self.data64[0] + first, indices, count, a)

    cdef int reset(self) except -1 nogil:
        self.is_stale = True
        return self.theta.reset(0)

    cdef int rescale(self, double factor) except -1 nogil:
        cdef double s = self.theta.scale[0] * factor
        cdef Py_ssize_t c, x
        if s < SMALLEST:                # `theta` folds a small scale into v; scale the stored scores, too
            for c in range(self.n_labels):
                for x in range(self.n):
                    self.F[c, x] *= s
        return self.theta.rescale(0, factor)

    cdef void refresh(self) noexcept nogil:
        cdef Py_ssize_t z, c
        cdef double total = 0.0
        cdef const double* row
        if self.n_old or self.is_stale:
            return
        for z in range(self.n):
            row = self.theta.read(z)
            if row != NULL:
                for c in range(self.n_labels):
                    if row[c] != 0.0:
                        total += row[c] * self.F[c, z]
        self.theta.square[0] = total

    def restart(self):
        self.theta.set(0.0)
        self.is_stale = True

    def renew(self):
        np.asarray(self.F)[:] = self.image(sp.csr_array(np.asarray(self.settle())), None)
        Group.renew(self)

    def place(self, coefs):
        self.is_stale = False
        Group.place(self, coefs)

    def state(self):
        if self.is_stale:
            np.asarray(self.F)[:] = 0.0
            self.is_stale = False
        return self.theta.current_rows(), np.asarray(self.F)

    def image(self, coefs, links):
        if self.is_sparse or not self.is_single:
            scores = coefs.T @ self.gram
            return scores.toarray() if sp.issparse(scores) else np.asarray(scores)
        # the product converts the Gram matrix to float64, so multiply some rows at a time
        out = np.zeros((self.n_labels, self.n))
        for first in range(0, self.n, ROWS):
            out += coefs[first:first + ROWS].T @ self.gram[first:first + ROWS]
        return out

    def lengths(self):
        return np.sqrt([max(self.kernel(t, t), 0.0) for t in range(self.n)])

    def continue_average(self, total, double n_ticks):
        """Start the average from a sum of earlier points: coefficients of the old support (n_old, n_labels)."""
        theta, square, is_zero = self.theta.point(), self.theta.square[0], self.theta.is_zero[0]
        sums = np.zeros_like(theta)
        sums[:self.n_old] = total
        self.theta.set(theta, sums, n_ticks)
        self.theta.square[0], self.theta.is_zero[0] = square, is_zero

    def settle(self):
        """Fold the scale into coefficients and scores; return the coefficients (n_old + n, n_labels)."""
        cdef double s = self.theta.scale[0]
        if self.theta.is_zero[0] or self.is_stale:
            np.asarray(self.F)[:] = 0.0
            self.is_stale = False
        elif s != 1.0:
            F = np.asarray(self.F)
            F *= s
        return self.theta.settle()
