"""`MetricSVM` is a linear classifier of two classes, trained for a measure of the whole sample."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import InputTypeError, ParameterError
from ..core.labels import example_weights
from ..core.types import Callbacks, Data
from ..core.validation import check_choice, check_integer, check_number
from ..metrics import concordance, precision
from ..risks import FScore, PrecisionAtK, ROCArea
from ..solvers.method import Method
from .collections import is_collection
from .linear_classifier import LinearClassifierEstimator

METRICS = ("f1", "fbeta", "precision_at_k", "roc_auc")


class MetricSVM(LinearClassifierEstimator):
    """Linear classifier of two classes, trained to a certified gap for a measure of the whole sample.

        F(w) = |w|^2 / (2 C) + R(w)

    R is `pb.risks.FScore`, `PrecisionAtK` or `ROCArea`; `classes_[1]` is the positive class. On the data sets tried it
    was no better than a hinge or logistic regression with validated C, class weight and threshold; what it saves is the
    validation of the latter two. If the classes overlap much, w = 0 can be the minimiser: then a warning is given, and
    `pb.MulticlassLogistic` is the better choice.

    Parameters
    ----------
    {C}
    metric : {"f1", "fbeta", "precision_at_k", "roc_auc"}
        The measure; `score` returns it.
    k : int, optional
        For "precision_at_k", the number of rows with the highest scores, from 1 to n in `fit` and in `score`. By
        default the number of positive rows. If k is larger than that, the measure is the recall at k.
    beta : float
        For "fbeta", from 0.001 to 1000: recall counts beta times as much as precision.
    intercept_scaling : float
        Value of the constant feature whose weight, regularised like the others, is the intercept for "f1" and "fbeta".
    {parameters}

    Attributes
    ----------
    coef_ : ndarray, shape (1, d)
    intercept_ : ndarray, shape (1,)
        Other metrics do not depend on it: it is then chosen after the fit, so that `predict` labels k rows of the
        training data positive, for "roc_auc" as many as are positive; fewer if scores are equal.
    classes_ : ndarray, shape (2,)
        The classes in sorted order; the second is the positive one.
    n_features_in_ : int
    feature_names_in_ : ndarray
        If X had names.
    {certificate}

    Notes
    -----
    X (n, d) may be dense or CSR, as for `MulticlassSVM`, but not a Dask collection. A pass costs O(nnz(X) + n log n).
    Single rows have no weights.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 5))
    >>> y = X[:, 0] + 0.3 * rng.standard_normal(1000) > 1.5
    >>> model = pb.MetricSVM(metric="f1").fit(X, y)
    >>> model.converged_, model.score(X, y) > 0.75
    (True, True)
    """

    class_weight = None
    _training: Any = None       # in a fit: the risk, and how many rows `predict` labels positive

    def __init__(self, C: float = 1.0, *, metric: str = "f1", k: int | None = None, beta: float = 1.0,
                 intercept_scaling: float = 1.0, tol: float = 1e-3, atol: float | None = None,
                 method: str | Method = "auto", max_iter: int | None = None, time_limit: float | None = None,
                 n_jobs: int | None = None, random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self._take_arguments(locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @property
    def fit_intercept(self) -> bool:        # type: ignore[override]
        """Whether an intercept is trained: only F-scores depend on it."""
        return check_choice("metric", self.metric, METRICS).startswith("f")

    def fit(self, X: Data, y: Any) -> Self:         # type: ignore[override]
        """Trains on the rows X (n, d) with the two classes y (n,); result and errors as in `MulticlassSVM.fit`."""
        if is_collection(X) or is_collection(y):
            raise InputTypeError("X and y must be in memory for MetricSVM, got Dask collections; minimise "
                                 "pb.risks.FScore with executor= the client")
        super().fit(X, y)
        if not self.coef_.any():
            warnings.warn("all weights are 0: C is too small, or the classes overlap too much for metric="
                          f"{self.metric!r}; take MulticlassLogistic and choose a threshold", stacklevel=2)
        return self

    def _learn(self, surveys):
        fitted = super()._learn(surveys)
        del fitted["class_weight_"]
        if len(fitted["classes_"]) > 2:
            raise ParameterError(f"y must hold two classes, got {len(fitted['classes_'])}. Only binary classification "
                                 "is supported. The type of the target is multiclass.")
        return fitted

    def _risk(self, X, y, weights, fitted):
        positive = y == fitted["classes_"][1]
        if self.fit_intercept:
            scaling = check_number("intercept_scaling", self.intercept_scaling, low=0.0, strict=True)
            return FScore(X, positive, self._beta(), bias=scaling)
        k = self._k(positive)
        risk = ROCArea(X, positive) if self.metric == "roc_auc" else PrecisionAtK(X, positive, k)
        self._training = risk, k
        return risk

    def _beta(self):
        return self.beta if self.metric == "fbeta" else 1.0

    def _k(self, positive):
        if self.k is None or self.metric == "roc_auc":
            return int(positive.sum())
        return check_integer("k", self.k, low=1, high=len(positive))

    def _solve(self, risk, fitted, X, y):
        try:
            return super()._solve(risk, fitted, X, y)
        finally:
            self._training = None

    def _unpack(self, w):
        found = super()._unpack(w)
        if self._training is not None:
            risk, k = self._training
            # the threshold is halfway between scores k and k + 1, or below the last score
            ranked = np.sort(risk._scores(w))[::-1]
            found["intercept_"] = -np.append(ranked, ranked[-1] - 1.0)[k - 1:k + 1].mean(keepdims=True)
        return found

    def score(self, X: Data, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the metric on the rows X with the classes y (n,): F-scores of predictions, the others of scores.

        Rows of equal scores are put in the worst order for "precision_at_k", and count half for "roc_auc". Raises
        ParameterError if y lacks a class or has others, if k > n, or if weights in `sample_weight` differ.
        """
        found, y = self.decision_function(X), np.asarray(y)
        if y.shape != found.shape:
            raise ParameterError(f"y must have shape {found.shape}, one class for each row of X, got {y.shape}")
        positive = y == self.classes_[1]
        if not np.isin(y, self.classes_).all() or not 0 < (n := int(positive.sum())) < len(y):
            raise ParameterError(f"y must hold both classes of the fit, {self.classes_.tolist()!r:.60}, and no other, "
                                 f"got {np.unique(y).tolist()!r:.60}; use fewer folds in a search")
        if np.ptp(example_weights(sample_weight, len(y))) != 0.0:
            raise ParameterError("sample_weight must be equal for all rows, which have no weights in a measure of the "
                                 "whole sample; leave it out")
        if self.fit_intercept:
            square, labelled = self._beta()**2, found > 0.0
            return float((1.0 + square) * (labelled & positive).sum() / (square * n + labelled.sum()))
        k = self._k(positive)
        return concordance(positive, found) if self.metric == "roc_auc" else (
            precision(positive, found, k=k) * k / min(k, n))
