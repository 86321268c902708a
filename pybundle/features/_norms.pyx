"""Squared norms of the examples in float64, without a copy of X."""

import numpy as np

from libc.stdint cimport int64_t

ctypedef unsigned char uchar

ctypedef fused number:
    uchar
    float
    double


def square_norms(storage):
    """Return |x_i|^2 for dense rows `(X,)` or CSR `(data, indices, indptr)`.

    The square is not finite for a row with NaN, infinity or overflow. Both storages add in the order of the columns, so
    a dense matrix and its CSR form give the same bits.
    """
    out = np.empty(len(storage[2]) - 1 if len(storage) == 3 else len(storage[0]))
    if len(storage) == 3:
        _csr(storage[0], storage[2], out)
    else:
        _dense(storage[0], out)
    return out


def _dense(const number[:, ::1] X, double[::1] out):
    cdef Py_ssize_t i, j
    cdef double s
    with nogil:
        for i in range(X.shape[0]):
            s = 0.0
            for j in range(X.shape[1]):
                s += <double>X[i, j] * <double>X[i, j]
            out[i] = s


def _csr(const number[::1] data, const int64_t[::1] indptr, double[::1] out):
    cdef Py_ssize_t i
    cdef int64_t e
    cdef double s
    with nogil:
        for i in range(out.shape[0]):
            s = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                s += <double>data[e] * <double>data[e]
            out[i] = s
