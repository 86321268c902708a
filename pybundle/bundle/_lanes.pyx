"""Sweeps over blocks in two lanes, which two threads may share.

A sweep is cut into rounds. In each, two lanes start from the same point x and take steps on S blocks of their own, one
after another, each at a point x_k and an offset B_k of its own; then both go on from x + (x_0 - x) + (x_1 - x), as in
CoCoA+ [Ma et al. 2015].

The gains in D of a lane and of both are, with s as in `Blocks`,

    g_k = B_k - B - s/2 (|x_k|^2 - |x|^2),   g = g_0 + g_1 - s <x_0 - x, x_1 - x>

Lanes that go the same way, on examples that are alike, go too far together. Where g < g_0 the second one takes its
multipliers back, so that every round gains what the first one does; and S follows g / (g_0 + g_1).
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

import numpy as np

from pybundle.bundle._block_storage cimport Block
from pybundle.bundle._blocks cimport Blocks, fetch
from pybundle.core._atomic cimport pb_load
from pybundle.core._rounds cimport Rounds

cdef extern from "_lanes.h" nogil:
    void pb_join(Py_ssize_t n, double* x, const double* a, const double* b, double* out)

cdef int MOST = 32, LEAST = 8       # steps of a lane in a round
cdef int EVERY = 4                  # rounds after which S is chosen anew: a single one says little
cdef double LOW = 0.75, HIGH = 0.9  # g / (g_0 + g_1) in them from which S is halved or doubled
cdef int REST = 8                   # sweeps in one lane after two lanes of LEAST steps went too far together
cdef int ROUNDS = 4                 # of MOST steps: a sweep over fewer rows is taken in one lane, whoever is there
cdef double WORTH = 2.0             # entries that MOST steps read, over dim, from which sums of points are cheap


cdef class Lane(Blocks):
    """A point that takes steps on blocks of another object, and the multipliers before them."""

    cdef Py_ssize_t begin, end      # its rows of this round
    cdef bint is_behind             # the point has moved on since its last round
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
        self.offset, self.is_behind = owner.offset, False

    cdef void hand_over(self, Blocks owner) noexcept nogil:
        """The point of `owner` is that of this lane."""
        memcpy(owner.x, self.x, self.dim * sizeof(double))
        owner.offset = self.offset

    cdef int run(self, Blocks owner, const Py_ssize_t* rows, bint used_only, const int64_t* over) except -1 nogil:
        """Steps on the blocks of this round, unless told to stop."""
        cdef Py_ssize_t j
        cdef double* before = self.before
        cdef bint is_kept = self.end - self.begin <= MOST
        cdef Block* b
        self.follow(owner)
        for j in range(self.begin, self.end):
            if pb_load(over):
                return 0
            if j + 1 < self.end:
                fetch(&owner.blocks[rows[j + 1]])
            b = &owner.blocks[rows[j]]
            if is_kept:
                memcpy(before, b.alpha, b.n * sizeof(double))
                before += b.n
            if b.n > 1:
                self.total += self._step(b, -1, used_only)
            self._breathe()
        return 0

    cdef void undo(self, Blocks owner, const Py_ssize_t* rows) noexcept nogil:
        """Multipliers as before this round."""
        cdef Py_ssize_t j
        cdef const double* before = self.before
        cdef Block* b
        cdef int q
        for j in range(self.begin, self.end):
            b = &owner.blocks[rows[j]]
            memcpy(b.alpha, before, b.n * sizeof(double))
            before += b.n
            b.n_used = 0
            for q in range(b.n):
                b.n_used += b.alpha[q] > 0.0


cdef class Lanes(Rounds):
    """Sweeps over the blocks of `owner`.

    Parameters
    ----------
    owner : Blocks
    steps : int
        As the attribute.
    is_wary : bool
        Helpers are asked where they made sweeps faster, not always.

    Attributes
    ----------
    steps : int
        S of the next round; below 0 so many sweeps are still to be taken in one lane. All that one sweep leaves to the
        next, beside the blocks.
    """

    cdef Blocks owner
    cdef Lane first, second
    cdef public int steps
    cdef const Py_ssize_t* rows
    cdef Py_ssize_t n_rows, at      # at: where the next round begins
    cdef bint used_only
    cdef double gain, gains         # of the last rounds: g, and g_0 + g_1
    cdef int rounds

    def __init__(self, Blocks owner, int steps=MOST, *, bint is_wary=True):
        self.owner, self.steps = owner, max(-REST, min(steps, MOST)) or LEAST

    def sweep(self, const Py_ssize_t[::1] rows, bint used_only=False, run=map):
        """As `sweep` of `Blocks`, no row twice, by the threads that `run(function, items)` has."""
        cdef Blocks owner = self.owner
        owner._check_rows(rows)
        if self.steps < 0:
            self.steps += 1
            if self.steps == 0:
                self.steps = LEAST
            return owner.sweep(rows, used_only)
        if not self._pays(rows, used_only):
            return owner.sweep(rows, used_only)
        if self.first is None:
            self.first, self.second = Lane(0, owner.dim), Lane(0, owner.dim)
        self.first.enter(owner)
        self.second.enter(owner)
        self.rows, self.n_rows, self.used_only = &rows[0], rows.shape[0], used_only
        self.at, self.gain, self.gains, self.rounds = 0, 0.0, 0.0, 0
        self._open()
        self._share(run, used_only)
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

    cdef int _half(self, int k) except -1 nogil:
        if k == 0:
            return self.first.run(self.owner, self.rows, self.used_only, &self.over)
        return self.second.run(self.owner, self.rows, self.used_only, &self.over)

    cdef int _close(self) except -1 nogil:
        self._judge()
        self._open()
        return self.first.begin < self.first.end

    cdef void _open(self) noexcept nogil:
        """Gives out the rows of a round: all that are left to one lane where two go too far."""
        cdef Py_ssize_t left = self.n_rows - self.at, size = left
        if self.steps > 0:
            size = min(self.steps, (left + 1) // 2)
        self.first.begin, self.first.end = self.at, self.at + size
        self.second.begin, self.second.end = self.first.end, min(self.first.end + size, self.n_rows)
        self.at = self.second.end
        self.first.is_behind = self.second.is_behind = True

    cdef void _judge(self) noexcept nogil:
        """What both lanes gained together says whether the round counts, and how long the next ones are."""
        cdef double gain, further, both, offset = self.owner.offset, scale = self.owner.scale
        cdef double[3] squares
        self._join(squares)
        if self.second.begin == self.second.end:
            return
        gain = self.first.offset - offset - 0.5 * scale * squares[0]
        further = self.second.offset - offset - 0.5 * scale * squares[1]
        both = gain + further - scale * squares[2]
        if both < gain:
            self.second.undo(self.owner, self.rows)
            self.first.hand_over(self.owner)
        self.gain += both
        self.gains += gain + further
        self.rounds += 1
        if self.rounds == EVERY:
            if self.gain < LOW * self.gains:
                self.steps = self.steps // 2 if self.steps >= 2 * LEAST else -REST
            elif self.gain > HIGH * self.gains:
                self.steps = min(2 * self.steps, MOST)
            self.gain = self.gains = self.rounds = 0

    cdef void _join(self, double* squares) noexcept nogil:
        """The point of all multipliers."""
        cdef double offset = self.owner.offset
        pb_join(self.owner.dim, self.owner.x, self.first.x, self.second.x, squares)
        self.owner.offset += (self.first.offset - offset) + (self.second.offset - offset)

    cdef _end(self):
        cdef double[3] squares
        cdef Lane lane
        for lane in (self.first, self.second):      # a round was interrupted, or all are over
            if lane.is_behind:
                lane.follow(self.owner)
            self.owner.settle(lane)
        self._join(squares)

    cdef double _done(self):
        return self.owner.work
