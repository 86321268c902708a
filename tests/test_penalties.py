"""Penalties in `minimize`: proven bounds in exact arithmetic, optima of other solvers, free weights, refusals."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.workers import InTurn
from scipy.optimize import linprog, minimize
from signs import signed

import pybundle as pb
from pybundle import prox as pp
from pybundle.core.exceptions import InputTypeError, ParameterError
from pybundle.core.plane import Plane
from pybundle.prox.of_norm import Square
from pybundle.solvers.problem.free_weights import ProvenLimits
from pybundle.solvers.problem.problem import Problem

numbers = st.one_of(st.floats(-5, 5), st.integers(-2, 2).map(float), st.floats(-1e6, 1e6), st.floats(-1e-6, 1e-6))
rates = st.one_of(st.just(0.0), st.floats(1e-8, 5), st.floats(1e3, 1e8))
bounds = st.one_of(st.just(np.inf), st.floats(0, 5), st.floats(1e3, 1e8))


@st.composite
def separable(draw, d=4):
    """Entries with and without a square, a threshold, bounds; of very different sizes."""
    def array(entries):
        return np.array(draw(st.lists(entries, min_size=d, max_size=d)))
    middle, below, above = array(numbers), array(bounds), array(bounds)
    return pp.Separable(array(rates), array(rates), array(numbers), middle - below, middle + above)


def exact_minimum(omega, phi):
    """`min_x Omega(x) + <phi, x>` in rational arithmetic; minus infinity as a float."""
    total = Fraction(omega.constant)
    for k in range(len(phi)):
        l2, l1, c, f = (Fraction(float(a[k])) for a in (omega.l2, omega.l1, omega.centre, phi))
        low, high = omega.lower[k], omega.upper[k]

        def value(x, l2=l2, l1=l1, c=c, f=f):
            return l2 / 2 * (x - c)**2 + l1 * abs(x) + f * x
        points = [Fraction(0)] + [Fraction(b) for b in (low, high) if np.isfinite(b)]
        if l2:
            points += [(l2 * c - f - l1) / l2, (l2 * c - f + l1) / l2]
        elif (high == np.inf and f + l1 < 0) or (low == -np.inf and f - l1 > 0):
            return -np.inf
        total += min(value(x) for x in points if low <= x <= high)
    return total


@settings(max_examples=100)
@given(separable(), st.lists(numbers, min_size=4, max_size=4).map(np.array), st.floats(0, 1e-3), st.integers(0, 100))
def test_the_bound_of_a_separable_penalty_holds_in_exact_arithmetic(penalty, phi, error, seed):
    """Proven least values lie below the exact minimum for every slope within the error."""
    omega = penalty.canonical(4)
    t = omega.scaling(phi, error)
    assert 0.0 <= t <= 1.0
    found = omega.least(t * phi, t * error)
    assert found > -np.inf or t < 1.0 or exact_minimum(omega, phi) == -np.inf or error > 0
    rng = np.random.default_rng(seed)
    for _ in range(3):
        d = rng.standard_normal(4)
        d *= t * error * 0.999 / np.linalg.norm(d)
        true = exact_minimum(omega, t * phi) if not error else exact_minimum(omega, t * phi + d)
        assert found == -np.inf or found <= true
    x = omega.minimiser(phi)
    if np.isfinite(x).all() and not error:      # the bound is sharp
        terms = 0.5 * omega.l2 * (x - omega.centre)**2, omega.l1 * np.abs(x), phi * x
        curved = np.where(omega.l2 > 0.0, omega.l2, np.inf)
        steep = (omega.l2 * np.abs(omega.centre) + np.abs(phi) + omega.l1)**2 / curved
        allowed = 1e-13 * sum(np.abs(a).sum() for a in terms) + 1e-30 * steep.sum() + 1e-299
        assert found >= exact_minimum(omega, phi) - Fraction(allowed) - abs(Fraction(omega.constant)) / 10**15


PENALTIES = {
    "square of each": lambda d: pp.SquaredL2(np.linspace(0.5, 4.0, d), centre=np.linspace(-0.2, 0.2, d)),
    "l1": lambda d: pp.L1(1.5),
    "weighted l1": lambda d: pp.L1(np.linspace(0.5, 3.0, d)),
    "elastic net": lambda d: pp.ElasticNet(1.0, 0.7),
    "box": lambda d: pp.Box(-0.15, 0.2),
    "l1 and signs": lambda d: pp.L1(1.0) + pp.Box(0.0),
    "group lasso": lambda d: pp.L1(1.5, groups=np.arange(d) % 3),
    "group lasso and square": lambda d: pp.L1(1.0, groups=np.arange(d) % 3) + pp.SquaredL2(0.5),
    "group elastic net": lambda d: pp.ElasticNet(1.0, 0.5, groups=np.arange(d) % 3),
    "sparse group lasso": lambda d: pp.SparseGroupLasso(np.arange(d) % 3, 0.7, 0.8),
    "squared l1": lambda d: pp.SquaredL1(1.0),
    "squared l2,1": lambda d: pp.SquaredL1(1.0, groups=np.arange(d) % 3),
    "l2": lambda d: pp.L2(3.0),
    "tree": lambda d: pp.TreeGroupLasso([[0], list(range(d))], [0.5, 2.0]),
    "l1.5": lambda d: pp.Lq(1.5, 1.0),
    "squared l1.5": lambda d: pp.SquaredLq(1.5, 1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", PENALTIES)
@settings(max_examples=25)
@given(data=st.data())
def test_the_bound_lies_below_every_value(name, data):
    """`Problem.lower_bound <= Omega(w) + offset + <phi + d, w>` for every w, near the minimum above all."""
    d = 6
    phi = np.array(data.draw(st.lists(numbers, min_size=d, max_size=d)))
    error = data.draw(st.sampled_from([0.0, 1e-9, 1e-3]))
    factor = data.draw(st.sampled_from([1.0, 7.0]))
    objective = Problem(PENALTIES[name](d).canonical(d), -2.0, factor)
    bound = objective.lower_bound(Plane(3.0, phi, error))
    assert bound > -np.inf
    weights = [1e-9, 1e-3, 1.0] if objective.modulus is None else [0.0]
    points = [np.zeros(d)] + [objective.minimiser(phi * t, weight, 0.0) for weight in weights for t in (0.999, 1.0)]
    for w in points:
        risk = max(3.0 + phi @ w - error * np.linalg.norm(w), -2.0)
        value = objective.value(w) + risk
        assert bound <= value + 1e-12 * (5.0 + abs(risk) + np.abs(phi * w).sum() + objective.value(w))


def chains(n=8):
    rng = np.random.default_rng(3)
    y = [rng.integers(0, 2, 5) for _ in range(n)]
    return [np.eye(3)[labels + rng.integers(0, 2, 5)] for labels in y], y


def flat(n=40, d=3, k=3):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n, d))
    return X, np.argmax(X @ rng.standard_normal((d, k)) + rng.standard_normal((n, k)), axis=1)


def structured(loss):
    X, y = chains()
    return pb.risks.Structured(pb.models.Chain(2, 3), X, y, loss=loss)


def plain():
    risk = pb.risks.MulticlassHinge(*flat())
    return pb.risks.Function(lambda w: (float(risk.planes(w).values.sum()),
                                        np.asarray(risk.planes(w).slopes.sum(axis=0)).ravel()), risk.dim,
                             lower_bounds=[0.0])


RISKS = {
    "sparse hinge": lambda: pb.risks.MulticlassHinge(sp.csr_array(flat()[0]), flat()[1]),
    "log-loss": lambda: pb.risks.Structured(pb.models.Multiclass(3, 3), *flat(), loss="logistic"),
    "chain hinge": lambda: structured("hinge"),
    "chain log-loss": lambda: structured("logistic"),
    "callable": plain,
}  # fmt: skip


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("name", PENALTIES)
def test_every_penalty_reaches_its_tolerance_with_every_risk(name, risk):
    """The gap is `tol`, the value is that of the formula, and no point that another solver finds is below the bound."""
    # masters of a smooth risk are ill-conditioned near the minimum: their last digits take most of the time
    tol = 1e-3 if "log-loss" in risk else 1e-4
    risk = RISKS[risk]()
    omega = PENALTIES[name](risk.dim)
    result = pb.minimize(risk, penalty=omega, tol=tol)
    assert result.success and result.gap <= tol

    def fun(w):
        planes = risk.planes(w)
        return omega.value(w) + float(planes.values.sum()), planes
    assert np.isclose(fun(result.x)[0], result.fun, rtol=1e-12)
    rng = np.random.default_rng(0)
    for size in (1e-1, 1e-3, 1e-5):
        for _ in range(3):
            near = result.x + size * rng.standard_normal(risk.dim)
            near = omega.prox(near, size**2)
            assert result.lower_bound <= fun(near)[0]
    w, step = result.x.copy(), 1e-3          # proximal subgradient steps find nothing below
    for k in range(15):
        slope = np.asarray(fun(w)[1].slopes.sum(axis=0)).ravel()
        w = omega.prox(w - step / (k + 1) * slope, step / (k + 1))
        assert result.lower_bound <= fun(w)[0]


def hinge_data(n=25, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.5
    return X, np.where(X @ rng.standard_normal(d) + 0.7 * rng.standard_normal(n) > 0.3, 1.0, -1.0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("free", [False, True])
def test_l1_and_boxes_are_linear_programs(seed, free):
    """Equal to HiGHS to 1e-6, with and without a free intercept."""
    X, y = hinge_data(seed=seed)
    X = np.hstack([X, np.ones((len(X), 1))])
    n, d = X.shape
    rate, upper = np.linspace(0.5, 2.0, d), np.full(d, 0.8)
    if free:
        rate[-1], upper[-1] = 0.0, np.inf
    result = pb.minimize(pb.risks.BinaryHinge(X, y), penalty=pp.L1(rate) + pp.Box(-upper, upper), tol=1e-7)
    # w = p - m; minimise rate (p + m) + sum xi with xi >= 1 - y X (p - m)
    Z = y[:, None] * X
    found = linprog(np.r_[rate, rate, np.ones(n)], A_ub=np.hstack([-Z, Z, -np.eye(n)]), b_ub=-np.ones(n),
                    bounds=[(0, u if np.isfinite(u) else None) for u in np.r_[upper, upper]] + [(0, None)] * n)
    assert result.success and abs(result.fun - found.fun) <= 1e-6 * found.fun
    assert result.lower_bound <= found.fun * (1 + 1e-9) and (np.abs(result.x) <= upper).all()


@pytest.mark.parametrize("seed", range(5))
def test_squares_with_a_free_intercept_and_a_prior(seed):
    """Equal to SLSQP on the quadratic program with slack variables."""
    X, y = hinge_data(seed=seed)
    X = np.hstack([X, np.ones((len(X), 1))])
    n, d = X.shape
    rate, centre = np.r_[np.linspace(0.5, 2.0, d - 1), 0.0], np.linspace(-1.0, 1.0, d)
    result = pb.minimize(pb.risks.BinaryHinge(X, y), penalty=pp.SquaredL2(rate, centre=centre), tol=1e-8)
    Z = np.hstack([y[:, None] * X, np.eye(n)])
    found = minimize(lambda v: 0.5 * rate @ (v[:d] - centre)**2 + v[d:].sum(), np.r_[np.zeros(d), np.ones(n)],
                     jac=lambda v: np.r_[rate * (v[:d] - centre), np.ones(n)], method="SLSQP",
                     bounds=[(None, None)] * d + [(0, None)] * n, options={"ftol": 1e-14, "maxiter": 500},
                     constraints={"type": "ineq", "fun": lambda v: Z @ v - 1.0, "jac": lambda v: Z})
    assert result.success and abs(result.fun - found.fun) <= 1e-6 * abs(found.fun)
    assert result.lower_bound <= found.fun * (1 + 1e-7)


def test_one_lam_for_each_weight_is_the_square_of_each():
    risk = pb.risks.MulticlassHinge(*flat())
    lam = np.linspace(0.5, 3.0, risk.dim)
    one, other = pb.minimize(risk, lam=lam, tol=1e-7), pb.minimize(risk, penalty=pp.SquaredL2(lam), tol=1e-7)
    assert one.fun == other.fun and one.success
    equal = pb.minimize(risk, lam=np.full(risk.dim, 2.0), tol=1e-7)
    assert np.isclose(equal.fun, pb.minimize(risk, lam=2.0, tol=1e-7).fun, rtol=2e-7)


def test_a_prox_of_one_sweep_is_refused_unless_groups_are_a_tree():
    risk, crossing, tree = pb.risks.BinaryHinge(*hinge_data()), [[0, 1], [1, 2], [2, 3]], [[0, 1, 2, 3], [0, 1]]
    for penalty in (pp.OverlappingGroupLasso(crossing), pp.OverlappingGroupLasso(crossing) + pp.SquaredL2(1.0)):
        with pytest.raises(ParameterError, match="penalty must have an exact prox, got OverlappingGroupLasso"):
            pb.minimize(risk, penalty=penalty)
    assert pb.minimize(risk, penalty=pp.OverlappingGroupLasso(tree), tol=1e-5).success
    with pytest.warns(pb.ConvergenceWarning):           # masters with so many sweeps take seconds
        result = pb.minimize(risk, penalty=pp.OverlappingGroupLasso(crossing, sweeps=1000), max_iter=1)
    assert result.certified and result.lower_bound <= result.fun


def test_equal_lam_are_one_number():
    risk = pb.risks.BinaryHinge(*hinge_data())
    one, many = pb.minimize(risk, lam=2.0, tol=1e-6), pb.minimize(risk, lam=np.full(4, 2.0), tol=1e-6)
    assert many.message == one.message and np.array_equal(many.x, one.x) and many.certificate is not None


def test_signs_are_a_box():
    """The same problem, written as nonneg or as a penalty, is the same run, with every method."""
    risk, signs = pb.risks.BinaryHinge(*hinge_data()), np.array([True, False, True, True])
    box = pp.Box(np.where(signs, 0.0, -np.inf))
    for method in ("auto", "bcfw", "bmrm"):
        one = pb.minimize(risk, penalty=signed(2.0, signs), method=method, tol=1e-3)
        for penalty in (pp.SquaredL2(2.0) + box, pp.Separable(l2=np.full(4, 2.0), lower=box.lower)):
            other = pb.minimize(risk, penalty=penalty, method=method, tol=1e-3)
            assert other.message == one.message and np.array_equal(other.x, one.x) and one.x[signs].min() >= 0.0


def test_the_mean_scale_and_signs_of_the_risk():
    risk = pb.risks.MulticlassHinge(*flat())
    n, omega = risk.n_examples, pp.ElasticNet(0.05, 0.02)
    mean = pb.minimize(risk, penalty=omega, tol=1e-7, scale="mean")
    total = pb.minimize(risk, penalty=pp.ElasticNet(0.05 * n, 0.02 * n), tol=1e-7)
    assert np.isclose(mean.fun * n, total.fun, rtol=3e-7) and mean.success
    nonneg = np.arange(risk.dim) % 2 == 0
    result = pb.minimize(risk, penalty=omega + pb.prox.Box(np.where(nonneg, 0.0, -np.inf)), tol=1e-6)
    assert result.success and (result.x[nonneg] >= 0.0).all() and (result.x < 0.0).any()


def test_planes_of_another_penalty_are_kept():
    risk = pb.risks.MulticlassHinge(*flat())
    first = pb.minimize(risk, penalty=pp.L1(1.0), tol=1e-6)
    warm = pb.minimize(risk, penalty=pp.L1(0.9), tol=1e-6, warm_start=first)
    cold = pb.minimize(risk, penalty=pp.L1(0.9), tol=1e-6)
    assert warm.success and warm.n_passes < cold.n_passes and np.isclose(warm.fun, cold.fun, rtol=2e-6)
    square = pb.minimize(risk, lam=1.0, tol=1e-6, warm_start=first, method="oca")
    assert square.success


@pytest.mark.parametrize("reuse", ["planes", "solution"])
def test_a_path_over_penalties(reuse):
    """In their order, each certified, equal to single runs; what one run has proven of R helps the next."""
    risk = pb.risks.MulticlassHinge(*flat())
    penalties = [pp.L1(3.0), pp.L1(0.5) + pp.Box(-1.0, 1.0), pp.ElasticNet(1.0, 0.1)]
    results = pb.path(risk, penalties, reuse=reuse, tol=1e-6)
    assert [result.penalty for result in results] == penalties and "lam" not in results[0]
    assert [result.state is None for result in results] == [True, True, False]
    for penalty, result in zip(penalties, results, strict=True):
        cold = pb.minimize(risk, penalty=penalty, tol=1e-6)
        assert result.success and np.isclose(result.fun, cold.fun, rtol=2e-6)
        assert max(result.lower_bound, cold.lower_bound) <= min(result.fun, cold.fun) * (1.0 + 1e-12)
    same = pb.path(risk, [pp.L1(1.0), pp.L1(1.0)], tol=1e-6)
    assert same[1].n_passes <= 2.0 < same[0].n_passes


def test_a_path_over_penalties_with_a_free_intercept():
    X, y = hinge_data()
    risk = pb.risks.BinaryHinge(X, y, fit_intercept=True)
    for result in pb.path(risk, [pp.L1(2.0), pp.L1(1.0)], tol=1e-6):
        cold = pb.minimize(risk, penalty=result.penalty, tol=1e-6)
        assert result.success and np.isclose(result.fun, cold.fun, rtol=2e-6)


def test_paths_refuse_by_name_what_they_do_not_take():
    risk = pb.risks.BinaryHinge(*hinge_data())
    with pytest.raises(ParameterError, match="interval=True, got penalties"):
        pb.path(risk, [pp.L1(1.0), pp.L1(0.1)], interval=True)
    with pytest.raises(ParameterError, match="penalty is no argument of path"):
        pb.path(risk, [1.0], penalty=pp.L1(1.0))
    with pytest.raises(InputTypeError, match="lams must be"):
        pb.path(risk, [1.0, pp.L1(1.0)])


def test_lam_0_in_a_box():
    """Without any penalty the box alone bounds the minimum."""
    X, y = hinge_data()
    result = pb.minimize(pb.risks.BinaryHinge(X, y), penalty=pp.Box(-10.0, 10.0), tol=1e-6)
    assert result.success and (np.abs(result.x) <= 10.0).all()
    free = pb.minimize(pb.risks.BinaryHinge(X, y), lam=np.zeros(X.shape[1]), tol=1e-6)
    assert free.success and np.isclose(free.fun, result.fun, rtol=2e-6)


def test_two_free_weights_of_different_sizes():
    X, y = hinge_data(60)
    X = np.hstack([X, np.ones((60, 1)), np.r_[np.zeros(30), np.full(30, 1e3)][:, None]])
    lam = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    result = pb.minimize(pb.risks.BinaryHinge(X, y), lam=lam, tol=1e-6)
    assert result.success
    small = pb.minimize(pb.risks.BinaryHinge(X / [1, 1, 1, 1, 1, 1e3], y), lam=lam, tol=1e-6)
    assert np.isclose(small.fun, result.fun, rtol=2e-6)


def test_a_risk_without_a_minimum_is_not_certified():
    """One class only: the intercept grows without end, and the infimum is no minimum; the bound stays below it."""
    X = np.hstack([hinge_data()[0], np.ones((25, 1))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        risk = pb.risks.Logistic(X, np.ones(25), n_classes=2)
        result = pb.minimize(risk, lam=[1.0, 1, 1, 1, 0], tol=1e-6, max_iter=60)
    assert result.lower_bound <= 0.0 + 1e-12 and result.fun >= 0.0


@pytest.mark.parametrize(("arguments", "words"), [
    ({"penalty": pp.L1(1.0), "lam": 1.0}, "exactly one"),
    ({}, "exactly one"),
    ({"penalty": 3.0}, "penalty must be"),
    ({"penalty": pp.L1(1.0), "method": "bcfw"}, "method 'bcfw'"),
    ({"penalty": pp.L1(1.0), "method": "oca line_search=True"}, "line_search"),
    ({"penalty": pp.Lq(1.5), "evidence": True}, "evidence"),
    ({"penalty": pp.L1([1.0, 2.0])}, "rate must"),
    ({"lam": [1.0, 2.0]}, "lam must"),
    ({"lam": -np.ones(9)}, "lam must"),
])
def test_wrong_arguments_are_named(arguments, words):
    with pytest.raises((ParameterError, InputTypeError), match=words):
        pb.minimize(pb.risks.MulticlassHinge(*flat()), **arguments)


@pytest.mark.parametrize(("penalty", "kind"), [
    (pp.Lq(1.5), "Lq"), (pp.Lq(1.5) + pp.SquaredL2(1.0), "Lq"), (pp.SquaredLq(1.5), "SquaredLq"), (pp.L2(1.0), "L2"),
    (pp.L1(1.0, [0, 0, 1]), "L1 with groups"), (pp.ElasticNet(1.0, 1.0, [0, 0, 1]), "L1 with groups"),
    (pp.SparseGroupLasso([0, 0, 1]), "SparseGroupLasso with groups")])
@pytest.mark.parametrize("method", ["lbfgs", "newton", "prox-bcfw"])
def test_refusals_of_penalties_name_what_is_taken_and_what_came(penalty, kind, method):
    """`Lq` was refused as "norms of groups" where sums over entries were asked for: it is one, and had no groups."""
    risk = pb.risks.Logistic(np.eye(4)[:, :3], [0, 1, 1, 0], n_classes=2)
    with pytest.raises(ParameterError, match=rf"takes L1, .* without groups, and their sums, .* got {kind}; use"):
        pb.minimize(risk, penalty=penalty, method=method)
    risk = pb.risks.BinaryHinge(np.eye(4)[:, :3], [1, -1, -1, 1], fit_intercept=True)
    with pytest.raises(ParameterError, match=r"penalty must be L1, .* without groups, or a sum of these, .* got "):
        pb.minimize(risk, penalty=penalty)


def test_what_has_no_certificate_is_refused_before_any_pass():
    calls = []

    def fun(w):
        calls.append(w)
        return float(np.abs(w - 1.0).sum()), np.sign(w - 1.0)
    with pytest.raises(ParameterError, match="lower_bounds"):
        pb.minimize(pb.risks.Function(fun, 3), penalty=pp.L1(1.0))
    assert not calls
    assert pb.minimize(pb.risks.Function(fun, 3), penalty=pp.Box(-2.0, 2.0), tol=1e-6).success
    with pytest.raises(ParameterError, match="lower must be at most upper"):
        pp.Box(1.0, 0.0)
    with pytest.raises(ParameterError, match=r"got 1 > 0\.5 at index 1"):     # NumPy's error, from the message
        pp.Box(1.0, [2.0, 0.5, 3.0])
    with pytest.raises(ParameterError, match="SparseGroupLasso"):
        pp.L1(1.0, groups=[0, 0, 1]) + pp.L1(1.0, groups=[0, 1, 1])
    with pytest.raises(ParameterError, match="lower must be at most upper"):
        (pp.Box(1.0, 2.0) + pp.Box(-1.0, 0.0)).value([0.0])


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_a_free_intercept_is_no_worse_than_that_of_scikit_learn(C, shift):
    """Objectives of SVC(kernel="linear") and LogisticRegression, whose intercepts are free, and columns far from 0."""
    svm, linear = pytest.importorskip("sklearn.svm"), pytest.importorskip("sklearn.linear_model")
    X, y = hinge_data(150)
    X = X + shift
    risks = {"hinge": (pb.risks.BinaryHinge, svm.SVC(kernel="linear", C=C, tol=1e-8), lambda m: np.maximum(1 - m, 0.0)),
             "log": (pb.risks.Logistic, linear.LogisticRegression(C=C, tol=1e-10, max_iter=100_000),
                     lambda m: np.logaddexp(0.0, -m))}
    for Risk, other, loss in risks.values():
        other.fit(X - shift, y)
        w = other.coef_[0]
        theirs = w @ w / (2 * C) + loss(y * ((X - shift) @ w + other.intercept_[0])).sum()
        ours = pb.minimize(Risk(X, y, fit_intercept=True), lam=1.0 / C, tol=1e-6)
        assert ours.success and ours.fun <= theirs * (1 + 1e-6) and ours.lower_bound <= theirs * (1 + 1e-9)
        w = ours.x[:-1]
        assert np.isclose(w @ w / (2 * C) + loss(y * (X @ w + ours.x[-1])).sum(), ours.fun, rtol=1e-10)
        centred = pb.minimize(Risk(X - shift, y, fit_intercept=True), lam=1.0 / C, tol=1e-6)
        assert ours.n_passes <= 2 * centred.n_passes
    with pytest.raises(ParameterError, match="bias must be None"):
        pb.risks.BinaryHinge(X, y, bias=1.0, fit_intercept=True)


def shifted_risks(X, y):
    return [pb.risks.BinaryHinge(X, y, fit_intercept=True), pb.risks.Logistic(X, y, fit_intercept=True),
            pb.risks.Pinball(X, y, 0.8, fit_intercept=True)]


@pytest.mark.parametrize(("n", "d", "tol"), [(400, 10, 1e-6), (4000, 50, 1e-4)])
def test_columns_far_from_0_cost_at_most_twice_the_passes(n, d, tol):
    """Errors of slopes times the limit of the intercept stay below the tolerance: the limit is proven from near."""
    X, y = hinge_data(n, d)
    for here, there in zip(shifted_risks(X, y), shifted_risks(X + 1e4, y), strict=True):
        centred, far = pb.minimize(here, lam=1.0, tol=tol), pb.minimize(there, lam=1.0, tol=tol)
        assert far.success and far.certified and far.n_passes <= 2 * centred.n_passes
        assert far.lower_bound <= centred.fun * (1 + 1e-8) and centred.lower_bound <= far.fun * (1 + 1e-8)


def test_limits_of_free_weights_only_become_tighter():
    """Earlier limits hold at a lower level, too."""
    X, y = hinge_data(400, 10)
    limits, levels = [], []
    old = ProvenLimits.confine

    def confine(self, *arguments):
        old(self, *arguments)
        limits.append(self.penalty.upper[-1])
        levels.append(self.level)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProvenLimits, "confine", confine)
        lam = np.where(np.arange(X.shape[1]) < 1, 0.0, 0.1)
        pb.minimize(pb.risks.BinaryHinge(X + 100.0, y, fit_intercept=True), lam=lam, tol=1e-7, method="oca")
    assert len(limits) > 1 and (np.diff(limits) <= 0.0).all() and (np.diff(levels) <= 0.0).all()


@pytest.mark.parametrize("shift", [1e4, 1e6])
@pytest.mark.parametrize("seed", range(10))
def test_errors_of_slopes_and_values_hold_in_exact_arithmetic_far_from_0(shift, seed):
    """The slope, also by the coordinates in which it enters a bound, and the value, of rows added in fractions."""
    rng = np.random.default_rng(seed)
    X, y = hinge_data(30, 3, seed)
    X = X + shift * rng.choice([-1.0, 1.0], 3)
    c = rng.random(30)
    F = np.vectorize(Fraction, otypes=[object])
    for risk in (pb.risks.BinaryHinge(X, y, sample_weight=c, fit_intercept=True),
                 pb.risks.Pinball(X, y, 0.8, sample_weight=c, fit_intercept=True)):
        w = rng.standard_normal(4)
        w[-1] = float(rng.standard_normal() - risk.means @ w)
        Z, m = F(np.hstack([X, np.ones((30, 1))])), F(risk.means)
        u = Z @ F(w)
        if isinstance(risk, pb.risks.BinaryHinge):
            beta, losses = -F(y) * (F(y) * u < 1), [max(Fraction(0), 1 - t * s) for t, s in zip(F(y), u, strict=True)]
        else:
            beta = np.where(u > F(y), Fraction(1.0 - 0.8), Fraction(-0.8))
            losses = beta * (u - F(y))
        slope, found = (F(c) * beta) @ Z, F(risk.planes(w).slopes[0])
        for error in (found - slope, found - slope - m * (found - slope)[-1]):
            assert float(error @ error) ** 0.5 <= risk.slope_errors[0]
        value, allowed = risk.values(w)
        assert abs(Fraction(float(value[0])) - sum(F(c) * losses)) <= Fraction(float(allowed[0]))


def test_an_intercept_is_free_where_workers_hold_the_parts():
    X, y = hinge_data(60)
    here = pb.minimize(pb.risks.BinaryHinge(X, y, n_parts=4, fit_intercept=True), lam=1.0, tol=1e-6)
    workers = InTurn(2, pickled=True)
    there = pb.minimize(pb.risks.BinaryHinge(X, y, n_parts=4, fit_intercept=True), lam=1.0, tol=1e-6, executor=workers)
    risk = workers.place(pb.risks.BinaryHinge(X, y, n_parts=4, fit_intercept=True))
    assert np.array_equal(risk.free, np.arange(5) == 4)
    np.testing.assert_allclose(risk.means, np.append(X.mean(axis=0), 0.0))
    assert there.success and np.isclose(here.fun, there.fun, rtol=2e-6)


def test_results_have_no_certificate_to_save_if_nobody_could_verify_it():
    risk = pb.risks.MulticlassHinge(*flat())
    result = pb.minimize(risk, penalty=pp.SquaredL1(1.0))
    assert result.certified and result.certificate is None
    without = pb.minimize(risk, penalty=pp.L1(1.0), method="oca").certificate
    assert without.evidence is None and not pb.verify(without, risk).ok


@pytest.mark.parametrize("shift", [10.0, 100.0])
def test_limits_hold_for_an_intercept_at_the_column_means_beside_other_free_weights(shift):
    """Cuts were on the intercept at 0, their limits on that at the means: bounds lay above F, some of them certified.

    Two free weights and an intercept, targets 1e4 x: F of a better point, by a linear program, in fractions.
    """
    for seed in (2, 8, 21):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((40, 2)) + shift
        y = 1e4 * X[:, 0] + rng.standard_normal(40)
        found = pb.minimize(pb.risks.Pinball(X, y, 0.5, fit_intercept=True), lam=np.zeros(2), tol=1e-4, max_iter=100)
        Z = np.c_[X - shift, np.ones(40)]
        v = linprog(np.r_[np.zeros(3), np.full(80, 0.5)], A_eq=np.c_[Z, np.eye(40), -np.eye(40)],
                    b_eq=y - 1e4 * X[:, 0], bounds=[(None, None)] * 3 + [(0, None)] * 80).x[:3]
        w = [Fraction(x) for x in (1e4 + v[0], v[1], v[2] - shift * (v[0] + v[1]))]
        value = sum(abs(Fraction(t) - sum(a * Fraction(b) for a, b in zip(w, (*x, 1.0), strict=True))) / 2
                    for x, t in zip(X.tolist(), y.tolist(), strict=True))
        assert found.lower_bound <= value


def test_free_weights_with_a_bound_on_one_side():
    """Bounds that do not hold 0, and an intercept that must not be negative, at columns far from 0."""
    X, y = hinge_data(60)
    for low in (0.5, -3.0):
        result = pb.minimize(pb.risks.BinaryHinge(X, y), penalty=pp.Box(lower=low), tol=1e-6)
        both = pb.minimize(pb.risks.BinaryHinge(X, y), penalty=pp.Box(low, 1e3), tol=1e-6)
        assert result.success and (result.x >= low).all() and np.isclose(result.fun, both.fun, rtol=2e-6)
    X = X + 5.0
    signs = np.arange(5) == 4
    risk = pb.risks.BinaryHinge(X, y, fit_intercept=True)
    risk.nonneg = signs
    result = pb.minimize(risk, lam=1.0, tol=1e-6)
    Z = np.hstack([X, np.ones((60, 1))])
    other = pb.minimize(pb.risks.BinaryHinge(Z, y), penalty=signed([1.0, 1, 1, 1, 0], signs), tol=1e-6)
    free = pb.minimize(pb.risks.BinaryHinge(X, y, fit_intercept=True), lam=1.0, tol=1e-6)
    assert free.x[4] < 0.0 <= result.x[4] and result.success and np.isclose(result.fun, other.fun, rtol=2e-6)


@pytest.mark.parametrize("seed", range(10))
def test_no_point_outside_of_the_bounds_is_evaluated(seed):
    """Points in search of limits of free weights stay within bounds on one side, which count among the cuts."""
    rng = np.random.default_rng([21, seed])
    X = rng.standard_normal((40, 4))
    y = X @ np.abs(rng.standard_normal(4)) + 0.5 * rng.standard_normal(40)
    low = np.where(rng.random(4) < 0.7, 0.0, -np.inf)
    high = np.where((low < 0.0) & (rng.random(4) < 0.5), 1.0, np.inf)

    def fun(w):
        assert (low <= w).all() and (w <= high).all()
        return np.abs(X @ w - y).sum(), X.T @ np.sign(X @ w - y)
    result = pb.minimize(pb.risks.Function(fun, 4, lower_bounds=[0.0]), penalty=pp.Box(low, high), tol=1e-6)
    best = linprog(np.r_[np.zeros(4), np.ones(40)], A_ub=np.block([[X, -np.eye(40)], [-X, -np.eye(40)]]),
                   b_ub=np.r_[y, -y], bounds=[*zip(low, high, strict=True), *[(None, None)] * 40])
    assert result.success and result.lower_bound <= best.fun * (1.0 + 1e-9) and result.fun >= best.fun * (1.0 - 1e-9)


def test_a_group_elastic_net_without_its_square_is_the_group_lasso():
    risk, groups = pb.risks.MulticlassHinge(*flat()), np.arange(9) % 3
    net, lasso = (pb.minimize(risk, penalty=omega, tol=1e-4) for omega in (
        pp.ElasticNet(1.0, 0.0, groups=groups), pp.L1(1.0, groups=groups)))
    assert net.success and np.isclose(net.fun, lasso.fun, rtol=2e-4)
    assert pb.minimize(risk, penalty=pp.L1(1.0, groups=groups) + pp.SquaredL2(0.0), tol=1e-4).success


@pytest.mark.parametrize("l2", [1e-6, 1e-12, 1e-24])
def test_a_tiny_square_beside_an_l1_norm_costs_no_proof(l2):
    """A square too small to keep the master in place is treated as none."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    t = X @ rng.standard_normal(3) + rng.standard_normal(40)
    risk = pb.risks.Logistic(X, np.sign(t))
    result = pb.minimize(risk, penalty=pp.ElasticNet(1.0, l2), method="lbfgs", tol=1e-4, max_iter=100)
    assert result.success and result.lower_bound <= result.fun <= (1 + 1e-4) * result.lower_bound


