# Checks of indices that come from Python; kernels use indices without a check.


# Raises ValueError unless all indices lie in 0..n - 1
cdef inline int check_indices(str name, const Py_ssize_t[::1] indices, Py_ssize_t n) except -1:
    cdef Py_ssize_t j
    for j in range(indices.shape[0]):
        if not 0 <= indices[j] < n:
            raise ValueError(f"{name} must lie in 0..{n - 1}, got {indices[j]}")
    return 0
