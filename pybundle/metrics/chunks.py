"""Chunks of tokens in labels like B-NP, I-NP, O, and their precision, recall and F1 by type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ..core.exceptions import InputTypeError, ParameterError
from ..core.validation import check_choice

PREFIXES = frozenset("BIESULM")
SCHEMES = {"BIO": ("B", "B", "I", "I"), "IOB1": ("I", "I", "I", "I"), "IOE2": ("E", "I", "I", "E"),
           "IOBES": ("S", "B", "I", "E"), "BILOU": ("U", "B", "I", "L")}
"""Prefixes by scheme: of a chunk of one token, and of the first, an inner and the last token of a longer chunk."""
AGAIN = {"IOB1": "B"}
"""Prefix of the first token of a chunk right after a chunk of the same type, if it differs from that in `SCHEMES`."""


class ChunkScore(NamedTuple):
    """Scores of the chunks of one type, or of all.

    Attributes
    ----------
    precision, recall, f1 : float
        right / found, right / support, and 2 right / (found + support), their harmonic mean; 0 for 0 / 0.
    support, found, right : int
        Numbers of true chunks, of predicted ones, and of those that are both.
    """

    precision: float
    recall: float
    f1: float
    support: int
    found: int
    right: int


class ChunkScores(NamedTuple):
    """Scores of all chunks and of each type; as a text, the table of `conlleval`.

    Attributes
    ----------
    total : ChunkScore
        Of the chunks of all types together ("micro average").
    types : dict of ChunkScore
        By type, in the order of the alphabet: the types in the truth or in the predictions.

    Examples
    --------
    >>> import pybundle as pb
    >>> truth, found = ["B-PER", "I-PER", "O", "B-LOC"], ["B-PER", "I-PER", "O", "B-ORG"]
    >>> scores = pb.metrics.chunk_scores([truth], [found])
    >>> scores.total.f1, scores.types["PER"].f1
    (0.5, 1.0)
    >>> print(scores)
    chunks  precision  recall      F1  support  found
    LOC          0.00    0.00    0.00        1      0
    ORG          0.00    0.00    0.00        0      1
    PER        100.00  100.00  100.00        1      1
    all         50.00   50.00   50.00        2      2
    """

    total: ChunkScore
    types: dict[str, ChunkScore]

    def rows(self) -> list[tuple[str, ...]]:
        """Return the rows of the table as texts, the names of its columns first; scores are percentages."""
        return [("chunks", "precision", "recall", "F1", "support", "found"),
                *((name, *(f"{100.0 * value:.2f}" for value in score[:3]), str(score.support), str(score.found))
                  for name, score in (*self.types.items(), ("all", self.total)))]

    def __str__(self) -> str:
        rows = self.rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows)


def chunk_scores(y_true: Sequence[Sequence[str]], y_pred: Sequence[Sequence[str]],
                 strict: str | None = None) -> ChunkScores:
    """Scores chunks: one is right if the truth has a chunk of the same tokens and the same type.

        precision = right / found,     recall = right / support,     F1 = 2 right / (found + support)

    Parameters
    ----------
    y_true, y_pred : sequences of sequences of str
        Labels of the tokens, such as y and what `ChainCRF.predict` returns; `O`, or a prefix and a type, like `B-NP`.
    strict : {"BIO", "IOB1", "IOE2", "IOBES", "BILOU"}, optional
        The scheme in which a chunk must be well formed to count, see `chunks`. By default every chunk counts.

    Returns
    -------
    ChunkScores
        `.total.f1` is the F1 of all chunks; `.types` has the scores of each type. Printed, it is a table.

    Raises
    ------
    InputTypeError, ParameterError
        If lengths differ or a label is not of this form.

    Notes
    -----
    The numbers are those of `conlleval` and of seqeval's default mode (schemes with the prefixes B, I, E, S), and with
    `strict` those of seqeval's strict mode, where IOB2 is "BIO". seqeval reads illegal labels of IOB1 otherwise: it
    counts the rest of a chunk whose B should be an I. Takes O(number of tokens).

    Sources: Tjong Kim Sang and Buchholz 2000 (introduction to the CoNLL-2000 shared task: chunking); Ratinov and Roth
    2009 (design challenges and misconceptions in named entity recognition) for BILOU.

    Examples
    --------
    >>> import pybundle as pb
    >>> truth = [["B-NP", "I-NP", "B-VP", "O"], ["B-NP"]]
    >>> found = [["B-NP", "I-NP", "B-VP", "B-NP"], ["I-NP"]]
    >>> print(pb.metrics.chunk_scores(truth, found))
    chunks  precision  recall      F1  support  found
    NP          66.67  100.00   80.00        2      3
    VP         100.00  100.00  100.00        1      1
    all         75.00  100.00   85.71        3      4
    >>> pb.metrics.chunk_scores(truth, found, strict="BIO").types["NP"].recall
    0.5
    """
    for name, side in (("y_true", y_true), ("y_pred", y_pred)):
        if isinstance(side, (str, bytes, dict, set)) or not hasattr(side, "__len__"):
            raise InputTypeError(f"{name} must be a list of sequences of labels, got {type(side).__name__}")
    if len(y_true) != len(y_pred):
        raise ParameterError(f"y_true and y_pred must hold the same number of sequences, got {len(y_true)} and "
                             f"{len(y_pred)}")
    support, found, right = (Counter[str]() for _ in range(3))
    for i, (truth, labels) in enumerate(zip(y_true, y_pred, strict=True)):
        own, mine = (set(_chunks(side, f"{name}[{i}]", strict))
                     for name, side in (("y_true", truth), ("y_pred", labels)))
        if len(truth) != len(labels):
            raise ParameterError(f"y_pred[{i}] must have {len(truth)} labels, as y_true[{i}] has, got {len(labels)}")
        for counts, some in ((support, own), (found, mine), (right, own & mine)):
            counts.update(kind for _, _, kind in some)
    return ChunkScores(_score(support.total(), found.total(), right.total()),
                       {kind: _score(support[kind], found[kind], right[kind]) for kind in sorted(support | found)})


def _score(support, found, right):
    return ChunkScore(right / max(found, 1), right / max(support, 1), 2.0 * right / max(support + found, 1), support,
                      found, right)


def chunks(labels: Sequence[str], strict: str | None = None) -> list[tuple[int, int, str]]:
    """Returns the chunks of one sequence, as the scorer of CoNLL-2000 reads them, in any scheme.

    A chunk begins at B, S and U, and at other prefixes if no chunk of that type is open; it ends after E, L, S and U,
    and before O, another type and a new chunk. A prefix without a type, like `B`, has the type `_`.

    Parameters
    ----------
    labels : sequence of str
    strict : {"BIO", "IOB1", "IOE2", "IOBES", "BILOU"}, optional
        Leaves out chunks that this scheme would have written with other prefixes, as an `I-NP` after `O` in "BIO".

    Returns
    -------
    list of (int, int, str)
        First token, token after the last, type.

    Raises
    ------
    InputTypeError, ParameterError
        If a label is neither `O` nor a prefix and a type; with `strict`, if the scheme has no such prefix.

    Examples
    --------
    >>> import pybundle as pb
    >>> pb.metrics.chunks(["B-NP", "I-NP", "I-VP", "O", "B-NP", "B-NP"])
    [(0, 2, 'NP'), (2, 3, 'VP'), (4, 5, 'NP'), (5, 6, 'NP')]
    >>> pb.metrics.chunks(["B-NP", "I-NP", "I-VP", "O"], strict="BIO")
    [(0, 2, 'NP')]
    """
    return _chunks(labels, "labels", strict)


def _chunks(labels, name, strict):
    if isinstance(labels, (str, bytes, dict, set)) or not hasattr(labels, "__len__"):
        raise InputTypeError(f"{name} must be a sequence of labels, got {labels!r:.40} of type {type(labels).__name__}")
    known = PREFIXES if strict is None else {*SCHEMES[check_choice("strict", strict, SCHEMES)], *AGAIN.get(strict, "")}
    prefixes, found, start, kind = [], [], None, None
    for t, label in enumerate([*labels, "O"]):
        if not isinstance(label, str):
            raise InputTypeError(f"{name}[{t}] must be a label like B-NP or O, got {label!r:.40} of type "
                                 f"{type(label).__name__}")
        prefix, _, this = label.partition("-")
        this, inside = this or "_", label != "O"
        if inside and prefix not in known:
            raise ParameterError(f"{name}[{t}] must be O, or a type after one of {', '.join(sorted(known))}, like "
                                 f"B-NP, got {label!r:.40}" + ("" if strict is None else f"; strict = {strict!r}"))
        prefixes.append(prefix)
        goes_on = inside and start is not None and this == kind and prefix in ("I", "E", "L", "M")
        if start is not None and not goes_on:
            found.append((start, t, kind))
            start = None
        if inside and not goes_on:
            start, kind = t, this
        if inside and prefix in ("E", "L", "S", "U"):
            found.append((start, t + 1, kind))
            start = None
    if strict is None:
        return found
    ends = {(end, kind) for _, end, kind in found}
    return [(a, b, kind) for a, b, kind in found if prefixes[a:b] == _written(b - a, strict, (a, kind) in ends)]


def _written(length, scheme, touches):
    """Return the prefixes of a chunk in a scheme; it `touches` a chunk of the same type before it."""
    single, first, inner, last = SCHEMES[scheme]
    if touches and scheme in AGAIN:
        single = first = AGAIN[scheme]
    return [single] if length == 1 else [first, *[inner] * (length - 2), last]


def rewritten(labels: Sequence[str], scheme: str) -> list[str]:
    """Returns the labels of the same chunks in another scheme, or in the same one, which mends them.

    The chunks are those of `chunks`: an `I-NP` that nothing has begun begins one, and becomes `B-NP` in "BIO".

    Parameters
    ----------
    labels : sequence of str
        In any scheme.
    scheme : {"BIO", "IOB1", "IOE2", "IOBES", "BILOU"}

    Returns
    -------
    list of str

    Raises
    ------
    InputTypeError, ParameterError
        If a label is neither `O` nor a prefix and a type.

    Examples
    --------
    >>> import pybundle as pb
    >>> pb.metrics.rewritten(["I-NP", "I-NP", "O", "I-VP"], "BIO")
    ['B-NP', 'I-NP', 'O', 'B-VP']
    >>> pb.metrics.rewritten(["B-NP", "I-NP", "O", "B-VP"], "BILOU")
    ['B-NP', 'L-NP', 'O', 'U-VP']
    """
    check_choice("scheme", scheme, SCHEMES)
    found, made = _chunks(labels, "labels", None), ["O"] * len(labels)
    ends = {(end, kind) for _, end, kind in found}
    for first, last, kind in found:
        suffix = "" if labels[first].partition("-")[2] == "" else f"-{kind}"
        made[first:last] = [prefix + suffix for prefix in _written(last - first, scheme, (first, kind) in ends)]
    return made
