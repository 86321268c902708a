"""Scores, planes and marginals of dependency trees whose features belong to single arcs.

Two kinds of features share the loops over sentences. Rows of a CSR matrix, one for each arc; and templates, whose
features are expanded anew for each use. A template pairs a key of the head, a key of the word and, where it asks for
them, a key of distance or of the words between; its feature number is their exclusive or,

    number = head_key[h] ^ word_key[m] ^ pair_key[h, m],       keys in 0..2^bits - 1

(Zobrist 1970), so an arc costs a few bit operations and one load of a weight for each template, and nothing is stored
but two keys for each word and template.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc

from pybundle.features._plane_rows cimport PlaneRows
from pybundle.oracles._arborescence cimport FOUND, max_tree, tree_scratch
from pybundle.oracles._matrix_tree cimport tree_marginals

cdef extern from "_dependency.h" nogil:
    void pb_gather_rows(int n, int n_templates, const double* w, const int32_t* base, const int32_t** word,
                        const int32_t** pair, double* row)
    void pb_gather_scaled(int n, int n_templates, const double* w, const double* scale, const int32_t* base,
                          const int32_t** word, const int32_t** pair, double* row)
    void pb_scatter_rows(int n, int n_templates, double* slope, const int32_t* base, const int32_t** word,
                         const int32_t** pair, const double* row)
    void pb_gather_each(int n, const double* w, int32_t base, const int32_t* word, const int32_t* pair,
                        const uint64_t* set, const int32_t* kind, double* row)
    void pb_scatter_each(int n, double* slope, int32_t base, const int32_t* word, const int32_t* pair,
                         const uint64_t* set, const int32_t* kind, const double* row)
    int pb_lowest(uint64_t bits)

cdef enum:
    MOST_TEMPLATES = 128
    KINDS = 64            # of words between head and word

ctypedef const int32_t* key_row


cdef class Arcs:
    """Features of the arcs of a list of sentences; immutable.

    Sentence i has n_i words and the root, rows `starts[i]:starts[i + 1]`; its matrices are (n_i + 1, n_i + 1).
    """

    cdef readonly Py_ssize_t n_sentences, dim
    cdef readonly object starts_array
    cdef readonly tuple arrays
    cdef const int64_t[::1] starts
    cdef readonly int longest

    # S (n + 1, n + 1) = scores of all arcs of sentence i; column 0 and the diagonal hold anything finite
    cdef void score(self, Py_ssize_t i, const double* w, double* S, void* scratch) noexcept nogil:
        pass

    # The same with w multiplied by a factor for every group, weight j being in group `labels[j]`; those of factor 0 are
    # not looked at. The groups of templates are their blocks, whatever `labels`.
    cdef void score_scaled(self, Py_ssize_t i, const double* w, const double* scales, const int32_t* labels, double* S,
                           void* scratch) noexcept nogil:
        pass

    # slope += sum over arcs of G[h, m] f(h, m); column 0 and the diagonal of G must be 0
    cdef void add_matrix(self, Py_ssize_t i, const double* G, double* slope, void* scratch) noexcept nogil:
        pass

    # slope += scale f(h, m)
    cdef void add_arc(self, Py_ssize_t i, int h, int m, double scale, double* slope) noexcept nogil:
        pass

    # scale f(h, m) waits in the open row of `out`
    cdef int put_arc(self, Py_ssize_t i, int h, int m, double scale, PlaneRows out) except -1 nogil:
        return 0

    cdef size_t scratch(self) noexcept nogil:
        return 0


cdef class RowArcs(Arcs):
    """Rows of a CSR matrix: arc (h, m), m != h, of sentence i is row `n h + m - 1 - [m > h] [h > 0]` of its n^2."""

    cdef const float[::1] data32
    cdef const double[::1] data64
    cdef const int32_t[::1] indices
    cdef const int64_t[::1] indptr
    cdef const int64_t[::1] first_row
    cdef bint single

    def __init__(self, starts, first_row, storage, dim):
        self.starts_array = self.starts = starts
        self.first_row = first_row
        self.arrays = (first_row, *storage)
        data, self.indices, self.indptr = storage
        self.single = data.dtype == np.float32
        self.data32 = data if self.single else np.zeros(1, np.float32)
        self.data64 = np.zeros(1) if self.single else data
        self.n_sentences, self.dim = len(starts) - 1, dim
        self.longest = int(np.diff(starts).max())

    def __reduce__(self):
        return RowArcs, (self.starts_array, self.arrays[0], self.arrays[1:], self.dim)

    cdef inline int64_t row(self, Py_ssize_t i, int h, int m) noexcept nogil:
        cdef int64_t n = self.starts[i + 1] - self.starts[i] - 1
        # the root has n arcs, a word n - 1
        if h == 0:
            return self.first_row[i] + m - 1
        return self.first_row[i] + n + (h - 1) * (n - 1) + m - 1 - (m > h)

    cdef inline double product(self, int64_t row, const double* w) noexcept nogil:
        cdef int64_t k
        cdef double total = 0.0
        if self.single:
            for k in range(self.indptr[row], self.indptr[row + 1]):
                total += self.data32[k] * w[self.indices[k]]
        else:
            for k in range(self.indptr[row], self.indptr[row + 1]):
                total += self.data64[k] * w[self.indices[k]]
        return total

    # the same where the weights of group g wait for their factor scales[g]
    cdef inline double scaled_product(self, int64_t row, const double* w, const double* scales,
                                      const int32_t* labels) noexcept nogil:
        cdef int64_t k
        cdef int32_t j
        cdef double scale, total = 0.0
        for k in range(self.indptr[row], self.indptr[row + 1]):
            j = self.indices[k]
            scale = scales[labels[j]]
            if scale != 0.0:
                total += scale * ((self.data32[k] if self.single else self.data64[k]) * w[j])
        return total

    cdef void score(self, Py_ssize_t i, const double* w, double* S, void* scratch) noexcept nogil:
        self.score_scaled(i, w, NULL, NULL, S, scratch)

    cdef void score_scaled(self, Py_ssize_t i, const double* w, const double* scales, const int32_t* labels, double* S,
                           void* scratch) noexcept nogil:
        cdef int n = <int>(self.starts[i + 1] - self.starts[i]), h, m
        cdef int64_t row = self.first_row[i]
        for h in range(n):
            S[<Py_ssize_t>h * n] = S[<Py_ssize_t>h * n + h] = 0.0
            for m in range(1, n):
                if m == h:
                    continue
                S[<Py_ssize_t>h * n + m] = (self.product(row, w) if scales == NULL
                                            else self.scaled_product(row, w, scales, labels))
                row += 1

    cdef void add_matrix(self, Py_ssize_t i, const double* G, double* slope, void* scratch) noexcept nogil:
        cdef int n = <int>(self.starts[i + 1] - self.starts[i]), h, m
        for h in range(n):
            for m in range(1, n):
                if G[<Py_ssize_t>h * n + m] != 0.0:
                    self.add_arc(i, h, m, G[<Py_ssize_t>h * n + m], slope)

    cdef void add_arc(self, Py_ssize_t i, int h, int m, double scale, double* slope) noexcept nogil:
        cdef int64_t k, row = self.row(i, h, m)
        for k in range(self.indptr[row], self.indptr[row + 1]):
            slope[self.indices[k]] += scale * (self.data32[k] if self.single else self.data64[k])

    cdef int put_arc(self, Py_ssize_t i, int h, int m, double scale, PlaneRows out) except -1 nogil:
        cdef int64_t k, row = self.row(i, h, m)
        out.reserve(self.indptr[row + 1] - self.indptr[row])
        for k in range(self.indptr[row], self.indptr[row + 1]):
            out.put(self.indices[k], scale * (self.data32[k] if self.single else self.data64[k]))
        return 0


cdef class HashedArcs(Arcs):
    """Templates: see the module's text for the keys.

    Parameters
    ----------
    starts : int64 array, shape (n_sentences + 1,)
    head_keys, word_keys : int32 arrays
        Sentence by sentence, template by template: entry `starts[i] T + t len_i + h`.
    distance_keys : int32 array, shape (T, 2 L + 1)
        By m - h + L for the longest sentence, L words; zeros where a template has no distance.
    root_keys : int32 array, shape (T,)
        The same where the root is the head.
    set_column, each_column : int32 arrays, shape (T,)
        Column of `kinds` whose values between head and word make the key, all of them together or a feature for each;
        -1 for none.
    kinds : uint8 array, shape (n_columns, rows)
        Values 0..63 of every word.
    kind_keys : int32 array, shape (T, 64)
    """

    cdef const int32_t[::1] head_keys, word_keys, root_keys, set_column, each_column
    cdef const int32_t[:, ::1] distance_keys, kind_keys
    cdef const uint8_t[:, ::1] kinds
    cdef int T, n_columns, n_plain

    def __init__(self, starts, head_keys, word_keys, distance_keys, root_keys, set_column, each_column, kinds,
                 kind_keys, dim):
        self.arrays = (head_keys, word_keys, distance_keys, root_keys, set_column, each_column, kinds, kind_keys)
        self.starts_array = self.starts = starts
        (self.head_keys, self.word_keys, self.distance_keys, self.root_keys, self.set_column, self.each_column,
         self.kinds, self.kind_keys) = self.arrays
        self.T, self.n_columns = self.root_keys.shape[0], self.kinds.shape[0]
        if self.T > MOST_TEMPLATES:
            raise ValueError(self.T)
        # templates with a feature for each kind between come last
        self.n_plain = int((each_column < 0).sum())
        self.n_sentences, self.dim = len(starts) - 1, dim
        self.longest = int(np.diff(starts).max())

    def __reduce__(self):
        return HashedArcs, (self.starts_array, *self.arrays, self.dim)

    cdef size_t scratch(self) noexcept nogil:
        # sets of kinds, keys of templates, one row of scores
        return sizeof(uint64_t) * ((self.n_columns + 2 + (self.T + 2) // 2) * self.longest)

    cdef void score(self, Py_ssize_t i, const double* w, double* S, void* scratch) noexcept nogil:
        cdef int n = <int>(self.starts[i + 1] - self.starts[i]), h, m
        for h in range(n):
            for m in range(n):
                S[<Py_ssize_t>h * n + m] = 0.0
            self._visit(i, h, w, NULL, S + <Py_ssize_t>h * n, NULL, NULL, scratch)

    cdef void score_scaled(self, Py_ssize_t i, const double* w, const double* scales, const int32_t* labels, double* S,
                           void* scratch) noexcept nogil:
        cdef int n = <int>(self.starts[i + 1] - self.starts[i]), h, m
        for h in range(n):
            for m in range(n):
                S[<Py_ssize_t>h * n + m] = 0.0
            self._visit(i, h, w, scales, S + <Py_ssize_t>h * n, NULL, NULL, scratch)

    cdef void add_matrix(self, Py_ssize_t i, const double* G, double* slope, void* scratch) noexcept nogil:
        cdef int n = <int>(self.starts[i + 1] - self.starts[i]), h
        for h in range(n):
            self._visit(i, h, NULL, NULL, NULL, G + <Py_ssize_t>h * n, slope, scratch)

    cdef void _visit(self, Py_ssize_t i, int h, const double* w, const double* factors, double* out,
                     const double* scale, double* slope, void* scratch) noexcept nogil:
        """Adds the scores of the arcs that leave h to `out` (n + 1,), or `scale` (n + 1,) times them to `slope`.

        `factors` (T,) of the templates, or NULL.
        """
        cdef int n = <int>(self.starts[i + 1] - self.starts[i]), t, m, column, n_plain = 0
        cdef const int32_t* heads = &self.head_keys[self.starts[i] * self.T]
        cdef const int32_t* words = &self.word_keys[self.starts[i] * self.T]
        cdef uint64_t* between = <uint64_t*>scratch               # (n_columns, n) set of kinds between h and m
        cdef int32_t* none = <int32_t*>(between + <Py_ssize_t>self.n_columns * n)
        cdef int32_t* made = none + n
        cdef int32_t[MOST_TEMPLATES] base
        cdef key_row[MOST_TEMPLATES] word
        cdef key_row[MOST_TEMPLATES] pair
        cdef double[MOST_TEMPLATES] factor
        cdef const uint64_t* seen
        cdef double* row
        cdef key_row zeros
        for column in range(self.n_columns):
            self._between(i, h, n, &self.kinds[column, self.starts[i]], between + <Py_ssize_t>column * n)
        for m in range(n):
            none[m] = 0
        zeros = none
        for t in range(self.T):
            base[t] = heads[t * n + h] ^ (self.root_keys[t] if h == 0 else 0)
            word[t] = words + t * n
            pair[t] = zeros if h == 0 else &self.distance_keys[t, self.distance_keys.shape[1] // 2 - h]
            if self.set_column[t] >= 0:
                self._set_keys(n, h, between + <Py_ssize_t>self.set_column[t] * n, &self.kind_keys[t, 0], pair[t], made)
                pair[t] = made
                made += n
        if factors != NULL:
            for t in range(self.n_plain):
                if factors[t] != 0.0:
                    factor[n_plain], base[n_plain], word[n_plain], pair[n_plain] = factors[t], base[t], word[t], pair[t]
                    n_plain += 1
            pb_gather_scaled(n, n_plain, w, factor, base, word, pair, out)
        elif w != NULL:
            pb_gather_rows(n, self.n_plain, w, base, word, pair, out)
        else:
            pb_scatter_rows(n, self.n_plain, slope, base, word, pair, scale)
        for t in range(self.n_plain, self.T):
            seen = between + <Py_ssize_t>self.each_column[t] * n
            if factors != NULL:
                if factors[t] != 0.0:
                    # 8 bytes aligned: behind whole rows of keys, of which there is one more than templates
                    row = <double*>(<char*>scratch + self.scratch() - sizeof(double) * self.longest)
                    for m in range(n):
                        row[m] = 0.0
                    pb_gather_each(n, w, base[t], word[t], pair[t], seen, &self.kind_keys[t, 0], row)
                    for m in range(n):
                        out[m] += factors[t] * row[m]
            elif w != NULL:
                pb_gather_each(n, w, base[t], word[t], pair[t], seen, &self.kind_keys[t, 0], out)
            else:
                pb_scatter_each(n, slope, base[t], word[t], pair[t], seen, &self.kind_keys[t, 0], scale)

    cdef void _between(self, Py_ssize_t i, int h, int n, const uint8_t* kinds, uint64_t* out) noexcept nogil:
        """Sets of the kinds strictly between h and every m, as bits."""
        cdef int m
        cdef uint64_t seen = 0
        out[h] = 0
        for m in range(h + 1, n):
            out[m] = seen
            seen |= <uint64_t>1 << kinds[m]
        seen = 0
        for m in range(h - 1, 0, -1):
            out[m] = seen
            seen |= <uint64_t>1 << kinds[m]
        if h > 0:
            out[0] = 0

    cdef void _set_keys(self, int n, int h, const uint64_t* between, const int32_t* keys, const int32_t* pair,
                        int32_t* out) noexcept nogil:
        """Keys of whole sets, joined to the keys of distance; neighbours share most of a set."""
        cdef int m
        cdef int32_t key = 0
        cdef uint64_t seen = 0, fresh
        out[h] = pair[h]
        out[0] = pair[0]
        for m in range(h + 1, n):
            fresh = between[m] & ~seen
            if fresh:
                key ^= keys[pb_lowest(fresh)]
                seen = between[m]
            out[m] = key ^ pair[m]
        seen = 0
        key = 0
        for m in range(h - 1, 0, -1):
            fresh = between[m] & ~seen
            if fresh:
                key ^= keys[pb_lowest(fresh)]
                seen = between[m]
            out[m] = key ^ pair[m]

    cdef void add_arc(self, Py_ssize_t i, int h, int m, double scale, double* slope) noexcept nogil:
        cdef int32_t[MOST_TEMPLATES * KINDS] keys
        cdef int k, n_keys = self._keys(i, h, m, keys)
        for k in range(n_keys):
            slope[keys[k]] += scale

    cdef int put_arc(self, Py_ssize_t i, int h, int m, double scale, PlaneRows out) except -1 nogil:
        cdef int32_t[MOST_TEMPLATES * KINDS] keys
        cdef int k, n_keys = self._keys(i, h, m, keys)
        out.reserve(n_keys)
        for k in range(n_keys):
            out.put(keys[k], scale)
        return 0

    cdef int _keys(self, Py_ssize_t i, int h, int m, int32_t* keys) noexcept nogil:
        """Numbers of the features of an arc, and how many there are."""
        cdef int n = <int>(self.starts[i + 1] - self.starts[i]), t, k, column, count = 0
        cdef int64_t start = self.starts[i]
        cdef int32_t key
        cdef uint64_t seen
        for t in range(self.T):
            key = self.head_keys[start * self.T + t * n + h] ^ self.word_keys[start * self.T + t * n + m]
            key ^= self.root_keys[t] if h == 0 else self.distance_keys[t, self.distance_keys.shape[1] // 2 + m - h]
            column = max(self.set_column[t], self.each_column[t])
            if column >= 0:
                seen = 0
                for k in range(min(h, m) + 1, max(h, m)):
                    seen |= <uint64_t>1 << self.kinds[column, start + k]
                while seen:
                    k = pb_lowest(seen)
                    seen &= seen - 1
                    if self.set_column[t] >= 0:
                        key ^= self.kind_keys[t, k]
                    else:
                        keys[count] = key ^ self.kind_keys[t, k]
                        count += 1
            if self.each_column[t] < 0:
                keys[count] = key
                count += 1
        return count


def arc_scores(Arcs arcs, Py_ssize_t i, const double[::1] w):
    """Scores (n + 1, n + 1) of the arcs of sentence i; column 0 and the diagonal are 0."""
    n = int(arcs.starts[i + 1] - arcs.starts[i])
    out = np.zeros((n, n))
    cdef double[:, ::1] S = out
    scratch = np.empty(arcs.scratch() + 8, np.uint8)
    cdef uint8_t[::1] room = scratch
    with nogil:
        arcs.score(i, &w[0], &S[0, 0], &room[0])
    out[:, 0] = 0.0
    np.fill_diagonal(out, 0.0)
    return out


cdef int best_moves(int n, const double* S, const int32_t* heads, bint single_root, int k, double* gain,
                    int32_t* words, int32_t* new_heads) noexcept nogil:
    """The k trees of largest score that differ from the tree `heads` in the head of one word; how many there are.

    A word can move to any word that is not below it. Of trees that differ in more, the second best may be one; what is
    wanted is variety at little cost.
    """
    cdef int m, h, a, q, found = 0
    cdef double difference
    for m in range(1, n):
        if single_root and heads[m] == 0:
            continue
        for h in range(1 if single_root else 0, n):
            difference = S[<Py_ssize_t>h * n + m] - S[<Py_ssize_t>heads[m] * n + m]
            if h == m or h == heads[m] or (found == k and not difference > gain[k - 1]):
                continue
            a = h
            while a > 0 and a != m:
                a = heads[a]
            if a == m:
                continue
            q = found if found < k else k - 1
            found = min(found + 1, k)
            while q > 0 and gain[q - 1] < difference:
                gain[q], words[q], new_heads[q] = gain[q - 1], words[q - 1], new_heads[q - 1]
                q -= 1
            gain[q], words[q], new_heads[q] = difference, m, h
    return found


def solve_sentences(Arcs arcs, const Py_ssize_t[::1] rows, const double[::1] w, const int32_t[::1] gold, bint loss,
                    bint single_root, int32_t[::1] heads, const int64_t[::1] offsets, double[::1] values, moves=None,
                    const double[::1] scales=None, const int32_t[::1] labels=None):
    """Best trees of the sentences `rows`; the number of a sentence whose scores are not finite, or -1.

    `gold` holds the true heads of all sentences by `starts`, `heads` those found by `offsets`; values are relative to
    the truth. `moves`, int32 (len(rows), k, 2), takes the best moves of one word, (word, head), 0 for none. `scales`
    (n_groups,), or None, multiply the weights of groups: those of templates, or of `labels`, see `Arcs.score_scaled`.
    """
    cdef int32_t[:, :, ::1] moved
    cdef int k = 0, q, count
    cdef double* gain = NULL
    cdef int32_t* words
    cdef int32_t* new_heads
    cdef Py_ssize_t j, i, bad = -1
    cdef int n, m, longest = 0
    cdef const int32_t* truth
    cdef int32_t* found
    cdef double best, total
    cdef double* S
    cdef char* trees
    for j in range(rows.shape[0]):
        longest = max(longest, <int>(arcs.starts[rows[j] + 1] - arcs.starts[rows[j]]))
    if moves is not None:
        moved = moves
        k = <int>moved.shape[1]
    S = <double*>malloc(sizeof(double) * longest * longest + arcs.scratch() + tree_scratch(longest))
    gain = <double*>malloc((sizeof(double) + 2 * sizeof(int32_t)) * (k + 1))
    if S == NULL or gain == NULL:
        free(S)
        free(gain)
        raise MemoryError(f"no memory for a sentence of {longest} words")
    with nogil:
        trees = <char*>(S + <Py_ssize_t>longest * longest)
        words = <int32_t*>(gain + k + 1)
        new_heads = words + k + 1
        for j in range(rows.shape[0]):
            i = rows[j]
            n = <int>(arcs.starts[i + 1] - arcs.starts[i])
            truth = &gold[arcs.starts[i]]
            found = &heads[offsets[j]]
            if scales is None:
                arcs.score(i, &w[0], S, trees + tree_scratch(longest))
            else:
                arcs.score_scaled(i, &w[0], &scales[0], NULL if labels is None else &labels[0], S,
                                  trees + tree_scratch(longest))
            if loss:
                # taking 1 from the true arc adds 1 to all others, up to a constant
                for m in range(1, n):
                    S[<Py_ssize_t>truth[m] * n + m] -= 1.0
            if max_tree(n, S, single_root, <int*>found, &best, trees) != FOUND:
                bad = i
                break
            total = 0.0
            for m in range(1, n):
                if found[m] != truth[m]:
                    total += S[<Py_ssize_t>found[m] * n + m] - S[<Py_ssize_t>truth[m] * n + m]
            values[j] = total
            if k > 0:
                count = best_moves(n, S, found, single_root, k, gain, words, new_heads)
                for q in range(count):
                    moved[j, q, 0], moved[j, q, 1] = words[q], new_heads[q]
        free(S)
        free(gain)
    return bad


def add_trees(Arcs arcs, const Py_ssize_t[::1] rows, const int32_t[::1] gold, const int32_t[::1] heads,
              const int64_t[::1] offsets, const double[::1] scales, double[::1] slope):
    """slope += sum_j scales[j] psi_j(heads_j); returns sum_j scales[j] times the number of wrong heads.

    A true head -1 has no features.
    """
    cdef Py_ssize_t j, i
    cdef int n, m
    cdef int32_t h, g
    cdef double total = 0.0
    with nogil:
        for j in range(rows.shape[0]):
            i = rows[j]
            n = <int>(arcs.starts[i + 1] - arcs.starts[i])
            for m in range(1, n):
                h = heads[offsets[j] + m]
                g = gold[arcs.starts[i] + m]
                if h != g and scales[j] != 0.0:
                    total += scales[j]
                    arcs.add_arc(i, h, m, scales[j], &slope[0])
                    if g >= 0:
                        arcs.add_arc(i, g, m, -scales[j], &slope[0])
    return total


def tree_planes(Arcs arcs, const Py_ssize_t[::1] rows, const int32_t[::1] gold, const int32_t[::1] heads,
                const int64_t[::1] offsets):
    """Numbers of wrong heads, and psi_j(heads_j) as csr_array (len(rows), dim)."""
    cdef Py_ssize_t j, i
    cdef int m
    cdef int32_t h, g
    cdef PlaneRows out = PlaneRows(arcs.dim, rows.shape[0])
    losses_array = np.zeros(rows.shape[0])
    cdef double[::1] losses = losses_array
    with nogil:
        for j in range(rows.shape[0]):
            i = rows[j]
            for m in range(1, <int>(arcs.starts[i + 1] - arcs.starts[i])):
                h = heads[offsets[j] + m]
                g = gold[arcs.starts[i] + m]
                if h != g:
                    losses[j] += 1.0
                    arcs.put_arc(i, h, m, 1.0, out)
                    arcs.put_arc(i, g, m, -1.0, out)
            out.close()
    return losses_array, out.matrix()


def marginal_sentences(Arcs arcs, const Py_ssize_t[::1] rows, const double[::1] w, const int32_t[::1] gold,
                       bint single_root, const double[::1] scales, double[::1] slope, double[::1] values,
                       double[::1] entropies):
    """slope += sum_j scales[j] E psi_j; values `log sum exp` relative to the truth; a sentence that failed, or -1."""
    cdef Py_ssize_t j, i, bad = -1
    cdef int n, m, h, longest = 0
    cdef const int32_t* truth
    cdef double log_partition, spread, top
    cdef double* S
    cdef double* P
    cdef double* scratch
    for j in range(rows.shape[0]):
        longest = max(longest, <int>(arcs.starts[rows[j] + 1] - arcs.starts[rows[j]]))
    S = <double*>malloc(sizeof(double) * longest * (3 * longest + 4) + arcs.scratch())
    if S == NULL:
        raise MemoryError(f"no memory for a sentence of {longest} words")
    with nogil:
        P = S + <Py_ssize_t>longest * longest
        scratch = P + <Py_ssize_t>longest * longest
        for j in range(rows.shape[0]):
            i = rows[j]
            n = <int>(arcs.starts[i + 1] - arcs.starts[i])
            truth = &gold[arcs.starts[i]]
            arcs.score(i, &w[0], S, scratch)
            for m in range(1, n):
                # scores relative to the truth: the truth has value 0
                top = S[<Py_ssize_t>truth[m] * n + m]
                for h in range(n):
                    S[<Py_ssize_t>h * n + m] -= top
            if not tree_marginals(n, S, single_root, P, &log_partition, scratch):
                bad = i
                break
            spread = 0.0
            for h in range(n):
                for m in range(1, n):
                    spread += P[<Py_ssize_t>h * n + m] * S[<Py_ssize_t>h * n + m]
                    P[<Py_ssize_t>h * n + m] *= scales[j]
            values[j] = log_partition
            entropies[j] = max(log_partition - spread, 0.0)
            if scales[j] != 0.0:
                for m in range(1, n):
                    P[<Py_ssize_t>truth[m] * n + m] -= scales[j]
                arcs.add_matrix(i, P, &slope[0], scratch)
        free(S)
    return bad
