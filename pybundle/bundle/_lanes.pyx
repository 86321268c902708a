"""Sweeps over stored planes in two lanes, see `_lane_rounds`.

The gains in D of a lane, with s and B as in `BlockSteps` and B_k its offset, are `B_k - B - s/2 (|x_k|^2 - |x|^2)`.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

import numpy as np

from pybundle.bundle._block_steps cimport BlockSteps
from pybundle.bundle._block_storage cimport Block
from pybundle.bundle._blocks cimport Blocks, fetch
from pybundle.core._atomic cimport pb_load
from pybundle.core._lane_rounds cimport LaneRounds

cdef extern from "_join.h" nogil:
    void pb_join_double(Py_ssize_t n, double* x, const double* a, const double* b, double* out)

cdef int MOST = 32                  # steps of a lane in a round
cdef double LOW = 0.75, HIGH = 0.9  # shares of the gains of both lanes that they keep together
cdef int ROUNDS = 4                 # of MOST steps: a sweep over fewer rows is taken in one lane, whoever is there
cdef double WORTH = 2.0             # entries that MOST steps read, over dim, from which sums of points are cheap


cdef class Lane(BlockSteps):
    """A point that takes steps on blocks of another object, and the multipliers before them."""

    cdef double total               # sum of the gaps met
    cdef object _before
    cdef double* before

    cdef int enter(self, Blocks owner) except -1:
        """Becomes ready for rounds of a sweep over the blocks of `owner`."""
        cdef double[::1] view
        self._widen(owner.u_room)
        if self._before is None or len(self._before) < MOST * owner.u_room:
            self._before = np.empty(MOST * owner.u_room)
        view = self._before
        self.before = &view[0]
        self.step, self.max_steps = owner.step, owner.max_steps
        self.scale, self.tick, self.total = owner.scale, owner.tick, 0.0
        return 0

    cdef void follow(self, Blocks owner) noexcept nogil:
        """Takes over the point of `owner`, by who runs the round: it is in the cache of this processor then."""
        memcpy(self.x, owner.x, self.dim * sizeof(double))
        self.offset = owner.offset

    cdef void hand_over(self, Blocks owner) noexcept nogil:
        """The point of `owner` is that of this lane."""
        memcpy(owner.x, self.x, self.dim * sizeof(double))
        owner.offset = self.offset

    cdef int run(self, Blocks owner, const Py_ssize_t* rows, Py_ssize_t n, bint used_only,
                 const int64_t* over) except -1 nogil:
        """Steps on the blocks of this round, unless told to stop."""
        cdef Py_ssize_t j
        cdef double* before = self.before
        cdef bint is_kept = n <= MOST
        cdef Block* b
        for j in range(n):
            if pb_load(over):
                return 0
            if j + 1 < n:
                fetch(&owner.blocks[rows[j + 1]])
            b = &owner.blocks[rows[j]]
            if is_kept:
                memcpy(before, b.alpha, b.n * sizeof(double))
                before += b.n
            if b.n > 1:
                self.total += self._step(b, -1, used_only)
            self._breathe()
        return 0

    cdef void undo(self, Blocks owner, const Py_ssize_t* rows, Py_ssize_t n) noexcept nogil:
        """Multipliers as before this round."""
        cdef Py_ssize_t j
        cdef const double* before = self.before
        cdef Block* b
        cdef int q
        for j in range(n):
            b = &owner.blocks[rows[j]]
            memcpy(b.alpha, before, b.n * sizeof(double))
            before += b.n
            b.n_used = 0
            for q in range(b.n):
                b.n_used += b.alpha[q] > 0.0


cdef class Lanes(LaneRounds):
    """Sweeps over the blocks of `owner`.

    Parameters
    ----------
    owner : Blocks
    steps : int
        As in `LaneRounds`.
    is_wary : bool
        Helpers are asked where they made sweeps faster, not always.
    """

    cdef Blocks owner
    cdef Lane first, second
    cdef bint used_only

    def __init__(self, Blocks owner, int steps=MOST, *, bint is_wary=True):
        LaneRounds.__init__(self, steps, MOST, LOW, HIGH, owner.n_blocks)
        self.owner = owner

    def sweep(self, const Py_ssize_t[::1] rows, bint used_only=False, run=map):
        """As `sweep` of `Blocks`, no row twice, by the threads that `run(function, items)` has."""
        cdef Blocks owner = self.owner
        owner._check_rows(rows)
        if self._rests() or not self._pays(rows, used_only):
            return owner.sweep(rows, used_only)
        if self.first is None:
            self.first, self.second = Lane(0, owner.dim), Lane(0, owner.dim)
        self.first.enter(owner)
        self.second.enter(owner)
        self.used_only = used_only
        self._sweep(rows, run, used_only)
        return self.first.total + self.second.total

    cdef bint _pays(self, const Py_ssize_t[::1] rows, bint used_only):
        """Whether a round reads so much that sums of points do not count."""
        cdef Blocks owner = self.owner
        cdef Py_ssize_t j
        cdef int q
        cdef double entries = 0.0
        cdef Block* b
        if (rows.shape[0] < 2 * ROUNDS * MOST or owner.metric != NULL or owner.is_kept != NULL
                or owner.averages[0].drift != NULL):
            return False
        for j in range(MOST):
            b = &owner.blocks[rows[j]]
            for q in range(b.n):
                if b.alpha[q] > 0.0 or not used_only:
                    entries += b.planes[q].slope.n
        return entries >= WORTH * owner.dim

    cdef void _follow(self, int k) noexcept nogil:
        if k == 0:
            self.first.follow(self.owner)
        else:
            self.second.follow(self.owner)

    cdef int _step(self, int k, const Py_ssize_t* rows, Py_ssize_t n) except -1 nogil:
        if k == 0:
            return self.first.run(self.owner, rows, n, self.used_only, &self.over)
        return self.second.run(self.owner, rows, n, self.used_only, &self.over)

    cdef void _join(self, double* gains) noexcept nogil:
        cdef double offset = self.owner.offset, first = self.first.offset - offset
        cdef double second = self.second.offset - offset, scale = self.owner.scale
        cdef double[3] squares
        pb_join_double(self.owner.dim, self.owner.x, self.first.x, self.second.x, squares)
        self.owner.offset += first + second
        gains[0] = first - 0.5 * scale * squares[0]
        gains[1] = second - 0.5 * scale * squares[1]
        gains[2] = gains[0] + gains[1] - scale * squares[2]

    cdef void _undo(self, const Py_ssize_t* rows, Py_ssize_t n) noexcept nogil:
        self.second.undo(self.owner, rows, n)
        self.first.hand_over(self.owner)

    cdef _end(self):
        self.owner.settle(self.first)
        self.owner.settle(self.second)
        LaneRounds._end(self)

    cdef double _done(self):
        return self.owner.work
