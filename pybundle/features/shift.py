"""`Shift`, a change of variables that removes the offsets of columns and targets from problems with free intercepts.

    F(w, b; X, y) = F(w, b + <m, w> - c; X - m, y - c)

The solvers work on the right-hand side, where data, scores and intercept are small; users see (w, b) of the left-hand
side. A difference of float64 numbers is exact or rounded once. The error bounds of scores, slopes and targets count
this rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.rounding import exact_product
from ..core.types import Array, Floats

FAR = 16.0
"""A column is far from 0 if its median is this many times its standard deviation. The scores of other columns lose only
a few of 53 bits, too little to justify a shifted copy of dense columns."""
VAST = 1e100        # columns with larger medians are not shifted, as products might overflow
ROWS, NUMBERS = 1000, 1 << 20   # limits of rows and entries in a sample for medians; PROBED rows are always allowed
PROBED = 64  # number of rows of a sparse matrix that are searched for columns with an entry in every row


class Location(NamedTuple):
    """Medians of the columns and of the targets of some rows."""

    medians: Floats         # (d,)
    squares: Floats  # (d,), mean squared distances from the medians; infinite for columns without a sample
    target: float           # weighted median of y
    weight: float           # sum of the weights


def locate(X, y, weights):
    """Return the `Location` of the rows X, dense or CSR, and of the targets y, or None for labels."""
    d = X.shape[1]
    medians, squares = np.zeros(d), np.full(d, np.inf)
    columns = _stored(X) if sp.issparse(X) else np.arange(d) if X.dtype.kind == "f" else np.empty(0, dtype=int)
    if len(columns):
        n_rows = int(min(ROWS, max(PROBED, NUMBERS // len(columns)), X.shape[0]))
        rows = np.unique(np.linspace(0, X.shape[0] - 1, n_rows).astype(int))
        sample = X[rows][:, columns].toarray() if sp.issparse(X) else X[rows]
        with np.errstate(over="ignore", invalid="ignore"):
            medians[columns] = np.median(sample, axis=0)
            squares[columns] = np.mean((sample - medians[columns]) ** 2, axis=0, dtype=np.float64)
    return Location(medians, squares, 0.0 if y is None else median(y, weights), float(np.sum(weights)))


def _stored(X):
    """Return the columns of a CSR matrix with an entry in each row, because only such columns can be far from 0."""
    columns, is_in = np.unique(X.indices[:X.indptr[1]]), np.zeros(X.shape[1], dtype=bool)
    for row in np.unique(np.linspace(0, X.shape[0] - 1, PROBED).astype(int)):
        entries = X.indices[X.indptr[row]:X.indptr[row + 1]]
        is_in[entries] = True
        columns = columns[is_in[columns]]
        if len(columns) == 0:
            return columns
        is_in[entries] = False
    stored = X[:, columns].tocsc()
    stored.sum_duplicates()
    return columns[np.diff(stored.indptr) == X.shape[0]]


def median(y, weights):
    """Return the weighted median of y, shape (n,)."""
    order = np.argsort(y, kind="stable")
    sums = np.cumsum(weights[order])
    return float(y[order[np.searchsorted(sums, 0.5 * sums[-1])]])


@dataclass(frozen=True, eq=False)
class Shift:
    """The change of variables. Points have K rows (w_k, b_k); K > 1 occurs for classes only.

    A number added to all b_k changes no loss of classes. Solvers fix the first b_k at 0; users get intercepts whose
    mean is 0 at the column means m.

    Attributes
    ----------
    columns : ndarray, shape (d,)
        m; 0 for columns that are not shifted.
    target : float
        c; 0 for classification.

    Examples
    --------
    >>> import numpy as np
    >>> shift = Shift(np.array([1e9]), 2.0)
    >>> shift.to_user(np.array([3.0, 0.5])).tolist()
    [3.0, -2999999997.5]
    >>> shift.from_user(np.array([3.0, -2999999997.5])).tolist()
    [3.0, 0.5]
    """

    columns: Floats
    target: float

    @classmethod
    def of(cls, locations):
        """Return the shift for rows that are divided into blocks with these locations; None if nothing is shifted."""
        weight = max(sum(location.weight for location in locations), 1e-300)      # all weights may be 0
        medians, shares = locations[0].medians, [location.weight / weight for location in locations]
        with np.errstate(over="ignore", invalid="ignore"):
            squares = sum(share * (location.squares + (location.medians - medians) ** 2)
                          for share, location in zip(shares, locations, strict=True))
            is_far = (np.abs(medians) > FAR * np.sqrt(squares)) & (np.abs(medians) < VAST)
        target = median(np.array([location.target for location in locations]), np.array(shares))
        return cls(np.where(is_far, medians, 0.0), target) if is_far.any() or target != 0.0 else None

    # ------------------------------------------------------------------ points
    def from_user(self, w: Array) -> Floats:
        """Return (w, b + <m, w> - c), the intercept rounded once."""
        found = self._moved(w, 1.0)
        W = found.reshape(-1, len(self.columns) + 1)
        if len(W) > 1:
            W[:, -1] -= W[0, -1]
        return found

    def to_user(self, w: Array) -> Floats:
        """Return (w, b - <m, w> + c), the intercept rounded once."""
        W = np.array(w, dtype=np.float64).reshape(-1, len(self.columns) + 1)
        if len(W) > 1:
            W[:, -1] -= W[:, -1].mean()
        return self._moved(W, -1.0)

    def _moved(self, w, sign):
        W = np.array(w, dtype=np.float64).reshape(-1, len(self.columns) + 1)
        W[:, -1] = sums(W[:, :-1], W[:, -1], sign * self.columns, -sign * self.target)
        return W.ravel()

    def spacing(self, w: Array) -> float:
        """Return the distance of float64 numbers at the largest intercept that users see at w."""
        W = self.to_user(w).reshape(-1, len(self.columns) + 1)
        return float(np.spacing(np.abs(W[:, -1]).max()))

    # ------------------------------------------------------------------ data
    def data(self, X):
        """Return X - m in the precision of X if that holds the differences, else in float64; X if m is 0."""
        if not self.columns.any():
            return X
        if not sp.issparse(X):
            return _narrowed(X - self.columns, X.dtype)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        moved = X.data - self.columns[X.indices]
        return type(X)((_narrowed(moved, X.dtype), X.indices, X.indptr), shape=X.shape)

    def fits(self, X, scale):
        """Return whether an intercept makes up for the shift of columns; `data` leaves zeros of a sparse X in place."""
        is_whole = not sp.issparse(X) or np.isin(np.flatnonzero(self.columns), _stored(X)).all()
        return len(self.columns) == X.shape[1] and (not self.columns.any() or (scale == 1.0 and is_whole))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shift) and self.target == other.target and np.array_equal(self.columns, other.columns)

    __hash__ = None     # type: ignore[assignment]


def _narrowed(moved, dtype):
    """Return float64 differences of float32 numbers as float32 if they are exact there, else as float64."""
    if dtype == np.float64:
        return moved
    narrow = moved.astype(dtype)
    return narrow if np.array_equal(narrow, moved) else moved


def sums(W, b, m, c=0.0):
    """Return `b_k + <m, w_k> + c` for the rows w_k of W (K, d); each sum is rounded once."""
    far = np.flatnonzero(m)
    high, low = exact_product(W[:, far], m[far])
    return np.array([math.fsum([*high[k].tolist(), *low[k].tolist(), float(b[k]), c]) for k in range(len(W))])


def scores(X, W, b, m):
    """Return `(X - m) W' + b + m W'`, shape (n, K): columns that m shifts are centred before they are multiplied.

    Otherwise the scores of these columns would be differences of large numbers and lose digits. m may be None, for 0.
    """
    if m is None:
        found = X @ W.T.astype(X.dtype, copy=False)
        return (found.toarray() if sp.issparse(found) else found).astype(np.float64, copy=False) + b
    W = W.toarray() if sp.issparse(W) else W
    far, near = np.flatnonzero(m), np.array(W)
    near[:, far] = 0.0
    columns = X[:, far].toarray() if sp.issparse(X) else X[:, far]
    return scores(X, near, sums(W, b, m), None) + (columns - m[far]) @ W[:, far].T
