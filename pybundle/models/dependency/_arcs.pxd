# Features of the arcs of sentences, for compiled code that decodes trees.

from libc.stdint cimport int32_t, int64_t, uint8_t

from ...features._plane_rows cimport PlaneRows

cdef struct ArcWeights:
    # w has shape (dim,). scales is NULL or holds a factor for every group of weights; weights whose factor is 0 are not
    # read. labels holds the group of each weight; it is ignored for templates, where the weights of a template
    # are a group.
    const double* w
    const double* scales
    const int32_t* labels


cdef class Arcs:

    cdef readonly Py_ssize_t n_sentences, dim
    cdef readonly int n_relations           # R; a word with head h and relation r has the code h R + r
    cdef readonly object starts_array
    cdef readonly tuple arrays
    cdef const int64_t[::1] starts
    cdef readonly int longest               # number of rows of the longest sentence: its words and the root

    # Sets S (n + 1, n + 1) to the scores of all arcs of sentence i; column 0 and the diagonal get any finite numbers
    cdef void score(self, Py_ssize_t i, const ArcWeights* at, double* S, void* scratch) noexcept nogil
    # slope += sum over arcs of G[h, m] f(h, m); column 0 and the diagonal of G must be 0
    cdef void add_matrix(self, Py_ssize_t i, const double* G, double* slope, void* scratch) noexcept nogil
    # slope += scale f(h, m, r)
    cdef void add_arc(self, Py_ssize_t i, int h, int m, int r, double scale, double* slope) noexcept nogil
    # Appends scale f(h, m, r) to the open row of `out`
    cdef int put_arc(self, Py_ssize_t i, int h, int m, int r, double scale, PlaneRows out) except -1 nogil
    # out[k] = score of relation which[k], k < count, of an arc
    cdef void score_relations(self, Py_ssize_t i, int h, int m, int count, const int32_t* which, const double* w,
                              double* out) noexcept nogil
    # slope += sum over k < count of scales[k] f(h, m, which[k])
    cdef void add_relations(self, Py_ssize_t i, int h, int m, int count, const int32_t* which, const double* scales,
                            double* slope) noexcept nogil
    # Adds to the scores S of `score` the maximum over relations, or log sum exp if `soft` is set. If loss is not NULL,
    # the entries of word m that are right by its true code own[m] are first lowered by 1, unless loss[m] is NO_LOSS.
    # best (n + 1, n + 1) receives codes of arcs with their best relations, tops (n + 1,) the scores of the true arcs
    cdef void reduce(self, Py_ssize_t i, const double* w, const int32_t* own, const uint8_t* loss, bint soft, double* S,
                     int32_t* best, double* tops, void* scratch) noexcept nogil
    # Adds to the slope scale times (expected features of relations minus true features). P holds probabilities of
    # arcs, and `error` bounds their error. Returns a lower bound on the expected entropy of the relations.
    # If w is NULL, each relation has probability 1 in its arc and there is no truth
    cdef double add_expected(self, Py_ssize_t i, const double* w, const int32_t* own, double scale, const double* P,
                             double error, double* slope, void* scratch) noexcept nogil
    # Bytes of scratch that `score` and `add_matrix` need, a multiple of 8
    cdef size_t scratch(self) noexcept nogil

cdef enum Loss:
    # what must differ from the truth for a word to be wrong: head or relation, head, relation; NO_LOSS: never wrong
    BOTH = 0
    HEADS = 1
    RELATIONS = 2
    NO_LOSS = 3


cdef inline bint is_wrong(int32_t code, int32_t own, int R, int loss) noexcept nogil:
    if code == own or loss == NO_LOSS:
        return False
    if loss == BOTH:
        return True
    return code // R != own // R if loss == HEADS else code % R != own % R
