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
    cdef public bint merges     # whether planes in use that were idle for long are merged
    cdef int max_idle           # iterations after which idle planes leave the working set; 0: all planes are in it
    cdef double checked         # work at the last check for signals
    cdef object _scratch
    cdef Block* blocks
    cdef double* dense          # (dim,) work space, which is 0 between uses
    cdef object _metric
    cdef const double* metric   # (dim,) weights of the inner product, or NULL for ones
    cdef double* u              # values of planes in a step; its room is that of the largest block
    cdef double* change         # changes of multipliers in a step, with the same room
    cdef int u_room

    # `_reserve` makes room for at least n planes, `_resize` for exactly `room` planes
    cdef int _reserve(self, Block* b, int n) except -1 nogil
    cdef int _resize(self, Block* b, int room) except -1 nogil
    # Both return the place of a plane in its block; `_add` inserts the plane if it is new, `_insert` in any case
    cdef int _add(self, Block* b, double offset, Py_ssize_t n, const int32_t* index,
                  const double* value) except -1 nogil
    cdef int _insert(self, Block* b, double offset, Py_ssize_t n, const int32_t* index,
                     const double* value) except -1 nogil
    cdef void _remove(self, Block* b, int q) noexcept nogil
    # Makes room for one more plane; returns whether anything changed
    cdef bint _make_room(self, Block* b) except -1 nogil
    # Drops planes idle since before a tick, or merges them, or takes them out of the working set
    cdef int _forget(self, Block* b, int before) except -1 nogil
    # Merges two planes in use that were idle since before a tick; returns whether there were two
    cdef bint _merge(self, Block* b, int before) except -1 nogil
    cdef void _multiply(self, Block* b) noexcept nogil
    cdef double _square(self, const Block* b, int q) noexcept nogil
    # Checks for signals if ENTRIES_PER_CHECK entries of slopes were read since the last check
    cdef int _check_signals(self) except -1 nogil
