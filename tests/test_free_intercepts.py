"""Free intercepts of classes: repaired planes prove bounds, without linear programs."""

import inspect
import itertools
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_wine

import pybundle as pb
from pybundle.core.plane import Plane
from pybundle.proof import Multipliers
from pybundle.runtime.lower_bound import LowerBound
from pybundle.solvers.arguments import make_problem
from pybundle.solvers.methods import METHODS
from pybundle.solvers.smooth.quasi_newton import Pairs

pytestmark = pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
KINDS = ["plain", "one row a class", "uneven", "far", "sparse", "weights", "vast weights", "integers"]


def problem(seed):
    """Rows with a last column of ones, labels, weights, a penalty that leaves the intercepts free, and its rate."""
    r = np.random.default_rng(seed)
    kind, K, d = KINDS[seed % len(KINDS)], int(r.integers(2, 6)), int(r.integers(1, 5))
    n = K if kind == "one row a class" else int(r.integers(K, 40))
    y = np.r_[np.arange(K), r.integers(0, K, n - K)]
    X, c = r.standard_normal((n, d)) + r.standard_normal((K, d))[y] * r.choice([0, 1, 4]), np.ones(n)
    if kind == "uneven":
        X = X * np.geomspace(0.1, 100.0, d) + 50.0
    if kind == "far":
        X += 10.0 ** r.integers(0, 7)
    if kind in ("weights", "vast weights"):
        c = r.random(n) * (r.random(n) < 0.7) if kind == "weights" else 10.0 ** r.uniform(-6.0, 3.0, n)
    X = np.hstack([np.round(X) if kind == "integers" else X, np.ones((n, 1))])
    X = X.astype(np.float32 if seed % 3 == 0 else np.float64)
    lam = 10.0 ** r.uniform(-3.0, 3.0)
    return sp.csr_array(X) if kind == "sparse" or seed % 5 == 0 else X, y, c, penalty_of(K, d + 1, lam), lam


def penalty_of(K, d, lam, l1=0.0):
    rates, bounds = np.full((K, d), 1.0), np.full((K, d), np.inf)
    rates[:, -1], bounds[0, -1] = 0.0, 0.0
    return pb.prox.Separable(l2=lam * rates.ravel(), l1=l1 * rates.ravel(), lower=-bounds.ravel(), upper=bounds.ravel())


def risk_of(X, y, c=None, K=None):
    return pb.risks.Structured(pb.models.Multiclass(K or y.max() + 1, X.shape[1]), X, y, loss="logistic",
                               sample_weight=c)


def value(X, y, c, lam, w, digits=60):
    """F in high precision."""
    rows, W = (X.toarray() if sp.issparse(X) else X).astype(float).tolist(), w.reshape(-1, X.shape[1])
    with localcontext(prec=digits):
        exact = [list(map(Decimal, row)) for row in W.tolist()]
        total = Decimal(lam) / 2 * sum(x * x for row in exact for x in row[:-1])
        for x, k, weight in zip(rows, y.tolist(), c.tolist(), strict=True):
            scores = [sum(map(Decimal.__mul__, row, map(Decimal, x))) for row in exact]
            total += Decimal(weight) * (sum((score - scores[k]).exp() for score in scores)).ln()
        return total


@pytest.mark.parametrize("method", ["lbfgs", "prox-bcfw"])
def test_no_bound_lies_above_a_value(method):
    """In 60 digits: close to the minimum a bound whose rounding is not counted would lie above some of these values."""
    n_known = 0
    for seed in range(16):          # each kind twice
        X, y, c, penalty, lam = problem(seed)
        risk = risk_of(X, y, c)
        best = pb.minimize(risk, penalty=penalty, tol=1e-14, max_iter=100)
        found = pb.minimize(risk, penalty=penalty, tol=1e-9, max_iter=40, method=method)
        least = min(value(X, y, c, lam, result.x) for result in (best, found))
        assert max(found.lower_bound, best.lower_bound) <= least
        n_known += best.lower_bound >= (1.0 - 1e-4) * float(least)
    assert n_known >= 8