@pytest.mark.parametrize(("l1", "l2"), [(1e20, 1.0), (1.0, 1e-33)])
def test_the_bound_of_entries_held_at_0_is_exact(l1, l2):
    """What a threshold holds at 0 has the minimum 0, whatever the sizes of the rates."""
    omega = pp.ElasticNet(l1, l2).canonical(3)
    phi = np.array([0.5, -1.0, 0.0])
    assert omega.least(phi) == 0.0 == exact_minimum(omega, phi)


@pytest.mark.parametrize(("penalty", "words"), [
    (pp.Separable(l2=1.0, centre=1e300), "centre"),
    (pp.L1([1.0, 1e200, 1.0]), "l1 .* at index 1"),
    (pp.Box(upper=1e300), "upper .* leave out bounds"),
])
def test_rates_whose_products_overflow_are_refused(penalty, words):
    risk = pb.risks.BinaryHinge(np.eye(3), np.array([1, -1, 1]))
    with pytest.raises(ParameterError, match=words):
        pb.minimize(risk, penalty=penalty)


@pytest.mark.parametrize("penalty", [{"lam": 1.0}, {"penalty": pp.L1(1.0)}])
def test_slopes_whose_squares_overflow_are_refused_by_name(penalty):
    risk = pb.risks.Logistic(np.eye(3), np.array([1, -1, 1]), sample_weight=np.full(3, 1e200))
    with pytest.raises(pb.NumericalError, match="slopes overflow"):
        pb.minimize(risk, method="lbfgs", **penalty)


