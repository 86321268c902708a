"""Features of arcs from templates: their numbers are computed at each use, as the exclusive or of a few stored keys.

A template has a key of the head, a key of the word and, for some templates, keys of the distance and of the words
between; its feature number is their exclusive or,

    number = head_key[h] ^ word_key[m] ^ pair_key[h, m],       keys in 0..2^bits - 1

(Zobrist 1970). So an arc costs a few bit operations and one load of a weight for each template, and only two keys are
stored for each word and template. Relation r has the number `number ^ r`, so that the weights of all relations of a
feature lie in few cache lines.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from ...features._plane_rows cimport PlaneRows
from ._arcs cimport Arcs, ArcWeights

cdef extern from "_arcs.h" nogil:
    void pb_gather_rows(int n, int n_templates, const double* w, const double* scale, const int32_t* base,
                        const int32_t** word, const int32_t** pair, double* row)
    void pb_scatter_rows(int n, int n_templates, double* slope, const int32_t* base, const int32_t** word,
                         const int32_t** pair, const double* row)
    void pb_gather_each(int n, const double* w, double scale, int32_t base, const int32_t* word, const int32_t* pair,
                        const uint64_t* set, const int32_t* kind, double* row)
    void pb_scatter_each(int n, double* slope, int32_t base, const int32_t* word, const int32_t* pair,
                         const uint64_t* set, const int32_t* kind, const double* row)
    int pb_lowest(uint64_t bits)

cdef enum:
    MOST_TEMPLATES = 128
    KINDS = 64            # number of kinds of words that may stand between head and word

ctypedef const int32_t* key_row


cdef class HashedArcs(Arcs):
    """Arcs with features of templates; the module docstring explains the keys.

    Parameters
    ----------
    starts : int64 array, shape (n_sentences + 1,)
    head_keys, word_keys : int32 arrays
        Sentence by sentence, then template by template: entry `starts[i] T + t (n_i + 1) + h`.
    distance_keys : int32 array, shape (T, 2 L + 1)
        Column m - h + L holds the keys of the distance m - h, where L is the number of words of the longest sentence;
        0 for a template without distance.
    root_keys : int32 array, shape (T,)
        Keys of the distance if the head is the root.
    set_column, each_column : int32 arrays, shape (T,)
        Column of `kinds` whose values between head and word the template uses; -1 for none. The set of these values
        gives one feature (`set_column`), or each value gives a feature (`each_column`).
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
            raise ValueError(f"there must be at most {MOST_TEMPLATES} templates, got {self.T}")
        # templates with an `each_column` come last
        self.n_plain = int((each_column < 0).sum())
        self.n_sentences, self.dim, self.n_relations = len(starts) - 1, dim, 1
        self.longest = int(np.diff(starts).max())

    def __reduce__(self):
        return HashedArcs, (self.starts_array, *self.arrays, self.dim)

    cdef size_t scratch(self) noexcept nogil:
        # for each word: sets of kinds, a zero key, and a key for each template with a `set_column`; see `_visit`
        return sizeof(uint64_t) * ((self.n_columns + 1 + (self.T + 2) // 2) * self.longest)

    cdef void score(self, Py_ssize_t i, const ArcWeights* at, double* S, void* scratch) noexcept nogil:
        cdef int n = <int>(self.starts[i + 1] - self.starts[i]), h, m
        for h in range(n):
            for m in range(n):
                S[<Py_ssize_t>h * n + m] = 0.0
            self._visit(i, h, at.w, at.scales, S + <Py_ssize_t>h * n, NULL, NULL, scratch)

    cdef void add_matrix(self, Py_ssize_t i, const double* G, double* slope, void* scratch) noexcept nogil:
        cdef int n = <int>(self.starts[i + 1] - self.starts[i]), h
        for h in range(n):
            self._visit(i, h, NULL, NULL, NULL, G + <Py_ssize_t>h * n, slope, scratch)

    cdef void _visit(self, Py_ssize_t i, int h, const double* w, const double* factors, double* out,
                     const double* scale, double* slope, void* scratch) noexcept nogil:
        """Add scores of the arcs from h to `out` (n + 1,); without w add `scale` (n + 1,) times features to `slope`.

        `factors` (T,), if not NULL, multiply the weights of the templates.
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
        cdef key_row zeros
        for column in range(self.n_columns):
            self._between(i, h, n, &self.kinds[column, self.starts[i]], between + <Py_ssize_t>column * n)
        for m in range(n):
            none[m] = 0
        zeros = none
        for t in range(self.T):
            factor[t] = 1.0 if factors == NULL else factors[t]
            base[t] = heads[t * n + h] ^ (self.root_keys[t] if h == 0 else 0)
            word[t] = words + t * n
            pair[t] = zeros if h == 0 else &self.distance_keys[t, self.distance_keys.shape[1] // 2 - h]
            if self.set_column[t] >= 0:
                self._set_keys(n, h, between + <Py_ssize_t>self.set_column[t] * n, &self.kind_keys[t, 0], pair[t], made)
                pair[t] = made
                made += n
        if w == NULL:
            pb_scatter_rows(n, self.n_plain, slope, base, word, pair, scale)
        else:
            for t in range(self.n_plain):
                if factor[t] != 0.0:
                    factor[n_plain], base[n_plain], word[n_plain], pair[n_plain] = factor[t], base[t], word[t], pair[t]
                    n_plain += 1
            pb_gather_rows(n, n_plain, w, factor, base, word, pair, out)
        for t in range(self.n_plain, self.T):
            seen = between + <Py_ssize_t>self.each_column[t] * n
            if w == NULL:
                pb_scatter_each(n, slope, base[t], word[t], pair[t], seen, &self.kind_keys[t, 0], scale)
            elif factor[t] != 0.0:
                pb_gather_each(n, w, factor[t], base[t], word[t], pair[t], seen, &self.kind_keys[t, 0], out)

    cdef void _between(self, Py_ssize_t i, int h, int n, const uint8_t* kinds, uint64_t* out) noexcept nogil:
        """Write for every m the set of the kinds of the words strictly between h and m, one bit a kind."""
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
        """Combine keys of sets and of distances. When m moves one word away from h, the set gains at most one kind."""
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

    cdef void add_arc(self, Py_ssize_t i, int h, int m, int r, double scale, double* slope) noexcept nogil:
        cdef int32_t which = r
        self.add_relations(i, h, m, 1, &which, &scale, slope)

    cdef int put_arc(self, Py_ssize_t i, int h, int m, int r, double scale, PlaneRows out) except -1 nogil:
        cdef int32_t[MOST_TEMPLATES * KINDS] keys
        cdef int k, n_keys = self._keys(i, h, m, keys)
        out.reserve(n_keys)
        for k in range(n_keys):
            out.put(keys[k] ^ r, scale)
        return 0

    cdef void score_relations(self, Py_ssize_t i, int h, int m, int count, const int32_t* which, const double* w,
                              double* out) noexcept nogil:
        cdef int32_t[MOST_TEMPLATES * KINDS] keys
        cdef int k, q, n_keys = self._keys(i, h, m, keys)
        for k in range(count):
            out[k] = 0.0
        for q in range(n_keys):
            for k in range(count):
                out[k] += w[keys[q] ^ which[k]]

    cdef void add_relations(self, Py_ssize_t i, int h, int m, int count, const int32_t* which, const double* scales,
                            double* slope) noexcept nogil:
        cdef int32_t[MOST_TEMPLATES * KINDS] keys
        cdef int k, q, n_keys = self._keys(i, h, m, keys)
        for q in range(n_keys):
            for k in range(count):
                slope[keys[q] ^ which[k]] += scales[k]

    cdef int _keys(self, Py_ssize_t i, int h, int m, int32_t* keys) noexcept nogil:
        """Write the feature numbers of an arc, and return how many there are."""
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
