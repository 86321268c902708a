# Vectors theta_k = scale_k v_k, one for every group k; rescaling one costs O(1).

from libc.stdint cimport int32_t

cdef double SMALLEST       # smaller scales are folded into v, so that products with them do not underflow


cdef class LazyVectors:
    cdef readonly Py_ssize_t n_rows, width, n_groups
    cdef readonly bint averaging
    cdef bint eager, has_labels
    cdef readonly double n_ticks          # number of points in the average
    cdef double[::1] scale                # (n_groups,)
    cdef double[::1] square               # (n_groups,) |v_k|^2, updated by formula (17)
    cdef int32_t[::1] is_zero             # (n_groups,) whether theta_k = 0, although v may hold other numbers
    cdef double[:, ::1] v                 # (n_rows, width); a row reads as 0 if its stamp is older than the last reset
    cdef double[:, ::1] u, total  # u of `_lazy.pyx`, and the sum of all points; without averages they have no rows
    cdef double[::1] sums                 # (n_groups,) sums of the scales since the last reset
    cdef int32_t[::1] stamp               # (n_rows,) n_resets of the group when the row was last touched; -1: row is 0
    cdef int32_t[::1] n_resets            # (n_groups,) number of resets
    cdef const int32_t[::1] labels        # (n_rows,) group of a row; without labels it is row >> shift
    cdef int shift
    cdef int32_t[::1] following           # (n_rows,) lists of the rows touched since the last reset; empty if not eager
    cdef int32_t[::1] heads               # (n_groups,) first row of each list, or -1
    cdef double* held                     # (n_groups, room) `sums` at each reset
    cdef Py_ssize_t room

    cdef int group(self, Py_ssize_t row) noexcept nogil
    # Returns the row of v, or NULL if the row is 0
    cdef const double* read(self, Py_ssize_t row) noexcept nogil
    # Adds a row from before the last reset to the average, and clears it
    cdef void flush(self, Py_ssize_t row, int k) noexcept nogil
    # Returns the row of v for writing; flushes it first if it is from before a reset
    cdef double* touch(self, Py_ssize_t row) noexcept nogil
    # Adds amount * coefs to v[row]
    cdef void add(self, Py_ssize_t row, const double* coefs, double amount) noexcept nogil
    cdef int reset(self, Py_ssize_t k) except -1 nogil
    # Multiplies theta_k by the factor; folds a small scale into v
    cdef int rescale(self, Py_ssize_t k, double factor) except -1 nogil
    # Multiplies v by scale_k and sets scale_k to 1, for all groups if rows have labels; theta does not change
    cdef void refold(self, Py_ssize_t k) noexcept nogil
    # Recomputes |v_k|^2
    cdef void refresh(self) noexcept nogil
    # Adds the current point to the average
    cdef void tick(self) noexcept nogil
