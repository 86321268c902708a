# Projection onto scaled simplices.

# out = argmin |out - v| with out >= 0 and sum `mass`; returns the size of the support and overwrites v (K,).
cdef int project(double* v, int K, double mass, double* out) noexcept nogil
