"""Multipliers of smooth losses of one score for the verifier: log-loss and squared hinge, from X and labels alone."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from ..risks import Logistic
from .certificate import Multipliers
from .plane import UNIT, Plane
from .problem import PlainProblem

ROWS = 512


def feasible(risk, beta):
    """Whether conjugates are finite at the multipliers, and a text."""
    c = risk.sample_weight
    is_inside = beta.shape == c.shape and bool(((beta <= 0.0) & (beta >= (
        -c if isinstance(risk, Logistic) else np.where(c > 0.0, -np.inf, 0.0)))).all())
    return is_inside, f"{beta.size} multipliers of {risk.n_examples} losses, at most 0"


def plane(risk, beta):
    """The plane `R(w) >= sum_i beta_i y_i <w, x_i> - conjugates`; column k errs by UNIT times its terms times its norm.
    """
    data, b, c = risk.examples, -beta, risk.sample_weight
    if isinstance(risk, Logistic):
        p, q = b[(b > 0.0) & (b < c)], (c - b)[(b > 0.0) & (b < c)]
        with np.errstate(over="ignore"):
            terms = [p * np.log1p(np.minimum(q / p, 1e300)), q * np.log1p(p / q)]
    else:
        terms = [b, -0.5 * b * (b / np.where(c > 0.0, c, 1.0))]
    phi, squares, counts = np.zeros((3, data.width))
    signed, d = beta * risk.labels, data.n_features
    for first in range(0, len(beta), ROWS):
        X, v = data.X[first:first + ROWS].astype(np.float64), signed[first:first + ROWS]
        phi[:d] += X.T @ v
        squares[:d] += np.asarray((X.multiply(X) if sp.issparse(X) else X * X).sum(axis=0)).ravel()
        counts[:d] += np.bincount(X.indices, minlength=d) if sp.issparse(X) else len(X)
    phi[:d], squares[:d] = phi[:d] * data.scale, squares[:d] * data.scale**2
    if data.bias is not None:
        phi[d], squares[d], counts[d] = data.bias * math.fsum(signed), len(beta) * data.bias**2, 1
    n_terms = np.minimum(2.0 * counts, min(len(beta), ROWS) + len(beta) / ROWS) + 6.0
    errors = 1.01 * UNIT * float(np.linalg.norm(beta)) * n_terms * np.sqrt(squares)
    total = np.concatenate(terms)
    return Plane(math.fsum(total), phi, 16.0 * UNIT * float(np.abs(total).sum()), float(np.linalg.norm(errors)),
                 None if data.bias is None else float(errors[d]))


class SquaredHingeProblem(PlainProblem):
    """Squared hinge, whose evidence may be multipliers."""

    def feasible(self, evidence):
        is_beta = isinstance(evidence, Multipliers)
        return feasible(self.risk, evidence.beta) if is_beta else super().feasible(evidence)

    def plane(self, evidence):
        return plane(self.risk, evidence.beta) if isinstance(evidence, Multipliers) else super().plane(evidence)
