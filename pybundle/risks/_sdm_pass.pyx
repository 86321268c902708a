"""One pass of exact block steps, row after row, by one thread or by two.

Rows are scored in groups, see `_sdm_stepper`, and the moves of a group reach W together. The steps are those of one row
after the other.

With many labels W lags behind: a group t is scored at the W that lacks the moves of the group before, too,

    u_r = L(y_r, .) + W_{t-1} x_r + sum_e (change of W by x_e) <x_e, x_r>,     e the rows that moved in group t-1,

so that two threads can take every other group: each scores its own while the other decides about the one before, and
then waits for no more than the moves of four rows, a message. Each has a W of its own, to which it adds the moves of
all groups in their order: bits do not depend on who did what. The second thread joins when it comes, and is sent away
where it keeps the first one waiting.
"""

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from ..core._atomic cimport PB_PAUSES, pb_count, pb_load, pb_store, pb_wait
from ..features._rows cimport BLOCK, STEP, real
from ._engine cimport Engine
from ._sdm cimport Blocks
from ._sdm_stepper cimport Stepper

from ..features._rows import aligned

cdef enum:
    # groups whose messages are kept: nobody asks for an older one. As many again are for who goes on alone while the
    # other may not know yet
    SLOTS = 4
    # labels from which W lags: products of rows cost little beside their scores
    LAG_LABELS = 16
    # and entries of W, from which a group takes much longer than a message, up to which two W stay in the caches
    LEAST_SIZE = 16000
    MOST_SIZE = 1000000
    # products of a pass, and groups, for which a second thread is called: it comes after 0.1 ms
    LEAST_WORK = 20000000
    LEAST_GROUPS = 100
    # turns of waiting, some 10 microseconds, and entries of W for each that a group may take on top of them; then the
    # other thread has lost its processor. After so many long times it is sent away
    LONG = 500
    TURN = 40
    MOST_LONG = 4


cdef inline int slot_of(const Worker* me, int64_t t) noexcept nogil:
    # where the message of group t stands; t = -1 is what was before
    return <int>((t + SLOTS) % SLOTS + (SLOTS if t >= me.alone_from else 0))


