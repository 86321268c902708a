"""Random small problems of ranking and of measures of whole samples for the proofs: pairs or labellings are listed.

Squared hinges of pairs are minimised in rationals.
"""

import itertools
from fractions import Fraction

import numpy as np

import pybundle as pb

from . import exact, problems


def pairs(y, groups, event=None):
    """Pairs (i, j) of rows of one group with y_i > y_j, and an event at j."""
    return [(i, j) for i in range(len(y)) for j in range(len(y))
            if groups[i] == groups[j] and y[i] > y[j] and (event is None or event[j])]


def twin(X, y, groups, event, form, margin, pair_weight, group_weight):
    """The exact risk: two rows for each pair, 0 and the margin less the difference of scores."""
    X, k = exact.lift(X)
    rows, zero = [], np.zeros(X.shape[1], dtype=object)
    for i, j in pairs(y, groups, event):
        step = Fraction(y[i]) - Fraction(y[j])
        c = Fraction(group_weight[groups[i]]) * (step if pair_weight else 1)
        rows.append((c, [(0, 1, zero), (1 if margin == "unit" else step, 1, X[j] - X[i])]))
    return (SquaredHinges if form == "squared" else exact.Risk)(X.shape[1], rows, k)


class SquaredHinges(exact.Risk):
    """The sum of `c max(0, b + <a, w>)^2 / 2`; rows of the risk are `c (b + <a, w>)`."""

    def __init__(self, dim, groups, k):
        super().__init__(dim, groups, k)
        self.smooth = True
        self.counts = np.array([0 if c == 0 else 1 / c for c in self.weights], dtype=object)

    def value(self, w):
        """An interval that holds R(w): a point."""
        W, scale = exact._integers(w)
        heights = np.maximum(self.A[1::2] @ W + self.offsets[1::2] * scale, 0)
        value = sum(heights * heights * self.counts, Fraction(0)) / (2 * (self.D * scale)**2)
        return value, value

    def optimum(self, lam, guess, nonneg=None, n=1):
        """The minimiser if the active pairs at the guess, or after a few Newton steps, are those of it."""
        if nonneg is not None:
            return None
        lam, w, active = exact.fraction(lam) * n, guess, None
        A, b = self.A[1::2], self.offsets[1::2]
        for _ in range(12):
            W, scale = exact._integers(w)
            found = A @ W + b * scale > 0
            if active is not None and (found == active).all():
                value = self.objective(w, lam)[0] / n
                return exact.Optimum(w, Fraction(0), value, value)
            active = found
            weighted = (A[active].T * self.counts[active])
            M = weighted @ A[active] + np.diag(np.full(self.dim, lam * self.D**2, dtype=object))
            right = -(weighted @ b[active]) if active.any() else np.zeros(self.dim, dtype=object)
            factor = int(np.lcm.reduce([Fraction(v).denominator for v in (*M.ravel(), *right)], dtype=object))
            solved = exact.solve_integers([[int(v * factor) for v in row] for row in M.tolist()],
                                          [int(v * factor) for v in right.tolist()])
            w = [Fraction(v) for v in solved]
        return None


def ranking(rng, form):
    n, d = int(rng.integers(2, 12)), int(rng.integers(1, 6))
    X, kind = problems.matrix(rng, n, d), rng.random()
    if kind < 0.3:
        X += 10.0 ** rng.uniform(-1, 6) * np.abs(X).max() * rng.standard_normal(d)      # columns far from 0
    y = rng.integers(0, 4, n) * 1.0 if rng.random() < 0.6 else rng.random(n) * 10.0 ** rng.uniform(-2, 2)
    groups = rng.integers(0, int(rng.integers(1, 4)), n)
    groups = np.unique(groups, return_inverse=True)[1]
    weights = np.ones(groups.max() + 1) if rng.random() < 0.6 else rng.integers(0, 4, groups.max() + 1) * 0.7
    event = rng.random(n) < 0.7 if rng.random() < 0.3 else None
    given, X = problems.stored(rng, X)
    options = {"form": form, "margin": str(rng.choice(["unit", "difference"])),
               "pair_weight": [None, "difference"][rng.integers(2)], "group_weight": weights}
    if not pairs(y, groups, event):
        return ranking(rng, form)
    risk = pb.risks.Ranking(given, y, groups, event, **options)
    methods = problems.FREE + (("frank-wolfe",) if form == "hinge" else ("lbfgs", "frank-wolfe"))
    return risk, twin(X, y.tolist(), groups.tolist(), event, **options), methods


def measure_twin(X, y, measure, option=None, bias=None):
    """The exact risk of "area", "precision" at k or "score" F_beta for labels 0/1: a row for each labelling."""
    n, others = sum(y), len(y) - sum(y)
    if measure == "area":
        return twin(X, y, [0] * len(y), None, "hinge", "unit", None, [1.0 / others])
    X, k = exact.lift(X if bias is None else np.hstack([X, np.full((len(y), 1), bias)]))
    rows = []
    for labels in itertools.product((0, 1), repeat=len(y)):
        missed = sum(1 for label, true in zip(labels, y, strict=True) if true > label)
        false = sum(1 for label, true in zip(labels, y, strict=True) if true < label)
        lost = sum(X[i] for i in range(len(y)) if y[i] > labels[i]) + 0 * X[0]
        gained = sum(X[i] for i in range(len(y)) if y[i] < labels[i]) + 0 * X[0]
        if measure == "score":
            square, a = Fraction(option)**2, n - missed
            rows.append((2 * n * (1 - (1 + square) * a / (square * n + a + false)), 1, gained - lost))
        elif missed - false == max(0, n - option) and (option <= n or missed <= len(y) - option):
            rows.append((false, Fraction(1, max(missed, 1)), missed * gained - false * lost))
    return exact.Risk(X.shape[1], [(1, rows)], k)


def measures(rng, measure):
    n, d = int(rng.integers(2, 8)), int(rng.integers(1, 4))
    X, y = problems.matrix(rng, n, d), rng.integers(0, 2, n)
    if rng.random() < 0.3:
        X += 10.0 ** rng.uniform(-1, 6) * np.abs(X).max() * rng.standard_normal(d)
    y[:2] = rng.permutation(2)
    given, X = problems.stored(rng, X)
    if measure == "area":
        risk, arguments = pb.risks.ROCArea(given, y), ()
    elif measure == "precision":
        k = int(rng.integers(1, n + 1))
        risk, arguments = pb.risks.PrecisionAtK(given, y, k), (k,)
    else:
        beta, bias = float(rng.choice([1.0, 0.3, 2.0])), None if rng.random() < 0.4 else float(rng.choice([1.0, 0.1]))
        risk, arguments = pb.risks.FScore(given, y, beta, bias=bias), (beta, bias)
    return risk, measure_twin(X, y.tolist(), measure, *arguments), (*problems.FREE, "frank-wolfe")


KINDS = {"Ranking": (1, lambda rng: ranking(rng, "hinge")),
         "Ranking, squared": (1, lambda rng: ranking(rng, "squared")),
         "ROCArea": (1, lambda rng: measures(rng, "area")),
         "PrecisionAtK": (1, lambda rng: measures(rng, "precision")),
         "FScore": (1, lambda rng: measures(rng, "score"))}
