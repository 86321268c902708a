"""Choose C by cross-validation: all folds solve one C, warm-started, then larger values, until these only overfit."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed

from ..core.exceptions import InputTypeError, ParameterError
from ..core.labels import example_weights
from ..core.types import Array, Callbacks, Data, Floats
from ..core.validation import check_flag, check_indices, check_number
from ..core.warn import warn_user
from ..models.batch_oracle import check_lengths
from ..runtime.callbacks import StopSignal
from ..runtime.executors import make_executor
from ..runtime.stopping import one_clock
from ..solvers.arguments import as_callbacks
from ..solvers.method import Method
from .collections import is_collection
from .compat import seed_of, unchanged_by_failure, validate_data
from .fold import Fold
from .linear_classifier import FORMATS
from .multiclass import MulticlassSVM

GRID = {
    "grid": """Cs : int or sequence of float
        The grid; a number stands for that many values from 1e-4 to 1e2 in equal factors. It is searched from small to
        large C, and no further once C overfits: the mean scores of two values in a row are below the best mean score by
        more than the standard error of the difference over the folds, and neither of their mean training scores is
        below that at the best C. If one is, or a class is not predicted yet, or little is learnt at the best C, the
        remaining values are probed: solved roughly, and in full if the score rises or is within that error of the best.
        The search also ends if larger C would change nothing, see "Choosing C" in the documentation.
    cv : int, splitter or iterable, optional
        Folds as in scikit-learn; 5 by default. The data of all folds are in memory together.
    scoring : str or callable, optional
        As in scikit-learn, names for flat labels only; `score` by default. Weights of the examples enter it.
    search_tol : float, optional
        Certified relative gap of the solves that are scored; the final fit always reaches `tol`. By default such a
        solve ends when the gap is 0.0007 of the smaller one of F(w) and F(0) - F(w), which is what training gains over
        w = 0, or 1e-5 of F(w); from 10000 examples on 0.01 in place of 0.0007. `gaps_` holds the relative gaps that
        were reached.""",
    "grid_parameters": """tol, atol, method, max_iter, time_limit : see `MulticlassSVM`
        For every solve; but `tol` and `atol` are for the final fit only, see `search_tol`, and `time_limit` applies to
        each solve.
        The callback `pb.callbacks.TimeLimit` limits all of them together.
    n_jobs : int, optional
        Folds solved at a time, in threads; the final fit uses as many threads.
    random_state : see `MulticlassSVM`
    warm_start : bool
        For the final fit.
    verbose : see `MulticlassSVM`
    callback : callable or list of callables, optional
        Watches all solves. If it asks to stop, the search ends (for `EarlyStopping` the solve of one C), and C is
        chosen among the scores so far. Every fold has its own copy.""",
    "grid_attributes": """C_ : float
        The C of the best mean score, the smallest in case of ties; the final model is fitted with it to all examples.
    Cs_ : ndarray, shape (n_Cs,)
        The grid, from small to large.
    scores_, gaps_ : ndarray, shape (n_folds, n_Cs)
        Score and certified gap of every solve; NaN if the search ended earlier.
    status_ : ndarray of str, shape (n_Cs,)
        "solved", "probed" or "not tried"; `C_` is one of the first kind.
    best_score_, best_params_, best_index_, cv_results_
        As in scikit-learn's `GridSearchCV`: the mean score of `C_`, `{"C": C_}`, its place in the grid, and for every C
        `params`, `param_C`, `split0_test_score` and so on, `mean_test_score`, `std_test_score`, `rank_test_score`, and
        its `status`.""",
}
"""Pieces of the docstrings of searches over C."""

SEARCH_TOL = 1e-5                                   # relative gap at which a solve of a search ends at the latest
FEW, SHARE_OF_FEW, SHARE = 10_000, 7e-4, 1e-2       # values of `share`: below FEW examples, and otherwise


class PathCV:
    """Mixin that searches over C for the estimator after it among the base classes."""

    C_: float
    Cs_: Floats
    scores_: Floats
    status_: Array
    _kind: Any
    _listed: Any

    def _checked(self, X, y):
        return X, y

    def fit(self, X: Data, y: Any, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None) -> Self:
        """Searches the grid, then fits with the best C on all examples; see the class for X and y.

        Parameters
        ----------
        X, y
            Data as described in the class.
        sample_weight : array, shape (n,), optional
            Weights >= 0 of the examples, in fits and in scores.
        groups : array, shape (n,), optional
            For splitters like `GroupKFold`: examples of one group are never in two folds.

        Returns
        -------
        self
            Ctrl-C during the search keeps nothing of it; during the final fit the best state so far is stored. In both
            cases KeyboardInterrupt is raised.
        """
        if is_collection(X) or is_collection(y):
            raise InputTypeError(f"X and y must be in memory for a search over C, got Dask collections; fit "
                                 f"{self._kind.__name__} to them for each C")
        with unchanged_by_failure(self):
            X, y = self._listed(X, y)
            return self._fit(X, y, sample_weight, groups)

    def _fit(self, X, y, sample_weight, groups):
        grid = self._grid()
        check_number("tol", self.tol, low=0.0)          # the final fit would check it late
        if self.search_tol is not None:
            check_number("search_tol", self.search_tol, low=0.0, strict=True)
        make_executor(self.n_jobs).close()
        check_flag("warm_start", self.warm_start)
        if isinstance(self.cv, (int, np.integer)) and self.cv < 2:
            raise ParameterError(f"cv must be at least 2 folds, one to score and one to learn from, got {self.cv}")
        data = self._checked(X, y)
        weights = None if sample_weight is None else example_weights(sample_weight, check_lengths(*data))
        folds = self._folds(data, groups)
        named = isinstance(self, MulticlassSVM) and isinstance(self.scoring, str)
        if self.scoring is not None and not named and not callable(self.scoring):
            raise InputTypeError("scoring must be a callable, or for flat labels the name of one score, since one "
                                 f"number chooses C, got {self.scoring!r:.60}")
        scorer = check_scoring(self, self.scoring)
        with one_clock(as_callbacks(self.callback)):
            scores, gaps, status = self._search(grid, data, weights, folds, scorer)
            known = np.flatnonzero(status == "solved")
            # if no C was solved, take the smallest: what stopped the folds will also stop the final fit
            best = known[int(np.argmax(scores[:, known].mean(axis=0)))] if len(known) else 0
            if 0 < best == len(grid) - 1:
                warn_user(f"the largest C of the grid, {grid[best]:g}, has the best mean score; add larger ones, which "
                          "may be better", UserWarning)
            self._found = {"C_": float(grid[best]), "Cs_": grid, "scores_": scores, "gaps_": gaps, "status_": status}
            try:
                return super().fit(X, y, sample_weight)
            finally:
                del self._found

    def _folds(self, data, groups):
        """Return for each fold the indices of the examples to learn from and to score."""
        folds, n = self._splitter(data[1]), len(data[1])
        if isinstance(folds, str) or not (folds is None or hasattr(folds, "split")
                                          or isinstance(folds, (int, np.integer, Iterable))):
            raise InputTypeError(f"cv must be a number of folds, a splitter of scikit-learn or a list of pairs (train, "
                                 f"test), got {folds!r:.60}")
        if isinstance(folds, Iterable) and not hasattr(folds, "split"):
            folds = [_checked_fold(f"cv[{k}]", fold, n) for k, fold in enumerate(folds)]
        found = list(check_cv(folds, data[1], classifier=is_classifier(self)).split(*data, groups))
        if not found:
            raise ParameterError("cv must yield at least one fold, a pair (train, test) of numbers of examples, got "
                                 "none")
        return found

    def _splitter(self, y):
        return self.cv

    def _search(self, grid, data, weights, folds, scorer):
        """Return scores and gaps, each (n_folds, n_Cs), NaN where the search has ended, and the status of every C."""
        stop, share = StopSignal(), 0.0
        if self.search_tol is None:
            share = SHARE_OF_FEW if len(data[1]) < FEW else SHARE
        scores, gaps = np.full((2, len(folds), len(grid)), np.nan)
        status = np.full(len(grid), "not tried")
        try:
            # use threads, because folds keep their paths in this process
            with Parallel(n_jobs=self.n_jobs, require="sharedmem") as parallel:
                folds = [Fold(k, self._single(), grid, scorer, stop, share, *data, weights, *fold)
                         for k, fold in enumerate(folds)]

                def each(method, *arguments):
                    return np.array(parallel(delayed(fold)(method, *arguments) for fold in folds))

                best, is_dip = 0, False
                for k in range(len(grid)):
                    for is_probe in (True, False) if is_dip else (False,):
                        scores[:, k], gaps[:, k] = each(Fold.solve, k, is_probe, best).T
                        status[k] = "probed" if is_probe else "solved"
                        if is_probe and stays_low(scores[:, :k + 1]):
                            break
                    if np.isnan(gaps[:, k]).any():
                        status[k] = "not tried"
                        break
                    best = int(np.argmax(scores[:, :k + 1].mean(axis=0)))
                    if each(Fold.has_learnt_all, k).all():
                        break
                    if not is_dip and has_fallen(scores[:, :k + 1]):
                        # a fall is overfitting if training scores have not fallen and every fold has learnt
                        # enough; else the fall may be temporary, and larger C are probed
                        training = [each(Fold.score, j).mean() for j in (best, k - 1, k)]
                        is_dip = (min(training[1:]) < training[0] or each(Fold.has_learnt_little, best).any()
                                  or each(Fold.misses_a_class, k).any())
                        if not is_dip and stays_low(scores[:, :k + 1]):
                            break
        except BaseException:
            stop.set()                      # Ctrl-C and errors of one fold end the threads of the others
            raise
        return scores, gaps, status

    @property
    def best_index_(self) -> int:
        """Number of the best C in the grid."""
        return int(np.searchsorted(self.Cs_, self.C_))

    @property
    def best_params_(self) -> dict[str, Any]:
        """The best C in the form of scikit-learn's searches."""
        return {"C": self.C_}

    @property
    def best_score_(self) -> float:
        """Mean score of the best C."""
        return float(self.scores_[:, self.best_index_].mean())

    @property
    def cv_results_(self) -> dict[str, Any]:
        """The scores as a dictionary of columns, one row per C, in the form of scikit-learn's searches."""
        mean = self.scores_.mean(axis=0)
        ranks = rankdata(-np.where(np.isnan(mean), -np.inf, mean), method="min")      # C without a score comes last
        return {"params": [{"C": C} for C in self.Cs_.tolist()], "param_C": np.ma.MaskedArray(self.Cs_),
                **{f"split{k}_test_score": row for k, row in enumerate(self.scores_)},
                "mean_test_score": mean, "std_test_score": self.scores_.std(axis=0),
                "rank_test_score": ranks.astype(np.int32), "status": self.status_}

    def _grid(self):
        if isinstance(self.Cs, (int, np.integer)) and not isinstance(self.Cs, bool):
            if self.Cs < 1:
                raise ParameterError(f"Cs must be at least 1, got {self.Cs}")
            return np.logspace(-4.0, 2.0, self.Cs)
        is_list = isinstance(self.Cs, (list, tuple, range)) or (isinstance(self.Cs, np.ndarray) and self.Cs.ndim == 1)
        if not is_list or len(self.Cs) == 0:
            raise ParameterError(f"Cs must be a number of values or a sequence of them, got {self.Cs!r:.60}; one value "
                                 "is [value]")
        return np.unique([check_number("Cs", C, low=0.0, strict=True) for C in self.Cs])

    def _check_state(self):
        super()._check_state()
        self._grid()

    def _lam(self):
        return 1.0 / self._found["C_"]

    def _store(self, result, fitted):
        super()._store(result, fitted | self._found)

    def _single(self):
        """Return the estimator of one fold, whose C the path sets."""
        names = self._kind().get_params()
        parameters = {name: copy.deepcopy(value) for name, value in self.get_params(deep=False).items()
                      if name in names}
        tol = SEARCH_TOL if self.search_tol is None else self.search_tol
        seed = seed_of(self.random_state)       # threads must not share a generator
        made = self._kind(**parameters | {"tol": tol, "atol": None, "n_jobs": None, "warm_start": False,
                                          "random_state": seed})
        made._further = self._further
        return made


