"""Runs methods in sequence: the next takes over at its gap, or where the one before stalls or slows down."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..runtime.result import Status


class Stage(NamedTuple):
    """A method that takes over: `make()` its run, at the relative gap `handover` (None: at none).

    It also takes over where the run before stalls, or has not halved its gap within `patience` passes.
    """

    make: Callable
    handover: float | None
    patience: float


class MethodSequence:
    """A run that starts as one method and goes on as others, with best point, bound, blocks and history kept.

    Parameters
    ----------
    first : Run
    *stages : Stage
        Their runs are made when they take over.

    Attributes
    ----------
    at_work : Run
        The run whose turn it is.
    """

    def __init__(self, first, *stages):
        self.at_work, self._stages = first, list(stages)
        self._mark = 0.0, np.inf            # passes and gap when the gap had last halved

    def __getattr__(self, name):
        return getattr(self.at_work, name)

    def __getstate__(self):
        return {"at_work": self.at_work, "n_left": len(self._stages), "mark": self._mark}

    def __setstate__(self, state):
        self.at_work, self._mark, self._n_left = state["at_work"], tuple(state["mark"]), state["n_left"]

    def adopt(self, fresh):
        """The stages of a fresh run of the same problem, in place of those that a checkpoint does not hold."""
        self._stages = fresh._stages[len(fresh._stages) - self._n_left:]

    def step(self):
        """A step of the run at work; where it stalls, the next one takes over."""
        status = self.at_work.step()
        if not self._stages:
            return status
        _, handover, patience = self._stages[0]
        at = self.at_work.progress()
        if not at.gap > 0.5 * self._mark[1]:
            self._mark = at.n_passes, at.gap
        is_ripe = (handover is not None and at.gap <= handover) or at.n_passes > self._mark[0] + patience
        if status is Status.STALLED or (status is None and is_ripe):
            self._take_over()
            return None
        return status

    def _take_over(self):
        first, second = self.at_work, self._stages[0].make()
        second.trace, second.choice, second.bound = first.trace, first.choice, first.bound
        second.start(first.w, first.state())       # the first is there to hand back its state until this is done
        self.at_work, self._mark = second, (second.trace.n_passes, np.inf)
        del self._stages[0]
