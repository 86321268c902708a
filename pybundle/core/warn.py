"""Warnings that point at the line of the user, however many frames of libraries lie between."""

from __future__ import annotations

import sys
import warnings

from .exceptions import ConvergenceWarning

LIBRARIES = ("pybundle", "sklearn", "joblib")


def warn_user(message, category=ConvergenceWarning):
    """Warns at the innermost frame that belongs to none of `LIBRARIES`, at the outermost where all do."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in LIBRARIES:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
