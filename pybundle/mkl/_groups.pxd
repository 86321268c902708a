# Base class of groups (a kernel, features, links): they score tokens and labels and make steps, without the GIL.

from pybundle.mkl._lazy cimport LazyVectors


cdef struct Gradient:
    # Delta: coefficients coefs[r] of labels at the token tokens[r], r < n_rows, and those of pairs of labels
    Py_ssize_t n_rows
    Py_ssize_t* tokens
    double* coefs         # (n_rows, n_labels)
    double* links         # (n_labels + 2, n_labels): transitions, first label, last label


cdef class Group:
    cdef readonly LazyVectors theta
    cdef readonly int n_labels
    # S (count, n_labels) += scores of the tokens first..first + count - 1
    cdef void add_scores(self, Py_ssize_t first, Py_ssize_t count, double* S) noexcept nogil
    # <v, Delta> and |Delta|^2
    cdef void measure(self, const Gradient* g, double* product, double* square) noexcept nogil
    # S (count, n_labels) += amount times the scores of the tokens first.. by the weights Delta, without the scale
    cdef void add_own(self, const Gradient* g, double amount, Py_ssize_t first, Py_ssize_t count,
                      double* S) noexcept nogil
    # v += amount Delta
    cdef void step(self, const Gradient* g, double amount) noexcept nogil
    # theta = 0, in O(1)
    cdef int reset(self) except -1 nogil
    # theta *= factor
    cdef int rescale(self, double factor) except -1 nogil
    # recompute |v|^2, if that is possible
    cdef void refresh(self) noexcept nogil
    # |Delta|^2 from inner products of tokens
    cdef double square(self, const Gradient* g) noexcept nogil
    # inner product of the tokens a and b
    cdef double kernel(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil


cdef class LinkGroup(Group):
    pass


cdef inline double dot(const double* a, const double* b, Py_ssize_t n) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t j
    for j in range(n):
        total += a[j] * b[j]
    return total
