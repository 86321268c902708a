"""Losses of one score in the verifier: any feasible multipliers give a plane, which is computed from X and targets.

    R(w) >= sum_i beta_i s_i <w, x_i> - beta_i t_i - c_i h(beta_i / c_i)

Here s_i are the labels of classes (1 in a regression), and t_i the targets of a regression (0 for classes). The
conjugate h follows from the `curve` of a risk; for the log-loss it is minus the entropy.
"""

from __future__ import annotations

import math

import numpy as np

from ..core.rounding import exact_product
from ..risks import Logistic
from .plane import UNIT, ProvenPlane

ROWS = 512       # number of rows of dense data that are converted at a time, so that they fit into the cache


def n_terms(n, rows=ROWS):
    """Return a bound on the number of rounding errors in an entry of a sum of n rows, added `rows` at a time."""
    return min(n, rows) + n / rows + 6.0


def curve_of(risk):
    """Return the `curve` of a risk, or None if it has none; for the log-loss, the curve of max(0, -margin) below it."""
    if isinstance(risk, Logistic):
        return -1.0, 0.0, 0.0, 0.0, 0.0
    return getattr(getattr(risk, "linear_risk", None), "curve", None)


def feasible(risk, beta):
    """Return whether the conjugates are finite at the multipliers, and a text for the report."""
    low, high, *_ = curve_of(risk)
    c, is_inside = risk.sample_weight, beta.shape == risk.sample_weight.shape
    for sign, end in ((1.0, high), (-1.0, low)):
        bounds, rest = exact_product(c, end) if np.isfinite(end) else (np.where(c > 0.0, end, 0.0), 0.0)
        is_inside = is_inside and bool((sign * (beta - bounds) <= sign * rest).all())   # bounds + rest is end * c
    return is_inside, f"{beta.size} multipliers of {risk.n_examples} losses, from {low:g} to {high:g} of weights"


def plane(risk, beta):
    """Return the plane of feasible multipliers.

    The error of entry k of the slope is at most UNIT times the number of its additions times `sum_i |x_ik beta_i|`.
    """
    data, c, d = risk.examples, risk.sample_weight, risk.examples.n_features
    if isinstance(risk, Logistic):
        inside = (beta < 0.0) & (beta > -c)
        p, q = -beta[inside], (c + beta)[inside]
        with np.errstate(over="ignore"):
            terms = [p * np.log1p(np.minimum(q / p, 1e300)), q * np.log1p(p / q)]
    else:
        _, _, linear, square, flat = risk.curve
        terms = [-linear * beta, -flat * np.abs(beta), -0.5 * square * beta * (beta / np.where(c > 0.0, c, 1.0)),
                 -beta * risk.labels if risk.is_regression else np.zeros(1)]
    coefs = beta if risk.is_regression else beta * risk.labels
    phi, sizes, counts = np.zeros((3, data.width))
    rows = max(ROWS, d) if data.is_sparse else ROWS
    for first in range(0, len(beta), rows):
        X, v = data.X[first:first + rows].astype(np.float64), coefs[first:first + rows]
        phi[:d] += X.T @ v
        entries = X.data if data.is_sparse else X
        np.abs(entries, out=entries)        # in place, because X is a copy and abs(X) would sort its rows first
        sizes[:d] += X.T @ np.abs(v)
        counts[:d] += np.bincount(X.indices, minlength=d) if data.is_sparse else 0.0
    phi[:d], sizes[:d] = data.scale * phi[:d], data.scale * sizes[:d]
    if data.bias is not None:
        phi[d], sizes[d] = data.bias * math.fsum(coefs), abs(data.bias) * float(np.abs(beta).sum())
    longest = n_terms(len(beta), rows) + 4.0
    additions = np.minimum(2.0 * counts + 10.0, longest) if data.is_sparse else longest
    errors, total = 1.01 * UNIT * additions * sizes, np.concatenate(terms)
    return ProvenPlane(math.fsum(total), phi, 16.0 * UNIT * float(np.abs(total).sum()), float(np.linalg.norm(errors)),
                       None if data.bias is None else float(errors[d]), entry_errors=errors)
