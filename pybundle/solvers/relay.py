"""Runs one after the other: the next takes over where the one before has done what it is good at, or stalls."""

from __future__ import annotations

from ..runtime.result import Status


class Relay:
    """A run that starts as one method and goes on as others, with best point, bound, blocks and history kept.

    Parameters
    ----------
    first : Run
    *others : (Run, float or None)
        Each with the relative gap at which it takes over; None only where the one before stalls.
    """

    def __init__(self, first, *others):
        self._current, self._others = first, list(others)

    def __getattr__(self, name):
        return getattr(self._current, name)

    def step(self):
        """A step of the current run; where it stalls, the next goes on."""
        status = self._current.step()
        if not self._others:
            return status
        handover = self._others[0][1]
        is_near = handover is not None and self._current.progress().gap <= handover
        if status is Status.STALLED or (status is None and is_near):
            self._take_over()
            return None
        return status

    def _take_over(self):
        first, second = self._current, self._others[0][0]
        second.trace, second.choice, second.bound = first.trace, first.choice, first.bound
        second.start(first.w, first.state())       # the first is there to hand back its state until this is done
        self._current = second
        del self._others[0]
