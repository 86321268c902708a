"""Stopping rules: each returns a status or None; a run evaluates all its rules after every iteration.

A rule sees a `Progress` record only, never a solver.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

from ..core.types import Estimator, Floats
from ..core.validation import check_number, read_only
from .result import Status

SHARE = 1e-12
"""The default of atol as a fraction of what a run can gain. Smaller differences are lost in rounding: for risks whose
minimum is 0, a smaller atol made methods stall or need up to ten times the passes."""


def relative_gap(fun, lower_bound, least=0.0):
    """Return `(fun - lower_bound) / max(|fun|, least)`; 0 if both are equal or cross by rounding.

    With `least` = atol / tol the result is at most tol if the difference is at most atol, or at most tol |fun|.

    >>> relative_gap(10.0, 9.0), relative_gap(0.0, 0.0), relative_gap(1e-13, -1e-14, 1e-6)
    (0.1, 0.0, 1.1e-07)
    """
    difference = max(0.0, fun - lower_bound)
    if difference == 0.0:
        return 0.0
    size = max(abs(fun), least)
    return difference / size if size > 0.0 and difference < float("inf") else float("inf")


@dataclass(slots=True)
class Progress:
    """The state of a run that callbacks and stopping rules see; its fields are called as those of `Result`.

    Attributes
    ----------
    x : ndarray, shape (dim,)
        The best point so far, read-only; no later step changes it.
    fun, lower_bound : float
        Its value, and the best lower bound so far.
    n_iter, n_passes, n_planes, seconds
        As in `Result`, so far.
    tol, least : float
        The gap that the run has to reach, relative to |fun|, or to `least` if that is larger.
    make_estimator : ``make_estimator() -> estimator`` or None
        In a fit of an estimator: makes `estimator`.
    score_held_out : ``score_held_out() -> float`` or None
        In a fit: the score of its predictions for the examples that it holds out for callbacks.

    Examples
    --------
    >>> import pybundle as pb
    >>> def watch(progress: pb.Progress) -> bool:
    ...     return progress.n_passes > 50 and progress.gap < 0.05     # True ends the run
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> pb.minimize(risk, lam=1.0, callback=watch).success
    True
    """

    x: Floats
    fun: float
    lower_bound: float
    n_iter: int
    n_passes: float
    n_planes: int
    seconds: dict[str, float]
    tol: float = 0.0
    least: float = 0.0
    make_estimator: Callable[[], Any] | None = None
    score_held_out: Callable[[], float] | None = None

    @property
    def gap(self) -> float:
        """Relative gap of the best value and the best bound, see `Result`."""
        return relative_gap(self.fun, self.lower_bound, self.least)

    @property
    def estimator(self) -> Estimator | None:
        """A copy of the estimator being fitted that predicts with `x`, made on first access; None outside a fit."""
        return None if self.make_estimator is None else self.make_estimator()


@dataclass(frozen=True)
class GapBelow:
    """A rule that holds if `fun - lower_bound <= max(tol |fun|, atol)`; `Search.rule` replaces an atol of None."""

    tol: float
    atol: float | None = 0.0

    @property
    def least(self) -> float:
        """Least size to which a gap is relative, atol / tol; for tol = 0 gaps are relative to |fun|."""
        return (self.atol or 0.0) / self.tol if self.tol > 0.0 else 0.0

    def gap(self, fun: float, lower_bound: float) -> float:
        """Return the relative gap, which is at most tol if the rule holds."""
        return relative_gap(fun, lower_bound, self.least)

    def holds(self, fun: float, lower_bound: float, share: float = 1.0) -> bool:
        """Return whether value and bound are close enough, for `share` times the tolerance."""
        if self.tol > 0.0:
            return self.gap(fun, lower_bound) <= share * self.tol
        return fun - lower_bound <= share * (self.atol or 0.0)

    def __call__(self, progress: Progress) -> Status | None:
        return Status.CONVERGED if self.holds(progress.fun, progress.lower_bound) else None


@dataclass(frozen=True)
class MaxIterations:
    """A rule that stops after `limit` iterations."""

    limit: int

    def __call__(self, progress: Progress) -> Status | None:
        return Status.ITERATION_LIMIT if progress.n_iter >= self.limit else None


class TimeLimit:
    """Stops a run that takes more than `seconds`, and a path or the search of an estimator's C as a whole.

    Every run has that long, so that one limit serves many fits. `start()` sets the clock going for all runs from now on
    until `stop()`, as paths and searches do for theirs.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> limit = pb.callbacks.TimeLimit(60.0)
    >>> [pb.minimize(risk, lam=lam, callback=limit).success for lam in (1.0, 0.1)]
    [True, True]
    """

    def __init__(self, seconds: float) -> None:
        self.seconds: float = check_number("seconds", seconds, low=0.0)
        self.deadline: float | None = None
        self.is_running: bool = False

    def start(self) -> Self:
        """The clock runs from now on, through all runs. Returns itself."""
        self.deadline, self.is_running = time.perf_counter() + self.seconds, True
        return self

    def stop(self) -> None:
        """Each run has a time of its own again."""
        self.deadline, self.is_running = None, False

    def latest(self) -> float:
        """`time.perf_counter()` at which a run that starts now, or has begun, should end."""
        return time.perf_counter() + self.seconds if self.deadline is None else self.deadline

    def __call__(self, progress: Progress) -> Status | None:
        if self.deadline is None:
            gone = getattr(progress, "seconds", {}).get("total", 0.0)
            self.deadline = time.perf_counter() - gone + self.seconds
        return Status.TIME_LIMIT if time.perf_counter() >= self.deadline else None

    def __repr__(self) -> str:
        return f"TimeLimit({self.seconds:g})"

    def close(self) -> None:
        """End the time of the run."""
        if not self.is_running:
            self.deadline = None


@contextmanager
def one_clock(callbacks):
    """Let the time limits among callbacks count for all runs of the block together."""
    mine = [callback.start() for callback in callbacks if isinstance(callback, TimeLimit) and not callback.is_running]
    try:
        yield
    finally:
        for limit in mine:
            limit.stop()


def as_seen(progress, scale, shift):
    """Return the progress that users see: values times `scale`, and the point in their coordinates."""
    if scale != 1.0:
        progress = replace(progress, fun=scale * progress.fun, lower_bound=scale * progress.lower_bound,
                           least=scale * progress.least)
    return progress if shift is None else replace(progress, x=read_only(shift.to_user(progress.x)))


@dataclass(slots=True, eq=False)
class Callback:
    """Calls a function of the user: a true return value or StopIteration stops the run; a `Status` is the reason shown.

    The function gets values multiplied by `scale` (1/n for the mean scale), and points in the user's coordinates.
    """

    function: Any
    scale: float = 1.0
    shift: Any = None

    def __call__(self, progress):
        try:
            stop = self.function(as_seen(progress, self.scale, self.shift))
        except StopIteration:
            stop = True
        if stop is None:
            return None
        if isinstance(stop, Status):        # CONVERGED is 0, hence false, but it asks to stop, too
            return stop if stop is not Status.CONVERGED else Status.CALLBACK
        return Status.CALLBACK if stop else None

    def close(self):
        """Close the user's callback, as the run has ended."""
        if hasattr(self.function, "close"):
            self.function.close()


def time_of_end(rules):
    """Return the earliest `time.perf_counter()` at which a time limit ends a run, infinity without a limit."""
    found = math.inf
    for rule in rules:
        for _ in range(2):          # a path wraps rules twice
            rule = getattr(rule, "function", rule)
        if isinstance(rule, TimeLimit):
            found = min(found, rule.latest())
    return found


def first_reason(rules, progress):
    """Return the status of the first rule that stops the run, or None. All rules run, so that callbacks always do."""
    found = None
    for rule in rules:
        reason = rule(progress)
        found = reason if found is None else found
    return found
