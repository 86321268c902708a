"""Runs one after the other: the next takes over where the one before has done what it is good at, or stalls."""

from __future__ import annotations

from ..runtime.result import Status


class Relay:
    """A run that starts as one method and goes on as others, with best point, bound, blocks and history kept.

    Parameters
    ----------
    first : Run
    *others : (Run, float or None, float)
        Each with the relative gap at which it takes over, None for no such gap, and the number of passes in which the
        one before must halve its gap. It also takes over where the one before stalls.
    """

    def __init__(self, first, *others):
        self._current, self._others = first, list(others)
        self._mark = 0.0, float("inf")      # passes and gap when the gap had last halved

    def __getattr__(self, name):
        return getattr(self._current, name)

    def step(self):
        """A step of the current run; where it stalls, the next goes on."""
        status = self._current.step()
        if not self._others:
            return status
        _, handover, patience = self._others[0]
        at = self._current.progress()
        if not at.gap > 0.5 * self._mark[1]:
            self._mark = at.n_passes, at.gap
        is_ripe = (handover is not None and at.gap <= handover) or at.n_passes > self._mark[0] + patience
        if status is Status.STALLED or (status is None and is_ripe):
            self._take_over()
            return None
        return status

    def _take_over(self):
        first, second = self._current, self._others[0][0]
        second.trace, second.choice, second.bound = first.trace, first.choice, first.bound
        second.start(first.w, first.state())       # the first is there to hand back its state until this is done
        self._current, self._mark = second, (second.trace.n_passes, float("inf"))
        del self._others[0]
