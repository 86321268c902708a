"""How long a run waits for the answers of workers."""

from __future__ import annotations

import math
import time

from ..runtime.interrupts import interrupt_noted_at

TICK = 0.25
"""Seconds between two looks at the clock and at Ctrl-C while no answer comes."""
GRACE = 2.0
"""Seconds that workers have for an answer after the time limit of the run,"""
LONGER = 2.0
"""or so many times as long as the slowest answer so far."""


class OutOfTime(Exception):
    """The run should have ended, and a worker does not answer; `minimize` ends it with what is known."""


class Waiting:
    """The patience of one run: workers that are at work may end it, those that are silent are not waited for.

    Attributes
    ----------
    end : float
        `time.perf_counter()` at which the run should end.
    has_begun : bool
        All workers have answered at one point at least.
    """

    def __init__(self):
        self.end, self.has_begun = math.inf, False
        self._asked, self._grace, self._is_interrupted = -math.inf, GRACE, False

    def asked(self):
        """Called before a request is sent; raises a Ctrl-C that waited for a first result."""
        if self._is_interrupted:
            self._is_interrupted = False
            raise KeyboardInterrupt
        self._asked = time.perf_counter()

    def heard(self, seconds):
        """An answer took so long."""
        self._grace = max(self._grace, LONGER * seconds)

    def no_longer(self, is_interrupted=False):
        """Workers have had their time: none is waited for any more; a Ctrl-C is raised at the next question."""
        self._grace, self._is_interrupted = 0.0, is_interrupted

    def left(self):
        """Seconds until the time is up; infinite without a limit."""
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
