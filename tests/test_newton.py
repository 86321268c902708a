"""Method "newton": bounds hold on ill-scaled problems, other methods agree, and models are what they claim to be."""

import decimal
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle.solvers.smooth.quadratic import Hessians, Sweeps, minimise, solved
from pybundle.solvers.smooth.quasi_newton import Orthants

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
HUBER = partial(pb.risks.Huber, delta=0.3)
LOSSES = (pb.risks.Logistic, pb.risks.SquaredHinge, HUBER)


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
@pytest.mark.parametrize("loss", LOSSES[1:])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_bounds_of_parabolas_are_right_in_exact_arithmetic(is_sparse, loss):
    """No bound of any step is above F at any known point, computed in fractions."""
    rng = np.random.default_rng(3)
    for _ in range(25):
        scales = rng.choice([0.0, 2.0, 4.0])
        risk = risk_of(rng, loss, 12, 4, is_sparse, scales=scales)
        l1, l2 = 10.0 ** rng.uniform(-3.0, 2.0, 2)
        l2 *= rng.integers(2)
        X, y = risk.examples.X.toarray() if is_sparse else risk.examples.X, risk.labels
        result = pb.minimize(risk, penalty=pb.prox.Separable(l2=l2, l1=l1), method="newton", tol=1e-12, max_iter=30)
        best = min(exact_value(X, y, w, l1, l2, loss is HUBER) for w in (result.x, np.zeros(4)))
        assert Fraction(result.lower_bound) <= best
        assert result.fun >= result.lower_bound


def exact_value(X, y, w, l1, l2, is_huber):
    w = [Fraction(float(x)) for x in w]
    total = sum(Fraction(l1) * abs(x) + Fraction(l2) / 2 * x * x for x in w)
    for row, label in zip(X, y, strict=True):
        margin = 1 - int(label) * sum(Fraction(float(x)) * u for x, u in zip(row, w, strict=True))
        inside = min(abs(margin), Fraction(0.3)) if is_huber else max(margin, 0)       # labels -1, +1 are targets, too
        total += inside * inside / 2 + (inside * (abs(margin) - inside) if is_huber else 0)
    return total


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
@pytest.mark.parametrize("loss", LOSSES[:2])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_many_columns(loss, is_sparse):
    """With more than 500 columns models are minimised by coordinate descent, without Hessians."""
    rng = np.random.default_rng(7)
    for fit_intercept in (False, True)[:1 + (loss is pb.risks.Logistic)]:
        risk = risk_of(rng, loss, 80, 520, is_sparse, shift=0.5, fit_intercept=fit_intercept)
        for penalty in (pb.prox.L1(0.5), pb.prox.ElasticNet(0.02, 0.1), pb.prox.SquaredL2(1.0),
                        pb.prox.SquaredL2(0.5) + pb.prox.Box(0.0)):
            found = pb.minimize(risk, penalty=penalty, method="newton", tol=1e-6)
            other = pb.minimize(risk, penalty=penalty, method="lbfgs", tol=1e-2, max_iter=200)
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


def test_losses_that_are_linear_far_out_take_few_steps_on_uneven_columns():
    """Huber's loss had L-BFGS alone, which ended at a gap of 0.45 after 1632 passes.

    Targets are far from the first point, so that all second derivatives are 0 there.
    """
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((400, 40))
    target = Z @ rng.standard_normal(40) + rng.standard_t(3, 400)
    for X in (Z, Z * np.geomspace(0.1, 100.0, 40) + 50.0, 1e3 * Z + 1e6):
        risk = pb.risks.Huber(X, 100.0 * target, fit_intercept=True)
        found = pb.minimize(risk, lam=1.0, tol=1e-6)
        assert found.success and found.n_passes < 100.0, found.message
        assert "'newton'" in found.message


