"""`DecisionFocusedRegressor` learns to predict costs for which the decisions of a solver are good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin, clone
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from ..core.exceptions import InputTypeError, ParameterError
from ..core.labels import example_weights
from ..core.types import Callbacks, Data, Floats
from ..core.validation import check_flag, check_number, check_table
from ..models import Optimizer
from ..prox import Box, SquaredL2
from ..risks import Structured
from ..solvers.method import Method
from .base import CertifiedEstimator, without_weightless
from .collections import is_collection
from .compat import validate_data


class DecisionFocusedRegressor(RegressorMixin, CertifiedEstimator):
    """Linear regression of costs, trained to a certified gap for the decisions that a solver makes of them.

        F(W) = |W - W0|^2 / (2 C) + sum_i c_i r_i(W)

    with r_i as in `pb.models.Optimizer`. Its decisions may cost less than those of least squares if costs are not
    linear in the features; else they cost a little more. `C="cv"` compares both, because W0, by default of ridge
    regression, is among the candidates.

    Parameters
    ----------
    solver : callable
        As in `pb.models.Optimizer`. `save` needs `solver=None`, since a file holds no code.
    C : float >= 0 or "cv"
        Weight of the losses, `lam = 1/C`; 0 keeps W0. "cv" takes 0, 0.1, 1, 10, 100 or 1000 divided by the sum of the
        c_i, whichever has the best mean score over 5 folds; features should have similar variances.
    centre : "ridge", None or ndarray, shape (m, d + fit_intercept)
        W0: weights by `RidgeCV` of scikit-learn on costs (not for `loss="inverse"`); 0; or given, intercepts last.
    loss, distance, by_row
        As in `pb.models.Optimizer`.
    fit_intercept : bool
        Whether to add intercepts; the penalty is on their differences from those of W0.
    tol, atol, method, max_iter, time_limit, n_jobs, random_state, warm_start, verbose, callback
        As in `MulticlassSVM`.

    Attributes
    ----------
    coef_, intercept_, prior_ : ndarray, shape (m, d), (m,) and (m, d + fit_intercept)
        Weights of features, intercepts, and W0.
    C_, n_costs_, n_features_in_, feature_names_in_
        C of the fit, m, d, and names of features if X had some.
    {certificate}

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 2))
    >>> costs = (X @ rng.standard_normal((2, 9)) + 3.0) ** 4 + rng.random((100, 9))
    >>> model = pb.DecisionFocusedRegressor(pb.oracles.assignment_batch, C="cv")
    >>> model = model.fit(X, costs)
    >>> model.decide(X).shape, model.score(X, costs) > -0.2
    ((100, 9), True)
    """

    n_features_in_: int

    def __init__(self, solver: Callable[..., Any] | None = None, C: float | str = 1.0, *, centre: Any = "ridge",
                 loss: str = "spo+", distance: Any = None, by_row: bool = False, fit_intercept: bool = True,
                 tol: float = 1e-3, atol: float | None = None, method: str | Method = "auto",
                 max_iter: int | None = None, time_limit: float | None = None, n_jobs: int | None = None,
                 random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self._take_arguments(locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output, tags.target_tags.single_output = True, False
        tags.regressor_tags.poor_score = True           # scores are regrets, not R^2
        return tags

    def fit(self, X: Data, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Trains on features X (n, d) and costs or decisions y (n, m), with weights c_i >= 0; no Dask collections."""
        if is_collection(X) or is_collection(y):
            raise InputTypeError("X and y must be in memory for DecisionFocusedRegressor, got Dask collections")
        return super().fit(X, y, sample_weight)

    def _take(self, X, y, sample_weight):
        X = validate_data(self, X, dtype=np.float64, order="C")
        if y is None:
            raise ParameterError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        return without_weightless(X, check_table("y", y, (len(X), None)), example_weights(sample_weight, len(X)))

    def _survey(self, X, y, weights):
        return {"n_features_in_": int(X.shape[1]), "n_costs_": int(y.shape[1])}

    def _learn(self, surveys):
        return surveys[0]

    def _risk(self, X, y, weights, fitted):
        columns = [X] + check_flag("fit_intercept", self.fit_intercept) * [np.ones((len(X), 1))]
        shape, C = (y.shape[1], X.shape[1] + self.fit_intercept), self.C
        model = self._model(*shape)
        if vars(self).get("_solver") is not self.solver:        # fingerprints do not depend on the solver
            self._solver, self._state = self.solver, None
        centre = self._centre(X, y, weights)
        if isinstance(C, str) and C == "cv":
            grid, one = np.r_[0.0, 10.0 ** np.arange(-1.0, 4.0) / weights.sum()].tolist(), clone(self)
            one.set_params(callback=None, warm_start=True, tol=max(check_number("tol", self.tol, low=0.0), 1e-2))
            scores = []
            for train, test in check_cv().split(X):
                fold = X[train], y[train], weights[train]
                one.set_params(centre=self._centre(*fold))      # the same for each C
                scores.append([one.set_params(C=C).fit(*fold).score(X[test], y[test], weights[test]) for C in grid])
            C = grid[int(np.argmax(np.mean(scores, axis=0)))]
        fitted |= {"prior_": np.zeros(shape) if centre is None else check_table("centre", centre, shape),
                   "C_": check_number("C", C, low=0.0)}
        return Structured(model, np.hstack(columns), y, sample_weight=weights)

    def _centre(self, X, y, weights):
        """Return `centre`, or in place of "ridge" the weights of a ridge regression."""
        if not isinstance(self.centre, str):
            return self.centre
        if (self.centre, self.loss) != ("ridge", "spo+"):
            raise ParameterError("centre must be 'ridge' for costs, else None or an array, got "
                                 f"{self.centre!r:.40} with loss={self.loss!r:.40}")
        ridge = RidgeCV(np.logspace(-3.0, 3.0, 13), fit_intercept=self.fit_intercept).fit(X, y, weights)
        rows = np.c_[np.atleast_2d(ridge.coef_), np.broadcast_to(ridge.intercept_, y.shape[1])]
        return rows[:, :X.shape[1] + self.fit_intercept]

    def _penalty(self, fitted):
        C, prior = fitted["C_"], fitted["prior_"].ravel()
        return {"penalty": SquaredL2(1.0 / C, centre=prior) if C > 0.0 else Box(prior, prior)}

    def _unpack(self, w):
        W = w.reshape(-1, self.n_features_in_ + self.fit_intercept)
        coef, intercept = np.split(W, [self.n_features_in_], axis=1)
        return {"coef_": coef.copy(), "intercept_": intercept.sum(axis=1)}

    def _model(self, n_costs, n_features):
        return Optimizer(self.solver, n_costs, n_features, loss=self.loss, distance=self.distance, by_row=self.by_row)

    def predict(self, X: Data) -> Floats:
        """Return the costs `coef_ x_i + intercept_` of the examples X (n, d), shape (n, m)."""
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=np.float64) @ self.coef_.T + self.intercept_

    def decide(self, X: Data) -> Floats:
        """Return the decisions (n, m) of the solver for the predicted costs of the examples X (n, d)."""
        costs = self.predict(X)
        return self._model(self.n_costs_, 1).solve(costs)[0]

    def score(self, X: Data, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the normalised regret of the decisions `v_i = decide(X)[i]`; 0 is best.

        For costs y this is `-sum_i c_i <y_i, v_i - v*_i> / sum_i c_i |<y_i, v*_i>|`, where v*_i is the decision of the
        solver for y_i; for decisions y (`loss="inverse"`) it is minus the weighted mean of the distances of v_i, y_i.
        """
        decisions = self.decide(X)
        oracle, rows = self._model(self.n_costs_, 1).oracle(np.zeros((len(decisions), 1)), y), np.arange(len(decisions))
        weights, best = example_weights(sample_weight, len(rows)), (oracle.given * oracle.truths).sum(axis=1)
        losses = oracle.losses(rows, decisions) - oracle.gaps
        total = float(weights @ (np.abs(best) if self.loss == "spo+" else np.ones(len(rows))))
        if total == 0.0:
            raise ParameterError("y must have a least cost other than 0 in some example of weight > 0, got 0 in all")
        return -float(weights @ losses) / total
