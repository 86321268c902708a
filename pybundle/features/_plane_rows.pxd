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

    # Remove all rows
    cdef void clear(self) noexcept nogil
    # Make room for `more` entries to wait
    cdef int reserve(self, Py_ssize_t more) except -1 nogil
    # Let an entry of the open row wait; there must be room
    cdef inline void put(self, Py_ssize_t index, double value) noexcept nogil:
        self.values[self.waiting] = value
        self.keys[self.waiting] = <uint64_t>index << 32 | <uint64_t>self.waiting
        self.waiting += 1
    # Sort keys[0..n - 1], whose lower halves ascend already; return where the sorted keys are
    cdef const uint64_t* sort(self, Py_ssize_t n) noexcept nogil
    # Append the entries that wait to the open row; their indices must lie above those in it
    cdef int flush(self) except -1 nogil
    # Append block[:width] to the open row as entries first..first + width - 1; no entry may wait
    cdef int flush_block(self, Py_ssize_t first, Py_ssize_t width) except -1 nogil
    # Set `order` to the entries with nonzero coefficients, label after label; return their number. No entry may wait
    cdef Py_ssize_t arrange(self, Py_ssize_t n, const int32_t* labels, const double* coefs) except -1 nogil
    # Flush and end the open row
    cdef int close(self) except -1 nogil
    cdef int _extend(self, Py_ssize_t more) except -1 nogil