def _checked_fold(name, fold, n):
    try:
        train, test = fold
    except (TypeError, ValueError) as problem:
        raise ParameterError(f"{name} must be a pair (train, test) of numbers of examples, got "
                             f"{fold!r:.60}") from problem
    pair = []
    for part, rows in (("train", train), ("test", test)):
        rows = np.asarray(rows)
        if rows.dtype == np.bool_ and rows.shape == (n,):
            rows = np.flatnonzero(rows)
        if rows.size == 0:
            raise ParameterError(f"{part} of {name} must hold at least one example, got none")
        pair.append(check_indices(f"{part} of {name}", rows, n))
    return tuple(pair)


def are_below(scores):
    """Return which means over the folds lie below the best by more than the standard error of the difference, (n_Cs,).

    The folds are taken as independent, as in the one-standard-error rule [Breiman, Friedman, Olshen, Stone 1984].
    """
    if len(scores) < 2 or not np.isfinite(scores).all():
        return np.zeros(scores.shape[1], dtype=bool)
    mean, error = scores.mean(axis=0), scores.std(axis=0, ddof=1) / np.sqrt(len(scores))
    best = np.argmax(mean)
    return mean < mean[best] - np.hypot(error, error[best])


def has_fallen(scores):
    """Return whether the last two means over the folds lie below the best by more than chance explains."""
    return scores.shape[1] > 2 and bool(are_below(scores)[-2:].all())


