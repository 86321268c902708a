# Tokens, gold labels and losses of chains, for compiled code that decodes them.

from libc.stdint cimport int32_t, int64_t

from ..features._plane_rows cimport PlaneRows
from ..features._rows cimport Rows, Weights
from ..oracles._chain cimport ChainTables

cdef struct ChainPoint:
    # Scores of tokens (K, width), of transitions (K, K), of the first and the last label (K,)
    const double* W
    const double* transition
    const double* start
    const double* end


cdef class ChainData:

    cdef readonly Rows tokens
    cdef const int32_t[::1] gold
    cdef const int64_t[::1] offsets
    cdef const double[:, ::1] costs
    cdef const double[::1] factors
    cdef readonly bint has_start, has_end, slack
    cdef tuple arguments

    # Best labellings of n examples, labels[offsets[j]:offsets[j + 1]], and values relative to the truth; margin
    # rescaling. `packed` may be None, for CSR tokens
    cdef int decode(self, Py_ssize_t n, const Py_ssize_t* rows, Weights packed, ChainTables tables,
                    const ChainPoint* at, bint loss, const int64_t* offsets, int32_t* labels,
                    double* values) except -1 nogil
    # Their losses, and their slopes as further rows of `out`
    cdef int write(self, Py_ssize_t n, const Py_ssize_t* rows, const int32_t* labels, const int64_t* offsets,
                   PlaneRows out, double* losses) except -1 nogil
