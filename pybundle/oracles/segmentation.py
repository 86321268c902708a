"""Decoder of segmentations: labelled intervals of fixed widths that cover all columns exactly once.

    f(0) = 0,   f(e) = max_a f(e - width(a)) + scores[a, e - width(a)]

This is the dynamic program of the licence plate model of Uricar, Franc, Hlavac (2013). It takes O(W A) time for W
columns and A labels, and O(W A^2) with scores of neighbouring labels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.ragged import Ragged, check_offsets, run_shards
from ..core.validation import check_shape, integer_array
from ._segmentation import segment_items


class Segments(NamedTuple):
    """The segments of one item from left to right, or those of a batch.

    Attributes
    ----------
    labels : ndarray of int32, or a Ragged of them
    starts : ndarray of int32, or a Ragged of them
        First column of each segment: `starts[0] = 0`, `starts[j + 1] = starts[j] + widths[labels[j]]`.
    value : float, or ndarray of shape (n,)
        Sum of the scores of the segments, and of the transitions between them.
    """

    labels: Any
    starts: Any
    value: Any


def segment(scores: ArrayLike, widths: ArrayLike, transition: ArrayLike | None = None) -> Segments:
    """Find the best cover of the columns of one item.

    Parameters
    ----------
    scores : array of float, shape (A, W)
        `scores[a, k]` is the score of label a on the columns k..k + widths[a] - 1; ignored if these reach beyond W.
        -inf forbids a segment; NaN and +inf are refused.
    widths : array of int, shape (A,)
        At least 1.
    transition : array of float, shape (A, A), optional
        `transition[b, a]` is added if a follows b; -inf forbids the pair.

    Returns
    -------
    Segments
        `labels, starts, value`. Of equal covers, the one with the smaller label wins, compared from the right end.

    Raises
    ------
    ParameterError
        If there is no cover.

    Examples
    --------
    >>> from pybundle.oracles import segment
    >>> labels, starts, value = segment([[1.0, 0.0, 2.0], [5.0, 2.5, 0.0]], widths=[1, 2])
    >>> labels.tolist(), starts.tolist(), value
    ([1, 0], [0, 2], 7.0)
    """
    scores, widths = check_shape("scores", scores), check_widths(widths)
    if scores.ndim != 2 or len(scores) != len(widths):
        raise ParameterError(f"scores must have shape (A, W), one row for each of the {len(widths)} widths, got shape "
                             f"{scores.shape}")
    labels, starts, values = segment_batch(scores.T, [0, scores.shape[1]], widths, transition)
    return Segments(labels.values, starts.values, float(values[0]))


def segment_batch(scores: ArrayLike, offsets: ArrayLike, widths: ArrayLike, transition: ArrayLike | None = None,
                  executor: Any = None) -> Segments:
    """Find the best cover of every item of a batch.

    Parameters
    ----------
    scores : array of float, shape (N, A)
        `scores[offsets[i] + k, a]` is the score of the segment of label a that starts at column k of item i; ignored
        if the segment reaches beyond the item. C-contiguous float64 is not copied.
    offsets : array of int, shape (n + 1,)
        Item i holds the columns offsets[i]..offsets[i + 1] - 1.
    widths : array of int, shape (A,)
        Decoding is fastest if labels of equal width are neighbours.
    transition : array of float, shape (A, A), optional
    executor : object with ``map(function, items)``, optional
        Runs shards of items; the result does not depend on it.

    Returns
    -------
    Segments
        `labels` and `starts` are Ragged, with one row for each item; `value` has shape (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.oracles import segment_batch
    >>> labels, starts, values = segment_batch(np.ones((5, 2)), [0, 2, 5], widths=[1, 2])
    >>> [item.tolist() for item in labels], values.tolist()
    ([[0, 0], [0, 0, 0]], [2.0, 3.0])
    """
    scores = check_shape("scores", scores)
    widths = check_widths(widths)
    n_labels = len(widths)
    if scores.ndim != 2 or scores.shape[1] != n_labels:
        raise ParameterError(f"scores must have one entry for each of the {n_labels} widths at every column, "
                             f"got shape {scores.shape}")
    offsets = check_offsets(offsets, len(scores))
    sizes = np.diff(offsets)
    if len(sizes) and sizes.min() == 0:
        raise ParameterError(f"item {int(sizes.argmin())} must have at least one column, got none")
    _check_scores(scores, offsets, widths)
    if transition is not None:
        transition = check_shape("transition", transition)
        if transition.shape != (n_labels, n_labels):
            raise ParameterError(f"transition must have shape (A, A) = ({n_labels}, {n_labels}), "
                                 f"got {transition.shape}")
        if not (transition < np.inf).all():
            b, a = np.argwhere(~(transition < np.inf))[0]
            raise ParameterError(f"transition must hold finite numbers or -inf, got {transition[b, a]} "
                                 f"at [{b}, {a}]")
    labels = np.empty(len(scores), dtype=np.int32)
    counts = np.empty(len(sizes), dtype=np.int64)
    values = np.empty(len(sizes))
    runs = label_runs(widths)

    def decode(first, last):
        segment_items(scores, offsets, widths, *runs, transition, first, last, labels, counts, values)

    run_shards(decode, sizes * n_labels * (1 if transition is None else n_labels), executor)
    if len(counts) and counts.min() < 0:
        i = int(counts.argmin())
        raise ParameterError(f"item {i} has no cover of its {sizes[i]} columns by segments of widths "
                             f"{_listed(np.unique(widths))} with scores above -inf; allow more segments")
    labels, starts = gather(labels, counts, offsets, widths)
    return Segments(labels, starts, values)


def label_runs(widths):
    """Return the runs of neighbouring labels of equal width: bounds (n_runs + 1,) and widths (n_runs,), int32."""
    bounds = np.concatenate([[0], np.flatnonzero(np.diff(widths)) + 1, [len(widths)]]).astype(np.int32)
    return bounds, widths[bounds[:-1]]


def gather(labels, counts, offsets, widths):
    """Return labels and starts as Ragged; item i has `labels[offsets[i]:offsets[i] + counts[i]]`."""
    bounds = np.concatenate([[0], np.cumsum(counts)])
    places = np.repeat(offsets[:-1] - bounds[:-1], counts) + np.arange(bounds[-1])
    labels = labels[places]
    return Ragged(labels, bounds), Ragged(starts_of(labels, bounds, widths), bounds)


def starts_of(labels, bounds, widths):
    """Return the first column of each segment within its item, int32."""
    before = np.concatenate([[0], np.cumsum(widths[labels], dtype=np.int64)])
    return (before[:-1] - np.repeat(before[bounds[:-1]], np.diff(bounds))).astype(np.int32)


def check_widths(widths):
    """Return widths >= 1 as int32, shape (A,)."""
    widths = integer_array("widths", widths)
    if widths.ndim != 1 or len(widths) == 0:
        raise ParameterError(f"widths must have shape (A,) with A >= 1, got shape {widths.shape}")
    if widths.min() < 1 or widths.max() > np.iinfo(np.int32).max:
        a = int(np.flatnonzero((widths < 1) | (widths > np.iinfo(np.int32).max))[0])
        raise ParameterError(f"widths must be between 1 and {np.iinfo(np.int32).max}, got widths[{a}] = {widths[a]}")
    return np.ascontiguousarray(widths, dtype=np.int32)


def _check_scores(scores, offsets, widths):
    """Raise an error if an entry that the decoder reads is NaN or +inf."""
    if scores.size == 0 or scores.max() < np.inf:
        return
    rows, labels = np.nonzero(~(scores < np.inf))
    items = np.searchsorted(offsets, rows, side="right") - 1
    read = np.flatnonzero(rows + widths[labels] <= offsets[items + 1])
    if len(read):
        j = read[0]
        raise ParameterError(f"scores must be finite or -inf, got {scores[rows[j], labels[j]]} for label "
                             f"{labels[j]} at column {rows[j] - offsets[items[j]]} of item {items[j]}")


def _listed(numbers):
    return ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
