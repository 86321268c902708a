"""Losses of one score: values on a grid of multipliers, planes in exact arithmetic, line search, intercept, solvers."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.workers import InTurn
from scipy.optimize import minimize_scalar

import pybundle as pb
from pybundle import prox as pp
from pybundle.core.exceptions import InputTypeError, ParameterError
from pybundle.core.protocols import planes_of
from pybundle.prox.of_norm import Square
from pybundle.risks import Absolute, EpsilonInsensitive, Huber, Pinball, SquaredHinge
from pybundle.risks.one_score import Parabola
from pybundle.solvers.block.exact_blocks import ExactBlocks
from pybundle.solvers.problem.problem import Problem

# name: (class, arguments, l(u) with u = score - target, or label times score)
LOSSES = {
    "median": (Pinball, {}, lambda u: 0.5 * np.abs(u)),
    "quantile": (Pinball, {"quantile": 0.8}, lambda u: np.maximum(-0.8 * u, 0.2 * u)),
    "absolute": (Absolute, {}, np.abs),
    "insensitive": (EpsilonInsensitive, {"epsilon": 0.3}, lambda u: np.maximum(np.abs(u) - 0.3, 0.0)),
    "huber": (Huber, {"delta": 0.7}, lambda u: np.where(np.abs(u) <= 0.7, u * u / 2, 0.7 * (np.abs(u) - 0.35))),
    "squared hinge": (SquaredHinge, {}, lambda u: np.maximum(1.0 - u, 0.0)**2 / 2),
}  # fmt: skip
every = pytest.mark.parametrize("name", LOSSES)


def data(name, n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = X @ rng.standard_normal(d) + rng.standard_normal(n)
    return X, (np.where(y > 0.0, 1.0, -1.0) if name == "squared hinge" else y)


def made(name, X, y, **given):
    Risk, arguments, _ = LOSSES[name]
    return Risk(X, y, **arguments, **given)


def errors(name, X, y, w):
    return y * (X @ w) if name == "squared hinge" else X @ w - y


@every
def test_the_loss_is_its_formula_and_the_maximum_over_multipliers(name):
    _, _, loss = LOSSES[name]
    u = np.linspace(-4.0, 4.0, 801)
    risk = made(name, *data(name))
    low, high, linear, square, flat = risk.curve
    beta = np.linspace(max(low, -6.0), high, 4001)
    h = linear * beta + square / 2 * beta**2 + flat * np.abs(beta)
    grid = (beta[:, None] * u - h[:, None]).max(axis=0)
    np.testing.assert_allclose(loss(u), grid, atol=3e-6)
    np.testing.assert_allclose(risk._losses(u), loss(u), atol=1e-14)
    assert ((risk._slopes(u[:-1]) <= risk._slopes(u[1:])).all() and (risk._slopes(u) >= low).all()
            and (risk._slopes(u) <= high).all())


@every
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_all_storages_parts_and_weights(name, fit_intercept):
    X, y = data(name)
    rng = np.random.default_rng(1)
    c = rng.random(len(y)) + 0.1
    Z = np.hstack([X, np.ones((len(X), 1))]) if fit_intercept else X
    loss = LOSSES[name][2]
    for storage, rough in [(X, 1e-12), (sp.csr_array(X), 1e-12), (X.astype(np.float32), 1e-5)]:
        risk = made(name, storage, y, n_parts=3, sample_weight=c, fit_intercept=fit_intercept)
        assert risk.dim == Z.shape[1] and (risk.free is None) != fit_intercept
        for w in (np.zeros(risk.dim), rng.standard_normal(risk.dim)):
            planes = risk.planes(w)
            each = c * loss(errors(name, Z, y, w))
            wanted = [each[rows].sum() for rows in risk.parts]
            np.testing.assert_allclose(planes.values, wanted, rtol=10 * rough, atol=rough)
            np.testing.assert_allclose(planes.offsets + planes.dot(w), wanted, rtol=10 * rough, atol=100 * rough)
            values, bound = risk.derive(precision="float64").values(w)
            assert (np.abs(values - [Fraction(each[rows].sum()) for rows in risk.parts])
                    <= bound + (1e-5 if storage is not X and rough > 1e-6 else 1e-13) * (1 + values)).all()
            scores = risk.scores(w)
            np.testing.assert_allclose(risk.planes_at(scores).values, planes.values, rtol=1e-6)


def exact_loss(risk, u):
    low, high, linear, square, flat = (Fraction(x) if np.isfinite(x) else x for x in risk.curve)
    points = [Fraction(0)] + [x for x in (low, high) if isinstance(x, Fraction)]
    if square:
        points += [(u - linear - flat) / square, (u - linear + flat) / square]
    points = [p for p in points if low <= p <= high]
    return max(p * u - linear * p - square / 2 * p * p - flat * abs(p) for p in points)


@every
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([1e-8, 1.0, 1e8]), shift=st.sampled_from([0.0, 1e6]))
def test_planes_lie_below_the_risk_in_exact_arithmetic(name, seed, size, shift):
    """Offsets are lowered by their rounding: slope errors alone, as declared, are left."""
    rng = np.random.default_rng(seed)
    X, y = data(name, 7, 2, seed)
    if name == "squared hinge":
        y[:2] = -1, 1
    else:
        y = y * size + shift
    X = X * rng.choice([1e-3, 1.0, 1e3])
    risk = made(name, X, y, sample_weight=rng.random(7))
    w, v = size * rng.standard_normal((2, 2))
    planes = planes_of(risk, w)
    slope_error = Fraction(float(planes.slope_errors[0]))
    for point in (w, v):
        true = Fraction(0)
        for x, t, c in zip(X, y, risk.sample_weight, strict=True):
            score = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x, point, strict=True))
            u = Fraction(float(t)) * score if name == "squared hinge" else score - Fraction(float(t))
            true += Fraction(float(c)) * exact_loss(risk, u)
        plane = Fraction(float(planes.offsets[0])) + sum(
            Fraction(float(a)) * Fraction(float(b)) for a, b in zip(planes.slopes[0], point, strict=True))
        assert plane <= true + slope_error * Fraction(float(np.linalg.norm(point)) * (1 + 1e-12))
        value, error = risk.values(point)
        assert abs(Fraction(float(value[0])) - true) <= Fraction(float(error[0]))


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([1e-12, 1.0, 1e6]), by_scores=st.booleans())
def test_values_bound_how_steep_planes_are(seed, size, by_scores):
    """Rounding of slopes without a bound is that of `sum_i c_i |beta_i x_i|`, which follows from the values."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((9, 2)) * 10.0 ** rng.uniform(-4, 4, 2), rng.choice([-1, 1], 9)
    y[:2] = -1, 1
    c, w = rng.random(9) * 10.0 ** rng.uniform(-3, 3), size * rng.standard_normal(2)
    risk = pb.risks.SquaredHinge(X, y, sample_weight=c, n_parts=2)
    errors = (risk.planes_at(risk.scores(w)) if by_scores else risk.planes(w)).slope_errors
    steep = c * np.abs(risk.multipliers(risk.scores(w)[:, 0])) * np.linalg.norm(X, axis=1)
    unit = 9.0 * 2.0**-53       # a sum of 4 or 5 terms and their roundings has more than that
    assert (errors >= unit * np.array([steep[rows].sum() for rows in risk.parts])).all()
    assert errors.sum() <= 100.0 * unit * (c * np.linalg.norm(X, axis=1)).sum() * (1.0 + np.abs(X @ w).max())


