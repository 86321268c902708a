"""The memory of a block, the planes of one example: slopes in one piece, multipliers, Gram matrix.

Slopes are sparse or dense, float32 if that is exact, and lie in the order in which a pass over the planes reads.
"""

from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

cdef size_t FETCHED = 8192          # number of bytes of the next block that are prefetched


cdef int resize_block(Block* b, int room, double* bytes) except -1 nogil:
    cdef int q
    cdef StoredPlane* planes
    cdef double* alpha
    cdef double* gram
    planes = <StoredPlane*>malloc(room * sizeof(StoredPlane))
    alpha = <double*>malloc(room * sizeof(double))
    gram = <double*>malloc(<size_t>room * room * sizeof(double))
    if planes == NULL or alpha == NULL or gram == NULL:
        free(planes)
        free(alpha)
        free(gram)
        with gil:
            raise MemoryError
    if b.n:
        memcpy(planes, b.planes, b.n * sizeof(StoredPlane))
        memcpy(alpha, b.alpha, b.n * sizeof(double))
        for q in range(b.n):
            memcpy(gram + q * room, b.gram + q * b.room, b.n * sizeof(double))
    free(b.planes)
    free(b.alpha)
    free(b.gram)
    bytes[0] += (room - b.room) * (sizeof(StoredPlane) + 8.0) + 8.0 * (<double>room * room - <double>b.room * b.room)
    b.planes, b.alpha, b.gram, b.room = planes, alpha, gram, room
    return 0


cdef char* extend_block(Block* b, size_t need, double* bytes) except NULL nogil:
    # all slopes are copied without holes, as a copy is cheaper than unused memory
    cdef size_t used = 0, size = b.filled - b.wasted + need
    cdef int q
    cdef char* memory
    cdef pb_slope* a
    memory = <char*>malloc(size + 1)        # malloc(0) might return NULL
    if memory == NULL:
        with gil:
            raise MemoryError
    for q in range(1, b.n):
        a = &b.planes[q].slope
        if a.n:                 # an empty slope has no memory, and C forbids copies from NULL even of 0 bytes
            memcpy(memory + used, a.value, slope_bytes(a))
        place_slope(a, memory + used)
        used += padded(slope_bytes(a))
    free(b.memory)
    bytes[0] += <double>size - <double>b.filled
    b.memory, b.filled, b.wasted = memory, size, 0
    return memory + used


cdef int store_plane(Block* b, StoredPlane* a, double offset, Py_ssize_t n, const int32_t* index,
                     const double* value, Py_ssize_t dim, double* bytes) except -1 nogil:
    # the slope is stored dense if that takes less memory, and in float32 if that is exact
    cdef Py_ssize_t k
    cdef bint single = True, dense
    cdef size_t item
    cdef char* memory
    for k in range(n):
        if <double><float>value[k] != value[k]:
            single = False
            break
    item = sizeof(float) if single else sizeof(double)
    dense = n * (item + sizeof(int32_t)) >= dim * item
    a.slope.n = dim if dense else n
    a.slope.is_single = single
    a.slope.index = index           # `slope_bytes` asks whether `index` is NULL; `place_slope` replaces `index`
    if dense:
        a.slope.index = NULL
    memory = extend_block(b, padded(slope_bytes(&a.slope)), bytes)
    place_slope(&a.slope, memory)
    if dense:
        memset(memory, 0, dim * item)
    elif n:
        memcpy(<void*>a.slope.index, index, n * sizeof(int32_t))
    for k in range(n):
        if single:
            (<float*>memory)[index[k] if dense else k] = <float>value[k]
        else:
            (<double*>memory)[index[k] if dense else k] = value[k]
    a.offset = offset
    a.hash = hash_plane(offset, n, index, value)
    return 0


