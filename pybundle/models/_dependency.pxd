# Loops over sentences, for passes in compiled code. `gold` holds the true heads of all sentences by `arcs.starts`.

from libc.stdint cimport int32_t, int64_t

from ..features._plane_rows cimport PlaneRows
from ._arcs cimport Arcs, ArcWeights

# Best trees of n_rows sentences, heads[offsets[j]:offsets[j + 1]], and their values relative to the truth; margin
# rescaling where `loss`. moves (n_rows, k, 2) takes the best moves of one word, (word, head), where k > 0;
# NumericalError
cdef int decode_trees(Arcs arcs, Py_ssize_t n_rows, const Py_ssize_t* rows, const ArcWeights* at, const int32_t* gold,
                      bint loss, bint single_root, const int64_t* offsets, int32_t* heads, double* values, int k,
                      int32_t* moves) except -1 nogil

# Their losses, the numbers of wrong heads, and their slopes as further rows of `out`
cdef int write_trees(Arcs arcs, Py_ssize_t n_rows, const Py_ssize_t* rows, const int32_t* gold, const int64_t* offsets,
                     const int32_t* heads, PlaneRows out, double* losses) except -1 nogil
