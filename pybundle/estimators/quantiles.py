"""`QuantileRegressor`: linear quantile regression of one quantile, or of several quantiles one after another."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import d2_pinball_score

from ..core.exceptions import ParameterError, StateError
from ..core.types import Callbacks, Data
from ..core.validation import check_flag, check_number
from ..risks import Pinball
from ..solvers.method import Method
from .regression import LinearRegressionEstimator

STACKED = ("coef_", "intercept_", "objective_", "lower_bound_", "gap_", "certified_", "converged_", "n_iter_",
           "n_passes_")
"""Attributes that are arrays with one entry, or one row, for each of several quantiles."""


class QuantileRegressor(LinearRegressionEstimator):
    """Linear quantile regression, trained to a certified gap.

    It minimises the objective of `sklearn.linear_model.QuantileRegressor`, there with `l1_ratio = 1`:

        F(w, b) = sum_i c_i max(q u_i, (q - 1) u_i) / sum_i c_i + alpha (rho |w|_1 + (1 - rho)/2 |w|^2),

    with `u_i = y_i - <w, x_i> - b`, the quantile q and `rho = l1_ratio`. With `alpha = 0` there is no penalty at all,
    and the lower bound is proven nevertheless. Columns may then depend on each other, as indicators of all categories
    beside an intercept do: of all coefficients with the same predictions these are the ones of least norm |w|, the
    intercept not counted. A column that is a sum of others but for rounding has to be left out; a warning names it.

    Parameters
    ----------
    quantile : float in (0, 1), or sequence of these
        With a sequence each quantile is a problem of its own, solved in the given order, each from the last solution.
    alpha : float >= 0
        Strength of the penalty.
    {penalty}
    tol : float
        Certified relative gap at which the fit ends, `(F(w) - lower bound) / F(w)`.
    atol, method, max_iter, time_limit, n_jobs, random_state, warm_start, verbose, callback
        As in `MulticlassSVM`.

    Attributes
    ----------
    {fitted}
    {certificate}

    Notes
    -----
    With a sequence of Q quantiles `coef_` has shape (Q, d), `predict` returns shape (n, Q), and `intercept_` and the
    numbers of the certificate are arrays of shape (Q,). `certificate_` is a list, `history_` has the rows of all runs
    and the quantile of each row, `history_["quantile"]`. Nothing keeps the lines of two quantiles from crossing.
    `score` is the mean of their D^2 pinball scores. Callbacks see one run after the other. Ctrl-C leaves the estimator
    as it was.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 3))
    >>> y = X[:, 0] + rng.standard_exponential(500)
    >>> model = pb.QuantileRegressor(quantile=0.9, alpha=0.01).fit(X, y)
    >>> model.converged_, int(np.count_nonzero(model.coef_))
    (True, 1)
    >>> float(np.mean(y <= model.predict(X)).round(2))
    0.9
    >>> model = pb.QuantileRegressor(quantile=[0.1, 0.5, 0.9], alpha=0.01).fit(X, y)
    >>> model.coef_.shape, (y[:, None] <= model.predict(X)).mean(axis=0).round(1)
    ((3, 3), array([0.1, 0.5, 0.9]))
    """

    def __init__(self, *, quantile: float | Sequence[float] = 0.5, alpha: float = 1.0, l1_ratio: float = 1.0,
                 fit_intercept: bool = True, tol: float = 1e-5, atol: float | None = None,
                 method: str | Method = "auto",
                 max_iter: int | None = None, time_limit: float | None = None, n_jobs: int | None = None,
                 random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self._take_arguments(locals())

    def fit(self, X: Data, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on the examples X (n, d) with the targets y (n,); arguments and errors as in `MulticlassSVM.fit`."""
        quantiles = self._quantiles()
        if isinstance(vars(self).get("_state"), list) != (quantiles is not None):
            self._state: Any = None     # the last fit was of the other kind, of one quantile or of several
        return super().fit(X, y, sample_weight) if quantiles is None else self._fit_each(quantiles, X, y, sample_weight)

    def _fit_each(self, quantiles, X, y, sample_weight):
        check_flag("warm_start", self.warm_start)
        is_warm = self.warm_start and np.shape(vars(self).get("objective_")) == (len(quantiles),)
        states, models, kept = self._state, [], []
        for k, quantile in enumerate(quantiles):
            model = self._single(k) if is_warm else copy.copy(models[-1] if models else self)
            model.quantile, model.warm_start = quantile, self.warm_start or k > 0
            model._state = states[k] if is_warm and states is not None else None
            models.append(model.fit(X, y, sample_weight))
            state = vars(model).pop("_state")
            kept.append(state if self.warm_start else None)         # kept for a warm start only, as planes are large
        fitted = {name: np.array([vars(model)[name] for model in models]) for name in STACKED}
        fitted["certificate_"] = [model.certificate_ for model in models]
        fitted["history_"] = {name: np.concatenate([model.history_[name] for model in models])
                              for name in models[-1].history_}
        fitted["history_"]["quantile"] = np.repeat(quantiles, [len(model.history_["gap"]) for model in models])
        names = ("n_features_in_", "feature_names_in_", "weight_mean_", "centre_")
        vars(self).pop("feature_names_in_", None)
        vars(self).update(fitted | {name: vars(models[-1])[name] for name in names if name in vars(models[-1])})
        self._state = kept
        return self

    def score(self, X: Data, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return how well the predictions fit; 1 is perfect.

        For one quantile this is R^2, as of scikit-learn's `QuantileRegressor`. For a sequence it is the mean of the D^2
        pinball scores of the quantiles, `sklearn.metrics.d2_pinball_score`: 1 minus the pinball loss over that of the
        best constant. A constant model has about 0.
        """
        if not np.ndim(getattr(self, "intercept_", 0.0)):
            return super().score(X, y, sample_weight)
        quantiles, predicted = self._quantiles(), self.predict(X)
        if quantiles is None or len(quantiles) != predicted.shape[1]:
            raise ParameterError(f"quantile must hold the {predicted.shape[1]} quantiles of the fit, got "
                                 f"{self.quantile!r:.40}; fit again after a change")
        return float(np.mean([d2_pinball_score(y, predicted[:, k], sample_weight=sample_weight, alpha=quantile)
                              for k, quantile in enumerate(quantiles)]))

    def _quantiles(self):
        """Return the quantiles of a sequence as floats, or None for a single quantile."""
        given = self.quantile
        is_many = isinstance(given, (Sequence, np.ndarray)) and getattr(given, "ndim", 1) > 0
        if not is_many or isinstance(given, (str, bytes)):
            return None
        if not len(given):
            raise ParameterError("quantile must be a number or hold at least one, got an empty sequence")
        return [check_number(f"quantile[{k}]", one, low=0.0, strict=True, below=1.0)
                for k, one in enumerate(given)]

    def _single(self, k):
        """Return the fitted estimator of the k-th of several quantiles."""
        model, rows = copy.copy(self), self.history_["quantile"] == self._quantiles()[k]
        vars(model).update({name: vars(self)[name][k] if name == "coef_" else vars(self)[name][k].item()
                            for name in STACKED})
        model.quantile = self._quantiles()[k]
        model.history_ = {name: values[rows] for name, values in self.history_.items() if name != "quantile"}
        return model

    def _check_state(self):
        quantiles = self._quantiles()
        if quantiles is None:
            super()._check_state()
            return
        for name in STACKED:
            if getattr(vars(self).get(name), "shape", ())[:1] != (len(quantiles),):
                raise StateError(f"{name} must have one entry for each of the {len(quantiles)} quantiles")
        for k in range(len(quantiles)):
            self._single(k)._check_state()

    def _loss(self, X, y, **options):
        return Pinball(X, y, self.quantile, **options)

    def _lam(self):
        return check_number("alpha", self.alpha, low=0.0)

    def _risk(self, X, y, weights, fitted):
        return super()._risk(X, y, weights / fitted["weight_mean_"], fitted)

    def _options(self):
        return super()._options() | {"scale": "mean"}
