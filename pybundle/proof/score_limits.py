"""Limits of free weights in closed form, for all points with F <= L, from the data, the targets and the penalty.

For losses of one score that rise on both sides, at rates of at least k c_i, with e the errors that are free, Z some
columns times the weights c_i, the free ones f among them, and N_j the sum of `c_i |x_ij|` for all other columns, in the
coordinates of the intercept at the means:

    |Z w|_1 <= T = sum c_i (|t_i| + |linear| + e) + L / k + sum_j N_j |w_j|
    |Z w|_1^2 >= |Z w|_2^2 >= s |w_f|^2 - delta |w_p|^2,      hence  sqrt(s) |w_f| <= T + sqrt(delta) |w_p|

where the penalty limits the weights w_j and w_p: `l1_j |w_j|` and `l2_j/2 (w_j - C_j)^2` sum to at most L. Z is the
free columns or all; delta is of the size of rounding. Columns of Z are scaled to norms of about 1 first, so that each
weight has a limit of its own. If losses rise on one side only, an intercept alone is limited, by the sum of the losses
of either class, which is at most L:

    n_k |b| <= L / k + sum c_i (|t_i| + |linear| + e) + sum_j N_j |w_j|,      sums over the rows of sign k

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
MOST_ENTRIES = 1 << 24      # of a sparse matrix that is made dense


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
    is_steep, columns = min(-low, high) > 0.0, every[np.isinf(penalty.lower) | np.isinf(penalty.upper)]
    if (X.is_sparse and X.X.shape[0] * risk.dim > MOST_ENTRIES) or not (
            is_steep or (X.bias is not None and free.tolist() == [risk.dim - 1])):
        return None
    columns = free if len(columns) > min(len(c), MOST) else columns if is_steep else every[:0]
    classes = c[None] if is_steep else c * (np.sign(risk.labels) * np.array([[1.0], [-1.0]]) > 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        N, G, found = np.zeros((len(classes), risk.dim)), np.zeros((len(columns),) * 2), []
        for first in range(0, len(c), ROWS):
            x, some = rows_of(X, first, first + ROWS) - m, slice(first, first + ROWS)
            if len(free) < risk.dim:
                N += classes[:, some] @ (np.abs(x) + 4.0 * UNIT * np.abs(m))
            x = c[some, None] * x[:, columns]
            G += x.T @ x
        N[:, free] = 0.0
        for kept in {len(columns): columns, len(free): free}.values() if is_steep else ():
            at, is_free, rest = np.searchsorted(columns, kept), np.isin(kept, free), np.array(N[0])
            sigma, scales, slack = _least_rise(G[np.ix_(at, at)], m[kept], c, is_free)
            rest[kept] = np.where(is_free, 0.0, slack)
            if sigma > 0.0:
                parts = _others(penalty, factor, rest, sizes.sum(), min(-low, high))
                found.append(parts / (sigma * scales[is_free]))
        weights = classes.sum(axis=1)
        if not is_steep and weights.all():
            limits = [_others(penalty, factor, total, size, max(-low, high)) / (abs(X.bias) * weight)
                      for total, size, weight in zip(N, (classes > 0.0) @ sizes, weights, strict=True)]
            found.append(np.max(limits, axis=0))
    parts = np.array([one for one in found if np.isfinite(one).all()])
    return ScoreLimits(level, parts) if len(parts) else None


def rows_of(examples: Any, first: int, last: int) -> Floats:
    """Return rows x_i with scale and bias as float64; the scale is rounded."""
    x = examples.X[first:last]
    x = (x.toarray() if examples.is_sparse else x).astype(np.float64, copy=False)
    x = x if examples.scale == 1.0 else examples.scale * x
    return x if examples.bias is None else np.column_stack([x, np.full(len(x), examples.bias)])


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
