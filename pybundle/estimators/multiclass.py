"""Linear support vector machines for two or more classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ..core.exceptions import InputTypeError, ParameterError, StateError
from ..core.labels import example_weights
from ..core.measurements import warn_of_measurements
from ..core.types import Array, Callbacks, Data, Floats
from ..core.validation import check_integer, check_number
from ..risks import BinaryHinge, MulticlassHinge
from .base import CertifiedEstimator, documented
from .collections import by_blocks
from .compat import validate_data
from .labels import merged_classes


@documented()
class MulticlassSVM(ClassifierMixin, CertifiedEstimator):
    """Linear support vector machine for two or more classes, trained to a certified gap.

    Three classes or more (Crammer and Singer), `w_k` being the rows of `coef_`:

        F(W) = |W|^2 / (2 C) + sum_i c_i max_k [ [k != y_i] + <w_k - w_{y_i}, x_i> ]

    Two classes, with labels -1, +1: `F(w) = |w|^2 / (2 C) + sum_i c_i max(0, 1 - y_i <w, x_i>)`. Both are objectives of
    scikit-learn's `LinearSVC` (`multi_class="crammer_singer"`, `loss="hinge"`).

    Parameters
    ----------
    {parameters}
    fit_intercept : bool
        Adds a constant feature of value `intercept_scaling`. Its weight is *regularised* like the others, as in
        `LinearSVC`; a large `intercept_scaling` makes that negligible, at the price of more iterations. Data that are
        centred do without.
    intercept_scaling : float
    class_weight : dict, "balanced" or None
        Factors of the weights c_i by class; "balanced" makes the weights of all classes sum to the same number.
    loss : ndarray, shape (K, K), optional
        Cost `loss[truth, label]` >= 0 instead of `[label != truth]`, classes in the order of `classes_`; three classes
        or more.

    Attributes
    ----------
    coef_ : ndarray, shape (K, d), or (1, d) for two classes
    intercept_ : ndarray, shape (K,) or (1,)
    classes_, class_weight_ : ndarray, shape (K,)
        Classes and the factors of their weights.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where X had names.
    {certificate}

    Notes
    -----
    X (n, d) may be dense (float32, float64, uint8) or CSR (float32, float64), which is not copied, y (n,) holds classes
    of any type that can be sorted. float32 data are searched in float32 and certified in float64. `tol=1e-3` moves
    predictions on the border between classes, 0.3 % of them on 1437 digits; small tolerances (1e-6 to 1e-10) are for
    coefficients and scores that are to be compared.

    Examples
    --------
    >>> import pybundle as pb
    >>> X, y, X_test, y_test = pb.datasets.load_digits()
    >>> svm = pb.MulticlassSVM(C=1.0).fit(X, y)
    >>> svm.score(X_test, y_test) > 0.95, svm.gap_ <= 1e-3, svm.certified_
    (True, True, True)
    >>> labels, scores = svm.k_best(X_test[:5], k=2)
    >>> labels.shape
    (5, 2)
    """

    def __init__(self, C: float = 1.0, *, fit_intercept: bool = True, intercept_scaling: float = 1.0,
                 class_weight: dict[Any, float] | str | None = None, loss: Any = None, tol: float = 0.001,
                 method: str = "auto", max_iter: int | None = None, time_limit: float | None = None,
                 n_jobs: int | None = None, random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self.C = C
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.loss = loss
        self.tol = tol
        self.method = method
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _take(self, X, y, sample_weight):
        X, y = validate_data(self, X, y, **FORMATS)
        check_classification_targets(y)
        weights = example_weights(sample_weight, len(y))
        kept = np.flatnonzero(weights)
        if len(kept) < len(y):      # a class that has none else is not there
            X, y, weights = X[kept], y[kept], weights[kept]
        return X, y, weights

    def _survey(self, X, y, weights):
        """Classes, the sums of their weights, and the number of columns."""
        warn_of_measurements(y)
        classes, codes = np.unique(y, return_inverse=True)
        return classes, np.bincount(codes, weights, len(classes)), int(X.shape[1])

    def _learn(self, surveys):
        widths = sorted({width for _, _, width in surveys})
        if len(widths) > 1:
            raise ParameterError(f"X must have the same columns in all blocks, got {widths[0]} and {widths[1]}")
        found = [classes for classes, _, _ in surveys]
        classes = merged_classes(found)
        if len(classes) < 2:
            raise ParameterError(f"y must hold at least two classes, got one class only, {classes.tolist()[0]!r}")
        sums = np.bincount(np.searchsorted(classes, np.concatenate(found)),
                           np.concatenate([sums for _, sums, _ in surveys]), len(classes))
        return {"classes_": classes, "class_weight_": self._class_factors(classes, sums), "n_features_in_": widths[0]}

    def _risk(self, X, y, weights, fitted):
        classes = fitted["classes_"]
        codes = np.searchsorted(classes, y)
        weights = weights * fitted["class_weight_"][codes]
        options = {"sample_weight": weights, "bias": self._bias(), "n_classes": len(classes)}   # a block may lack some
        if len(classes) == 2:
            if self.loss is not None:
                raise ParameterError("loss must be None for two classes, got a matrix; use class_weight, which is the "
                                     "same")
            return BinaryHinge(X, 2 * codes - 1, **options)
        return MulticlassHinge(X, codes, loss=self.loss, **options)

    def _class_factors(self, classes, sums):
        """Factors of the weights by class, shape (K,); `sums` are the weights of their examples."""
        if self.class_weight is None:
            return np.ones(len(classes))
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            return sums.sum() / (len(classes) * sums)       # weighted: a weight of 2 is an example twice
        try:
            factors = compute_class_weight(self.class_weight, classes=classes, y=classes)
        except (TypeError, ValueError) as problem:
            raise ParameterError(f"class_weight must be a dictionary of weights by class, 'balanced' or None, got "
                                 f"{self.class_weight!r:.60}: {problem}") from problem
        for label, factor in zip(classes.tolist(), factors.tolist(), strict=True):
            check_number(f"class_weight[{label!r}]", factor, low=0.0)
        if np.count_nonzero(factors) < 2:
            raise ParameterError("class_weight must leave at least two classes, got weights of zero for all "
                                 f"{'but one' if factors.any() else 'of them'}")
        return factors

    def _bias(self):
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise InputTypeError(f"fit_intercept must be True or False, got {self.fit_intercept!r}")
        scaling = check_number("intercept_scaling", self.intercept_scaling, low=0.0, strict=True)
        return scaling if self.fit_intercept else None

    def _unpack(self, w):
        d = self.n_features_in_
        W = w.reshape(-1, d + bool(self.fit_intercept))
        intercept = W[:, d] * self.intercept_scaling if self.fit_intercept else np.zeros(len(W))
        return {"coef_": np.ascontiguousarray(W[:, :d]), "intercept_": intercept}

    def _check_state(self):
        super()._check_state()
        rows = 1 if len(self.classes_) == 2 else len(self.classes_)
        if len(self.classes_) < 2 or self.coef_.shape != (rows, self.n_features_in_) or \
                self.intercept_.shape != (rows,) or self.intercept_.dtype != np.float64:
            raise StateError("coef_ and intercept_ must fit classes_ and n_features_in_")

    def _last_point(self, risk, fitted):
        if not hasattr(self, "coef_") or not np.array_equal(fitted["classes_"], self.classes_):
            return None
        columns = [self.coef_]
        if self.fit_intercept:
            columns.append(self.intercept_[:, None] / self.intercept_scaling)
        w = np.hstack(columns).ravel()
        return w if len(w) == risk.dim else None

    @by_blocks
    def decision_function(self, X: Data) -> Floats:
        """Return the scores of the classes, shape (n, K); for two classes the score of `classes_[1]`, shape (n,).

        In float32 for float32 data and pixels.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **FORMATS)
        if X.dtype == np.uint8:
            X = X.astype(np.float32)        # exact
        coef, intercept = self.coef_.astype(X.dtype, copy=False), self.intercept_.astype(X.dtype, copy=False)
        scores = safe_sparse_dot(X, coef.T, dense_output=True) + intercept
        return scores[:, 0] if len(self.classes_) == 2 else scores

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
        """By how much the best class wins over the second; with y, the true class over the best other one, (n,)."""
        scores = self._all_scores(X)
        if y is None:
            top = np.partition(scores, -2, axis=1)
            return top[:, -1] - top[:, -2]
        if np.shape(y) != (len(scores),):
            raise ParameterError(f"y must have shape ({len(scores)},), one class for each example, got {np.shape(y)}")
        try:
            codes, y = np.searchsorted(self.classes_, y), np.asarray(y)
        except TypeError as problem:        # what cannot be compared with them
            raise ParameterError(f"y must hold the classes of the fit, {self.classes_.tolist()!r:.60}, got "
                                 f"{y!r:.60}") from problem
        known = self.classes_[np.minimum(codes, len(self.classes_) - 1)] == y
        if not known.all():
            raise ParameterError(f"y must hold the classes of the fit, got {y[~known].tolist()[0]!r}")
        rows = np.arange(len(scores))
        truth = scores[rows, codes]
        scores[rows, codes] = -np.inf
        return truth - scores.max(axis=1)

    def _all_scores(self, X):
        scores = self.decision_function(X)
        return np.stack([-scores, scores], axis=1) / 2.0 if scores.ndim == 1 else scores


FORMATS = {"accept_sparse": "csr", "dtype": [np.float64, np.float32, np.uint8], "order": "C"}
