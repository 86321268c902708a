"""Ascent steps on the blocks of a concave D in two lanes, which two threads may share.

A sweep is cut into rounds. In each, two lanes start from the same point x and take steps on S blocks of their own, one
after another, each at a point x_k of its own; then both go on from x + (x_0 - x) + (x_1 - x), as in CoCoA+ [Ma et al.
2015]. With g_k what lane k gained and s the curvature of D, both gain

    g = g_0 + g_1 - s <x_0 - x, x_1 - x>

Lanes that go the same way, on examples that are alike, go too far together. Where g < g_0 the second one takes its
multipliers back, so that every round gains what the first one does; and S follows g / (g_0 + g_1). What an interrupted
round has done is summed as it is.
"""

cdef int LEAST = 8                  # steps of a lane in a round
cdef int EVERY = 4                  # rounds after which S is chosen anew: a single one says little
cdef int REST = 8                   # sweeps in one lane after two lanes of LEAST steps went too far together


cdef class LaneRounds(Rounds):
    """The base of sweeps in two lanes.

    Parameters
    ----------
    steps : int
        As the attribute.
    most : int
        Steps of a lane in a round.
    low, high : float
        `g / (g_0 + g_1)` below which S is halved, and above which it is doubled.
    trial : int
        Rows of the first sweep of a kind that one thread takes, to tell what a second one is worth.

    Attributes
    ----------
    steps : int
        S of the next round; below 0 so many sweeps are still to be taken in one lane. All that one sweep leaves to the
        next, beside the blocks.
    """

    def __init__(self, int steps, int most, double low, double high, Py_ssize_t trial):
        self.trial = trial
        self.steps, self.most, self.low, self.high = max(-REST, min(steps, most)) or LEAST, most, low, high

    cdef bint _rests(self):
        if self.steps > 0:
            return False
        self.steps += 1
        if self.steps == 0:
            self.steps = LEAST
        return True

    cdef _sweep(self, const Py_ssize_t[::1] rows, run, int kind):
        cdef Py_ssize_t before
        self.rows, self.n_rows = &rows[0], rows.shape[0]
        self.at, self.gain, self.gains, self.rounds = 0, 0.0, 0.0, 0
        self.steps = min(self.steps, self.most)
        self.pause_at = self.n_rows if self.pace[kind] > 0.0 else self.trial
        self._open()
        while self.lanes[0].begin < self.lanes[0].end:
            before = self.lanes[0].begin
            self._share(run, kind)
            self.pause_at = self.n_rows
            if self.lanes[0].begin == before:       # an executor that called nothing
                run = map

    cdef int _half(self, int k) except -1 nogil:
        cdef Span* lane = &self.lanes[k]
        self._follow(k)         # by who takes the steps: the point is in the cache of this processor then
        lane.is_behind = False
        return self._step(k, self.rows + lane.begin, lane.end - lane.begin)

    cdef int _close(self) except -1 nogil:
        self._judge()
        self._open()
        return self.lanes[0].begin < min(self.pause_at, self.n_rows)

    cdef void _open(self) noexcept nogil:
        """Gives out the rows of a round: all that are left to one lane where two go too far."""
        cdef Py_ssize_t left = self.n_rows - self.at, size = left, middle
        if self.steps > 0:
            size = min(self.steps, (left + 1) // 2)
        middle = self.at + size
        self.lanes[0] = Span(self.at, middle, True)
        self.at = min(middle + size, self.n_rows)
        self.lanes[1] = Span(middle, self.at, True)

    cdef void _judge(self) noexcept nogil:
        """What both lanes gained together says whether the round counts, and how long the next ones are."""
        cdef double[3] gains
        cdef Span* second = &self.lanes[1]
        self._join(gains)
        if second.begin == second.end:
            return
        if gains[2] < gains[0]:
            self._undo(self.rows + second.begin, second.end - second.begin)
        self.gain += gains[2]
        self.gains += gains[0] + gains[1]
        self.rounds += 1
        if self.rounds == EVERY:
            if self.gain < self.low * self.gains:
                self.steps = self.steps // 2 if self.steps >= 2 * LEAST else -REST
            elif self.gain > self.high * self.gains:
                self.steps = min(2 * self.steps, self.most)
            self.gain = self.gains = self.rounds = 0

    cdef _end(self):
        cdef double[3] gains
        cdef int k
        for k in range(2):      # a round was interrupted, or all are over
            if self.lanes[k].is_behind:
                self._follow(k)
        self._join(gains)

    cdef void _follow(self, int k) noexcept nogil:
        with gil:
            raise NotImplementedError

    cdef int _step(self, int k, const Py_ssize_t* rows, Py_ssize_t n) except -1 nogil:
        with gil:
            raise NotImplementedError

    cdef void _join(self, double* gains) noexcept nogil:
        with gil:
            raise NotImplementedError

    cdef void _undo(self, const Py_ssize_t* rows, Py_ssize_t n) noexcept nogil:
        with gil:
            raise NotImplementedError
