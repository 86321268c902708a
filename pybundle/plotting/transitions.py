"""The transition matrix of a chain as a heat map."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import InputTypeError, ParameterError
from ..core.types import Floats
from .canvas import DIVERGING, Display, fitted, names_of, weight_bar, what_came

MOST_NUMBERS = 12
"""Largest number of labels for which cells hold numbers."""


class TransitionDisplay(Display):
    """Weights of a label (row) followed by another (column): red where it is favoured, blue where it is not.

    Parameters
    ----------
    transition : array, shape (K, K)
    names : sequence, optional
        Labels; numbers by default.
    start, end : array, shape (K,), optional
        Weights of the first label, a row of their own on top, and of the last one, a column on the right.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
    image_ : AxesImage
    texts_ : list of Text
        Numbers in the cells, if there are at most 12 labels.
    colorbar_ : Colorbar

    Examples
    --------
    >>> import pybundle as pb
    >>> X = [["the", "dog", "barks"], ["dogs", "bark"], ["the", "cat"]]
    >>> y = [["DET", "N", "V"], ["N", "V"], ["DET", "N"]]
    >>> svm = pb.ChainSVM(C=10.0).fit(X, y)
    >>> display = pb.plotting.TransitionDisplay.from_estimator(svm)
    >>> display.names, display.image_.get_array().shape
    (['DET', 'N', 'V'], (4, 4))
    """

    start: Any
    end: Any
    image_: Any
    texts_: Any
    colorbar_: Any

    def __init__(self, transition: ArrayLike, *, names: Any = None, start: ArrayLike | None = None,
                 end: ArrayLike | None = None) -> None:
        self.transition: Floats = np.asarray(transition, dtype=float)
        K = len(self.transition) if self.transition.ndim else 0
        if self.transition.shape != (K, K) or K == 0:
            raise ParameterError(f"transition must have shape (K, K), got {self.transition.shape}")
        self.names: list[str] = names_of(names, K, "names")
        self.start, self.end = (None if ends is None else np.asarray(ends, dtype=float) for ends in (start, end))
        for name, ends in (("start", self.start), ("end", self.end)):
            if ends is not None and ends.shape != (K,):
                raise ParameterError(f"{name} must have shape ({K},), got {ends.shape}")

    @classmethod
    def from_estimator(cls, estimator: Any, *, ends: bool = True, ax: Any = None) -> Self:
        """Draws the weights of a fitted `ChainSVM` or `ChainCRF`.

        Parameters
        ----------
        estimator : ChainSVM, ChainSVMCV or ChainCRF
        ends : bool
            Whether the weights of first and last labels are drawn, where the model has them.
        ax : Axes, optional

        Returns
        -------
        TransitionDisplay
        """
        if not hasattr(type(estimator), "transition_coef_"):
            raise InputTypeError(f"estimator must be a fitted ChainSVM or ChainCRF, got {what_came(estimator, None)}")
        names = fitted(estimator, "classes_", "a fitted ChainSVM or ChainCRF").tolist()
        return cls(estimator.transition_coef_, names=names, start=estimator.start_coef_ if ends and estimator.start
                   else None, end=estimator.end_coef_ if ends and estimator.end else None).plot(ax)

    def _size(self):
        side = min(0.45 * len(self.names) + 2.0, 9.0)
        return side + 0.8, side

    def _draw(self):
        K = len(self.names)
        table, rows, columns = self.transition, list(self.names), list(self.names)
        if self.start is not None:
            table, rows = np.vstack([self.start, table]), ["start", *rows]
        if self.end is not None:
            last = self.end if self.start is None else np.concatenate([[np.nan], self.end])
            table, columns = np.column_stack([table, last]), [*columns, "end"]
        largest = float(np.nanmax(np.abs(table))) or 1.0
        self.image_ = self.ax_.imshow(np.ma.masked_invalid(table), cmap=DIVERGING, vmin=-largest, vmax=largest)
        self.texts_ = self._numbers(table, largest) if K <= MOST_NUMBERS else []
        upright = max(len(name) for name in columns) <= 3
        self.ax_.set_xticks(range(len(columns)), columns, rotation=0 if upright else 90)
        self.ax_.set_yticks(range(len(rows)), rows)
        self.ax_.tick_params(length=0)
        self.ax_.spines[:].set_visible(False)
        self.ax_.set_xlabel("label")
        self.ax_.set_ylabel("label before")
        self.colorbar_ = weight_bar(self.image_)

    def _numbers(self, table, largest):
        digits = int(np.clip(2 - np.floor(np.log10(largest)), 0, 3)) - 1 if largest >= 0.1 else 3
        return [self.ax_.text(j, i, f"{value:.{max(digits, 0)}f}", ha="center", va="center", fontsize="x-small",
                              color="white" if abs(value) > 0.6 * largest else "black")
                for (i, j), value in np.ndenumerate(table) if np.isfinite(value)]
