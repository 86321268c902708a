"""Method "newton": bounds hold on ill-scaled problems, other methods agree, and models are what they claim to be."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle.solvers.smooth.quadratic import Columns, Gram, Hessians, minimise

INFINITE = np.inf


def risk_of(rng, loss, n=60, d=8, is_sparse=False, dtype=np.float64, scales=0.0, shift=0.0, **options):
    """A random risk, its columns on scales of up to 10^scales; some are copies of others."""
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    X[:, -1] = X[:, 0]
    y = np.where(X @ rng.standard_normal(d) + rng.standard_normal(n) > 0.0, 1, -1)
    X = (X * 10.0 ** rng.uniform(-scales, scales, d) + shift).astype(dtype)
    return loss(sp.csr_array(X) if is_sparse else X, y, **options)


def penalty_of(rng, name, d, size):
    free = np.zeros(d)
    if name == "squares":
        return pb.prox.SquaredL2(size * 10.0 ** rng.uniform(-2.0, 1.0, d))
    if name == "l1":
        return pb.prox.L1(size)
    if name == "elastic net":
        return pb.prox.ElasticNet(size, 0.3 * size)
    if name == "box":
        free[::2] = INFINITE
        return pb.prox.SquaredL2(0.1 * size) + pb.prox.Box(-0.05, free + 0.1)
    return pb.prox.L1(size) + pb.prox.SquaredL2(size, centre=rng.standard_normal(d))


PENALTIES = ("squares", "l1", "elastic net", "box", "prior")
LOSSES = (pb.risks.Logistic, pb.risks.SquaredHinge)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", PENALTIES)
def test_newton_and_lbfgs_meet_on_random_problems(loss, name):
    rng = np.random.default_rng(len(name))
    for k in range(12):
        risk = risk_of(rng, loss, is_sparse=k % 2 == 0, dtype=(np.float64, np.float32)[k % 3 == 0],
                       scales=(0.0, 0.5)[k % 4 > 1], sample_weight=rng.integers(0, 3, 60).astype(float),
                       fit_intercept=k % 5 == 0 and loss is pb.risks.Logistic)
        d = risk.dim - (risk.free is not None)
        penalty = penalty_of(rng, name, d, 10.0 ** rng.uniform(-1.0, 1.0))
        found = pb.minimize(risk, penalty=penalty, method="newton", tol=1e-6)
        other = pb.minimize(risk, penalty=penalty, tol=1e-5, method="lbfgs")
        assert found.success, found.message
        assert found.lower_bound <= other.fun and other.lower_bound <= found.fun
        assert (np.diff(found.history["lower_bound"]) >= 0.0).all()
        assert penalty.value(found.x[:d]) < INFINITE


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
@pytest.mark.parametrize("is_sparse", [False, True])
def test_bounds_of_the_squared_hinge_are_right_in_exact_arithmetic(is_sparse):
    """No bound of any step is above F at any known point, computed in fractions."""
    rng = np.random.default_rng(3)
    for _ in range(25):
        scales = rng.choice([0.0, 2.0, 4.0])
        risk = risk_of(rng, pb.risks.SquaredHinge, 12, 4, is_sparse, scales=scales)
        l1, l2 = 10.0 ** rng.uniform(-3.0, 2.0, 2)
        l2 *= rng.integers(2)
        X, y = risk.examples.X.toarray() if is_sparse else risk.examples.X, risk.labels
        result = pb.minimize(risk, penalty=pb.prox.Separable(l2=l2, l1=l1), method="newton", tol=1e-12, max_iter=30)
        best = min(exact_value(X, y, w, l1, l2) for w in (result.x, np.zeros(4)))
        assert Fraction(result.lower_bound) <= best
        assert result.fun >= result.lower_bound


def exact_value(X, y, w, l1, l2):
    w = [Fraction(float(x)) for x in w]
    total = sum(Fraction(l1) * abs(x) + Fraction(l2) / 2 * x * x for x in w)
    for row, label in zip(X, y, strict=True):
        margin = 1 - int(label) * sum(Fraction(float(x)) * u for x, u in zip(row, w, strict=True))
        total += max(margin, 0) ** 2 / 2
    return total


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_many_columns(loss, is_sparse):
    """With more than 500 columns models are working sets and products, not Hessians."""
    rng = np.random.default_rng(7)
    for fit_intercept in (False, True)[:1 + (loss is pb.risks.Logistic)]:
        risk = risk_of(rng, loss, 150, 700, is_sparse, shift=0.5, fit_intercept=fit_intercept)
        for penalty in (pb.prox.L1(0.5), pb.prox.ElasticNet(0.02, 0.1), pb.prox.SquaredL2(1.0),
                        pb.prox.SquaredL2(0.5) + pb.prox.Box(0.0)):
            found = pb.minimize(risk, penalty=penalty, method="newton", tol=1e-6)
            other = pb.minimize(risk, penalty=penalty, method="lbfgs", tol=1e-2)
            assert found.success, found.message
            assert found.lower_bound <= other.fun and other.lower_bound <= found.fun


def test_auto_takes_newton_where_it_pays():
    rng = np.random.default_rng(0)
    few, many = risk_of(rng, pb.risks.Logistic), risk_of(rng, pb.risks.SquaredHinge, 40, 600, is_sparse=True)
    assert "'newton'" in pb.minimize(few, lam=1.0).message
    assert "'newton'" in pb.minimize(many, penalty=pb.prox.L1(1.0)).message
    assert "'lbfgs'" in pb.minimize(many, lam=1.0).message
    assert "'lbfgs'" in pb.minimize(few, lam=1.0, memory_limit=10**8).message


def test_columns_far_from_zero_cost_little():
    X = np.random.default_rng(1).standard_normal((200, 5))
    y = np.where(X[:, 0] + 0.5 * X[:, 1] > 0.3, 1, -1)
    near, far = (pb.minimize(pb.risks.Logistic(X + shift, y, fit_intercept=True), lam=1.0, method="newton", tol=1e-4)
                 for shift in (0.0, 1e4))
    assert near.success and far.success and far.n_passes <= 2.0 * near.n_passes + 5.0
    assert far.fun == pytest.approx(near.fun, rel=2e-4)


def test_what_has_no_second_derivatives_is_refused():
    X = np.eye(4)
    for risk in (pb.risks.Huber(X, np.ones(4)), pb.risks.BinaryHinge(X, [1, -1, 1, -1]),
                 pb.risks.Structured(pb.models.Multiclass(2, 4), X, [0, 1, 0, 1], loss="logistic")):
        with pytest.raises(pb.ParameterError, match="method 'newton' needs a smooth risk of one score"):
            pb.minimize(risk, lam=1.0, method="newton")
    with pytest.raises(pb.ParameterError, match="without groups, and their sums"):
        pb.minimize(pb.risks.Logistic(X, [1, -1, 1, -1]), penalty=pb.prox.L1(1.0, groups=[0, 0, 1, 1]), method="newton")


def test_warm_starts_and_paths():
    risk = risk_of(np.random.default_rng(5), pb.risks.Logistic)
    first = pb.minimize(risk, lam=1.0, method="newton", tol=1e-6)
    again = pb.minimize(risk, lam=1.0, method="newton", tol=1e-6, warm_start=first)
    assert again.success and again.nit <= 2
    for result in pb.path(risk, [1.0, 0.1, 0.01], method="newton", tol=1e-8):
        assert result.success


# ---------------------------------------------------------------------- models
def model_of(is_sparse, has_means, columns=None, is_few=True, bias=True):
    rng = np.random.default_rng(2)
    risk = risk_of(rng, pb.risks.Logistic, 50, 9, is_sparse, shift=1.0, fit_intercept=bias)
    means = risk.means if has_means else None
    weights, moduli = rng.random(50) * (rng.random(50) < 0.8), rng.random(risk.dim)
    X = risk.examples.X.toarray() if is_sparse else risk.examples.X
    X = np.hstack([X, np.ones((50, 1))]) if bias else X
    chosen = slice(None) if columns is None else columns
    A = X[:, chosen] - (means[chosen] if has_means else 0.0)
    H = A.T @ (weights[:, None] * A) + np.diag(moduli[chosen])
    hessians = Hessians(risk, means, moduli)
    if is_few:
        return hessians.on(weights, columns, True), H
    B = sp.csc_array(X[:, chosen])
    return Columns(B, weights, means[chosen] if has_means else np.zeros(A.shape[1]), moduli[chosen], 50, 1), H


@pytest.mark.parametrize("is_few", [True, False])
@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize("has_means", [True, False])
def test_models_are_those_of_the_hessian(is_sparse, has_means, is_few):
    for columns in (None, np.array([0, 2, 3, 7, 9])):
        model, H = model_of(is_sparse, has_means, columns, is_few)
        free, rng = np.array([0, 2, 4]), np.random.default_rng(1)
        p = rng.standard_normal(3)
        np.testing.assert_allclose(model.product(free, p), H[:, free] @ p, atol=1e-10)
        np.testing.assert_allclose(model.solve(free, p, 1e-6), np.linalg.solve(H[np.ix_(free, free)], p), rtol=1e-3)
        # a sweep is one of coordinate descent on the Hessian
        penalty = np.full(len(H), 0.3), np.full(len(H), -0.05), np.full(len(H), 0.2)
        z, slope = rng.uniform(-0.05, 0.2, len(H)), rng.standard_normal(len(H))
        y, rest = z.copy(), slope.copy()
        model.sweep(z, slope, penalty)
        Gram(H).sweep(y, rest, penalty)
        np.testing.assert_allclose(z, y, atol=1e-9)
        np.testing.assert_allclose(slope, rest, atol=1e-9)


@pytest.mark.parametrize("is_few", [True, False])
def test_minima_of_models_meet_the_conditions(is_few):
    model, H = model_of(True, True, None, is_few)
    rng = np.random.default_rng(4)
    for _ in range(20):
        l1, lower = rng.random(len(H)) * rng.integers(0, 2, len(H)), np.where(rng.random(len(H)) < 0.3, -0.1, -INFINITE)
        z, g = np.zeros(len(H)), 3.0 * rng.standard_normal(len(H))
        slope = g.copy()
        minimise(model, z, slope, (l1, lower, np.full(len(H), INFINITE)), 1e-8)
        np.testing.assert_allclose(slope, g + H @ z, atol=1e-7)
        penalty = pb.prox.Separable(l1=l1, lower=lower)
        assert penalty.value(z) < INFINITE
        assert penalty.subgradient_distance(z, -(g + H @ z)) <= 1e-6 * np.linalg.norm(g)