def test_planes_are_repaired_below_the_risk():
    """A repaired plane lies below R at any point, and is 0 at the intercepts, whatever the plane before."""
    for seed in range(40):
        X, y, c, penalty, _ = problem(seed)
        risk, r = risk_of(X, y, c), np.random.default_rng(seed)
        objective = make_problem(METHODS["auto"], risk, penalty=penalty)
        if objective.classes is None:
            assert (np.bincount(y, c) == 0.0).any()
            continue
        for size in (0.0, 0.1, 10.0):
            (offset,), (phi,) = risk.planes(size * r.standard_normal(risk.dim))[1:3]
            inner = objective.coordinates.plane(Plane(offset, phi, risk.slope_errors.sum()))
            offset, phi, error = objective.anchors.repaired(offset, inner.slope, inner.slope_error)
            P = phi.reshape(objective.classes.rows.shape)
            assert not P[:, -1].any()
            for w in r.standard_normal((5, risk.dim)):
                total, terms = risk.evaluate(w)[0].sum(), abs(offset) + np.abs(phi) @ np.abs(w)
                assert offset + phi @ w <= total + error * np.linalg.norm(w) + 1e-12 * terms


MAKERS = {"MulticlassHinge": [lambda X, y, c: pb.risks.MulticlassHinge(X, y, sample_weight=c),
                             lambda X, y, c: pb.risks.MulticlassHinge(X[:, :-1], y, bias=1.0, sample_weight=c)],
          "Structured": [lambda X, y, c, loss=loss: pb.risks.Structured(
              pb.models.Multiclass(y.max() + 1, X.shape[1]), X, y, loss=loss, sample_weight=c)
              for loss in ("hinge", "logistic")]}


@pytest.mark.parametrize("rho", [0.0, 0.5, 1.0])
def test_no_linear_program_is_solved(rho, monkeypatch):
    """Whichever risk has classes: a risk that gets sums over classes has to be listed here."""
    import scipy.optimize

    found = {name for name, kind in vars(pb.risks).items() if inspect.isclass(kind) and "label_sums" in vars(kind)}
    assert found == set(MAKERS)
    monkeypatch.setattr(scipy.optimize, "linprog", None)
    X, y, *_ = problem(3)
    for make in [make for makers in MAKERS.values() for make in makers]:
        for method in ("auto", "oca"):
            for evidence in (False, True):
                result = pb.minimize(make(X, y, None), tol=1e-5, evidence=evidence, method=method,
                                     penalty=penalty_of(y.max() + 1, X.shape[1], 1.0 - rho, rho))
                assert result.success


def hinge_problem(seed):
    """As `problem`, with its options: costs, a class without weight or without examples, a bias in place of ones."""
    X, y, c, _, lam = problem(seed)
    r, options = np.random.default_rng(seed), {"sample_weight": c, "n_classes": int(y.max()) + 1 + seed % 2}
    K = options["n_classes"]
    if seed % 3 == 0:
        c[y == r.integers(K)] = 0.0
    if seed % 4 == 1:
        options["loss"] = r.random((K, K)) * (1.0 - np.eye(K))
    if seed % 5 == 1:
        X, options["bias"] = X[:, :-1], 1.0
    penalty = penalty_of(K, X.shape[1] + ("bias" in options), lam, 0.1 * lam * (seed % 7 == 2))
    return X, y, options, penalty


def hinge_value(X, y, options, penalty, w):
    """F as a fraction."""
    rows, K = (X.toarray() if sp.issparse(X) else X).astype(float), options["n_classes"]
    rows = np.hstack([rows, np.ones((len(rows), 1))]) if "bias" in options else rows
    cost, W = options.get("loss", 1.0 - np.eye(K)), [[Fraction(x) for x in row] for row in w.reshape(K, -1).tolist()]
    total = sum(Fraction(l2) / 2 * Fraction(x) ** 2 + Fraction(l1) * abs(Fraction(x)) for l2, l1, x in zip(
        penalty.canonical(w.size).l2.tolist(), penalty.canonical(w.size).l1.tolist(), w.tolist(), strict=True))
    for x, k, weight in zip(rows.tolist(), y.tolist(), options["sample_weight"].tolist(), strict=True):
        if weight:
            scores = [sum(map(Fraction.__mul__, row, map(Fraction, x))) for row in W]
            total += Fraction(weight) * max(
                Fraction(cost[k, j]) + scores[j] - scores[k] if j != k else Fraction(0) for j in range(K))
    return total


