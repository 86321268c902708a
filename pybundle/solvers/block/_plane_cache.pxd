# Planes of single examples, one block for each, with multipliers and Gram matrices.

from libc.stdint cimport int32_t

from pybundle.solvers.block._block cimport Block


cdef enum:
    LEFT = -1       # `last` of a plane outside the working set of its block


cdef inline bint is_candidate(const Block* b, int q, int max_idle) noexcept nogil:
    """Whether steps may go towards plane q."""
    return max_idle == 0 or b.planes[q].last != LEFT


cdef class PlaneCache:

    cdef readonly Py_ssize_t n_blocks, dim, n_planes
    cdef readonly double work, bytes, offset
    cdef readonly int tick
    cdef readonly Py_ssize_t n_merged
    cdef readonly double merging_error
    cdef public int cap
    cdef public bint merges     # planes in use that were idle for long become one
    cdef int max_idle           # iterations after which idle planes leave the working set; 0: all planes are in it
    cdef double checked         # work at the last check for signals
    cdef object _scratch
    cdef Block* blocks
    cdef double* dense          # (dim,) zeros between uses
    cdef object _metric
    cdef const double* metric   # (dim,) weights of the inner product, or NULL for ones
    cdef double* u              # one entry for each plane of the largest block: scratch of steps
    cdef double* change         # the same
    cdef int u_room

    # Room for n planes at least / for exactly so many
    cdef int _reserve(self, Block* b, int n) except -1 nogil
    cdef int _resize(self, Block* b, int room) except -1 nogil
    # Place of a plane in its block, which it enters if it is new / which is new
    cdef int _add(self, Block* b, double offset, Py_ssize_t n, const int32_t* index,
                  const double* value) except -1 nogil
    cdef int _insert(self, Block* b, double offset, Py_ssize_t n, const int32_t* index,
                     const double* value) except -1 nogil
    cdef void _remove(self, Block* b, int q) noexcept nogil
    # Room for one more plane; whether anything changed
    cdef bint _make_room(self, Block* b) except -1 nogil
    # Planes idle since before a tick are dropped, leave the working set or are merged
    cdef int _forget(self, Block* b, int before) except -1 nogil
    # Two planes in use that were idle since before a tick become one; whether there were two
    cdef bint _merge(self, Block* b, int before) except -1 nogil
    cdef void _multiply(self, Block* b) noexcept nogil
    cdef double _square(self, const Block* b, int q) noexcept nogil
    # Checks for signals once in a while
    cdef int _check_signals(self) except -1 nogil
