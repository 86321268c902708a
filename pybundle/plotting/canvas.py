"""What all displays share: the door to matplotlib, axes, colours."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Of Okabe and Ito, told apart by colour-blind readers too; the yellow is left out, which is faint on white."""

STYLES = ("-", "--", "-.", ":")
RIGHT, WRONG, FAINT = COLOURS[0], COLOURS[1], "0.6"
DIVERGING = "RdBu_r"


def import_matplotlib(module="pyplot"):
    """A module of matplotlib; ImportError that names the extra without it."""
    try:
        return import_module(f"matplotlib.{module}")
    except ImportError as problem:
        raise ImportError("plots need matplotlib, which is not installed; "
                          "run: pip install 'pybundle-ml[plot]'") from problem


def axes_for(ax, figsize, n=1):
    """The n axes to draw into, an array (n,): those of a new pyplot figure where `ax` is None."""
    if ax is None:
        _, axes = import_matplotlib().subplots(1, n, figsize=figsize, sharey=True, squeeze=False, layout="constrained")
        return axes[0]
    axes = np.ravel(np.array(ax, dtype=object))
    for one in axes:
        if not (hasattr(one, "figure") and hasattr(one, "imshow")):
            raise InputTypeError(f"ax must be matplotlib axes, got {type(one).__name__}")
    if len(axes) != n:
        raise ParameterError(f"ax must be {n} {'axes' if n > 1 else 'Axes'}, got {len(axes)}")
    return axes


def line_style(k):
    """Options of the k-th line: colours first, then dashes."""
    return {"color": COLOURS[k % len(COLOURS)], "linestyle": STYLES[k // len(COLOURS) % len(STYLES)]}


def tidy(axis):
    """A faint grid, no box."""
    axis.grid(True, which="major", alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def bare(axis):
    """Neither ticks nor box: for images and trees."""
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_visible(False)


def names_of(names, n, what):
    """n names as texts; by default numbers from 0."""
    if names is None:
        return [str(k) for k in range(n)]
    if isinstance(names, str) or not hasattr(names, "__len__"):
        raise InputTypeError(f"{what} must be a list of {n} names, got {names!r:.60}")
    if len(names) != n:
        raise ParameterError(f"{what} must be {n} names, got {len(names)}")
    return [str(name) for name in names]


def fitted(estimator, name, expected):
    """Attribute `name` of a fitted estimator; InputTypeError that says what was `expected`."""
    try:
        return getattr(estimator, name)
    except AttributeError as problem:
        raise InputTypeError(f"estimator must be {expected}, got {type(estimator).__name__} without "
                             f"{name}") from problem
