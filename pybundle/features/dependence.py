"""Finds columns that are sums of others: weights without penalty may be 0 there, and no score is lost.

If `X_j = sum_k z_k X_k`, no score changes along the weights (1, -z): the minimum of F is that over weights with
`w_j = 0`. Bounds rest on this, so it is proven: the sum is exactly 0 in every row, for fractions z with small
denominators; or the columns that are kept are a square matrix, far from singular, and span all of R^n. Beside a
constant one, a column of two values stands for the indicator of one of them: so do standardised indicators.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.linalg import qr

from ..core.rounding import exact_product
from ..core.types import Array, Floats

NEAR = 1e-9         # a column whose distance from the span of others is this share of its norm seems to be in it
LARGEST, TINY = 1000, 1e-100        # denominator of z; data with entries beyond 1/TINY or below TINY are not looked at
MOST_NUMBERS, MOST_WEIGHTS, AT_ONCE = 1 << 25, 1000, 1 << 10


class Dependence(NamedTuple):
    """Weights `left_out` (m,) that may be 0, and directions `null` (g, m) of `weights` (g,) that change no score.

    `inverse` (m, g) is that of `null` without intercepts. The columns `near` are sums of others but for rounding.
    """

    left_out: Array
    weights: Array
    null: Floats
    inverse: Floats
    near: list[int]

    def least(self, w: Array) -> Floats:
        """Return the point of least norm, intercepts not counted, with the scores of w, up to rounding."""
        found = np.array(w)
        found[self.weights] -= self.null @ (self.inverse @ found[self.weights])
        return found


def dependence_in(risk, penalty, rows):
    """Return the `Dependence` of columns without penalty, bounds and linear constraints in any class, or None.

    What the weights of K > 1 classes share changes no loss, so that those of the first class may be 0.
    """
    examples = getattr(risk, "user_rows", None)
    if examples is None:
        return None
    is_free = (penalty.l2 == 0.0) & (penalty.l1 == 0.0) & (penalty.lower == -np.inf) & (penalty.upper == np.inf)
    is_free &= True if rows is None else np.diff(rows.A.tocsc().indptr) == 0
    n, K = examples.n_examples, risk.dim // examples.width
    columns = np.flatnonzero(is_free.reshape(K, -1).all(axis=0))
    c, is_own = len(columns), columns < examples.n_features
    # entries of sparse data at one place are added, and rounded
    if not 0 < K * c <= MOST_WEIGHTS or n * c > MOST_NUMBERS or not getattr(examples.X, "has_canonical_format", True):
        return None
    A = examples.X[:, columns[is_own]]
    A = np.pad((A.toarray() if examples.is_sparse else A).astype(np.float64), ((0, 0), (0, c - is_own.sum())),
               constant_values=(examples.bias or 0.0) / examples.scale)
    sizes = np.abs(A[A != 0.0])
    if sizes.min(initial=1.0) < TINY or sizes.max(initial=1.0) > 1.0 / TINY:
        return None
    is_constant = (A == A[0]).all(axis=0) & (A[0] != 0.0)
    last = c - 1 - int(is_constant[::-1].argmax())
    start = A.min(axis=0) * is_constant.any()
    start[last] = 0.0
    end = A[np.abs(A - start).argmax(axis=0), np.arange(c)]
    is_two = ((A == start) | (A == end)).all(axis=0)
    start, units = np.where(is_two, start, 0.0), np.where(is_two & (start != end), end - start, 1.0)
    null, is_sum, is_near = _sums(np.where(is_two, A != start, A), last)
    null[last] -= start / units @ null
    own, one = np.kron(np.eye(K)[:, int(K > 1):], null / units[:, None]), np.kron(np.ones((K, int(K > 1))), np.eye(c))
    weights = (examples.width * np.arange(K)[:, None] + columns).ravel()
    is_left_out = np.array([is_sum] * K)
    is_left_out[0] |= K > 1
    is_counted = weights != (risk.dim - 1 if risk.free is not None else -1)
    null = np.hstack([one, own])
    return Dependence(weights[is_left_out.ravel()], weights, null, np.linalg.pinv(null * is_counted[:, None]),
                      columns[is_near].tolist())


def _sums(A, first):
    """Return directions that change no score, which columns are sums of others, and which only seem to be.

    The column `first` is kept before all others, and of equal ones the last.
    """
    n, c = A.shape
    C = np.random.default_rng(0).standard_normal((c + 10, n)) @ A     # few rows, with the same sums
    norms = np.linalg.norm(C, axis=0)
    scales = np.where(np.arange(c) == first, 1.2, np.linspace(1.0, 1.1, c)) / np.where(norms > 0.0, norms, 1.0)
    R, order = qr(C * scales, mode="r", pivoting=True)
    rank = int(np.count_nonzero(np.abs(np.diag(R)) > NEAR))
    kept, rest, null, is_proven = order[:rank], order[rank:], np.eye(c), np.zeros(c, dtype=bool)
    for j, z in zip(rest.tolist(), np.linalg.solve(R[:rank, :rank], R[:rank, rank:]).T, strict=True):
        z = z * scales[kept] / scales[j]
        exact = [Fraction(x).limit_denominator(LARGEST) for x in z.tolist()]
        is_proven[j] = _is_zero(A[:, [j, *kept[np.flatnonzero(exact)]]], [Fraction(-1), *filter(None, exact)])
        null[kept, j] = -np.array(exact, dtype=float) if is_proven[j] else -z
    if not is_proven[rest].all():
        B = np.unique(A, axis=0)[:, kept] * scales[kept]
        is_proven[rest] |= len(B) == rank and np.linalg.cond(B) < 1.0 / NEAR
    is_near = ~is_proven
    is_near[kept] = False
    return null[:, is_proven], is_proven, is_near


def _is_zero(A, z):
    """Whether `A z` is exactly 0: a product is two numbers, and `fsum` rounds a sum once."""
    common = math.lcm(*(x.denominator for x in z))
    whole = np.array([float(x * common) for x in z])
    return np.abs(whole).max() < 2.0**53 and all(
        math.fsum(row) == 0.0 for rows in np.array_split(A, len(A) // AT_ONCE + 1)
        for row in np.hstack(exact_product(rows, whole)).tolist())
