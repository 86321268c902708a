"""What a search counts: passes over the examples, seconds in named phases, and the rows of the history."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..core.kept import Kept
from ..core.validation import read_only
from ..runtime.clock import Clock
from ..runtime.history import History
from ..runtime.stopping import Progress


@dataclass
class Trace(Kept):
    """Counters of a run."""

    kept: ClassVar[tuple[str, ...]] = ("clock", "history", "n_iter", "n_passes", "n_cached_passes", "max_planes")

    clock: Clock = field(default_factory=Clock)
    history: History = field(default_factory=History)
    n_iter: int = 0
    n_passes: float = 0.0
    n_cached_passes: float = 0.0
    max_planes: int = 0


class Counting(Kept):
    """Base class of `Search`: reads its attributes, and counts in `trace`."""

    @contextmanager
    def working(self, phase, passes=0.0, visitor=None):
        """Add the time of a `with` statement to a phase, and `passes` to the passes unless it raises.

        `visit` and `planes` use it themselves. A method that asks single examples or computes scores wraps that in it.

        Parameters
        ----------
        phase : {"oracle", "qp"}
            The entry of `result.seconds`.
        passes : float
            Number of visited examples divided by the number of all.
        visitor : object, optional
            An object with `n_examples` that counts `visits` and `cached_visits` itself: what it counts in the statement
            is added in any case, even if Ctrl-C ends the visits.
        """
        if phase == "oracle" and not self.risk.decodes_exactly:
            self.risk.aim(self.inexact.aim(self) / self.risk.n_examples)
        trace, start = self.trace, time.perf_counter()
        visits, cached = (0.0, 0.0) if visitor is None else (visitor.visits, visitor.cached_visits)
        try:
            yield
            trace.n_passes += passes
        finally:
            trace.clock.add(phase, time.perf_counter() - start)
            if visitor is not None:
                trace.n_passes += (visitor.visits - visits) / visitor.n_examples
                trace.n_cached_passes += (visitor.cached_visits - cached) / visitor.n_examples

    def log(self, value):
        """Add a row to the history: time, passes, a value, the best value and the best bound.

        Parameters
        ----------
        value : float
            F at the point of the method, or `fun` if it has not computed F there.
        """
        bound = -np.inf if self.bound is None else self.bound.value
        self.trace.history.record(self.trace.clock.elapsed(), self.trace.n_passes, value, self.fun, bound)

    def progress(self, n_planes=0):
        """Return the `Progress` for stopping rules and callbacks; it holds the best point as a read-only array."""
        bound = -np.inf if self.bound is None else self.bound.value
        return Progress(read_only(self.w), self.fun, bound, self.trace.n_iter, self.trace.n_passes, n_planes,
                        self.trace.clock.seconds(), self.settings.gap.tol, self.rule.least)
