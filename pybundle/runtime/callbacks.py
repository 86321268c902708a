"""Callbacks, which watch a run and may end it.

A callback is any object that can be called as `callback(progress)`. A true return value or StopIteration ends the run;
a returned `Status` is the reason that the result states. A method `close` of the callback is called when
the run ends, whatever the reason.
"""

from __future__ import annotations

import math
import numbers
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError
from ..core.extras import optional
from ..core.labels import labels_of, names_of
from ..core.types import Data
from ..core.validation import check_integer, check_number
from .stopping import Progress, TimeLimit

__all__ = ["EarlyStopping", "ProgressBar", "StopSignal", "TimeLimit"]


FORMAT = "{desc} {percentage:3.0f}%|{bar}| [{elapsed_s:.1f} s{postfix}]"


class ProgressBar:
    """A tqdm bar, in a terminal or a notebook: the logarithm of the gap on its way to the tolerance.

    The bar is empty at a gap of 1, the largest one shown, and full once the gap has reached `tol`; seconds,
    objective, lower bound and gap stand behind it.

    Parameters
    ----------
    desc : str
        What stands in front of the bar.
    interval : float
        Seconds before the first drawing and between two.
    **options
        Of `tqdm.auto.tqdm`: `file`, `leave`, `position`, `disable`, ...

    Raises
    ------
    ImportError
        Without tqdm.

    Examples
    --------
    >>> import io
    >>> import pybundle as pb
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> screen = io.StringIO()
    >>> result = pb.minimize(risk, lam=1.0, callback=pb.callbacks.ProgressBar(file=screen))
    >>> "100%" in screen.getvalue()
    True
    """

    def __init__(self, desc: str = "gap", interval: float = 0.25, **options: Any) -> None:
        taken = sorted({"total", "bar_format", "delay", "iterable", "initial"} & options.keys())
        if taken:
            raise ParameterError(f"options must be those of tqdm that the bar does not set itself, got {taken[0]}; a "
                                 "bar of your own is a callback: tqdm's update in a function of progress")
        auto = optional("tqdm.auto", "a progress bar needs tqdm", "progress")
        self.desc: str = desc
        self.interval: float = check_number("interval", interval, low=0.0)
        self.options: dict[str, Any] = options
        # no monitor thread, which each solve would start and join
        bar: Any = type("Bar", (auto.tqdm,), {"monitor_interval": 0})
        self._make = bar
        if not hasattr(bar, "_lock"):
            from tqdm.std import TqdmDefaultWriteLock

            # tqdm would also make a lock for processes, which takes milliseconds of the first solve
            bar.set_lock(TqdmDefaultWriteLock.th_lock)
        self._bar: Any = None
        self._last: Any = None
        self._next = self.interval

    def __call__(self, progress: Progress) -> None:
        self._last = progress
        if progress.seconds["total"] >= self._next:
            self._next = progress.seconds["total"] + self.interval
            self._set()
            self._bar.refresh()

    def _set(self):
        progress = self._last
        if self._bar is None:
            self._bar = self._make(total=100, desc=self.desc, bar_format=FORMAT, delay=1e-9, **self.options)
        self._bar.n = round(100.0 * share_of_way(progress.gap, progress.tol))
        self._bar.set_postfix_str(f"F {progress.fun:.6g} bound {progress.lower_bound:.6g} gap {progress.gap:.1e}",
                                  refresh=False)

    def close(self) -> None:
        """Draws the last state and ends the bar; the next run begins a new one."""
        if self._last is not None:
            self._set()
            self._bar.last_print_t = self._bar.start_t + 1.0        # else tqdm would not draw a bar of a short run
            self._bar.close()
        self._bar = self._last = None
        self._next = self.interval

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r:.60}" for name, value in self.options.items())
        return f"ProgressBar(desc={self.desc!r}, interval={self.interval:g}{options})"

    def __reduce__(self) -> Any:        # copies have bars of their own
        return partial(type(self), **self.options), (self.desc, self.interval)


def share_of_way(gap, tol):
    """Return the share of the way from a gap of 1 to `tol` that a gap has covered, in logarithms; 0 if `tol` is 0.

    >>> share_of_way(1e-2, 1e-4), share_of_way(5.0, 1e-4), share_of_way(0.0, 1e-4)
    (0.5, 0.0, 1.0)
    """
    if gap <= tol:
        return 1.0
    return 0.0 if gap >= 1.0 or tol >= 1.0 or tol == 0.0 else math.log(gap) / math.log(tol)


