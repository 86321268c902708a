"""Risks of a measure of the whole sample in two classes: area under the ROC curve, precision at k, F-score."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.labels import sign_labels
from ..core.rounding import UNIT
from ..core.types import Array, Data, Floats
from ..core.validation import check_integer, check_number, read_only, refuse_unknown
from .ranking import Ranking
from .sorted_scores import SortedScores

REFUSED = {"fit_intercept": "an intercept changes no order, leave it out; FScore has bias=1.0",
           "n_parts": "a measure of the whole sample has one part",
           "sample_weight": "a measure of the whole sample has no weights of single rows"}


class ROCArea(Ranking):
    """Risk of the area under the ROC curve: each positive row should score higher than each negative one.

        R(w) = 1 / n- sum over positive i and negative j of max(0, 1 - <w, x_i - x_j>)

    This is at least n+ times (1 - area). It is `Ranking` with two grades and the weight 1 / n- of each pair, so that a
    row costs about 1 and lam means what it means for a hinge.

    Parameters
    ----------
    X : ndarray (float32, float64 or uint8) or CSR, shape (n, d)
        Read as it is, never copied; w has shape (d,).
    y : array, shape (n,)
        -1/+1 or 0/1; n+ and n- are the numbers of positive and negative rows.

    Raises
    ------
    ParameterError, InputTypeError
        If X is not finite, or y lacks a class or has more than two.

    Notes
    -----
    A plane costs O(nnz(X) + n log n). A constant added to all scores changes nothing. Source: [Joachims 2005].

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> risk = pb.risks.ROCArea(np.array([[1.0], [3.0], [2.0]]), [0, 1, 0])
    >>> risk.evaluate(np.array([0.25]))
    (array([0.625]), array([[-1.5]]))
    """

    def __init__(self, X: Data, y: ArrayLike, **unknown: Any) -> None:
        refuse_unknown(unknown, ("X", "y"), REFUSED.get(min(unknown, default="")))
        super().__init__(X, y)
        self.group_weight = read_only(np.full(1, 1.0 / np.count_nonzero(self.y < 0.0)))
        self._group(None)

    def _grades(self, y):
        return 1.0 * both_classes(y, self.n_examples)


class _Tables(SortedScores):
    """Base class: R is a maximum over the tables of true and false positives.

        R(w) = max over tables t of offset_t - c_t (sum of the m_t lowest positive scores)
                                             + (sum of the b_t highest negative scores)

    A subclass sets `_most`, the largest sum of `c_t` or of 1 over the rows of a class, and `_miss`, a bound in units of
    rounding on the error of computed offsets and of the choice of tables. `_tables(highest)` returns offsets, m, c and
    b from the negative scores, highest first.
    """

    _most: int
    _miss: float
    _tables: Any
    _is_centred = True          # a constant added to all scores changes nothing

    def __init__(self, X, y, bias=None):
        self._take(X, bias)
        self.y: Array = read_only(both_classes(y, self.n_examples))
        self.n_positive: int = int(np.count_nonzero(self.y > 0))
        self._group(None)

    def _regroup(self, n_parts):
        check_integer("n_parts", n_parts, low=1)
        super()._regroup(1)

    def _arguments(self, rows):
        return {"X": self.examples.X[rows], "y": self.y[rows]}

    @property
    def _units(self):
        return [Whole(0, self._parts[0])]

    @cached_property
    def slope_sizes(self) -> Floats:
        """Bound on the Euclidean norm of any slope, shape (1,): the largest norms of rows of both classes."""
        return np.array([1.01 * sum(np.sort(self.examples.norms[self.y == sign])[::-1][:self._most].sum()
                                    for sign in (-1, 1))])

    def _best(self, scores):
        """Return the lowest positive and the highest negative rows of the best table, c, the offset and the value."""
        up, down = np.flatnonzero(self.y > 0), np.flatnonzero(self.y < 0)
        low, high = up[np.argsort(scores[up])], down[np.argsort(-scores[down])]
        offsets, m, c, b = self._tables(scores[high])
        found = offsets + np.append(0.0, np.cumsum(scores[high]))[b] - c * np.append(0.0, np.cumsum(scores[low]))[m]
        t = int(np.argmax(found))
        return low[:m[t]], high[:b[t]], c[t], float(offsets[t]), float(found[t])

    def _keys(self, scores):
        return scores - scores.mean() if self._is_centred else scores

    def _plane(self, unit, scores):
        low, high, c, offset, value = self._best(self._keys(scores))
        share = np.zeros(self.n_examples)
        share[low], share[high] = -c, 1.0
        size = float(np.abs(share) @ self.examples.norms)
        return share, value, offset * (1.0 - 16.0 * UNIT), size, 2.0 * UNIT * size

    def _value(self, unit, scores, norm):
        # a row's share times the error of its score adds up to at most that of `slope_sizes`
        keys = self._keys(scores)
        sums = self._rows.score_terms * norm * float(self.slope_sizes[0]) + (len(keys) + 16.0) * float(
            np.abs(keys).sum())
        return self._best(keys)[-1], UNIT * (sums + self._miss)


class PrecisionAtK(_Tables):
    """Risk of the precision at k: the k rows of highest score should be positive.

        R(w) = max over f of f + (sum of the f highest negative scores) - f / m (sum of the m lowest positive scores)

    f is a number of negative rows among the first k, and m = n+ - k + f the number of positive rows behind them. For
    k > n+ the measure is the recall at k, and f = m is the number of positive rows behind the first k. R is at least
    this number, so that an error costs about 1 and lam means what it means for a hinge.

    Parameters
    ----------
    X, y
        As in `ROCArea`.
    k : int
        From 1 to n; k = n+ is the break-even point of precision and recall.

    Raises
    ------
    ParameterError, InputTypeError
        If X is not finite, y lacks a class or has more than two, or k is not in 1..n.

    Notes
    -----
    A plane costs O(nnz(X) + n log n). A constant added to all scores changes nothing. Sums of scores are rounded, which
    `values` counts. Source: the averaged surrogate of [Kar, Narasimhan and Jain 2015]; the maximum over k labels of
    [Joachims 2005] is not bounded below for k other than n+, and equals this one for k = n+.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> risk = pb.risks.PrecisionAtK(np.array([[1.0], [3.0], [2.0]]), [0, 1, 0], k=1)
    >>> risk.evaluate(np.array([0.25]))
    (array([0.75]), array([[-1.]]))
    """

    def __init__(self, X: Data, y: ArrayLike, k: int, **unknown: Any) -> None:
        refuse_unknown(unknown, ("X", "y", "k"), REFUSED.get(min(unknown, default="")))
        super().__init__(X, y)
        self.k: int = check_integer("k", k, low=1, high=self.n_examples)
        self._most = min(self.k, self.n_positive)
        self._miss = 16.0 * self._most

    def _arguments(self, rows):
        return super()._arguments(rows) | {"k": self.k}

    @property
    def _identity(self):
        return (self.k,), (self.y,)

    def _tables(self, highest):
        f = np.arange(min(self._most, len(highest) - max(0, self.k - self.n_positive)) + 1)
        m = f + max(0, self.n_positive - self.k)
        return 1.0 * f, m, f / np.maximum(m, 1), f


class FScore(_Tables):
    """Risk of the F-score, F = (1 + beta^2) a / (beta^2 n+ + a + b) with a true and b false positives.

        R(w) = max over a, b of 2 n+ (1 - F) - (sum of the n+ - a lowest positive scores)
                                             + (sum of the b highest negative scores)

    This is at least 2 n+ (1 - F) where rows of positive score are labelled as positive, so that an error costs about 1
    and lam means what it means for a hinge.

    Parameters
    ----------
    X, y
        As in `ROCArea`; w has shape (d,), or (d + 1,) with `bias`.
    beta : float
        From 0.001 to 1000; recall counts beta times as much as precision.
    bias : float, optional
        Value of a constant last feature. Without it, the threshold 0 lies where it can only by the columns of X.

    Raises
    ------
    ParameterError, InputTypeError
        If X is not finite, y lacks a class or has more than two, or beta is not in its range.

    Notes
    -----
    A plane costs O(nnz(X) + n log n): for fixed a the maximised function is concave in b, whose best value is found by
    bisection. Sums of scores are rounded, which `values` counts. Source: [Joachims 2005], where all pairs a, b are
    tried.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> risk = pb.risks.FScore(np.array([[1.0], [3.0], [-2.0]]), [0, 1, 0])
    >>> risk.evaluate(np.array([0.25]))
    (array([1.5]), array([[-2.]]))
    """

    _is_centred = False

    def __init__(self, X: Data, y: ArrayLike, beta: float = 1.0, *, bias: float | None = None, **unknown: Any) -> None:
        refuse_unknown(unknown, ("X", "y", "beta", "bias"), REFUSED.get(min(unknown, default="")))
        super().__init__(X, y, bias)
        self.beta: float = check_number("beta", beta, low=1e-3, high=1e3)
        self._most, n, a = self.n_examples, self.n_positive, np.arange(self.n_positive + 1.0)
        # A false positive more or less changes the loss by at most the largest of these rates. A rounded comparison
        # errs only where score and rate nearly cancel, by less than 20 roundings of the rate, at most n- times.
        total = self.beta**2 * n + a
        rate = float((2.0 * n * (1.0 + self.beta**2) * a / (total * (total + 1.0))).max())
        self._miss = 32.0 * n + 20.0 * (self.n_examples - n) * rate

    def _arguments(self, rows):
        return super()._arguments(rows) | {"beta": self.beta, "bias": self.examples.bias}

    @property
    def _identity(self):
        return (self.beta,), (self.y,)

    def _tables(self, highest):
        square, n, a = self.beta**2, self.n_positive, np.arange(self.n_positive + 1)
        total, gain = square * n + a, 2.0 * n * (1.0 + square) * a
        padded = np.append(highest, -np.inf)
        b, top = np.zeros(n + 1, dtype=np.intp), np.full(n + 1, len(highest))
        for _ in range(len(highest).bit_length()):
            middle = (b + top) // 2
            at = total + middle
            pays = gain / (at * (at + 1.0)) + padded[middle] > 0.0
            b, top = np.where(pays, middle + 1, b), np.where(pays, top, middle)
        return 2.0 * n * (square * (n - a) + b) / (total + b), n - a, np.ones(n + 1), b


class Whole(NamedTuple):
    """The rows of the only part, as the only unit of work."""

    part: int
    rows: Array


def both_classes(y, n_examples):
    """Return labels -1/+1 of a sample that has both of them."""
    labels = sign_labels(y, n_examples, 2)
    if labels.min() == labels.max():
        raise ParameterError(f"y must hold rows of both classes, got one class only, {labels[0]}; a measure of the "
                             "whole sample compares them")
    return labels