def stays_low(scores):
    """Return whether the last mean lies below the best by more than chance explains, and has not risen."""
    before, last = scores.mean(axis=0)[-2:]
    return are_below(scores)[-1] and last <= before


class MulticlassSVMCV(PathCV, MulticlassSVM):
    """`MulticlassSVM` whose C is chosen by cross-validation, with one warm-started path per fold.

    Planes and multipliers do not depend on C, so each solve of a fold starts where the one before ended.

    Parameters
    ----------
    {grid}
    fit_intercept, intercept_scaling, class_weight, loss : see `MulticlassSVM`
    {grid_parameters}

    Attributes
    ----------
    {grid_attributes}
    coef_, intercept_, classes_, n_features_in_, feature_names_in_ : see `MulticlassSVM`
    {certificate}

    Examples
    --------
    >>> import pybundle as pb
    >>> X, y, X_test, y_test = pb.datasets.load_digits()
    >>> svm = pb.MulticlassSVMCV([0.01, 0.1, 1.0], cv=3, tol=1e-2).fit(X, y)
    >>> svm.scores_.shape, svm.C_ in svm.Cs_, svm.score(X_test, y_test) > 0.95
    ((3, 3), True, True)
    """

    _pieces = GRID
    _kind = MulticlassSVM

    def __init__(self, Cs: int | ArrayLike = 8, *, cv: Any = None, scoring: Any = None, search_tol: float | None = None,
                 fit_intercept: bool = True, intercept_scaling: Any = 1.0,
                 class_weight: dict[Any, float] | str | None = None, loss: Any = None, tol: float = 0.001,
                 atol: float | None = None, method: str | Method = "auto", max_iter: int | None = None,
                 time_limit: float | None = None, n_jobs: int | None = None, random_state: Any = None,
                 warm_start: Any = False, verbose: int = 0, callback: Callbacks = None) -> None:
        self._take_arguments(locals())

    def _checked(self, X, y):
        return validate_data(self, X, y, **FORMATS)
