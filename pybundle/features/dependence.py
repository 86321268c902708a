"""Finds columns that other columns make up for: weights without penalty may be 0 there, and no score is lost.

If `X_j = sum_k z_k X_k`, scores do not change along the weights (1, -z), and the minimum of F over all weights is that
over weights with `w_j = 0`. A bound may rest on this, so it is proven in integers, in one of two ways: z are fractions
with small denominators, as for indicators of all categories, copies and constants, and the sum is 0 in every row; or
the columns that are kept span every column, because they are a square matrix with an inverse.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from ..core.rounding import UNIT
from ..core.types import Array, Floats

NEAR = 1e-9             # a column at that distance from the span of others, relative to its norm, seems to be in it
LARGEST = 1000          # denominator of z
MOST, MOST_COLUMNS = 1 << 24, 500       # numbers that are looked at
AT_ONCE = 1 << 10       # rows as integers
SAMPLE = 1000           # rows in which columns are independent, if they are


class Dependence(NamedTuple):
    """Weights that may be 0, and what makes up for them.

    Attributes
    ----------
    left_out : ndarray, shape (m,)
        Weights that may be 0 without loss.
    weights, null : ndarrays, shapes (g,) and (g, m)
        Directions, on g weights, along which no score changes, up to rounding.
    is_counted : bool array, shape (g,)
        Which of these weights count in the norm: intercepts do not.
    near : ndarray
        Weights of columns that depend on others up to rounding only, about which nothing is proven.
    """

    left_out: Array
    weights: Array
    null: Floats
    is_counted: Array
    near: Array

    def least(self, w: Array) -> Floats:
        """Return the point of least norm with the scores of w, up to rounding."""
        found, N = np.array(w), self.null
        t = np.linalg.lstsq(N[self.is_counted], found[self.weights][self.is_counted], rcond=None)[0]
        found[self.weights] -= N @ t
        return found


def dependence_in(risk, penalty, rows):
    """Return the `Dependence` of the weights of a risk without penalty, bounds and linear constraints, or None."""
    if getattr(risk, "dependence", None) is None:
        return None
    is_free = (penalty.l2 == 0.0) & (penalty.l1 == 0.0) & (penalty.lower == -np.inf) & (penalty.upper == np.inf)
    if rows is not None:
        is_free &= np.diff(rows.A.tocsc().indptr) == 0
    return risk.dependence(is_free)


def dependence_of(examples, n_scores, is_free, has_intercept):
    """Return the `Dependence` of the weights marked in `is_free`, shape (K * width,), or None if there is none.

    A shift that the weights of all K > 1 classes share changes no loss. With an intercept the last weight is it.
    """
    F, width = is_free.reshape(n_scores, -1).copy(), examples.width
    shared = np.flatnonzero(F.all(axis=0)) if n_scores > 1 else np.empty(0, dtype=int)
    F[0, shared] = False
    moves = [(j, {k * width + j: 1.0 for k in range(n_scores)}) for j in shared.tolist()]
    known, near = {}, []
    for k, row in enumerate(F):
        if row.tobytes() not in known:
            known[row.tobytes()] = _columns(examples, np.flatnonzero(row))
        found, suspects = known[row.tobytes()]
        moves += [(k * width + j, {k * width + i: z for i, z in move.items()}) for j, move in found]
        near += [k * width + j for j in suspects]
    if not moves and not near:
        return None
    weights = np.unique([i for _, move in moves for i in move]).astype(int)
    null = np.zeros((len(weights), len(moves)))
    for column, (_, move) in enumerate(moves):
        null[np.searchsorted(weights, list(move)), column] = list(move.values())
    is_counted = weights != n_scores * width - 1 if has_intercept else np.ones(len(weights), dtype=bool)
    return Dependence(np.array([j for j, _ in moves], dtype=int), weights, null, is_counted, np.array(near, dtype=int))


def _columns(examples, marked):
    """Return moves `{j: 1, k: -z_k, ...}` with their columns j, and the columns that seem to depend on others.

    A constant feature that is among the marked columns is kept before all others.
    """
    n, features = examples.n_examples, marked[marked < examples.n_features]
    if len(features) == 0 or len(marked) > MOST_COLUMNS or n * len(marked) > MOST:
        return [], []
    A, columns, factors = examples.X[:, features], features, np.ones(len(features))
    A = (A.toarray() if examples.is_sparse else A).astype(np.float64)
    if len(features) < len(marked) and examples.bias:
        A, columns = np.c_[np.ones(n), A], np.r_[examples.n_features, features]
        factors = np.r_[examples.scale / examples.bias, factors]
    found, near = _relations(A, np.unique(np.linspace(0, n - 1, SAMPLE).astype(int)))
    if near and n > SAMPLE:
        found, near = _relations(A, np.arange(n))
    moves = [(columns[j], {columns[j]: 1.0} | {columns[k]: -z * factors[k] for k, z in zs}) for j, zs in found]
    return moves, columns[near].tolist()


def _relations(A, rows):
    """Return `(j, [(k, z_k), ...])` with `A_j = sum_k z_k A_k` for columns j of A, and those that only seem to be such.

    Columns are chosen by some rows, relations hold on all. Those that an inverse proves have z up to rounding.
    """
    with np.errstate(all="ignore"):         # of vast and tiny columns nothing is found
        _, powers = np.frexp(np.abs(A).max(axis=0))
        B = np.ldexp(A[rows], -powers)
        Q, kept, others = np.zeros((len(rows), 0)), [], []
        for j in range(A.shape[1]):
            rest = B[:, j] - Q @ (Q.T @ B[:, j])
            rest -= Q @ (Q.T @ rest)
            size = float(np.linalg.norm(rest))
            if size > NEAR * float(np.linalg.norm(B[:, j])):
                Q = np.column_stack([Q, rest / size])
                kept.append(j)
            else:
                others.append(j)
        if not others:
            return [], []
        Z = np.linalg.lstsq(B[:, kept], B[:, others], rcond=None)[0]
        Z = np.where(np.abs(Z) > NEAR, np.ldexp(Z, powers[others] - powers[kept][:, None]), 0.0)
    found, near, spans = [], [], None
    for j, z in zip(others, Z.T, strict=True):
        zs = [(k, Fraction(x).limit_denominator(LARGEST)) for k, x in zip(kept, z.tolist(), strict=True) if x]
        if not _is_zero(A[:, [j, *(k for k, _ in zs)]], [Fraction(-1), *(x for _, x in zs)]):
            spans = _span_all(np.unique(A, axis=0)[:, kept]) if spans is None else spans
            zs = list(zip(kept, z.tolist(), strict=True))
            if not spans:
                near.append(j)
                continue
        found.append((j, [(k, float(x)) for k, x in zs if x]))
    return found, near


def _is_zero(A, z):
    """Whether `A z` is exactly 0, computed with integers."""
    common = math.lcm(*(x.denominator for x in z))
    whole = np.array([int(x * common) for x in z], dtype=object)
    for start in range(0, len(A), AT_ONCE):
        mantissas, powers = np.frexp(A[start:start + AT_ONCE])
        mantissas = np.ldexp(mantissas, 53).astype(np.int64)
        powers = np.where(mantissas == 0, 0, powers - powers[mantissas != 0].min(initial=0))
        if (((mantissas.astype(object) * 2 ** powers.astype(object)) @ whole) != 0).any():
            return False
    return True


def _span_all(B):
    """Whether B is square and proven to have an inverse: R with `|1 - R B| < 1` is computed, rounding counted."""
    if len(B) != B.shape[1]:
        return False
    with np.errstate(all="ignore"):
        B = np.ldexp(B, -np.frexp(np.abs(B).max(axis=0))[1])
        try:
            R = np.linalg.inv(B)
        except np.linalg.LinAlgError:
            return False
        error = np.abs(np.eye(len(B)) - R @ B) + 2.0 * (len(B) + 2) * UNIT * (np.abs(R) @ np.abs(B))
        return bool(np.abs(R).max() < 1e200 and error.sum(axis=1).max() < 0.5)
