# A point and steps on blocks of planes, for compiled code that takes them.

from libc.stdint cimport uint8_t

from pybundle.bundle._block_planes cimport BlockPlanes
from pybundle.bundle._block_storage cimport Block, Plane

cdef struct Average:
    # sum_k 2k w_k / (K (K + 1)) over the points w_k after each of K steps, held as w - drift / (K (K + 1))
    double* drift
    double offset_drift
    double count

cdef enum Step:
    EXACT, PAIRWISE, TOWARDS


cdef class BlockSteps(BlockPlanes):

    cdef readonly object w
    cdef readonly double offset, scale
    cdef int max_steps, step
    cdef object _free, _is_kept
    cdef double* x              # w
    cdef double* free           # before clipping, the weights that are kept nonnegative; the others are not used
    cdef const uint8_t* is_kept     # which these are; NULL where nothing is kept nonnegative
    cdef Average averages[2]
    cdef object _drifts
    cdef double breath

    cdef void _shift(self, const Plane* a, double factor) noexcept nogil
    cdef double _score(self, Block* b, bint used_only) noexcept nogil
    # A step towards plane `target`, -1 for the best one, over all planes or those in use; the gap before it
    cdef double _step(self, Block* b, int target, bint used_only) noexcept nogil
    cdef void _pairwise(self, Block* b, int target) noexcept nogil
    cdef void _towards(self, Block* b, int t) noexcept nogil
    cdef void _count(self, int k) noexcept nogil
    # Looks for signals once in a while
    cdef int _breathe(self) except -1 nogil
