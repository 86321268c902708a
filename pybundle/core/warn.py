"""Warnings that name the line in the user's code, even if calls of libraries lie between that line and the warning."""

from __future__ import annotations

import sys
import warnings

from .exceptions import ConvergenceWarning

LIBRARIES = ("pybundle", "sklearn", "joblib")


def warn_user(message, category=ConvergenceWarning):
    """Warn at the innermost frame outside of `LIBRARIES`, or at the outermost frame if all are inside.

    If an estimator has called, a `ConvergenceWarning` is also of the class of scikit-learn with that name.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _module(frame).partition(".")[0] in LIBRARIES:
        if category is ConvergenceWarning and _module(frame).startswith("pybundle.estimators."):
            category = sys.modules["pybundle.estimators.compat"].FitConvergenceWarning
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _module(frame):
    return frame.f_globals.get("__name__", "")
