# Sparse planes under construction: a CSR matrix that grows row by row, each row sorted and merged.

from libc.stdint cimport int32_t, int64_t, uint64_t


cdef class PlaneRows:
    cdef readonly Py_ssize_t dim, n_planes
    cdef double* data                       # entries of the result, one row after another
    cdef int32_t* indices
    cdef int64_t[::1] indptr                # (n_planes + 1,), known up to the open row
    cdef Py_ssize_t closed                  # rows that are complete
    cdef Py_ssize_t size, capacity          # entries used and allocated in data and indices
    cdef double* block                      # (width,) zeros between calls: a dense piece of the open row
    cdef Py_ssize_t width
    cdef bint is_dirty                      # a block was not written: out of memory
    cdef uint64_t* keys                     # entries that wait: index << 32 | place in `values`
    cdef uint64_t* spare                    # scratch for sorting, as long as keys
    cdef double* values
    cdef Py_ssize_t waiting, room
    cdef uint64_t* order                    # label << 32 | entry, of `arrange`
    cdef Py_ssize_t order_room

    # No row is there any more
    cdef void clear(self) noexcept nogil
    # Room for `more` entries to wait; MemoryError
    cdef int reserve(self, Py_ssize_t more) except -1 nogil
    # An entry of the open row waits; there must be room
    cdef inline void put(self, Py_ssize_t index, double value) noexcept nogil:
        self.values[self.waiting] = value
        self.keys[self.waiting] = <uint64_t>index << 32 | <uint64_t>self.waiting
        self.waiting += 1
    # Sorts keys[0..n - 1], which ascend already in their lower halves; the sorted ones are where it points to
    cdef const uint64_t* sort(self, Py_ssize_t n) noexcept nogil
    # The entries that wait go to the open row; they must stand behind all that is there
    cdef int flush(self) except -1 nogil
    # So does block[:width], as entries first..first + width - 1; no entry may wait
    cdef int flush_block(self, Py_ssize_t first, Py_ssize_t width) except -1 nogil
    # order = the entries whose coefficient is not 0, label after label; returns how many they are. None may wait
    cdef Py_ssize_t arrange(self, Py_ssize_t n, const int32_t* labels, const double* coefs) except -1 nogil
    # Flushes and ends the open row
    cdef int close(self) except -1 nogil
    cdef int _extend(self, Py_ssize_t more) except -1 nogil