def test_a_risk_forgets_how_steep_earlier_planes_were():
    """Evaluations far out spoiled later runs on the same object, and resumed runs knew less than others."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 3)), rng.standard_normal(50)
    risk = pb.risks.Huber(X, y, delta=1e9)
    before = pb.minimize(risk, lam=1.0, tol=1e-9, method="lbfgs")
    risk.evaluate(np.full(3, 1e9))
    after = pb.minimize(risk, lam=1.0, tol=1e-9, method="lbfgs")
    assert (after.lower_bound, after.fun) == (before.lower_bound, before.fun) and after.success


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
def test_scaled_rows_of_float32_make_exact_models():
    """Their product with the scale was rounded to float32, and a bound above F was offered."""
    risk = pb.risks.SquaredHinge(sp.csr_array(np.array([[3.0], [5.0]], dtype=np.float32)), [-1, 1],
                                 scale=0.005907737862705977, fit_intercept=True)
    lam = 3.4440173667292003e-13
    penalty = pb.prox.L1(0.5 * lam) + pb.prox.SquaredL2(lam)
    found = [pb.minimize(one, method="newton", tol=1e-13, penalty=penalty, max_iter=50)
             for one in (risk, pb.risks.SquaredHinge(sp.csr_array(np.array([[3.0], [5.0]])), [-1, 1],
                                                     scale=risk.examples.scale, fit_intercept=True))]
    assert found[0].lower_bound <= found[1].fun and found[1].lower_bound <= found[0].fun


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", ["squared hinge", "least squares"])
def test_smooth_losses_of_columns_far_apart_are_proven(name, intercept):
    """The largest multipliers of all, or |w| times the largest row, hid the gap in rounding."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 12)) * np.geomspace(0.1, 300.0, 12) + 500.0
    scores = X @ rng.standard_normal(12)
    if name == "squared hinge":
        y = np.where(rng.random(500) < 0.1, -1, 1) * np.where(scores > 0.0, 1, -1)
        risk = pb.risks.SquaredHinge(X, y, fit_intercept=intercept)
    else:
        risk = pb.risks.Huber(X, scores + rng.standard_normal(500), delta=1e8, fit_intercept=intercept)
    assert pb.minimize(risk, lam=1e-3, tol=1e-6, max_iter=100).success


