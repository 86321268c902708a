"""Scores of rankings: NDCG, average precision, precision, reciprocal rank by group, and concordance of pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..core._pairs import pair_sums
from ..core.exceptions import ParameterError
from ..core.groups import group_codes, runs_of
from ..core.validation import bool_array, check_choice, check_integer, check_number, check_vector


def ndcg(y: ArrayLike, scores: ArrayLike, groups: ArrayLike | None = None, *, k: int | None = None,
         gains: str = "exponential", empty: float | None = None) -> float:
    """Return the normalised discounted cumulative gain, the mean over groups.

    In a group it is `sum_r gain(grade at rank r) / log2(r + 1)` over the first k ranks, divided by its largest value.
    In all functions here rows of equal scores stand in the worst order, so that constant scores gain nothing.

    Parameters
    ----------
    y, scores : array, shape (n,)
        Grades >= 0, the better the larger, and decisions.
    groups : array, shape (n,), optional
        Names of the groups of the rows, in any order; default one group.
    k : int, optional
        Number of ranks, by default all.
    gains : {"exponential", "linear"}
        `2^grade - 1`, as in benchmarks of web search, or the grade, as in scikit-learn.
    empty : float, optional
        Score of groups without relevant rows, 0 or 1 elsewhere; by default they are left out of the mean.

    Raises
    ------
    ParameterError, InputTypeError
        If shapes differ, numbers or sums of gains are not finite, or no group has a relevant row and `empty` is None.

    Notes
    -----
    Takes O(n log n). Source: [Jarvelin and Kekalainen 2002].

    Examples
    --------
    >>> import pybundle as pb
    >>> pb.metrics.ndcg([2, 0, 1, 1], [0.3, 0.2, 0.1, 0.0], groups=[1, 1, 1, 2])
    0.981...
    """
    ranked = _Ranked(y, scores, groups, k)
    if ranked.y.min() < 0.0:
        raise ParameterError(f"y must hold grades >= 0, got {ranked.y.min():g}")
    is_linear = check_choice("gains", gains, ("exponential", "linear")) == "linear"
    best = ranked.y[np.lexsort((-ranked.y, ranked.codes))]
    discounts = ranked.is_top / np.log2(ranked.ranks + 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        found, most = (ranked.sums(discounts * (grades if is_linear else np.exp2(grades) - 1.0))
                       for grades in (ranked.y, best))
    if not np.isfinite(most).all():
        raise ParameterError(f"y must hold grades whose gains have a finite sum, got {ranked.y.max():g}; scale them"
                             + ("" if is_linear else ", or pass gains='linear'"))
    return _mean(found, most, empty)


def average_precision(y: ArrayLike, scores: ArrayLike, groups: ArrayLike | None = None, *, k: int | None = None,
                      relevant: float = 1.0, empty: float | None = None) -> float:
    """Return the mean over groups of the average precision (MAP).

    In a group it is the sum, over its relevant rows among the first k, of the share of relevant rows up to their rank,
    divided by the number of relevant rows, or by k if this is smaller.

    Parameters
    ----------
    y, scores, groups, k, empty
        As in `ndcg`.
    relevant : float
        Least grade of relevant rows.

    Examples
    --------
    >>> import pybundle as pb
    >>> pb.metrics.average_precision([1, 0, 1], [0.3, 0.2, 0.1])
    0.833...
    """
    ranked = _Ranked(y, scores, groups, k, relevant)
    before = np.cumsum(ranked.relevant) - np.repeat(np.cumsum(ranked.relevant)[ranked.starts]
                                                    - ranked.relevant[ranked.starts], ranked.sizes)
    counts = ranked.sums(ranked.relevant)
    return _mean(ranked.sums(ranked.is_top * ranked.relevant * before / ranked.ranks),
                 counts if k is None else np.minimum(counts, k), empty)


def precision(y: ArrayLike, scores: ArrayLike, groups: ArrayLike | None = None, *, k: int,
              relevant: float = 1.0, empty: float | None = None) -> float:
    """Return the mean over groups of the share of relevant rows among the first k; smaller groups are padded.

    Parameters
    ----------
    y, scores, groups, k, relevant, empty
        As in `average_precision`.

    Examples
    --------
    >>> import pybundle as pb
    >>> pb.metrics.precision([1, 0, 1], [0.3, 0.2, 0.1], k=2)
    0.5
    """
    ranked = _Ranked(y, scores, groups, check_integer("k", k, low=1), relevant)
    has_any = ranked.sums(ranked.relevant) > 0.0
    return _mean(ranked.sums(ranked.is_top * ranked.relevant), np.where(has_any, float(k), 0.0), empty)


def reciprocal_rank(y: ArrayLike, scores: ArrayLike, groups: ArrayLike | None = None, *, k: int | None = None,
                    relevant: float = 1.0, empty: float | None = None) -> float:
    """Return the mean over groups of 1 / rank of the first relevant row (MRR), 0 beyond rank k.

    Parameters
    ----------
    y, scores, groups, k, relevant, empty
        As in `average_precision`.

    Examples
    --------
    >>> import pybundle as pb
    >>> pb.metrics.reciprocal_rank([0, 1, 1], [0.3, 0.2, 0.1])
    0.5
    """
    ranked = _Ranked(y, scores, groups, k, relevant)
    first = np.maximum.reduceat(ranked.is_top * ranked.relevant / ranked.ranks, ranked.starts)
    return _mean(first, 1.0 * (ranked.sums(ranked.relevant) > 0.0), empty)


def concordance(y: ArrayLike, scores: ArrayLike, groups: ArrayLike | None = None, *,
                event: ArrayLike | None = None) -> float:
    """Return the share of pairs of different grades whose scores have the same order; equal scores count half.

    Without groups and events and with two grades this is the area under the ROC curve. Pairs of all groups count alike.

    Parameters
    ----------
    y, scores, groups
        As in `ndcg`; y may be negative.
    event : bool array, shape (n,), optional
        For censored times y: whether the event was seen. A pair then has an event at the earlier time; of equal times,
        those with an event count as earlier than censored ones, as in scikit-survival. Scores grow with the time, so
        this is Harrell's concordance index, where scores of risks have the other sign.

    Raises
    ------
    ParameterError, InputTypeError
        If shapes differ, numbers are not finite, or there is no pair.

    Notes
    -----
    Takes O(n log n), as pairs are not listed. Source: [Harrell et al. 1982].

    Examples
    --------
    >>> import pybundle as pb
    >>> pb.metrics.concordance([0, 1, 2], [0.1, 0.3, 0.3])
    0.833...
    """
    y, scores, codes = _checked(y, scores, groups)
    n, flags = len(y), np.empty(0, np.uint8)
    if event is not None:
        event = bool_array("event", event, (n,))
        flags, y = event.view(np.uint8), 2.0 * np.unique(y, return_inverse=True)[1] + ~event
    order = np.lexsort((y, codes))
    key = np.unique(scores, return_inverse=True)[1][order] * 1.0
    runs, of_groups, starts = runs_of(codes[order], y[order])

    def count(keys, shift):         # the pairs whose better row has a key below the key of the other row plus the shift
        up, down, values = np.empty(n), np.empty(n), np.empty(len(starts))
        pair_sums(keys, y[order], flags[order] if len(flags) else flags, runs, of_groups, np.full(len(starts), shift),
                  False, 1, up, down, values)
        return float(up.sum())

    total = count(np.zeros(n), 1.0)
    if total == 0.0:
        raise ParameterError("y must have different grades in a group, got no pair of rows to compare; "
                             "check y and groups, or use fewer folds in a search")
    return 1.0 - 0.5 * (count(key, 0.0) + count(key, 0.5)) / total


class _Ranked:
    """Rows sorted by group, then by falling score, then by rising grade; `ranks` begin at 1."""

    def __init__(self, y, scores, groups, k, relevant=1.0):
        y, scores, codes = _checked(y, scores, groups)
        order = np.lexsort((y, -scores, codes))
        self.y, self.codes = y[order], codes[order]
        self.starts = np.flatnonzero(np.diff(self.codes, prepend=-1))
        self.sizes = np.diff(self.starts, append=len(y))
        self.ranks = np.arange(1.0, len(y) + 1.0) - np.repeat(self.starts, self.sizes)
        self.is_top = self.ranks <= (np.inf if k is None else check_integer("k", k, low=1))
        self.relevant = 1.0 * (self.y >= check_number("relevant", relevant))

    def sums(self, numbers):
        return np.add.reduceat(numbers, self.starts)


def _checked(y, scores, groups):
    y = check_vector("y", y)
    if len(y) == 0:
        raise ParameterError("y must hold at least one row, got none")
    return y, check_vector("scores", scores, len(y)), group_codes(groups, len(y))[0]


def _mean(found, most, empty):
    """Return the mean of `found / most`; groups with `most` 0 count as `empty`, or do not count if `empty` is None."""
    is_empty = most == 0.0
    if empty is None and is_empty.all():
        raise ParameterError(f"y must have relevant rows in a group, got none in {len(most)} groups; functions of "
                             "pb.metrics take empty=0.0 or empty=1.0 to count such groups")
    shares = np.divide(found, most, out=np.zeros(len(most)), where=~is_empty)
    if empty is None:
        return float(shares[~is_empty].mean())
    return float(np.where(is_empty, check_number("empty", empty), shares).mean())
