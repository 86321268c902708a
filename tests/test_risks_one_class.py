"""The risk of the one-class SVM: planes in exact arithmetic, linear programs, scikit-learn's optimum, threshold."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.svm import OneClassSVM

import pybundle as pb
from pybundle import prox as pp
from pybundle.core.exceptions import InputTypeError, ParameterError
from pybundle.risks import OneClass


def data(n=60, d=4, seed=0, centre=1.5):
    return np.random.default_rng(seed).standard_normal((n, d)) + centre


def exact(values):
    return [Fraction(float(value)) for value in values]


def product(x, v):
    return sum((a * b for a, b in zip(exact(x), exact(v), strict=True)), Fraction(0))


def exact_risk(X, nu, c, v):
    """Minus the sum of the smallest scores up to the weight nu C, as a fraction."""
    weights = exact(c)
    left, value = Fraction(float(nu)) * sum(weights), Fraction(0)
    for score, weight in sorted((product(x, v), weight) for x, weight in zip(X, weights, strict=True)):
        value -= min(left, weight) * score
        left -= min(left, weight)
    assert left == 0
    return value


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**6), nu=st.sampled_from([1e-9, 0.1, 0.25, 0.5, 0.7, 1.0 - 1e-9, 1.0 - 2.0**-53]),
       size=st.sampled_from([1e-8, 1.0, 1e8]), kind=st.sampled_from(["any", "tied", "uneven", "far"]))
def test_planes_and_values_in_exact_arithmetic(seed, nu, size, kind):
    """No plane lies above the risk by more than its slope error, and values miss it by no more than their errors."""
    rng = np.random.default_rng(seed)
    X, c = size * data(9, 3, seed), rng.random(9)
    if kind == "tied":
        X, c = size * np.round(X), rng.integers(0, 3, 9) + (np.arange(9) == 4)
    elif kind == "uneven":
        X, c = X * 10.0 ** rng.integers(-6, 7, (9, 1)), c * 10.0 ** rng.integers(-12, 13, 9)
    elif kind == "far":
        X += 1e6 * size
    risk = OneClass(X, nu, c)
    w, v = rng.standard_normal((2, 3)) / size
    planes, error = risk.planes(w), Fraction(float(risk.slope_errors[0]))
    assert planes.offsets.tolist() == [0.0]
    assert np.linalg.norm(planes.slopes[0]) <= risk.slope_sizes[0]
    for point in (w, v, -v, np.zeros(3)):
        true, plane = exact_risk(X, nu, c, point), product(planes.slopes[0], point)
        assert plane <= true + error * Fraction(float(np.linalg.norm(point)) * (1 + 1e-12))
        found = risk.evaluate(point)[0]
        for value, bound in (risk.values(point), (found, risk.value_errors(point, found))):
            assert abs(Fraction(float(value[0])) - true) <= Fraction(float(bound[0]))
    assert product(planes.slopes[0], w) >= exact_risk(X, nu, c, w) - error * Fraction(float(np.linalg.norm(w)) * 1.01)
    # and errors are small
    assert risk.slope_errors[0] <= 1e-13 * max(risk.slope_sizes[0], c.sum() * nu * np.abs(X).max())


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.9])
def test_the_value_is_the_linear_program_and_the_minimum_over_thresholds(nu):
    rng = np.random.default_rng(3)
    X, c = np.round(data()), rng.integers(0, 4, 60).astype(float)
    risk = OneClass(X, nu, c)
    for w in (np.zeros(4), *rng.standard_normal((5, 4)), np.array([1.0, 0.0, 0.0, 0.0])):
        scores = X @ w
        program = linprog(scores, A_eq=np.ones((1, 60)), b_eq=[nu * c.sum()], bounds=np.c_[np.zeros(60), c])
        value, rho = risk.evaluate(w)[0][0], risk.threshold(w)
        assert np.isclose(value, -program.fun, rtol=1e-9, atol=1e-9)
        for r, is_best in ((rho, True), *((r, False) for r in scores)):
            other = c @ np.maximum(r - scores, 0.0) - nu * c.sum() * r
            assert np.isclose(other, value, rtol=1e-12, atol=1e-12) if is_best else other >= value - 1e-12
        assert np.isclose(risk.evaluate(3.0 * w)[0][0], 3.0 * value)


@pytest.mark.parametrize("nu, n, d", [(0.05, 400, 8), (0.2, 150, 3), (0.5, 300, 40)])
def test_the_optimum_is_that_of_scikit_learn(nu, n, d):
    X = data(n, d)
    theirs = OneClassSVM(kernel="linear", nu=nu, tol=1e-10).fit(X).coef_[0] / (nu * n)
    risk = OneClass(X, nu)
    value = 0.5 * nu * theirs @ theirs + risk.evaluate(theirs)[0][0] / n
    for method in ("auto", "oca", "bmrm", "prox-bmrm"):
        result = pb.minimize(risk, lam=nu, scale="mean", method=method, tol=1e-6)
        assert result.success and result.certified and result.gap <= 1e-6
        assert result.lower_bound <= value and abs(result.fun - value) <= 1e-6 * abs(value)
        centre, radius = result.ball
        assert np.linalg.norm(theirs - centre) <= radius + 1e-6
    summed = pb.minimize(risk, lam=nu * n, tol=1e-6)
    assert np.isclose(summed.fun, n * result.fun, rtol=2e-6)


def test_storages_and_weights():
    X, rng = np.round(8.0 * data(80)) / 8.0, np.random.default_rng(2)
    X[np.abs(X) < 0.5] = 0.0
    c = rng.integers(0, 4, 80)
    dense, repeated = OneClass(X, 0.3, c), OneClass(np.repeat(X, c, axis=0), 0.3)
    others = (OneClass(sp.csr_matrix(X), 0.3, c), OneClass(sp.csr_array(X.astype(np.float32)), 0.3, c),
              OneClass(X.astype(np.float32), 0.3, c), repeated)
    bytes_ = np.abs(8.0 * X).astype(np.uint8)
    for w in rng.standard_normal((4, 4)):
        value = dense.evaluate(w)[0][0]
        for other in others:
            assert np.isclose(other.evaluate(w)[0][0], value, rtol=1e-13)
            assert np.isclose(other.threshold(w), dense.threshold(w), rtol=1e-13)
        assert np.isclose(OneClass(bytes_, 0.3).evaluate(w)[0][0], OneClass(1.0 * bytes_, 0.3).evaluate(w)[0][0])
    results = [pb.minimize(risk, lam=1.0, tol=1e-8) for risk in (dense, *others)]
    assert all(result.success and np.isclose(result.fun, results[0].fun, rtol=1e-7) for result in results)
    wide = sp.csr_array(sp.random(30, 20_000, density=0.01, format="csr", random_state=np.random.default_rng(0)))
    value, slope = OneClass(wide, 0.2).evaluate(np.ones(20_000))
    assert sp.issparse(slope) and np.isclose((slope @ np.ones(20_000))[0], value[0])


@pytest.mark.parametrize("nu", [0.01, 0.1, 0.25, 0.5, 0.99])
@pytest.mark.parametrize("rounded", [False, True])
def test_the_threshold_splits_the_examples_at_nu(nu, rounded):
    X, rng = data(200), np.random.default_rng(1)
    for c in (np.ones(200), rng.random(200)):
        risk = OneClass(np.round(X) if rounded else X, nu, c)
        w = pb.minimize(risk, lam=1.0, tol=1e-3).x if rounded else rng.standard_normal(4)
        scores, rho = risk._scores(w), risk.threshold(w)
        assert rho in scores
        assert c[scores < rho].sum() <= nu * c.sum() * (1 + 1e-12)
        assert c[scores <= rho].sum() >= nu * c.sum() * (1 - 1e-12)


@pytest.mark.parametrize("penalty", [pp.SquaredL2(1.0), pp.ElasticNet(0.5, 1.0), pp.Box(-1.0, 1.0)])
def test_penalties_start_where_the_objective_is_zero(penalty):
    """F(0) is 0, by which the first weight of the proximal centre was divided: runs stayed at w = 0 without an end."""
    risk = OneClass(data(200), 0.2)
    result = pb.minimize(risk, penalty=penalty, tol=1e-6, max_iter=100)
    assert result.success and result.certified and result.fun < -1.0
    plain = pb.minimize(pb.risks.Function(lambda w: (risk.evaluate(w)[0][0], risk.evaluate(w)[1][0]), 4),
                        penalty=penalty, tol=1e-6, max_iter=100)
    assert plain.success and plain.lower_bound <= result.fun and result.lower_bound <= plain.fun
    if isinstance(penalty, pp.SquaredL2):
        other = pb.minimize(risk, lam=1.0, tol=1e-6)
        assert other.lower_bound <= result.fun and result.lower_bound <= other.fun


def test_a_minimum_of_zero_needs_atol():
    result = pb.minimize(OneClass(data(100, centre=0.0), 0.9), lam=1.0, atol=1e-9)
    assert result.success and result.fun == 0.0 and -1e-9 <= result.lower_bound <= 0.0


def test_evidence_threads_copies_and_data_that_change():
    X = data(9000, 3)
    risk = OneClass(X, 0.3)
    result = pb.minimize(risk, lam=100.0, tol=1e-6, evidence=True)
    assert pb.verify(result.certificate, risk).ok
    threads = pb.minimize(risk, lam=100.0, tol=1e-6, n_jobs=2)
    assert threads.fun == result.fun and (threads.x == result.x).all()
    assert pickle.loads(pickle.dumps(risk)).fingerprint == risk.fingerprint != OneClass(X, 0.31).fingerprint
    assert pb.minimize(risk, lam=50.0, tol=1e-6, warm_start=result).success
    X *= 0.5
    with pytest.raises(ParameterError, match="changed in place"):
        pb.minimize(risk, lam=50.0, warm_start=result)
    changed = pb.minimize(risk, lam=100.0, tol=1e-6)
    assert np.isclose(changed.fun, 0.25 * result.fun, rtol=2e-6)


def test_no_weight_at_all():
    result = pb.minimize(OneClass(data(5), 0.5, np.zeros(5)), lam=1.0)
    assert result.success and result.fun == result.lower_bound == 0.0


def test_refusals():
    X = data(5)
    for nu in (0.0, 1.0, -0.1, 1.5, np.nan):
        with pytest.raises(ParameterError, match="nu must be"):
            OneClass(X, nu)
    with pytest.raises(InputTypeError, match="nu"):
        OneClass(X, "half")
    broken = X.copy()
    broken[3, 1] = np.nan
    for storage in (np.asarray, sp.csr_array):
        with pytest.raises(ParameterError, match="X must be finite, got nan in row 3, column 1"):
            OneClass(storage(broken), 0.5)
    for weights in (np.ones(4), -np.ones(5), [1.0, np.inf, 1.0, 1.0, 1.0], np.full(5, 1e308)):
        with pytest.raises(ParameterError, match="sample_weight must"):
            OneClass(X, 0.5, weights)
    risk = OneClass(X, 0.5)
    with pytest.raises(ParameterError, match="w must be of shape"):
        risk.threshold(np.ones(3))
    for method in ("prox-bcfw", "alm", "lbfgs", "sgd"):
        with pytest.raises(ParameterError, match=method):
            pb.minimize(risk, lam=1.0, method=method)
    with pytest.raises(ParameterError, match="n_parts"):
        pb.minimize(risk, lam=1.0, n_parts=2)
    with pytest.raises(ParameterError, match="lower bound"):
        pb.minimize(risk, penalty=pp.L1(1.0))


@pytest.mark.parametrize("method", ["auto", "bmrm", "prox-bmrm"])
def test_a_run_ends_where_the_minimum_is_0(method):
    """A mean of centred examples is 0: nothing is to be learned, F(0) = 0 is the minimum, and the run says so."""
    X = np.random.default_rng(0).standard_normal((500, 20))
    result = pb.minimize(pb.risks.OneClass(X, 0.3), lam=0.3, scale="mean", method=method, tol=1e-6, max_iter=100)
    assert result.success and result.fun == 0.0 and -1e-10 <= result.lower_bound <= 0.0
