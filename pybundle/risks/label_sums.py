"""Sums of the rows of each label; they give the planes of the labellings with one label for all tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from ..core.rounding import UNIT
from ..core.types import Floats

ROWS = 1 << 12      # rows of dense data that are converted at a time
LARGEST = 1e100  # bounds sums and their inverses, so that squares of their rounding errors are in the range of float64


class LabelSums(NamedTuple):
    """Weighted sums of the rows x_i of K labels. The last entry of each row is 1; its weights are intercepts.

    Rows are the examples of K classes or the tokens of chains. Chains also have weights for pairs of neighbouring
    labels and for the labels of first and last tokens.

    Attributes
    ----------
    rows : ndarray, shape (K, d)
        `sum_{y_i = k} c_i x_i`; the last column holds the weights n_k of the labels.
    means : ndarray, shape (d,)
        Approximate means m of all rows of classes, with 0 for the last column; for chains all are 0.
    variances : ndarray, shape (d,)
        Approximate mean squares of `x - m`, and 1 for the last column.
    error : float
        Bound on `|e| + |m| |e_b|`, where e is the rounding error of `rows` and e_b that of their last column. It also
        covers the rounding error of `rest`.
    rest : ndarray, shape (K + 1, dim - K d)
        Slopes of chains in the weights other than those of rows. Row k < K belongs to labellings with label k only, row
        K to the true labellings.
    most : float or None
        The largest cost of a label; None for log-losses.
    radius : float
        Bound on `|x_i| + |m|`.
    """

    rows: Floats
    means: Floats
    variances: Floats
    error: float
    rest: Floats
    most: float | None
    radius: float

    @property
    def counts(self):
        """The weights n_k of the labels."""
        return self.rows[:, -1]

    @classmethod
    def of(cls, examples, y, c, K, most=None, rest=None):
        """Return the sums of rows with labels y (n,) and weights c (n,); None if the rows do not end with 1.

        Sums that are too large or too small also give None, and so does a label without a token in chains with a
        log-loss, as its intercept would fall without limit.
        """
        X, n, d = examples.X, examples.n_examples, examples.n_features
        if examples.bias is not None:
            last = np.array([examples.bias])
        elif examples.scale != 1.0:
            return None
        elif sp.issparse(X):
            last = X[:, [-1]].toarray()[:, 0] if X.has_canonical_format else np.zeros(n)
        else:
            last = X[:, -1]
        counts = np.bincount(y, c, K)
        if not ((last == 1.0).all() and counts.any() and (counts.all() or most is not None or rest is None)):
            return None
        rows, squares = np.zeros((K, examples.width)), np.zeros(examples.width)
        rest = np.zeros((K + 1, 0)) if rest is None else rest
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, n, ROWS):         # after an overflow None is returned
                some = slice(first, first + ROWS)
                shares = sp.csr_array((c[some], (y[some], np.arange(len(y[some])))), shape=(K, len(y[some])))
                part = X[some].astype(np.float64)
                found = shares @ part
                rows[:, :d] += found.toarray() if sp.issparse(found) else found
                squares[:d] += c[some] @ (part.multiply(part) if sp.issparse(part) else part * part)
            rows, squares = examples.scale * rows, examples.scale**2 * squares
            if examples.bias is not None:
                rows[:, d], squares[d] = counts, c.sum()
            means = rows.sum(axis=0) / rows[:, -1].sum()
            means[slice(None) if rest.size else -1] = 0.0
            far = float(np.linalg.norm(means))
            size = 1.01 * float(c @ examples.norms + far * c.sum()) + float(rest.sum())
            variances = np.maximum(squares / rows[:, -1].sum() - means**2, 0.0)
        if not (1.0 / LARGEST <= size <= LARGEST and np.isfinite(variances).all()):
            return None
        radius = 1.01 * (float(examples.norms.max()) + far)
        return cls(rows, means, variances, (n + 2.0 * K + 40.0) * UNIT * size, rest, most, radius)

    def curvatures(self, examples, c, W):
        """Return the mean of the second derivatives of the log-losses by the weights of a class, shape (d, d).

        W (K, d) are the weights of the rows `x - m`, and the derivatives are by these weights.
        """
        found = np.zeros((len(self.means),) * 2)
        for first in range(0, examples.n_examples, ROWS):
            some = slice(first, first + ROWS)
            part = examples.X[some]
            part = (part.toarray() if sp.issparse(part) else part) - self.means
            P = softmax(part @ W.T, axis=1)
            part *= np.sqrt(c[some] * np.maximum(1.0 - np.sum(P * P, axis=1), 0.0) / len(W))[:, None]
            found += part.T @ part
        return found
