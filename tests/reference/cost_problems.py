"""Random small problems of learned costs for the proofs: sets of decisions are listed, losses are rational numbers."""

from fractions import Fraction
from zlib import crc32

import numpy as np

import pybundle as pb

from . import exact, problems


class Listed:
    """The best of a list of decisions (K, m); with `loose` > 0 any that is nearly best, and a lower bound.

    What is nearly best, by `loose` times the size of the costs, follows from the costs, and so do the bounds.
    """

    def __init__(self, decisions, loose=0.0):
        self.decisions, self.loose = decisions, loose

    def __call__(self, costs):
        found = costs @ self.decisions.T
        best = found.argmin(axis=1)
        if not self.loose:
            return self.decisions[best].copy()
        sizes, least = np.abs(costs) @ np.abs(self.decisions).max(axis=0), found.min(axis=1)
        lower = least - 1e-14 * sizes
        for i, row in enumerate(found):
            r = np.random.default_rng(crc32(costs[i].tobytes()))
            near = np.flatnonzero(row <= least[i] + self.loose * sizes[i])
            best[i], lower[i] = near[r.integers(len(near))], lower[i] - r.integers(2) * self.loose * sizes[i]
        return self.decisions[best], lower


def q_of(loss, given, distance):
    """The vectors q whose products with v - v* are losses, as fractions."""
    if loss == "spo+":
        return [[Fraction(c) for c in row] for row in given.tolist()]
    return [[(-int(v) if distance else 1 - 2 * int(v)) for v in row] for row in given]


def twin(X, decisions, truths, q, gaps, factor, weights=None, smooth=False):
    """The exact risk: a row for each decision, `<q, v - v*> + gap - factor <W x, v - v*>`."""
    (X, kx), (V, kv) = exact.lift(X), exact.lift(decisions)
    T = exact.lift(np.vstack([decisions, truths]))[0][len(decisions):]
    groups = []
    for i, c in enumerate([1] * len(X) if weights is None else weights):
        rows = []
        for v in V:
            apart = v - T[i]
            loss = sum(Fraction(b) * int(a) for a, b in zip(apart, q[i], strict=True)) / 2**kv
            rows.append((loss + Fraction(float(gaps[i])), 1, -factor * np.outer(apart, X[i]).ravel()))
        groups.append((c, rows))
    return exact.Risk(V.shape[1] * X.shape[1], groups, kx + kv, smooth)


def costs(rng, loss, loose):
    n, p, m, K = (int(rng.integers(1, most)) for most in (7, 4, 5, 7))
    X, decisions, distance = problems.matrix(rng, n, p), rng.integers(0, 2, (K, m)) * 1.0, None
    if loss == "spo+":
        given = problems.matrix(rng, n, m) if rng.random() < 0.7 else rng.integers(-3, 4, (n, m)) * 1.0
        decisions = rng.integers(-2, 4, (K, m)) / 4.0 if rng.random() < 0.3 else decisions
    else:
        given = decisions[rng.integers(0, K, n)]
        distance = None if rng.random() < 0.6 else np.negative      # <v*, v* - v>: true pieces that are left out
    by_row, solver = bool(rng.random() < 0.3), Listed(decisions, loose)

    def single(row):
        answer = solver(row[None])
        return tuple(part[0] for part in answer) if loose else answer[0]

    model = pb.models.Optimizer(single if by_row else solver, m, p, loss=loss, distance=distance, by_row=by_row)
    oracle = model.oracle(X, given)
    return problems.structured(rng, model, X, given, lambda **more: twin(
        X, decisions, oracle.truths, q_of(loss, given, distance), oracle.gaps, 2 if loss == "spo+" else 1, **more),
        False)


KINDS = {f"Optimizer, {loss}{', bounds' * (loose > 0)}": (
    1, lambda rng, loss=loss, loose=loose: costs(rng, loss, loose))
    for loss in ("spo+", "inverse") for loose in (0.0, 0.05)}