def test_what_has_no_second_derivatives_is_refused():
    X = np.eye(4)
    for risk in (pb.risks.Absolute(X, np.ones(4)), pb.risks.BinaryHinge(X, [1, -1, 1, -1]),
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
def model_of(is_sparse, has_means, is_swept=False, bias=True):
    rng = np.random.default_rng(2)
    risk = risk_of(rng, pb.risks.Logistic, 50, 9, is_sparse, shift=1.0, fit_intercept=bias)
    means = risk.means if has_means else None
    weights, moduli = rng.random(50) * (rng.random(50) < 0.8), rng.random(risk.dim)
    X = risk.examples.X.toarray() if is_sparse else risk.examples.X
    X = np.hstack([X, np.ones((50, 1))]) if bias else X
    A = X - (means if has_means else 0.0)
    H = A.T @ (weights[:, None] * A) + np.diag(moduli)
    hessians = Hessians(risk, means, moduli)
    return Sweeps(hessians, weights) if is_swept else hessians.on(weights), H


@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize("has_means", [True, False])
def test_models_are_those_of_the_hessian(is_sparse, has_means):
    (model, H), rng = model_of(is_sparse, has_means), np.random.default_rng(1)
    free, p = np.array([0, 2, 4]), rng.standard_normal(3)
    np.testing.assert_allclose(model, H, atol=1e-10)
    np.testing.assert_allclose(solved(model, free, p), np.linalg.solve(H[np.ix_(free, free)], p), rtol=1e-3)


@pytest.mark.parametrize("is_swept", [False, True])
@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize("has_means", [True, False])
def test_minima_of_models_meet_the_conditions(is_swept, is_sparse, has_means):
    rng = np.random.default_rng(4)
    for seed in range(1, 20):
        model, H = model_of(is_sparse, has_means, is_swept)
        l1, lower = rng.random(len(H)) * rng.integers(0, 2, len(H)), np.where(rng.random(len(H)) < 0.3, -0.1, -INFINITE)
        z, g = np.zeros(len(H)), 3.0 * rng.standard_normal(len(H))
        first, slope, limits = z.copy(), g.copy(), Orthants(l1, lower, np.full(len(H), INFINITE))
        if not is_swept:
            minimise(model, z, slope, limits, 1e-8)
            np.testing.assert_allclose(slope, g + H @ z, atol=1e-7)
        else:
            for _ in range(5):
                first, slope = z.copy(), g + H @ z
                model.descend(np.arange(len(H)), z, slope, limits, 1e-9, seed)
            change = model.weights * model.u        # of the multipliers: their sums with the columns are H (z - first)
            X = np.array(sp.csc_array(model.A, shape=(50, len(H))).toarray()) - model.means
            np.testing.assert_allclose(X.T @ change + model.moduli * (z - first), H @ (z - first), atol=1e-9)
        penalty = pb.prox.Separable(l1=l1, lower=lower)
        assert penalty.value(z) < INFINITE
        assert penalty.subgradient_distance(z, -(g + H @ z)) <= 1e-6 * np.linalg.norm(g)


# ---------------------------------------------------------------------- many columns, bounds of multipliers
def counts(rng, n=300, d=1500):
    """Sparse counts, a few of them large and frequent, and labels that a few columns determine."""
    rate = 3.0 / (1.0 + np.arange(d))
    X = rng.poisson(rng.gamma(0.3, 20.0 * rate, (n, d))).astype(float)
    return sp.csr_array(X), np.where(X[:, 5:40] @ rng.standard_normal(35) > 0.0, 1, -1)


@pytest.mark.parametrize("loss", LOSSES)
def test_counts_with_small_l1_norms_do_not_stall(loss):
    """Where p (1 - p) is about 0, models are flat: trials had huge values, and were halved by one pass each."""
    X, y = counts(np.random.default_rng(8))
    far = np.where(np.arange(1500) < 40, 3.0, 0.0)
    for l1, start, most in (1.0, None, 20), (0.1, None, 60), (1.0, far, 100):
        found = pb.minimize(loss(X, y), penalty=pb.prox.L1(l1), method="newton", tol=1e-6, w0=start)
        assert found.success and found.nit <= most, found.message


def documents(rng, n=400, d=1500, n_topics=8):
    """Counts of words in documents of a few topics: heavy tails, lengths from ten to thousands of words."""
    topics = rng.gamma(0.2, 5.0, (n_topics, d)) / (1.0 + np.arange(d))
    mixed = rng.dirichlet(np.full(n_topics, 0.3), n) @ topics
    X = rng.poisson(mixed / mixed.sum(axis=1, keepdims=True) * np.exp(rng.normal(4.0, 1.5, (n, 1)))).astype(float)
    scores = np.log1p(X) @ (rng.standard_normal(d) * (rng.random(d) < 0.2))
    scores += 0.3 * scores.std() * rng.standard_normal(n)
    return sp.csr_array(X), np.where(scores > np.median(scores), 1, -1)


@pytest.mark.parametrize(("loss", "l1"), [(pb.risks.SquaredHinge, 1.0), (pb.risks.Logistic, 0.1)])
def test_counts_of_words_are_certified_within_few_passes(loss, l1):
    """Columns nearly depend on each other, so that sweeps were slow: they took 1880 and 1093 passes.

    The bound suffers most, as it scales multipliers to where the least of all violations is gone.
    """
    X, y = documents(np.random.default_rng(0))
    found = pb.minimize(loss(X, y), penalty=pb.prox.L1(l1), tol=1e-6)
    assert found.success and found.n_passes < 250.0, found.message


@pytest.mark.parametrize("seed", range(5))
def test_newton_steps_of_models_of_many_columns_end_within_bounds(seed):
    """Weights that would leave their orthant end at its bound, and the others make up for them."""
    rng = np.random.default_rng(seed)
    X, y = documents(rng, 120, 600)
    risk, l1 = pb.risks.Logistic(X, y), np.full(600, 0.3)
    limits = Orthants(l1, np.where(rng.random(600) < 0.2, -0.02, -INFINITE),
                      np.where(rng.random(600) < 0.2, 0.02, INFINITE))
    model, z = Hessians(risk, None, np.full(600, 0.01)).on(risk.second_derivatives(np.zeros(120))), np.zeros(600)
    gradient = X.T @ (y * risk.multipliers(np.zeros(120)))
    assert model.descend(np.arange(600), z, gradient, limits, 1e-8, 1, share=0.0)
    slope = gradient + X.T @ (model.weights * (X @ z)) + 0.01 * z
    np.testing.assert_allclose(model.u, X @ z, atol=1e-9)
    penalty = pb.prox.Separable(l1=l1, lower=limits.lower, upper=limits.upper)
    assert penalty.value(z) < INFINITE
    assert penalty.subgradient_distance(z, -slope) <= 1e-7


def exact_bound(risk, X, beta, l1, digits=60):
    """What multipliers prove in high precision for an l1 norm, scaled to where that is most of all multiples <= 1."""
    Decimal, c = decimal.Decimal, risk.sample_weight
    with decimal.localcontext(decimal.Context(prec=digits)):
        b, y = [-Decimal(float(v)) for v in beta], [Decimal(int(v)) for v in risk.labels]
        signs = [1] * len(y) if risk.is_regression else y
        most = max(abs(sum(v * s * Decimal(float(x)) for v, s, x in zip(b, signs, column, strict=True)))
                   for column in X.T)
        t = min(Decimal(1), Decimal(float(l1)) / most) if most else Decimal(1)

        def entropy(v, c):
            return -sum(part * (part / c).ln() for part in (v, c - v) if part > 0)

        targets = y if risk.is_regression else [1] * len(y)
        parts = ((t * v, Decimal(float(w)), u) for v, w, u in zip(b, c, targets, strict=True) if w)
        if isinstance(risk, pb.risks.Logistic):
            return sum(entropy(v, w) for v, w, _ in parts)
        return sum(v * u - v * v / (2 * w) for v, w, u in parts)


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
@pytest.mark.parametrize("loss", LOSSES)
def test_bounds_of_multipliers_hold_in_sixty_digits(loss):
    """Also with weights of 0, one class, columns on many scales, and float32; none lies above what they prove."""
    rng, n_multipliers = np.random.default_rng(12), 0
    for k in range(12):
        scale, X = 10.0 ** rng.uniform(-3.0, 3.0), rng.standard_normal((15, 501)) * (rng.random((15, 501)) < 0.1)
        X = (scale * X * 10.0 ** rng.uniform(-1.0, 1.0, 501)).astype((np.float64, np.float32)[k % 2])
        y = np.where(rng.random(15) < (0.5, 1.0)[k % 5 == 4], 1, -1)
        y[0] *= -1
        weight = rng.integers(0, 3, 15) * 10.0 ** rng.uniform(-2.0, 2.0)
        risk = loss(sp.csr_array(X) if k % 3 else X, y, sample_weight=weight + (np.arange(15) < 2))
        l1 = scale * 10.0 ** rng.uniform(-2.0, 0.5)
        result = pb.minimize(risk, penalty=pb.prox.L1(l1), method="newton", tol=1e-10, max_iter=60, evidence=True)
        evidence = result.certificate.evidence
        assert pb.verify(result.certificate, risk).ok
        if evidence.kind == "multipliers":
            n_multipliers += 1
            proven = exact_bound(risk, X, evidence.beta, l1)
            assert result.certificate.lower_bound <= proven and result.lower_bound <= float(proven) * (1.0 + 1e-9)
    assert n_multipliers >= 6


def test_forged_multipliers_are_refuted():
    X, y = counts(np.random.default_rng(3), 80, 600)
    for loss in LOSSES:
        risk = loss(X, y)
        certificate = pb.minimize(risk, penalty=pb.prox.L1(0.5), method="newton", tol=1e-8, evidence=True).certificate
        beta = certificate.evidence.beta
        assert pb.verify(certificate, risk).ok
        for forged in (-beta, beta - 2.0, np.append(beta, 0.0), 0.5 * beta, np.full(len(beta), np.nan)):
            try:
                other = replace(certificate, evidence=pb.proof.Multipliers(forged))
                assert not pb.verify(other, risk).ok
            except pb.BundleError:
                pass


def test_rounding_of_long_sums_hides_no_gap():
    """Slopes of planes are sums over thousands of rows, whose rounding bounded the gap where l1 norms are small."""
    rng = np.random.default_rng(6)
    X = (rng.random((20000, 12)) < 0.3) * 30.0
    y = np.where(X @ rng.standard_normal(12) + 40.0 * rng.standard_normal(20000) > 0.0, 1, -1)
    assert pb.minimize(pb.risks.Logistic(sp.csr_array(X), y), penalty=pb.prox.L1(0.01), tol=1e-6).success


@pytest.mark.parametrize("loss", LOSSES)
def test_multipliers_beside_limits_of_an_intercept_are_saved_and_loaded(loss, tmp_path):
    """A file named one kind of evidence, so that planes of points that limit an intercept were read as multipliers."""
    X, y = counts(np.random.default_rng(3), 80, 600)
    risk = loss(X, y, fit_intercept=True)
    penalty = pb.prox.Separable(l1=np.append(0.0, np.full(599, 0.5)))
    result = pb.minimize(risk, penalty=penalty, method="newton", tol=1e-6, evidence=True)
    certificate = result.certificate
    has_closed_form = risk.is_regression        # of its limits
    assert certificate.evidence.kind == "multipliers" and any(certificate.limits.evidence) != has_closed_form
    certificate.save(tmp_path / "proof.npz")
    assert pb.verify(tmp_path / "proof.npz", risk).ok
