# Vectors that are scaled as a whole in O(1): theta_k = scale_k v_k for every group k.

from libc.stdint cimport int32_t

cdef double SMALLEST       # scales below are folded into v: products with them stay far from the end of the range


cdef class LazyVectors:
    cdef readonly Py_ssize_t n_rows, width, n_groups
    cdef readonly bint averaging
    cdef bint eager, has_labels
    cdef readonly double n_ticks          # points in the average
    cdef double[::1] scale                # (n_groups,)
    cdef double[::1] square               # (n_groups,) |v_k|^2, kept by formula (17)
    cdef int32_t[::1] is_zero             # (n_groups,) theta_k = 0, whatever v holds
    cdef double[:, ::1] v                 # (n_rows, width); rows of a stamp that is not of today read as 0
    cdef double[:, ::1] u, total          # the same shape; only where averages are wanted
    cdef double[::1] sums                 # (n_groups,) of scales since the last reset
    cdef int32_t[::1] stamp               # (n_rows,)
    cdef int32_t[::1] today               # (n_groups,)
    cdef const int32_t[::1] labels        # (n_rows,) group of a row; without: row >> shift
    cdef int shift
    cdef int32_t[::1] following           # (n_rows,) lists of the rows touched since the last reset; empty if not eager
    cdef int32_t[::1] heads               # (n_groups,)
    cdef double* held                     # (n_groups, room) sums at resets
    cdef Py_ssize_t room

    cdef int group(self, Py_ssize_t row) noexcept nogil
    # row as it is now, or NULL where it is 0
    cdef const double* read(self, Py_ssize_t row) noexcept nogil
    cdef void flush(self, Py_ssize_t row, int k) noexcept nogil
    # row for changes, with its part of the average brought up to date
    cdef double* touch(self, Py_ssize_t row) noexcept nogil
    # v[row] += amount * coefs
    cdef void add(self, Py_ssize_t row, const double* coefs, double amount) noexcept nogil
    cdef int reset(self, Py_ssize_t k) except -1 nogil
    # theta_k *= factor; afterwards the scale may be folded into v
    cdef int rescale(self, Py_ssize_t k, double factor) except -1 nogil
    # scale_k = 1, the same theta; with labels all scales
    cdef void refold(self, Py_ssize_t k) noexcept nogil
    # the point as it is now joins the average
    cdef void tick(self) noexcept nogil