@every
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), b=st.sampled_from([0.0, 1e-3, 10.0]), tied=st.booleans())
def test_line_search(name, seed, b, tied):
    """No point of the segment is better, ties and kinks at the ends included."""
    rng = np.random.default_rng(seed)
    X, y = data(name, 20, 2, seed)
    if tied:
        X, y = np.round(X), np.where(np.round(y) == 0.0, 1.0, np.sign(y))
    risk, a = made(name, X, y, sample_weight=rng.integers(0, 3, 20) + 0.5), rng.standard_normal()
    S0, S1 = risk.scores(rng.standard_normal(2)), risk.scores(rng.standard_normal(2) * rng.choice([1e-6, 1.0, 10.0]))

    def fun(t):
        S = S0 + t * (S1 - S0)
        return a * t + b * t * t / 2 + float(risk.planes_at(S).values.sum())
    t, value = risk.line_search(S0, S1, a, b)
    assert 0.0 <= t <= 1.0 and np.isclose(a * t + b * t * t / 2 + value, fun(t), rtol=1e-12)
    best = minimize_scalar(fun, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12})
    scale = 1e-10 * (1.0 + abs(a) + b + risk.planes_at(S0).values.sum() + risk.planes_at(S1).values.sum())
    assert fun(t) <= min(fun(s) for s in (best.x, *np.linspace(0.0, 1.0, 51))) + scale


@every
@pytest.mark.parametrize("method", ["auto", "oca", "bmrm", "prox-bmrm"])
def test_every_method_that_takes_planes(name, method):
    risk = made(name, *data(name), n_parts=2)
    tol = 1e-5 if method in ("auto", "oca") else 1e-2
    result = pb.minimize(risk, lam=1.0, method=method, tol=tol)
    fine = pb.minimize(risk, lam=1.0, tol=1e-7)
    assert fine.success and result.gap <= tol and result.lower_bound <= fine.fun <= result.fun * (1 + 1e-7)


KINKED = [name for name in LOSSES if name not in ("huber", "squared hinge")]


@pytest.mark.parametrize("name", KINKED)
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array, np.float32])
def test_exact_steps_on_single_examples(name, storage):
    """"prox-bcfw" reaches the value of "oca"; what it proves holds for a fit in the other storage, too."""
    X, y = data(name, 80, 5)
    X = (X * (np.abs(X) > 0.5)).astype(np.float32)
    c = np.random.default_rng(4).integers(0, 4, 80).astype(float)
    risk = made(name, storage(X), y, sample_weight=c)
    for lam in (0.1, 10.0):
        result = pb.minimize(risk, lam=lam, method="prox-bcfw", tol=1e-8)
        other = pb.minimize(made(name, X.astype(float), y, sample_weight=c), lam=lam, method="oca", tol=1e-8)
        assert result.success and result.lower_bound <= other.fun and other.lower_bound <= result.fun
        warm = pb.minimize(risk, lam=2 * lam, method="prox-bcfw", tol=1e-8, warm_start=result)
        assert warm.success


