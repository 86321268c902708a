"""Most violated planes of chains, for passes in compiled code."""

from libc.stdint cimport int32_t, int64_t

import numpy as np

from ..features._plane_rows cimport PlaneRows
from ..features._rows cimport Weights
from ..oracles._chain cimport ChainTables
from ._chain cimport ChainData, ChainPoint
from ._labelling_finder cimport LabellingFinder

NARROW = 2      # as in `LazyWeights`: batches of few CSR rows read W as it stands


cdef class ChainFinder(LabellingFinder):
    """Decoder of the chains of `data` with margin rescaling, and of what they have wrong.

    Parameters
    ----------
    data : ChainData
    dim : int
    sizes : array, shape (n,)
        Lengths of the chains.
    batch : int
        Most examples asked for at once.
    """

    cdef ChainData data
    cdef ChainTables tables
    cdef Weights packed         # None where W is read as it stands
    cdef ChainPoint at
    cdef const double[::1] nothing

    def __init__(self, ChainData data, Py_ssize_t dim, sizes, Py_ssize_t batch):
        K, tokens = data.costs.shape[0], data.tokens
        LabellingFinder.__init__(self, data.offsets, dim, batch, tokens.width)
        self.data, self.nothing = data, np.zeros(K)
        self.tables = ChainTables(np.zeros((K, K)), np.zeros(K), np.zeros(K))
        is_narrow = len(tokens.storage) == 3 and (
            NARROW * batch * sizes.mean() * int(tokens.storage[2][tokens.n_rows]) < tokens.n_rows * tokens.n_features)
        self.packed = None if is_narrow else tokens.pack(np.zeros((K, tokens.width)))

    def working_bytes(self):
        return LabellingFinder.working_bytes(self) + (0 if self.packed is None else self.packed.nbytes)

    cdef int place(self, const double* w) except -1 nogil:
        cdef Py_ssize_t K = self.nothing.shape[0]
        self.at.W, self.at.transition = w, w + K * self.data.tokens.width
        self.at.start = self.at.transition + K * K if self.data.has_start else &self.nothing[0]
        self.at.end = self.at.transition + K * K + K * self.data.has_start if self.data.has_end else &self.nothing[0]
        self.tables.place(self.at.transition, self.at.start, self.at.end)
        if self.packed is not None:
            self.data.tokens.refresh(self.packed, w)
        return 0

    cdef int decode(self, Py_ssize_t n, const Py_ssize_t* rows, const int64_t* offsets, int32_t* labels,
                    double* values) except -1 nogil:
        return self.data.decode(n, rows, self.packed, self.tables, &self.at, True, offsets, labels, values)

    cdef int write(self, Py_ssize_t n, const Py_ssize_t* rows, const int64_t* offsets, const int32_t* labels,
                   PlaneRows out, double* losses) except -1 nogil:
        return self.data.write(n, rows, labels, offsets, out, losses)
