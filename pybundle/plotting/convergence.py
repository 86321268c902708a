"""Convergence: the gap of one or several runs over passes and over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError
from ..core.validation import check_choice
from ..runtime.result import Result
from .canvas import axes_for, import_matplotlib, line_style, tidy, what_came

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = {"n_passes": "passes over the data", "time": "seconds"}


class ConvergenceDisplay:
    """The relative gap of one or several runs over passes and over seconds, on a logarithmic scale.

    Passes do not depend on the machine, seconds do; a gap is that of the best point and the best bound so far.

    Parameters
    ----------
    histories : dict of dict
        History of each run by its name, as `Result.history` or `history_` of an estimator holds it.
    tol : float, optional
        Draws a line at this gap.

    Attributes
    ----------
    axes_ : ndarray of Axes
        The panels.
    ax_ : Axes
        The first of them.
    figure_ : Figure
    lines_ : list of list of Line2D
        For every panel the line of each run.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> runs = {method: pb.minimize(risk, lam=1.0, method=method)
    ...         for method in ("bmrm", "oca")}
    >>> display = pb.plotting.ConvergenceDisplay.from_results(runs, tol=1e-2)
    >>> [axis.get_xlabel() for axis in display.axes_]
    ['passes over the data', 'seconds']
    """

    axes_: Any
    ax_: Any
    figure_: Any
    lines_: Any

    def __init__(self, histories: dict[str, Any], *, tol: float | None = None) -> None:
        self.histories = histories
        self.tol = tol

    @classmethod
    def from_results(cls, results: Any, *, tol: float | None = None, ax: Any = None, x: Any = None) -> Self:
        """Draws results of `pybundle.minimize`.

        Parameters
        ----------
        results : Result, sequence of Result, or mapping from name to Result
            Anything with a `history` as `pybundle.minimize` returns it.
        tol : float, optional
            Draws a line at this gap.
        ax, x
            See `plot`.

        Returns
        -------
        ConvergenceDisplay
        """
        return cls(_histories("results", results, "history", "results of pybundle.minimize"), tol=tol).plot(ax, x=x)

    @classmethod
    def from_estimator(cls, estimator: Any, *, tol: float | None = None, ax: Any = None, x: Any = None) -> Self:
        """Draws the fits of estimators.

        Parameters
        ----------
        estimator : estimator, sequence of estimators, or mapping from name to estimator
            Fitted.
        tol : float, optional
            Draws a line at this gap; that of the estimators by default, if all have the same.
        ax, x
            See `plot`.

        Returns
        -------
        ConvergenceDisplay
        """
        named = _named("estimator", estimator, "history_")
        histories = _histories("estimator", named, "history_", "fitted estimators")
        tols = {getattr(one, "tol", None) for one in named.values()}
        return cls(histories, tol=tols.pop() if tol is None and len(tols) == 1 else tol).plot(ax, x=x)

    def plot(self, ax: Any = None, *, x: str | None = None) -> Self:
        """Draws the runs.

        Parameters
        ----------
        ax : Axes or pair of Axes, optional
            Both panels in a new figure by default.
        x : {"n_passes", "time"}, optional
            Draws this panel alone; `"n_passes"` by default for a single `ax`.

        Returns
        -------
        self
        """
        if x is not None:
            panels = [check_choice("x", x, tuple(PANELS))]
        else:
            panels = list(PANELS) if ax is None or np.size(np.array(ax, dtype=object)) == 2 else ["n_passes"]
        self.axes_ = axes_for(ax, (4.6 * len(panels) + 0.8, 3.8), len(panels))
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        self.lines_ = [self._panel(axis, field) for axis, field in zip(self.axes_, panels, strict=True)]
        self.ax_.set_ylabel("relative gap")
        if any(self.histories):
            self.axes_[-1].legend(fontsize="small", frameon=False)
        return self

    def _panel(self, axis, field):
        lines = []
        for k, (name, history) in enumerate(self.histories.items()):
            x, gap = np.asarray(history[field]), np.asarray(history["gap"])
            shown = np.isfinite(gap) & (gap > 0.0)
            lines += axis.plot(x[shown], gap[shown], label=name, marker=".",
                               markevery=1 + shown.sum() // 30, **line_style(k))
        if self.tol is not None:
            axis.axhline(self.tol, color="0.4", linestyle=":", linewidth=1.0)
            axis.annotate("tol", (1.0, self.tol), xycoords=axis.get_yaxis_transform(), xytext=(-2, 2),
                          textcoords="offset points", ha="right", va="bottom", fontsize="small", color="0.4")
        axis.set_yscale("log")
        axis.set_xlabel(PANELS[field])
        tidy(axis)
        return lines


def plot_convergence(results: Any, *, tol: float | None = None, title: str | None = None) -> Figure:
    """Return a figure with a `ConvergenceDisplay`. It is made without pyplot, so no screen is needed.

    Parameters
    ----------
    results : Result, sequence of Result, or mapping from label to Result
        Anything with a `history` as `pybundle.minimize` returns it.
    tol : float, optional
        Draws a line at this gap.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
        Write it with ``savefig``.

    Raises
    ------
    ImportError
        Without matplotlib.

    Examples
    --------
    >>> import pybundle as pb
    >>> from pybundle.plotting import plot_convergence
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> result = pb.minimize(risk, lam=1.0)
    >>> figure = plot_convergence({"oca": result}, tol=1e-2)
    >>> len(figure.axes)
    2
    """
    display = ConvergenceDisplay(_histories("results", results, "history", "results of pybundle.minimize"), tol=tol)
    figure = import_matplotlib("figure").Figure(figsize=(10.0, 4.0), layout="constrained")
    display.plot(figure.subplots(1, 2, sharey=True))
    if title is not None:
        figure.suptitle(title)
    return figure


def _named(argument, runs, field):
    """Return runs by name; a single run has the name "", which is not in the legend."""
    # a single run, or another object in place of one
    if hasattr(runs, field) or hasattr(runs, "fit") or isinstance(runs, Result):
        named = {"": runs}
    elif isinstance(runs, Mapping):
        named = dict(runs)
    else:
        try:
            named = {f"run {k}": run for k, run in enumerate(runs, start=1)}
        except TypeError:
            raise InputTypeError(f"{argument} must have {field}, as results and fitted estimators do, or be a sequence "
                                 f"or a mapping of such, got {type(runs).__name__}") from None
    if not named:
        raise ParameterError(f"{argument} must hold at least one run, got none")
    return named


def _histories(argument, runs, field, expected):
    """Return the histories of runs by name, after a check that they can be drawn."""
    named = _named(argument, runs, field)
    for name, run in named.items():
        history = getattr(run, field, None)
        if not isinstance(history, Mapping) or not {"gap", *PANELS} <= history.keys():
            raise InputTypeError(f"{argument} must hold {expected}, whose {field} has time, n_passes and gap; got "
                                 f"{what_came(run, field)}" + (f", for {name!r}" if name else ""))
    return {str(name): getattr(run, field) for name, run in named.items()}