@pytest.mark.parametrize("name", KINKED)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([1e-6, 1.0, 1e6]), passes=st.integers(1, 4))
def test_what_multipliers_of_examples_prove_holds_in_exact_arithmetic(name, seed, size, passes):
    rng = np.random.default_rng(seed)
    X, y = data(name, 9, 2, seed)
    y = y * size + rng.choice([0.0, 1e6])
    X[0] = 0.0
    risk = made(name, X, y, sample_weight=rng.random(9) + 0.01)
    core = ExactBlocks(risk, Problem(Square(1.0)))
    core.place(rng.choice([1e-3, 1.0]), 0.0, np.zeros(2))
    before = -np.inf
    for _ in range(passes):
        assert core.oracle_pass(rng.permutation(9)) >= 0.0
        plane = core.aggregate()
        offset, phi, error, offset_error = plane.offset, plane.slope, plane.slope_error, plane.offset_error
        dual = offset - phi @ phi / (2 * core._lam)
        assert dual >= before - 1e-9 * (abs(offset) + phi @ phi / core._lam)      # every step ascends
        before = dual
    for point in (core.w, size * rng.standard_normal(2)):
        true = Fraction(0)
        for x, t, c in zip(X, y, risk.sample_weight, strict=True):
            score = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x, point, strict=True))
            true += Fraction(float(c)) * exact_loss(risk, score - Fraction(float(t)))
        plane = Fraction(float(offset)) + sum(
            Fraction(float(a)) * Fraction(float(b)) for a, b in zip(phi, point, strict=True))
        allowed = Fraction(float(offset_error)) + Fraction(float(error * np.linalg.norm(point) * (1 + 1e-12)))
        assert plane <= true + allowed


@every
@pytest.mark.parametrize("penalty", [pp.L1(1.0), pp.ElasticNet(1.0, 0.5), pp.Box(-0.5, 0.5)], ids=["l1", "net", "box"])
def test_penalties_and_a_free_intercept(name, penalty):
    """Shifting all targets shifts the intercept alone, with any penalty on the other weights."""
    X, y = data(name)
    result = pb.minimize(made(name, X, y, fit_intercept=True), penalty=penalty, tol=1e-6)
    assert result.success
    if name != "squared hinge":
        shifted = pb.minimize(made(name, X, y + 3.0, fit_intercept=True), penalty=penalty, tol=1e-6)
        assert np.isclose(shifted.fun, result.fun, rtol=3e-6)
        # weights are penalised, the intercept is not
        assert result.fun <= pb.minimize(made(name, X, y), penalty=penalty, tol=1e-6).fun * (1 + 2e-6)


@every
def test_copies_fingerprints_and_workers(name):
    X, y = data(name)
    risk = made(name, X, y, n_parts=2, fit_intercept=True)
    twin = pickle.loads(pickle.dumps(risk))
    w = np.linspace(-1.0, 1.0, risk.dim)
    assert np.array_equal(twin.planes(w).slopes, risk.planes(w).slopes) and twin.fingerprint == risk.fingerprint
    other = made(name, X, -y, n_parts=2, fit_intercept=True)
    assert other.fingerprint != risk.fingerprint
    first = pb.minimize(risk, lam=1.0, tol=1e-4)
    with pytest.raises(ParameterError, match="warm_start"):
        pb.minimize(other, lam=1.0, warm_start=first)
    there = pb.minimize(made(name, X, y, n_parts=2), lam=1.0, tol=1e-5, method="oca",
                        executor=InTurn(2, pickled=True))
    here = pb.minimize(made(name, X, y, n_parts=2), lam=1.0, tol=1e-5, method="oca")
    assert there.success and np.isclose(there.fun, here.fun, rtol=2e-5)


def test_paths_with_an_intercept():
    """A grid is solved; an interval is refused, as its bounds count the intercept among the penalised weights."""
    risk = Pinball(*data("median"), fit_intercept=True)
    found = pb.path(risk, [10.0, 1.0], tol=1e-6)
    assert all(r.success and np.isclose(r.fun, pb.minimize(risk, lam=r.lam, tol=1e-6).fun, rtol=2e-6) for r in found)
    with pytest.raises(ParameterError, match="free intercept"):
        pb.path(risk, (10.0, 1.0), interval=True)


def test_a_minimum_of_zero_without_a_penalty():
    """Fewer examples than weights: every target is met, and the bound is 0 as declared."""
    X, y = data("median", 3, 5)
    result = pb.minimize(Absolute(X, y), lam=np.zeros(5))
    assert result.success and result.certified and 0.0 <= result.lower_bound <= result.fun <= 1e-9


