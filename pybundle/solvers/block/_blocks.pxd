# Blocks of planes with a point, for compiled code that passes over them.

from pybundle.solvers.block._bcfw cimport TOWARDS, BlockSteps
from pybundle.bundle._block_storage cimport Block


cdef class Blocks(BlockSteps):
    pass


# Starts to read a block that is next.
cdef void fetch(const Block* b) noexcept nogil
