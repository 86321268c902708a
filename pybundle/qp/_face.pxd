# Minimiser of a simplex QP on a face: Cholesky factor of a base of variables, Schur complement for the rest.


cdef class Face:
    """A base of `n` variables, of which some are held at zero, and the factor that moves to its minimiser.

    All pointers stay valid until `reserve`.
    """

    cdef object _arrays             # owner of the memory below
    cdef int capacity, row_capacity
    cdef double* L                  # (capacity, stride): lower factor of H_BB + c E E' + shift I
    cdef double* R                  # (row_capacity, stride): rows L^-1 E_p of the parts, then L^-1 e_d
    cdef double* M                  # (row_capacity, side): R R', lower triangle
    cdef double* F                  # (row_capacity, side): factor of M
    cdef double* y                  # (capacity,) L^-1 rhs
    cdef double* z                  # (capacity,) scratch
    cdef double* t                  # (row_capacity,) scratch
    cdef int stride, side           # side: rows of M and F in use, rounded up
    cdef int n                      # variables in the base
    cdef int n_parts                # rows of R that stand for sums
    cdef int n_held                 # rows of R that stand for variables held at zero
    cdef int* index                 # (capacity,) variable, or -1 - p for the slack of part p: m may grow
    cdef int* part                  # (capacity,) its part, n_parts where it has none
    cdef int* row                   # (capacity,) its row among the held ones, -1 where it is free
    cdef int* held                  # (row_capacity,) position in the base of each held variable
    cdef double coupling, shift

    # Room for n variables and as many constraints as they can have; needs the GIL.
    cdef int reserve(self, int n, int n_parts) except -1
    # Empties the base. `coupling` is c above.
    cdef void clear(self, int n_parts, double coupling, double shift) noexcept nogil
    # Appends k variables (room must be there); 0, or the order of the first bad minor, the base as it was
    cdef int append(self, const double* H, Py_ssize_t ldh, const int* index, const int* part,
                    int k) noexcept nogil
    # Holds k variables of the base at zero / frees the last ones until n_held = k / frees one
    cdef void hold(self, const int* position, int k) noexcept nogil
    cdef void release_to(self, int k) noexcept nogil
    cdef void release(self, int position) noexcept nogil
    # rhs (n,) of the solves that follow
    cdef void aim(self, const double* rhs) noexcept nogil
    # step (n,) = argmin 1/2 s'Ks - rhs's with s = -x where held and sums of a part = lack; 0 or an error
    cdef int solve(self, const double* x, const double* lack, double* step) noexcept nogil
    cdef void _widen(self, int rows) noexcept nogil
    cdef void _correct(self, int rows, double* step) noexcept nogil
    cdef double _violation(self, const double* x, const double* lack, const double* step) noexcept nogil
