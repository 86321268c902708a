"""Dependency trees as arcs over words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError
from ..core.types import Array
from ..core.validation import integer_array
from .canvas import FAINT, RIGHT, WRONG, Display, bare, fitted, import_matplotlib, names_of


class ParseTreeDisplay(Display):
    """A dependency tree: an arrow from every head to its word, and one from above to the root, with their relations.

    With the true tree beside, wrong arcs are orange and those of the truth that were missed dashed grey.

    Parameters
    ----------
    heads : array of int, shape (n,) or (n + 1,), or n pairs (head, relation)
        Head of every word, 1..n, 0 for the root; with -1 in front or without.
    words : sequence of n texts
    truth : array of int, or pairs, optional
        The true tree. Relations are compared if both have them.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
    arcs_ : list of FancyArrowPatch
        Of every word.
    missed_ : list of FancyArrowPatch
        Of the truth, if it is another.
    relations_ : list of Text
        On `arcs_` and `missed_`, word by word.

    Examples
    --------
    >>> import pybundle as pb
    >>> display = pb.plotting.ParseTreeDisplay.from_predictions(
    ...     [2, 3, 0], ["the", "dog", "barks"])
    >>> [text.get_text() for text in display.ax_.get_xticklabels()]
    ['the', 'dog', 'barks']
    """

    heads: Any
    relations: Any
    truth: Array | None
    _true_relations: Any
    arcs_: Any
    missed_: Any
    relations_: Any

    def __init__(self, heads: Any, words: Any, *, truth: Any = None) -> None:
        self.heads, self.relations = _split("heads", heads)
        self.words: list[str] = names_of(words, len(self.heads), "words")
        self.truth, self._true_relations = (None, None) if truth is None else _split("truth", truth)
        if self.truth is not None and len(self.truth) != len(self.heads):
            raise ParameterError(f"truth must have {len(self.heads)} heads, as many as words, got {len(self.truth)}")

    @classmethod
    def from_predictions(cls, heads: Any, words: Any, *, truth: Any = None, ax: Any = None) -> Self:
        """Draws a tree; see the class for `heads`, `words` and `truth`, `plot` for `ax`."""
        return cls(heads, words, truth=truth).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, sentence: Any, *, truth: Any = None, words: Any = None,
                       ax: Any = None) -> Self:
        """Draws the parse of one sentence.

        Parameters
        ----------
        estimator : DependencyParser
            Fitted.
        sentence
            As `predict` takes it, without the list around.
        truth : array of int, or pairs, optional
            The true tree.
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
        self.arcs_, self.missed_, self.relations_ = [], [], []
        names, true_names = self.relations, self._true_relations
        for m, head in enumerate(self.heads.tolist(), start=1):
            true_head = head if self.truth is None else int(self.truth[m - 1])
            name = None if names is None else names[m - 1]
            true_name = None if true_names is None else true_names[m - 1]
            is_other = None not in (name, true_name) and name != true_name
            color = RIGHT if head == true_head and not is_other else WRONG
            text = f"{name}, not {true_name}" if head == true_head and is_other else name
            self.arcs_.append(self._arc(m, head, top, text, color=color, linewidth=1.4))
            if head != true_head:
                self.missed_.append(self._arc(m, true_head, top, true_name, color=FAINT, linewidth=1.0,
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

    def _arc(self, m, head, top, relation, **style):
        """Draw an arrow to word m, along half an ellipse from its head, or straight from above; write its relation."""
        Path, FancyArrowPatch = import_matplotlib("path").Path, import_matplotlib("patches").FancyArrowPatch
        if head == 0:
            corners, codes = [(m, top), (m, 0.02)], [Path.MOVETO, Path.LINETO]
        else:
            start, height = head + 0.12 * np.sign(m - head), _height(m, head)  # beside the tip of the head's own arrow
            # a Bezier curve reaches 3/4 of the height of its two inner corners
            corners = [(start, 0.0), (start, height / 0.75), (m, height / 0.75), (m, 0.02)]
            codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
        arrow = FancyArrowPatch(path=Path(corners, codes), arrowstyle="-|>", mutation_scale=9, shrinkA=0, shrinkB=0,
                                fill=True, joinstyle="miter", capstyle="butt", **style)
        if relation is not None:
            x, y, ha, va = (m + 0.06, top, "left", "top") if head == 0 else (
                (m + head) / 2.0, _height(m, head), "center", "center")
            self.relations_.append(self.ax_.text(x, y, relation, color=style["color"], ha=ha, va=va, fontsize="small",
                                                 bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8}))
        return self.ax_.add_patch(arrow)


def _height(m, head):
    return abs(m - head) ** 0.8


def _split(name, given):
    """Return the heads of the n words, without the root in front, and their relations or None."""
    given = given.tolist() if isinstance(given, np.ndarray) and given.dtype.names else given
    if isinstance(given, (list, tuple)) and given and all(isinstance(pair, tuple) and len(pair) == 2 for pair in given):
        heads, relations = zip(*given, strict=True)
        return _split(name, list(heads))[0], list(map(str, relations))
    heads = integer_array(name, given)
    if heads.ndim != 1 or len(heads) == 0:
        raise ParameterError(f"{name} must be a vector of heads, one for each word, got shape {heads.shape}")
    heads = heads[1:] if heads[0] == -1 else heads
    if len(heads) == 0 or heads.min() < 0 or heads.max() > len(heads):
        raise ParameterError(f"{name} must be numbers of words, 0..{len(heads)}, got {heads.tolist()}")
    return heads, None


def _words(sentence):
    """Return the words to write below the arcs."""
    if hasattr(sentence, "forms"):
        return sentence.forms
    if not hasattr(sentence, "__len__") or hasattr(sentence, "indptr"):
        raise InputTypeError(f"words must be given for a sentence of type {type(sentence).__name__}")
    return [next(iter(word.values())) if isinstance(word, Mapping) else word[0] for word in sentence]
