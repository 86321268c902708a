"""Slack rescaling of the Hamming loss on chains: one Viterbi table for every number of wrong labels.

    max_e  c e (1 + best_e),     best_e = max { <w, psi(y)> : y has e wrong labels },     c = 1 or 1 / T

Let f_t(e, k) be the best score of the first t tokens with e errors and label k at token t. Then `f_t(e, k) =
theta_t(k) + max_j f_{t-1}(e - [k != y_t], j) + M_jk`, with scores theta of tokens and M of transitions. A chain of T
tokens takes O(T^2 K^2) time and O(T^2 K) memory.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t

from ...oracles._chain cimport ChainTables


def slack_items(const double[:, ::1] unary, const int32_t[::1] truth, const int64_t[::1] offsets,
                const double[::1] factors, ChainTables tables, const double[::1] truths, int32_t[::1] labels,
                double[::1] values):
    """Write labels and values of chains from scores `unary` without loss; `truths` are the scores of `truth`."""
    cdef Py_ssize_t i, n = offsets.shape[0] - 1, K = unary.shape[1], longest = 0
    if n == 0:
        return
    for i in range(n):
        longest = max(longest, offsets[i + 1] - offsets[i])
    cdef double[:, ::1] f = np.empty((2, (longest + 1) * K))
    cdef int32_t[::1] back = np.empty(longest * (longest + 1) * K, dtype=np.int32)
    with nogil:
        for i in range(n):
            values[i] = best_chain(offsets[i + 1] - offsets[i], K, &unary[offsets[i], 0], &truth[offsets[i]],
                                   factors[i], tables, truths[i], &f[0, 0], &f[1, 0], &back[0], &labels[offsets[i]])


cdef double best_chain(Py_ssize_t T, Py_ssize_t K, const double* unary, const int32_t* truth, double factor,
                       ChainTables tables, double true_score, double* f, double* g, int32_t* back,
                       int32_t* labels) noexcept nogil:
    cdef Py_ssize_t t, e, j, k, best_k = 0, best_e = 0, rows = T + 1
    cdef double score, best, value = -INFINITY
    cdef double* swap
    for e in range(2):
        for k in range(K):
            f[e * K + k] = tables.start[k] + unary[k] if e == (k != truth[0]) else -INFINITY
    for t in range(1, T):
        for e in range(t + 2):
            for k in range(K):
                g[e * K + k] = -INFINITY
        for e in range(t + 1):
            for k in range(K):
                best = -INFINITY
                for j in range(K):
                    score = f[e * K + j] + tables.rows[j, k]
                    if score > best:
                        best = score
                        best_k = j
                if best > -INFINITY:
                    j = e + (k != truth[t])
                    g[j * K + k] = best + unary[t * K + k]
                    back[(t * rows + j) * K + k] = <int32_t>best_k
        swap = f
        f = g
        g = swap
    for e in range(T + 1):
        best = -INFINITY
        for k in range(K):
            if f[e * K + k] + tables.end[k] > best:
                best = f[e * K + k] + tables.end[k]
                j = k
        if best == -INFINITY:
            continue
        score = factor * e * (1.0 + (best - true_score))
        if score > value:
            value = score
            best_e = e
            best_k = j
    for t in range(T - 1, -1, -1):
        labels[t] = <int32_t>best_k
        if t > 0:
            j = back[(t * rows + best_e) * K + best_k]
            best_e -= best_k != truth[t]
            best_k = j
    return value
