"""Kernels of chains: best labelling, k best labellings, marginals. `chain.py` checks their arguments."""

import numpy as np

from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

cdef extern from "_chain.h" nogil:
    enum: PB_CHAIN_LANES
    int pb_viterbi(int length, int K, int ld, const double* theta, const double* rows, const double* columns,
                   const double* start, const double* end, double* b, int32_t* labels, double* value)
    int pb_chain_scores(int length, int K, int ld, const double* theta, const double* start, const double* end,
                        double* x, double* total, double* spread)
    double pb_forward_backward(int length, int K, int ld, const double* x, const double* forward,
                               const double* backward, const double* deviations, double weight, double* p, double* v,
                               double* row, double* unary, double* entropy)
    double pb_forward_backward_log(int length, int K, int ld, const double* x, const double* rows,
                                   double weight, double* g, double* row, double* unary, double* pairs,
                                   ptrdiff_t step, double* entropy)
    void pb_pair_sums(ptrdiff_t n_rows, int ld, const double* p, const double* v, double* sums)
    double pb_chain_factors(int K, int ld, const double* transition, const double* mask, double* rows,
                            double* forward, double* backward, double* deviations, double* top)
    void pb_pairs(int length, int K, int ld, const double* p, const double* v, const double* forward, double* pairs)

# Scaled probabilities cannot underflow if SPREAD bounds the spread (largest minus smallest) of the scores of two
# neighbouring positions, multiplied by the result of `steps_between`.
cdef double SPREAD = 300.0
cdef enum:
    MOST_STEPS = 8
cdef uintptr_t LINE = 64


