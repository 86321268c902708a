"""Find columns that are sums of other columns: if their weights have no penalty, these weights may be fixed at 0.

If `X_j = sum_k z_k X_k`, no score changes along the direction (1, -z) of the weights, so F also has its minimum at a
point with `w_j = 0`. Bounds rely on such equations, so each is proven in one of two ways. Either every row meets it
in exact fractions, for z with small denominators; or the columns that are kept form a square matrix that is far from
singular, and span all of R^n. Beside a constant column, a column with two values, such as a standardised indicator, is
replaced by the indicator of one of the values.
"""

from __future__ import annotations

from fractions import Fraction
from operator import mul
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import qr

from ..core.types import Array, Floats

NEAR = 1e-9         # a column may be a sum of others if its distance from their span is at most this share of its norm
# largest denominator of z; largest numbers of entries and of weights for which columns are searched
LARGEST, MOST_NUMBERS, MOST_WEIGHTS = 10**6, 1 << 25, 1000


class Dependence(NamedTuple):
    """Weights `left_out` (m,) without `penalty` that may be fixed at 0, because other weights replace them.

    The square matrix `projection` maps the entries `weights` (g,) of a point to those of the point of least norm with
    the same scores; the norm leaves out intercepts. The columns `near` are sums of others up to rounding. No weight of
    theirs may be fixed: multiplied by 1e16 the rounding is a column like any other, with which F has a lower minimum.
    """

    penalty: Any
    left_out: Array
    weights: Array
    projection: Floats
    near: list[int]

    def least(self, w: Array) -> Floats:
        """Return the point of least norm with the scores of w, up to rounding."""
        found = np.array(w)
        found[self.weights] = self.projection @ found[self.weights]
        return found


def dependence_in(risk, penalty, rows):
    """Return the `Dependence` of the columns that no class penalises, bounds or constrains; None if there is none.

    A vector added to the weights of all K > 1 classes changes no loss, so the weights of the first class may be fixed
    at 0; they may be fixed already. Rows of weight 0 are left out.
    """
    examples = getattr(risk, "user_rows", None)
    if examples is None:
        return None
    is_free = (penalty.l2 == 0.0) & (penalty.l1 == 0.0) & (penalty.lower == -np.inf) & (penalty.upper == np.inf)
    is_free &= True if rows is None else np.diff(rows.A.tocsc().indptr) == 0
    is_row = np.asarray(risk.sample_weight) > 0.0
    X, n, K = examples.X, int(is_row.sum()), risk.dim // examples.width
    is_free, is_held = is_free.reshape(K, -1), ((penalty.lower == 0.0) & (penalty.upper == 0.0))[:examples.width]
    usable = is_free[1:].all(axis=0) & (is_free[0] | (is_held & (K > 1)))
    # columns that the shift has moved are rounded, unless they are 0
    if risk.linear_risk is None and risk.shift is not None:
        moved = np.flatnonzero(risk.shift.columns)
        usable[moved] &= np.asarray(abs(examples.X[:, moved]).sum(axis=0)).ravel() == 0.0
    columns = np.flatnonzero(usable)
    c, is_own = len(columns), columns < examples.n_features
    # sums of duplicate entries of sparse data would be rounded, so such data are left alone
    if not 0 < K * c <= MOST_WEIGHTS or not 0 < n * c <= MOST_NUMBERS or not getattr(X, "has_canonical_format", True):
        return None
    X = X if n == len(is_row) else X[is_row]
    # search a sample of rows first, because columns that are independent in the sample are independent
    for step in sorted({n // 2000 + 1, 1}, reverse=True):
        A = X[::step][:, columns[is_own]]
        A = np.pad((A.toarray() if examples.is_sparse else A).astype(np.float64), ((0, 0), (0, c - is_own.sum())),
                   constant_values=(examples.bias or 0.0) / examples.scale)
        is_constant = (A == A[0]).all(axis=0) & (A[0] != 0.0)
        last = c - 1 - int(is_constant[::-1].argmax())
        start = np.where(np.arange(c) == last, 0.0, A.min(axis=0) * is_constant.any())
        end = A[np.abs(A - start).argmax(axis=0), np.arange(c)]
        is_two = ((A == start) | (A == end)).all(axis=0)
        powers = np.ldexp(1.0, np.frexp(np.abs(A).max(axis=0))[1])
        start, units = np.where(is_two, start, 0.0), np.where(is_two & (start != end), end - start, powers)
        null, is_sum, near = _sums(np.where(is_two, A != start, A / powers), last)
        if not is_sum.any() and len(near) == 0:
            break
    null[last] -= start / units @ null
    shared = is_free[0][columns] & (K > 1)
    null = np.hstack([np.kron(np.ones((K, 1)), np.eye(c)[:, shared]),
                      np.kron(np.eye(K)[:, int(K > 1):], null / units[:, None])])
    weights = (examples.width * np.arange(K)[:, None] + columns).ravel()
    is_left_out = np.vstack([is_sum if K == 1 else shared, *[is_sum] * (K - 1)])
    counted = null * (weights != (risk.dim - 1 if risk.free is not None else -1))[:, None]
    return Dependence(penalty, weights[is_left_out.ravel()], weights,
                      np.eye(len(weights)) - null @ np.linalg.pinv(counted), columns[near].tolist())


def _sums(A, first):
    """Return directions that change no score, a mask of the proven sums, and the columns that are near a sum of others.

    The column `first` is kept before any other, and of equal columns the last is kept.
    """
    c, sizes = A.shape[1], np.linalg.norm(A, axis=0)
    scales = np.where(np.arange(c) == first, 1.2, np.linspace(1.0, 1.1, c)) / np.where(sizes > 0.0, sizes, 1.0)
    R, order = qr(A * scales, mode="r", pivoting=True)
    rank = int(np.count_nonzero(np.abs(np.diag(R)) > NEAR))
    kept, rest, null, is_proven = order[:rank], order[rank:], np.eye(c), np.zeros(c, dtype=bool)
    for j, z in zip(rest.tolist(), np.linalg.solve(R[:rank, :rank], R[:rank, rank:]).T, strict=True):
        z = z * scales[kept] / scales[j]
        exact = [Fraction(x).limit_denominator(LARGEST) for x in z.tolist()]
        rows = np.unique(A[:, [j, *kept[np.flatnonzero(exact)]]], axis=0).tolist()
        is_proven[j] = all(sum(map(mul, [Fraction(-1), *filter(None, exact)], map(Fraction, row))) == 0 for row in rows)
        null[kept, j] = -np.array(exact, dtype=float) if is_proven[j] else -z
    if not is_proven[rest].all():
        B = np.unique(A, axis=0)[:, kept] * scales[kept]
        is_proven[rest] |= len(B) == rank and np.linalg.cond(B) < 1.0 / NEAR
    return null[:, is_proven], is_proven, np.setdiff1d(rest, np.flatnonzero(is_proven))
