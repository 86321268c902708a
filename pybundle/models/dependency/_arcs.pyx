"""Features of arcs between the words of sentences: scores, and sums of the features of chosen arcs.

The features of an arc are a row of a CSR matrix (`RowArcs`), or they are made from templates whenever they are used
(`_hashed_arcs.pyx`). The comments of methods are in `_arcs.pxd`.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t

from ...features._plane_rows cimport PlaneRows


cdef class Arcs:
    """Features of the arcs of a list of sentences; immutable.

    Sentence i has the rows `starts[i]:starts[i + 1]`: the root and its n_i words. Matrices of its arcs have shape
    (n_i + 1, n_i + 1).
    """

    cdef void score(self, Py_ssize_t i, const ArcWeights* at, double* S, void* scratch) noexcept nogil:
        pass

    cdef void add_matrix(self, Py_ssize_t i, const double* G, double* slope, void* scratch) noexcept nogil:
        pass

    cdef void add_arc(self, Py_ssize_t i, int h, int m, int r, double scale, double* slope) noexcept nogil:
        pass

    cdef int put_arc(self, Py_ssize_t i, int h, int m, int r, double scale, PlaneRows out) except -1 nogil:
        return 0

    cdef size_t scratch(self) noexcept nogil:
        return 0

    cdef void score_relations(self, Py_ssize_t i, int h, int m, int count, const int32_t* which, const double* w,
                              double* out) noexcept nogil:
        pass

    cdef void add_relations(self, Py_ssize_t i, int h, int m, int count, const int32_t* which, const double* scales,
                            double* slope) noexcept nogil:
        cdef int k
        for k in range(count):
            self.add_arc(i, h, m, which[k], scales[k], slope)

    cdef void reduce(self, Py_ssize_t i, const double* w, const int32_t* own, const uint8_t* loss, bint soft, double* S,
                     int32_t* best, double* tops, void* scratch) noexcept nogil:
        cdef int n = <int>(self.starts[i + 1] - self.starts[i]), h, m
        for h in range(n):
            for m in range(1, n):
                best[<Py_ssize_t>h * n + m] = h
        for m in range(1, n):
            if loss != NULL and loss[m] != NO_LOSS:
                # taking 1 from the true arc adds 1 to all others, up to a constant
                S[<Py_ssize_t>own[m] * n + m] -= 1.0
            tops[m] = S[<Py_ssize_t>own[m] * n + m]

    cdef double add_expected(self, Py_ssize_t i, const double* w, const int32_t* own, double scale, const double* P,
                             double error, double* slope, void* scratch) noexcept nogil:
        return 0.0

    def scores(self, Py_ssize_t i, const double[::1] w):
        """Return scores (n + 1, n + 1, R) of sentence i; -inf for what is not allowed, 0 in column 0 and for m = h."""
        n = int(self.starts[i + 1] - self.starts[i])
        out, scratch = np.zeros((n, n)), np.empty(self.scratch() + 8, np.uint8)
        cdef double[:, ::1] S = out
        cdef uint8_t[::1] room = scratch
        cdef ArcWeights at = ArcWeights(&w[0], NULL, NULL)
        with nogil:
            self.score(i, &at, &S[0, 0], &room[0])
        out[:, 0] = 0.0
        np.fill_diagonal(out, 0.0)
        return out[:, :, None]

    def not_allowed(self, rows, codes, offsets):
        """Return (j, m) for the first word m of a sentence `rows[j]` whose relation is not allowed; None if all are."""
        return None

    def any_trees(self):
        """Return codes of a tree of every sentence: the head of each word is the word before it, or the root."""
        lengths = np.diff(self.starts_array)
        return np.concatenate([np.arange(-1, length - 1, dtype=np.int32) for length in lengths])


cdef class RowArcs(Arcs):
    """Arcs as rows of a CSR matrix: arc (h, m), m != h, of n words is row `(n - 1) h + m - [m > h]` of its sentence.

    Relation r has the weights from `r dim` on.
    """

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
        self.n_sentences, self.dim, self.n_relations = len(starts) - 1, dim, 1
        self.longest = int(np.diff(starts).max())

    def __reduce__(self):
        return RowArcs, (self.starts_array, self.arrays[0], self.arrays[1:], self.dim)

    cdef inline int64_t row(self, Py_ssize_t i, int h, int m) noexcept nogil:
        cdef int64_t n = self.starts[i + 1] - self.starts[i] - 1
        return self.first_row[i] + (n - 1) * h + m - (m > h)

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

    # `product` with each weight of group g multiplied by scales[g]
    cdef inline double scaled_product(self, int64_t row, const ArcWeights* at) noexcept nogil:
        cdef int64_t k
        cdef int32_t j
        cdef double scale, total = 0.0
        for k in range(self.indptr[row], self.indptr[row + 1]):
            j = self.indices[k]
            scale = at.scales[at.labels[j]]
            if scale != 0.0:
                total += scale * ((self.data32[k] if self.single else self.data64[k]) * at.w[j])
        return total

    cdef void score(self, Py_ssize_t i, const ArcWeights* at, double* S, void* scratch) noexcept nogil:
        cdef int n = <int>(self.starts[i + 1] - self.starts[i]), h, m
        cdef int64_t row = self.first_row[i]
        for h in range(n):
            S[<Py_ssize_t>h * n] = S[<Py_ssize_t>h * n + h] = 0.0
            for m in range(1, n):
                if m == h:
                    continue
                S[<Py_ssize_t>h * n + m] = (self.product(row, at.w) if at.scales == NULL
                                            else self.scaled_product(row, at))
                row += 1

    cdef void add_matrix(self, Py_ssize_t i, const double* G, double* slope, void* scratch) noexcept nogil:
        cdef int n = <int>(self.starts[i + 1] - self.starts[i]), h, m
        for h in range(n):
            for m in range(1, n):
                if G[<Py_ssize_t>h * n + m] != 0.0:
                    self.add_arc(i, h, m, 0, G[<Py_ssize_t>h * n + m], slope)

    cdef void add_arc(self, Py_ssize_t i, int h, int m, int r, double scale, double* slope) noexcept nogil:
        cdef int64_t k, row = self.row(i, h, m)
        slope += r * self.dim
        for k in range(self.indptr[row], self.indptr[row + 1]):
            slope[self.indices[k]] += scale * (self.data32[k] if self.single else self.data64[k])

    cdef int put_arc(self, Py_ssize_t i, int h, int m, int r, double scale, PlaneRows out) except -1 nogil:
        cdef int64_t k, row = self.row(i, h, m)
        out.reserve(self.indptr[row + 1] - self.indptr[row])
        for k in range(self.indptr[row], self.indptr[row + 1]):
            out.put(self.indices[k] + r * self.dim, scale * (self.data32[k] if self.single else self.data64[k]))
        return 0

    cdef void score_relations(self, Py_ssize_t i, int h, int m, int count, const int32_t* which, const double* w,
                              double* out) noexcept nogil:
        cdef int k
        for k in range(count):
            out[k] = self.product(self.row(i, h, m), w + which[k] * self.dim)
