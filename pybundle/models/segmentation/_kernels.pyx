"""Loops of the segmentation model: windows of columns, loss, decoding, sums of windows.

The scores have a row for each column of an image, and an entry for each label. The labels are sorted by width, and the
position of a label in this order is its *place*. Labels of one width thus need one matrix product and one run of the
decoder.

The loss of a cover is the number of columns that count minus the number that the cover matches. The matches of a
segment depend on that segment alone: they are subtracted from its score, and the constant cancels against the truth
cover, which matches all columns that count. Slack rescaling multiplies by the loss, so its decoder separates covers
by their numbers of matches.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport uint64_t

from ...features._plane_rows cimport PlaneRows
from ...oracles._segmentation cimport Alphabet, segment

ctypedef fused pixel:
    unsigned char
    float
    double


cdef class Templates:
    """The labels: widths, symbols, places in the scores and in the weights; constant.

    widths, symbols (A,) belong to each label; order (A,) is the label at each place. Label a has the weights
    first[a]..first[a + 1] - 1, column by column.
    """

    cdef readonly int height
    cdef int[::1] widths, symbols, order, places
    cdef int[::1] place_widths, run_start, run_width
    cdef int[::1] symbol_start, symbol_places
    cdef long long[::1] first
    cdef bint by_start
    cdef Alphabet alphabet
    cdef tuple arguments

    def __init__(self, int height, widths, symbols, order, runs, first, bint by_start):
        self.arguments = (height, widths, symbols, order, runs, first, by_start)
        self.height, self.by_start = height, by_start
        self.widths, self.symbols, self.order, self.first = widths, symbols, order, first
        self.places = np.argsort(order).astype(np.int32)
        self.place_widths = widths[order]
        self.run_start, self.run_width = runs
        by_symbol = np.argsort(symbols[order], kind="stable")
        self.symbol_places = by_symbol.astype(np.int32)
        counts = np.bincount(symbols)
        self.symbol_start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        self.alphabet.n_labels = self.widths.shape[0]
        self.alphabet.widths = &self.place_widths[0]
        self.alphabet.n_runs = self.run_width.shape[0]
        self.alphabet.run_start = &self.run_start[0]
        self.alphabet.run_width = &self.run_width[0]

    def __reduce__(self):
        return Templates, self.arguments


cdef class Truth:
    """The truth covers; constant.

    labels (n_segments,) holds all covers, one after another. bounds and offsets (n + 1,) say where the segments and the
    columns of each example begin. symbols (n_columns,) is the right symbol of a column, or -1 if the column does not
    count. starts (n_columns,) is the first column of the segment that contains the column.
    """

    cdef const int[::1] labels, symbols, starts
    cdef const long long[::1] bounds, offsets
    cdef tuple arguments

    def __init__(self, labels, bounds, offsets, symbols, starts):
        self.arguments = (labels, bounds, offsets, symbols, starts)
        self.labels, self.bounds, self.offsets = labels, bounds, offsets
        self.symbols, self.starts = symbols, starts

    def __reduce__(self):
        return Truth, self.arguments


def unfold(const pixel[:, ::1] columns, const long long[::1] firsts, const long long[::1] ends, double[:, ::1] windows):
    """Write a window for every column k of firsts[i]..ends[i] - 1: the columns k, k + 1, ..., ends[i] - 1, then zeros.

    columns (n_columns, height); windows (rows, widest * height), as many rows as the items have columns.
    """
    cdef Py_ssize_t height = columns.shape[1], size = windows.shape[1], i, k, j, row = 0, there
    cdef const pixel* source
    cdef double* target
    with nogil:
        for i in range(firsts.shape[0]):
            for k in range(firsts[i], ends[i]):
                source = &columns[k, 0]
                target = &windows[row, 0]
                there = min((ends[i] - k) * height, size)
                for j in range(there):
                    target[j] = source[j]
                for j in range(there, size):
                    target[j] = 0.0
                row += 1


def solve_items(Templates templates, double[:, ::1] scores, const long long[::1] local, Truth truth or None,
                const long long[::1] rows, bint loss, int[::1] labels, long long[::1] counts, double[::1] values):
    """Find best covers of the items whose scores are rows local[j]..local[j + 1] - 1, which are overwritten.

    The counts[j] labels of item j are written to labels[local[j]:]. values[j] is the score of the cover; with `truth`
    it is relative to the truth cover of example rows[j]. With `loss` it includes the loss.
    """
    cdef Py_ssize_t j, s, n_items = counts.shape[0], widest = 0, W
    for j in range(n_items):
        widest = max(widest, local[j + 1] - local[j])
    cdef double[::1] f = np.empty(widest + 1)
    cdef int[::1] back = np.empty(widest + 1, dtype=np.int32)
    cdef double* table
    with nogil:
        for j in range(n_items):
            W = local[j + 1] - local[j]
            table = &scores[local[j], 0]
            if loss:
                _subtract_matches(templates, table, W, truth, rows[j], &back[0])
            counts[j] = segment(table, W, templates.alphabet, &f[0], &back[0], &labels[local[j]], &values[j])
            for s in range(local[j], local[j] + counts[j]):
                labels[s] = templates.order[labels[s]]
            if truth is not None:
                values[j] -= _true_score(templates, table, truth, rows[j])


cdef double _true_score(Templates templates, const double* table, Truth truth, Py_ssize_t i) noexcept nogil:
    """Sum the score of the truth cover of example i as the decoder sums, so that an equal cover has value 0 exactly."""
    cdef Py_ssize_t s, column = 0
    cdef double total = 0.0
    for s in range(truth.bounds[i], truth.bounds[i + 1]):
        total += table[column * templates.alphabet.n_labels + templates.places[truth.labels[s]]]
        column += templates.widths[truth.labels[s]]
    return total


cdef void _subtract_matches(Templates templates, double* table, Py_ssize_t W, Truth truth, Py_ssize_t i,
                            int* prefix) noexcept nogil:
    """Subtract from scores[k, a] the number of columns that a segment of label a at k matches.

    `prefix` (W + 1,) is scratch.
    """
    cdef int n_labels = templates.alphabet.n_labels, label, symbol, width, p
    cdef Py_ssize_t s, k = 0, c, q
    cdef const int* right = &truth.symbols[truth.offsets[i]]
    cdef bint seen
    for s in range(truth.bounds[i], truth.bounds[i + 1]):
        label = truth.labels[s]
        symbol = templates.symbols[label]
        width = templates.widths[label]
        if right[k] >= 0 and templates.by_start:
            for q in range(templates.symbol_start[symbol], templates.symbol_start[symbol + 1]):
                p = templates.symbol_places[q]
                table[k * n_labels + p] -= min(width, templates.place_widths[p])
        elif right[k] >= 0:
            seen = False
            for c in range(k):
                seen = seen or right[c] == symbol
            if not seen:
                prefix[0] = 0
                for c in range(W):
                    prefix[c + 1] = prefix[c] + (right[c] == symbol)
                for q in range(templates.symbol_start[symbol], templates.symbol_start[symbol + 1]):
                    p = templates.symbol_places[q]
                    for c in range(W - templates.place_widths[p] + 1):
                        table[c * n_labels + p] -= prefix[c + templates.place_widths[p]] - prefix[c]
        k += width


def solve_slack_items(Templates templates, double[:, ::1] scores, const long long[::1] local, Truth truth,
                      const long long[::1] rows, int[::1] labels, long long[::1] counts, double[::1] values):
    """Find covers of largest `loss (1 + score - score of the truth cover)`; the arguments are those of `solve_items`.

    f(e, m) is the best score of covers of e columns with m matches: O(W^2 n_labels) time for W columns.
    """
    cdef Py_ssize_t j, n_items = counts.shape[0], widest = 0, W
    for j in range(n_items):
        widest = max(widest, local[j + 1] - local[j])
    cdef double[:, ::1] table = np.empty((widest, scores.shape[1])), f = np.empty((widest + 1, widest + 1))
    cdef int[:, ::1] back = np.empty((widest + 1, widest + 1), dtype=np.int32)
    cdef int[::1] scratch = np.empty(widest + 1, dtype=np.int32)
    with nogil:
        for j in range(n_items):
            W = local[j + 1] - local[j]
            table[:W] = 0.0
            _subtract_matches(templates, &table[0, 0], W, truth, rows[j], &scratch[0])
            counts[j] = _best_slack(templates, &scores[local[j], 0], &table[0, 0], W,
                                    &truth.symbols[truth.offsets[rows[j]]],
                                    _true_score(templates, &scores[local[j], 0], truth, rows[j]), &f[0, 0],
                                    &back[0, 0], widest + 1, &labels[local[j]], &values[j])


cdef long long _best_slack(Templates templates, const double* scores, const double* matches, Py_ssize_t W,
                           const int* symbols, double right, double* f, int* back, Py_ssize_t ld, int* labels,
                           double* value) noexcept nogil:
    """Write the best cover to `labels`, return its number of segments; `matches` are minus the numbers of matches."""
    cdef Py_ssize_t n_labels = templates.alphabet.n_labels, e, k, m, n_counted = 0, best_m = 0, count = 0
    cdef int p, reached
    cdef double score
    for k in range(W):
        n_counted += symbols[k] >= 0
    for e in range(W + 1):
        for m in range(n_counted + 1):
            f[e * ld + m] = -INFINITY
    f[0] = 0.0
    for k in range(W):
        for p in range(n_labels):
            e = k + templates.place_widths[p]
            if e > W:
                break               # places are sorted by width
            reached = <int>-matches[k * n_labels + p]
            for m in range(n_counted + 1 - reached):
                score = f[k * ld + m] + scores[k * n_labels + p]
                if score > f[e * ld + m + reached]:
                    f[e * ld + m + reached] = score
                    back[e * ld + m + reached] = p
    value[0] = -INFINITY
    for m in range(n_counted, -1, -1):
        if f[W * ld + m] > -INFINITY:
            score = (n_counted - m) * (1.0 + (f[W * ld + m] - right))
            if score > value[0]:
                value[0] = score
                best_m = m
    if value[0] == -INFINITY:
        return -1
    e, m = W, best_m
    while e > 0:
        p = back[e * ld + m]
        labels[count] = p
        count += 1
        e -= templates.place_widths[p]
        m += <int>matches[e * n_labels + p]
    for k in range(count // 2):
        labels[k], labels[count - 1 - k] = labels[count - 1 - k], labels[k]
    for k in range(count):
        labels[k] = templates.order[labels[k]]
    return count


def losses(Templates templates, Truth truth, const long long[::1] rows, const int[::1] labels,
           const long long[::1] bounds, double[::1] out):
    """Set out[j] to the number of wrong columns of the cover labels[bounds[j]:bounds[j + 1]] among those that count."""
    cdef Py_ssize_t j, s, k, c, end, wrong
    cdef const int* right
    cdef const int* starts
    with nogil:
        for j in range(rows.shape[0]):
            right = &truth.symbols[truth.offsets[rows[j]]]
            starts = &truth.starts[truth.offsets[rows[j]]]
            wrong = 0
            k = 0
            for s in range(bounds[j], bounds[j + 1]):
                end = k + templates.widths[labels[s]]
                for c in range(k, end):
                    wrong += right[c] >= 0 and (right[c] != templates.symbols[labels[s]]
                                                or (templates.by_start and starts[c] != k))
                k = end
            out[j] = wrong


cdef Py_ssize_t differing(Templates templates, Truth truth, Py_ssize_t row, const int* labels, Py_ssize_t n_labels,
                          int* found, Py_ssize_t* columns, double* signs) noexcept nogil:
    """Write the segments that only a cover or only the truth of example `row` has; return their number.

    found, columns, signs: label, first column among all columns, 1 for the cover and -1 for the truth.
    """
    cdef Py_ssize_t base = truth.offsets[row], s = 0, t = truth.bounds[row], t_end = truth.bounds[row + 1], count = 0
    cdef Py_ssize_t k = 0, m = 0                # column reached by the cover, and by the truth cover
    while s < n_labels or t < t_end:
        if s < n_labels and t < t_end and k == m and labels[s] == truth.labels[t]:
            k += templates.widths[labels[s]]
            m = k
            s += 1
            t += 1
            continue
        if s < n_labels and (t == t_end or k <= m):
            found[count], columns[count], signs[count] = labels[s], base + k, 1.0
            k += templates.widths[labels[s]]
            s += 1
        else:
            found[count], columns[count], signs[count] = truth.labels[t], base + m, -1.0
            m += templates.widths[truth.labels[t]]
            t += 1
        count += 1
    return count


cdef most_segments(Truth truth, const long long[::1] rows, const long long[::1] bounds):
    """Return the largest number of segments of a cover and its truth cover together, at least 1."""
    cdef Py_ssize_t j, most = 1
    for j in range(rows.shape[0]):
        most = max(most, bounds[j + 1] - bounds[j] + truth.bounds[rows[j] + 1] - truth.bounds[rows[j]])
    return most


def add_windows(Templates templates, const pixel[:, ::1] columns, Truth truth, const long long[::1] rows,
                const int[::1] labels, const long long[::1] bounds, const double[::1] scales, double[::1] slope):
    """Add `sum_j scales[j] (windows of cover j - windows of the truth cover of example rows[j])` to slope."""
    cdef Py_ssize_t j, q, count, most = most_segments(truth, rows, bounds)
    cdef int[::1] found = np.empty(most, dtype=np.int32)
    cdef Py_ssize_t[::1] places = np.empty(most, dtype=np.intp)
    cdef double[::1] signs = np.empty(most)
    with nogil:
        for j in range(rows.shape[0]):
            count = differing(templates, truth, rows[j], &labels[0] + bounds[j], bounds[j + 1] - bounds[j], &found[0],
                              &places[0], &signs[0])
            for q in range(count):
                _add(&columns[places[q], 0], templates.widths[found[q]] * templates.height, scales[j] * signs[q],
                     &slope[templates.first[found[q]]])


def window_planes(Templates templates, const pixel[:, ::1] columns, Truth truth, const long long[::1] rows,
                  const int[::1] labels, const long long[::1] bounds, const double[::1] scales):
    """Return a csr_array with rows scales[j] (windows of cover j - windows of the truth cover of example rows[j])."""
    cdef Py_ssize_t j, q, e, count, size, most = most_segments(truth, rows, bounds)
    cdef Py_ssize_t n_labels = templates.widths.shape[0]
    cdef int[::1] found = np.empty(most, dtype=np.int32)
    cdef Py_ssize_t[::1] places = np.empty(most, dtype=np.intp)
    cdef double[::1] signs = np.empty(most)
    cdef int label
    cdef const uint64_t* order
    cdef PlaneRows out = PlaneRows(templates.first[n_labels], rows.shape[0],
                                   templates.height * int(np.max(templates.widths)))
    with nogil:
        for j in range(rows.shape[0]):
            count = 0
            if scales[j] != 0.0:
                count = differing(templates, truth, rows[j], &labels[0] + bounds[j], bounds[j + 1] - bounds[j],
                                  &found[0], &places[0], &signs[0])
            out.reserve(count)
            for q in range(count):
                out.keys[q] = <uint64_t>found[q] << 32 | <uint64_t>q
            order = out.sort(count)
            for q in range(count):
                e = order[q] & 0xFFFFFFFFu
                label = found[e]
                size = templates.widths[label] * templates.height
                _add(&columns[places[e], 0], size, scales[j] * signs[e], out.block)
                if q + 1 == count or <int>(order[q + 1] >> 32) != label:
                    out.flush_block(templates.first[label], size)
            out.close()
    return out.matrix()


cdef inline void _add(const pixel* window, Py_ssize_t size, double scale, double* target) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(size):
        target[j] += scale * window[j]
