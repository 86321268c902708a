"""Sums over examples for multipliers: their slope phi, and products with the derivative of phi.

    phi = sum_i coef_i x_i'                      coef_i (K,) has two or three entries other than 0 for most examples
    out = sum_i J_i V x_i x_i'                   V (K, width)

J_i projects onto the directions of the face of a_i, which are the vectors on its support that sum to zero.

Dense rows are processed in blocks, so that X is read from memory once: while a block is in cache, it is scored if
needed, and added to the sum label by label, in float64. With sparse rows the sum should stay in cache instead.
Therefore a group of many rows is added for one label, then for the next label.

`GramProduct` multiplies by A'A, where the sparse matrix A has one row for each direction of each face.
"""

import numpy as np

from pybundle.features._rows import aligned

from libc.stdint cimport int32_t, int64_t

from pybundle.core._indices cimport check_indices
from pybundle.features._rows cimport BLOCK, PB_CSR32, Rows, PackedWeights


cdef enum:
    GROUP = 1 << 18     # number of coefficients of a group of sparse rows, 2 MB as float64


cdef struct Scratch:
    int group           # number of rows of a group
    double* coef        # (K, group) coefficients
    void* scores        # (K, BLOCK) scores
    Py_ssize_t* at      # the rows of up to BLOCK coefficients that are not 0
    double* packed      # the coefficients of the rows `at`


