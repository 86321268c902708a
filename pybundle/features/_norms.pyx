"""Squared norms of the examples in float64, without a copy of X."""

import numpy as np

from libc.stdint cimport int64_t

ctypedef unsigned char uchar

ctypedef fused number:
    uchar
    float
    double


def square_norms(storage):
    """|x_i|^2 for dense rows `(X,)` or CSR `(data, indices, indptr)`.

    Not finite for a row with NaN, infinity or overflow. Both storages add in the order of the columns, so a dense
    matrix and its CSR form give the same bits.
    """
    X = storage[0]
    out = np.empty(len(storage[2]) - 1 if len(storage) == 3 else X.shape[0])
    if len(storage) == 3:
        if X.dtype == np.float32:
            _csr[float](X, storage[2], out)
        else:
            _csr[double](X, storage[2], out)
    elif X.dtype == np.uint8:
        _dense[uchar](X, out)
    elif X.dtype == np.float32:
        _dense[float](X, out)
    else:
        _dense[double](X, out)
    return out


cdef void _dense(const number[:, ::1] X, double[::1] out):
    cdef Py_ssize_t i, j
    cdef double s
    with nogil:
        for i in range(X.shape[0]):
            s = 0.0
            for j in range(X.shape[1]):
                s += <double>X[i, j] * <double>X[i, j]
            out[i] = s


cdef void _csr(const number[::1] data, const int64_t[::1] indptr, double[::1] out):
    cdef Py_ssize_t i
    cdef int64_t e
    cdef double s
    with nogil:
        for i in range(out.shape[0]):
            s = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                s += <double>data[e] * <double>data[e]
            out[i] = s
