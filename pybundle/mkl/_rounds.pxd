# Rounds of the online learner on examples (chains of tokens, or single tokens); scores are sums over groups.

from libc.stdint cimport int32_t, int64_t

from pybundle.mkl._groups cimport Gradient
from pybundle.oracles._chain cimport ChainTables


cdef enum: PAUSE = 50000000      # count of numbers read between two checks for signals, about 50 ms


cdef class TokenRounds:
    cdef readonly list groups
    cdef readonly object links                # LinkGroup, which is also the last of the groups, or None
    cdef public list expected                 # a list that `TokenRounds` in `_rounds.pyx` describes, or None
    cdef tuple memory                         # arrays that own the memory of `members` and `gradient`
    cdef void** members                       # the groups as borrowed references
    cdef Py_ssize_t n_groups, n_labels, longest
    cdef const int64_t[::1] offsets
    cdef const int32_t[::1] truth
    cdef const double[:, ::1] costs
    cdef const double[::1] factors
    cdef bint has_start, has_end
    cdef ChainTables tables
    cdef Gradient gradient
    cdef Py_ssize_t room
    cdef double[:, ::1] S
    cdef double[::1] scratch

    cdef void place_links(self) noexcept nogil
    cdef int decode_example(self, Py_ssize_t i, int32_t* labels, double* value) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef void add(self, Py_ssize_t i, const int32_t* plus, const int32_t* minus, double weight) noexcept nogil
