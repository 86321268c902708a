"""Methods for probabilities of labels; an estimator without a log-loss lacks them, with an error that says why."""

from __future__ import annotations

from types import MethodType
from typing import Any

import numpy as np

from ..core.types import Data


class NeedsLogLoss:
    """Decorate a method that exists only if `_log_loss` of the fit is true, like scikit-learn's `available_if`.

    Otherwise access raises AttributeError with the text `_log_loss_is` of the class: what to use instead.
    """

    def __init__(self, method: Any) -> None:
        self.method = method

    def __get__(self, estimator: Any, owner: Any = None) -> Any:
        if estimator is None:
            return self.method
        if not estimator._as_fitted()._log_loss:
            raise AttributeError(f"This {type(estimator).__name__!r} has no attribute {self.method.__name__!r}, since "
                                 f"its loss is a hinge; use {estimator._log_loss_is}")
        return MethodType(self.method, estimator)


class Probabilities:
    """Mixin of estimators that have probabilities if they have a log-loss."""

    _log_loss: Any = False

    @NeedsLogLoss
    def predict_proba(self, X: Data) -> Any:
        """Missing, as hinges have no probabilities: the AttributeError names an estimator that has some."""

    @NeedsLogLoss
    def predict_log_proba(self, X: Data) -> Any:
        """Logarithms of `predict_proba`, minus infinity for 0; missing if `predict_proba` is."""
        found = self.predict_proba(X)
        with np.errstate(divide="ignore"):
            return [np.log(table) for table in found] if isinstance(found, list) else np.log(found)
