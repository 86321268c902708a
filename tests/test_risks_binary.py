import doctest
from decimal import Decimal, localcontext

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.multiclass import binary_planes, features

import pybundle as pb
import pybundle.risks.binary as module
from pybundle.core.exceptions import ParameterError
from pybundle.core.protocols import Oracle
from pybundle.risks import BinaryHinge, Logistic, MulticlassHinge
from pybundle.solvers.bundle.sgd import sgd_epoch


def data(n=120, d=9, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 256, (n, d)).astype(np.uint8)
    return X, np.where(np.arange(n) % 3, 1, -1), rng


@pytest.mark.parametrize("Risk", [BinaryHinge, Logistic])
@pytest.mark.parametrize("bias", [None, 1.5])
def test_all_storages_equal_the_slow_twin(Risk, bias):
    X, y, rng = data()
    weights = rng.random(len(y))
    scale = 2.0**-8
    dense = X * scale
    for storage, kw in [(dense, {}), (dense.astype(np.float32), {}), (X, {"scale": scale}),
                        (sp.csr_array(dense), {}), (X, {"scale": scale, "precision": "float64"})]:
        risk = Risk(storage, y, 4, sample_weight=weights, bias=bias, **kw)
        # the labels of the hinge are exact in float32; a logistic risk is as exact as its scores
        rough = risk.precision == "float32" and Risk is Logistic
        for w in (np.zeros(risk.dim), rng.standard_normal(risk.dim)):
            expected = binary_planes(features(storage, kw.get("scale", 1.0), bias), y, risk.parts, w,
                                     Risk is Logistic, weights)
            for got, wanted in zip(risk.planes(w)[:3], expected, strict=True):
                np.testing.assert_allclose(got, wanted, atol=1e-4 if rough else 1e-11)
            planes = risk.planes(w)
            v = rng.standard_normal(risk.dim)
            above = risk.derive(precision="float64").evaluate(v)[0]
            assert (planes.offsets + planes.dot(v) <= above + 1e-9).all()


def test_labels_zero_one_mean_minus_one_one():
    X, y, rng = data()
    w = rng.standard_normal(9) / 256
    for mine, other in zip(BinaryHinge(X, y).planes(w), BinaryHinge(X, y > 0).planes(w), strict=True):
        assert np.array_equal(mine, other)


def test_hinge_is_the_multiclass_hinge_of_two_classes():
    X, y, rng = data()
    X = X / 256
    w = rng.standard_normal(9)
    two = MulticlassHinge(X, (y > 0).astype(int), 3)
    one = BinaryHinge(X, y, 3)
    pair = np.concatenate([-w / 2, w / 2])
    np.testing.assert_allclose(one.evaluate(w)[0], two.evaluate(pair)[0], rtol=1e-12)


def test_logistic_gradient_by_finite_differences():
    X, y, rng = data()
    risk = Logistic(X / 256, y)
    w = rng.standard_normal(9)
    gradient = risk.evaluate(w)[1][0]
    for j in range(9):
        h = 1e-5 * np.eye(9)[j]
        slope = (risk.evaluate(w + h)[0][0] - risk.evaluate(w - h)[0][0]) / 2e-5
        np.testing.assert_allclose(gradient[j], slope, rtol=1e-6, atol=1e-6)


def test_logistic_at_extreme_scores():
    risk = Logistic(np.array([[1.0], [1.0]]), [1, -1])
    planes = risk.planes(np.array([800.0]))
    assert planes.values[0] == 800.0 and planes.offsets[0] == 0.0 and planes.slopes[0, 0] == 1.0
    # the offset of a sure label: naive r - r' s loses all digits to cancellation
    offset = risk.planes(np.array([40.0])).offsets[0]
    np.testing.assert_allclose(offset, 2 * 41.0 * np.exp(-40.0), rtol=1e-12)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(seed=st.integers(0, 10000), n=st.sampled_from([3, 50, 300]), smooth=st.booleans())
