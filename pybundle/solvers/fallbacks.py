"""Fallbacks: the methods that take over one after another when the present method stalls or slows down."""

from __future__ import annotations

import numpy as np

from ..core.kept import Kept
from ..runtime.result import Status


class Fallbacks(Kept):
    """The methods that are left to take over; each gets best point, bound, blocks and history of the method before.

    Parameters
    ----------
    left : sequence of Fallback
    make : callable
        `make(name, search)` builds the run of a method.
    """

    def __init__(self, left, make):
        self.left, self._make = list(left), make
        self._mark = 0.0, np.inf            # passes and gap when the gap had last halved

    def arrays(self):
        return {"n_left": len(self.left), "mark": self._mark}

    def restore(self, arrays):
        self.left = self.left[max(len(self.left) - arrays["n_left"], 0):]
        self._mark = tuple(arrays["mark"])

    def after(self, run, status):
        """Return the run that continues after a step of `run`, and its status."""
        if not self.left:
            return run, status
        _, n_slow, at_gap, n_most = self.left[0]
        search, n_passes = run.search, run.trace.n_passes
        if not search.gap > 0.5 * self._mark[1]:
            self._mark = n_passes, search.gap
        if at_gap is not None and search.progress().gap <= at_gap:
            n_slow = 0.0
        if status is Status.STALLED or (status is None and n_passes > min(self._mark[0] + n_slow, n_most)):
            return self._next(run), None
        return run, status

    def _next(self, first):
        second = self._make(self.left[0].method, first.search.successor())
        second.start(first.search.w, first.state())     # the first run keeps its state until `start` returns
        second.fallbacks, self._mark = self, (second.trace.n_passes, np.inf)
        del self.left[0]
        return second
