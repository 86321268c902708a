# One pass of exact block steps, by one thread or by two.

from libc.stdint cimport int64_t

from ..features._rows cimport real
from ._engine cimport Engine
from ._sdm cimport Blocks
from ._sdm_stepper cimport Stepper


cdef struct Message:         # of who stepped on a group of rows, to who steps on the next; a cache line
    int64_t published        # groups so far, this one included; the last to be written
    double total             # block gaps met so far
    int64_t moved            # which rows moved, as bits
    int64_t[5] padding


cdef struct Worker:          # a thread that steps
    void* W                  # a copy of its own but for the first
    void* scores             # (K, BLOCK)
    double* scratch
    char* coefs              # of two groups
    int64_t applied          # groups whose moves have reached W
    int64_t waited           # long times for the other thread
    int64_t alone_from       # group from which nobody else reads
    bint is_assistant


cdef class Pass:
    cdef Blocks blocks
    cdef Engine e
    cdef Stepper stepper
    cdef const Py_ssize_t[::1] order
    cdef int64_t n_groups, long_time
    cdef int K, step, lag
    cdef double _total
    cdef object _messages, _coefs, _failure
    cdef Message* messages
    cdef char* coefs         # (2 SLOTS, step, ldc): changes of W that the rows of a group bring
    cdef Py_ssize_t slot_size           # bytes of one of these
    cdef double[:, ::1] bases           # what the bias adds to the scores, after each group
    cdef Worker* leader
    cdef readonly int64_t invited, dismissed
    cdef int64_t arrived, is_ready, has_copied, is_over, wants_end

    cdef void _end(self) noexcept
    cdef void _lead(self, Worker* me) noexcept nogil
    cdef void _assist(self, Worker* me, size_t size) noexcept nogil
    cdef bint _wait(self, Worker* me, int64_t t) noexcept nogil
    cdef bint _group(self, Worker* me, int64_t t, bint is_paired, Blocks b, Engine e, real* S) noexcept nogil
    cdef bint _step(self, Worker* me, int64_t t, bint is_paired) noexcept nogil
    cdef void _apply(self, Worker* me, int64_t until) noexcept nogil
    cdef void _look_for_signals(self) noexcept nogil
