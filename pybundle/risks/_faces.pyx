"""Sums over examples that multipliers need: phi itself, and products with its derivative.

    phi = sum_i coef_i x_i'                      coef_i (K,), mostly zero: two or three labels an example
    out = sum_i J_i V x_i x_i'                   V (K, width), J_i the projection onto the directions of the face of a_i:
                                                 vectors on its support that sum to zero

Rows are taken in blocks, so that X travels from memory once: a block is scored where scores are needed, and added label
by label, in float64, while it is in cache.
"""

from libc.stdlib cimport free, malloc

from ..features._rows cimport BLOCK, Rows, Weights


cdef struct Scratch:
    double* coef        # K x BLOCK, label by label
    void* scores        # K x BLOCK
    Py_ssize_t* at
    double* packed


cdef int _allocate(Scratch* b, int K) except -1:
    b.coef = <double*>malloc(K * BLOCK * sizeof(double))
    b.scores = malloc(K * BLOCK * sizeof(double))
    b.at = <Py_ssize_t*>malloc(BLOCK * sizeof(Py_ssize_t))
    b.packed = <double*>malloc(BLOCK * sizeof(double))
    if b.coef == NULL or b.scores == NULL or b.at == NULL or b.packed == NULL:
        _release(b)
        raise MemoryError
    return 0


cdef void _release(Scratch* b) noexcept:
    free(b.coef)
    free(b.scores)
    free(b.at)
    free(b.packed)


cdef void _add(Rows X, Scratch* b, const Py_ssize_t* rows, int count, double* out) noexcept nogil:
    # out += the coefficients of this block times its rows
    cdef int k, r, size
    for k in range(X.n_scores):
        size = 0
        for r in range(count):
            if b.coef[k * BLOCK + r] != 0.0:
                b.at[size] = rows[r]
                b.packed[size] = b.coef[k * BLOCK + r]
                size += 1
        if size:
            X.accumulate(b.at, b.packed, size, out + k * X.width)


def add_rows(Rows X, const double[:, ::1] coef, const Py_ssize_t[::1] rows, double[::1] out):
    """out (K * width,) += sum_e coef[e] x_rows[e]', without scale; coef (len(rows), K), entries of 0 cost nothing."""
    cdef Py_ssize_t i = 0, n = rows.shape[0]
    cdef int r, k, count
    cdef Scratch b
    if out.shape[0] != X.n_scores * X.width or coef.shape[0] != n or coef.shape[1] != X.n_scores:
        raise ValueError(f"out must have {X.n_scores * X.width} entries, coef shape ({n}, {X.n_scores})")
    _allocate(&b, X.n_scores)
    with nogil:
        while i < n:
            count = <int>min(<Py_ssize_t>BLOCK, n - i)
            for r in range(count):
                for k in range(X.n_scores):
                    b.coef[k * BLOCK + r] = coef[i + r, k]
            _add(X, &b, &rows[i], count, &out[0])
            i += count
    _release(&b)


def add_face_products(Rows X, Weights v, const double[:, ::1] alpha, const Py_ssize_t[::1] rows, bint binary,
                      double[::1] out):
    """out (K * width,) += sum over `rows` of J_i V x_i x_i', without scale.

    Parameters
    ----------
    v : Weights
        V, packed in float32 or float64.
    alpha : (n, K)
        a; its positive entries are the faces. A binary row is always inside its interval, J = 1.
    """
    cdef Py_ssize_t i = 0, n = rows.shape[0]
    cdef int r, k, count, size, K = X.n_scores
    cdef double mean
    cdef Scratch b
    if out.shape[0] != K * X.width or alpha.shape[1] != K:
        raise ValueError(f"out must have {K * X.width} entries, alpha {K} columns")
    _allocate(&b, K)
    with nogil:
        while i < n:
            count = <int>min(<Py_ssize_t>BLOCK, n - i)
            X.score(v, &rows[i], count, <int>min(<Py_ssize_t>BLOCK, n - i - count), b.scores)
            for r in range(K * BLOCK):
                b.coef[r] = (<float*>b.scores)[r] if v.is_single else (<double*>b.scores)[r]
            for r in range(count if not binary else 0):
                mean, size = 0.0, 0
                for k in range(K):
                    if alpha[rows[i + r], k] > 0.0:
                        mean += b.coef[k * BLOCK + r]
                        size += 1
                mean /= max(size, 1)
                for k in range(K):
                    if alpha[rows[i + r], k] > 0.0:
                        b.coef[k * BLOCK + r] -= mean
                    else:
                        b.coef[k * BLOCK + r] = 0.0
            _add(X, &b, &rows[i], count, &out[0])
            i += count
    _release(&b)
