"""Warnings that point at the line of the user, however many frames of libraries lie between."""

from __future__ import annotations

import sys
import warnings

from .exceptions import ConvergenceWarning

LIBRARIES = ("pybundle", "sklearn", "joblib")


def warn_user(message, category=ConvergenceWarning):
    """Warn at the innermost frame outside `LIBRARIES`, or at the outermost one if all belong to them.

    On the way from an estimator, a `ConvergenceWarning` is scikit-learn's, too.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _module(frame).partition(".")[0] in LIBRARIES:
        if category is ConvergenceWarning and _module(frame).startswith("pybundle.estimators."):
            category = sys.modules["pybundle.estimators.compat"].FitConvergenceWarning
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _module(frame):
    return frame.f_globals.get("__name__", "")
