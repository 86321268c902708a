"""One fold of a search over C: a path of warm-started solves, and the scores of its points."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
from sklearn import config_context
from sklearn.utils import _safe_indexing

from ..runtime.result import Status
from ..solvers.path import Grid, runs

PROBE_GAP = 0.1
"""Relative gap of a probe, which takes about a quarter of the time of a solve."""
NO_LOSS = 1e-3
"""Largest share of F that training losses may have if a larger C has nothing left to learn."""


class Fold:
    """The path of one fold, from small to large C; errors say in which fold they came."""

    def __init__(self, number, estimator, grid, scorer, stop, share, X, y, weights, train, test):
        self._number, self._estimator, self._grid, self._scorer = number, estimator, grid, scorer
        self._train, self._test = (
            (*(_safe_indexing(data, rows) for data in (X, y)), {} if weights is None else {"sample_weight": weights[rows]})
            for rows in (train, test))
        self._plan, self._enough = Grid(list(1.0 / grid)), _Enough(share)       # largest lam first
        self._results = self._path(stop)
        self._points, self._scores, self._training = {}, {}, {}

    def solve(self, k, is_probe, best):
        """Return score and gap of the k-th C, which may be the last one again; NaN if the path was stopped.

        Forgets all points but those of this C, of the one before and of the best one.
        """
        with self._named():
            self._plan.n, self._enough.is_probe = k - 1, is_probe
            result = next(self._results, None)
            if result is None:
                return np.nan, np.nan
            w = result.x
            self._has_no_loss = result.fun - 0.5 * np.dot(w, w) / self._grid[k] <= NO_LOSS * result.fun
            self._points = {j: self._points[j] for j in {best, k - 1} & self._points.keys()} | {k: w}
            self._scores[k] = self._score(k, self._test)
            return self._scores[k], result.gap

    def score_training(self, k):
        """Return the score of the k-th C on the training examples; its first value is kept."""
        with self._named():
            if k not in self._training:
                self._training[k] = self._score(k, self._train)
            return self._training[k]

    def has_learnt_all(self, k):
        """Whether larger C change nothing that counts: no training error is left, nor any loss, or nothing has changed.

        Without the first, nothing changes either between two C that are too small, where all is the largest class.
        """
        X, y, metadata = self._train
        is_as_before = k > 0 and self._scores[k] == self._scores[k - 1]
        with self._named(), config_context(assume_finite=True):
            if not (self._has_no_loss or is_as_before) or self._at(k).score(X, y, **metadata) < 1.0:
                return False
            return self._has_no_loss or (
                np.array_equal(*(np.hstack(self._at(j).predict(self._test[0])) for j in (k - 1, k)))
                and self.score_training(k) <= self.score_training(k - 1))

    def _score(self, k, examples):
        X, y, metadata = examples
        with config_context(assume_finite=True):        # X has been checked
            return self._scorer(self._at(k), X, y, **metadata)

    def _at(self, k):
        return self._estimator._at(self._fitted, self._points[k])

    def _path(self, stop):
        """Yield the result of every solve, until a callback stops the path."""
        X, y, metadata = self._train
        risk, self._fitted = self._estimator._prepare(X, y, metadata.get("sample_weight"))
        self._enough.start = float(risk.values(np.zeros(risk.dim))[0].sum())
        callbacks = [*self._estimator._watch(self._fitted, X, y), stop, self._enough]
        for result in runs(self._plan, risk, callback=callbacks, **self._estimator._options()):
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            yield result

    @contextmanager
    def _named(self):
        try:
            yield
        except Exception as error:
            error.add_note(f"in fold {self._number} of the search over C")
            raise


class _Enough:
    """End a solve when its gap is small enough for a score: a share of what training has gained over w = 0, if given.

    A gap relative to F says little if C is small: F is then mostly loss, and training hardly lowers it.
    """

    ends_path = False

    def __init__(self, share):
        self._share = share

    def __call__(self, progress):
        gap = progress.fun - progress.lower_bound
        if self.is_probe:
            return gap <= PROBE_GAP * progress.fun
        return self._share is not None and gap <= self._share * min(progress.fun, self.start - progress.fun)
