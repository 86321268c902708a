"""Scores of CSR tokens from the weights of their features; for one sentence this is faster than SciPy."""

import numpy as np

from libc.stdint cimport int32_t, int64_t


def sum_duplicates(int64_t[::1] ends, int32_t[::1] columns, double[::1] values):
    """Sort the entries of every token by column and sum equal ones, in place; return how many are left."""
    cdef Py_ssize_t t, q, p, r, first = 0, last = 0, kept = 0, n = min(columns.shape[0], values.shape[0])
    cdef int32_t j
    cdef double x
    for t in range(ends.shape[0] - 1):
        first, last, ends[t] = last, ends[t + 1], kept
        if not first <= last <= n:
            raise ValueError(f"ends must rise from 0 to at most {n}")
        if last - first > 64:  # insertion takes linear time for sorted entries, but quadratic time for others
            token, weights = np.asarray(columns[first:last]), np.asarray(values[first:last])
            order = np.argsort(token, kind="stable")
            token[:], weights[:] = token[order], weights[order]
        for q in range(first, last):
            j, x, p = columns[q], values[q], kept
            while p > ends[t] and columns[p - 1] >= j:
                p -= 1
            if p == kept or columns[p] != j:
                for r in range(kept, p, -1):
                    columns[r], values[r] = columns[r - 1], values[r - 1]
                columns[p], values[p] = j, x
                kept += 1
            else:
                values[p] += x
    ends[ends.shape[0] - 1] = kept
    return kept


def token_scores(const int64_t[::1] ends, const int32_t[::1] columns, const double[::1] values, const double[::1] w,
                 Py_ssize_t n_features, Py_ssize_t n_labels, const int64_t[::1] starts=None,
                 const int32_t[::1] labels=None):
    """Return scores (T, K) of CSR rows; w begins with W (K, d), or, given starts and labels, with W's CSC `data`."""
    cdef Py_ssize_t T = ends.shape[0] - 1, K = n_labels, d = n_features, t, k
    cdef int64_t q, p, n = min(columns.shape[0], values.shape[0])
    cdef int32_t j
    cdef double x
    cdef bint is_sparse = starts is not None, good = True
    if w.shape[0] < (labels.shape[0] if is_sparse else K * d) or is_sparse and starts.shape[0] != d + 1:
        raise ValueError("w, starts and labels must be those of a matrix (K, d)")
    scores = np.zeros((T, K))
    cdef double[:, ::1] out = scores
    with nogil:
        for t in range(T):
            if not 0 <= ends[t] <= ends[t + 1] <= n:
                good = False
                break
            for q in range(ends[t], ends[t + 1]):
                j, x = columns[q], values[q]
                if not 0 <= j < d:
                    good = False
                elif is_sparse:
                    for p in range(starts[j], starts[j + 1]):
                        out[t, labels[p]] += x * w[p]
                else:
                    for k in range(K):
                        out[t, k] += x * w[k * d + j]
    if not good:
        raise ValueError(f"columns must lie in 0..{d - 1}, and ends must rise to at most {n}")
    return scores
