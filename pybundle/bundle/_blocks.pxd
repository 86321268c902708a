# Blocks of planes with a point, for compiled code that passes over them.

from libc.stdint cimport int64_t

from pybundle.bundle._block_steps cimport TOWARDS, BlockSteps
from pybundle.bundle._block_storage cimport Block
from pybundle.core._rounds cimport Gate


cdef class Blocks(BlockSteps):

    cdef readonly bint is_busy      # learning: the hand of a thread
    cdef public object shift        # those who learn have to name it
    cdef Gate gate              # of those who sum
    cdef int64_t n_sums, sum_of_now     # that may be added to, 0 where none


# Starts to read a block that is next.
cdef void fetch(const Block* b) noexcept nogil
