"""Weights of kernels or groups over the epochs of an online learner."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import InputTypeError, ParameterError
from ..core.types import Floats
from .canvas import FAINT, Display, fitted, line_style, names_of, tidy, what_came

MOST_LINES = 8
"""Largest number of coloured lines; with more groups, all other lines are grey and share an entry of the legend."""


class KernelWeightsDisplay(Display):
    """Shares of the kernels, or of groups of features, after every epoch.

    Parameters
    ----------
    weights : array, shape (n_epochs, n_groups)
        Each row sums to 1.
    names : sequence, optional
        Of the groups; numbers by default.
    xlabel : str

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
    lines_ : list of Line2D
        One for each group, in their order.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> X = np.random.default_rng(0).standard_normal((100, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)
    >>> kernels = [pb.mkl.Linear(), pb.mkl.Polynomial(2, offset=0.0)]
    >>> learner = pb.mkl.OnlineMKL(kernels, lam=1e-3, n_epochs=5, random_state=0).fit(X, y)
    >>> display = pb.plotting.KernelWeightsDisplay.from_estimator(
    ...     learner, names=["linear", "quadratic"])
    >>> display.weights.shape
    (5, 2)
    """

    lines_: Any

    def __init__(self, weights: ArrayLike, *, names: Any = None, xlabel: str = "epoch") -> None:
        self.weights: Floats = np.asarray(weights, dtype=float)
        if self.weights.ndim != 2 or self.weights.size == 0:
            raise ParameterError(f"weights must have shape (n_epochs, n_groups), got {self.weights.shape}")
        self.names: list[str] = names_of(names, self.weights.shape[1], "names")
        self.xlabel = xlabel

    @classmethod
    def from_estimator(cls, estimator: Any, *, names: Any = None, ax: Any = None) -> Self:
        """Draws the history of a fitted `pb.mkl.OnlineMKL` or `OnlineMKLClassifier`.

        Parameters
        ----------
        estimator : OnlineMKL or OnlineMKLClassifier
        names : sequence, optional
            Of the groups; by default the kernels as they were written, or the templates of a parser.
        ax : Axes, optional

        Returns
        -------
        KernelWeightsDisplay
        """
        history = fitted(estimator, "history_", "a fitted pb.mkl.OnlineMKL")
        if "weights" not in history:
            raise InputTypeError(f"estimator must be a fitted pb.mkl.OnlineMKL, got {what_came(estimator, None)}, "
                                 "whose history_ has no weights")
        if names is None:
            names = _group_names(estimator, np.shape(history["weights"])[-1])
        return cls(history["weights"], names=names, xlabel="iteration" if "n_passes" in history else "epoch").plot(ax)

    def _size(self):
        return 6.4, 3.8

    def _draw(self):
        self.lines_ = []
        n_epochs, n_groups = self.weights.shape
        epochs = np.arange(1, n_epochs + 1)
        ranks = np.argsort(np.argsort(-self.weights[-1], kind="stable"))        # rank 0 has the largest last weight
        n_lines = n_groups if n_groups <= MOST_LINES else MOST_LINES - 1
        for k, name in enumerate(self.names):
            is_shown = ranks[k] < n_lines
            style = line_style(ranks[k]) if is_shown else {"color": FAINT, "linewidth": 0.8, "zorder": 1}
            label = name if is_shown else f"{n_groups - n_lines} others" if ranks[k] == n_lines else None
            self.lines_ += self.ax_.plot(epochs, self.weights[:, k], label=label, marker=".",
                                         markevery=1 + n_epochs // 30, **style)
        order = [int(k) for k in np.argsort(ranks)[:n_lines + (n_groups > n_lines)]]
        self.ax_.legend([self.lines_[k] for k in order], [self.lines_[k].get_label() for k in order],
                        loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")
        self.ax_.set_ylim(0.0, None)
        self.ax_.xaxis.get_major_locator().set_params(integer=True)
        self.ax_.set_xlabel(self.xlabel)
        self.ax_.set_ylabel("share of the norm")
        tidy(self.ax_)


def _group_names(learner, n_groups):
    """Return the names of a parser's templates or of kernels, numbered if they repeat, or None if names are unknown."""
    templates = getattr(getattr(learner, "model", None), "template_names", None)
    if templates is not None and len(templates) == n_groups:
        return list(templates)
    groups = getattr(learner, "kernels_", getattr(learner, "groups", None))
    if not isinstance(groups, (list, tuple)) or n_groups - len(groups) not in (0, 1):
        return None
    names = [getattr(group, "__name__", repr(group)) for group in groups]
    names = [f"{k} {name}" if names.count(name) > 1 else name for k, name in enumerate(names)]
    return names + ["label pairs"] * (n_groups - len(groups))
