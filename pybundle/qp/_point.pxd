# A feasible point of the master QP with its gradient, value and gap.

cdef struct Problem:
    const double* H             # (m, m) with leading dimension ldh
    Py_ssize_t ldh
    const double* f             # (m,)
    const int* parts            # (m,) 0..n_parts-1, or -1 for variables without a sum
    double scale
    int m, n_parts


cdef inline int part_of(const Problem* problem, int variable) noexcept nogil:
    """Return the part of a variable, or of the slack m + p of part p; n_parts if it has no part."""
    cdef int p = problem.parts[variable] if variable < problem.m else variable - problem.m
    return p if p >= 0 else problem.n_parts


cdef class Point:
    """A point x >= 0 with its sums, gradient, value and gap. Pointers are valid until the next `reserve`."""

    cdef object _arrays         # owner of the memory below
    cdef Py_ssize_t room        # number of variables and slacks for which memory is allocated
    cdef Problem problem
    cdef unsigned char* slack   # (n_parts,) whether the sum of a part may be less than 1
    cdef double* x              # (m,) belongs to the caller; feasible after `normalise`
    cdef double* rest           # (n_parts,) weight of the zero plane: the slack of the sum
    cdef double* h              # (m,) H x; belongs to the caller
    cdef bint stale             # whether h was updated by sums, whose rounding errors separate h from H x
    cdef double* g              # (m,) scale h - f
    cdef double* mean           # (n_parts + 1,) sum of x g over a part, 0 for variables without a sum
    cdef double* least          # (n_parts + 1,) least entry of g in a part
    cdef double value, gap
    cdef double size            # scale/2 x'Hx + |f'x|
    cdef double curvature       # least d'Hd found on faces, as a fraction of sum_j d_j^2 H_jj; 0 if none is negative
    # scratch memory
    cdef double* sums           # (n_parts,)
    cdef int* best              # (n_parts + 1,)
    cdef const double** rows    # (m,)
    cdef double* weights        # (m,)

    # Allocates memory for n variables and slacks, before x, h and problem are set; needs the GIL
    cdef int reserve(self, Py_ssize_t n) except -1
    # Moves x into the feasible set and sets h = H x
    cdef void normalise(self) noexcept nogil
    # Returns the number of positive x
    cdef int support(self) noexcept nogil
    # Corrects the sums of x (m,) and rest (n_parts,) for rounding
    cdef void restore_sums(self, double* x, double* rest) noexcept nogil
    # Sets h (m,) = H x for any x (m,)
    cdef void multiply(self, const double* x, double* h) noexcept nogil
    # Sets h = H x for the point itself
    cdef void refresh(self) noexcept nogil
    # Computes g, mean, least, gap, value and size from x and h
    cdef void assess(self) noexcept nogil
    # Sets `curvature` after a factor of H + shift mean(H_jj) on a face has failed
    cdef void notice(self, double shift) noexcept nogil
