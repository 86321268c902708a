"""Exact passes over blocks in compiled code: batches of examples asked for at one point, then a step on each block."""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t, int64_t

import numpy as np

from pybundle.solvers.block._blocks cimport Blocks, fetch
from pybundle.core._plane_finder cimport FoundPlanes, PlaneFinder

cdef extern from "_clock.h" nogil:
    double pb_seconds()

cdef double BREATH = 0.05           # seconds between two looks for signals


cdef class OraclePass:
    """Passes over the examples of `owner`, whose planes `finder` knows.

    Parameters
    ----------
    owner : Blocks
    finder : PlaneFinder
        For `batch` examples.
    batch : int
        Examples asked for at one point.

    Attributes
    ----------
    most_bytes : float
        Of the blocks: a pass ends with the batch that makes them larger. Infinite to begin with.
    visits : int
        Examples so far, on whose blocks steps were taken.
    """

    cdef Blocks owner
    cdef PlaneFinder finder
    cdef Py_ssize_t batch
    cdef int32_t[::1] places            # of the new planes of the batch in their blocks
    cdef public double most_bytes
    cdef readonly Py_ssize_t visits

    def __init__(self, Blocks owner, PlaneFinder finder, Py_ssize_t batch):
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        self.owner, self.finder, self.batch, self.most_bytes = owner, finder, batch, INFINITY
        self.places = np.empty(batch, dtype=np.int32)

    def working_bytes(self):
        """What is needed beside the blocks."""
        return self.finder.working_bytes()

    def visit(self, const Py_ssize_t[::1] rows, bint towards=False):
        """Asks for each of `rows` and takes a step on its block, till memory is full; gives the sum of the gaps met.

        With `towards` the new plane is the target of the step. An interrupt ends the pass after a batch.
        """
        cdef Py_ssize_t first = 0, last, n = rows.shape[0]
        cdef double total = 0.0, looked = pb_seconds(), now
        self.owner._check_rows(rows)
        with nogil:
            while first < n and (first == 0 or self.owner.bytes <= self.most_bytes):
                last = min(first + self.batch, n)
                self._learn(&rows[first], last - first)
                total += self._climb(&rows[first], last - first, towards)
                first, now = last, pb_seconds()
                if fabs(now - looked) > BREATH:
                    looked = now
                    with gil:
                        PyErr_CheckSignals()
        return total

    cdef int _learn(self, const Py_ssize_t* rows, Py_ssize_t n) except -1 nogil:
        """Stores the most violated planes of n examples at the present point; multipliers stay."""
        cdef FoundPlanes found
        cdef Py_ssize_t j
        cdef int64_t start
        self.finder.place(self.owner.x)
        self.finder.find(rows, n, &found)
        for j in range(n):
            if j + 1 < n:
                fetch(&self.owner.blocks[rows[j + 1]])
            start = found.starts[j]
            self.places[j] = self.owner._add(&self.owner.blocks[rows[j]], found.losses[j], found.starts[j + 1] - start,
                                             found.indices + start, found.values + start)
        return 0

    cdef double _climb(self, const Py_ssize_t* rows, Py_ssize_t n, bint towards) noexcept nogil:
        """Steps on the blocks of these examples, one after another; the sum of the gaps met."""
        cdef Py_ssize_t j
        cdef int target = -1
        cdef double total = 0.0
        for j in range(n):
            if j + 1 < n:
                fetch(&self.owner.blocks[rows[j + 1]])
            if towards:
                target = self.places[j]
            total += self.owner._step(&self.owner.blocks[rows[j]], target, False)
            self.owner._count(0)
            self.visits += 1
        return total
