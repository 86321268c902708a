"""Passes of exact block steps with many labels: those of a plain twin, in accord with W when they are interrupted."""

import signal

import numpy as np
import pytest
import scipy.sparse as sp
from reference.interrupts import interrupted_once
from reference.multiclass import features
from reference.sdm import block_steps, losses, variants

import pybundle as pb
from pybundle.solvers.block._label_dual import LabelDual

N, D, K = 700, 815, 20


def dual_of(risk):
    return LabelDual(risk.engine, risk.search_precision)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, N)
    X = 0.2 * rng.normal(size=(K, D))[y] + rng.normal(size=(N, D))
    X[5] = 0.0
    X[7] = X[8]                 # rows that correct each other most
    return X, y


def placed(risk, s=N / 10.0):
    dual = dual_of(risk)
    dual.set_point(np.random.default_rng(3).normal(size=risk.dim) * 1e-2, s)
    return dual


def order_of(n_rows, seed=4):
    """Neighbours meet again, in the same four and in the next."""
    rng = np.random.default_rng(seed)
    order = np.r_[rng.permutation(N), np.repeat(rng.integers(0, N, 50), 3), rng.integers(0, N, N)][:n_rows]
    return order.astype(np.intp)


def everything(dual):
    return [np.array(dual.alpha), np.array(dual.point()), dual.examples["vertex"].copy(),
            dual.examples["active"].copy(), dual.visits]


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", variants(N, K, bias=5.0))
@pytest.mark.parametrize("form", ["float64", "float32", "uint8", "csr"])
def test_steps_are_those_of_one_row_after_the_other(data, name, form):
    X, y = data
    if form == "uint8":
        X = np.clip(np.rint(20.0 * X + 60.0), 0, 255).astype(np.uint8)
    X = X.astype(np.float32) if form == "float32" else X
    options = variants(N, K, bias=5.0)[name] | ({"scale": 0.05} if form == "uint8" else {})
    precision = "float32" if form == "float32" else "float64"
    risk = pb.risks.MulticlassHinge(sp.csr_array(X) if form == "csr" else X, y, precision=precision, **options)
    dual, order = placed(risk), order_of(1502)
    x = features(X, options.get("scale", 1.0), options.get("bias"))
    L, c = losses(y, K, options.get("loss")), options.get("sample_weight", np.ones(N))
    beta = np.zeros((N, K))
    beta[np.arange(N), y] = c
    wanted, W, met = block_steps(x, L, c, beta, dual.point().reshape(K, -1), dual.s, order)
    tolerance = 2e-3 if form == "float32" else 1e-9
    assert dual.visit(order[:601]) + dual.visit(order[601:]) == pytest.approx(met, rel=tolerance)
    np.testing.assert_allclose(dual.alpha, wanted, atol=tolerance)
    np.testing.assert_allclose(dual.point().reshape(W.shape), W, atol=tolerance)


def rows_of(kind, n=400, d=37, n_classes=6):
    """Examples of no relation, or (nearly) the same ones, or of two kinds that disagree."""
    rng = np.random.default_rng(0)
    y, one = rng.integers(0, n_classes, n), rng.normal(size=d)
    if kind == "random":
        return 0.5 * rng.normal(size=(n_classes, d))[y] + rng.normal(size=(n, d)), y
    if kind == "near":
        return one + 0.1 * rng.normal(size=(n, d)), y
    return np.where(np.arange(n)[:, None] % 2, one, -one), y


@pytest.mark.parametrize("kind", ["random", "near", "opposite"])
@pytest.mark.parametrize("s", [1.0, 110.0, 1e4])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_every_pass_ascends_and_the_point_follows(kind, s, precision):
    X, y = rows_of(kind)
    risk = pb.risks.MulticlassHinge(X, y, precision=precision)
    dual, rng = dual_of(risk), np.random.default_rng(4)
    dual.set_point(np.zeros(risk.dim), s)
    before, unit = 0.0, 1e-12 if precision == "float64" else 1e-4
    for k in range(8):
        dual.visit(rng.permutation(len(y))[:len(y) - 100 * (k % 2)])
        plane = dual.aggregate()
        value, w = plane.offset - 0.5 * plane.slope @ plane.slope / s, -plane.slope / s
        assert value >= before - unit * abs(before)
        before = value
        np.testing.assert_allclose(dual.point(), w, atol=unit * len(y) / s * abs(X).max())
        np.testing.assert_allclose(dual.alpha.sum(axis=1), 1.0, rtol=1e-5)
        assert (np.array(dual.alpha) >= 0.0).all()
        assert (dual.examples["vertex"] == np.where(
            np.count_nonzero(dual.alpha, axis=1) == 1, dual.alpha.argmax(axis=1), -1)).all()


def test_whole_runs_have_the_same_bits(data):
    X, y = data
    X, y = np.tile(X, (3, 1)).astype(np.float32), np.tile(y, 3)
    X[:, 0] += np.random.default_rng(5).normal(size=len(X))
    results = [pb.minimize(pb.risks.MulticlassHinge(X, y), lam=20.0, tol=1e-3, n_jobs=n) for n in (1, 2, 3)]
    for result in results:
        assert result.success and result.certified
        np.testing.assert_array_equal(result.x, results[0].x)
        np.testing.assert_array_equal(result.history["lower_bound"], results[0].history["lower_bound"])


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
def test_an_interrupt_leaves_multipliers_and_point_in_accord(data):
    X, y = data
    risk = pb.risks.MulticlassHinge(X.astype(np.float32), y, precision="float64")
    dual, order = placed(risk), np.tile(order_of(1502), 400)
    start, beginning = dual.point(), np.array(dual.alpha)
    with interrupted_once(lambda: not np.array_equal(dual.alpha, beginning)):
        dual.visit(order)
    done = int(dual.visits)
    assert 0 < done < len(order)
    np.testing.assert_allclose(dual.point(), start - dual.aggregate().slope / dual.s, atol=1e-9)
    again = placed(risk)
    again.visit(order[:done])
    assert_same(everything(again), everything(dual))


def test_rows_outside_are_refused(data):
    X, y = data
    dual = dual_of(pb.risks.MulticlassHinge(X, y))
    for rows in ([0, N], [-1]):
        with pytest.raises(ValueError, match=f"order must lie in 0..{N - 1}"):
            dual.visit(np.array(rows, dtype=np.intp))