def test_no_bound_of_a_hinge_loss_lies_above_a_value():
    """In fractions, of classes without weight, too; evidence proves no more, and nearly as much."""
    n_known = n_proven = 0
    for seed in range(3, 10):
        X, y, options, penalty = hinge_problem(seed)
        best = pb.minimize(pb.risks.MulticlassHinge(X, y, **options), penalty=penalty, tol=1e-11, max_iter=60)
        found = pb.minimize(pb.risks.MulticlassHinge(X, y, **options), penalty=penalty, tol=1e-7, max_iter=60,
                            method=["auto", "prox-bcfw", "oca"][seed % 3], evidence=True)
        report = pb.verify(found.certificate, pb.risks.MulticlassHinge(X, y, **options), penalty=penalty)
        assert report.ok, str(report)
        least = min(hinge_value(X, y, options, penalty, result.x) for result in (best, found))
        assert max(best.lower_bound, found.lower_bound, report.lower_bound) <= least
        n_known += best.lower_bound >= (1.0 - 1e-6) * float(least)
        n_proven += found.lower_bound - report.lower_bound <= 2.0 * (found.fun - found.lower_bound) + 1e-9 * found.fun
    assert n_known >= 5 and n_proven >= 5


@pytest.mark.parametrize("is_exact", [False, True])
def test_forged_labellings_and_bounds_are_refused(is_exact):
    """The verifier repairs the plane of the labellings itself, from its own sums over classes."""
    X, y, options, penalty = hinge_problem(8)
    result = pb.minimize(pb.risks.MulticlassHinge(X, y, **options), penalty=penalty, tol=1e-6, evidence=True)
    proof, evidence = result.certificate, result.certificate.evidence

    def forged(labels=y, **other):
        risk = pb.risks.MulticlassHinge(X, labels, **options)
        return pb.verify(pb.proof.Certificate(**(vars(proof) | other)), risk, is_exact, penalty=penalty).ok

    assert forged()
    assert not forged(lower_bound=proof.lower_bound + 1e-4 * result.fun)
    assert not forged(offset=proof.offset * 1.001) and not forged(phi=1.001 * proof.phi)
    assert not forged(np.roll(y, 1))
    for masses in (1.01 * evidence.masses, -evidence.masses, np.roll(evidence.masses, 1)):
        other = type(evidence)(evidence.examples, evidence.labellings, masses)
        try:
            assert not forged(evidence=other)
        except (ValueError, pb.ParameterError):
            pass


@pytest.mark.parametrize("kind", ["pixels", "uneven", "many classes"])
def test_hinge_losses_need_hardly_more_passes_than_centred_data_with_a_column(kind):
    """It took 400 passes in place of 40, and linear programs in each, as intercepts of rate 0 were limited by cuts."""
    r = np.random.default_rng(0)
    if kind == "pixels":
        X, y, *_ = pb.datasets.load_digits()
        X = X / 16.0
    else:
        K = 80 if kind == "many classes" else 4
        y = np.r_[np.arange(K), r.integers(0, K, 500)]
        X = r.standard_normal((len(y), 12)) + r.standard_normal((K, 12))[y]
        X = X * np.geomspace(0.1, 100.0, 12) + 50.0 if kind == "uneven" else X
    Z = X - X.mean(axis=0)
    Z = np.hstack([Z, np.full((len(Z), 1), np.sqrt(np.mean(np.sum(Z**2, axis=1))))])
    penalty = penalty_of(y.max() + 1, Z.shape[1], 1.0)
    ours = pb.minimize(pb.risks.MulticlassHinge(X, y, bias=1.0), penalty=penalty)
    centred = pb.minimize(pb.risks.MulticlassHinge(Z, y), lam=1.0)
    assert ours.success
    assert ours.n_passes + ours.n_cached_passes <= 2.0 * (centred.n_passes + centred.n_cached_passes)


@pytest.mark.parametrize("method", ["auto", "lbfgs"])
@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_evidence_proves_what_the_run_has_proven(method, rho, tmp_path):
    """Mixed multipliers belong to no point: one of them is 0 for a class. They are kept as they are."""
    for seed in range(len(KINDS)):
        X, y, c, *_ = problem(seed)
        penalty, risk = penalty_of(y.max() + 1, X.shape[1], 1.0 - rho, rho), risk_of(X, y, c)
        if risk.label_sums is None:
            continue
        result = pb.minimize(risk, penalty=penalty, tol=1e-4, method=method, evidence=True)
        result.certificate.save(tmp_path / "proof.npz")
        for certificate in (result.certificate, tmp_path / "proof.npz"):
            report = pb.verify(certificate, risk_of(X, y, c), penalty=penalty)
            assert report.ok, str(report)
        assert isinstance(result.certificate.evidence, Multipliers)
        assert report.lower_bound >= result.lower_bound - 2.0 * (result.fun - result.lower_bound) - 1e-9 * result.fun


