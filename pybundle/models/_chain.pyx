"""Loops of the chain model over labellings: loss, score of the truth, label counts."""

from libc.stdint cimport int32_t, int64_t


def augment(double[:, ::1] unary, const int32_t[::1] gold, const int64_t[::1] offsets, const double[:, ::1] costs,
            const double[::1] factors, const double[:, ::1] transition, const double[::1] start,
            const double[::1] end, bint loss, double[::1] truths):
    """Writes the scores of the true labellings, and adds `factors[i] costs[gold]` to the rows of item i.

    unary (N, K), gold (N,): one item after another, offsets (n + 1,); costs (K, K), factors (n,), truths (n,).
    """
    cdef Py_ssize_t i, t, k, K = unary.shape[1]
    cdef int32_t y
    cdef double total, factor
    with nogil:
        for i in range(offsets.shape[0] - 1):
            total = start[gold[offsets[i]]] + end[gold[offsets[i + 1] - 1]]
            factor = factors[i]
            for t in range(offsets[i], offsets[i + 1]):
                y = gold[t]
                total += unary[t, y]
                if t > offsets[i]:
                    total += transition[gold[t - 1], y]
                if loss:
                    for k in range(K):
                        unary[t, k] += factor * costs[y, k]
            truths[i] = total


def count(const int32_t[::1] labels, const int32_t[::1] gold, const int64_t[::1] offsets, const double[::1] scales,
          double[:, ::1] transition, double[::1] start, double[::1] end):
    """Adds `scales[i]` for every transition and boundary of `labels`, and takes it off for those of `gold`.

    start, end (K,) may be empty: not wanted.
    """
    cdef Py_ssize_t i, t, first, last
    cdef double scale
    with nogil:
        for i in range(offsets.shape[0] - 1):
            scale, first, last = scales[i], offsets[i], offsets[i + 1] - 1
            if scale == 0.0:
                continue
            for t in range(first, last):
                if labels[t] != gold[t] or labels[t + 1] != gold[t + 1]:
                    transition[labels[t], labels[t + 1]] += scale
                    transition[gold[t], gold[t + 1]] -= scale
            if start.shape[0] and labels[first] != gold[first]:
                start[labels[first]] += scale
                start[gold[first]] -= scale
            if end.shape[0] and labels[last] != gold[last]:
                end[labels[last]] += scale
                end[gold[last]] -= scale


def losses(const int32_t[::1] labels, const int32_t[::1] gold, const int64_t[::1] offsets,
           const double[:, ::1] costs, const double[::1] factors, double[::1] out):
    """out[i] = factors[i] * sum over the positions of item i of costs[gold, label]."""
    cdef Py_ssize_t i, t
    cdef double total
    with nogil:
        for i in range(offsets.shape[0] - 1):
            total = 0.0
            for t in range(offsets[i], offsets[i + 1]):
                total += costs[gold[t], labels[t]]
            out[i] = factors[i] * total
