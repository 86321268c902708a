"""Finds columns that are sums of others: weights without penalty may be 0 there, and no score is lost.

If `X_j = sum_k z_k X_k`, no score changes along the weights (1, -z): the minimum of F is that over weights with
`w_j = 0`. Bounds rest on this, so it is proven: the sum is exactly 0 in every row, for fractions z with small
denominators; or the columns that are kept are a square matrix with an inverse, and span all of R^n. Beside an
intercept a column of two values stands for the indicator of one of them: so do standardised indicators.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.linalg import qr

from ..core.rounding import UNIT, exact_product
from ..core.types import Array, Floats

NEAR = 1e-9         # a column whose distance from the span of others is this share of its norm seems to be in it
LARGEST, TINY = 1000, 1e-100        # denominator of z; data with entries beyond 1/TINY or below TINY are not looked at
MOST_NUMBERS, MOST_COLUMNS, AT_ONCE = 1 << 25, 500, 1 << 10


class Dependence(NamedTuple):
    """Weights `left_out` (m,) that may be 0, and directions `null` (g, m) of `weights` (g,) that change no score.

    Intercepts are not `counted` in the norm. The columns `near` are sums of others but for rounding.
    """

    left_out: Array
    weights: Array
    null: Floats
    counted: Array
    near: list[int]

    def least(self, w: Array) -> Floats:
        """Return the point of least norm with the scores of w, up to rounding."""
        found, counted = np.array(w), self.counted
        t = np.linalg.lstsq(self.null[counted], found[self.weights][counted], rcond=None)[0]
        found[self.weights] -= self.null @ t
        return found


def dependence_in(risk, penalty, rows):
    """Return the `Dependence` of columns without penalty, bounds and linear constraints in any class, or None.

    What the weights of K > 1 classes share changes no loss, so that those of the first class may be 0.
    """
    examples = risk.user_rows
    if examples is None:
        return None
    is_free = (penalty.l2 == 0.0) & (penalty.l1 == 0.0) & (penalty.lower == -np.inf) & (penalty.upper == np.inf)
    is_free &= True if rows is None else np.diff(rows.A.tocsc().indptr) == 0
    K = risk.dim // examples.width
    columns = np.flatnonzero(is_free.reshape(K, -1).all(axis=0))
    c = len(columns)
    if not 0 < c <= MOST_COLUMNS or c * max(examples.n_examples, K * K * c) > MOST_NUMBERS:
        return None
    null, left, near = _relations(examples, columns)
    weights = (examples.width * np.arange(K)[:, None] + columns).ravel()
    is_left_out = np.array([left] * K)
    is_left_out[0] |= K > 1
    null = np.hstack([np.kron(np.ones((K, int(K > 1))), np.eye(c)), np.kron(np.eye(K)[:, int(K > 1):], null)])
    counted = weights != (risk.dim - 1 if risk.free is not None else -1)
    return Dependence(weights[is_left_out.ravel()], weights, null, counted, columns[near].tolist())


def _relations(examples, columns):
    """Return directions (c, m) that change no score, and which of c columns are left out, or only seem to be sums.

    The constant feature, if that is among them, is kept before all others.
    """
    is_own, A = columns < examples.n_features, examples.X[:, columns[columns < examples.n_features]]
    if examples.is_sparse:
        A = A.tocsc()
        is_exact = A.has_canonical_format       # else entries at one place are added, and rounded
        A = A.toarray()
    constant = float(bool(examples.bias) and not is_own.all())
    A = np.column_stack([np.full(len(A), constant), A.astype(np.float64)])[:, int(is_own.all()):]
    sizes = np.abs(A[A != 0.0])
    if (examples.is_sparse and not is_exact) or sizes.min(initial=1.0) < TINY or sizes.max(initial=1.0) > 1.0 / TINY:
        return np.empty((len(columns), 0)), np.zeros(len(columns), dtype=bool), np.zeros(len(columns), dtype=bool)
    start = constant * A.min(axis=0)
    start[0] = 0.0
    end = A[np.abs(A - start).argmax(axis=0), np.arange(len(columns))]
    is_two = ((A == start) | (A == end)).all(axis=0)
    start, units = np.where(is_two, start, 0.0), np.where(is_two & (start != end), end - start, 1.0)
    null, is_rest, is_found = _sums(np.where(is_two, A != start, A))
    null /= units[:, None]
    null[0] -= start @ null
    if constant:
        null[0] *= examples.scale / examples.bias
    # the constant is the last of the weights
    return [np.roll(found, -(not is_own.all()), axis=0) for found in (null, is_found, is_rest & ~is_found)]


def _sums(A):
    """Return directions that change no score, which columns are sums of others, and of which that is proven."""
    C = np.random.default_rng(0).standard_normal((A.shape[1] + 10, len(A))) @ A     # few rows, with the same sums
    norms = np.linalg.norm(C, axis=0)
    scales = np.linspace(2.0, 1.0, len(norms)) / np.where(norms > 0.0, norms, 1.0)  # of equal columns the first is kept
    R, order = qr(C * scales, mode="r", pivoting=True)
    rank = int(np.count_nonzero(np.abs(np.diag(R)) > NEAR))
    Z, kept, rest = np.linalg.solve(R[:rank, :rank], R[:rank, rank:]), order[:rank], order[rank:]
    is_rest, is_found, moves = np.isin(np.arange(len(order)), rest), np.zeros(len(order), dtype=bool), np.eye(len(order))
    for j, z in zip(rest.tolist(), Z.T, strict=True):
        used, z = kept[np.abs(z) > NEAR], z[np.abs(z) > NEAR]
        z *= scales[used] / scales[j]
        exact = [Fraction(x).limit_denominator(LARGEST) for x in z.tolist()]
        is_found[j] = _is_zero(A[:, [j, *used]], [Fraction(-1), *exact])
        moves[used, j] = [-float(x) for x in exact] if is_found[j] else -z
    if (is_found != is_rest).any() and _has_inverse(np.unique(A, axis=0)[:, kept]):
        is_found = is_rest
    return moves[:, is_found], is_rest, is_found


def _is_zero(A, z):
    """Whether `A z` is exactly 0: a product is two numbers, and `fsum` rounds a sum once."""
    common = math.lcm(*(x.denominator for x in z))
    whole = np.array([float(x * common) for x in z])
    return np.abs(whole).max() < 2.0**53 and all(
        math.fsum(row) == 0.0 for rows in np.array_split(A, len(A) // AT_ONCE + 1)
        for row in np.hstack(exact_product(rows, whole)).tolist())


def _has_inverse(B):
    """Whether B is square and proven to have one: some R has `|1 - R B| < 1`, rounding counted."""
    if len(B) != B.shape[1]:
        return False
    B = np.ldexp(B, -np.frexp(np.abs(B).max(axis=0))[1])
    R = np.linalg.pinv(B)
    error = np.abs(np.eye(len(B)) - R @ B) + 2.0 * (len(B) + 2) * UNIT * (np.abs(R) @ np.abs(B))
    return bool(error.sum(axis=1).max() < 0.5)