cdef int copy_block(Block* new, const Block* b, double* bytes) except -1 nogil:
    cdef int q
    cdef Py_ssize_t r
    cdef char* memory = extend_block(new, b.filled - b.wasted, bytes)
    for q in range(b.n):
        new.planes[q] = b.planes[q]
        new.alpha[q] = b.alpha[q]
        for r in range(b.n):
            new.gram[q * new.room + r] = b.gram[q * b.room + r]
        if q:
            if b.planes[q].slope.n:
                memcpy(memory, b.planes[q].slope.value, slope_bytes(&b.planes[q].slope))
            place_slope(&new.planes[q].slope, memory)
            memory += padded(slope_bytes(&b.planes[q].slope))
    new.n, new.n_used, new.gap = b.n, b.n_used, b.gap
    return 0


cdef int find_plane(Block* b, double offset, Py_ssize_t n, const int32_t* index, const double* value) noexcept nogil:
    cdef int q
    cdef Py_ssize_t k
    cdef pb_slope* a
    cdef uint64_t hash = hash_plane(offset, n, index, value)
    if n == 0 and offset == 0.0:
        return 0
    for q in range(1, b.n):
        a = &b.planes[q].slope
        if b.planes[q].hash != hash or b.planes[q].offset != offset or (a.index != NULL and a.n != n):
            continue
        if a.index != NULL and n and memcmp(a.index, index, n * sizeof(int32_t)):      # C forbids memcmp with NULL
            continue
        k = 0
        while k < n and pb_slope_value(a, k if a.index != NULL else index[k]) == value[k]:
            k += 1
        if k == n:
            return q
    return -1


cdef void remove_plane(Block* b, int q) noexcept nogil:
    cdef int last = b.n - 1, r
    cdef StoredPlane* a = &b.planes[q]
    b.wasted += padded(slope_bytes(&a.slope))
    if q < last:
        b.planes[q] = b.planes[last]
        b.alpha[q] = b.alpha[last]
        for r in range(last):
            b.gram[q * b.room + r] = b.gram[last * b.room + r]
            b.gram[r * b.room + q] = b.gram[r * b.room + last]
        b.gram[q * b.room + q] = b.gram[last * b.room + last]
    b.n = last


cdef void free_block(Block* b) noexcept nogil:
    free(b.memory)
    free(b.planes)
    free(b.alpha)
    free(b.gram)


cdef void fetch_block(const Block* b) noexcept nogil:
    cdef size_t k = 0
    while k < b.filled and k < FETCHED:
        pb_prefetch(b.memory + k)
        k += 64


cdef size_t slope_bytes(const pb_slope* a) noexcept nogil:
    return a.n * ((4 if a.is_single else 8) + (4 if a.index != NULL else 0))


cdef size_t padded(size_t size) noexcept nogil:
    return (size + 7) // 8 * 8


cdef void place_slope(pb_slope* a, char* memory) noexcept nogil:
    """Let the slope point to its values at `memory`, and to its indices behind them."""
    a.value = memory
    if a.index != NULL:
        a.index = <int32_t*>(memory + a.n * (4 if a.is_single else 8))


cdef uint64_t hash_plane(double offset, Py_ssize_t n, const int32_t* index, const double* value) noexcept nogil:
    """Return the FNV-1a hash of the numbers of a plane; equal planes have equal hashes."""
    cdef uint64_t h = 14695981039346656037ULL, word
    cdef Py_ssize_t k
    memcpy(&word, &offset, 8)
    h = (h ^ word) * 1099511628211ULL
    for k in range(n):
        memcpy(&word, &value[k], 8)
        h = (h ^ word ^ <uint64_t>index[k]) * 1099511628211ULL
        h ^= h >> 29
    return h


cdef void sort_entries(Py_ssize_t n, int32_t* index, double* value) noexcept nogil:
    # Shell's method
    cdef Py_ssize_t gap = n // 2, i, j
    cdef int32_t key
    cdef double v
    while gap > 0:
        for i in range(gap, n):
            key, v = index[i], value[i]
            j = i
            while j >= gap and index[j - gap] > key:
                index[j], value[j] = index[j - gap], value[j - gap]
                j -= gap
            index[j], value[j] = key, v
        gap //= 2
