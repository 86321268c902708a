"""Exact block steps of dense rows in two lanes, see `_lane_rounds`: each has a W of its own."""

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from ..core._atomic cimport pb_load
from ..core._lane_rounds cimport LaneRounds
from ..features._rows cimport BLOCK, real
from ._engine cimport Engine
from ._sdm cimport Blocks
from ._sdm_stepper cimport Stepper

from ..features._rows import aligned

cdef extern from "_join.h" nogil:
    void pb_join_float(Py_ssize_t n, float* x, const float* a, const float* b, double* out)
    void pb_join_double(Py_ssize_t n, double* x, const double* a, const double* b, double* out)

cdef int MOST = 64                  # steps of a lane in a round
cdef double LOW = 0.5, HIGH = 0.75  # shares of the gains of both lanes that they keep together
cdef Py_ssize_t TRIAL = 1024        # rows that tell what a second thread is worth
cdef double SHORT = 1e-3            # seconds of a pass for which it is not called
cdef int ROUNDS = 4                 # of MOST steps: a pass over fewer rows is taken in one lane, whoever is there


cdef class Lane:
    """A point that takes steps on multipliers of `owner`, and these before them."""

    cdef Stepper stepper
    cdef void* W
    cdef void* scores               # (K, BLOCK)
    cdef void* coefs                # of a group
    cdef char* before               # (MOST, K) multipliers
    cdef int32_t* vertices          # and vertices
    cdef double* base               # (K,) what the bias adds to the scores
    cdef double* scratch
    cdef size_t size, row_size      # bytes of W and of multipliers of a row
    cdef double gain, total         # in D in this round, and block gaps met in this pass
    cdef int64_t visits             # of this pass
    cdef bint has_moved             # in this round
    cdef list _arrays

    def __cinit__(self, Blocks owner):
        cdef int K = owner.e.n_scores
        dtype = owner.packed.dtype
        self.stepper, self._arrays = Stepper(owner), []
        self.size, self.row_size = owner.packed.nbytes, K * dtype.itemsize
        self.W, self.scores = self._room(owner.packed.shape, dtype), self._room((K, BLOCK), dtype)
        self.coefs = self._room((self.stepper.size, owner.ldc), dtype)
        self.before, self.vertices = <char*>self._room((MOST, K), dtype), <int32_t*>self._room((MOST,), np.int32)
        self.base, self.scratch = <double*>self._room((K,), np.float64), <double*>self._room((2 * K,), np.float64)

    cdef void* _room(self, shape, dtype):
        array = aligned(shape, dtype)
        self._arrays.append(array)
        return <void*><size_t>array.ctypes.data

    cdef void follow(self, Blocks owner, const void* W) noexcept nogil:
        """Takes over the point of `owner`."""
        memcpy(self.W, W, self.size)
        memcpy(self.base, &owner.base[0], owner.base.shape[0] * sizeof(double))
        self.gain, self.has_moved = 0.0, False

    cdef int run(self, const Py_ssize_t* rows, Py_ssize_t n, const int64_t* over, Blocks owner, Engine e,
                 real* S) except -1 nogil:
        """Steps at the rows of this round, unless told to stop."""
        cdef Py_ssize_t at = 0, next_look = owner.patience
        cdef int size = self.stepper.size, count, ahead, r
        cdef bint is_kept = n <= MOST
        cdef const char* beta
        cdef real* coefs = <real*>self.coefs
        cdef real* products = NULL
        if real is float:
            beta = <const char*>&owner.beta32[0, 0]
        else:
            beta = <const char*>&owner.beta64[0, 0]
        while at < n and not pb_load(over):
            count = <int>min(<Py_ssize_t>size, n - at)
            ahead = <int>min(<Py_ssize_t>size, n - at - count)
            self.stepper.score(rows + at, count, ahead, self.W, S, owner, e)
            if is_kept:
                for r in range(count):
                    memcpy(self.before + (at + r) * self.row_size, beta + rows[at + r] * self.row_size, self.row_size)
                    self.vertices[at + r] = owner.rows[rows[at + r]].vertex
            if self.stepper.decide(rows + at, count, self.base, S, coefs, products, False, self.scratch, &self.total,
                                   &self.gain, owner, e):
                self.stepper.update(&e.X, rows + at, count, coefs, owner.ldc, e.n_scores, self.W, owner.ldw)
                self.has_moved = True
            at += count
            self.visits += count
            if at >= next_look:
                next_look += owner.patience
                with gil:
                    PyErr_CheckSignals()
        return 0

    cdef void undo(self, const Py_ssize_t* rows, Py_ssize_t n, Blocks owner) noexcept nogil:
        """Multipliers as before this round."""
        cdef Py_ssize_t j
        cdef char* beta
        if owner.is_single:
            beta = <char*>&owner.beta32[0, 0]
        else:
            beta = <char*>&owner.beta64[0, 0]
        for j in range(n):
            memcpy(beta + rows[j] * self.row_size, self.before + j * self.row_size, self.row_size)
            owner.rows[rows[j]].vertex = self.vertices[j]