def test_the_quantile_is_a_quantile():
    """Without features the intercept is the quantile of y; the share of errors below follows from optimality."""
    rng = np.random.default_rng(0)
    y = rng.standard_exponential(1001)
    for q in (0.1, 0.5, 0.9):
        result = pb.minimize(Pinball(np.ones((1001, 1)), y, q), lam=[0.0], tol=1e-9)
        assert result.success and np.isclose(result.x[0], np.quantile(y, q), atol=1e-3)
        assert np.isclose(result.fun, np.maximum(q * (y - np.quantile(y, q)), (q - 1) * (y - np.quantile(y, q))).sum())


@pytest.mark.parametrize(("arguments", "kind", "words"), [
    ({"quantile": 0.0}, ParameterError, "quantile"),
    ({"quantile": 1.0}, ParameterError, "quantile"),
    ({"quantile": "half"}, InputTypeError, "quantile"),
    ({"fit_intercept": 1}, InputTypeError, "fit_intercept"),
    ({"y": np.full(60, np.nan)}, ParameterError, "y must be finite"),
    ({"y": np.zeros(3)}, ParameterError, "y must be of shape"),
    ({"sample_weight": -np.ones(60)}, ParameterError, "sample_weight"),
])
def test_wrong_arguments_are_named(arguments, kind, words):
    X, y = data("median")
    with pytest.raises(kind, match=words):
        Pinball(**{"X": X, "y": y} | arguments)
    with pytest.raises(ParameterError, match="epsilon"):
        EpsilonInsensitive(X, y, epsilon=-1.0)
    with pytest.raises(ParameterError, match="delta"):
        Huber(X, y, delta=0.0)
    with pytest.raises(ParameterError, match="fit_intercept"):
        pb.minimize(Pinball(X, y, fit_intercept=True), penalty=pp.L1(1.0, groups=[0, 0, 1, 1]))
    for method in ("sgd", "bcfw", "alm"):
        with pytest.raises(ParameterError, match=f"method '{method}' needs"):
            pb.minimize(Pinball(X, y), lam=1.0, method=method)
    with pytest.raises(ParameterError, match="free weights"):
        pb.minimize(Pinball(X, y, fit_intercept=True), lam=1.0, method="bmrm")


@pytest.mark.parametrize("quantile", [[0.1, 0.5], (0.5,), np.array([0.2, 0.3]), []])
def test_several_quantiles_are_problems_of_their_own(quantile):
    with pytest.raises(ParameterError, match=r"quantile must be one number.* got \d; .*QuantileRegressor"):
        Pinball(np.ones((2, 1)), [0.0, 1.0], quantile)


class _SquaredInsensitive(Parabola):
    """`max(0, |u| - epsilon)^2 / 2`, a smooth loss that is flat about 0."""

    def __init__(self, X, y, epsilon):
        self.curve = -np.inf, np.inf, 0.0, 1.0, epsilon
        super().__init__(X, y)


@pytest.mark.parametrize("method", ["newton", "lbfgs", "oca"])
@pytest.mark.parametrize("penalty", [pb.prox.SquaredL2(1.0), pb.prox.L1(1.0)], ids=repr)
def test_a_smooth_loss_that_is_flat_about_0(method, penalty):
    """Its multipliers left out the flat piece: the bound crossed the value, and the risk was blamed."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 90))
    y = X[:, :5].sum(axis=1) + rng.standard_normal(60)
    result = pb.minimize(_SquaredInsensitive(X, y, 0.5), penalty=penalty, tol=1e-4, method=method)

    def value(w):
        return penalty.value(w) + 0.5 * float((np.maximum(np.abs(X @ w - y) - 0.5, 0.0) ** 2).sum())
    assert result.success and np.isclose(value(result.x), result.fun, rtol=1e-9)
    for scale in np.geomspace(1e-4, 1.0, 40):
        assert result.lower_bound <= value(result.x + scale * rng.standard_normal(90))


@pytest.mark.parametrize("size", [1e-310, 5e-324])
def test_targets_whose_inverse_overflows(size):
    """The weight of the centre was infinite, and w became NaN."""
    X, y = np.random.default_rng(0).standard_normal((8, 2)), np.arange(8) - 3.5
    for risk in (pb.risks.Absolute(X, size * y), pb.risks.Pinball(X, size * y, 0.3)):
        result = pb.minimize(risk, lam=1.0, max_iter=20)
        assert np.isfinite(result.x).all() and 0.0 <= result.lower_bound <= result.fun <= 33.0 * size