def test_forged_multipliers_and_bounds_are_refused():
    X, y, c, penalty, _ = problem(8)
    result = pb.minimize(risk_of(X, y, c), penalty=penalty, tol=1e-6, evidence=True)
    proof, beta = result.certificate, result.certificate.evidence.beta

    def forged(**other):
        return pb.verify(pb.proof.Certificate(**(vars(proof) | other)), risk_of(X, y, c), penalty=penalty).ok

    assert forged()
    assert not forged(lower_bound=proof.lower_bound + 1e-4 * result.fun)
    assert not forged(offset=proof.offset * 1.001) and not forged(phi=1.001 * proof.phi)
    for other in (1.01 * beta[:-1], -beta, np.where(beta == beta.max(), np.nan, beta), beta[:, :-1],
                  np.where(np.arange(len(beta))[:, None] == 0, 0.0, beta), np.roll(beta, 1, axis=1)):
        try:
            assert not forged(evidence=Multipliers(other))
        except (ValueError, pb.ParameterError):
            pass
    assert forged(evidence=Multipliers(2.0 * beta))         # the same distributions


@pytest.mark.parametrize("name", ["mh", "sh", "lbfgs", "auto"])
def test_classes_without_weight_are_proven_away(name):
    """Their intercepts fall without end: such runs ended at gaps up to 1, each with a log-loss, one of six with costs.

    Planes lie below the values of the risk of the other classes, to which F tends.
    """
    n_passes = 0
    for seed in range(3):
        r = np.random.default_rng(seed)
        X, y, c = np.hstack([r.standard_normal((40, 3)), np.ones((40, 1))]), r.integers(0, 4, 40), r.random(40)
        c[y == 2], y[y == 3] = 0.0, 0
        penalty, cost = penalty_of(5, 4, 1.0), r.random((5, 5)) * (1.0 - np.eye(5))

        def make(X=X, y=y, c=c, cost=cost):
            if name == "mh":
                return pb.risks.MulticlassHinge(X, y, n_classes=5, sample_weight=c, loss=cost)
            return (pb.risks.Structured(pb.models.Multiclass(5, 4, cost), X, y, sample_weight=c) if name == "sh"
                    else risk_of(X, y, c, 5))
        method = {"mh": "oca", "sh": "oca"}.get(name, name)
        result = pb.minimize(make(), penalty=penalty, tol=1e-5, method=method, evidence=True)
        n_passes += result.n_passes
        assert result.success and pb.verify(result.certificate, make(), penalty=penalty).ok
        if name in ("lbfgs", "auto"):
            far, options = result.x + 0.0, {"tol": 1e-9, "method": "lbfgs"}
            far[3::4][2:] = -60.0       # these classes get no probability
            few = pb.minimize(risk_of(X, np.minimum(y, 1), np.where(y < 2, c, 0.0)), penalty=penalty_of(2, 4, 1.0),
                              **options).x
            far[:8], far[8:11], far[12:15], far[16:19] = few, 0.0, 0.0, 0.0
            assert result.lower_bound <= value(X, y, c, 1.0, far) <= result.lower_bound * (1.0 + 2e-5)
    assert n_passes <= (600 if name == "auto" else 200)


def test_the_estimator_needs_hardly_more_passes_than_centred_data_with_a_column():
    """With intercepts of a small rate on centred data, as large as the rows, the same steps are taken."""
    X, y, *_ = pb.datasets.load_digits()
    Z = X / 16.0 - X.mean(axis=0) / 16.0
    Z = np.hstack([Z, np.full((len(Z), 1), np.sqrt(np.mean(np.sum(Z**2, axis=1))))])
    ours = pb.MulticlassLogistic().fit(X / 16.0, y)
    centred = pb.MulticlassLogistic(fit_intercept=False).fit(Z, y)
    assert ours.converged_ and ours.n_passes_ <= 2.0 * centred.n_passes_


def test_data_that_change_in_place_are_summed_again():
    X, y = np.hstack([np.random.default_rng(0).standard_normal((30, 2)), np.ones((30, 1))]), np.arange(30) % 3
    risk = risk_of(X, y)
    before = risk.label_sums.rows.copy()
    X[:, 0] += 1.0
    assert not np.array_equal(risk.renewed().label_sums.rows, before)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, lambda X: X.astype(np.float32)])