cdef _place(Scratch* b, Rows X):
    """Let the arrays of `b` point into new memory; return the array that owns it."""
    cdef size_t K = X.n_scores
    b.group = BLOCK if X.kind < PB_CSR32 else max(1, GROUP // X.n_scores // BLOCK) * BLOCK
    memory = aligned((K * (b.group + BLOCK) + 2 * BLOCK,), np.float64)
    b.coef = <double*><size_t>memory.ctypes.data
    b.scores = b.coef + K * b.group
    b.packed = <double*>b.scores + K * BLOCK
    b.at = <Py_ssize_t*>(b.packed + BLOCK)
    return memory


cdef void _add(Rows X, Scratch* b, const Py_ssize_t* rows, int count, double* out) noexcept nogil:
    # adds the coefficients of a group times its rows to `out`
    cdef int k, r, size
    cdef const double* coef
    for k in range(X.n_scores):
        size = 0
        coef = b.coef + <Py_ssize_t>k * b.group
        for r in range(count):
            if coef[r] != 0.0:
                b.at[size] = rows[r]
                b.packed[size] = coef[r]
                size += 1
            if size == BLOCK or (size and r == count - 1):
                X.accumulate(b.at, b.packed, size, out + k * X.width)
                size = 0


def add_rows(Rows X, const double[:, ::1] coef, const Py_ssize_t[::1] rows, double[::1] out):
    """Add `sum_e coef[e] x_rows[e]'`, without scale, to out (K * width,); coef (len(rows), K), where zeros are skipped.
    """
    cdef Py_ssize_t i = 0, n = rows.shape[0]
    cdef int r, k, count
    cdef Scratch b
    if out.shape[0] != X.n_scores * X.width or coef.shape[0] != n or coef.shape[1] != X.n_scores:
        raise ValueError(f"out must have {X.n_scores * X.width} entries, coef shape ({n}, {X.n_scores})")
    check_indices("rows", rows, X.n_rows)
    _memory = _place(&b, X)
    with nogil:
        while i < n:
            count = <int>min(<Py_ssize_t>b.group, n - i)
            for r in range(count):
                for k in range(X.n_scores):
                    b.coef[<Py_ssize_t>k * b.group + r] = coef[i + r, k]
            _add(X, &b, &rows[i], count, &out[0])
            i += count


cdef void _centre(Rows X, PackedWeights v, const double[:, ::1] alpha, const Py_ssize_t* rows, int count, int ahead,
                  bint binary, void* scores, double* coef, int group) noexcept nogil:
    # sets coef to J_i V x_i for the rows of a block
    cdef int r, k, size, K = X.n_scores
    cdef double mean
    X.score(v, rows, count, ahead, scores)
    for k in range(K):
        for r in range(count):
            coef[<Py_ssize_t>k * group + r] = (<float*>scores)[k * BLOCK + r] if v.is_single \
                else (<double*>scores)[k * BLOCK + r]
    for r in range(count if not binary else 0):
        mean, size = 0.0, 0
        for k in range(K):
            if alpha[rows[r], k] > 0.0:
                mean += coef[<Py_ssize_t>k * group + r]
                size += 1
        mean /= max(size, 1)
        for k in range(K):
            if alpha[rows[r], k] > 0.0:
                coef[<Py_ssize_t>k * group + r] -= mean
            else:
                coef[<Py_ssize_t>k * group + r] = 0.0


def add_face_products(Rows X, PackedWeights v, const double[:, ::1] alpha, const Py_ssize_t[::1] rows, bint binary,
                      double[::1] out):
    """Add the sum over `rows` of `J_i V x_i x_i'`, without scale, to out (K * width,).

    Parameters
    ----------
    v : PackedWeights
        V, packed in float32 or float64.
    alpha : (n, K)
        Multipliers a; the face of a_i consists of the labels with a_ik > 0. For a binary hinge J is 1, as all `rows`
        are inside their intervals.
    """
    cdef Py_ssize_t i = 0, j, n = rows.shape[0]
    cdef int count, block
    cdef Scratch b
    if out.shape[0] != X.n_scores * X.width or alpha.shape[0] != X.n_rows or alpha.shape[1] != X.n_scores:
        raise ValueError(f"out must have {X.n_scores * X.width} entries, alpha shape ({X.n_rows}, {X.n_scores})")
    X.check_weights(v)
    check_indices("rows", rows, X.n_rows)
    _memory = _place(&b, X)
    with nogil:
        while i < n:
            count = <int>min(<Py_ssize_t>b.group, n - i)
            j = 0
            while j < count:
                block = <int>min(<Py_ssize_t>BLOCK, count - j)
                _centre(X, v, alpha, &rows[i + j], block, <int>min(<Py_ssize_t>BLOCK, n - i - j - block), binary,
                        b.scores, b.coef + j, b.group)
                j += block
            _add(X, &b, &rows[i], count, &out[0])
            i += count


cdef class GramProduct:
    """The product `v -> A'A v` with a sparse matrix A; each row is used twice while it is in the first-level cache.

    Parameters
    ----------
    A : csr_array of float64, shape (m, d), d < 2^31
    """

    cdef const double[::1] data
    cdef const int32_t[::1] indices
    cdef const int64_t[::1] indptr
    cdef Py_ssize_t d

    def __init__(self, A):
        if A.format != "csr" or A.shape[1] >= 2**31:
            raise ValueError(f"A must have format csr and fewer than 2^31 columns, got {A.format} of shape {A.shape}")
        A.check_format()                # raises an error for indices outside of the shape
        self.data, self.d = A.data, A.shape[1]
        self.indices, self.indptr = A.indices.astype(np.int32, copy=False), A.indptr.astype(np.int64)

    def __call__(self, const double[::1] v):
        """Return `A'A v`, shape (d,)."""
        cdef Py_ssize_t i
        cdef int64_t e, n
        cdef double even, odd
        cdef const double* x
        cdef const int32_t* index
        product = np.zeros(self.d)
        cdef double[::1] out = product
        if v.shape[0] != self.d:
            raise ValueError(f"v must have {self.d} entries, got {v.shape[0]}")
        with nogil:
            for i in range(self.indptr.shape[0] - 1):
                n = self.indptr[i + 1] - self.indptr[i]
                if n == 0:
                    continue
                x, index = &self.data[self.indptr[i]], &self.indices[self.indptr[i]]
                even = odd = 0.0
                for e in range(0, n - 1, 2):
                    even += x[e] * v[index[e]]
                    odd += x[e + 1] * v[index[e + 1]]
                if n % 2:
                    even += x[n - 1] * v[index[n - 1]]
                even += odd
                for e in range(n):
                    out[index[e]] += even * x[e]
        return product