cdef double* aligned(void* memory) noexcept nogil:
    """Return the first address on a cache line; `memory` was allocated with LINE spare bytes."""
    return <double*>((<uintptr_t>memory + LINE - 1) // LINE * LINE)


cdef double[:, ::1] padded(const double[:, :] matrix, Py_ssize_t ld, double filler):
    """Copy a matrix to rows of `ld` entries that begin on a cache line: vector loads across two lines cost twice."""
    cdef Py_ssize_t rows = matrix.shape[0], i, j
    cdef double[::1] room = np.empty(rows * ld + LINE // sizeof(double))
    cdef Py_ssize_t skipped = aligned(&room[0]) - &room[0]
    cdef double* table = &room[skipped]
    for i in range(rows):
        for j in range(ld):
            table[i * ld + j] = matrix[i, j] if j < matrix.shape[1] else filler
    return np.asarray(room)[skipped:skipped + rows * ld].reshape(rows, ld)


cdef struct Factors:        # tables for marginals, see `ChainTables`
    int K, ld
    const double* start
    const double* end
    const double* forward
    const double* backward
    const double* deviations
    const double* log_rows
    double top, spread, steps


cdef double marginals_of(const Factors* f, Py_ssize_t length, const double* unary, double* scratch, double* nodes,
                         double* pairs, double* entropy) noexcept nogil:
    """Compute what `ChainTables.marginals` returns."""
    cdef int K = f.K, ld = f.ld, j, k
    cdef double* p = scratch
    cdef double* v = p + length * ld
    cdef double* x = v + length * ld
    cdef double* row = x + length * ld
    cdef double* sums = row + 2 * ld
    cdef double total = 0.0, spread = 0.0, value
    memset(pairs, 0, K * K * sizeof(double))
    if not pb_chain_scores(<int>length, K, ld, unary, f.start, f.end, x, &total, &spread):
        return -INFINITY
    if f.steps * (spread + f.spread) <= SPREAD:
        value = pb_forward_backward(<int>length, K, ld, x, f.forward, f.backward, f.deviations, 1.0, p, v, row, nodes,
                                    entropy)
        if value == -INFINITY:
            return value
        memset(sums, 0, ld * ld * sizeof(double))
        pb_pair_sums(length, ld, p, v, sums)
        for j in range(K):
            for k in range(K):
                pairs[j * K + k] = sums[j * ld + k] * f.forward[j * ld + k]
    else:
        value = pb_forward_backward_log(<int>length, K, ld, x, f.log_rows, 1.0, p, row, nodes, pairs, 0, entropy)
    return value + total + (length - 1) * f.top


cdef inline Py_ssize_t whole_lanes(Py_ssize_t K) noexcept nogil:
    return (K + PB_CHAIN_LANES - 1) // PB_CHAIN_LANES * PB_CHAIN_LANES


cdef void place_boundaries(Py_ssize_t K, Py_ssize_t ld, const double* start, const double* end, double* first,
                           double* last) noexcept nogil:
    """Set first (ld,) and last (ld,), padded as in `ChainTables`."""
    cdef Py_ssize_t j
    for j in range(ld):
        first[j] = -INFINITY if j >= K else 0.0 if start == NULL else start[j]
        last[j] = 0.0 if j >= K or end == NULL else end[j]


cdef int best_labelling(Py_ssize_t length, Py_ssize_t K, const double* unary, const double* transition,
                        const double* start, const double* end, int32_t* labels, double* value) noexcept nogil:
    cdef Py_ssize_t ld = whole_lanes(K), j, k
    cdef int found
    cdef void* memory = malloc((2 * K + 2 + length) * ld * sizeof(double) + LINE)
    if memory == NULL:
        return -1
    cdef double* rows = aligned(memory)
    cdef double* columns = rows + K * ld
    cdef double* first = columns + K * ld
    cdef double* last = first + ld
    place_boundaries(K, ld, start, end, first, last)
    for j in range(K):
        for k in range(ld):
            rows[j * ld + k] = transition[j * K + k] if k < K else -INFINITY
            columns[j * ld + k] = transition[k * K + j] if k < K else 0.0
    found = pb_viterbi(<int>length, <int>K, <int>ld, unary, rows, columns, first, last, last + ld, labels, value)
    free(memory)
    return found


cdef int chain_marginals(Py_ssize_t length, Py_ssize_t K, const double* unary, const double* transition,
                         const double* start, const double* end, double* log_partition, double* nodes, double* pairs,
                         double* entropy) noexcept nogil:
    cdef Py_ssize_t ld = whole_lanes(K)
    cdef size_t size = (4 * K + 4 + 3 * length + ld) * ld * sizeof(double)
    cdef void* memory = malloc(size + LINE)
    if memory == NULL:
        return -1
    cdef double* rows = aligned(memory)
    cdef double* forward = rows + K * ld
    cdef double* backward = forward + K * ld
    cdef double* deviations = backward + K * ld
    cdef double* first = deviations + K * ld
    cdef double* last = first + ld
    cdef Factors factors = Factors(<int>K, <int>ld, first, last, forward, backward, deviations, rows, 0.0, 0.0, 1.0)
    cdef Py_ssize_t j
    memset(rows, 0, size)           # zeros pad all tables, and suffice for a chain of one position
    place_boundaries(K, ld, start, end, first, last)
    if length > 1:
        factors.spread = pb_chain_factors(<int>K, <int>ld, transition, NULL, rows, forward, backward, deviations,
                                          &factors.top)
        for j in range(K * K):
            if transition[j] == -INFINITY:      # the number of steps between labels is unknown
                factors.steps = INFINITY
    log_partition[0] = -INFINITY
    if factors.top > -INFINITY:     # else all transitions are forbidden
        log_partition[0] = marginals_of(&factors, length, unary, last + ld, nodes, pairs, entropy)
    free(memory)
    return log_partition[0] > -INFINITY


def steps_between(allowed):
    """Return the smallest m for which m transitions lead from every label to every label; infinite above MOST_STEPS.

    `allowed` (K, K) says which transitions there are; all pairs of labels must be joined by exactly m of them.
    """
    reached = allowed = np.asarray(allowed, dtype=np.float32)
    for steps in range(1, MOST_STEPS + 1):
        if reached.all():
            return float(steps)
        reached = np.minimum(reached @ allowed, 1.0)
    return np.inf


cdef class ChainTables:
    """Padded copies of a transition matrix (K, K) and boundary scores (K,); with `marginals` also exponentials.

    Scores of -inf are a mask: `place` and `place_factors` leave them.
    """

    def __cinit__(self, transition, start, end, bint marginals=False):
        cdef Py_ssize_t K = transition.shape[0], ld = whole_lanes(K)
        self.n_labels, self.ld = K, ld
        self.rows, self.columns = padded(transition, ld, -np.inf), padded(transition.T, ld, 0.0)
        self.start, self.end = padded(start[None], ld, -np.inf)[0], padded(end[None], ld, 0.0)[0]
        self.mask, self.ends_mask = (np.where(scores == -np.inf, -np.inf, 0.0)
                                     for scores in (transition, np.array([start, end])))
        if not marginals:
            return
        self.forward, self.backward, self.deviations, self.log_rows = (padded(np.zeros((K, K)), ld, filler)
                                                                       for filler in (0.0, 0.0, 0.0, -np.inf))
        self.steps = steps_between(np.asarray(self.mask) == 0.0)
        cdef const double[:, ::1] scores = np.ascontiguousarray(transition, dtype=np.float64)
        self.place_factors(&scores[0, 0])

    cdef void place(self, const double* transition, const double* start, const double* end) noexcept nogil:
        cdef Py_ssize_t j, k, K = self.n_labels
        for j in range(K):
            self.start[j], self.end[j] = start[j] + self.ends_mask[0, j], end[j] + self.ends_mask[1, j]
            for k in range(K):
                self.rows[j, k] = self.columns[k, j] = transition[j * K + k] + self.mask[j, k]

    cdef int viterbi(self, Py_ssize_t length, const double* unary, double* scratch, int32_t* labels,
                     double* value) noexcept nogil:
        return pb_viterbi(<int>length, <int>self.n_labels, <int>self.ld, unary, &self.rows[0, 0],
                          &self.columns[0, 0], &self.start[0], &self.end[0], scratch, labels, value)

    cdef void place_factors(self, const double* transition) noexcept nogil:
        self.spread = pb_chain_factors(<int>self.n_labels, <int>self.ld, transition, &self.mask[0, 0],
                                       &self.log_rows[0, 0], &self.forward[0, 0], &self.backward[0, 0],
                                       &self.deviations[0, 0], &self.top)
        if self.top == -INFINITY:       # all transitions are forbidden: only chains of one position have labellings
            self.top = 0.0

    cdef double marginals(self, Py_ssize_t length, const double* unary, double* scratch, double* nodes, double* pairs,
                          double* entropy) noexcept nogil:
        cdef Factors factors = Factors(<int>self.n_labels, <int>self.ld, &self.start[0], &self.end[0],
                                       &self.forward[0, 0], &self.backward[0, 0], &self.deviations[0, 0],
                                       &self.log_rows[0, 0], self.top, self.spread, self.steps)
        return marginals_of(&factors, length, unary, scratch, nodes, pairs, entropy)

    def viterbi_items(self, const double[:, ::1] unary, const int64_t[::1] offsets, Py_ssize_t first,
                      Py_ssize_t last, int32_t[::1] labels, double[::1] values):
        """Decode the items first..last - 1; return the first that has a NaN or +inf, or -1."""
        cdef Py_ssize_t i, longest = 0, bad = -1
        for i in range(first, last):
            longest = max(longest, offsets[i + 1] - offsets[i])
        cdef double[::1] memory = np.empty(longest * self.ld + LINE // 8)
        with nogil:
            for i in range(last - 1, first - 1, -1):
                if not self.viterbi(offsets[i + 1] - offsets[i], &unary[offsets[i], 0], aligned(&memory[0]),
                                    &labels[offsets[i]], &values[i]):
                    bad = i
        return bad

    def marginal_items(self, const double[:, ::1] unary, const int64_t[::1] offsets, Py_ssize_t first,
                       Py_ssize_t last, const double[::1] weights, double[:, ::1] marginals, double[::1] values,
                       double[:, ::1] entropies or None, double[:, :, ::1] pairs):
        """Compute marginals of the items first..last - 1; return the first that has a NaN or +inf, or -1.

        `values` receives the log partitions, -inf if every labelling is forbidden. `entropies` (n, 2) receives the
        entropies of the computed marginals and bounds on their errors; it may be None. `pairs`, zero before, receives
        the sum of the pairwise marginals times `weights` if its shape is (1, K, K), or those of every position of a
        single item if it is (length - 1, K, K).
        """
        cdef Py_ssize_t i, t, length, longest = 0, bad = -1, K = self.n_labels, ld = self.ld, j, k
        cdef Py_ssize_t begin = offsets[first], n_rows = offsets[last] - begin
        cdef double total = 0.0, spread = 0.0, value
        cdef double* entropy = NULL
        cdef bint good, narrow, single = last - first == 1 and pairs.shape[0] != 1
        cdef ptrdiff_t step = K * K if single else 0
        for i in range(first, last):
            longest = max(longest, offsets[i + 1] - offsets[i])
        cdef double[::1] memory = np.empty((2 * n_rows + longest + 2 + ld) * ld + LINE // 8)
        cdef double* p = aligned(&memory[0])
        cdef double* v = p + n_rows * ld
        cdef double* x = v + n_rows * ld
        cdef double* row = x + longest * ld
        cdef double* sums = row + 2 * ld
        with nogil:
            for i in range(last - 1, first - 1, -1):
                length = offsets[i + 1] - offsets[i]
                t = offsets[i]
                if entropies is not None:
                    entropy = &entropies[i, 0]
                good = pb_chain_scores(<int>length, <int>K, <int>ld, &unary[t, 0], &self.start[0], &self.end[0], x,
                                       &total, &spread)
                if not good:
                    bad = i
                narrow = self.steps * (spread + self.spread) <= SPREAD
                if not good or total == -INFINITY:
                    value = -INFINITY
                elif narrow:
                    value = pb_forward_backward(
                        <int>length, <int>K, <int>ld, x, &self.forward[0, 0], &self.backward[0, 0],
                        &self.deviations[0, 0], weights[i], p + (t - begin) * ld, v + (t - begin) * ld, row,
                        &marginals[t, 0], entropy)
                    if single and length > 1:
                        pb_pairs(<int>length, <int>K, <int>ld, p, v, &self.forward[0, 0], &pairs[0, 0, 0])
                else:
                    value = pb_forward_backward_log(
                        <int>length, <int>K, <int>ld, x, &self.log_rows[0, 0], weights[i],
                        p + (t - begin) * ld, row, &marginals[t, 0], &pairs[0, 0, 0] if pairs.shape[0] else NULL,
                        step, entropy)
                if not good or total + value == -INFINITY or not narrow:    # pb_pair_sums must not add this item
                    memset(p + (t - begin) * ld, 0, length * ld * sizeof(double))
                    memset(v + (t - begin) * ld, 0, length * ld * sizeof(double))
                values[i] = value + total + (length - 1) * self.top
            if not single and pairs.shape[0] and bad < 0:
                memset(sums, 0, ld * ld * sizeof(double))
                pb_pair_sums(n_rows, <int>ld, p, v, sums)
                for j in range(K):
                    for k in range(K):
                        pairs[0, j, k] += sums[j * ld + k] * self.forward[j, k]
        return bad


cdef inline bint before(double key, int32_t label, double other_key, int32_t other_label) noexcept nogil:
    return key > other_key or (key == other_key and label < other_label)


cdef void sift(int size, int at, double* keys, int32_t* labels) noexcept nogil:
    """Restore a heap after a change at `at`; its root is the largest key and, among equals, the smallest label."""
    cdef int child
    cdef double key = keys[at]
    cdef int32_t label = labels[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and before(keys[child + 1], labels[child + 1], keys[child], labels[child]):
            child += 1
        if not before(keys[child], labels[child], key, label):
            break
        keys[at], labels[at] = keys[child], labels[child]
        at = child
    keys[at], labels[at] = key, label


cdef int merge(int K, int k, const double* row, double theta, const double* suffixes, const int32_t* counts,
               double* keys, int32_t* labels, int32_t* ranks, double* values, int32_t* label_out,
               int32_t* rank_out) noexcept nogil:
    """Find the k largest of theta + row[q] + suffixes[q, r], in falling order, ties by (q, r); return their number.

    suffixes (K, k): row q has counts[q] values in falling order; keys, labels, ranks (K,): scratch.
    """
    cdef int size = 0, found = 0, q
    for q in range(K):
        ranks[q] = 0
        if counts[q] > 0 and row[q] > -INFINITY:
            keys[size], labels[size] = row[q] + suffixes[<Py_ssize_t>q * k], q
            size += 1
    for q in range(size // 2 - 1, -1, -1):
        sift(size, q, keys, labels)
    while size > 0 and found < k and theta > -INFINITY:
        q = labels[0]
        values[found], label_out[found], rank_out[found] = theta + keys[0], q, ranks[q]
        found += 1
        ranks[q] += 1
        if ranks[q] < counts[q]:
            keys[0] = row[q] + suffixes[<Py_ssize_t>q * k + ranks[q]]
        else:
            size -= 1
            keys[0], labels[0] = keys[size], labels[size]
        if size > 0:
            sift(size, 0, keys, labels)
    return found


cdef class BestPaths:
    """Scratch for the k best labellings of chains of at most `longest` positions.

    `find` extends lists of best suffixes from the last position to the first.
    """

    cdef int K, k
    cdef object suffixes, shorter
    cdef double[::1] keys
    cdef int32_t[:, :, ::1] label, rank
    cdef int32_t[:, ::1] counts
    cdef int32_t[::1] labels, ranks, first, depth

    def __init__(self, Py_ssize_t longest, int K, int k):
        self.K, self.k = K, k
        self.suffixes, self.shorter = np.empty((K, k)), np.empty((K, k))
        self.keys = np.empty(K)
        self.label = np.empty((max(longest, 1), K, k), dtype=np.int32)
        self.rank = np.empty((max(longest, 1), K, k), dtype=np.int32)
        self.counts = np.zeros((2, K), dtype=np.int32)
        self.labels, self.ranks = np.empty(K, dtype=np.int32), np.empty(K, dtype=np.int32)
        self.first, self.depth = np.empty(k, dtype=np.int32), np.empty(k, dtype=np.int32)

    cdef int find(self, Py_ssize_t T, const double* unary, ChainTables tables, double[:, ::1] values,
                  double[:, ::1] others, double* best, int32_t* path) noexcept nogil:
        """Write values, in falling order, to best (k,) and labels to path (k, T); return the number of labellings."""
        cdef Py_ssize_t t, r
        cdef int K = self.K, k = self.k, j, found
        cdef int32_t at, place
        for j in range(K):
            values[j, 0] = unary[(T - 1) * K + j] + tables.end[j]
            self.counts[0, j] = values[j, 0] > -INFINITY
        for t in range(T - 2, -1, -1):
            values, others = others, values
            for j in range(K):
                self.counts[1, j] = merge(K, k, &tables.rows[j, 0], unary[t * K + j], &others[0, 0],
                                          &self.counts[0, 0], &self.keys[0], &self.labels[0], &self.ranks[0],
                                          &values[j, 0], &self.label[t, j, 0], &self.rank[t, j, 0])
            self.counts[0, :] = self.counts[1]
        found = merge(K, k, &tables.start[0], 0.0, &values[0, 0], &self.counts[0, 0], &self.keys[0],
                      &self.labels[0], &self.ranks[0], best, &self.first[0], &self.depth[0])
        for r in range(found):
            at, place = self.first[r], self.depth[r]
            for t in range(T):
                path[r * T + t] = at
                if t + 1 < T:
                    at, place = self.label[t, at, place], self.rank[t, at, place]
        return found


def k_best_items(const double[:, ::1] unary, const int64_t[::1] offsets, ChainTables tables, int k):
    """Return numbers of labellings (n,) of all items, then the labels and the values of one item after another."""
    cdef Py_ssize_t n = offsets.shape[0] - 1, i, longest = 0, at = 0, place = 0, total = unary.shape[0]
    cdef int K = <int>tables.n_labels
    for i in range(n):
        longest = max(longest, offsets[i + 1] - offsets[i])
    cdef BestPaths room = BestPaths(longest, K, k)
    cdef double[:, ::1] values = room.suffixes, others = room.shorter
    counts_array, paths_array = np.empty(n, dtype=np.intp), np.empty(total * k, dtype=np.int32)
    best_array = np.empty(n * k)
    cdef Py_ssize_t[::1] counts = counts_array
    cdef int32_t[::1] paths = paths_array
    cdef double[::1] best = best_array
    with nogil:
        for i in range(n):
            counts[i] = room.find(offsets[i + 1] - offsets[i], &unary[offsets[i], 0], tables, values, others,
                                  &best[place], &paths[at])
            at += counts[i] * (offsets[i + 1] - offsets[i])
            place += counts[i]
    return counts_array, paths_array[:at], best_array[:place]