def test_curvatures_are_the_mean_of_the_second_derivatives_of_the_classes(convert):
    """By the formula sum_i c_i p_ik (1 - p_ik) (x_i - m) (x_i - m)', for each class."""
    r = np.random.default_rng(0)
    X, y, c = np.hstack([np.round(r.random((40, 3)) * 9.0), np.ones((40, 1))]), np.arange(40) % 3, r.random(40)
    risk, W = risk_of(convert(X), y, c), r.standard_normal((3, 4))
    sums = risk.label_sums
    Z = X - sums.means
    P = np.exp(Z @ W.T)
    P /= P.sum(axis=1, keepdims=True)
    expected = sum((Z * (c * p * (1.0 - p))[:, None]).T @ Z for p in P.T) / 3.0
    assert np.allclose(sums.curvatures(risk.user_rows, c, W), expected)


def test_raw_pixels_take_few_passes():
    """Pixels 0 to 16 separate the classes: second derivatives at equal multipliers led to 595 passes, now 112."""
    X, y, *_ = pb.datasets.load_digits()
    model = pb.MulticlassLogistic(method="lbfgs").fit(X, y)
    assert model.converged_ and model.n_passes_ <= 200.0


def test_columns_that_depend_on_each_other_and_certain_examples_leave_curvatures_that_can_be_divided_by():
    """A column twice, a column of zeros, and classes far apart: the matrix is singular but for the squares."""
    r = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = 1e4 * y + r.standard_normal(60)
    X = np.column_stack([x, x, np.zeros(60), 1e6 * r.standard_normal(60), np.ones(60)])
    risk = risk_of(X, y)
    for lam in (1e-8, 1.0):
        result = pb.minimize(risk, penalty=penalty_of(3, 5, lam), method="lbfgs", tol=1e-2, max_iter=500)
        assert 0.0 <= result.lower_bound <= result.fun < 60.0 * np.log(3.0)


def test_a_matrix_without_a_cholesky_factor_is_not_formed_at_every_trial(monkeypatch):
    calls, X = [], np.hstack([np.random.default_rng(0).standard_normal((30, 2)), np.ones((30, 1))])

    def fail(matrix):
        calls.append(len(matrix))
        raise np.linalg.LinAlgError

    monkeypatch.setattr(np.linalg, "cholesky", fail)
    result = pb.minimize(risk_of(X, np.arange(30) % 3), penalty=penalty_of(3, 3, 1.0), method="lbfgs", tol=1e-9)
    assert result.nit >= 5 and len(calls) == 1 + result.nit // 10


def test_a_resumed_run_keeps_its_curvatures(tmp_path):
    """To the last bit, and a matrix that does not fit the point is refused."""
    X, y, *_ = pb.datasets.load_digits()
    X = np.hstack([X[:200, 20:30], np.ones((200, 1))])
    risk, arguments = risk_of(X, y[:200], K=10), {"penalty": penalty_of(10, 11, 1.0), "method": "lbfgs", "tol": 1e-9}
    whole = pb.minimize(risk, **arguments, max_iter=25)
    for steps in (14, 25):
        result = pb.minimize(risk, **arguments, max_iter=steps, checkpoint=tmp_path / "run")
    assert np.array_equal(result.x, whole.x) and result.lower_bound == whole.lower_bound
    for wrong in (np.eye(4), np.zeros((5, 5)), np.ones((5, 3)), np.full((5, 5), np.nan)):
        with pytest.raises(ValueError):
            Pairs(3, 1.0, wrong).check(10)


def test_roundings_of_values_do_not_grow_with_the_number_of_classes():
    """A score adds up the weights of one class; errors counted for all weights hid the gap where classes separate."""
    r = np.random.default_rng(0)
    X, y, bounds = np.hstack([1e3 * r.standard_normal((30, 4)), np.ones((30, 1))]), np.arange(30) % 3, []
    for K in (3, 60):
        w = np.zeros((K, 5))
        w[:3] = r.standard_normal((3, 5))
        w[3:, -1] = -1e4
        risk = risk_of(X, y, K=K)
        values, errors = risk.values(w.ravel())
        exact = value(X, y, np.ones(30), 0.0, w[:3].ravel())
        assert abs(float(exact - Decimal(float(values.sum())))) <= errors.sum()
        bounds.append(errors.sum() / np.linalg.norm(w))
    assert bounds[1] <= 5.0 * bounds[0]


@pytest.mark.parametrize("scale", [1.0, 1.0 / 16.0])
def test_small_c_needs_few_passes(scale):
    """The last column is as large as the rate by the least class: the centre held the intercepts too long."""
    X, y, *_ = pb.datasets.load_digits()
    model = pb.MulticlassLogistic(C=1e-5).fit(scale * X, y)
    assert model.converged_ and model.n_passes_ <= 30


