"""Run methods in sequence: the next one takes over when the present one stalls or slows down."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..runtime.result import Status


class MethodSequence:
    """A run that starts with one method and continues with others; best point, bound, blocks and history are kept.

    Parameters
    ----------
    first : Run
    fallbacks : sequence of Fallback
    make : callable
        `make(name, search)` builds the run of a fallback when it takes over.

    Attributes
    ----------
    at_work : Run
        The present run.
    """

    def __init__(self, first, fallbacks, make):
        self.at_work, self._left, self._make = first, list(fallbacks), make
        self._mark = 0.0, np.inf            # passes and gap when the gap had last halved

    def __getattr__(self, name: str) -> Any:
        return getattr(self.at_work, name)

    def place(self):
        """Return the number of methods left, and the mark."""
        return len(self._left), self._mark

    def go_on(self, run, place):
        """Go on as a run that was read from a checkpoint."""
        n_left, mark = (0, self._mark) if place is None else place
        self.at_work, self._mark = run, tuple(mark)
        self._left = self._left[max(len(self._left) - n_left, 0):]
        return self

    def step(self):
        """Step the present run; if it stalls, the next one takes over."""
        status = self.at_work.step()
        if not self._left:
            return status
        _, n_slow, at_gap, n_most = self._left[0]
        at = self.at_work.search.progress()
        if not at.fun - at.lower_bound > 0.5 * self._mark[1]:
            self._mark = at.n_passes, at.fun - at.lower_bound
        if at_gap is not None and at.gap <= at_gap:
            n_slow = 0.0
        if status is Status.STALLED or (
                status is None and at.n_passes > min(self._mark[0] + n_slow, n_most)):
            self._take_over()
            return None
        return status

    def _take_over(self):
        first = self.at_work
        second = self._make(self._left[0].method, first.search.successor())
        second.start(first.search.w, first.state())     # the first run keeps its state until this returns
        self.at_work, self._mark = second, (second.trace.n_passes, np.inf)
        del self._left[0]
