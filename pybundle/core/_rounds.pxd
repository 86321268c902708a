# Work in rounds of two halves, which two threads may share.

from libc.stdint cimport int64_t

cdef struct Gate:
    # Calls of several threads that have begun, and that have ended
    int64_t entered, left

# Waits till nobody is at work. Who comes later has to see from something else, changed before, that it is too late.
cdef void wait_for_all(const Gate* gate) noexcept nogil


cdef class Rounds:

    # Of all threads: halves taken and finished, rounds open, whether there are no more, whether helpers may come
    cdef int64_t taken, finished, opened, over, invites
    cdef Gate gate
    # Seconds by `_done` that each kind of work took one thread; runs that it still takes alone, and took last
    cdef double[2] pace
    cdef int alone, pause
    cdef bint is_wary

    # All rounds, the first of which is open, by the threads that `run(function, items)` has
    cdef _share(self, run, int kind)
    # To be written: half 0 or 1 of a round / its end and the opening of the next, 0 where there is none, by one thread
    # alone / the end of all, also after an interrupt, when nobody is at work / units of work done since ever
    cdef int _half(self, int k) except -1 nogil
    cdef int _close(self) except -1 nogil
    cdef _end(self)
    cdef double _done(self)
    cdef _enter(self, bint is_alone)
    cdef int _work(self) except -1 nogil
