"""Compiled max-oracle of linear hinge risks, for passes without Python calls."""

import numpy as np

from libc.math cimport isfinite
from libc.stdint cimport int32_t

from ..core.exceptions import NumericalError
from ..features.weights import is_narrow

from ..features._compiled_oracle cimport CompiledOracle
from ..features._rows cimport BLOCK, PackedWeights
from ._engine cimport HINGE, Engine


cdef class CompiledLinear(CompiledOracle):
    """Find the labels of largest loss plus score in float64, and their planes times the weights of the examples.

    Parameters
    ----------
    engine : Engine
        Its loss must be a hinge loss.
    dim : int
    batch : int
        Largest number of examples in one call.
    """

    cdef Engine engine
    cdef PackedWeights packed         # None if W is read without packing
    cdef double[::1] scores, scratch

    def __init__(self, Engine engine, Py_ssize_t dim, Py_ssize_t batch):
        CompiledOracle.__init__(self, dim, batch, engine.width)
        self.engine = engine
        self.packed = None if is_narrow(engine, batch) else engine.pack(np.zeros(dim))
        self.scores = np.empty(batch * engine.n_scores)
        self.scratch = np.empty(BLOCK * engine.n_scores)

    def working_bytes(self):
        return (CompiledOracle.working_bytes(self) + np.asarray(self.scores).nbytes
                + (0 if self.packed is None else self.packed.nbytes))

    cdef int place(self, const double* w) except -1 nogil:
        CompiledOracle.place(self, w)
        if self.packed is not None:
            self.engine.refresh(self.packed, w)
        return 0

    cdef int fill(self, const Py_ssize_t* rows, Py_ssize_t n) except -1 nogil:
        cdef Py_ssize_t j, i, K = self.engine.n_scores
        cdef Py_ssize_t[2] row
        cdef int32_t[2] label
        cdef double[2] coef
        cdef double c
        cdef int y, best
        cdef const double* scores = &self.scores[0]
        cdef double* losses = &self.losses[0]
        self.engine.score_all(self.packed, self.w, rows, n, &self.scratch[0], &self.scores[0])
        for j in range(n):
            i = rows[j]
            row[0] = row[1] = i
            if not self._is_finite(scores + j * K):
                with gil:
                    raise NumericalError(f"example {i} has scores beyond the range of float64; rescale the features")
            c, y = self.engine.c[i], self.engine.y[i]
            if self.engine.loss == HINGE:
                label[0], coef[0], losses[j] = 0, -c * y, c
                if not y * scores[j] < 1.0:
                    losses[j] = coef[0] = 0.0
                self.engine.put(self.planes, 0, 1, row, label, coef)
            else:
                best = self._best(y, scores + j * K)
                label[0], label[1], coef[0], coef[1] = best, y, c, -c
                if best == y:
                    coef[0] = coef[1] = 0.0
                losses[j] = c * self._loss(y, best)
                self.engine.put(self.planes, 0, 2, row, label, coef)
            self.planes.close()
        return 0

    cdef bint _is_finite(self, const double* scores) noexcept nogil:
        cdef int k
        for k in range(self.engine.n_scores):
            if not isfinite(scores[k]):
                return False
        return True

    cdef double _loss(self, int y, int k) noexcept nogil:
        return self.engine.cost[y, k] if self.engine.has_cost else y != k

    cdef int _best(self, int y, const double* scores) noexcept nogil:
        """Return the first class of largest loss plus score."""
        cdef int k, best = 0
        cdef double u, most = 0.0
        for k in range(self.engine.n_scores):
            u = scores[k] + self._loss(y, k) - scores[y]
            if k == 0 or u > most:
                best, most = k, u
        return best
