"""Most violated planes of chains, for passes in compiled code."""

from libc.stdint cimport int32_t, int64_t

import numpy as np

from ..core._plane_finder cimport FoundPlanes, PlaneFinder
from ..features._plane_rows cimport PlaneRows
from ..features._rows cimport Weights
from ..oracles._chain cimport ChainTables
from ._chain cimport ChainData, ChainPoint

NARROW = 2      # as in `LazyWeights`: batches of few CSR rows read W as it stands


cdef class ChainFinder(PlaneFinder):
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
    cdef PlaneRows first, second
    cdef int32_t[:, ::1] labels             # of each half, like all that follows
    cdef int64_t[:, ::1] offsets
    cdef double[:, ::1] values, losses

    def __init__(self, ChainData data, Py_ssize_t dim, sizes, Py_ssize_t batch):
        K, tokens = data.costs.shape[0], data.tokens
        self.data, self.nothing = data, np.zeros(K)
        self.tables = ChainTables(np.zeros((K, K)), np.zeros(K), np.zeros(K))
        is_narrow = len(tokens.storage) == 3 and (
            NARROW * batch * sizes.mean() * int(tokens.storage[2][-1]) < tokens.n_rows * tokens.n_features)
        self.packed = None if is_narrow else tokens.pack(np.zeros((K, tokens.width)))
        self.first, self.second = PlaneRows(dim, batch, tokens.width), PlaneRows(dim, batch, tokens.width)
        self.labels = np.empty((2, min(batch * int(sizes.max(initial=0)), int(sizes.sum())) + 1), dtype=np.int32)
        self.offsets = np.zeros((2, batch + 1), dtype=np.int64)
        self.values, self.losses = np.empty((2, batch)), np.empty((2, batch))

    cdef int place(self, const double* w) except -1 nogil:
        cdef Py_ssize_t K = self.nothing.shape[0]
        self.at.W, self.at.transition = w, w + K * self.data.tokens.width
        self.at.start = self.at.transition + K * K if self.data.has_start else &self.nothing[0]
        self.at.end = self.at.transition + K * K + K * self.data.has_start if self.data.has_end else &self.nothing[0]
        self.tables.place(self.at.transition, self.at.start, self.at.end)
        if self.packed is not None:
            self.data.tokens.refresh(self.packed, w)
        return 0

    cdef int find(self, int k, const Py_ssize_t* rows, Py_ssize_t n, FoundPlanes* found) except -1 nogil:
        cdef int64_t* offsets = &self.offsets[k, 0]
        cdef Py_ssize_t j
        for j in range(n):
            offsets[j + 1] = offsets[j] + self.data.offsets[rows[j] + 1] - self.data.offsets[rows[j]]
        self.data.decode(n, rows, self.packed, self.tables, &self.at, True, offsets, &self.labels[k, 0],
                         &self.values[k, 0])
        found.losses, found.starts = &self.losses[k, 0], NULL
        if k == 0:
            return self._write(self.first, n, rows, offsets, &self.labels[k, 0], found)
        return self._write(self.second, n, rows, offsets, &self.labels[k, 0], found)

    cdef int _write(self, PlaneRows out, Py_ssize_t n, const Py_ssize_t* rows, const int64_t* offsets,
                    const int32_t* labels, FoundPlanes* found) except -1 nogil:
        out.clear()
        self.data.write(n, rows, labels, offsets, out, found.losses)
        found.starts, found.indices, found.values = &out.indptr[0], out.indices, out.data
        return 0
