# Memory of planes of single examples: slopes, multipliers, Gram matrices.

from libc.stdint cimport int32_t, uint64_t

cdef extern from "_plane.h" nogil:
    ctypedef struct pb_slope:
        Py_ssize_t n
        const int32_t* index
        const void* value
        int is_single
    double pb_slope_dot(const pb_slope* a, const double* w)
    void pb_slope_axpy(const pb_slope* a, double factor, double* w)
    double pb_slope_value(const pb_slope* a, Py_ssize_t k)
    void pb_prefetch(const void* address)
    void pb_return_pages()

cdef struct Plane:
    pb_slope slope
    double offset
    uint64_t name       # hash of offset and slope: equal planes are stored once
    int last            # tick of the last activity

cdef struct Block:
    int n, room         # planes, and room for them
    int n_used          # planes with a multiplier
    Plane* planes       # the truth first
    double* alpha
    double* gram        # (room, room)
    char* memory        # the slopes, one after another: a pass streams through them
    size_t filled, wasted       # bytes of it, and those of slopes that were forgotten
    double gap          # max u - <alpha, u> before the last step


cdef class BlockStorage:

    cdef readonly Py_ssize_t n_blocks, dim, n_planes
    cdef readonly double work, bytes
    cdef readonly int tick
    cdef readonly Py_ssize_t n_merged
    cdef readonly double merging_error
    cdef public int cap
    cdef object _scratch
    cdef Block* blocks
    cdef double* dense          # (dim,) zeros between uses
    cdef object _metric
    cdef const double* metric   # (dim,) weights of the inner product, or NULL for ones
    cdef double* u              # one entry for each plane of the largest block: scratch
    cdef double* change         # the same
    cdef int u_room

    cdef int _widen(self, int n) except -1 nogil
    cdef int _add_truth(self, Block* b) except -1 nogil
    # Room for n planes at least / for exactly so many
    cdef int _reserve(self, Block* b, int n) except -1 nogil
    cdef int _resize(self, Block* b, int room) except -1 nogil
    cdef char* _extend(self, Block* b, size_t need) except NULL nogil
    cdef int _store(self, Block* b, Plane* a, uint64_t name, double offset, Py_ssize_t n, const int32_t* index,
                    const double* value) except -1 nogil
    cdef int _copy_block(self, Block* new, const Block* b) except -1


# Name of a plane: equal planes have equal names.
cdef uint64_t hash_plane(double offset, Py_ssize_t n, const int32_t* index, const double* value) noexcept nogil
# Bytes of a slope, and those that it takes up.
cdef size_t slope_bytes(const pb_slope* a) noexcept nogil
cdef size_t padded(size_t size) noexcept nogil
