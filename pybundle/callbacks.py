"""Callbacks for `minimize`, paths and estimators: they watch a run and may end it."""

from .runtime.callbacks import EarlyStopping, ProgressBar, StopSignal, TimeLimit

__all__ = ["EarlyStopping", "ProgressBar", "StopSignal", "TimeLimit"]


def __dir__():
    return __all__