def test_line_search(seed, n, smooth):
    rng = np.random.default_rng(seed)
    risk = (Logistic if smooth else BinaryHinge)(rng.standard_normal((n, 2)), np.arange(n) % 2,
                                                 sample_weight=rng.random(n))
    S0, S1 = risk.scores(rng.standard_normal(2)), risk.scores(rng.standard_normal(2))
    a, b = 0.2 * n * rng.standard_normal(), n * rng.random()

    def phi(t):
        return a * t + b * t**2 / 2 + risk.planes_at(S0 + t * (S1 - S0)).values.sum()

    t, value = risk.line_search(S0, S1, a, b, 2.0)
    assert 0.0 <= t <= 2.0
    np.testing.assert_allclose(value, risk.planes_at(S0 + t * (S1 - S0)).values.sum(), atol=1e-10 * n)
    assert phi(t) <= min(phi(s) for s in np.linspace(0, 2, 101)) + 1e-10 * n


@pytest.mark.parametrize("Risk", [BinaryHinge, Logistic])
def test_sgd_epoch(Risk):
    X, y, rng = data()
    for storage in (X / 256, sp.csr_array(X / 256)):
        risk = Risk(storage, y, 2, bias=1.0)
        x = features(storage, 1.0, 1.0)
        w, expected, order = np.zeros(10), np.zeros(10), rng.permutation(120)
        _, planes = sgd_epoch(risk, w, order, 5.0, 0, 1.0)
        for step, i in enumerate(order):
            gradient = binary_planes(x[i:i + 1], y[i:i + 1], [[0]], expected, Risk is Logistic)[2][0]
            expected = expected - (5.0 * expected + 120 * gradient) / (5.0 * (1 + step))
        np.testing.assert_allclose(w, expected, rtol=1e-10, atol=1e-10)
        for v in rng.standard_normal((20, 10)):
            assert (planes.offsets + planes.dot(v) <= risk.evaluate(v)[0] + 1e-9).all()


