"""Dynamic programs for the best cover of W columns by labelled segments of fixed widths.

    f(0) = 0,   f(e) = max_a f(e - width(a)) + scores[e - width(a), a]

Column k passes f(k) on to the columns k + width(a). In a run of labels of equal width only the best score matters. If
covers tie, the smallest label at the right end wins; further ties are decided by the segments to its left.
"""

import numpy as np

cdef extern from "_segmentation.h" nogil:
    double pb_max(const double* x, int n)
    void pb_extend(int n, double start, int label, const double* row, double* best, int* argument)

cdef double INF = float("inf")


cdef Py_ssize_t segment(const double* scores, Py_ssize_t W, Alphabet alphabet, double* f, int* back,
                        int* labels, double* value) noexcept nogil:
    cdef Py_ssize_t k, end
    cdef int r, a, low, n_labels
    cdef const double* row
    cdef double best, candidate
    for k in range(W + 1):
        f[k] = -INF
        back[k] = -1
    f[0] = 0.0
    for k in range(W):
        if f[k] == -INF:
            continue
        row = scores + k * alphabet.n_labels
        for r in range(alphabet.n_runs):
            end = k + alphabet.run_width[r]
            if end > W:
                continue
            low = alphabet.run_start[r]
            n_labels = alphabet.run_start[r + 1] - low
            best = pb_max(row + low, n_labels)
            candidate = f[k] + best
            if candidate > f[end] or (candidate == f[end] and best > -INF):
                a = low
                while row[a] != best:
                    a += 1
                if candidate > f[end] or a < back[end]:
                    f[end] = candidate
                    back[end] = a
    value[0] = f[W]
    if f[W] == -INF:
        return -1
    # labels are written at the right end of the buffer, then moved to its front
    cdef Py_ssize_t first = W, j
    k = W
    while k > 0:
        first -= 1
        labels[first] = back[k]
        k -= alphabet.widths[back[k]]
    for j in range(W - first):
        labels[j] = labels[first + j]
    return W - first


cdef Py_ssize_t segment_pairs(const double* scores, const double* transition, Py_ssize_t W, Alphabet alphabet,
                              double* f, int* back, int* labels, double* value) noexcept nogil:
    # f[e, a] is the value of the best cover of e columns that ends with label a, back[e, a] the label before it
    cdef Py_ssize_t A = alphabet.n_labels, k, end, j, first = W
    cdef int a, b
    cdef double* best = f + (W + 1) * A
    cdef int* argument = back + (W + 1) * A
    for j in range((W + 1) * A):
        f[j] = -INF
    for k in range(W):
        for a in range(A):
            best[a] = 0.0 if k == 0 else -INF
            argument[a] = -1
        if k > 0:
            for b in range(A):
                if f[k * A + b] > -INF:
                    pb_extend(<int>A, f[k * A + b], b, transition + b * A, best, argument)
        for a in range(A):
            end = k + alphabet.widths[a]
            if end <= W and best[a] > -INF:
                f[end * A + a] = best[a] + scores[k * A + a]
                back[end * A + a] = argument[a]
    a = 0
    for b in range(1, A):
        if f[W * A + b] > f[W * A + a]:
            a = b
    value[0] = f[W * A + a]
    if value[0] == -INF:
        return -1
    k = W
    while k > 0:
        first -= 1
        labels[first] = a
        b = back[k * A + a]
        k -= alphabet.widths[a]
        a = b
    for j in range(W - first):
        labels[j] = labels[first + j]
    return W - first


def segment_items(const double[:, ::1] scores, const long long[::1] offsets, const int[::1] widths,
                  const int[::1] run_start, const int[::1] run_width, const double[:, ::1] transition or None,
                  Py_ssize_t first, Py_ssize_t last, int[::1] labels, long long[::1] counts, double[::1] values):
    """Find the best covers of the items first..last - 1.

    scores (N, A), transition (A, A) or None. The counts[i] labels of item i are written to labels[offsets[i]:];
    counts[i] is -1 if there is no cover.
    """
    cdef Py_ssize_t i, W, longest = 0, rows
    cdef const double* row
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    rows = longest + 1 if transition is None else (longest + 2) * widths.shape[0]
    cdef double[::1] f = np.empty(rows)
    cdef int[::1] back = np.empty(rows, dtype=np.int32)
    cdef Alphabet alphabet
    alphabet.n_labels = widths.shape[0]
    alphabet.widths = &widths[0]
    alphabet.n_runs = run_width.shape[0]
    alphabet.run_start = &run_start[0]
    alphabet.run_width = &run_width[0]
    with nogil:
        for i in range(first, last):
            row = &scores[offsets[i], 0]
            W = offsets[i + 1] - offsets[i]
            if transition is None:
                counts[i] = segment(row, W, alphabet, &f[0], &back[0], &labels[offsets[i]], &values[i])
            else:
                counts[i] = segment_pairs(row, &transition[0, 0], W, alphabet, &f[0], &back[0],
                                          &labels[offsets[i]], &values[i])
