# Planes of single examples: which of them a block has.

from libc.stdint cimport int32_t, uint64_t

from pybundle.bundle._block_storage cimport Block, BlockStorage


cdef class BlockPlanes(BlockStorage):

    # Place of a plane in its block: -1 where it is not known / which it enters if it is new / which is new
    cdef int _find(self, Block* b, uint64_t name, double offset, Py_ssize_t n, const int32_t* index,
                   const double* value) noexcept nogil
    cdef int _add(self, Block* b, double offset, Py_ssize_t n, const int32_t* index,
                  const double* value) except -1 nogil
    cdef int _insert(self, Block* b, uint64_t name, double offset, Py_ssize_t n, const int32_t* index,
                     const double* value) except -1 nogil
    cdef void _remove(self, Block* b, int q) noexcept nogil
    cdef int _make_room(self, Block* b) except -1 nogil
    cdef void _multiply(self, Block* b) noexcept nogil
    cdef double _square(self, const Block* b, int q) noexcept nogil
    # Two planes in use that were idle since before a tick become one
    cdef int _merge(self, Block* b, int before) except -1 nogil