@pytest.mark.parametrize("Risk", [BinaryHinge, Logistic])
@pytest.mark.parametrize("size", [1e-8, 1e-2, 1.0, 40.0])
def test_values_are_within_their_error(Risk, size):
    X, y, rng = data(40)
    risk = Risk(X, y, 3, scale=1 / 255, bias=2.0, sample_weight=rng.random(40))
    w = size * rng.standard_normal(10)
    values, errors = risk.values(w)
    total = Decimal(0)
    with localcontext() as context:
        context.prec = 60
        for x, label, c in zip(X, y, risk.sample_weight, strict=True):
            score = sum(Decimal(float(a)) * Decimal(1 / 255) * int(v) for a, v in zip(w, x, strict=False))
            margin = int(label) * (score + Decimal(float(w[9])) * 2)
            loss = max(Decimal(0), 1 - margin) if Risk is BinaryHinge else (1 + (-margin).exp()).ln()
            total += Decimal(float(c)) * loss
        assert abs(total - sum(Decimal(float(v)) for v in values)) <= Decimal(float(errors.sum()))
    assert errors.sum() <= 1e-13 * (1.0 + size) * 40 * 10
    np.testing.assert_allclose(values, risk.derive(precision="float64").evaluate(w)[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("y", [[0, 1, 1], [-1, 1, 1], [False, True, True], [0.0, 1.0, 1.0], [-1.0, 1.0, 1.0]])
def test_labels(y):
    np.testing.assert_array_equal(BinaryHinge(np.ones((3, 1)), y).labels, [-1, 1, 1])


def test_errors():
    for y in ([0, 1, 2], [-1, 0, 1], [-1, 0, -1], [-2, 1, 1], [3, 3, 3]):
        with pytest.raises(ParameterError, match=f"y must hold -1 and .1, or 0 and 1, got the labels .{min(y)}"):
            BinaryHinge(np.ones((3, 1)), y)
    for label in (-1, 0, 1):
        with pytest.raises(ParameterError, match=f"y must hold two classes, got only {label}"):
            Logistic(np.ones((3, 1)), [label] * 3)
    with pytest.raises(ParameterError, match="n_classes must be 2 or None, got 3"):
        Logistic(np.ones((3, 1)), [1, 0, 1], n_classes=3)


@pytest.mark.parametrize("Risk", [BinaryHinge, Logistic])
def test_one_class_on_purpose(Risk):
    X, w = np.random.default_rng(0).normal(size=(6, 2)), np.array([0.3, -0.2])
    y = np.array([1, 1, 1, -1, -1, -1])
    halves = [Risk(X[y == label], y[y == label], n_classes=2).evaluate(w) for label in (1, -1)]
    value, slope = Risk(X, y).evaluate(w)
    assert sum(half[0] for half in halves) == pytest.approx(value)
    assert sum(half[1] for half in halves) == pytest.approx(slope)


def test_doctest():
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("Risk", [BinaryHinge, Logistic])
@pytest.mark.parametrize("sparse", [False, True])
def test_oracle_agrees_with_the_pass(Risk, sparse):
    X, y, rng = data()
    X = sp.csr_array(X / 256) if sparse else X / 256
    risk = Risk(X, y, sample_weight=np.linspace(0, 1, len(y)), bias=1.5, scale=0.5)
    oracle, w = risk.oracle(), rng.standard_normal(risk.dim)
    assert isinstance(oracle, Oracle) and (oracle.n_examples, oracle.dim) == (120, 10)
    total, offset, slope = 0.0, 0.0, np.zeros(risk.dim)
    for i in range(risk.n_examples):
        decoded = oracle.solve(i, w)
        plane = oracle.plane(i, decoded.labelling)
        assert decoded.upper == decoded.value
        np.testing.assert_allclose(plane.offset + plane.slope @ w, decoded.value, atol=1e-12)
        total, offset, slope = total + decoded.value, offset + plane.offset, slope + plane.slope
    planes = risk.planes(w)
    np.testing.assert_allclose([total, offset], [planes.values[0], planes.offsets[0]], rtol=1e-12)
    np.testing.assert_allclose(slope, planes.slopes[0], atol=1e-12)


@pytest.mark.parametrize("Risk, labellings", [(BinaryHinge, [0, 1]), (Logistic, [-1e300, -3.0, 0, 0.7, 900.0])])
def test_any_labelling_gives_a_valid_plane(Risk, labellings):
    X, y, rng = data(20)
    oracle = Risk(X / 256, y).oracle()
    for i in range(20):
        for labelling in labellings:
            plane = oracle.plane(i, labelling)
            assert np.isfinite(plane.offset) and np.isfinite(plane.slope).all()
            for v in 5 * rng.standard_normal((10, 9)):
                assert plane.offset + plane.slope @ v <= oracle.solve(i, v).value + 1e-12


def test_oracle_errors():
    X, y, _ = data(20)
    hinge, logistic = BinaryHinge(X, y).oracle(), Logistic(X, y).oracle()
    with pytest.raises(ParameterError, match="labelling must be 1"):
        hinge.plane(0, 2)
    with pytest.raises(ParameterError, match="labelling must be a finite number"):
        logistic.plane(0, np.inf)
    with pytest.raises(ParameterError, match=r"i must be a number of an example 0\.\.19, got 20"):
        hinge.solve(20, np.zeros(9))


@pytest.mark.parametrize("Risk", [BinaryHinge, Logistic])
def test_sgd_tunes_its_step_on_a_binary_risk(Risk):
    X, y, _ = data()
    result = pb.minimize(Risk(X / 256, y, bias=1.0), lam=1.0, method="sgd", max_iter=5, random_state=0)
    assert result.nit >= 1 and result.lower_bound <= result.fun