def chains(seed, loss, **options):
    """A risk of short chains whose tokens have a last column of ones, and a mask of the weights that are held."""
    r = np.random.default_rng(seed)
    K, d, sizes = int(r.integers(2, 4)), int(r.integers(2, 4)), r.integers(1, 4, 5)
    Y = np.split(np.r_[np.arange(K), r.integers(0, K, sizes.sum() - K)], np.cumsum(sizes)[:-1])
    X = [np.hstack([r.standard_normal((len(y), d - 1)) + 10.0 * (seed % 2), np.ones((len(y), 1))]) for y in Y]
    model = pb.models.Chain(K, d, **options)
    is_held = np.ones(model.dim)
    is_held[d - 1:K * d:d] = 0.0
    weights = 10.0 ** r.uniform(-2.0, 1.0, len(Y)) if seed % 3 else None
    return pb.risks.Structured(model, X, Y, loss=loss, sample_weight=weights), is_held


def labellings(risk):
    """Of each example its weight, and the loss and slope of every labelling, as fractions."""
    model, found = risk.model, []
    for x, y, c in zip(risk.X, risk.Y, risk.sample_weight.tolist(), strict=True):
        every = [np.array(one) for one in itertools.product(range(model.n_labels), repeat=len(y))]
        slopes = [model.joint_feature(x, one) - model.joint_feature(x, y) for one in every]     # of hinges it is exact
        found.append((Fraction(c), [(Fraction(float(model.loss(y, one))) * (risk.loss == "hinge"),
                                     [Fraction(v) for v in slope.tolist()]) for one, slope in zip(
                                         every, slopes, strict=True)]))
    return found


def value_of(known, w, loss):
    """R(w) in 60 digits."""
    w = [Fraction(x) for x in w.tolist()]
    with localcontext(prec=60):
        total = Decimal(0)
        for c, every in known:
            scores = [a + sum((p * x for p, x in zip(slope, w, strict=True) if p), Fraction(0)) for a, slope in every]
            scores = [Decimal(s.numerator) / s.denominator for s in scores]
            best = max(scores)
            rest = sum((s - best).exp() for s in scores).ln() if loss == "logistic" else Decimal(0)
            total += Decimal(c.numerator) / c.denominator * (best + rest)
        return total


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("options", [{}, {"start": False, "end": False}, {"normalised": True, "end": False}])
def test_chains_with_free_label_weights_solve_no_linear_program(loss, options, monkeypatch):
    """Their labellings with one label repair planes; bounds hold against all labellings, in 60 digits."""
    import scipy.optimize

    monkeypatch.setattr(scipy.optimize, "linprog", None)
    for seed, rho in ((0, 0.0), (1, 0.5)) if loss == "hinge" else ((2, 0.5), (3, 0.0)):     # columns near 0, and far
        risk, is_held = chains(seed, loss, **options)
        penalty, known, found = pb.prox.Separable(l2=(1.0 - rho) * is_held, l1=rho * is_held), labellings(risk), []
        for method, tol in zip(("auto", "oca"), (1e-2, 1e-5) if seed % 2 else (1e-5, 1e-2), strict=True):
            found.append(pb.minimize(risk, penalty=penalty, method=method, tol=tol, evidence=True))
            report = pb.verify(found[-1].certificate, risk, penalty=penalty)
            assert found[-1].success and report.ok, str(report)
            assert report.lower_bound >= (1.0 - 1e-2) * found[-1].lower_bound
        with localcontext(prec=60):
            least = min(value_of(known, one.x, loss) + sum(
                Decimal(rate) / 2 * Decimal(x) ** 2 + Decimal(l1) * abs(Decimal(x)) for rate, l1, x in zip(
                    penalty.l2.tolist(), penalty.l1.tolist(), one.x.tolist(), strict=True)) for one in found)
        assert max(one.lower_bound for one in found) <= least


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_repaired_planes_of_chains_lie_below_the_risk_whatever_the_error(loss):
    """The slopes at the label weights are wrong by all that their error allows, in the directions that raise t."""
    for seed in range(12):
        risk, is_held = chains(seed, loss, start=seed % 4 < 2, end=seed % 3 < 2)
        objective = make_problem(METHODS["auto"], risk, penalty=pb.prox.Separable(l2=is_held))
        r, known, free = np.random.default_rng(seed), labellings(risk), is_held == 0.0
        (offset,), (phi,) = risk.planes(r.standard_normal(risk.dim))[1:3]
        for error in (1e-13, 1e-3, 1.0):
            wrong = np.zeros(risk.dim)
            wrong[np.flatnonzero(free)[np.argmax(phi[free])]] = -error
            b, slope, lost = objective.anchors.repaired(offset, phi + wrong, 1.01 * error + risk.slope_errors.sum())
            assert not slope[free].any()
            for size in (1e-2, 1.0, 100.0):
                w = size * r.standard_normal(risk.dim)
                below, terms = b + slope @ w - 1.0000001 * lost * np.linalg.norm(w), abs(b) + np.abs(slope) @ np.abs(w)
                assert below <= float(value_of(known, w, loss)) + 1e-12 * terms