cdef class Pass:
    """Exact block steps at the rows of `order`, one after the other; a row may come twice. To be run once.

    O(nnz(X) K) for the scores, and a row of W for every multiplier that changes.

    Parameters
    ----------
    blocks : Blocks
    order : array of intp
        Rows.

    Attributes
    ----------
    invited, dismissed : int
        Group at which a second thread came, counted from 1, and the one after which it was sent away; 0 for never.
    """

    def __cinit__(self, Blocks blocks, const Py_ssize_t[::1] order):
        cdef Engine e = blocks.e
        cdef Py_ssize_t n = order.shape[0], q, lowest = order[0] if n else 0, highest_row = lowest
        for q in range(n):
            lowest, highest_row = min(lowest, order[q]), max(highest_row, order[q])
        if lowest < 0 or highest_row >= e.n_examples:
            raise ValueError(f"order must hold rows 0..{e.n_examples - 1}, got {lowest}..{highest_row}")
        self.blocks, self.e, self.order, self.K = blocks, e, order, e.n_scores
        self.stepper = Stepper(blocks)
        self.step = self.stepper.size
        self.lag = (blocks.dense and self.K >= LAG_LABELS
                    and LEAST_SIZE <= <double>self.K * e.n_features <= MOST_SIZE)
        self.long_time = LONG + self.K * e.n_features // TURN
        self.n_groups = (n + self.step - 1) // self.step
        self._messages = aligned((2 * SLOTS, sizeof(Message)), np.uint8)
        self._coefs = aligned((2 * SLOTS, self.step, blocks.ldc), blocks.packed.dtype)
        self.messages = <Message*><size_t>self._messages.ctypes.data
        self.coefs, self.slot_size = <char*><size_t>self._coefs.ctypes.data, self._coefs.strides[0]
        self.bases = aligned((2 * SLOTS, (self.K + 7) // 8 * 8), np.float64)
        for k in range(self.K):         # before the first group
            self.bases[SLOTS - 1, k] = blocks.base[k]

    def run(self, map=None):
        """Takes the steps; the sum of the block gaps met. By the `map` of an executor a second thread may help.

        An interrupt ends the pass after some group, W and multipliers in accord.
        """
        if self.n_groups == 0:
            return 0.0
        cdef double work = <double>self.order.shape[0] * self.K * self.e.n_features
        if map is None or not self.lag or work < LEAST_WORK or self.n_groups < LEAST_GROUPS:
            self.work(0)
        else:
            try:
                list(map(self.work, range(2)))
            except BaseException as error:      # Ctrl-C while another thread leads
                self._end()
                self._failure = self._failure or error
        if self._failure is not None:
            raise self._failure
        return self._total

    def work(self, _unit):
        """The first thread that comes leads, the second assists."""
        cdef Worker me
        cdef size_t size
        before = pb_count(&self.arrived)
        if before > 1 or before == 1 and pb_load(&self.is_over):
            return
        me.is_assistant = before == 1
        try:
            packed = self.blocks.packed
            if me.is_assistant:
                packed = aligned((packed.shape[0], packed.shape[1]), packed.dtype)
            scores, scratch = aligned((self.K, BLOCK), packed.dtype), aligned((2 * self.K,), np.float64)
            coefs = aligned((2 * self.step, self.blocks.ldc), packed.dtype)
            me.W, me.scores = <void*><size_t>packed.ctypes.data, <void*><size_t>scores.ctypes.data
            me.scratch, me.coefs = <double*><size_t>scratch.ctypes.data, <char*><size_t>coefs.ctypes.data
            me.applied = me.waited = 0
            me.alone_from = self.n_groups + 2
            size = packed.nbytes
            with nogil:
                if me.is_assistant:
                    self._assist(&me, size)
                else:
                    self._lead(&me)
        except MemoryError:
            if not me.is_assistant:
                raise
        finally:
            if not me.is_assistant:
                pb_store(&self.is_over, 1)

    # ------------------------------------------------------------------ threads

    cdef void _end(self) noexcept:
        """Nobody steps any more afterwards."""
        cdef int64_t turn = 0
        pb_store(&self.wants_end, 1)
        if pb_count(&self.arrived) == 0:
            pb_store(&self.is_over, 1)
        with nogil:
            while not pb_load(&self.is_over):
                pb_wait(turn)
                turn += 1

    cdef void _lead(self, Worker* me) noexcept nogil:
        cdef int64_t t = 0, turn, next_look = self.blocks.patience
        cdef bint is_paired = False
        cdef int k, slot
        self.leader = me
        while t < self.n_groups and (is_paired or not pb_load(&self.wants_end)):
            if not is_paired and me.waited < MOST_LONG and pb_load(&self.is_ready):
                is_paired, turn = True, 0
                pb_store(&self.invited, t + 1)
                while not pb_load(&self.has_copied):
                    pb_wait(turn)
                    turn += 1
            elif is_paired and (me.waited >= MOST_LONG or pb_load(&self.wants_end)):
                is_paired, me.alone_from = False, t + 1
                pb_store(&self.dismissed, t + 1)
            self._step(me, t, is_paired)
            t += 2 if is_paired else 1
            if t * self.step >= next_look:
                next_look += self.blocks.patience
                self._look_for_signals()
        t = min(t, self.n_groups)
        self._apply(me, t)
        slot = slot_of(me, t - 1)
        self._total = self.messages[slot].total
        for k in range(self.K):
            self.blocks.base[k] = self.bases[slot, k]
        self.blocks.visits += min(t * self.step, self.order.shape[0])

    cdef void _assist(self, Worker* me, size_t size) noexcept nogil:
        cdef int64_t t, turn = 0, next_look
        pb_store(&self.is_ready, 1)
        while not pb_load(&self.invited):
            if pb_load(&self.is_over):
                return
            pb_wait(turn)
            turn += 1
        t = self.invited                # the leader takes the group before
        next_look = t * self.step + self.blocks.patience
        memcpy(me.W, self.leader.W, size)
        me.applied = self.leader.applied
        pb_store(&self.has_copied, 1)
        while t < self.n_groups and self._step(me, t, True):
            t += 2
            if t * self.step >= next_look:
                next_look += self.blocks.patience
                self._look_for_signals()
        self._look_for_signals()        # the leader may have far to go

    cdef void _look_for_signals(self) noexcept nogil:
        with gil:
            try:
                PyErr_CheckSignals()
            except BaseException as error:      # once both threads have stopped
                self._failure = error
                pb_store(&self.wants_end, 1)

    cdef bint _wait(self, Worker* me, int64_t t) noexcept nogil:
        """Until the moves of group t - 1 are known; False where this thread is not wanted for group t."""
        cdef int64_t turn = 0
        cdef Message* message = &self.messages[slot_of(me, t - 1)]
        while pb_load(&message.published) < t:
            if me.is_assistant and 0 < pb_load(&self.dismissed) <= t:
                return False
            pb_wait(turn - self.long_time + PB_PAUSES)      # gives the processor away after a long time only
            turn += 1
        if turn > self.long_time:
            me.waited += 1 + (turn - self.long_time) // 100
        return not (me.is_assistant and 0 < pb_load(&self.dismissed) <= t)

    # ------------------------------------------------------------------ steps

    cdef bint _step(self, Worker* me, int64_t t, bint is_paired) noexcept nogil:
        if self.blocks.is_single:
            return self._group(me, t, is_paired, self.blocks, self.e, <float*>me.scores)
        return self._group(me, t, is_paired, self.blocks, self.e, <double*>me.scores)

    cdef void _apply(self, Worker* me, int64_t until) noexcept nogil:
        """Adds the moves of groups before `until` to W."""
        cdef const Py_ssize_t* rows
        cdef int count, slot
        cdef int64_t t = me.applied, g
        cdef bint has_moves
        while t < until:
            g, has_moves = t, False
            while g < min(until, t + 2):            # two groups at a time: each row of W is read once for both
                self._wait(me, g + 1)
                slot = slot_of(me, g)
                has_moves |= self.messages[slot].moved != 0
                memcpy(me.coefs + (g - t) * self.slot_size, self.coefs + slot * self.slot_size, self.slot_size)
                g += 1
            if has_moves:
                rows = &self.order[t * self.step]
                count = <int>min((g - t) * self.step, self.order.shape[0] - t * self.step)
                self.stepper.update(&self.e.X, rows, count, me.coefs, self.blocks.ldc, self.K, me.W, self.blocks.ldw)
            t = g
        me.applied = t

    cdef bint _group(self, Worker* me, int64_t t, bint is_paired, Blocks b, Engine e, real* S) noexcept nogil:
        """Steps at the rows of group t, all before it being done or under way; whether they were wanted."""
        cdef int slot = slot_of(me, t), slot_before = slot_of(me, t - 1)
        cdef Message* message = &self.messages[slot]
        cdef const Message* before = &self.messages[slot_before]
        cdef real* coef = <real*>(self.coefs + slot * self.slot_size)
        cdef const real* earlier = <real*>(self.coefs + slot_before * self.slot_size)
        cdef const Py_ssize_t* rows = &self.order[t * self.step]
        cdef Py_ssize_t left = self.order.shape[0] - t * self.step
        cdef int K = self.K, ldc = b.ldc, count = <int>min(<Py_ssize_t>self.step, left), ahead, r, q, k
        cdef real products[2 * STEP * STEP]
        cdef real* known = NULL
        cdef double total
        cdef int64_t moved
        cdef bint has_products = False, lags = self.lag and t > 0
        cdef double* base = &self.bases[slot, 0]
        self._apply(me, t - self.lag)
        # in two threads the next group of this one comes after that of the other
        ahead = <int>min(<Py_ssize_t>(2 * STEP if is_paired else max(self.step, 2)), left - count)
        self.stepper.score(rows, count, ahead, me.W, S, b, e)
        if t > 0:
            has_products = self.lag and (pb_load(&before.published) < t or before.moved != 0)
            if has_products:
                self.stepper.products(&e.X, rows, count, products)
            if not self._wait(me, t):
                return False
        total = before.total
        memcpy(base, &self.bases[slot_before, 0], K * sizeof(double))
        if self.lag:
            for r in range(STEP):
                if before.moved >> r & 1:
                    for k in range(K):
                        if earlier[r * ldc + k] != 0:
                            for q in range(STEP):
                                S[k * BLOCK + q] += earlier[r * ldc + k] * products[r * STEP + q]
        if has_products:
            known = products
        moved = self.stepper.decide(rows, count, base, S, coef, known, lags, me.scratch, &total, b, e)
        message.total, message.moved = total, moved
        if not moved:
            memset(coef, 0, self.slot_size)
        pb_store(&message.published, t + 1)
        return True
