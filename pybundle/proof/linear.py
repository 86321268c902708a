"""The verifier's formulas for multiclass hinge, binary hinge and logistic loss, computed from X and y alone."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import ParameterError
from ..risks import BinaryHinge, Logistic, MulticlassHinge
from . import exact as ex
from .multipliers import ROWS
from .plane import UNIT, ProvenPlane
from .problem import LabellingProblem

NONE = 745.0
"""Margin beyond which a logistic loss underflows to 0."""


class LinearProblem(LabellingProblem):
    """Multiclass hinge, binary hinge and logistic loss; `r_i(w)` follows from the scores of x_i, computed here."""

    exact_kinds = (MulticlassHinge, BinaryHinge)

    def __init__(self, risk, exact):
        super().__init__(risk, exact)
        self.K, self.data = risk.n_scores, risk.examples
        self.y, self.c = risk.labels, risk.sample_weight
        cost = getattr(risk, "loss", None)
        self.cost = (1.0 - np.eye(self.K) if self.K > 1 else np.ones((1, 1))) if cost is None else cost

    def rows(self, numbers=None):
        """Yield pieces `(numbers, X)` of the rows with these numbers, dense or CSR as they are stored, in float64."""
        X = self.data.X
        numbers = np.arange(self.n_examples) if numbers is None else numbers
        for first in range(0, len(numbers), ROWS):
            some = numbers[first:first + ROWS]
            yield some, X[some].astype(np.float64)

    def value(self, w):
        if self.exact:
            return self._exact_value(w)
        W = w.reshape(self.K, -1)
        gamma, values, errors = 2.02 * UNIT * (self.data.width + 12.0), [], 0.0
        for some, X in self.rows():
            # for each row, the largest sum of absolute products in one of its scores
            sizes = np.asarray(abs(X) @ np.abs(W[:, :self.data.n_features].T * self.data.scale)).max(axis=1)
            sizes = 1.01 * (sizes + abs(self.data.bias or 0.0) * float(np.abs(W[:, -1]).max()))
            found, counts = self._losses(self.y[some], self._scores(X, W), gamma * sizes)
            values.append(math.fsum(self.c[some] * found))
            reach, found = gamma * sizes[counts], found[counts]
            if isinstance(self.risk, Logistic):     # |slope| <= loss e^reach at scores off by up to reach
                reach = reach * np.where(reach < 1.0, np.minimum(3.0 * found, 1.0), 1.0)
            added = found if isinstance(self.risk, Logistic) else self.cost.max()
            errors += float(self.c[some[counts]] @ (reach + 4.0 * UNIT * (added + found)))
        total = math.fsum(values)
        return total, 1.01 * errors + 4.0 * UNIT * total

    def _product_of_norms(self, C, X):
        """Return an upper bound on `sum_i |C_i| |x_i|`, by the Cauchy-Schwarz inequality."""
        entries = X.data if sp.issparse(X) else X.ravel()
        square = float(entries @ entries) * self.data.scale**2 + len(C) * (self.data.bias or 0.0) ** 2
        return 1.01 * math.sqrt(square) * float(np.linalg.norm(C))

    def _losses(self, y, scores, reach):
        """Return losses, and for each whether it may be positive if scores have errors of up to `reach`."""
        if isinstance(self.risk, Logistic):
            margins = y * scores[:, 0]
            return np.logaddexp(0.0, -margins), margins < reach + NONE
        if self.K == 1:
            top = 1.0 - y * scores[:, 0]
        else:
            here = np.arange(len(y))
            u = self.cost[y]
            u += scores
            u -= scores[here, y][:, None]
            u[here, y] = -np.inf
            top = u.max(axis=1)
        return np.maximum(top, 0.0), top > -(reach + 4.0 * UNIT * self.cost.max())

    def _exact_value(self, w):
        W, total = w.reshape(self.K, -1), Fraction(0)
        ex.check_size(self.n_examples * w.size, "scores")
        for some, X in self.rows():
            scores = ex.product(self._with_bias(X), W.T)
            for i, s in zip(some.tolist(), scores.tolist(), strict=True):
                y = int(self.y[i])
                loss = 1 - y * s[0] if self.K == 1 else max(
                    Fraction(float(self.cost[y, k])) + s[k] - s[y] for k in range(self.K))
                total += Fraction(float(self.c[i])) * max(loss, 0)
        return total, Fraction(0)

    def _with_bias(self, X):
        if self.data.scale != 1.0:
            raise ex.ExactError(f"exact=True takes data of scale 1, got {self.data.scale:g}; pass exact=False")
        X = X.toarray() if sp.issparse(X) else X
        return X if self.data.bias is None else np.hstack([X, np.full((len(X), 1), self.data.bias)])

    def floor(self, evidence):
        return Fraction(0)

    def _moves(self, evidence):
        """Return the examples that have multipliers of wrong labels, and three arrays over these multipliers.

        The arrays are: the place of the example among the returned examples, the label, and the mass.
        """
        labels, masses, examples = np.asarray(evidence.labellings), evidence.masses, evidence.examples
        is_valid = labels.ndim == 1 and labels.dtype.kind in "iu" and (
            (labels >= 0) & (labels < max(self.K, 2))).all() and not isinstance(self.risk, Logistic)
        if not is_valid:
            raise ParameterError(f"the certificate must name classes 0..{max(self.K, 2) - 1} of examples of "
                                 f"{type(self.risk).__name__}; its labellings are of another kind")
        off = labels != (0 if self.K == 1 else self.y[examples])
        rows, places = np.unique(examples[off], return_inverse=True)
        return rows, places, labels[off], masses[off]

    def _scores(self, X, W):
        scores = np.asarray(X @ (W[:, :self.data.n_features].T * self.data.scale))
        return scores if self.data.bias is None else scores + self.data.bias * W[:, -1]

    def _labellings(self, evidence):
        rows, places, labels, masses = self._moves(evidence)
        y, K = self.y[rows], self.K
        C = np.zeros((len(rows), K))
        if K == 1:
            np.add.at(C, (places, 0), -y[places] * masses)
            losses = masses
        else:
            np.add.at(C, (places, labels), masses)
            np.add.at(C, (places, y[places]), -masses)
            losses = masses * self.cost[y[places], labels]
        phi, sizes, last = np.zeros((K, self.data.width)), 0.0, 0.0
        for first, (some, X) in zip(range(0, len(rows), ROWS), self.rows(rows), strict=True):
            part = C[first:first + len(some)]
            phi[:, :self.data.n_features] += np.asarray((X.T @ part).T if sp.issparse(X) else part.T @ X)
            if self.data.bias is not None:
                phi[:, -1] += self.data.bias * part.sum(axis=0)
            sizes += self._product_of_norms(part, X)
            last += float(np.abs(part).sum()) * (abs(X[:, [-1]]).max() if self.data.bias is None else self.data.bias)
        phi[:, :self.data.n_features] *= self.data.scale
        terms = min(len(rows), ROWS) + len(rows) / ROWS + np.bincount(places, minlength=1).max() + K + 12.0
        return ProvenPlane(math.fsum(losses.tolist()), phi.ravel(), 4.0 * UNIT * float(losses.sum()),
                           1.01 * terms * UNIT * sizes, 1.02 * terms * UNIT * abs(last))

    def _exact_labellings(self, evidence):
        rows, places, labels, masses = self._moves(evidence)
        ex.check_size(len(rows) * self.K * self.data.width, "multipliers and features")
        y, C = self.y[rows], np.full((len(rows), self.K), Fraction(0), dtype=object)
        offset = Fraction(0)
        for at, k, mass in zip(places.tolist(), labels.tolist(), masses.tolist(), strict=True):
            if self.K == 1:
                C[at, 0] -= int(y[at]) * Fraction(mass)
                offset += Fraction(mass)
            else:
                C[at, k] += Fraction(mass)
                C[at, y[at]] -= Fraction(mass)
                offset += Fraction(mass) * Fraction(float(self.cost[y[at], k]))
        phi = np.full((self.K, self.data.width), Fraction(0), dtype=object)
        for first, (some, X) in zip(range(0, len(rows), ROWS), self.rows(rows), strict=True):
            phi = phi + C[first:first + len(some)].T @ ex.fractions(*ex.integers(self._with_bias(X)))
        return ProvenPlane(offset, phi.ravel())
