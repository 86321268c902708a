"""Limits of free weights in closed form, for all points with F <= L, from the data, the targets and the penalty.

Let s_i be the scores, t_i the targets (0 for classes), c_i the weights of examples and n the sum of the c_i. Let the
loss grow on both sides at rates of at least k, after a range e in which errors cost nothing. Then

    sum c_i |s_i - t_i| <= T = a + L / k,   a = sum c_i (|linear| + e),

or T = a + 2 L / k + sqrt(square n) sqrt(2 L) if the loss is a square near t_i; linear, square and e are numbers of the
`curve` of the loss. Columns below are in coordinates with the intercept at the means. Let Z be a matrix of some columns
whose rows are multiplied by the c_i: of the columns f of all free weights, and of some others p. Let N_j be the sum of
`c_i |x_ij|` for every column j that is not in Z. Then

    |Z w|_1 <= T + sum c_i |t_i| + sum_j N_j |w_j|
    |Z w|_1^2 >= |Z w|_2^2 >= s |w_f|^2 - delta |w_p|^2,      hence  sqrt(s) |w_f| <= |Z w|_1 + sqrt(delta) |w_p|

The penalty limits the weights w_j and w_p, because `l1_j |w_j|` and `l2_j/2 (w_j - C_j)^2` sum to at most L. Two
matrices Z are tried: the free columns, and all columns of unbounded weights. The number delta is a rounding error.
Columns of Z are scaled to norms of about 1 first, so that each weight has a limit of its own.

If an intercept v is the only free weight, its `anchors` limit it, also for losses that grow on one side only. They are
two planes `b + <phi, w> + r v <= R(w, v)` with slopes r of both signs: |r| |v| <= L - b + sum_j |phi_j| |w_j|.

The factor SAFE exceeds the rounding of sums of positive numbers by far. The errors of s are counted: those of entries,
of sums of ROWS products and of such sums, and of the Cholesky decomposition that proves s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.types import Floats
from .anchors import ScoreAnchors
from .multipliers import ROWS, curve_of
from .plane import UNIT

SAFE = 1.001
MOST = 1000         # maximum number of columns in an eigenvalue problem
MOST_ENTRIES = 1 << 24      # maximum number of entries of a sparse matrix that is made dense


@dataclass
class ScoreLimits:
    """Limits of f free weights where F <= L, the level: the least of k bounds `a + b L + c sqrt(2 L)`.

    `parts` (k, 3, f) holds a, b and c of each bound for each weight.
    """

    level: float
    parts: Floats

    def sizes(self, lower: Any = None, upper: Any = None) -> Any:
        """Return the limits, shape (f,), or None if they overflow; bounds of the weights are not used."""
        L = max(self.level, 0.0)
        found = SAFE * np.min(np.array([1.0, L, (2.0 * L) ** 0.5]) @ self.parts, axis=0) + 1e-300
        return found if np.isfinite(found).all() else None


def score_limits(risk: Any, penalty: Any, means: Any, level: float, factor: float = 1.0) -> Any:
    """Return the `ScoreLimits` of a risk with a `curve`, or None if the formulas of this module prove no limits.

    F has `factor` times the `penalty`, which has the form of certificates. The intercept is at `means`, see `Limits`.
    """
    low, high, linear, square, flat = curve_of(risk) or (0.0,) * 5
    if penalty.labels is not None:
        return None
    free, anchors, found = np.flatnonzero(penalty.free), ScoreAnchors.of(risk, penalty.free, means), []
    penalty = penalty.lowered()
    with np.errstate(over="ignore", invalid="ignore"):
        if anchors is not None:
            found = [np.max([_others(penalty, factor, np.append((np.abs(one.phi) + one.errors)[:-1], 0.0),
                                     (max(-one.offset, 0.0) + one.offset_error, 1.0, 0.0)) / rise
                             for one, rise in zip(anchors.planes, anchors.rises, strict=True)], axis=0)]
        elif low < 0.0 < high and len(free):
            c = risk.sample_weight
            sizes = (np.abs(risk.labels) if risk.is_regression else 0.0) + abs(linear) + flat
            T = float(np.sum(c * sizes)), (1.0 + (square > 0.0)) / min(-low, high), float(square * c.sum()) ** 0.5
            m = np.zeros(risk.dim) if means is None else means
            found = _of_columns(risk.examples, c, m, penalty, factor, free, T)
    parts = np.array([one for one in found if np.isfinite(one).all()])
    return ScoreLimits(level, parts) if len(parts) else None


def _of_columns(X, c, m, penalty, factor, free, T):
    """Return the `parts` of limits that follow from the least eigenvalues of Z'Z, for both choices of Z."""
    columns = np.flatnonzero(np.isinf(penalty.lower) | np.isinf(penalty.upper))
    columns = free if len(columns) > min(len(c), MOST) else columns
    if X.is_sparse and X.X.shape[0] * X.width > MOST_ENTRIES:
        return []
    N, G, found = np.zeros(X.width), np.zeros((len(columns),) * 2), []
    for first in range(0, len(c), ROWS):
        x = X.dense(slice(first, first + ROWS))
        x, weights = x - x[:, -1:] * m, c[first:first + ROWS, None]
        if len(free) < X.width:
            N += np.sum(weights * (np.abs(x) + 4.0 * UNIT * np.abs(m)), axis=0)
        x = weights * x[:, columns]
        G += x.T @ x
    for kept in {len(columns): columns, len(free): free}.values():
        at, is_free, rest = np.searchsorted(columns, kept), np.isin(kept, free), np.array(N)
        sigma, scales, slack = _least_rise(G[np.ix_(at, at)], m[kept], c, is_free)
        rest[free], rest[kept] = 0.0, np.where(is_free, 0.0, slack)
        if sigma > 0.0:
            found.append(_others(penalty, factor, rest, T) / (sigma * scales[is_free]))
    return found


def _others(penalty, factor, N, T):
    """Return a, b and c of `ScoreLimits`, shape (3, 1), for T plus a bound on `sum_j N_j |w_j|`."""
    l1, l2, box = factor * penalty.l1, factor * penalty.l2, np.maximum(np.abs(penalty.lower), np.abs(penalty.upper))
    held = np.isfinite(box)
    by_l1 = ~held & (l1 > 0.0)
    by_l2 = ~held & ~by_l1 & (l2 > 0.0)
    far = np.abs(penalty.centre) + penalty.centre_errors
    return SAFE * np.array([[T[0] + float(N[held] @ box[held] + N[by_l2] @ far[by_l2])],
                            [T[1] + float((N[by_l1] / l1[by_l1]).max(initial=0.0))],
                            [T[2] + float(np.sum(N[by_l2] ** 2 / l2[by_l2])) ** 0.5]])


def _least_rise(G, m, c, is_free):
    """Return sqrt(s), or 0 if no s > 0 is proven; then the scales of the columns, and `sqrt(delta)` times them."""
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
    except np.linalg.LinAlgError:       # also raised for numbers that are not finite
        return 0.0, scales, scales
    return max(shift - lost, 0.0) ** 0.5 / SAFE - entries, scales, ((3.0 * lost) ** 0.5 * SAFE + entries) * scales
