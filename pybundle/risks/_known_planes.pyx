"""Planes of single examples in a long row, example after example."""

from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc

from pybundle.risks._simplex_rows cimport project


def plane_step(const Py_ssize_t[::1] start, const double[::1] alpha, const double[::1] u, double sigma,
               double[::1] out, int32_t[::1] support):
    """Proximal step of the dual of the problem of known planes, as `multiclass_step` for labels.

    Example i has the planes `start[i] .. start[i + 1]`.

    Parameters
    ----------
    start : (n + 1,)
    alpha, u : (m,)
        Multipliers of the planes, and their values.
    out : (m,)
    support : (n,)
        Number of planes with a > 0.

    Returns
    -------
    smooth, risk : float
    """
    cdef Py_ssize_t i, first
    cdef int k, K, most = 1
    cdef double smooth = 0.0, risk = 0.0, top, moved, step = 0.5 / sigma
    cdef double* v
    if not alpha.shape[0] == u.shape[0] == out.shape[0] or start.shape[0] != support.shape[0] + 1:
        raise ValueError("alpha, u and out must have the same shape (m,), start n + 1 entries for n of support")
    for i in range(support.shape[0]):
        if not 0 <= start[i] < start[i + 1] <= u.shape[0]:
            raise ValueError("start must rise within 0..m")
        most = max(most, <int>(start[i + 1] - start[i]))
    v = <double*>malloc(most * sizeof(double))
    if v == NULL:
        raise MemoryError
    with nogil:
        for i in range(support.shape[0]):
            first, K = start[i], <int>(start[i + 1] - start[i])
            top = u[first]
            for k in range(K):
                top = max(top, u[first + k])
                v[k] = alpha[first + k] + sigma * u[first + k]
            support[i] = project(v, K, 1.0, &out[first])
            moved = 0.0
            for k in range(first, first + K):
                smooth += out[k] * u[k]
                moved += (out[k] - alpha[k]) * (out[k] - alpha[k])
            smooth -= step * moved
            risk += top
    free(v)
    return smooth, risk