def test_badly_scaled_cuts_on_free_weights_print_nothing(capfd):
    """The solver of linear programs writes to the stream of C when rows differ by many orders of magnitude."""
    for seed in (4, 16):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((20, 3)) * 10.0**rng.integers(-8, 9, 3)
        X += rng.standard_normal(3) * 10.0**rng.integers(0, 9, 3)
        t = rng.standard_normal(20)
        for penalty in (pp.SquaredL2(np.array([0.0, 1e-4, 1e4])), pp.Separable([0.0, 0.0, 1.0], [1e-3, 0.0, 0.0])):
            weights = 10.0 ** rng.uniform(-8, 8, 20)
            for risk in (pb.risks.SquaredHinge(X, np.sign(t), sample_weight=weights, fit_intercept=True),
                         pb.risks.Pinball(X, 1e6 * t, 0.9, fit_intercept=True)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = pb.minimize(risk, penalty=penalty, max_iter=30)
                assert result.lower_bound <= result.fun
    assert capfd.readouterr() == ("", "")


def test_weights_that_nothing_limits_are_named_in_the_message():
    """Columns that are multiples but for rounding: nearly as good points lie as far out as one likes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    risk = pb.risks.Pinball(np.hstack([X, X[:, :1] / 3.0]), X[:, 0] + rng.standard_normal(40), 0.3)
    with pytest.warns(pb.ConvergenceWarning, match=r"limits of the 3 weights without penalty: leave out column [02],"):
        result = pb.minimize(risk, lam=np.zeros(3), max_iter=60)
    assert not result.success and result.lower_bound <= 0.0
    assert "limits" not in pb.minimize(risk, lam=[0.0, 0.0, 1.0], max_iter=60).message


def test_squares_about_two_centres_keep_their_distance_beside_a_free_intercept():
    risk = pb.risks.Absolute([[0.0], [0.0]], [1.0, 1.0], fit_intercept=True)
    result = pb.minimize(risk, penalty=pp.SquaredL2(1.0, centre=[0.0]) + pp.SquaredL2(1.0, centre=[2.0]), tol=1e-9)
    np.testing.assert_allclose([result.fun, result.lower_bound], 1.0, rtol=1e-8)


def test_starts_and_steps_that_once_ended_in_raw_errors():
    """Columns far from 0, where no coordinate is free for a Newton step, and a start where the penalty overflows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        for seed in range(6):
            rng = np.random.default_rng(seed)
            X, low = rng.standard_normal((5, 2)) + 1e4, rng.standard_normal(2)
            risk = pb.risks.Logistic(X, [-1, 1, 1, 1, 1])
            for method in ("auto", "newton"):
                assert pb.minimize(risk, penalty=pp.L1(1.0) + pp.Box(low, low + 1), method=method).certified
    risk = pb.risks.MulticlassHinge(np.eye(3), [0, 1, 2])
    with pytest.raises(pb.NumericalError, match=r"finite at the first point.*w0"):
        pb.minimize(risk, np.full(risk.dim, 1e60), penalty=pp.Lq(30.0, 0.01))


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
def test_the_sum_that_ends_a_bound_is_rounded_down(size):
    """Of an offset much larger than the rest, whose rounding the least value of the penalty does not cover."""
    rng = np.random.default_rng(6)
    for _ in range(300):
        phi, offset = rng.standard_normal(3), size * float(rng.standard_normal())
        omega = pp.Separable(rng.uniform(0.5, 2.0, 3), rng.uniform(0.0, 1.0, 3)).canonical(3)
        exact = Fraction(offset) + exact_minimum(omega, phi)
        assert Fraction(Problem(omega, 0.0).lower_bound(Plane(offset, phi))) <= exact


def test_moving_a_slope_to_inner_coordinates_is_known_up_to_its_error():
    """In exact arithmetic, for means far from 0 and for several classes."""
    rng = np.random.default_rng(7)
    for n_classes in (1, 3):
        for _ in range(100):
            means = np.append(rng.standard_normal(3) * 10.0 ** rng.integers(0, 7), 0.0)
            omega = pp.Separable(np.tile([1.0, 1.0, 1.0, 0.0], n_classes)).canonical(4 * n_classes)
            phi = rng.standard_normal(4 * n_classes)
            plane = Problem(omega, 0.0, means=means).coordinates.plane(Plane(0.0, phi))
            inner, error = plane.slope, plane.slope_error
            off = [Fraction(float(b)) - Fraction(float(a)) + Fraction(float(m)) * Fraction(float(row[-1]))
                   for row, found in zip(phi.reshape(-1, 4), inner.reshape(-1, 4), strict=True)
                   for a, b, m in zip(row, found, means, strict=True)]
            assert 0 < sum(x * x for x in off) <= Fraction(error) ** 2


def test_bound_and_rise_of_a_square_are_its_closed_forms_to_the_last_bit():
    """Not those of its entries, which differ by roundings; runs with lam have always had these numbers."""
    rng, lam = np.random.default_rng(8), 0.3
    nonneg = np.array([True, False, True, False])
    objective = Problem(Square(lam, nonneg), 0.0)
    for _ in range(100):
        phi, w, best = rng.standard_normal((3, 4))
        size = np.linalg.norm(np.where(nonneg, np.minimum(phi, 0.0), phi)) + 0.01
        assert objective.lower_bound(Plane(1.5, phi, 0.01, 0.25)) == 1.5 - 0.25 - size * size / (2.0 * lam)
        step = w - best
        assert objective.along(best, w, step) == (lam * float(best @ step), lam * float(step @ step))
        assert objective.modulus == lam


@pytest.mark.parametrize("penalty", [
    Square(2.0), pp.Ball(2.0), pp.SquaredL2(2.0).canonical(4), (pp.L1(0.1) + pp.SquaredL2(2.0)).canonical(4),
    (pp.L2(0.1) + pp.SquaredL2(1.0)).canonical(4)], ids=["square", "ball", "squares", "l1", "groups"])
def test_errors_of_a_plane_are_taken_from_its_bound(penalty):
    objective, slope = Problem(penalty, 0.0), np.array([0.3, -0.2, 0.1, 0.05])
    whole = objective.lower_bound(Plane(1.0, slope))
    assert whole - objective.lower_bound(Plane(1.0, slope, 0.0, 0.25)) == pytest.approx(0.25)
    for direction in np.vstack([np.eye(4), -np.eye(4), slope / np.linalg.norm(slope)]):
        moved = objective.lower_bound(Plane(1.0, slope + 0.1 * direction))
        assert objective.lower_bound(Plane(1.0, slope, 0.1)) <= moved + 1e-12


@pytest.mark.parametrize("make", [
    lambda groups: pp.L1(1.0, groups), lambda groups: pp.SquaredL1(1.0, groups), pp.SparseGroupLasso,
    lambda groups: pp.OverlappingGroupLasso(groups, sweeps=2), pp.TreeGroupLasso])
def test_a_run_builds_the_groups_of_its_penalty_once(make, monkeypatch):
    """A run calls prox hundreds of times in an iteration, so that lists of slices took most of its time."""
    calls, members = [], pb.prox.groups.members
    monkeypatch.setattr(pb.prox.groups, "members", lambda *arguments: calls.append(1) or members(*arguments))
    X = np.random.default_rng(0).standard_normal((20, 6))
    numbers = []
    for max_iter in (1, 4):
        with warnings.catch_warnings(action="ignore"):
            pb.minimize(pb.risks.BinaryHinge(X, np.sign(X[:, 0])), penalty=make([slice(0, 4), [4, 5]]),
                        tol=1e-9, max_iter=max_iter)
        numbers.append(len(calls) - sum(numbers))
    assert numbers[0] == numbers[1] <= 4
