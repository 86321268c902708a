# The memory of the planes of one example: slopes in one piece, multipliers, Gram matrix.

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

cdef struct StoredPlane:
    pb_slope slope
    double offset
    uint64_t hash       # hash of offset and slope, to find equal planes, which are stored once
    int last            # tick at which the plane was last found or used

cdef struct Block:
    int n, room         # number of planes, and number of planes that the arrays have room for
    int n_used          # number of planes with a multiplier > 0
    StoredPlane* planes         # the first plane is the truth
    double* alpha
    double* gram        # Gram matrix (room, room)
    char* memory        # the slopes, one after another, in the order in which passes read them
    size_t filled, wasted       # bytes of `memory`, and how many of these bytes belong to dropped slopes
    double gap          # block gap before the last step


# Allocates arrays for `room` >= n planes. `bytes`, here and below, counts the memory of all blocks.
cdef int resize_block(Block* b, int room, double* bytes) except -1 nogil
# Makes room for `need` more bytes of slopes, and returns where they begin.
cdef char* extend_block(Block* b, size_t need, double* bytes) except NULL nogil
# Sets plane `a` to the given numbers and copies its slope into the memory of the block.
cdef int store_plane(Block* b, StoredPlane* a, double offset, Py_ssize_t n, const int32_t* index,
                     const double* value, Py_ssize_t dim, double* bytes) except -1 nogil
# Copies a block into an empty block that has room for as many planes.
cdef int copy_block(Block* new, const Block* b, double* bytes) except -1 nogil
# Returns the place of the plane with these numbers, or -1 if the block has no such plane.
cdef int find_plane(Block* b, double offset, Py_ssize_t n, const int32_t* index, const double* value) noexcept nogil
# Drops plane q, whose multiplier is 0; the last plane takes its place.
cdef void remove_plane(Block* b, int q) noexcept nogil
# Prefetches the slopes of a block that is needed next.
cdef void fetch_block(const Block* b) noexcept nogil
cdef void free_block(Block* b) noexcept nogil
# Returns the bytes of a slope; `padded` rounds a number of bytes up to a multiple of 8.
cdef size_t slope_bytes(const pb_slope* a) noexcept nogil
cdef size_t padded(size_t size) noexcept nogil
# Sorts entries by index.
cdef void sort_entries(Py_ssize_t n, int32_t* index, double* value) noexcept nogil