def test_the_error_of_a_slope_lowers_the_shares_of_anchors():
    """The slope at the intercept of a rare label is 0 only by its error, so that the plane lies above the minimum."""
    error, rare, y = 1e-3, 0.01, np.array([0, 1])
    risk = pb.risks.MulticlassHinge(np.array([[0.0, 1.0], [0.0, 1.0]]), y, sample_weight=[1.0, rare])
    objective = make_problem(METHODS["auto"], risk, penalty=penalty_of(2, 2, 1.0))
    plane = Plane(2.0 * rare + 0.7 * error, np.zeros(4), error)     # the true slopes at the intercepts are 0.7 error
    least = 2 * Fraction(rare)      # of F, where the scores of both labels differ by 1
    assert 0.8 * least <= Fraction(LowerBound.of(objective, plane).value) <= least


@pytest.mark.parametrize("mass", [0.0, 1e-6, 1e-2])
def test_multipliers_of_a_label_without_weight_are_moved_at_a_cost(mass):
    """In fractions. The row with this multiplier lies on the wrong side: without the cost the bound would grow."""
    x, y, c = np.array([3.0, 2.9, -1.3625, 5.0]), np.array([0, 0, 0, 1]), np.array([1.0, 1.0, 8.0, 1.0])
    X, lam, phi = np.stack([x, np.ones(4)], axis=1), 20.0, np.zeros((3, 2))
    risk = pb.risks.MulticlassHinge(X, y, sample_weight=c, n_classes=3)
    objective = make_problem(METHODS["auto"], risk, penalty=penalty_of(3, 2, lam))
    for i, label, multiplier in ((0, 1, 1.0), (3, 0, 1.0), (1, 2, mass)):
        phi[label] += multiplier * X[i]
        phi[y[i]] -= multiplier * X[i]
    w = [[Fraction(-0.1), 0], [Fraction(0.1), Fraction(-1.58)], [0, -10]]       # a minimiser, nearly
    scores = [[a * Fraction(v) + b for a, b in w] for v in x.tolist()]
    fun = Fraction(lam) / 2 * sum(a * a for a, _ in w) + sum(Fraction(weight) * max(
        (k != truth) + score - row[truth] for k, score in enumerate(row)) for row, truth, weight in zip(
            scores, y.tolist(), c.tolist(), strict=True))
    bound = LowerBound.of(objective, Plane(2.0 + mass, phi.ravel(), 1e-15)).value
    assert (1.0 - 1e-9) * fun - 10.0 * mass <= bound <= fun


def test_constraints_on_intercepts_leave_no_anchors():
    """Slopes of R at the intercepts of all classes sum to 0; with constraints on them they do not."""
    X, y, *_ = problem(0)
    A = np.zeros((1, (y.max() + 1) * X.shape[1]))
    penalty = penalty_of(y.max() + 1, X.shape[1], 1.0)
    for place, is_known in ((0, True), (2 * X.shape[1] - 1, False)):
        A[:] = np.arange(A.size) == place
        given = {"penalty": penalty, "constraints": (A, 3.0, np.inf)}
        assert (make_problem(METHODS["auto"], risk_of(X, y), **given).anchors is not None) == is_known
        result = pb.minimize(risk_of(X, y), **given, evidence=True)
        assert result.success and pb.verify(result.certificate, risk_of(X, y), **given).ok


def test_weights_that_are_fixed_elsewhere_than_at_0_count():
    """A bound lay above the minimum: the square of the other weights stood in for what the fixed weight costs."""
    r = np.random.default_rng(4)
    y = np.r_[np.arange(3), r.integers(0, 3, 27)]
    X = np.hstack([r.standard_normal((30, 2)), np.ones((30, 1))])
    penalty = penalty_of(3, 3, 500.0)
    penalty.l2[3], penalty.lower[3], penalty.upper[3] = 0.1, 0.5, 0.5
    found = [pb.minimize(risk_of(X, y), penalty=penalty, method=method) for method in ("auto", "prox-bcfw", "oca")]
    assert all(one.success for one in found)
    assert max(one.lower_bound for one in found) <= min(one.fun for one in found)


