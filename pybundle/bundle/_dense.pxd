# Dense slopes of a bundle, a_0 .. a_{count-1}, as rows of A.

cdef class DensePlanes:
    cdef readonly Py_ssize_t dim
    cdef Py_ssize_t count           # rows alive, in no particular order
    cdef Py_ssize_t capacity        # rows that fit in memory
    cdef const double** _rows       # addresses
    cdef list _blocks, _starts      # owners of the memory, and the first row of each

    # slope j (dim,), valid until a plane is added or removed
    cdef const double* row(self, Py_ssize_t j) noexcept nogil
    # phi (dim,) += A' weights,  weights (count,); reads only rows of non-zero weight
    cdef void add_combination(self, const double* weights, double* phi) noexcept nogil
    # number of rows alive from j on that are adjacent in memory
    cdef Py_ssize_t run(self, Py_ssize_t j) noexcept nogil
    # y (count - first,) = A[first:] w,  first < count
    cdef void multiply(self, const double* w, Py_ssize_t first, double* y) noexcept nogil
