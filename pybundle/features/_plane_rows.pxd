# Sparse planes under construction: a CSR matrix that grows row by row. Each row is sorted, and equal indices are
# merged.

from libc.stdint cimport int32_t, int64_t, uint64_t


cdef class PlaneRows:
    cdef readonly Py_ssize_t dim, n_planes
    cdef double* data                       # entries of the result, one row after another
    cdef int32_t* indices
    cdef int64_t[::1] indptr                # (n_planes + 1,), valid up to the open row
    cdef Py_ssize_t closed                  # number of complete rows; the next one is the open row
    cdef Py_ssize_t size, capacity          # entries used and allocated in data and indices
    cdef double* block                      # (width,) dense part of the open row; zeros between calls
    cdef Py_ssize_t width
    cdef bint is_dirty                      # true if memory ran out before a block was written to the rows
    cdef uint64_t* keys                     # waiting entries of the open row: index << 32 | place in `values`
    cdef uint64_t* spare                    # scratch for sorting, as long as keys
    cdef double* values
    cdef Py_ssize_t waiting, room
    cdef uint64_t* order                    # label << 32 | entry, set by `arrange`
    cdef Py_ssize_t order_room

    # Remove all rows
    cdef void clear(self) noexcept nogil
    # Allocate memory for `more` waiting entries
    cdef int reserve(self, Py_ssize_t more) except -1 nogil
    # Add an entry to the waiting entries of the open row; `reserve` must have allocated memory for the entry
    cdef inline void put(self, Py_ssize_t index, double value) noexcept nogil:
        self.values[self.waiting] = value
        self.keys[self.waiting] = <uint64_t>index << 32 | <uint64_t>self.waiting
        self.waiting += 1
    # Sort keys[0..n - 1], whose lower 32 bits ascend already; return the memory that holds the sorted keys
    cdef const uint64_t* sort(self, Py_ssize_t n) noexcept nogil
    # Append the waiting entries to the open row; their indices must be above the indices of the row so far
    cdef int flush(self) except -1 nogil
    # Append block[:width] to the open row as entries first..first + width - 1; entries must not be waiting
    cdef int flush_block(self, Py_ssize_t first, Py_ssize_t width) except -1 nogil
    # Set `order` to the entries with nonzero coefficients, sorted by label; return their number. Entries must not be
    # waiting
    cdef Py_ssize_t arrange(self, Py_ssize_t n, const int32_t* labels, const double* coefs) except -1 nogil
    # Append the waiting entries to the open row and complete it
    cdef int close(self) except -1 nogil
    cdef int _extend(self, Py_ssize_t more) except -1 nogil
