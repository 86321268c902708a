"""Base class of linear classifiers: classes and their weights, scores, predictions and margins."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ..core.exceptions import ParameterError, StateError
from ..core.labels import example_weights
from ..core.measurements import warn_of_measurements
from ..core.types import Array, Data, Floats
from ..core.validation import check_integer, check_number
from ..features.shift import scores
from ..prox import Separable
from .base import without_weightless
from .collections import by_blocks
from .compat import validate_data
from .flat import FlatEstimator
from .labels import class_factors, merged_classes
from .penalty import elastic_net
from .weights import NamedWeights

FORMATS = {"accept_sparse": "csr", "dtype": [np.float64, np.float32, np.uint8], "order": "C"}


class LinearClassifierEstimator(ClassifierMixin, NamedWeights, FlatEstimator):
    """Base class of classifiers with the scores `<w_k, x> + b_k`; a subclass defines `_risk`.

    Two classes have one score, that of the second.
    """

    l1_ratio: float = 0.0       # for subclasses without this parameter
    intercept_scaling: float = 1.0
    class_weight: Any
    _intercept_is_free = False

    def _take(self, X, y, sample_weight):
        X, y = validate_data(self, X, y, **FORMATS)
        check_classification_targets(y)
        return without_weightless(X, y, example_weights(sample_weight, len(y)))

    def _survey(self, X, y, weights):
        """Return the classes, the sums of their weights, and the number of columns."""
        warn_of_measurements(y)
        classes, codes = np.unique(y, return_inverse=True)
        return classes, np.bincount(codes, weights, len(classes)), int(X.shape[1])

    def _learn(self, surveys):
        widths = sorted({width for _, _, width in surveys})
        if len(widths) > 1:
            raise ParameterError(f"X must have the same columns in all blocks, got {widths[0]} and {widths[1]}")
        classes = merged_classes([survey[0] for survey in surveys])
        if len(classes) < 2:
            raise ParameterError(f"y must hold at least two classes, got one class only, {classes.tolist()[0]!r}")
        return {"classes_": classes, "n_features_in_": widths[0],
                "class_weight_": class_factors(self.class_weight, classes, surveys)}

    def _penalty(self, fitted):
        """Return the elastic net. Weights of the first class without a penalty are fixed at 0.

        This is allowed because a vector added to the weights of all classes changes no loss.
        """
        n_classes, lam, is_free = len(fitted["classes_"]), self._lam(), self._is_free()
        if n_classes == 2 or not is_free.any():
            return elastic_net(lam, self.l1_ratio)
        rho = check_number("l1_ratio", self.l1_ratio, low=0.0, high=1.0)
        rates, bounds = np.tile(np.where(is_free, 0.0, lam), n_classes), np.full(n_classes * len(is_free), np.inf)
        bounds[np.flatnonzero(is_free)] = 0.0
        return {"penalty": Separable(l2=(1.0 - rho) * rates, l1=rho * rates, lower=-bounds, upper=bounds)}

    def _is_free(self):
        """Return which columns of the weights have no penalty."""
        is_free = np.full(self.n_features_in_ + bool(self.fit_intercept), self._lam() == 0.0)
        is_free[self.n_features_in_:] |= self._intercept_is_free
        return is_free

    def _unpack(self, w):
        d, W = self.n_features_in_, w.reshape(-1, self.n_features_in_ + bool(self.fit_intercept))
        if len(W) > 1 and self._shift is None:          # subtraction would round large intercepts
            W = W - np.where(self._is_free(), W.mean(axis=0), 0.0)
        intercept = W[:, d:].sum(axis=1) * self.intercept_scaling
        return {"coef_": W[:, :d].astype(self._dtype), "intercept_": intercept.astype(self._dtype)}

    def _last_point(self, risk, fitted):
        if not hasattr(self, "coef_") or not np.array_equal(fitted["classes_"], self.classes_):
            return None
        W, n = self._dense_coef(), self.n_features_in_ + bool(self.fit_intercept)
        if self.fit_intercept:
            W = np.hstack([W, self.intercept_[:, None] / self.intercept_scaling])
        if W.shape[1] != n or W.size != risk.dim:
            return None
        is_free = self._is_free()
        is_free[self.n_features_in_:] &= getattr(self, "centre_", None) is None
        return (W - np.where(is_free, W[0], 0.0) if len(W) > 1 else W).ravel()

    def _check_state(self):
        super()._check_state()
        rows = 1 if len(self.classes_) == 2 else len(self.classes_)
        if len(self.classes_) < 2 or self.coef_.shape != (rows, self.n_features_in_) or \
                self.intercept_.shape != (rows,) or self.intercept_.dtype not in self._dtypes:
            raise StateError("coef_ and intercept_ must fit classes_ and n_features_in_")

    @by_blocks
    def decision_function(self, X: Data) -> Floats:
        """Return the scores of the classes, shape (n, K); for two classes the score of `classes_[1]`, shape (n,).

        The scores are float32 if X is float32 or uint8.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **FORMATS)
        if X.dtype == np.uint8:
            X = X.astype(np.float32)        # every pixel is exact in float32
        found = scores(X, self.coef_, self.intercept_, getattr(self, "centre_", None)).astype(X.dtype, copy=False)
        return found[:, 0] if len(self.classes_) == 2 else found

    @by_blocks
    def predict(self, X: Data) -> Array:
        """Classes of the examples X (n, d), shape (n,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def k_best(self, X: Data, k: int = 3) -> tuple[Array, Floats]:
        """The k classes of largest score, best first.

        Returns
        -------
        labels, scores : ndarray, shape (n, min(k, K))
            Two classes have `-f/2` and `f/2`, f being `decision_function`.
        """
        k, scores = check_integer("k", k, low=1), self._all_scores(X)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return self.classes_[order], np.take_along_axis(scores, order, axis=1)

    def margins(self, X: Data, y: Any = None) -> Floats:
        """Return the lead of the best class over the second or, with y, of the true class over the best other, (n,)."""
        scores = self._all_scores(X)
        if y is None:
            top = np.partition(scores, -2, axis=1)
            return top[:, -1] - top[:, -2]
        if np.shape(y) != (len(scores),):
            raise ParameterError(f"y must have shape ({len(scores)},), one class for each example, got {np.shape(y)}")
        try:
            codes, y = np.searchsorted(self.classes_, y), np.asarray(y)
        except TypeError as problem:        # y cannot be compared with the classes
            raise ParameterError(f"y must hold the classes of the fit, {self.classes_.tolist()!r:.60}, got "
                                 f"{y!r:.60}") from problem
        known = self.classes_[np.minimum(codes, len(self.classes_) - 1)] == y
        if not known.all():
            raise ParameterError(f"y must hold the classes of the fit, got {y[~known].tolist()[0]!r}")
        rows = np.arange(len(scores))
        truth = scores[rows, codes]
        scores[rows, codes] = -np.inf
        return truth - scores.max(axis=1)

    def _class_weights(self):
        """Return a row for each class; with two classes, the first row is minus the second row."""
        if len(self.classes_) > 2:
            return self.coef_
        return (sp.vstack if sp.issparse(self.coef_) else np.vstack)([-self.coef_, self.coef_])

    def _feature_names(self):
        names = getattr(self, "feature_names_in_", None)
        return self._column_names if names is None else names.tolist()

    def _all_scores(self, X):
        scores = self.decision_function(X)
        return np.stack([-scores, scores], axis=1) / 2.0 if scores.ndim == 1 else scores
