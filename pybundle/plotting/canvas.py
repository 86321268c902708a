"""`Display` is the base class of displays; functions import matplotlib, make and style panels, and check names."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError
from ..core.extras import optional
from ..runtime.result import Result

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Colours of Okabe and Ito, which colour-blind readers can distinguish; without yellow, which is faint on white."""

STYLES = ("-", "--", "-.", ":")
RIGHT, WRONG, FAINT = COLOURS[0], COLOURS[1], "0.6"
DIVERGING = "RdBu_r"


class Display:
    """Base class of displays of one panel; `_size()` of a new figure is in inches, and `_draw()` draws into `ax_`."""

    ax_: Any
    figure_: Any

    def plot(self, ax: Any = None) -> Self:
        """Draws what the display holds.

        Parameters
        ----------
        ax : Axes, optional
            Of a new figure by default.

        Returns
        -------
        self
        """
        (self.ax_,) = axes_for(ax, self._size())
        self.figure_ = self.ax_.figure
        self._draw()
        return self

    def _size(self):
        raise NotImplementedError

    def _draw(self):
        raise NotImplementedError


def import_matplotlib(module="pyplot"):
    """Return a module of matplotlib; without matplotlib the ImportError names the extra to install."""
    return optional(f"matplotlib.{module}", "plots need matplotlib", "plot")


def axes_for(ax, figsize, n=1):
    """Return the n axes to draw into, an array (n,): those of a new pyplot figure if `ax` is None."""
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
    """Return the style of the k-th line: colours change first, then dashes."""
    return {"color": COLOURS[k % len(COLOURS)], "linestyle": STYLES[k // len(COLOURS) % len(STYLES)]}


def tidy(axis):
    """Draw a faint grid, and no box above and on the right."""
    axis.grid(True, which="major", alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def bare(axis):
    """Draw neither ticks nor box, for images and trees."""
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_visible(False)


def weight_bar(image):
    """Draw a colour bar without a box beside an image of weights."""
    bar = image.figure.colorbar(image, ax=image.axes, shrink=0.8, label="weight")
    bar.outline.set_visible(False)
    return bar


def names_of(names, n, what):
    """Return n names as texts; by default numbers from 0."""
    if names is None:
        return [str(k) for k in range(n)]
    if isinstance(names, str) or not hasattr(names, "__len__"):
        raise InputTypeError(f"{what} must be a list of {n} names, got {names!r:.60}")
    if len(names) != n:
        raise ParameterError(f"{what} must be {n} names, got {len(names)}")
    return [str(name) for name in names]


def fitted(estimator, name, expected):
    """Return an attribute of a fitted estimator; the InputTypeError says what was `expected`."""
    try:
        return getattr(estimator, name)
    except AttributeError as problem:
        raise InputTypeError(f"estimator must be {expected}, got {what_came(estimator, name)}") from problem


def what_came(run, name):
    """Return in words what came in place of an object with the attribute `name`, and the remedy."""
    kind = type(run).__name__
    if isinstance(run, Result) or (isinstance(run, (list, tuple)) and len(run) and isinstance(run[0], Result)):
        return ("what pybundle.minimize or path returned; draw it by ConvergenceDisplay.from_results or "
                "PathDisplay.from_results")
    if isinstance(run, type):
        return f"the class {run.__name__}"
    if callable(getattr(run, "fit", None)):
        if not any(key.endswith("_") and not key.startswith("_") for key in vars(run)):
            return f"{kind}, which is not fitted; call fit first"
        if name in ("history", "lam"):
            return f"the estimator {kind}; draw it by from_estimator"
    return kind if name is None else f"{kind} without {name}"
