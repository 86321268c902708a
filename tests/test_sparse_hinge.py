"""Hinge on few sparse rows: small multipliers, rows that passes leave out, the weight of the centre."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from reference.sdm import binary_steps

import pybundle as pb
from pybundle.prox.of_norm import Square
from pybundle.solvers.block._label_dual import LabelDual
from pybundle.solvers.block.exact_blocks import ExactBlocks
from pybundle.solvers.problem.problem import Problem


def counts(n=150, d=600, seed=0, scale=1.0):
    """Word counts of n documents and a class that some of the words tell, most of the time."""
    rng = np.random.default_rng(seed)
    X = sp.csr_array(sp.random(n, d, 0.05, random_state=rng))
    X.data[:] = scale * rng.geometric(0.3, X.nnz)
    return X, np.where(X @ rng.normal(size=d) + 5.0 * scale * rng.normal(size=n) > 0.0, 1, -1)


@pytest.mark.parametrize("lam", [1.0, 1e-3, 1e-6])
def test_steps_on_multipliers_far_below_their_limit(lam):
    """Of separable rows they are as small as lam / |x_i|^2. Steps in float32 once ignored changes below 5e-7 of the
    limit c_i instead of the multiplier: on counts with lam = 0.1 the search stood still at 60 times the minimum."""
    X, y = counts()
    dual, rng = LabelDual(pb.risks.BinaryHinge(X, y).engine, "float32"), np.random.default_rng(1)
    dual.set_point(np.zeros(X.shape[1]), lam)
    order = np.concatenate([rng.permutation(len(y)) for _ in range(40)])
    dual.visit(order)
    wanted, w, _ = binary_steps(X.toarray(), y, np.ones(len(y)), np.zeros(len(y)), np.zeros(X.shape[1]), lam, order)
    np.testing.assert_allclose(dual.alpha[:, 0], wanted, atol=1e-4 * wanted.max())
    np.testing.assert_allclose(dual.point(), w, atol=1e-4 * abs(w).max())


def test_rows_that_were_left_out_are_looked_at_before_a_certificate():
    """A pass leaves out rows whose multiplier stays at a limit, which steps on others can make the wrong one: the value
    counts all rows, and the next pass visits these."""
    X, y = counts(400, 600, seed=3)
    risk, lam, rng = pb.risks.BinaryHinge(X, y), 1e-2, np.random.default_rng(0)
    core = ExactBlocks(risk, Problem(Square(1.0)))
    core.place(lam, 0.0, np.zeros(risk.dim))
    core.oracle_pass(rng.permutation(len(y)))
    core.cached_passes(rng, 0.0, 30, np.inf)
    left_out = np.setdiff1d(np.arange(len(y)), core._dual.active())
    loss = np.maximum(0.0, 1.0 - y * (X @ core.w))
    alpha = np.asarray(core._dual.alpha)[:, 0]
    wrong = left_out[(loss[left_out] > 0.2) & (alpha[left_out] == 0.0)]
    assert len(left_out) > 10 and len(wrong) > 0
    assert core.scores.mark(risk.derive(precision="float64").scores(core.w)) == pytest.approx(loss.sum(), rel=1e-9)
    assert np.isin(wrong, core._dual.active()).all()


@pytest.mark.parametrize("scale", [1.0, 0.01])
@pytest.mark.parametrize("lam", [1.0, 1e-3])
def test_bounds_hold_in_exact_arithmetic_and_agree_with_visits_of_all_rows(lam, scale):
    X, y = counts(60, 200, scale=scale)
    result = pb.minimize(pb.risks.BinaryHinge(X, y), lam=lam, tol=1e-4, method="prox-bcfw")
    order = np.tile(np.arange(len(y)), 600)
    beta, w, _ = binary_steps(X.toarray(), y, np.ones(len(y)), np.zeros(len(y)), np.zeros(X.shape[1]), lam, order)

    def F(w):
        x, w, lam_ = [[Fraction(v) for v in row] for row in X.toarray()], [Fraction(v) for v in w], Fraction(lam)
        margins = [int(t) * sum(a * b for a, b in zip(row, w, strict=True) if a) for row, t in zip(x, y, strict=True)]
        return lam_ / 2 * sum(v * v for v in w) + sum(max(Fraction(0), 1 - margin) for margin in margins)

    assert result.success
    assert Fraction(result.lower_bound) <= F(w) and Fraction(result.lower_bound) <= F(result.x)
    assert F(result.x) <= Fraction(result.fun) + Fraction(result.error)
    dual = beta.sum() - 0.5 * lam * w @ w
    assert dual * (1.0 - 1e-9) <= result.fun <= dual * (1.0 + 3e-4)


def test_few_rows_take_few_passes_whatever_columns_nobody_uses():
    X, y = counts(400, 3000, seed=2)
    wide = sp.csr_array((X.data, 5 * X.indices, X.indptr), (X.shape[0], 5 * X.shape[1]))
    risks = [pb.risks.BinaryHinge(rows, y) for rows in (X, wide)]
    one, other = [pb.minimize(risk, lam=0.01, tol=1e-3, method="prox-bcfw") for risk in risks]
    assert one.success and other.success
    assert one.n_passes <= 150.0
    assert abs(one.n_passes - other.n_passes) <= 0.3 * one.n_passes
