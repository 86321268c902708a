"""`Waiting` says how long a run waits for answers of workers."""

import math
import time

from ..runtime.interrupts import interrupt_noted_at

TICK = 0.25
"""Seconds between two looks at the clock, at Ctrl-C and at the cluster while no answer comes."""
GRACE = 2.0
"""Least grace: seconds that workers have for an answer after the time limit of the run."""
LONGER = 2.0
"""The grace is also at least this multiple of the time of the slowest answer so far."""


class OutOfTime(Exception):
    """The time of the run is up and a worker does not answer; `minimize` ends the run with its best state."""


class Waiting:
    """The time limit of a run while it waits: workers get some seconds to finish, then the run ends without them.

    Attributes
    ----------
    end : float
        `time.perf_counter()` at which the run should end.
    has_begun : bool
        Whether all workers have answered a question at least once.
    """

    def __init__(self):
        self.end, self.has_begun = math.inf, False
        self._asked, self._grace, self._is_interrupted = -math.inf, GRACE, False

    def asked(self):
        """Note that a question is sent; raise KeyboardInterrupt if a Ctrl-C has waited for a first result."""
        if self._is_interrupted:
            self._is_interrupted = False
            raise KeyboardInterrupt
        self._asked = time.perf_counter()

    def heard(self, seconds):
        """Note how many seconds an answer took."""
        self._grace = max(self._grace, LONGER * seconds)

    def no_longer(self, is_interrupted=False):
        """Give workers no more time after the limit; if `is_interrupted`, the next `asked` raises KeyboardInterrupt."""
        self._grace, self._is_interrupted = 0.0, is_interrupted

    def left(self):
        """Return the seconds until the time is up; infinity without a limit."""
        noted = interrupt_noted_at()
        end = self.end if noted is None else min(self.end, noted)
        return max(end, self._asked) + self._grace - time.perf_counter()

    def check(self):
        """Raise if the time is up: OutOfTime, or KeyboardInterrupt for a Ctrl-C that should wait for the answer."""
        if self.left() >= 0.0:
            return
        if interrupt_noted_at() is not None:
            raise KeyboardInterrupt
        raise OutOfTime("a worker does not answer")
