"""Probabilities of labels: methods that are missing where there are none, and logarithms."""

from __future__ import annotations

from functools import update_wrapper
from types import MethodType
from typing import Any

import numpy as np

from ..core.types import Data


class NeedsLogLoss:
    """Decorate a method that an estimator lacks, as by scikit-learn's `available_if`, unless it has a log-loss.

    The AttributeError also says which estimator or parameter has the method: `_log_loss_is` of the class.
    """

    def __init__(self, method: Any) -> None:
        self.method = method
        update_wrapper(self, method)        # type: ignore[arg-type]

    def __get__(self, estimator: Any, owner: Any = None) -> Any:
        if estimator is None:
            return self.method
        if not estimator._has_probabilities():
            raise AttributeError(f"This {type(estimator).__name__!r} has no attribute {self.method.__name__!r}, since "
                                 f"its loss is a hinge; use {estimator._log_loss_is}")
        return MethodType(self.method, estimator)


class Margins:
    """Mixin of estimators that have a hinge and no probabilities."""

    def _has_probabilities(self):
        return False

    @NeedsLogLoss
    def predict_proba(self, X: Data) -> Any:
        """Missing: a hinge has no probabilities; the AttributeError names the estimator that has some."""

    @NeedsLogLoss
    def predict_log_proba(self, X: Data) -> Any:
        """Missing, like `predict_proba`."""


def logarithms(tables):
    """Logarithms of a list of tables of probabilities; minus infinity for 0."""
    with np.errstate(divide="ignore"):
        return [np.log(table) for table in tables]
