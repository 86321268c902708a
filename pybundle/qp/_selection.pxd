# The variables on which a round of steps works.

from pybundle.qp._point cimport Point, Problem


cdef class Selection:
    """A list of variables; the slack of part p is variable m + p."""

    cdef object _arrays         # owner of the memory below
    cdef Py_ssize_t room        # number of variables and slacks for which memory is allocated
    cdef int n                  # length of the list
    cdef int* variable          # (n,) the list
    cdef int* part              # (n,) part of each listed variable, n_parts for none
    cdef int* position          # (m + n_parts,) place in the caller's set; only variables with place -1 are added
    cdef double* key            # (m + n_parts,) scratch memory
    cdef double* key_copy       # (m + n_parts,) scratch memory; [0] is the least key if `most` was 1

    # Allocates memory for n variables and slacks; needs the GIL
    cdef int reserve(self, Py_ssize_t n) except -1
    # Empties the list and sets every position to -1
    cdef void clear(self, Point point) noexcept nogil
    # Appends the variables whose weight is positive and whose position is -1, with the slacks only if `slacks` is True
    cdef void add_support(self, Point point, bint slacks) noexcept nogil
    # Appends the `most` worst variables that are not listed and have position -1 and a reduced cost below -floor
    cdef void add_violators(self, Point point, int most, double floor) noexcept nogil


# Returns minus the violation of a variable, or of a slack, which has no H_jj, whose reduced cost is `cost` < 0
cdef double key_of(const Problem* q, int j, double cost) noexcept nogil
# Returns the k-th smallest of n values (k >= 1), which are reordered
cdef double smallest(double* values, int n, int k) noexcept nogil
