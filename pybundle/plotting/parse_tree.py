"""Dependency trees as arcs over words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import InputTypeError, ParameterError
from ..core.types import Array
from ..core.validation import integer_array
from .canvas import FAINT, RIGHT, WRONG, Display, bare, fitted, import_matplotlib, names_of


class ParseTreeDisplay(Display):
    """A dependency tree: an arrow from every head to its word, and one from above to the root.

    With the true tree beside, wrong arcs are orange and those of the truth that were missed dashed grey.

    Parameters
    ----------
    heads : array of int, shape (n,) or (n + 1,)
        Head of every word, 1..n, 0 for the root; with -1 in front or without.
    words : sequence of n texts
    truth : array of int, optional
        True heads.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
    arcs_ : list of FancyArrowPatch
        Of every word.
    missed_ : list of FancyArrowPatch
        Of the truth, if it is another.

    Examples
    --------
    >>> import pybundle as pb
    >>> display = pb.plotting.ParseTreeDisplay.from_predictions(
    ...     [2, 3, 0], ["the", "dog", "barks"])
    >>> [text.get_text() for text in display.ax_.get_xticklabels()]
    ['the', 'dog', 'barks']
    """

    truth: Array | None
    arcs_: Any
    missed_: Any

    def __init__(self, heads: ArrayLike, words: Any, *, truth: ArrayLike | None = None) -> None:
        self.heads: Any = _heads("heads", heads)
        self.words: list[str] = names_of(words, len(self.heads), "words")
        self.truth = None if truth is None else _heads("truth", truth)
        if self.truth is not None and len(self.truth) != len(self.heads):
            raise ParameterError(f"truth must have {len(self.heads)} heads, as many as words, got {len(self.truth)}")

    @classmethod
    def from_predictions(cls, heads: ArrayLike, words: Any, *, truth: Any = None, ax: Any = None) -> Self:
        """Draws a tree; see the class for `heads`, `words` and `truth`, `plot` for `ax`."""
        return cls(heads, words, truth=truth).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, sentence: Any, *, truth: ArrayLike | None = None, words: Any = None,
                       ax: Any = None) -> Self:
        """Draws the parse of one sentence.

        Parameters
        ----------
        estimator : DependencyParser
            Fitted.
        sentence
            As `predict` takes it, without the list around.
        truth : array of int, optional
            True heads.
        words : sequence of texts, optional
            What is written below; the first attribute of every word by default.
        ax : Axes, optional

        Returns
        -------
        ParseTreeDisplay
        """
        fitted(estimator, "with_root_", "a fitted DependencyParser")
        (heads,) = estimator.predict([sentence], output="array")
        return cls(heads, _words(sentence) if words is None else words, truth=truth).plot(ax)

    def _size(self):
        room = max(len(word) for word in self.words)
        return max(3.0, len(self.words) * max(0.62, 0.1 * room + 0.12)), 0.6 + 0.42 * self._top()

    def _draw(self):
        n, top = len(self.words), self._top()
        self.arcs_, self.missed_ = [], []
        for m, head in enumerate(self.heads.tolist(), start=1):
            is_right = self.truth is None or self.truth[m - 1] == head
            self.arcs_.append(self._arc(m, head, top, color=RIGHT if is_right else WRONG, linewidth=1.4))
            if not is_right:
                self.missed_.append(self._arc(m, int(self.truth[m - 1]), top, color=FAINT, linewidth=1.0,
                                              linestyle=(0, (3, 2)), zorder=1))
        bare(self.ax_)
        self.ax_.set_xlim(0.4, n + 0.6)
        self.ax_.set_ylim(0.0, top)
        self.ax_.set_xticks(np.arange(1, n + 1), self.words)
        self.ax_.tick_params(length=0, labelsize="medium")

    def _top(self):
        """Return a height above all arcs."""
        pairs = [(m, h) for heads in (self.heads, self.truth) if heads is not None
                 for m, h in enumerate(heads.tolist(), start=1)]
        return 1.0 + max([_height(m, h) for m, h in pairs if h > 0], default=0.0)

    def _arc(self, m, head, top, **style):
        """Draw an arrow to word m, along half an ellipse from its head, or straight from above."""
        Path, FancyArrowPatch = import_matplotlib("path").Path, import_matplotlib("patches").FancyArrowPatch
        if head == 0:
            corners, codes = [(m, top), (m, 0.02)], [Path.MOVETO, Path.LINETO]
        else:
            start, height = head + 0.12 * np.sign(m - head), _height(m, head)  # beside the arrow that ends at the head
            # a Bezier curve reaches 3/4 of the height of its two inner corners
            corners = [(start, 0.0), (start, height / 0.75), (m, height / 0.75), (m, 0.02)]
            codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
        arrow = FancyArrowPatch(path=Path(corners, codes), arrowstyle="-|>", mutation_scale=9, shrinkA=0, shrinkB=0,
                                fill=True, joinstyle="miter", capstyle="butt", **style)
        return self.ax_.add_patch(arrow)


def _height(m, head):
    return abs(m - head) ** 0.8


def _heads(name, heads):
    """Return the heads of the n words, without the root in front."""
    heads = integer_array(name, heads)
    if heads.ndim != 1 or len(heads) == 0:
        raise ParameterError(f"{name} must be a vector of heads, one for each word, got shape {heads.shape}")
    heads = heads[1:] if heads[0] == -1 else heads
    if len(heads) == 0 or heads.min() < 0 or heads.max() > len(heads):
        raise ParameterError(f"{name} must be numbers of words, 0..{len(heads)}, got {heads.tolist()}")
    return heads


def _words(sentence):
    """Return the words to write below the arcs."""
    if hasattr(sentence, "forms"):
        return sentence.forms
    if not hasattr(sentence, "__len__") or hasattr(sentence, "indptr"):
        raise InputTypeError(f"words must be given for a sentence of type {type(sentence).__name__}")
    return [next(iter(word.values())) if isinstance(word, Mapping) else word[0] for word in sentence]
