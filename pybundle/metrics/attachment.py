"""Scores of dependency trees: right heads, and right heads with right relations."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.exceptions import ParameterError


class AttachmentScores(NamedTuple):
    """Fractions of words that are right; NaN for no words, and without relations for all but UAS.

    Attributes
    ----------
    uas, las : float
        Words with the right head, and with the right head and relation.
    las_without_subtypes : float
        The same as LAS, but relations end at a colon, so that `det:def` is `det`, as the CoNLL 2018 shared task counts.
    n_words : int
    """

    uas: float
    las: float
    las_without_subtypes: float
    n_words: int


def attachment_scores(y_true: Sequence[Any], y_pred: Sequence[Any],
                      counted: Sequence[Sequence[bool]] | None = None) -> AttachmentScores:
    """Return the attachment scores of predicted trees.

    Parameters
    ----------
    y_true, y_pred : sequence of sentences
        A sentence is a sequence of pairs (head, relation), one for each word, or of heads, with or without -1 for the
        root in front, which is not counted.
    counted : sequence of sequences of bool, optional
        For each sentence which of its words count; all by default. To leave punctuation out:
        `[[tag != "PUNCT" for tag in sentence.upos] for sentence in X]`.

    Raises
    ------
    ParameterError
        Unless all have the same numbers of sentences and words, and relations are texts.

    Examples
    --------
    >>> from pybundle.metrics import attachment_scores
    >>> truth = [[(2, "det"), (3, "nsubj"), (0, "root")]]
    >>> attachment_scores(truth, [[(2, "det:def"), (3, "obj"), (0, "root")]])  # doctest: +ELLIPSIS
    AttachmentScores(uas=1.0, las=0.333..., las_without_subtypes=0.666..., n_words=3)
    """
    words: list[tuple[Any, Any]] = []
    for i in range(max(len(y_true), len(y_pred))):
        sides = [_of_words(side[i]) if i < len(side) else ()
                 for side in (y_true, y_pred, *([] if counted is None else [counted]))]
        if len({len(side) for side in sides}) > 1:
            raise ParameterError("y_true, y_pred and counted must hold the same words, got "
                                 f"{', '.join(str(len(side)) for side in sides)} in sentence {i}")
        words += [(truth, found) for truth, found, *rest in zip(*sides, strict=True) if all(rest)]
    pairs = [label for sides in words for label in sides if hasattr(label, "__len__")]
    odd = next((pair for pair in pairs if len(pair) != 2 or not isinstance(pair[1], str)), None)
    if odd is not None:
        raise ParameterError(f"y_true and y_pred must hold heads or pairs (head, relation), got {odd!r:.60}")
    n = len(words)
    if n == 0 or len(pairs) < 2 * n:
        right = sum(map(operator.eq, *([label[0] if hasattr(label, "__len__") else label for label in side]
                                       for side in zip(*words, strict=True)))) if n else math.nan
        return AttachmentScores(float(right / max(n, 1)), math.nan, math.nan, n)
    named = [(relation, other) for (head, relation), (found, other) in words if head == found]
    exact = sum(relation == other for relation, other in named)
    cut = sum(relation.partition(":")[0] == other.partition(":")[0] for relation, other in named)
    return AttachmentScores(len(named) / n, exact / n, cut / n, n)


def _of_words(labels: Any) -> Any:
    return labels[1:] if len(labels) and not hasattr(labels[0], "__len__") and labels[0] == -1 else labels
