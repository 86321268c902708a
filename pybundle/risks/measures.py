"""Two-class risks that depend on the whole sample: area under the ROC curve, precision at k, F-score."""

from __future__ import annotations

from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.labels import sign_labels
from ..core.rounding import UNIT
from ..core.types import Data, Floats
from ..core.validation import check_integer, check_number, read_only, refuse_unknown
from .ranking import Ranking
from .sorted_scores import SortedScores

REFUSED = {"fit_intercept": "an intercept changes no order, leave it out; for an F-score FScore has bias=1.0",
           "n_parts": "a measure of the whole sample has one part",
           "sample_weight": "a measure of the whole sample has no weights of single rows"}


class ROCArea(Ranking):
    """Risk of the area under the ROC curve: each positive row should score higher than each negative one.

        R(w) = 1 / n- sum over positive i and negative j of max(0, 1 - <w, x_i - x_j>)

    This is `Ranking` with two grades. R is at least n+ (1 - area): an error costs about 1, so lam is as for a hinge.

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
    """Base class of risks that are a maximum over tables t, the possible numbers of true and false positives.

        R(w) = max over tables t of offset_t - c_t (sum of the m_t lowest positive scores)
                                             + (sum of the b_t highest negative scores)

    A subclass sets `_options`, its arguments; `_most`, the largest of all `c_t m_t` and `b_t`; and `_miss`, which
    bounds, in units of rounding, the error of the value due to errors of offsets and wrongly chosen tables.
    `_tables(highest)` returns the offsets, m, c and b for given negative scores, highest first.
    """

    _most: int
    _is_centred = True          # a constant added to all scores changes nothing

    def __init__(self, X, y, bias=None):
        self._take(X, bias)
        self.y = read_only(both_classes(y, self.n_examples))
        self.n_positive: int = int(np.count_nonzero(self.y > 0))
        self._group(None)

    def _arguments(self, rows):
        return {"X": self.examples.X[rows], "y": self.y[rows], **self._options}

    @property
    def _identity(self):
        return self._options.values(), (self.y,)

    @property
    def _units(self):
        return [SimpleNamespace(part=0, rows=self._parts[0])]

    @cached_property
    def slope_sizes(self) -> Floats:
        """Bound on the Euclidean norm of any slope, shape (1,): the sum of the `_most` largest norms in each class."""
        return np.array([1.01 * sum(np.sort(self.examples.norms[self.y == sign])[::-1][:self._most].sum()
                                    for sign in (-1, 1))])

    def _best(self, scores):
        """Return the shares of the rows in the best table, its offset, the value, and the sum of |scores|."""
        scores, share = scores - scores.mean() if self._is_centred else scores, np.zeros(len(scores))
        positive, negative = np.flatnonzero(self.y > 0), np.flatnonzero(self.y < 0)
        low, high = positive[np.argsort(scores[positive])], negative[np.argsort(-scores[negative])]
        offsets, m, c, b = self._tables(scores[high])
        found = offsets + np.append(0.0, np.cumsum(scores[high]))[b] - c * np.append(0.0, np.cumsum(scores[low]))[m]
        t = int(np.argmax(found))
        share[low[:m[t]]], share[high[:b[t]]] = -c[t], 1.0
        return share, offsets[t], found[t], float(np.abs(scores).sum())

    def _plane(self, unit, scores):
        share, offset, value, _ = self._best(scores)
        size = float(np.abs(share) @ self.examples.norms)
        return share, value, offset * (1.0 - 16.0 * UNIT), size, 2.0 * UNIT * size

    def _value(self, unit, scores, norm):
        # errors of scores are proportional to norms of rows; `slope_sizes` bounds the sum of |share| times norms
        _, _, value, total = self._best(scores)
        return value, UNIT * (self._rows.score_terms * norm * self.slope_sizes[0] + (len(scores) + 16.0) * total
                              + self._miss)


class PrecisionAtK(_Tables):
    """Risk of the precision at k: the k rows of highest score should be positive.

        R(w) = max over f of f + (sum of the f highest negative scores)
                               - f / m (sum of the m lowest positive scores)

    f is the number of negative rows among the first k, and m = n+ - k + f that of positive rows behind them. For k > n+
    the measure is the recall at k, and f is m. R is at least f at w: an error costs about 1, so lam is as for a hinge.

    Parameters
    ----------
    X, y
        As in `ROCArea`.
    k : int
        From 1 to n; k = n+ is the break-even point of precision and recall.

    Raises
    ------
    ParameterError, InputTypeError
        As in `ROCArea`, and if k is not in 1..n.

    Notes
    -----
    Costs as in `ROCArea`; `values` bounds the rounding of sums of scores. Source: the averaged surrogate of [Kar,
    Narasimhan and Jain 2015]; for k = n+ it is the risk of [Joachims 2005], which for other k is not bounded below.

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
        self._options = {"k": self.k}
        self._most = min(self.k, self.n_positive, self.n_examples - max(self.k, self.n_positive))
        self._miss = 16.0 * self._most

    def _tables(self, highest):
        f = np.arange(self._most + 1)
        m = f + max(0, self.n_positive - self.k)
        return 1.0 * f, m, f / np.maximum(m, 1), f


