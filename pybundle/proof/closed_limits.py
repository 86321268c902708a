"""Limits of free weights in closed form, for all points with F <= L, from the data, the targets and the penalty.

For losses of one score that rise on both sides, at rates of at least k c_i, with Z the free columns times the weights
c_i, N_j the sum of `c_i |x_ij|`, and e the errors that are free:

    |Z w|_1 <= sum c_i (|t_i| + |linear| + e) + L / k + sum_j N_j |w_j|,      |Z w|_1 >= |Z w|_2 >= sigma_min(Z) |w|

over the other columns j, whose weights the penalty limits: `l1_j |w_j|` and `l2_j/2 (w_j - C_j)^2` sum to at most L.
Columns of Z are scaled to norms of about 1 first, so that each weight has a limit of its own. If losses rise on one
side only, an intercept alone is limited, by the sum of the losses of either class, which is at most L:

    n_k |b| <= L / k + sum c_i (|t_i| + |linear| + e) + |sum c_i x_i w|,      sums over the rows of sign k

Sums of positive numbers are rounded by far less than the factor SAFE. The error of the eigenvalue is counted: of the
entries, of sums of ROWS products and of such sums, and of a Cholesky decomposition that succeeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.object_graph import check_array, check_float
from ..core.types import Floats
from .plane import UNIT

SAFE, ROWS = 1.001, 4096


@dataclass
class ScoreLimits:
    """Limits of f free weights that grow with the level, `parts[0] + parts[1] L + parts[2] sqrt(2 L)`, where F <= L.

    Attributes
    ----------
    level : float
        L.
    parts : ndarray, shape (3, f)
    """

    level: float
    parts: Floats

    def sizes(self, lower: Any = None, upper: Any = None) -> Any:
        """Return the limits, shape (f,), whatever bounds the penalty has; None if they overflow."""
        L = max(self.level, 0.0)
        found = SAFE * (self.parts[0] + self.parts[1] * L + self.parts[2] * (2.0 * L) ** 0.5) + 1e-300
        return found if np.isfinite(found).all() else None

    def check_state(self) -> None:
        """Refuse what a checkpoint should not hold; the run compares the parts with those of its data."""
        check_float("level", self.level)
        check_array("parts", self.parts, (3, np.shape(self.parts)[-1]), low=0.0)


def score_limits(risk: Any, penalty: Any, means: Any, level: float, factor: float = 1.0) -> Any:
    """Return the `ScoreLimits` of a risk with a `curve`, or None if these formulas prove none.

    Parameters
    ----------
    risk : Risk
        Sum of losses of one score of the rows of its `examples`.
    penalty : Penalty
        As certificates hold it; multiplied by `factor`.
    means : ndarray, shape (dim,), or None
        The intercept is the one at these means, see `Limits`.
    level : float
        L.
    """
    low, high, linear, square, flat = getattr(risk, "curve", None) or (0.0,) * 5
    if square != 0.0 or low == high or penalty.labels is not None:
        return None
    penalty, free, c = penalty.lowered(), np.flatnonzero(penalty.free), risk.sample_weight
    m = np.zeros(risk.dim) if means is None else means
    signs = np.sign(risk.labels) if not risk.is_regression else np.ones(len(c))
    targets = np.abs(risk.labels) if risk.is_regression else np.zeros(len(c))
    G, N, sums = np.zeros((len(free), len(free))), np.zeros(risk.dim), np.zeros((2, risk.dim))
    with np.errstate(over="ignore", invalid="ignore"):
        for first in range(0, len(c), ROWS):
            x = c[first:first + ROWS, None] * (rows_of(risk.examples, first, first + ROWS) - m)
            G += x[:, free].T @ x[:, free]
            N += np.abs(x).sum(axis=0)
            sums += np.stack([signs[first:first + ROWS] > 0, signs[first:first + ROWS] < 0]) @ x
        if min(-low, high) > 0.0:
            sigma, scales = _smallest(G, m[free], c)
            if not sigma > 0.0:
                return None
            parts = _others(penalty, factor, N)
            parts[0] += float(c @ (targets + abs(linear) + flat))
            parts[1] += 1.0 / min(-low, high)
            return ScoreLimits(level, parts[:, None] / (sigma * scales))
        bias = risk.examples.bias
        if bias is None or free.tolist() != [risk.dim - 1]:
            return None
        found = np.zeros(3)
        for s, total in zip((1, -1), sums, strict=True):
            weight = float(c[signs == s].sum()) * abs(bias)
            if weight == 0.0:
                return None
            parts = _others(penalty, factor, np.abs(total) + 1e-9 * N)
            parts[0] += float(c[signs == s] @ (targets[signs == s] + abs(linear) + flat))
            parts[1] += 1.0 / max(-low, high)
            found = np.maximum(found, parts / weight)
        return ScoreLimits(level, found[:, None])


def rows_of(examples, first, last):
    """Return the rows x_i, with scale and bias, as float64; the scale is rounded."""
    x = examples.X[first:last]
    x = (x.toarray() if examples.is_sparse else x).astype(np.float64, copy=False)
    x = x if examples.scale == 1.0 else examples.scale * x
    return x if examples.bias is None else np.column_stack([x, np.full(len(x), examples.bias)])


def _rates(penalty, factor):
    return factor * penalty.l1, factor * penalty.l2


def _others(penalty, factor, N):
    """Return a bound on `sum_j N_j |w_j|` over weights that are not free, by its parts."""
    l1, l2, box = factor * penalty.l1, factor * penalty.l2, np.maximum(np.abs(penalty.lower), np.abs(penalty.upper))
    held = np.isfinite(box)
    by_l1 = ~held & (l1 > 0.0)
    by_l2 = ~held & ~by_l1 & (l2 > 0.0)
    far = np.abs(penalty.centre) + penalty.centre_errors
    return SAFE * np.array([float(N[held] @ box[held] + N[by_l2] @ far[by_l2]),
                            float((N[by_l1] / l1[by_l1]).max(initial=0.0)),
                            float(np.sum(N[by_l2] ** 2 / l2[by_l2])) ** 0.5])


def _smallest(G, m, c):
    """Return a lower bound of the least singular value of the scaled columns, 0 if none is proven, and the scales."""
    norms = np.sqrt(np.diag(G))
    if not (np.isfinite(norms).all() and (norms > 0.0).all()):
        return 0.0, norms
    scales = np.ldexp(1.0, np.frexp(norms)[1])
    G = G / scales / scales[:, None]
    trace, n = float(np.trace(G)), len(c)
    lost = UNIT * (2.0 * min(n, ROWS) + 2.0 * n / ROWS + 2.0 * len(G) + 16.0) * trace
    entries = 4.0 * UNIT * float(np.linalg.norm((norms + np.abs(m) * float(np.linalg.norm(c))) / scales))
    shift = 0.9 * float(np.linalg.eigvalsh(G)[0])
    try:
        np.linalg.cholesky(G - shift * np.eye(len(G)))
    except np.linalg.LinAlgError:
        return 0.0, scales
    return max(shift - lost, 0.0) ** 0.5 / SAFE - entries, scales
