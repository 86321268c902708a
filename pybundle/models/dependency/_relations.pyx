"""Arcs with relations: the scores of the relations of an arc are reduced to one score before trees are found.

The score of word m with head h and relation r is `s(h, m) + l(h, m, r)`. As relations of different arcs do not
interact, the best tree has the best relation in each of its arcs, and the sum over trees and relations is the
determinant of the Matrix-Tree theorem for the arc weights `sum over r of exp(s + l)`. So max and log-sum-exp are exact.
"""

import numpy as np

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from ...features._plane_rows cimport PlaneRows
from ._arcs cimport NO_LOSS, Arcs, ArcWeights, is_wrong


cdef class RelationArcs(Arcs):
    """Arcs with relations.

    Parameters
    ----------
    heads : Arcs, or None
        Features that do not depend on the relation.
    relations : Arcs
        Features that have a weight for each relation.
    n_relations, dim : int
    kinds : int32 array, shape (rows,)
        Kinds of the words, 0..K - 1, and of the roots, K.
    first : int64 array, shape (2 (K + 1)^2 + 1,)
        `which[first[c]:first[c + 1]]` are the relations of arcs with `c = 2 ((K + 1) kind of head + kind of word) +
        [m > h]`, at least one.
    which : int32 array
    """

    cdef Arcs heads, relations
    cdef tuple rules
    cdef const int32_t[::1] kinds, which
    cdef const int64_t[::1] first
    cdef int K

    def __init__(self, heads, Arcs relations, int n_relations, Py_ssize_t dim, kinds, first, which):
        self.heads, self.relations, self.n_relations, self.dim = heads, relations, n_relations, dim
        self.rules = self.kinds, self.first, self.which = kinds, first, which
        self.K = int(np.sqrt((len(first) - 1) // 2)) - 1
        self.arrays = (*(() if heads is None else heads.arrays), *relations.arrays, kinds, first, which)
        self.starts_array = self.starts = relations.starts_array
        self.n_sentences, self.longest = relations.n_sentences, relations.longest

    def __reduce__(self):
        return RelationArcs, (self.heads, self.relations, self.n_relations, self.dim, *self.rules)

    cdef inline int allowed(self, Py_ssize_t i, int h, int m, const int32_t** which) noexcept nogil:
        """Set `which` to the relations of an arc, and return their number."""
        cdef const int32_t* kinds = &self.kinds[self.starts[i]]
        cdef Py_ssize_t c = 2 * (<Py_ssize_t>(self.K + 1) * kinds[h] + kinds[m]) + (m > h)
        which[0] = &self.which[self.first[c]]
        return <int>(self.first[c + 1] - self.first[c])

    cdef size_t scratch(self) noexcept nogil:
        cdef size_t own = sizeof(double) * self.n_relations
        return max(own, 0 if self.heads is None else self.heads.scratch())

    cdef void score(self, Py_ssize_t i, const ArcWeights* at, double* S, void* scratch) noexcept nogil:
        cdef Py_ssize_t n = self.starts[i + 1] - self.starts[i]
        if self.heads is None:
            memset(S, 0, sizeof(double) * n * n)
        else:
            self.heads.score(i, at, S, scratch)

    cdef void add_matrix(self, Py_ssize_t i, const double* G, double* slope, void* scratch) noexcept nogil:
        if self.heads is not None:
            self.heads.add_matrix(i, G, slope, scratch)

    cdef void add_arc(self, Py_ssize_t i, int h, int m, int r, double scale, double* slope) noexcept nogil:
        if self.heads is not None:
            self.heads.add_arc(i, h, m, 0, scale, slope)
        self.relations.add_arc(i, h, m, r, scale, slope)

    cdef int put_arc(self, Py_ssize_t i, int h, int m, int r, double scale, PlaneRows out) except -1 nogil:
        if self.heads is not None:
            self.heads.put_arc(i, h, m, 0, scale, out)
        return self.relations.put_arc(i, h, m, r, scale, out)

    cdef void reduce(self, Py_ssize_t i, const double* w, const int32_t* own, const uint8_t* loss, bint soft, double* S,
                     int32_t* best, double* tops, void* scratch) noexcept nogil:
        cdef int n = <int>(self.starts[i + 1] - self.starts[i]), R = self.n_relations, h, m, k, count, top
        cdef const int32_t* which = NULL
        cdef double* out = <double*>scratch
        cdef double total, odd
        for h in range(n):
            for m in range(1, n):
                if m == h:
                    continue
                count = self.allowed(i, h, m, &which)
                self.relations.score_relations(i, h, m, count, which, w, out)
                top, odd = 0, 0.0
                for k in range(count):
                    # as in `Arcs.reduce`, 1 is taken from what is right in place of adding 1 to what is wrong
                    if loss != NULL and not is_wrong(h * R + which[k], own[m], R, loss[m]) and loss[m] != NO_LOSS:
                        out[k] -= 1.0
                    if own[m] == h * R + which[k]:
                        tops[m] = S[<Py_ssize_t>h * n + m] + out[k]
                    if out[k] > out[top]:
                        top = k
                    odd += out[k] - out[k]          # NaN after overflow, which the comparison above does not see
                best[<Py_ssize_t>h * n + m] = h * R + which[top]
                total = 1.0
                if soft and count > 1:
                    total = 0.0
                    for k in range(count):
                        total += exp(out[k] - out[top])
                S[<Py_ssize_t>h * n + m] += out[top] + odd + (log(total) if soft else 0.0)

    cdef double add_expected(self, Py_ssize_t i, const double* w, const int32_t* own, double scale, const double* P,
                             double error, double* slope, void* scratch) noexcept nogil:
        cdef int n = <int>(self.starts[i + 1] - self.starts[i]), R = self.n_relations, h, m, k, count
        cdef const int32_t* which = NULL
        cdef double* out = <double*>scratch
        cdef double top, total, spread, p, entropy = 0.0
        for h in range(n):
            for m in range(1, n):
                p = P[<Py_ssize_t>h * n + m]
                if m == h or p == 0.0 and (own == NULL or own[m] // R != h):
                    continue
                count = self.allowed(i, h, m, &which)
                top, total, spread = -INFINITY, 0.0, 0.0
                if w != NULL:
                    self.relations.score_relations(i, h, m, count, which, w, out)
                    for k in range(count):
                        top = max(top, out[k])
                for k in range(count):
                    out[k] = out[k] - top if w != NULL else 0.0
                    spread -= out[k] * exp(out[k])
                    out[k] = exp(out[k])
                    total += out[k]
                if w == NULL:
                    total = 1.0
                entropy += p * (log(total) + spread / total)
                for k in range(count):
                    out[k] = scale * (p * (out[k] / total) - (own != NULL and own[m] == h * R + which[k]))
                self.relations.add_relations(i, h, m, count, which, out, slope)
        # The entropy of an arc is at most log R. The errors of P, of R terms and of a sum over n^2 arcs are subtracted.
        return max(entropy - error * log(<double>R) - 2.0**-53 * (2.0 * R + 2.0 * n * n + 24.0) * (n + entropy), 0.0)

    def any_trees(self):
        """Return codes of a tree of every sentence, with an allowed relation in each arc."""
        codes = Arcs.any_trees(self)
        cdef int32_t[::1] code = codes
        cdef const int32_t* which = NULL
        cdef Py_ssize_t i, m
        for i in range(self.n_sentences):
            for m in range(1, self.starts[i + 1] - self.starts[i]):
                self.allowed(i, <int>m - 1, <int>m, &which)
                code[self.starts[i] + m] = <int32_t>(m - 1) * self.n_relations + which[0]
        return codes

    def not_allowed(self, const Py_ssize_t[::1] rows, const int32_t[::1] codes, const int64_t[::1] offsets):
        """Return (j, m) for the first word m of a sentence `rows[j]` whose relation is not allowed; None if all are."""
        cdef const int32_t* which = NULL
        cdef Py_ssize_t j, m
        cdef int32_t code
        cdef int k, count
        for j in range(rows.shape[0]):
            for m in range(1, offsets[j + 1] - offsets[j]):
                code = codes[offsets[j] + m]
                count = self.allowed(rows[j], code // self.n_relations, <int>m, &which)
                for k in range(count):
                    if which[k] == code % self.n_relations:
                        break
                else:
                    return j, m
        return None

    def scores(self, Py_ssize_t i, const double[::1] w):
        cdef Py_ssize_t n = self.starts[i + 1] - self.starts[i], h, m, k, count
        cdef const int32_t* which = NULL
        found = np.full((n, n, self.n_relations), -np.inf)
        cdef double[:, :, :] S = Arcs.scores(self, i, w)
        cdef double[:, :, ::1] out = found
        cdef double[::1] one = np.empty(self.n_relations)
        for h in range(n):
            for m in range(1, n):
                if m != h:
                    count = self.allowed(i, <int>h, <int>m, &which)
                    self.relations.score_relations(i, <int>h, <int>m, <int>count, which, &w[0], &one[0])
                    for k in range(count):
                        out[h, m, which[k]] = S[h, m, 0] + one[k]
        found[:, 0] = 0.0
        found[np.arange(n), np.arange(n)] = 0.0
        return found
