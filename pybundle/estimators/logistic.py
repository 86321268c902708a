"""Multinomial logistic regression."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, log_softmax, softmax

from ..core.types import Callbacks, Data, Floats
from ..features.shift import locate
from ..models import Multiclass
from ..risks import Logistic, Structured
from ..solvers.method import Method
from .collections import by_blocks
from .linear_classifier import LinearClassifierEstimator
from .probabilities import Probabilities
from .regression import shift_of


class MulticlassLogistic(Probabilities, LinearClassifierEstimator):
    """Logistic regression for two or more classes, trained to a certified gap.

    Three classes or more, `w_k` being the rows of `coef_` and `b_k` the entries of `intercept_`:

        F(W, b) = (rho |W|_1 + (1 - rho)/2 |W|^2) / C - sum_i c_i log p(y_i | x_i),
        p(k | x) proportional to exp(<w_k, x> + b_k)

    Two classes have one row, `p(classes_[1] | x) = 1 / (1 + exp(-<w, x> - b))`. Up to the factor 1/C this is the
    objective of `sklearn.linear_model.LogisticRegression` with `l1_ratio = rho`.

    Parameters
    ----------
    {C}
    l1_ratio : float in [0, 1]
        Share rho of the l1 norm in the penalty; with 1 many weights are exactly 0.
    fit_intercept : bool
        Adds intercepts, which the penalty leaves free.
    class_weight : dict, "balanced" or None
        Factors of the weights c_i by class; "balanced" makes the weights of all classes sum to the same number.
    {parameters}

    Attributes
    ----------
    coef_ : ndarray, shape (K, d), or (1, d) for two classes
    intercept_ : ndarray, shape (K,) or (1,)
        For three classes or more their mean is 0, unless a column lies far from 0: a common shift changes nothing.
    classes_, class_weight_ : ndarray, shape (K,)
        Classes in sorted order, the second of two is the positive one; factors of their weights.
    n_features_in_, feature_names_in_ : int, ndarray
        Number of columns of X; their names, where X had some.
    {certificate}

    Notes
    -----
    X (n, d) may be dense or CSR, float32 or float64. For three classes or more with intercepts, X is copied once with a
    column of ones; steps are those of centred columns. A pass costs O(nnz(X) K). An iteration takes
    one, and for two classes with few columns also the Hessian.

    If X is float32 and no column lies far from 0, `coef_` and `intercept_` are float32, as of `LogisticRegression`:
    rounded from the float64 point to which `objective_`, `gap_` and `certificate_` refer.

    Examples
    --------
    >>> import pybundle as pb
    >>> X, y, X_test, y_test = pb.datasets.load_digits()
    >>> model = pb.MulticlassLogistic(C=0.1).fit(X, y)
    >>> model.score(X_test, y_test) > 0.9, model.certified_
    (True, True)
    >>> model.predict_proba(X_test).shape
    (360, 10)
    """

    _log_loss = _intercept_is_free = True
    _dtypes = (np.float64, np.float32)

    def __init__(self, C: float = 1.0, *, l1_ratio: float = 0.0, fit_intercept: bool = True,
                 class_weight: dict[Any, float] | str | None = None, tol: float = 0.001, atol: float | None = None,
                 method: str | Method = "auto", max_iter: int | None = None, time_limit: float | None = None,
                 n_jobs: int | None = None, random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self._take_arguments(locals())

    def _survey(self, X, y, weights):
        return *super()._survey(X, y, weights), X.dtype, locate(X, None, weights) if self._has_intercept() else None

    def _learn(self, surveys):
        fitted = super()._learn([survey[:-2] for survey in surveys]) | shift_of(surveys)
        is_single = fitted["centre_"] is None and all(survey[-2] == np.float32 for survey in surveys)
        # with columns far from 0 intercepts are too large for float32
        return fitted | {"_dtype": np.float32 if is_single else np.float64}

    def _risk(self, X, y, weights, fitted):
        n_classes, has_intercept = len(fitted["classes_"]), self._has_intercept()
        codes = np.searchsorted(fitted["classes_"], y)
        weights = weights * fitted["class_weight_"][codes]
        shift = fitted["_shift"]
        if n_classes == 2:
            risk = Logistic(X, 2 * codes - 1, sample_weight=weights, fit_intercept=has_intercept, n_classes=2)
            return risk if shift is None else risk.moved(shift)
        X = X if shift is None else shift.data(X)
        if has_intercept:
            ones = np.ones((len(y), 1), dtype=X.dtype)
            X = sp.hstack([X, ones], format="csr") if sp.issparse(X) else np.hstack([X, ones])
        risk = Structured(Multiclass(n_classes, X.shape[1]), X, codes, loss="logistic", sample_weight=weights)
        risk.shift = shift
        return risk

    @by_blocks
    def predict_proba(self, X: Data) -> Floats:
        """Return p(k | x) of the examples X (n, d), shape (n, K), columns in the order of `classes_`."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.stack([expit(-scores), expit(scores)], axis=1)
        return softmax(scores, axis=1)

    @by_blocks
    def predict_log_proba(self, X: Data) -> Floats:
        """Return log p(k | x), shape (n, K): finite, too, where `predict_proba` rounds to 0."""
        return log_softmax(self._all_scores(X), axis=1)
