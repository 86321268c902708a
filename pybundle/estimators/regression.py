"""Linear regression with losses of one score: the base class of its estimators, and support vector regression."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..core.exceptions import ParameterError, StateError
from ..core.labels import example_weights
from ..core.types import Callbacks, Data, Floats
from ..features.shift import Shift, locate, scores
from ..risks import EpsilonInsensitive
from ..solvers.method import Method
from .base import without_weightless
from .collections import by_blocks
from .compat import validate_data
from .flat import FlatEstimator
from .penalty import elastic_net

PIECES = {
    "penalty": """l1_ratio : float in [0, 1]
        Share rho of the l1 norm in the penalty `rho |w|_1 + (1 - rho)/2 |w|^2`; with 1 many weights are exactly 0.
    fit_intercept : bool
        Adds an intercept, which the penalty leaves free.""",
    "fitted": """coef_ : ndarray, shape (d,)
    intercept_ : float
    n_features_in_, feature_names_in_ : int, ndarray
        Number of columns of X; their names, where X had some.
    centre_ : ndarray, shape (d,), or None
        What predictions subtract from columns that lie far from 0, `<w, x - m> + (b + <m, w>)`; 0 for other columns.
    weight_mean_ : float
        Mean of the weights c_i.""",
}
"""Pieces of the docstrings of linear regression."""


class LinearRegressionEstimator(RegressorMixin, FlatEstimator):
    """Base class of linear regression; a subclass defines `_loss(X, y, **options)`."""

    _pieces = PIECES
    l1_ratio: float

    def _take(self, X, y, sample_weight):
        X, y = validate_data(self, X, y, y_numeric=True, **FORMATS)
        return without_weightless(X, y.astype(np.float64, copy=False), example_weights(sample_weight, len(y)))

    def _survey(self, X, y, weights):
        """Return the number of columns, the sum of the weights, the number of examples, and their `Location`."""
        return int(X.shape[1]), float(weights.sum()), len(y), locate(X, y, weights) if self.fit_intercept else None

    def _learn(self, surveys):
        widths = sorted({survey[0] for survey in surveys})
        if len(widths) > 1:
            raise ParameterError(f"X must have the same columns in all blocks, got {widths[0]} and {widths[1]}")
        total, n = (sum(survey[k] for survey in surveys) for k in (1, 2))
        return {"n_features_in_": widths[0], "weight_mean_": float(total / n)} | shift_of(surveys)

    def _risk(self, X, y, weights, fitted):
        risk = self._loss(X, y, sample_weight=weights, fit_intercept=self._has_intercept())
        return risk if fitted["_shift"] is None else risk.moved(fitted["_shift"])

    def _penalty(self, fitted):
        return elastic_net(self._lam(), self.l1_ratio)

    def _unpack(self, w):
        d = self.n_features_in_
        return {"coef_": w[:d].copy(), "intercept_": float(w[d]) if self.fit_intercept else 0.0}

    def _last_point(self, risk, fitted):
        if not hasattr(self, "coef_") or np.ndim(self.intercept_):
            return None
        w = np.r_[self._dense_coef(), self.intercept_] if self.fit_intercept else self._dense_coef()
        return w if len(w) == risk.dim else None

    def _check_state(self):
        super()._check_state()
        rows = (1,) if sp.issparse(self.coef_) else ()
        if self.coef_.shape != (*rows, self.n_features_in_) or not isinstance(self.intercept_, float) or not (
                np.isfinite(self.intercept_)) or "centre_" not in vars(self):
            raise StateError("coef_, intercept_ and centre_ must be there and fit n_features_in_")

    @by_blocks
    def predict(self, X: Data) -> Floats:
        """Return `<coef_, x_i> + intercept_` for the examples X (n, d), shape (n,); (n, Q) for Q quantiles.

        The result is float64, because targets may be too large for float32; products have the precision of X.
        """
        check_is_fitted(self)
        coef = self.coef_ if sp.issparse(self.coef_) else np.atleast_2d(self.coef_)
        found = scores(validate_data(self, X, reset=False, **FORMATS), coef, np.atleast_1d(self.intercept_),
                       self.centre_)
        return found[:, 0] if np.ndim(self.intercept_) == 0 else found


class LinearSVR(LinearRegressionEstimator):
    """Linear support vector regression, trained to a certified gap.

        F(w, b) = (rho |w|_1 + (1 - rho)/2 |w|^2) / C + sum_i c_i max(0, |<w, x_i> + b - y_i| - epsilon)

    with `rho = l1_ratio`. With 0, the default, F is 1/C times the objective of `sklearn.svm.SVR(kernel="linear")`.
    Unlike in `sklearn.svm.LinearSVR` the intercept is not penalised.

    Parameters
    ----------
    C : float
        Weight of the losses against the penalty; infinity stands for no penalty.
    epsilon : float >= 0
        Errors up to this cost nothing.
    {penalty}
    tol, atol, method, max_iter, time_limit, n_jobs, random_state, warm_start, verbose, callback
        As in `MulticlassSVM`.

    Attributes
    ----------
    {fitted}
    {certificate}

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> X = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> model = pb.LinearSVR(C=100.0, epsilon=0.01).fit(X, 3.0 * X[:, 0] + 1.0)
    >>> model.converged_, model.predict([[0.5]]).round(1)
    (True, array([2.5]))
    """

    def __init__(self, C: float = 1.0, *, epsilon: float = 0.1, l1_ratio: float = 0.0, fit_intercept: bool = True,
                 tol: float = 1e-3, atol: float | None = None,
                 method: str | Method = "auto", max_iter: int | None = None,
                 time_limit: float | None = None, n_jobs: int | None = None, random_state: Any = None,
                 warm_start: Any = False, verbose: int = 0, callback: Callbacks = None) -> None:
        self._take_arguments(locals())

    def _loss(self, X, y, **options):
        return EpsilonInsensitive(X, y, self.epsilon, **options)


def shift_of(surveys):
    """Return the fitted attributes of a change of variables, from surveys whose last entry is a `Location` or None."""
    shift = None if surveys[0][-1] is None else Shift.of([survey[-1] for survey in surveys])
    return {"_shift": shift, "centre_": None if shift is None or not shift.columns.any() else shift.columns}


FORMATS = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C"}
