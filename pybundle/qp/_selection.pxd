# The working variables of a round.

from pybundle.qp._point cimport Point


cdef class Selection:
    """A list of variables, the slack of part p counting as variable m + p."""

    cdef object _arrays         # owner of the memory below
    cdef Py_ssize_t room        # variables and slacks that fit
    cdef int n
    cdef int* variable          # (n,)
    cdef int* part              # (n,) their parts, n_parts if they have none
    cdef int* position          # (m + n_parts,) place of every variable in the set it joins, -1 for outside
    cdef double* key            # (m + n_parts,) scratch
    cdef double* key_copy       # (m + n_parts,) scratch; [0] the least key after `add_violators`

    cdef int reserve(self, Py_ssize_t n) except -1
    # Empties the list and sets position = -1
    cdef void clear(self, Point point) noexcept nogil
    # Appends variables of positive weight outside the set, also slacks if requested
    cdef void add_support(self, Point point, bint slacks) noexcept nogil
    # Appends the `most` worst variables outside list and set, of those whose reduced cost is below -floor
    cdef void add_violators(self, Point point, int most, double floor) noexcept nogil


# The k-th smallest of n values (k >= 1), which are reordered
cdef double smallest(double* values, int n, int k) noexcept nogil
