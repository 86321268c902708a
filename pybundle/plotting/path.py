"""Regularisation paths: errors over lam or C."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import InputTypeError, ParameterError
from ..core.types import Floats
from ..core.validation import check_vector
from .canvas import Display, fitted, line_style, tidy, what_came


class PathDisplay(Display):
    """Errors along a regularisation path, from strong regularisation on the left to weak on the right.

    Parameters
    ----------
    values : array, shape (n,)
        The constants: lam, C, or the rates of penalties.
    curves : dict of array
        Errors by name, shape (n,) or, for folds, (n_folds, n): mean, and a band of one standard deviation.
    best : float, optional
        A vertical line at this value.
    xlabel : str
        "lam" and "rate" fall from left to right, others rise.
    ylabel : str

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
    lines_ : list of Line2D
        Of every curve.

    Examples
    --------
    >>> import pybundle as pb
    >>> X, y, X_test, y_test = pb.datasets.load_digits()
    >>> results = pb.path(pb.risks.MulticlassHinge(X, y), [100.0, 10.0, 1.0])
    >>> def error(w):
    ...     return 100.0 * ((X_test @ w.reshape(10, 64).T).argmax(axis=1) != y_test).mean()
    >>> display = pb.plotting.PathDisplay.from_results(
    ...     results, {"validation": error}, ylabel="error, %")
    >>> display.ax_.get_xlabel(), display.best
    ('lam', 1.0)
    """

    lines_: Any

    def __init__(self, values: ArrayLike, curves: Any, *, best: float | None = None, xlabel: str = "lam",
                 ylabel: str = "error") -> None:
        self.values: Floats = np.asarray(values, dtype=float)
        self.curves: dict[str, Floats] = {name: np.atleast_2d(np.asarray(errors, dtype=float))
                                          for name, errors in curves.items()}
        self.best = best
        self.xlabel = xlabel
        self.ylabel = ylabel
        for name, errors in self.curves.items():
            if errors.ndim != 2 or errors.shape[1] != len(self.values):
                raise ParameterError(f"curves must hold one error for each of the {len(self.values)} values, got shape "
                                     f"{np.shape(curves[name])} for {name!r}")

    @classmethod
    def from_results(cls, results: Any, errors: Any = None, *, values: ArrayLike | None = None, ylabel: str = "error",
                     ax: Any = None) -> Self:
        """Draws errors of the results of `pybundle.path` over lam, or over the rate of the penalties.

        Parameters
        ----------
        results : list of Result
        errors : callable, array (n,), or mapping from name to these, optional
            A callable gets the weights w of every result and returns a number. The smallest error of the last one is
            marked. By default objective and lower bound of every result are drawn, and nothing is marked.
        values : array, shape (n,), optional
            Positive numbers for the axis, such as the `l1` of each penalty. By default lam, or the rate of penalties of
            one class such as `L1(rate)`.
        ylabel : str
        ax : Axes, optional

        Returns
        -------
        PathDisplay
        """
        lams, xlabel = _constants(results) if values is None else (_positive(values, results), "rate")
        if errors is None and lams:
            curves = {name: [float(result[key]) for result in results]
                      for name, key in (("objective", "fun"), ("lower bound", "lower_bound"))}
            return cls(lams, curves, xlabel=xlabel, ylabel="objective" if ylabel == "error" else ylabel).plot(ax)
        named = dict(errors) if isinstance(errors, Mapping) else {"": errors}
        if not lams or not named:
            raise ParameterError(f"results and errors must not be empty, got {len(lams)} and {len(named)}")
        curves = {str(name): [error(result.x) for result in results] if callable(error) else error
                  for name, error in named.items()}
        display = cls(lams, curves, xlabel=xlabel, ylabel=ylabel)
        last = display.curves[str(list(named)[-1])].mean(axis=0)
        if np.isfinite(last).any():
            display.best = lams[int(np.nanargmin(last))]
        return display.plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draws the search of a fitted estimator over C, such as `MulticlassSVMCV`: each whose name ends in CV.

        Parameters
        ----------
        estimator : MulticlassSVMCV, ChainCRFCV or another one
            The validation error is 1 - score in per cent, with `scoring` or the `metric` of a ranker the score itself.
        ax : Axes, optional

        Returns
        -------
        PathDisplay
        """
        scores, grid = (fitted(estimator, name, "a fitted MulticlassSVMCV or ChainSVMCV")
                        for name in ("scores_", "Cs_"))
        scoring = getattr(estimator, "metric", None) if estimator.scoring is None else estimator.scoring
        if scoring is None:
            curve, ylabel = 100.0 * (1.0 - scores), "validation error, %"
        else:
            curve, ylabel = scores, str(getattr(scoring, "__name__", scoring))
        return cls(grid, {"": curve}, best=estimator.C_, xlabel="C", ylabel=ylabel).plot(ax)

    def _size(self):
        return 5.2, 3.8

    def _draw(self):
        self.lines_ = []
        order = np.argsort(self.values)
        for k, (name, errors) in enumerate(self.curves.items()):
            known = order[np.isfinite(errors[:, order]).all(axis=0)]  # errors are missing where a fold was stopped
            mean, spread = errors[:, known].mean(axis=0), errors[:, known].std(axis=0)
            self.lines_ += self.ax_.plot(self.values[known], mean, marker=".", label=name, **line_style(k))
            if len(errors) > 1:
                self.ax_.fill_between(self.values[known], mean - spread, mean + spread, alpha=0.15, linewidth=0,
                                      color=line_style(k)["color"])
        self.ax_.set_xscale("log")
        if self.xlabel in ("lam", "rate") and not self.ax_.xaxis_inverted():
            self.ax_.invert_xaxis()
        if self.best is not None:
            self.ax_.axvline(self.best, color="0.4", linestyle=":", linewidth=1.0)
            self.ax_.annotate(f"best: {self.best:.3g}", (self.best, 1.0), xycoords=self.ax_.get_xaxis_transform(),
                              xytext=(3, -2), textcoords="offset points", va="top", fontsize="small", color="0.4")
        self.ax_.set_xlabel(self.xlabel)
        self.ax_.set_ylabel(self.ylabel)
        tidy(self.ax_)
        if any(self.curves):
            self.ax_.legend(frameon=False, fontsize="small")


def _constants(results):
    """Return the lam of each result of a path, or the rate of its penalty, and the name of the axis."""
    try:
        penalties = [getattr(result, "penalty", None) for result in results]
        if not any(penalty is not None for penalty in penalties):
            return [float(result.lam) for result in results], "lam"
    except (TypeError, AttributeError) as problem:
        raise InputTypeError("results must be a list of results of pybundle.path, which have lam or penalty; got "
                             f"{what_came(results, 'lam')}") from problem
    rates = [getattr(penalty, "rate", None) for penalty in penalties]
    kinds = sorted({type(penalty).__name__ for penalty in penalties})
    if len(kinds) > 1 or any(rate is None or np.ndim(rate) or not rate > 0.0 for rate in rates):
        raise ParameterError("values must be given for penalties without one positive rate each, got "
                             f"{', '.join(kinds)}; pass one number > 0 for each result")
    return [float(rate) for rate in rates], "rate"


def _positive(values, results):
    """Return the argument `values` as a list, after a check that it has one number > 0 for each result."""
    found = check_vector("values", values)
    if len(found) != len(results) or not (found > 0.0).all():
        raise ParameterError(f"values must be {len(results)} numbers > 0, one for each result, got {len(found)} from "
                             f"{found.min(initial=np.inf):g}; the axis is logarithmic")
    return found.tolist()
