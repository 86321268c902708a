"""One fold of a search over C: a path of warm-started solves, and the scores of its points."""

import numpy as np
from sklearn import config_context
from sklearn.utils import _safe_indexing

from ..core.exceptions import ParameterError
from ..runtime.result import Status
from ..solvers.path import Grid, runs

PROBE_GAP = 0.1
"""Gap at which a probe may end, relative to the smaller of F(w) and the decrease of F since the previous C."""
LITTLE = 0.5
"""`lam |w|^2 / (R(0) - R(w))` counts as large from this number on. The ratio is at most 1, and is 1 if R is linear from
0 to w."""
NO_LOSS = 1e-3
"""Training losses below this fraction of F count as 0, and below this fraction of F(0) as small."""
NO_CLASS = 5e-3
"""Fraction of the training labels below which a class need not be predicted."""


class Fold:
    """The path of one fold from small to large C; calling it runs one of its methods, and errors name the fold."""

    def __init__(self, number, estimator, grid, scorer, stop, share, X, y, weights, train, test):
        self._number, self._estimator, self._grid, self._scorer = number, estimator, grid, scorer
        self._train, self._test = ((*(_safe_indexing(data, rows) for data in (X, y)),
                                    {} if weights is None else {"sample_weight": weights[rows]})
                                   for rows in (train, test))
        self._plan = Grid(list(1.0 / grid))         # largest lam first
        self._results, self._points = self._solves(stop, share), {}
        self._losses, self._penalties = np.full((2, len(grid)), np.nan)

    def __call__(self, method, *arguments):
        try:
            return method(self, *arguments)
        except Exception as error:
            error.add_note(f"in fold {self._number} of the search over C")
            raise

    def solve(self, k, is_probe, best):
        """Return score and gap of the k-th C, which a probe may have solved roughly; NaN if the path was stopped.

        Keeps the points of this C, of the one before and of the best one.
        """
        self._plan.n = k - 1
        # the objective at the point where a probe starts
        self._before = (self._losses[k - 1] + self._penalties[k - 1] * self._grid[k - 1] / self._grid[k]
                        if is_probe else -np.inf)
        result = next(self._results, None)
        if result is None:
            return np.nan, np.nan
        w = result.x
        self._penalties[k] = 0.5 * np.dot(w, w) / self._grid[k]
        self._losses[k] = result.fun - self._penalties[k]
        self._points = {j: self._points[j] for j in {best, k - 1} & self._points.keys()} | {k: w}
        return self.score(k, is_training=False), result.gap

    def score(self, k, is_training=True):
        """Return the score of the k-th C."""
        X, y, metadata = self._train if is_training else self._test
        with config_context(assume_finite=True):        # X has been checked
            score = self._scorer(self._at(k), X, y, **metadata)
        if not (np.ndim(score) == 0 and np.isfinite(score)):
            raise ParameterError(f"scoring must return finite numbers, got {score!r:.40}")
        return float(score)

    def misses_a_class(self, k):
        """Return whether a class of the training examples is never predicted for them: a larger C may learn it."""
        if getattr(self._train[1], "dtype", np.dtype(int)).names:
            return False                # y has grades and groups, not classes
        classes, counts = np.unique(np.hstack(self._train[1]), return_counts=True)
        return not np.isin(classes[counts >= NO_CLASS * counts.sum()], self._predict(k, self._train)).all()

    def has_learnt_little(self, k):
        """Return whether R is nearly linear up to w: few examples have left the margin, and scores are accidental."""
        return 2.0 * self._penalties[k] >= LITTLE * (self._start - self._losses[k])

    def has_learnt_all(self, k):
        """Return whether a larger C changes nothing: losses are nearly 0, or small while predictions stay the same.

        Equal predictions alone say little: two values of C that are too small both predict the largest class.
        """
        X, y, metadata = self._train
        if self._losses[k] > NO_LOSS * self._start or self._at(k).score(X, y, **metadata) < 1.0:
            return False
        return self._losses[k] <= NO_LOSS * (self._losses[k] + self._penalties[k]) or bool(
            k > 0 and np.array_equal(*(self._predict(j, self._test) for j in (k - 1, k)))
            and self.score(k) <= self.score(k - 1))

    def _predict(self, k, examples):
        return np.hstack(self._at(k).predict(examples[0]))

    def _at(self, k):
        return self._estimator._at(self._fitted, self._points[k])

    def _solves(self, stop, share):
        """Yield the result of every solve, until a callback stops the path.

        A gap relative to F says little if C is small, since training then hardly lowers F. So a solve ends when the gap
        is this `share` of what training has gained over w = 0. A probe starts at the point of the previous C, and also
        ends when the gap is a small share of what it has gained over that point.
        """
        X, y, metadata = self._train
        risk, self._fitted = self._estimator._prepare(X, y, **({"sample_weight": None} | metadata))
        self._start = float(risk.values(np.zeros(risk.dim))[0].sum())       # R(0)

        def is_enough(progress):
            fun = progress.fun
            return fun - progress.lower_bound <= max(share * min(fun, self._start - fun),
                                                     PROBE_GAP * min(fun, self._before - fun))

        is_enough.ends_path = False
        callbacks = [*self._estimator._watch(self._fitted, X, y), stop, is_enough]
        for result in runs(self._plan, risk, callback=callbacks, **self._estimator._options()):
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            yield result
