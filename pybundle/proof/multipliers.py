"""Multipliers of losses of one score for the verifier: whether they are feasible, and the plane that they prove."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from ..core.rounding import exact_product
from ..risks import Logistic
from .certificate import Multipliers
from .plane import UNIT, Plane
from .problem import PlainProblem
from .score_limits import ROWS


def n_terms(n):
    """Return the length of the longest chain of additions in sums of n rows, ROWS at a time, and some roundings."""
    return min(n, ROWS) + n / ROWS + 6.0


def feasible(risk, beta):
    """Whether conjugates are finite at the multipliers, and a text."""
    c, (low, high) = risk.sample_weight, (-1.0, 0.0) if isinstance(risk, Logistic) else risk.curve[:2]
    is_inside = beta.shape == c.shape
    for sign, end in ((-1.0, low), (1.0, high)) if is_inside else ():
        product, rest = exact_product(c, end) if np.isfinite(end) else (np.where(c > 0.0, end, 0.0), 0.0)
        is_inside &= bool((sign * (beta - product) <= sign * rest).all())       # beside the ends, differences are exact
    return is_inside, f"{beta.size} multipliers of {risk.n_examples} losses, from {low:g} to {high:g} of weights"


def plane(risk, beta):
    """The plane `R(w) >= sum_i beta_i (s_i <w, x_i> - t_i) - conjugates`, with the errors of its entries.

    Column k errs by UNIT times its terms times its norm.
    """
    data, c = risk.examples, risk.sample_weight
    signed, d = beta if risk.is_regression else beta * risk.labels, data.n_features
    if isinstance(risk, Logistic):
        p, q = -beta[(beta < 0.0) & (beta > -c)], (c + beta)[(beta < 0.0) & (beta > -c)]
        with np.errstate(over="ignore"):
            terms = [p * np.log1p(np.minimum(q / p, 1e300)), q * np.log1p(p / q)]
    else:
        _, _, linear, square, flat = risk.curve
        targets = risk.labels if risk.is_regression else np.zeros(len(c))
        terms = [-beta * linear, -beta * targets, -flat * np.abs(beta),
                 -0.5 * square * beta * (beta / np.where(c > 0.0, c, 1.0))]
    phi, squares, counts = np.zeros((3, data.width))
    for first in range(0, len(beta), ROWS):
        X, v = data.X[first:first + ROWS].astype(np.float64), signed[first:first + ROWS]
        phi[:d] += X.T @ v
        squares[:d] += np.asarray((X.multiply(X) if sp.issparse(X) else X * X).sum(axis=0)).ravel()
        counts[:d] += np.bincount(X.indices, minlength=d) if sp.issparse(X) else len(X)
    phi[:d], squares[:d] = phi[:d] * data.scale, squares[:d] * data.scale**2
    if data.bias is not None:
        phi[d], squares[d], counts[d] = data.bias * math.fsum(signed), len(beta) * data.bias**2, 1
    longest = np.minimum(2.0 * counts + 6.0, n_terms(len(beta)))
    errors = 1.01 * UNIT * float(np.linalg.norm(beta)) * longest * np.sqrt(squares)
    total = np.concatenate(terms)
    return Plane(math.fsum(total), phi, 16.0 * UNIT * float(np.abs(total).sum()), float(np.linalg.norm(errors)),
                 None if data.bias is None else float(errors[d]), entry_errors=errors)


class OneScoreProblem(PlainProblem):
    """Losses of one score beside those of two classes, whose evidence may be multipliers."""

    def feasible(self, evidence):
        is_beta = isinstance(evidence, Multipliers)
        return feasible(self.risk, evidence.beta) if is_beta else super().feasible(evidence)

    def plane(self, evidence):
        return plane(self.risk, evidence.beta) if isinstance(evidence, Multipliers) else super().plane(evidence)
