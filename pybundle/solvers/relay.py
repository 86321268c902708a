"""Two runs, one after the other: the second takes over where the first has done what it is good at, or stalls."""

from __future__ import annotations

from ..runtime.result import Status


class Relay:
    """A run that starts as one method and goes on as another, with best point, bound, blocks and history kept.

    Parameters
    ----------
    first, second : Run
    handover : float or None
        Relative gap at which the second takes over; None only where the first stalls.
    """

    def __init__(self, first, second, handover=None):
        self._current, self._second, self._handover = first, second, handover

    def __getattr__(self, name):
        return getattr(self._current, name)

    def step(self):
        """A step of the current run; where it stalls, the other goes on."""
        status = self._current.step()
        if self._second is None:
            return status
        is_far = self._handover is not None and self._current.progress().gap <= self._handover
        if status is Status.STALLED or (status is None and is_far):
            self._take_over()
            return None
        return status

    def _take_over(self):
        first, second = self._current, self._second
        second.trace, second.choice, second.bound = first.trace, first.choice, first.bound
        second.start(first.w, first.state())       # the first is there to hand back its state until this is done
        self._current, self._second = second, None
