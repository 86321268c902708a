"""Limits of free weights in closed form, for all points with F <= L, from the data, the targets and the penalty.

For losses of one score that rise on both sides, at rates of at least k c_i, with e the errors that are free, Z some
columns times the weights c_i, the free ones f among them, and N_j the sum of `c_i |x_ij|` for all other columns:

    |Z w|_1 <= T = sum c_i (|t_i| + |linear| + e) + L / k + sum_j N_j |w_j|
    |Z w|_1^2 >= |Z w|_2^2 >= s |w_f|^2 - delta |w_p|^2,      hence  sqrt(s) |w_f| <= T + sqrt(delta) |w_p|

where the penalty limits the weights w_j and w_p: `l1_j |w_j|` and `l2_j/2 (w_j - C_j)^2` sum to at most L. Z is the
free columns or all; delta is of the size of rounding. Columns of Z are scaled to norms of about 1 first, so that each
weight has a limit of its own. If losses rise on one side only, an intercept alone is limited, by the sum of the losses
of either class, which is at most L:

    n_k |b| <= L / k + sum c_i (|t_i| + |linear| + e) + |sum c_i x_i w|,      sums over the rows of sign k

Sums of positive numbers are rounded by far less than the factor SAFE. The errors of s are counted: of the entries, of
sums of ROWS products and of such sums, and of the Cholesky decomposition that proves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.object_graph import check_array, check_float
from ..core.types import Floats
from .plane import UNIT

SAFE, ROWS = 1.001, 512
MOST = 1000         # columns, of an eigenvalue problem


@dataclass
class ScoreLimits:
    """Limits of f free weights where F <= L, the level: the least of `a + b L + c sqrt(2 L)` for parts (k, 3, f)."""

    level: float
    parts: Floats

    def sizes(self, lower: Any = None, upper: Any = None) -> Any:
        """Return the limits, shape (f,), whatever bounds the penalty has; None if they overflow."""
        L = max(self.level, 0.0)
        found = SAFE * np.min(np.array([1.0, L, (2.0 * L) ** 0.5]) @ self.parts, axis=0) + 1e-300
        return found if np.isfinite(found).all() else None

    def check_state(self) -> None:
        """Refuse what a checkpoint should not hold; the run compares the parts with those of its data."""
        check_float("level", self.level)
        check_array("parts", self.parts, (len(self.parts), 3, np.shape(self.parts)[-1]), low=0.0)


def score_limits(risk: Any, penalty: Any, means: Any, level: float, factor: float = 1.0) -> Any:
    """Return the `ScoreLimits` of a risk with a `curve`, or None if these formulas prove none.

    The `penalty` is one of certificates, times `factor`; the intercept is the one at `means`, see `Limits`.
    """
    low, high, linear, square, flat = getattr(risk, "curve", None) or (0.0,) * 5
    if square != 0.0 or low == high or penalty.labels is not None:
        return None
    penalty, c, every, X = penalty.lowered(), risk.sample_weight, np.arange(risk.dim), risk.examples
    free, m = np.flatnonzero(penalty.free), np.zeros(risk.dim) if means is None else means
    sizes = c * (np.abs(risk.labels if risk.is_regression else 0.0) + abs(linear) + flat)
    found: list = []
    with np.errstate(over="ignore", invalid="ignore"):
        if len(free) == risk.dim:
            N = np.zeros(risk.dim)
        else:
            N = _sums_of_columns(X, c[None], True)[0] + np.abs(m) * c.sum()
        if min(-low, high) > 0.0:
            loose = every[np.isinf(penalty.lower) | np.isinf(penalty.upper)]
            columns = free if X.is_sparse or len(loose) > min(len(c), MOST) else loose
            G = np.zeros((len(columns),) * 2)
            for first in range(0, len(c), ROWS):
                x = c[first:first + ROWS, None] * (rows_of(X, first, first + ROWS, columns) - m[columns])
                G += x.T @ x
            for kept in {len(columns): columns, len(free): free}.values():
                at, is_free, rest = np.searchsorted(columns, kept), np.isin(kept, free), np.array(N)
                sigma, scales, slack = _least_rise(G[np.ix_(at, at)], m[kept], c, is_free)
                rest[kept] = np.where(is_free, 0.0, slack)
                if sigma > 0.0:
                    parts = _others(penalty, factor, rest, sizes.sum(), min(-low, high))
                    found.append(parts / (sigma * scales[is_free]))
        elif X.bias is not None and free.tolist() == [risk.dim - 1]:
            classes = np.sign(risk.labels) * np.array([[1.0], [-1.0]]) > 0.0
            weights = classes @ c
            sums = np.abs(_sums_of_columns(X, classes * c) - weights[:, None] * m) + 1e-9 * N
            sums[:, free] = 0.0
            limits = [_others(penalty, factor, total, size, max(-low, high)) / (abs(X.bias) * weight)
                      for total, size, weight in zip(sums, classes @ sizes, weights, strict=True) if weight > 0.0]
            found += [np.max(limits, axis=0)] if len(limits) == 2 else []
    parts = np.array([one for one in found if np.isfinite(one).all()])
    return ScoreLimits(level, parts) if len(parts) else None


def rows_of(examples: Any, first: int, last: int, columns: Any = None) -> Floats:
    """Return rows x_i, or some columns of them, with scale and bias, as float64; the scale is rounded."""
    x, d = examples.X[first:last], examples.n_features
    if columns is not None and len(columns) < examples.width:
        x = x[:, columns[columns < d]]
    x = (x.toarray() if examples.is_sparse else x).astype(np.float64, copy=False)
    x = x if examples.scale == 1.0 else examples.scale * x
    has_bias = examples.bias is not None and (columns is None or d in columns)
    return np.column_stack([x, np.full(len(x), examples.bias)]) if has_bias else x


def _sums_of_columns(examples, C, is_absolute=False):
    """Return `C x` (k, width) for weights C (k, n) of the rows, or of their absolute values."""
    total = np.zeros((len(C), examples.width))
    for first in range(0, examples.n_examples, ROWS):
        x = examples.X[first:first + ROWS].astype(np.float64)
        total[:, :examples.n_features] += C[:, first:first + ROWS] @ (abs(x) if is_absolute else x)
    total[:, :examples.n_features] *= examples.scale
    if examples.bias is not None:
        total[:, -1] = C.sum(axis=1) * (abs(examples.bias) if is_absolute else examples.bias)
    return total


def _others(penalty, factor, N, size, steepness):
    """Return `size + L / steepness` plus a bound on `sum_j N_j |w_j|`, by its parts, shape (3, 1)."""
    l1, l2, box = factor * penalty.l1, factor * penalty.l2, np.maximum(np.abs(penalty.lower), np.abs(penalty.upper))
    held = np.isfinite(box)
    by_l1 = ~held & (l1 > 0.0)
    by_l2 = ~held & ~by_l1 & (l2 > 0.0)
    far = np.abs(penalty.centre) + penalty.centre_errors
    return SAFE * np.array([[size + float(N[held] @ box[held] + N[by_l2] @ far[by_l2])],
                            [1.0 / steepness + float((N[by_l1] / l1[by_l1]).max(initial=0.0))],
                            [float(np.sum(N[by_l2] ** 2 / l2[by_l2])) ** 0.5]])


def _least_rise(G, m, c, is_free):
    """Return sqrt(s), 0 if no s is proven, the scales of the columns, and `sqrt(delta)` times the scales."""
    norms, n, p = np.sqrt(np.diag(G)), len(c), ~is_free
    scales = np.ldexp(1.0, np.frexp(np.where(norms > 0.0, norms, 1.0))[1])
    G = G / scales / scales[:, None]
    lost = UNIT * (2.0 * min(n, ROWS) + 2.0 * n / ROWS + 2.0 * len(G) + 16.0) * float(np.trace(G))
    entries = 4.0 * UNIT * float(np.linalg.norm((norms + np.abs(m) * float(np.linalg.norm(c))) / scales))
    try:
        G[p, p] += 2.0 * lost
        cross = G[np.ix_(p, is_free)]
        S = G[np.ix_(is_free, is_free)] - cross.T @ np.linalg.solve(G[np.ix_(p, p)], cross)
        shift = 0.9 * float(np.linalg.eigvalsh(S)[0])
        np.linalg.cholesky(G - np.diag(np.where(is_free, shift, 0.0)))
    except np.linalg.LinAlgError:       # of numbers that are not finite, too
        return 0.0, scales, scales
    return max(shift - lost, 0.0) ** 0.5 / SAFE - entries, scales, ((3.0 * lost) ** 0.5 * SAFE + entries) * scales
