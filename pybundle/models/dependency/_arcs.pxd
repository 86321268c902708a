# Features of the arcs of sentences, for compiled code that decodes trees.

from libc.stdint cimport int32_t, int64_t

from ...features._plane_rows cimport PlaneRows

cdef struct ArcWeights:
    # w has shape (dim,). scales is NULL or holds a factor for every group of weights; weights whose factor is 0 are not
    # read. labels holds the group of each weight; for templates it is ignored, as the weights of a template are a
    # group.
    const double* w
    const double* scales
    const int32_t* labels


cdef class Arcs:

    cdef readonly Py_ssize_t n_sentences, dim
    cdef readonly object starts_array
    cdef readonly tuple arrays
    cdef const int64_t[::1] starts
    cdef readonly int longest               # number of rows of the longest sentence: its words and the root

    # Sets S (n + 1, n + 1) to the scores of all arcs of sentence i; column 0 and the diagonal get any finite numbers
    cdef void score(self, Py_ssize_t i, const ArcWeights* at, double* S, void* scratch) noexcept nogil
    # slope += sum over arcs of G[h, m] f(h, m); column 0 and the diagonal of G must be 0
    cdef void add_matrix(self, Py_ssize_t i, const double* G, double* slope, void* scratch) noexcept nogil
    # slope += scale f(h, m)
    cdef void add_arc(self, Py_ssize_t i, int h, int m, double scale, double* slope) noexcept nogil
    # Appends scale f(h, m) to the open row of `out`
    cdef int put_arc(self, Py_ssize_t i, int h, int m, double scale, PlaneRows out) except -1 nogil
    # Bytes of scratch that `score` and `add_matrix` need, a multiple of 8
    cdef size_t scratch(self) noexcept nogil