class FScore(_Tables):
    """Risk of the F-score, F = (1 + beta^2) a / (beta^2 n+ + a + b) with a true and b false positives.

        R(w) = max over a, b of 2 n+ (1 - F) - (sum of the n+ - a lowest positive scores)
                                             + (sum of the b highest negative scores)

    R is at least 2 n+ (1 - F) for labels by the sign of scores: an error costs about 1, so lam is as for a hinge.

    Parameters
    ----------
    X, y
        As in `ROCArea`; w has shape (d,), or (d + 1,) with `bias`.
    beta : float
        From 0.001 to 1000; recall counts beta times as much as precision.
    bias : float, optional
        Value of a constant last feature. As the threshold is 0, scores need this, or a constant column in X.

    Raises
    ------
    ParameterError, InputTypeError
        As in `ROCArea`, and if beta is not in its range.

    Notes
    -----
    Costs as in `ROCArea`: for fixed a the maximised function is concave in b, and bisection finds the best b. `values`
    bounds the rounding of sums of scores. Source: [Joachims 2005], who tries all a and b.

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
        self._options = {"beta": self.beta, "bias": self.examples.bias}
        self._most, n, square = self.n_examples, self.n_positive, self.beta**2
        # 2 n+ F is `_gain / _total` for a = 0..n+ true positives and b = 0 false positives
        self._total = square * n + np.arange(n + 1)
        self._gain = 2.0 * n * (1.0 + square) * np.arange(n + 1)
        # Bisection compares a score with the change of the loss by one more false positive. If rounding reverses a
        # comparison, its numbers differ by less than 20 roundings of the change, a loss for each of at most n- rows.
        change = float((self._gain / (self._total * (self._total + 1.0))).max())
        self._miss = 32.0 * n + 20.0 * (self.n_examples - n) * change

    def _tables(self, highest):
        n, padded = self.n_positive, np.append(highest, -np.inf)
        b, top, m = np.zeros(n + 1, dtype=np.intp), np.full(n + 1, len(highest)), np.arange(n, -1, -1)
        for _ in range(len(highest).bit_length()):
            middle = (b + top) // 2
            at = self._total + middle
            pays = self._gain / (at * (at + 1.0)) + padded[middle] > 0.0
            b, top = np.where(pays, middle + 1, b), np.where(pays, top, middle)
        return 2.0 * n * (self.beta**2 * m + b) / (self._total + b), m, np.ones(n + 1), b


def both_classes(y, n_examples):
    """Return labels -1/+1, after a check that both occur."""
    labels = sign_labels(y, n_examples, 2)
    if (labels == labels[0]).all():
        raise ParameterError(f"y must hold rows of both classes, got one class only, {labels[0]}; add others")
    return labels