cdef class ExactLanes(LaneRounds):
    """Passes of exact steps over rows of `owner`.

    Parameters
    ----------
    owner : Blocks
    steps : int
        As in `LaneRounds`.
    is_wary : bool
        Helpers are asked where they made passes faster, not always.
    """

    cdef Blocks owner
    cdef Lane first, second
    cdef void* W
    cdef Py_ssize_t n_entries       # of W

    def __init__(self, Blocks owner, int steps=MOST, *, bint is_wary=True):
        LaneRounds.__init__(self, steps, MOST, LOW, HIGH, TRIAL)
        self.owner, self.W = owner, <void*><size_t>owner.packed.ctypes.data
        self.n_entries = owner.packed.size
        if owner.dense:
            self.first, self.second = Lane(owner), Lane(owner)

    def visit(self, const Py_ssize_t[::1] order, run=map):
        """As `visit` of `Blocks`, by the threads that `run(function, items)` has."""
        cdef int kind
        if not self._pays(order):
            return self.owner.visit(order, None if run is map else run)
        self.first.total = self.second.total = 0.0
        kind = order.shape[0] < self.owner.e.n_examples     # where all rows come, few move
        self._sweep(order, map if self.is_wary and 0.0 < self.pace[kind] * order.shape[0] < SHORT else run, kind)
        return self.first.total + self.second.total

    cdef bint _pays(self, const Py_ssize_t[::1] order):
        """Whether there are two lanes now, and rows enough for them, none of which comes twice."""
        cdef Py_ssize_t n = self.owner.e.n_examples, j
        cdef unsigned char[::1] met
        if self.first is None or order.shape[0] < 2 * ROUNDS * MOST or self._rests():
            return False
        met = np.zeros(n, dtype=np.uint8)
        for j in range(order.shape[0]):
            if not 0 <= order[j] < n or met[order[j]]:
                return False
            met[order[j]] = 1
        return True

    cdef void _follow(self, int k) noexcept nogil:
        if k == 0:
            self.first.follow(self.owner, self.W)
        else:
            self.second.follow(self.owner, self.W)

    cdef int _step(self, int k, const Py_ssize_t* rows, Py_ssize_t n) except -1 nogil:
        if k == 0:
            return self._run(self.first, rows, n)
        return self._run(self.second, rows, n)

    cdef int _run(self, Lane lane, const Py_ssize_t* rows, Py_ssize_t n) except -1 nogil:
        if self.owner.is_single:
            return lane.run(rows, n, &self.over, self.owner, self.owner.e, <float*>lane.scores)
        return lane.run(rows, n, &self.over, self.owner, self.owner.e, <double*>lane.scores)

    cdef void _join(self, double* gains) noexcept nogil:
        cdef double[3] squares
        cdef double cross, u, v, constant = self.owner.constant, scale = self.owner.e.scale
        cdef int k
        gains[0], gains[1] = self.first.gain, self.second.gain
        gains[2] = gains[0] + gains[1]
        if not self.first.has_moved and not self.second.has_moved:
            return
        if self.owner.is_single:
            pb_join_float(self.n_entries, <float*>self.W, <float*>self.first.W, <float*>self.second.W, squares)
        else:
            pb_join_double(self.n_entries, <double*>self.W, <double*>self.first.W, <double*>self.second.W,
                           squares)
        cross = squares[2]
        for k in range(self.owner.e.n_scores):
            u, v = self.first.base[k] - self.owner.base[k], self.second.base[k] - self.owner.base[k]
            cross += u * v / constant if constant > 0.0 else 0.0
            self.owner.base[k] += u + v
        gains[2] -= self.owner.s / (scale * scale) * cross

    cdef void _undo(self, const Py_ssize_t* rows, Py_ssize_t n) noexcept nogil:
        self.second.undo(rows, n, self.owner)
        memcpy(self.W, self.first.W, self.first.size)
        memcpy(&self.owner.base[0], self.first.base, self.owner.e.n_scores * sizeof(double))

    cdef _end(self):
        LaneRounds._end(self)
        self.owner.visits += self.first.visits + self.second.visits
        self.first.visits = self.second.visits = 0

    cdef double _done(self):
        return self.owner.visits
