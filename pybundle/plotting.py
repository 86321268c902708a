"""Convergence plots: the gap over passes and over time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .core.exceptions import InputTypeError, ParameterError

PANELS = (("n_passes", "passes over the data"), ("time", "seconds"))


def plot_convergence(results, *, tol=None, title=None):
    """Draws the relative gap of one or several runs over passes and over seconds.

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
        Not registered with pyplot; write it with ``savefig``.

    Raises
    ------
    ImportError
        Without matplotlib.

    Examples
    --------
    >>> import pybundle as pb
    >>> from pybundle.plotting import plot_convergence
    >>> result = pb.minimize(pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1]), lam=1.0)
    >>> figure = plot_convergence({"oca": result}, tol=1e-2)
    >>> len(figure.axes)
    2
    """
    runs = _labelled(results)
    try:
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise ImportError("plots need matplotlib, which is not installed; "
                          "run: pip install 'pybundle-ml[plot]'") from problem
    figure = Figure(figsize=(10.0, 4.0), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, (field, label) in zip(axes, PANELS, strict=True):
        for name, history in runs.items():
            x, gap = np.asarray(history[field]), np.asarray(history["gap"])
            shown = np.isfinite(gap) & (gap > 0.0)
            axis.plot(x[shown], gap[shown], label=name, marker="." if shown.sum() < 30 else None)
        if tol is not None:
            axis.axhline(tol, color="0.6", linestyle=":", linewidth=1.0)
        axis.set_yscale("log")
        axis.set_xlabel(label)
        axis.grid(True, which="major", alpha=0.3)
    axes[0].set_ylabel("relative gap")
    if any(runs):
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", fontsize="small")
    if title is not None:
        figure.suptitle(title)
    return figure


def _labelled(results):
    """Label -> history; a label of "" keeps a single run out of the legend."""
    if isinstance(results, Mapping) and "history" not in results:
        named = dict(results)
    elif hasattr(results, "history"):
        named = {"": results}
    else:
        try:
            named = {f"run {k}": result for k, result in enumerate(results, start=1)}
        except TypeError:
            raise InputTypeError(f"results must be a result, a sequence or a mapping of results, "
                                 f"got {type(results).__name__}") from None
    if not named:
        raise ParameterError("results must hold at least one run, got none")
    for name, result in named.items():
        if not hasattr(result, "history"):
            raise InputTypeError(f"results must hold results of pybundle.minimize, got {type(result).__name__} "
                                 f"for {name!r}")
    return {name: result.history for name, result in named.items()}
