"""Finds columns that are sums of others: weights without penalty may be 0 there, and no score is lost.

If `X_j = sum_k z_k X_k`, no score changes along the weights (1, -z): the minimum of F is that over weights with
`w_j = 0`. Bounds rest on this, so it is proven: the sum is computed with integers where z are fractions with small
denominators, as for indicators of all categories, copies and constants; or the columns that are kept span all of R^n,
being a square matrix with an inverse.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.linalg import qr

from ..core.rounding import UNIT
from ..core.types import Array, Floats

NEAR = 1e-9         # a column whose distance from the span of others is this share of its norm seems to be in it
LARGEST, TINY = 1000, 1e-100        # denominator of z; columns beyond 1/TINY and below TINY are not looked at
MOST_NUMBERS, MOST_COLUMNS, AT_ONCE = 1 << 25, 500, 1 << 10


class Dependence(NamedTuple):
    """Weights `left_out` (m,) that may be 0, and directions `null` (g, m) of `weights` (g,) that change no score.

    Intercepts are not `counted` in the norm. Columns of the weights `near` are sums of others but for rounding.
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
    """Return the `Dependence` of the weights of a risk without penalty, bounds and linear constraints, or None."""
    if getattr(risk, "dependence", None) is None:
        return None
    is_free = (penalty.l2 == 0.0) & (penalty.l1 == 0.0) & (penalty.lower == -np.inf) & (penalty.upper == np.inf)
    return risk.dependence(is_free if rows is None else is_free & (np.diff(rows.A.tocsc().indptr) == 0))


def dependence_of(examples, n_scores, is_free, has_intercept):
    """Return the `Dependence` of the weights marked in `is_free`, shape (K * width,), or None if there is none.

    What the weights of K > 1 classes share changes no loss. The last weight may be an intercept.
    """
    F, width, near = is_free.reshape(n_scores, -1).copy(), examples.width, []
    shared = np.flatnonzero(F.all(axis=0) & (n_scores > 1))
    shared = shared[:0] if len(shared) > MOST_COLUMNS else shared
    moves = [{k * width + j: 1.0 for k in range(n_scores)} for j in shared.tolist()]
    F[0, shared] = False
    patterns, which = np.unique(F, axis=0, return_inverse=True)
    known = [_columns(examples, np.flatnonzero(row)) for row in patterns]
    for start, (found, suspects) in zip(range(0, F.size, width), [known[p] for p in which.ravel()], strict=True):
        moves += [{start + i: z for i, z in move.items()} for move in found]
        near += [start + j for j in suspects]
    weights = np.unique([i for move in moves for i in move]).astype(int)
    if (not moves and not near) or len(weights) * len(moves) > MOST_NUMBERS:
        return None
    null = np.array([[move.get(i, 0.0) for move in moves] for i in weights.tolist()]).reshape(len(weights), len(moves))
    counted = weights != (is_free.size - 1 if has_intercept else -1)
    return Dependence(np.array([next(iter(move)) for move in moves], dtype=int), weights, null, counted, near)


def _columns(examples, marked):
    """Return `{j: 1, k: -z_k, ...}` for marked columns j that are sums of others, and those that only seem to be such.

    A constant feature among them is kept before all others.
    """
    n, width, found, near, columns, factors = examples.n_examples, len(marked), [], [], marked, []
    has_constant = bool(examples.bias) and examples.n_features in marked
    for step in sorted({-(-n // AT_ONCE), 1}, reverse=True):    # columns independent in some rows are so in all
        if width > MOST_COLUMNS or n // step * width > MOST_NUMBERS:
            return [], []
        columns = marked[marked < examples.n_features]
        A = examples.X[::step][:, columns]
        A = (A.toarray() if examples.is_sparse else A).astype(np.float64)
        sizes = np.abs(A).max(axis=0, initial=0.0)
        A, columns = (array[..., (sizes == 0.0) | ((sizes > TINY) & (sizes < 1.0 / TINY))] for array in (A, columns))
        factors = [1.0] * len(columns)
        if has_constant:
            A, columns = np.column_stack([A, np.ones(len(A))]), np.append(columns, examples.n_features)
            factors.append(examples.scale / examples.bias)
        found, near = _relations(A, has_constant) if len(columns) > has_constant else ([], [])
        if not found and not near:
            break
    return [{int(columns[j]): 1.0} | {int(columns[k]): -z * factors[k] for k, z in zs} for j, zs in found], [
        int(columns[j]) for j in near]


def _relations(A, has_constant):
    """Return `(j, [(k, z_k), ...])` with `A_j = sum_k z_k A_k`, and the j that only seem to be such."""
    norms = np.linalg.norm(A, axis=0)
    norms = np.where(norms > 0.0, norms, 1.0)
    norms[-1] *= 0.5 if has_constant else 1.0       # it is the first pivot
    B = A / norms
    R, order = qr(B, mode="r", pivoting=True)
    rank = int(np.count_nonzero(np.abs(np.diag(R)) > NEAR))
    kept, found, near, spans = order[:rank], [], [], None
    for j in order[rank:].tolist():
        z = np.linalg.lstsq(B[:, kept], B[:, j], rcond=None)[0]
        used, z = kept[np.abs(z) > NEAR], (z * norms[j] / norms[kept])[np.abs(z) > NEAR]
        exact = [Fraction(x).limit_denominator(LARGEST) for x in z.tolist()]
        if len(used) == 1:                  # any multiple of one column, such as a constant
            i = int(np.argmax(np.abs(A[:, used[0]])))
            exact = [Fraction(A[i, j].item()) / Fraction(A[i, used[0]].item())]
        is_proven = _is_zero(A[:, [j, *used]], [Fraction(-1), *exact])
        if not is_proven and spans is None:
            spans = _has_inverse(np.unique(A, axis=0)[:, kept])
        zs = list(zip(used.tolist(), map(float, exact if is_proven else z), strict=True))
        (found if is_proven or spans else near).append((j, zs))
    return found, [j for j, _ in near]


def _is_zero(A, z):
    """Whether `A z` is exactly 0, computed with integers."""
    common = math.lcm(*(x.denominator for x in z))
    whole = np.array([int(x * common) for x in z], dtype=object)
    for start in range(0, len(A), AT_ONCE):
        mantissas, powers = np.frexp(A[start:start + AT_ONCE])
        powers = np.where(mantissas == 0.0, 0, powers - powers.min())
        if ((np.ldexp(mantissas, 53).astype(np.int64).astype(object) * 2**powers.astype(object)) @ whole).any():
            return False
    return True


def _has_inverse(B):
    """Whether B is square and proven to have one: some R has `|1 - R B| < 1`, rounding counted."""
    if len(B) != B.shape[1]:
        return False
    B = np.ldexp(B, -np.frexp(np.abs(B).max(axis=0))[1])
    R = np.linalg.pinv(B)
    error = np.abs(np.eye(len(B)) - R @ B) + 2.0 * (len(B) + 2) * UNIT * (np.abs(R) @ np.abs(B))
    return bool(error.sum(axis=1).max() < 0.5)
