"""Multipliers are feasible where a bound is made: bounds against exact values, in fractions."""

from fractions import Fraction

import numpy as np
import pytest

import pybundle as pb
from pybundle.qp._simplex_qp import SimplexQP
from pybundle.runtime.lower_bound import UNIT, feasible

METHODS = (("bmrm", 1), ("oca", 1), ("prox-bmrm", 1), ("bmrm", 4))


def exact_objective(X, y, lam, w, costs=None):
    """lam/2 |w|^2 + R(w) of a binary hinge without bias, a fraction."""
    w, total = [Fraction(v) for v in w.tolist()], Fraction(0)
    for x, label, c in zip(X.tolist(), y, [1.0] * len(y) if costs is None else costs, strict=True):
        score = sum(Fraction(a) * b for a, b in zip(x, w, strict=True))
        total += Fraction(c) * max(Fraction(0), 1 - (1 if label else -1) * score)
    return Fraction(lam) / 2 * sum(v * v for v in w) + total


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [14, 21, 300, 318])
def test_a_bound_of_an_ill_conditioned_master_is_below_the_minimum(seed):
    """Pairwise steps moved weight between planes without an end, and sums of 1 + 6e-13 gave bounds 5e-13 too high."""
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(2, 12)), int(rng.integers(10, 40))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-3, 3, (n, 1))
    y, lam = rng.integers(0, 2, n), float(10.0 ** rng.uniform(-4, 3))
    risk = pb.risks.BinaryHinge(X, y, n_classes=2)
    best = exact_objective(X, y, lam, pb.minimize(risk, lam=lam, method="alm", tol=1e-13, max_iter=1000).x)
    for method, n_parts in METHODS:
        result = pb.minimize(risk, lam=lam, method=method, n_parts=n_parts, tol=1e-13, max_iter=150)
        assert result.certified and Fraction(result.lower_bound) <= best


def test_a_master_ends_with_sums_that_are_one():
    """They drifted to 1 + 6e-13 in 1e5 steps; normalised once more at the end, a few roundings are left."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 5)) * 10.0 ** rng.uniform(-4, 4, (60, 1))
    for slack in (np.zeros(2, dtype=bool), np.ones(2, dtype=bool)):
        parts, x = np.repeat(np.array([0, 1], dtype=np.int32), 30), np.zeros(60)
        f = rng.standard_normal(60)
        SimplexQP().solve(A @ A.T, f, parts, slack, x, tol=1e-300, max_steps=20000, method="smo")
        for part in range(2):
            excess = sum(map(Fraction, x[parts == part].tolist())) - 1
            assert excess <= 31 * Fraction(UNIT) and (slack[part] or excess >= -31 * Fraction(UNIT))


def test_feasible_multipliers_sum_to_one():
    rng = np.random.default_rng(0)
    for _ in range(50):
        parts, slack = np.sort(rng.integers(-1, 3, 40)), rng.random(3) < 0.5
        beta = rng.random(40) * 10.0 ** rng.uniform(-12, 0, 40) * rng.integers(0, 2, 40)
        found, few = feasible(beta, parts, slack), 42 * Fraction(UNIT)
        assert (found >= 0.0).all() and not found[parts < 0].any() and found.shape == beta.shape
        for part in range(3):
            total = sum(map(Fraction, found[parts == part].tolist()))
            if beta[parts == part].any():
                assert total <= 1 + few and (slack[part] or total >= 1 - few)
            if slack[part] and beta[parts == part].sum() < 1.0:
                assert np.array_equal(found[parts == part], beta[parts == part])


@pytest.mark.filterwarnings("ignore")
def test_bounds_hold_for_parts_weights_signs_and_balls():
    """Every method, nearly to the last digit, against the best exact value that any of them found."""
    rng = np.random.default_rng(5)
    for trial in range(6):
        n, d = int(rng.integers(3, 12)), int(rng.integers(1, 5))
        X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-3, 3, (n, 1))
        y, c = rng.integers(0, 2, n), np.round(rng.random(n), 2) * rng.integers(0, 3, n)
        nonneg = rng.random(d) < 0.5 if trial % 2 else None
        radius, lam = (float(10.0 ** rng.uniform(-2, 2)), 0.0) if trial % 3 == 2 else (None, float(
            10.0 ** rng.uniform(-4, 3)))
        penalty = pb.prox.SquaredL2(lam) if radius is None else pb.prox.Ball(radius)
        if nonneg is not None:
            penalty = penalty + pb.prox.Box(np.where(nonneg, 0.0, -np.inf))
        methods = ("cutting-plane",) if radius is not None else ("bmrm", "oca", "prox-bmrm", "prox-bcfw", "auto") if (
            nonneg is not None) else ("bmrm", "oca", "prox-bmrm", "prox-bcfw", "bcfw", "alm", "frank-wolfe")
        bounds, values = [], []
        for method in methods:
            for n_parts in (1, 3):
                risk = pb.risks.BinaryHinge(X, y, n_classes=2, sample_weight=c)
                result = pb.minimize(risk, method=method, n_parts=n_parts if method != "alm" else 1,
                                     tol=1e-13, max_iter=50, penalty=penalty)
                w = result.x.copy()
                if radius is not None:         # `x` may lie outside by the rounding of its norm
                    w *= 1.0 - 1e-11
                bounds.append(result.lower_bound)
                values.append(exact_objective(X, y, lam, w, c))
        assert Fraction(max(bounds)) <= min(values)
