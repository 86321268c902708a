# Base class of groups (a kernel, features, links): they score tokens and labels and make steps, without the GIL.

from pybundle.mkl._lazy cimport LazyVectors


cdef struct Gradient:
    # The gradient Delta: coefs[r] are the coefficients of labels at the token tokens[r], r < n_rows, and links are
    # the coefficients of pairs of labels.
    Py_ssize_t n_rows
    Py_ssize_t* tokens
    double* coefs         # (n_rows, n_labels)
    double* links         # (n_labels + 2, n_labels): transitions, first label, last label


cdef class Group:
    cdef readonly LazyVectors theta
    cdef readonly int n_labels
    # Adds the scores of the tokens first..first + count - 1 to S (count, n_labels)
    cdef void add_scores(self, Py_ssize_t first, Py_ssize_t count, double* S) noexcept nogil
    # Sets `product` to <v, Delta> and `square` to |Delta|^2
    cdef void measure(self, const Gradient* g, double* product, double* square) noexcept nogil
    # Adds to S (count, n_labels) the scores of tokens from `first` on with weights amount Delta, without the scale
    cdef void add_own(self, const Gradient* g, double amount, Py_ssize_t first, Py_ssize_t count,
                      double* S) noexcept nogil
    # Adds amount Delta to v
    cdef void step(self, const Gradient* g, double amount) noexcept nogil
    # Sets theta = 0, in O(1)
    cdef int reset(self) except -1 nogil
    # Multiplies theta by the factor
    cdef int rescale(self, double factor) except -1 nogil
    # Recomputes |v|^2, unless the group lacks the numbers for it
    cdef void refresh(self) noexcept nogil
    # Returns |Delta|^2 from inner products of tokens
    cdef double square(self, const Gradient* g) noexcept nogil
    # Returns the inner product of the tokens a and b
    cdef double kernel(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil


cdef class LinkGroup(Group):
    pass


cdef inline double dot(const double* a, const double* b, Py_ssize_t n) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t j
    for j in range(n):
        total += a[j] * b[j]
    return total
