"""Exact passes over blocks in compiled code: batches of examples asked for at one point, then a step on each block.

A batch is a round of two halves, which two threads may share: each finds the planes of its examples and stores them in
their blocks. Who is done last takes the steps, one after another, at a point that moves with each.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t

import numpy as np

from pybundle.bundle._block_storage cimport Block
from pybundle.bundle._blocks cimport Blocks, fetch
from pybundle.core._plane_finder cimport FoundPlanes, PlaneFinder
from pybundle.core._rounds cimport Rounds

cdef Py_ssize_t TRIAL = 8       # batches that one thread takes first, to tell what a second one is worth
cdef double SHORT = 1e-3        # seconds of a pass for which a second one is not called


cdef class OraclePass(Rounds):
    """Passes over the examples of `owner`, whose planes `finder` knows.

    Parameters
    ----------
    owner : Blocks
    finder : PlaneFinder
        For halves of `batch` examples.
    batch : int
        Examples asked for at one point.
    sizes : int64 array, shape (n_blocks,)
        Work of each example, by which batches are halved.
    is_wary : bool
        Helpers are asked where they made passes faster, not always.

    Attributes
    ----------
    most_bytes : float
        Of the blocks: a pass ends with the batch that makes them larger. Infinite to begin with.
    visits : int
        Examples so far, on whose blocks steps were taken.
    """

    cdef Blocks owner, hand             # they learn the planes of the first half and of the second
    cdef PlaneFinder finder
    cdef const int64_t[::1] sizes
    cdef const Py_ssize_t* rows
    cdef Py_ssize_t n_rows, batch, begin, middle, end
    cdef bint towards
    cdef int32_t[::1] places            # of the new planes of the batch in their blocks
    cdef double total
    cdef public double most_bytes
    cdef readonly Py_ssize_t visits

    def __init__(self, Blocks owner, PlaneFinder finder, Py_ssize_t batch, sizes, *, bint is_wary=True):
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        self.owner, self.finder, self.batch = owner, finder, batch
        self.hand, self.most_bytes = Blocks(0, owner.dim), INFINITY
        self.sizes = sizes
        if self.sizes.shape[0] != owner.n_blocks:
            raise ValueError(f"sizes must have {owner.n_blocks} entries, got {self.sizes.shape[0]}")
        self.places = np.empty(batch, dtype=np.int32)

    def working_bytes(self):
        """What is needed beside the blocks."""
        return 8 * 2 * self.owner.dim + self.finder.working_bytes()

    def visit(self, const Py_ssize_t[::1] rows, bint towards=False, run=map):
        """Asks for each of `rows` and takes a step on its block, till memory is full; gives the sum of the gaps met.

        With `towards` the new plane is the target of the step. By the threads that `run(function, items)` has, unless
        a row comes twice.
        """
        cdef Blocks owner = self.owner, hand = self.hand
        owner._check_rows(rows)
        if rows.shape[0] == 0:
            return 0.0
        hand.cap, hand.tick, hand.metric = owner.cap, owner.tick, owner.metric
        self.rows, self.n_rows, self.towards = &rows[0], rows.shape[0], towards
        self.begin = self.end = 0
        self.total = 0.0
        if self.batch == 1 or run is not map and np.bincount(rows).max() > 1:
            run = map                   # there is nothing to halve, or threads would meet at the block of an example
        elif self.is_wary and self.alone == 0:
            self.pace[0] = 0.0          # unknown: steps take longer the more planes there are
            self.n_rows = min(TRIAL * self.batch, rows.shape[0])
        while self._open():
            self._share(run, 0)
            self.n_rows = rows.shape[0]
            if self.is_wary and self.pace[0] * (self.n_rows - self.end) < SHORT:
                run = map
        return self.total

    cdef int _open(self) except -1 nogil:
        """The next batch, and where its halves part; 0 where there is none, or no room."""
        cdef int64_t size = 0, half = 0
        cdef Py_ssize_t j
        if self.end == self.n_rows or self.end and self.owner.bytes + self.hand.bytes > self.most_bytes:
            return 0
        self.begin, self.end = self.end, min(self.end + self.batch, self.n_rows)
        for j in range(self.begin, self.end):
            size += self.sizes[self.rows[j]]
        self.middle = self.begin
        while self.middle < self.end and 2 * half < size:
            half += self.sizes[self.rows[self.middle]]
            self.middle += 1
        self.finder.place(self.owner.x)
        return 1

    cdef int _half(self, int k) except -1 nogil:
        cdef FoundPlanes found
        cdef Py_ssize_t first = self.middle if k else self.begin, last = self.end if k else self.middle, j, i, n
        cdef int64_t start
        cdef int32_t* place
        if first == last:
            return 0
        place = &self.places[first - self.begin]
        self.finder.find(k, self.rows + first, last - first, &found)
        for j in range(last - first):
            if j + 1 < last - first:
                fetch(&self.owner.blocks[self.rows[first + j + 1]])
            i, start = self.rows[first + j], found.starts[j]
            n = found.starts[j + 1] - start
            if k == 0:
                place[j] = self.owner._add(&self.owner.blocks[i], found.losses[j], n, found.indices + start,
                                           found.values + start)
            else:
                place[j] = self.hand._add(&self.owner.blocks[i], found.losses[j], n, found.indices + start,
                                          found.values + start)
        return 0

    cdef int _close(self) except -1 nogil:
        cdef Py_ssize_t j
        cdef int target = -1
        cdef double total = 0.0
        cdef Block* b
        self.owner._widen(self.hand.u_room)
        for j in range(self.begin, self.end):
            if j + 1 < self.end:        # the other thread may have it
                fetch(&self.owner.blocks[self.rows[j + 1]])
            b = &self.owner.blocks[self.rows[j]]
            if self.towards:
                target = self.places[j - self.begin]
            total += self.owner._step(b, target, False)
            self.owner._count(0)
            self.visits += 1
        self.total += total
        return self._open()

    cdef _end(self):
        self.owner.settle(self.hand)

    cdef double _done(self):
        return self.visits
