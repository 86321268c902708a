"""Random small problems of ranking for the proofs: pairs are listed, squared hinges are minimised in rationals."""

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


KINDS = {"Ranking": (1, lambda rng: ranking(rng, "hinge")),
         "Ranking, squared": (1, lambda rng: ranking(rng, "squared"))}
