"""Work in rounds of two halves: two threads may take one each, and the one that is done last begins the next round.

There are always two halves, whoever takes them, so that what comes out does not depend on threads; time says only
whether a helper is asked.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport fabs

from time import perf_counter

from pybundle.core._atomic cimport pb_count, pb_load, pb_store, pb_wait

cdef extern from "_clock.h" nogil:
    double pb_seconds()

cdef double SHARED = 0.9            # time of a run over that of one thread from which helpers are left out,
cdef int LONGEST = 64               # for so many runs at most: on a busy machine they hold halves and wait
cdef double BREATH = 0.05           # seconds between two looks for signals
cdef int64_t LOOK = 100             # turns of waiting between two looks at the clock


cdef class Rounds:
    """The base of what is worked at in rounds; in use by one run at a time.

    Parameters
    ----------
    is_wary : bool
        Helpers are asked where they made runs faster, not always.
    """

    def __cinit__(self, *args, bint is_wary=True, **kwargs):
        self.over, self.pause, self.is_wary = 1, 1, is_wary

    cdef _share(self, run, int kind):
        cdef double done = self._done(), began = perf_counter(), seconds
        cdef bint is_shared = run is not map and (not self.is_wary or self.pace[kind] > 0.0 and self.alone == 0)
        self.taken = self.finished = self.opened = 0
        pb_store(&self.invites, is_shared)
        pb_store(&self.over, 0)
        try:
            if is_shared:
                for _ in run(self.work, range(2)):
                    pass
            else:
                self._enter(True)
        finally:                # compiled: no signal comes between
            pb_store(&self.invites, 0)      # who comes later sees it, also when the next run has begun
            pb_store(&self.over, 1)
            with nogil:
                wait_for_all(&self.gate)
            self._end()
        seconds = (perf_counter() - began) / max(self._done() - done, 1.0)
        if not is_shared:
            self.pace[kind], self.alone = seconds, max(self.alone - 1, 0)
        elif seconds > SHARED * self.pace[kind]:
            self.alone = self.pause = min(2 * self.pause, LONGEST)
        else:
            self.pause = 1

    def work(self, _=None):
        """Takes halves till there are no more; for several threads."""
        self._enter(False)

    cdef _enter(self, bint is_alone):
        pb_count(&self.gate.entered)        # before it looks at `over`
        try:
            if is_alone or pb_load(&self.invites):      # an executor may come late, with a helper of a run that was
                with nogil:
                    self._work()
        except BaseException:
            pb_store(&self.over, 1)
            raise
        finally:
            pb_count(&self.gate.left)

    cdef int _work(self) except -1 nogil:
        cdef int64_t half, waited
        cdef double looked = pb_seconds()
        while not pb_load(&self.over):
            half = pb_count(&self.taken)
            waited = 0
            while pb_load(&self.opened) < half // 2:
                if pb_load(&self.over):
                    return 0
                pb_wait(waited)
                waited += 1
                if waited % LOOK == 0:
                    looked = look(looked)
            self._half(half % 2)
            if pb_load(&self.over):
                return 0
            if pb_count(&self.finished) == half // 2 * 2 + 1:       # the other half is done as well
                if self._close():
                    pb_store(&self.opened, half // 2 + 1)
                else:
                    pb_store(&self.over, 1)
            looked = look(looked)
        return 0

    cdef int _half(self, int k) except -1 nogil:
        with gil:
            raise NotImplementedError

    cdef int _close(self) except -1 nogil:
        with gil:
            raise NotImplementedError

    cdef _end(self):
        raise NotImplementedError

    cdef double _done(self):
        raise NotImplementedError


cdef double look(double before) except -1.0 nogil:
    """Looks for signals where the last look, whose time comes back, was some time ago."""
    cdef double now = pb_seconds()
    if fabs(now - before) < BREATH:
        return before
    with gil:
        PyErr_CheckSignals()
    return pb_seconds()


cdef void wait_for_all(const Gate* gate) noexcept nogil:
    cdef int64_t left, waited = 0
    while True:
        left = pb_load(&gate.left)      # first: between the two somebody might come and go
        if left >= pb_load(&gate.entered):
            return
        pb_wait(waited)
        waited += 1
