from libc.stdint cimport int64_t


cdef class GridTree:
    """Read-only tree whose labels are positions on grids, with a quadratic deformation cost for every edge."""

    cdef readonly int n_nodes
    cdef readonly Py_ssize_t total         # number of positions of all nodes
    cdef readonly Py_ssize_t n_floats      # scratch of `decode`, in doubles
    cdef readonly Py_ssize_t n_ints        # scratch of `decode`, in ints
    cdef const int[::1] order              # (J,) every node after its children, the root last
    cdef const int[::1] parents            # (J,)
    cdef const int[::1] heights            # (J,)
    cdef const int[::1] widths             # (J,)
    cdef const int64_t[::1] offsets        # (J + 1,) positions of node j: offsets[j]..offsets[j + 1] - 1
    cdef const double[:, ::1] deformation  # (J, 4) a_x, b_x, a_y, b_y of the edge to the parent
    cdef const double[:, ::1] anchors      # (J, 2) expected x and y of a node minus those of its parent
    cdef int64_t[::1] places  # (J + 1,) where the table of best positions of each node begins in the int scratch
    cdef double[::1] inverse_x             # (sum of widths,) see line_transform
    cdef double[::1] inverse_y             # (sum of heights,)
    cdef int64_t[::1] starts_x             # (J,) start of each node in inverse_x
    cdef int64_t[::1] starts_y
    cdef int longest

    # Sets labels (J,), the position y * width + x of each node on its grid; returns their score, from unaries.
    cdef double decode(self, const double* unaries, int* labels, double* floats, int* ints) noexcept nogil
    cdef double score(self, const double* unaries, const int* labels) noexcept nogil
