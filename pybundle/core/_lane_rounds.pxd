# Rounds of two lanes over rows.

from ._rounds cimport Rounds

cdef struct Span:               # rows of a lane in a round
    Py_ssize_t begin, end
    bint is_behind              # the point has moved on since its last round


cdef class LaneRounds(Rounds):
    cdef public int steps
    cdef int most
    cdef double low, high
    cdef const Py_ssize_t* rows
    cdef Py_ssize_t n_rows, at  # at: where the next round begins
    cdef Py_ssize_t trial, pause_at     # pause_at: row at which `_share` ends, to go on in another way
    cdef Span[2] lanes
    cdef double gain, gains     # of the last rounds: g, and g_0 + g_1
    cdef int rounds

    # Whether this sweep is one of those to be taken in one lane
    cdef bint _rests(self)
    # A sweep over `rows`, no row twice; kind 0 or 1 says which of them take as long per row
    cdef _sweep(self, const Py_ssize_t[::1] rows, run, int kind)
    cdef void _open(self) noexcept nogil
    cdef void _judge(self) noexcept nogil
    # To be written: lane k takes over the common point / takes steps at n rows, until `over` / the common point becomes
    # that of both, and g_0, g_1 and g are known / it becomes that of the first, the second has no moves
    cdef void _follow(self, int k) noexcept nogil
    cdef int _step(self, int k, const Py_ssize_t* rows, Py_ssize_t n) except -1 nogil
    cdef void _join(self, double* gains) noexcept nogil
    cdef void _undo(self, const Py_ssize_t* rows, Py_ssize_t n) noexcept nogil
