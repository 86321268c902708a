# Minimiser of a simplex QP on a face: a Cholesky factor of a base of variables, and a Schur complement for constraints.

from pybundle.core._blas cimport real

# Number of variables from which float32 pays: a smaller factor costs little compared with other work of a round.
cdef enum:
    LARGE_FACE = 192


cdef class Face:
    """A base of `n` variables, some of them held at zero, and the factor that gives steps to its minimiser.

    All pointers stay valid until the next call of `reserve`.
    """

    cdef char* columns              # memory of the arrays with one entry per variable
    cdef char* rows                 # memory of the arrays with one entry per constraint
    cdef int capacity, row_capacity
    cdef bint single                # whether L, R, M, F, y, z and t are float32, else float64
    cdef void* L                    # (capacity, stride): lower factor of unit H_BB + c E E' + shift I
    cdef void* R                    # (row_capacity, stride): rows L^-1 E_p of the parts, then L^-1 e_d
    cdef void* M                    # (row_capacity, side): R R', lower triangle
    cdef void* F                    # (row_capacity, side): factor of M
    cdef void* y                    # (capacity,) L^-1 rhs
    cdef void* z                    # (capacity,) scratch
    cdef void* t                    # (row_capacity,) scratch
    cdef double* missing            # (row_capacity,) scratch
    cdef int stride, side, old_stride   # distances of rows: of L and R; of M and F; of R while it is copied
    cdef int n                      # variables in the base
    cdef int n_parts                # rows of R that stand for sums
    cdef int n_held                 # rows of R that stand for variables held at zero
    cdef int* index                 # (capacity,) variable, or -1 - p for the slack of part p
    cdef int* part                  # (capacity,) part of each variable, n_parts for none
    cdef int* row                   # (capacity,) number of each variable among the held ones, -1 for a free variable
    cdef int* held                  # (capacity,) position in the base of each held variable
    cdef double coupling, shift, unit   # c, the shift of the diagonal, and the power of two, see the .pyx file

    # Allocates memory for n variables and n_rows constraints; needs the GIL. A change of precision empties the base.
    cdef int reserve(self, int n, int n_rows, bint single) except -1
    # Empties the base. `diagonal` is the mean of the diagonal of H, `shift` a fraction of it.
    cdef void clear(self, int n_parts, double diagonal, double shift) noexcept nogil
    # Appends k variables, for which memory must be allocated; returns 0, or nonzero if the factor failed: then the base
    # is empty
    cdef int append(self, const double* H, Py_ssize_t ldh, const int* index, const int* part,
                    int k) noexcept nogil
    # Holds k variables of the base at zero; memory for their rows must be allocated
    cdef void hold(self, const int* position, int k) noexcept nogil
    # Frees the variable at a position of the base
    cdef void release(self, int position) noexcept nogil
    # Sets the right-hand side (n,) of the solves that follow
    cdef void aim(self, const double* rhs) noexcept nogil
    # Sets step (n,) = argmin 1/2 s'Ks - rhs's, with s = -x for held variables, and the sum of s over each part = lack;
    # returns 0, or nonzero if it failed
    cdef int solve(self, const double* x, const double* lack, double* step) noexcept nogil
    cdef int _stride(self) noexcept nogil
    cdef int _reserve_columns(self, int n) except -1
    cdef int _reserve_rows(self, int n_rows) except -1
    cdef int _append(self, real* L, const double* H, Py_ssize_t ldh, const int* index, const int* part,
                     int k) noexcept nogil
    cdef void _hold(self, real* L, const int* position, int k) noexcept nogil
    cdef void _replace(self, real* M, int a, int b) noexcept nogil
    cdef void _aim(self, real* y, const double* rhs) noexcept nogil
    cdef int _solve(self, real* L, const double* x, const double* lack, double* step) noexcept nogil
    cdef double _violation(self, const double* x, const double* lack, const double* step) noexcept nogil
