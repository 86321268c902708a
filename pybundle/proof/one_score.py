"""Losses of one score for the verifier: the plane of any multipliers in their boxes, from X, targets and curve."""

from __future__ import annotations

import math

import numpy as np

from ..core.rounding import exact_product
from .certificate import Multipliers
from .closed_limits import ROWS, rows_of
from .plane import UNIT, Plane
from .problem import PlainProblem


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
        beta, data, phi = evidence.beta, self.risk.examples, np.zeros(self.dim)
        terms = [-beta * linear, -flat * np.abs(beta)]
        if self.risk.is_regression:
            terms.append(-beta * self.risk.labels)
        coefs = beta if self.risk.is_regression else beta * self.risk.labels
        for first in range(0, self.n_examples, ROWS):
            phi += coefs[first:first + ROWS] @ rows_of(data, first, first + ROWS)
        # products, sums, and targets, columns and scales that were rounded
        unit = 1.01 * UNIT * (min(self.n_examples, ROWS) + self.n_examples / ROWS + 8.0) * float(np.linalg.norm(beta))
        return Plane(math.fsum(np.concatenate(terms).tolist()), phi, 4.0 * UNIT * float(np.abs(terms).sum()),
                     unit * float(np.linalg.norm(data.norms)),
                     None if data.bias is None else unit * abs(data.bias) * self.n_examples**0.5)
