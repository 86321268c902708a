# The threshold of projections onto the simplex and of Algorithm 2 of Martins et al., for compiled callers without the
# GIL.

# Sets out to max(y - tau, 0), see `subtract_threshold`; returns 1, or 0 if memory is exhausted.
cdef int shrink(const double* y, Py_ssize_t n, double mass, double c, double* out) noexcept nogil
