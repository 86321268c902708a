# The threshold of Algorithm 2 and of projections onto the simplex, for callers without the GIL.

# out = max(y - tau, 0), see `subtract_threshold`; 0 where there is no memory
cdef int shrink(const double* y, Py_ssize_t n, double mass, double c, double* out) noexcept nogil
