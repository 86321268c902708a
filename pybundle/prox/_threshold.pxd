# The threshold of projections onto the simplex and of Algorithm 2 of Martins et al., for callers without the GIL.

# out = max(y - tau, 0), see `subtract_threshold`; returns 0 if memory is exhausted, else 1
cdef int shrink(const double* y, Py_ssize_t n, double mass, double c, double* out) noexcept nogil
