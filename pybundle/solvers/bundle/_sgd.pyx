"""One epoch of stochastic subgradient steps over rows of flat data.

The iterate W is stored as s V, with one number s for the shrinkage. A step then computes the scores of one example and
changes two rows of V only, those of the most violated label and of the truth:

    i in order:   s <- (1 - 1 / t) s,   V_label -= (n c_i eta / s) x_i,   V_{y_i} += (n c_i eta / s) x_i,
                  with eta = 1 / (lam t)

The intercepts are stored apart from V, as s `base`.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t

from pybundle.features._rows cimport BLOCK, PB_CSR32, real
from pybundle.risks._engine cimport Block, Engine, place_block


cdef void scatter_csr(Engine e, const real* data, Py_ssize_t i, double coef, double* W,
                      Py_ssize_t ldw) noexcept nogil:
    # adds coef x_i to the column of W', shape (d, ldw), whose first entry is at W
    cdef int64_t q
    for q in range(e.X.indptr[i], e.X.indptr[i + 1]):
        W[e.X.indices[q] * ldw] += coef * data[q]


cdef void add_row(Engine e, const Py_ssize_t* i, int k, double coef, double* W,
                  Py_ssize_t ldw) noexcept nogil:
    # adds coef x_i to row k of W, which is stored in the layout of the kernels
    if e.kind < PB_CSR32:
        e.kernels.accumulate[e.kind](&e.X, i, &coef, 1, W + k * ldw)
    elif e.kind == PB_CSR32:
        scatter_csr(e, <const float*>e.X.data, i[0], coef, W + k, ldw)
    else:
        scatter_csr(e, <const double*>e.X.data, i[0], coef, W + k, ldw)


def epoch(Engine e, double[::1] w, const Py_ssize_t[::1] order, double lam, double start):
    """Make steps `w <- w - eta (lam w + n r_i'(w))`, `eta = 1 / (lam (start + step))`, for the examples i in `order`.

    Returns three arrays with an entry for every example: label, coefficient and offset of the plane found at its last
    visit, or 0 if the example was not visited.
    """
    cdef Py_ssize_t d = e.n_features, n = order.shape[0], ldw, step, j
    cdef int K = e.n_scores, k, truth
    cdef double s = 1.0, eta, change, offset = 0.0
    labels, coefs, offsets = (np.zeros(e.n_examples, dtype=np.int32), np.zeros(e.n_examples),
                              np.zeros(e.n_examples))
    cdef int32_t[::1] label = labels
    cdef double[::1] coef = coefs, offset_of = offsets
    if n == 0:
        return labels, coefs, offsets
    W = np.asarray(w).reshape(K, e.width)
    if e.kind >= PB_CSR32:     # the layouts that `Rows.pack` makes
        packed = np.zeros((d, 1 if K == 1 else (K + 7) // 8 * 8))
        features = packed[:, :K].T
    else:
        packed = np.zeros((K, (d + 15) // 16 * 16))
        features = packed[:, :d]
    features[:] = W[:, :d]
    constant = W[:, d].copy() if e.has_bias else np.zeros(K)
    cdef double[:, ::1] V = packed
    cdef double[::1] base = constant
    cdef double* v = &V[0, 0]
    cdef const Py_ssize_t* i
    cdef Block b
    _memory = place_block(&b, K)
    cdef double* S = <double*>b.scores
    ldw = V.shape[1]
    with nogil:
        for step in range(n):
            i = &order[step]
            # scores of example i at the iterate, whose weights are s V and whose intercepts are s base
            e.kernels.score64[e.kind](&e.X, i, 1, <int>(step + 1 < n), v, ldw, K, S)
            for k in range(K):
                S[k * BLOCK] = s * (e.scale * S[k * BLOCK] + e.bias * base[k])
            e._label(S, i, 1, &b)
            e._decide(i, 1, &b, &offset)
            label[i[0]] = b.label[0]
            coef[i[0]] = b.coef[0]
            offset_of[i[0]] = b.offset[0]
            eta = 1.0 / (lam * (start + step))
            s *= 1.0 - 1.0 / (start + step)
            if s < 1e-9:      # this includes s = 0, after the first step with start = 1
                for j in range(V.shape[0] * ldw):
                    v[j] *= s
                for k in range(K):
                    base[k] *= s
                s = 1.0
            if b.coef[0] != 0.0:
                change = -eta * e.n_examples * b.coef[0] / s
                add_row(e, i, b.label[0], change * e.scale, v, ldw)
                base[b.label[0]] += change * e.bias
                if K > 1:
                    truth = e.y[i[0]]
                    add_row(e, i, truth, -change * e.scale, v, ldw)
                    base[truth] -= change * e.bias
    W[:, :d] = s * features
    if e.has_bias:
        W[:, d] = s * constant
    return labels, coefs, offsets
