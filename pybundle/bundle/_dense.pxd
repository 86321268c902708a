# Storage of the dense slopes a_0 .. a_{count-1} of a bundle, the rows of A.

cdef class DensePlanes:
    cdef readonly Py_ssize_t dim
    cdef Py_ssize_t count           # number of rows in use
    cdef Py_ssize_t capacity        # number of rows for which memory is allocated
    cdef const double** _rows       # (capacity,) addresses of the rows
    cdef list _blocks, _starts      # arrays that own the memory, and the number of the first row of each

    # returns slope j (dim,); the pointer is valid until a plane is added or removed
    cdef const double* row(self, Py_ssize_t j) noexcept nogil
    # phi (dim,) += A' weights,  weights (count,); reads only rows of non-zero weight
    cdef void add_combination(self, const double* weights, double* phi) noexcept nogil
    # returns the number of rows from j on that are adjacent in memory
    cdef Py_ssize_t run(self, Py_ssize_t j) noexcept nogil
    # y (count - first,) = A[first:] w,  first < count
    cdef void multiply(self, const double* w, Py_ssize_t first, double* y) noexcept nogil
