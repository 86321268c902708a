"""Multinomial logistic regression."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, softmax

from ..core.types import Callbacks, Data, Floats
from ..core.validation import check_number
from ..features.shift import locate
from ..models import Multiclass
from ..prox import Separable
from ..risks import Logistic, Structured
from .base import documented
from .linear_classifier import LinearClassifierEstimator
from .regression import shift_of


@documented()
class MulticlassLogistic(LinearClassifierEstimator):
    """Logistic regression for two or more classes, trained to a certified gap.

    Three classes or more, `w_k` being the rows of `coef_` and `b_k` the entries of `intercept_`:

        F(W, b) = (rho |W|_1 + (1 - rho)/2 |W|^2) / C - sum_i c_i log p(y_i | x_i),
        p(k | x) proportional to exp(<w_k, x> + b_k)

    Two classes have one row, `p(classes_[1] | x) = 1 / (1 + exp(-<w, x> - b))`. Up to the factor 1/C this is the
    objective of `sklearn.linear_model.LogisticRegression` with `l1_ratio = rho`.

    Parameters
    ----------
    {parameters}
    l1_ratio : float in [0, 1]
        Share rho of the l1 norm in the penalty; with 1 many weights are exactly 0.
    fit_intercept : bool
        Adds intercepts, which the penalty leaves free.
    class_weight : dict, "balanced" or None
        Factors of the weights c_i by class; "balanced" makes the weights of all classes sum to the same number.

    Attributes
    ----------
    coef_ : ndarray, shape (K, d), or (1, d) for two classes
    intercept_ : ndarray, shape (K,) or (1,)
        For three classes or more their mean is 0: a common shift changes nothing.
    classes_, class_weight_ : ndarray, shape (K,)
        Classes and the factors of their weights.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where X had names.
    {certificate}

    Notes
    -----
    X (n, d) may be dense or CSR, float32 or float64. For three classes or more with intercepts, X is copied once with a
    column of ones. A pass costs O(nnz(X) K). An iteration takes one, and for two classes with
    few columns also the Hessian.

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

    def __init__(self, C: float = 1.0, *, l1_ratio: float = 0.0, fit_intercept: bool = True,
                 class_weight: dict[Any, float] | str | None = None, tol: float = 0.001, method: str = "auto",
                 max_iter: int | None = None, time_limit: float | None = None, n_jobs: int | None = None,
                 random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self.C = C
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.method = method
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    def _survey(self, X, y, weights):
        return *super()._survey(X, y, weights), locate(X, None, weights) if self._has_intercept() else None

    def _learn(self, surveys):
        return super()._learn([survey[:-1] for survey in surveys]) | shift_of(surveys)

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

    def _regulariser(self, fitted):
        K, d = len(fitted["classes_"]), fitted["n_features_in_"]
        if K == 2 or not self._has_intercept():
            return super()._regulariser(fitted)
        lam, rho = self._lam(), check_number("l1_ratio", self.l1_ratio, low=0.0, high=1.0)
        rates, bounds = np.full((K, d + 1), lam), np.full((K, d + 1), np.inf)
        rates[:, d], bounds[0, d] = 0.0, 0.0        # of the intercepts one is 0, or no bound would hold them
        rates, bounds = rates.ravel(), bounds.ravel()
        return {"penalty": Separable(l2=(1.0 - rho) * rates, l1=rho * rates, lower=-bounds, upper=bounds)}

    def _unpack(self, w):
        d, has_intercept = self.n_features_in_, bool(self.fit_intercept)
        W = w.reshape(-1, d + has_intercept)
        intercept = W[:, d].copy() if has_intercept else np.zeros(len(W))
        if len(W) > 1 and self._shift is None:        # large ones would be rounded again
            intercept -= intercept.mean()
        return {"coef_": np.ascontiguousarray(W[:, :d]), "intercept_": intercept}

    def _last_point(self, risk, fitted):
        if not hasattr(self, "coef_") or not np.array_equal(fitted["classes_"], self.classes_):
            return None
        columns = [self.coef_]
        if self.fit_intercept:
            first = self.intercept_[0] if len(self.intercept_) > 1 and self.centre_ is None else 0.0
            columns.append((self.intercept_ - first)[:, None])
        w = np.hstack(columns).ravel()
        return w if len(w) == risk.dim else None

    def predict_proba(self, X: Data) -> Floats:
        """Return p(k | x) of the examples X (n, d), shape (n, K), columns in the order of `classes_`."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.stack([expit(-scores), expit(scores)], axis=1)
        return softmax(scores, axis=1)