def test_weights_of_vast_or_tiny_size_leave_no_sums():
    """Squares of their rounding errors would overflow, or underflow to 0, which would be no bound on them."""
    X, y, *_ = problem(0)
    sizes = np.array([1e-200, 1e-90, 1.0, 1e90, 1e200])
    assert [risk_of(X, y, np.full(len(y), c)).label_sums is not None for c in sizes] == [False, True, True, True, False]


def test_a_risk_whose_weights_are_all_free_or_fixed_has_no_rate():
    """The columns depend on that of ones: others make up for them, and no weight is left that has a rate."""
    X = np.ones((2, 3))
    result = pb.minimize(pb.risks.MulticlassHinge(X, [0, 1]), penalty=pb.prox.Separable(l2=np.zeros(6)), max_iter=5)
    assert 0.0 <= result.lower_bound <= result.fun


def test_honest_evidence_is_accepted_where_columns_are_far_and_a_class_has_little_weight():
    """The error of a slope holds in both coordinates: counted twice, |m| times as large, it refused these."""
    for seed in range(4):
        r = np.random.default_rng(seed)
        y = np.r_[np.arange(3), r.integers(0, 3, 9)]
        X, c = np.hstack([r.standard_normal((12, 2)) + 500.0, np.ones((12, 1))]), np.where(y == 2, 1e-5, 1.0)
        penalty = penalty_of(3, 3, 1.0, 0.1 * (seed % 2))
        for method, tol in (("auto", 1e-2), ("oca", 1e-2), ("oca", 1e-9)):
            result = pb.minimize(risk_of(X, y, c), penalty=penalty, method=method, tol=tol, max_iter=20, evidence=True)
            report = pb.verify(result.certificate, risk_of(X, y, c), penalty=penalty)
            assert report.ok, str(report)


@pytest.mark.parametrize("method", ["auto", "prox-bcfw", "oca"])
def test_evidence_on_raw_columns_proves_what_the_run_has_proven(method):
    """Bounds of later multipliers and of masters with heavy centres were less: a gap of 1 for one of 5e-4."""
    X, y = load_wine(return_X_y=True)
    X = np.hstack([(X - X.mean(axis=0)) / X.std(axis=0) if method == "prox-bcfw" else X, np.ones((len(X), 1))])
    C = {"auto": 100.0, "prox-bcfw": 100.0, "oca": 1.0}[method]
    penalty, risk = penalty_of(3, 14, 1.0 / C), pb.risks.MulticlassHinge(X, y)
    result = pb.minimize(risk, penalty=penalty, tol=1e-3, method=method, evidence=True)
    assert result.success and result.certificate.gap <= max(2.0 * result.gap, 1e-3)
    assert pb.verify(result.certificate, risk, penalty=penalty).ok


def test_rows_of_weight_zero_do_not_count():
    """Columns that are 0 in all other rows are weights without effect: quantiles ended at a gap of 1."""
    r = np.random.default_rng(0)
    D = np.eye(4)[r.integers(0, 4, 200)]
    y, c = D @ np.arange(4.0) + r.standard_normal(200), 1.0 * (D[:, 3] == 0.0)
    risk = pb.risks.Pinball(D, y, sample_weight=c, fit_intercept=True)
    result = pb.minimize(risk, lam=np.zeros(4), tol=1e-5, evidence=True)
    few = pb.minimize(pb.risks.Pinball(D[c > 0.0], y[c > 0.0], fit_intercept=True), lam=np.zeros(4), tol=1e-5)
    assert result.success and abs(result.fun - few.fun) <= 1e-5 * few.fun
    assert pb.verify(result.certificate, risk).ok


@pytest.mark.parametrize("seed", range(3))
def test_a_hinge_on_raw_free_columns_is_verified(seed):
    """Claims counted sums of parts, checks those of all rows: honest certificates were refused."""
    r = np.random.default_rng(seed)
    X = np.c_[r.lognormal(10, 1, 300), r.integers(18, 90, 300), r.standard_normal(300)]
    y = np.where((X[:, 1] - 50) / 30 + r.standard_normal(300) > 0, 1, -1)
    risk = pb.risks.BinaryHinge(X, y, fit_intercept=True)
    certificate = pb.minimize(risk, lam=np.zeros(3), tol=1e-3, evidence=True).certificate
    assert pb.verify(certificate, risk, lam=np.zeros(3)).ok
