"""Losses of one score for the verifier: the plane of any multipliers in their boxes, from X, targets and curve."""

from __future__ import annotations

import math

import numpy as np

from ..core.rounding import exact_product
from .certificate import Multipliers
from .plane import UNIT, Plane
from .problem import PlainProblem
from .score_limits import ROWS, n_terms, rows_of, sum_of_rows


class OneScoreProblem(PlainProblem):
    """Pinball, absolute and epsilon-insensitive loss; other losses of one score have points as evidence."""

    def feasible(self, evidence):
        if not isinstance(evidence, Multipliers) or self.risk.curve[3] != 0.0:
            return super().feasible(evidence)
        beta, (low, high, *_), c = evidence.beta, self.risk.curve, self.risk.sample_weight
        ends = (exact_product(c, end) for end in (high, low))       # beside them, differences are exact
        is_inside = beta.shape == c.shape and all(
            (sign * (beta - end) <= sign * rest).all() for sign, (end, rest) in zip((1.0, -1.0), ends, strict=True))
        return is_inside, f"{beta.size} multipliers of {self.n_examples} losses, from {low:g} to {high:g} of weights"

    def plane(self, evidence):
        if not isinstance(evidence, Multipliers):
            return super().plane(evidence)
        _, _, linear, _, flat = self.risk.curve
        beta, data, (phi, squares) = evidence.beta, self.risk.examples, np.zeros((2, self.dim))
        terms = [-beta * linear, -flat * np.abs(beta)]
        if self.risk.is_regression:
            terms.append(-beta * self.risk.labels)
        coefs = beta if self.risk.is_regression else beta * self.risk.labels
        for first in range(0, self.n_examples, ROWS):
            x = rows_of(data, first, first + ROWS)
            phi += sum_of_rows(coefs[first:first + ROWS], x)
            squares += np.einsum("ij,ij->j", x, x)
        # products, sums, and targets, columns and scales that were rounded
        errors = 1.01 * UNIT * n_terms(self.n_examples) * float(np.linalg.norm(beta)) * np.sqrt(squares)
        return Plane(math.fsum(np.concatenate(terms).tolist()), phi, 4.0 * UNIT * float(np.abs(terms).sum()),
                     float(np.linalg.norm(errors)), None if data.bias is None else float(errors[-1]),
                     entry_errors=errors)
