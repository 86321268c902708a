"""Warnings that point at the line of the user, however many frames of libraries lie between."""

from __future__ import annotations

import re
import sys
import warnings

from .exceptions import ConvergenceWarning

LIBRARIES = ("pybundle", "sklearn", "joblib")
NOT_OF_ESTIMATORS = re.compile(r": pass atol, \S+ holds here")


def warn_user(message, category=ConvergenceWarning):
    """Warn at the innermost frame outside `LIBRARIES`, or at the outermost one if all belong to them.

    On the way from an estimator, advice to pass what estimators do not take is left out.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _module(frame).partition(".")[0] in LIBRARIES:
        if _module(frame).startswith("pybundle.estimators."):
            message = NOT_OF_ESTIMATORS.sub("", message)
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _module(frame):
    return frame.f_globals.get("__name__", "")