class EarlyStopping:
    """Ends a run whose validation score no longer rises.

    The solution is the best point of the *objective* at that time, with its certificate, not the one of the best score.
    On a path, or in the search for the C of an estimator, it ends the run of one C; the next one starts as usual.

    Parameters
    ----------
    X, y : validation data, optional
        For estimators: the score is `estimator.score(X, y)` of the state so far. In a pipeline they must be
        transformed as its steps transform the data of the fit.
    validation_fraction : float, optional
        Instead, for estimators: `fit` holds this share of its examples out of the training, by class for classifiers,
        and scores them. This also works in pipelines and searches, which transform and split the data of the fit.
    score : callable, optional
        Instead: `score(progress)`, larger is better. `progress.x` is the best point so far.
    patience : int
        Evaluations in a row without a better score that end the run.
    min_delta : float
        What a score must rise by to be better.
    every : float
        Passes over the data between two evaluations.

    Attributes
    ----------
    scores : list of (float, float)
        Passes and score of every evaluation of the last run.

    Examples
    --------
    >>> import pybundle as pb
    >>> X, y, X_test, y_test = pb.datasets.load_digits()
    >>> stop = pb.callbacks.EarlyStopping(X_test, y_test, patience=3)
    >>> svm = pb.MulticlassSVM(C=1.0, tol=1e-6, callback=stop).fit(X, y)
    >>> svm.gap_ > 1e-6, len(stop.scores) > 3
    (True, True)
    >>> stop = pb.callbacks.EarlyStopping(validation_fraction=0.2, patience=3)
    >>> pb.MulticlassSVM(C=1.0, tol=1e-6, callback=stop).fit(X, y).gap_ > 1e-6
    True
    """

    ends_path = False       # a stop ends this run, but not a path of runs

    def __init__(self, X: Data = None, y: Any = None, *, validation_fraction: float | None = None,
                 score: Callable[[Progress], Any] | None = None, patience: int = 5, min_delta: float = 0.0,
                 every: float = 1.0) -> None:
        if (X is None) != (y is None) or sum(one is not None for one in (X, validation_fraction, score)) != 1:
            raise ParameterError("exactly one of X and y, validation_fraction, score must be given")
        if validation_fraction is not None and not 0.0 < check_number("validation_fraction", validation_fraction) < 1.0:
            raise ParameterError(f"validation_fraction must lie between 0 and 1, got {validation_fraction!r}")
        if score is not None and not callable(score):
            raise InputTypeError(f"score must be callable, got {type(score).__name__}")
        self.X: Data = X
        self.y: Any = y
        self.score: Callable[[Progress], Any] | None = score
        self.validation_fraction: float | None = validation_fraction
        self.patience: int = check_integer("patience", patience, low=1)
        self.min_delta: float = check_number("min_delta", min_delta, low=0.0)
        self.every: float = check_number("every", every, low=0.0)
        self.scores: list[tuple[float, Any]] = []
        self._is_new = True
        self._best: Any = -math.inf

    def __call__(self, progress: Progress) -> bool:
        if self._is_new:
            self.scores, self._is_new, self._best, self._waited = [], False, -math.inf, 0
        if self.scores and progress.n_passes < self.scores[-1][0] + self.every:
            return False
        score = self._score(progress)
        if isinstance(score, (bool, np.bool_)) or not isinstance(score, numbers.Real) or math.isnan(score):
            raise ParameterError(f"score must be a number, got {score!r:.60}")
        self.scores.append((progress.n_passes, score))
        better = score > self._best + self.min_delta
        self._best, self._waited = (score, 0) if better else (self._best, self._waited + 1)
        return self._waited >= self.patience

    def _score(self, progress):
        if self.score is not None:
            return self.score(progress)
        if progress.make_estimator is None:
            raise ParameterError("score must be given if no estimator is fitted: "
                                 "EarlyStopping(score=lambda progress: ...)")
        if self.validation_fraction is not None:
            return progress.score_held_out()
        estimator = progress.estimator
        if hasattr(self.X, "columns") and not hasattr(estimator, "feature_names_in_"):
            raise ParameterError("X of EarlyStopping has names of columns and the data of the fit have none, as behind "
                                 "the steps of a pipeline; pass validation_fraction=0.1 instead, or X transformed")
        if not self.scores and hasattr(estimator, "classes_") and hasattr(self.y, "__len__"):
            labels, classes = labels_of(self.y), estimator.classes_.tolist()
            if labels.isdisjoint(classes):
                raise ParameterError(f"y of EarlyStopping must hold classes of the fit, {names_of(classes)}, got "
                                     f"{names_of(labels)}; encode it as the y of the fit")
        return estimator.score(self.X, self.y)

    def __repr__(self) -> str:
        what = "X, y" if self.X is not None else f"score={self.score!r:.60}" if self.score is not None else \
            f"validation_fraction={self.validation_fraction:g}"
        return f"EarlyStopping({what}, patience={self.patience}, min_delta={self.min_delta:g}, every={self.every:g})"

    def close(self) -> None:
        """The next call belongs to another run."""
        self._is_new = True


class StopSignal:
    """Ends runs from outside: from another thread, a signal handler, a button of a notebook.

    Copies, as scikit-learn's `clone` makes them, are the same signal; a pickle, hence another process, gets its own.

    Examples
    --------
    >>> import pybundle as pb
    >>> stop = pb.callbacks.StopSignal()
    >>> stop.set()                                  # usually in another thread
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> pb.minimize(risk, lam=1e-3, tol=1e-12, callback=stop).status.name
    'CALLBACK'
    """

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Every run that watches this signal ends after its iteration."""
        self._event.set()

    def clear(self) -> None:
        """Takes the request back."""
        self._event.clear()

    def is_set(self) -> bool:
        """Whether runs have been told to stop."""
        return self._event.is_set()

    def __call__(self, progress: Progress) -> bool:
        return self._event.is_set()

    def __repr__(self) -> str:
        return f"StopSignal(is_set={self.is_set()})"

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> Any:
        return type(self), ()
