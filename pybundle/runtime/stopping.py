"""Stopping rules: each gives a status or None; several are asked in turn.

A rule sees a `Progress` record only, never a solver.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from ..core.validation import check_number
from .result import Status


def relative_gap(fun, lower_bound):
    """`(fun - lower_bound) / |fun|`, never negative, 0 when both are equal.

    >>> relative_gap(10.0, 9.0), relative_gap(0.0, 0.0)
    (0.1, 0.0)
    """
    difference = max(0.0, fun - lower_bound)
    if difference == 0.0:
        return 0.0
    if difference == float("inf"):      # no value yet, or no bound
        return difference
    return difference / abs(fun) if fun != 0.0 else float("inf")


@dataclass
class Progress:
    """Where a run stands; what callbacks and stopping rules are given.

    `fun` and `lower_bound` are the best so far; `w` is the best point and must not be changed. `tol` is the relative
    gap that the run is to reach; `estimator`, where one is being fitted, a copy of it that predicts with `w`.
    """

    w: object
    fun: float
    lower_bound: float
    n_iter: int
    n_passes: float
    n_planes: int
    seconds: dict
    tol: float = 0.0
    estimator: object = None

    @property
    def gap(self):
        """Relative gap of the best value and the best bound."""
        return relative_gap(self.fun, self.lower_bound)


@dataclass(frozen=True)
class GapBelow:
    """Converged when `fun - lower_bound <= max(tol |fun|, atol)`."""

    tol: float
    atol: float = 0.0

    def holds(self, fun, lower_bound, share=1.0):
        """Whether these two numbers are close enough, for `share` times the tolerance."""
        return fun - lower_bound <= share * max(self.tol * abs(fun), self.atol)

    def __call__(self, progress):
        return Status.CONVERGED if self.holds(progress.fun, progress.lower_bound) else None


@dataclass(frozen=True)
class MaxIterations:
    """Stops after `limit` iterations."""

    limit: int

    def __call__(self, progress):
        return Status.ITERATION_LIMIT if progress.n_iter >= self.limit else None


class TimeLimit:
    """Stops when `seconds` have gone since the rule was made: for one run, or for all runs of one search."""

    def __init__(self, seconds):
        self.deadline = time.perf_counter() + check_number("seconds", seconds, low=0.0)

    def __call__(self, progress):
        return Status.TIME_LIMIT if time.perf_counter() >= self.deadline else None


class Callback:
    """Asks the user: a true return value or StopIteration stops the run; a `Status` is the reason that is told.

    Values are multiplied by `scale` on the way out (1/n for the mean scale).
    """

    def __init__(self, function, scale=1.0):
        self.function, self.scale = function, scale

    def __call__(self, progress):
        if self.scale != 1.0:
            progress = replace(progress, fun=self.scale * progress.fun, lower_bound=self.scale * progress.lower_bound)
        try:
            stop = self.function(progress)
        except StopIteration:
            stop = True
        if isinstance(stop, Status):        # CONVERGED is 0
            return stop if stop is not Status.CONVERGED else Status.CALLBACK
        return Status.CALLBACK if stop else None

    def close(self):
        """The run has ended."""
        if hasattr(self.function, "close"):
            self.function.close()


def first_reason(rules, progress):
    """Status of the first rule that wants to stop, or None. Every rule is asked, so callbacks always run."""
    reasons = [rule(progress) for rule in rules]
    return next((reason for reason in reasons if reason is not None), None)
