"""Columns without penalty that depend on others: certified if that is exact, of least norm, and no bound otherwise."""

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.interpolate import BSpline
from sklearn.linear_model import QuantileRegressor
from test_offsets import RISKS as RISKS_OF_ONE_SCORE
from test_offsets import exact_loss, is_regression

import pybundle as pb

N = 40
TOL = 1e-5


def data(seed=0):
    rng = np.random.default_rng(seed)
    x, day = rng.standard_normal(N), rng.integers(0, 3, N)
    return rng, x, np.eye(3)[day], x + day + rng.standard_exponential(N)


def designs():
    _, x, days, _ = data()
    return {"all dummies": np.c_[x, days], "a column twice": np.c_[x, x], "a constant": np.c_[x, np.full(N, 0.3)],
            "interactions": np.c_[x, days * x[:, None]], "an empty column": np.c_[x, np.zeros(N)],
            "whole sums": np.c_[x, days[:, :2], days @ [3.0, -0.5, 7.0]]}


RISKS = {
    "Pinball": lambda X, y: pb.risks.Pinball(X, y, 0.7, fit_intercept=True),
    "Absolute": lambda X, y: pb.risks.Absolute(X, y, fit_intercept=True),
    "EpsilonInsensitive": lambda X, y: pb.risks.EpsilonInsensitive(X, y, 0.1, fit_intercept=True),
    "Huber": lambda X, y: pb.risks.Huber(X, y, fit_intercept=True),
    "SquaredHinge": lambda X, y: pb.risks.SquaredHinge(X, y > np.sin(9.0 * y) + 1.5, fit_intercept=True),
    "BinaryHinge": lambda X, y: pb.risks.BinaryHinge(X, y > np.sin(9.0 * y) + 1.5, bias=1.0),
    "Logistic": lambda X, y: pb.risks.Logistic(X, y > np.sin(9.0 * y) + 1.5, fit_intercept=True),
    "MulticlassHinge": lambda X, y: pb.risks.MulticlassHinge(X, (9.0 * y).astype(int) % 3, bias=1.0),
    "classes": lambda X, y: pb.risks.Structured(pb.models.Multiclass(3, X.shape[1]), X, (9.0 * y).astype(int) % 3,
                                                loss="logistic")}


def solved(risk, **options):
    """F without any penalty, to a certified gap; the verifier agrees from the data alone."""
    lam = np.zeros(risk.dim if risk.free is None else risk.dim - 1)
    result = pb.minimize(risk, lam=lam, tol=TOL, evidence=True, **options)
    assert result.success and result.certified and result.gap <= TOL
    report = pb.verify(result.certificate, risk, lam=lam)
    assert any("others make up for" in text for text in report.believed)
    assert report.ok and report.lower_bound >= result.fun - 100.0 * TOL * abs(result.fun), report
    return result


@pytest.mark.parametrize("risk", RISKS)
def test_every_risk_is_certified(risk):
    """Gap 1 after seconds, and the advice to raise tol."""
    y, first = data()[3], list(RISKS).index(risk) % 2
    for k, (name, X) in list(enumerate(designs().items()))[first::2]:       # each design with half of the risks
        result = solved(RISKS[risk](sp.csr_array(X) if k // 2 % 2 else X, y))
        assert "w has the least norm" in result.message, name


@pytest.mark.parametrize("name", designs())
def test_coefficients_have_least_norm_and_the_value_of_independent_columns(name):
    """The intercept does not count: of an intercept and a constant column the column has the coefficient 0."""
    X, y = designs()[name], data()[3]
    whole, d = np.c_[X, np.ones(N)], X.shape[1]
    result = solved(pb.risks.Pinball(X, y, 0.5, fit_intercept=True))
    values, vectors = np.linalg.eigh(whole.T @ whole)
    null = vectors[:d, values < 1e-9 * values.max()]
    assert null.shape[1] == 1 and np.abs(null.T @ result.x[:d]).max() < 1e-9
    peer = QuantileRegressor(quantile=0.5, alpha=0.0).fit(X, y)
    assert abs(np.abs(y - peer.predict(X)).sum() / 2.0 - result.fun) <= TOL * result.fun


def test_more_columns_than_rows():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6, 9)), rng.integers(0, 2, 6)
    X, y = np.r_[X, X], np.r_[y, 1 - y]         # each row with both labels
    result = solved(pb.risks.Logistic(X, y, fit_intercept=True))
    assert abs(result.fun - 12.0 * np.log(2.0)) < 1e-4 and np.linalg.norm(result.x) < 1e-2


def test_estimators_and_columns_that_a_shift_moves():
    """What counts is whether the columns of the user depend on each other, not the rounded differences."""
    _, x, days, y = data()
    for X in (np.c_[x, 1e6 + days], np.c_[x, x, np.full(N, 1e9)]):
        model = pb.QuantileRegressor(quantile=[0.1, 0.9], alpha=0.0).fit(X, y)
        assert model.converged_.all() and model.certified_.all()
        assert abs((y <= model.predict(X)[:, 1]).mean() - 0.9) < 0.06
    np.testing.assert_allclose(model.coef_[:, 0], model.coef_[:, 1], rtol=1e-9)
    np.testing.assert_allclose(model.coef_[:, 2], 0.0, atol=1e-9)


@pytest.mark.parametrize("kind, name", [       # each design with one of both
    ((pb.MulticlassLogistic, pb.MulticlassSVM)[k % 2], name) for k, name in enumerate(designs())])
def test_classes_of_estimators_without_penalty(kind, name):
    """Estimators hold free weights of the first class at 0, and then nobody looked for dependent columns: gap 1."""
    X, y = designs()[name], (9.0 * data()[3]).astype(int) % 3
    whole = np.c_[X, np.ones(N)]
    basis = whole[:, np.abs(np.diag(np.linalg.qr(whole[:, ::-1])[1]))[::-1] > 1e-9][:, :-1]
    model, peer = (kind(C=np.inf, tol=TOL).fit(A, y) for A in (sp.csr_array(X) if name == "a constant" else X, basis))
    assert model.converged_ and model.certified_ and model.gap_ <= TOL
    assert abs(model.objective_ - peer.objective_) <= TOL * peer.objective_
    assert basis.shape[1] == whole.shape[1] - 2


def test_moved_rows_of_classes_that_are_rounded_prove_no_dependence():
    """Equal columns of moved rows may differ in those of the user: only columns that are 0 are not rounded."""
    _, x, _, y = data()
    X = np.c_[x, np.full(N, 1e9 / 3.0), 1e6 + x, 1e6 + x + np.spacing(1e6) * (x > 0.0)]
    model = pb.MulticlassLogistic(C=np.inf, tol=TOL, max_iter=50)
    with pytest.warns(pb.ConvergenceWarning):
        model.fit(X, (9.0 * y).astype(int) % 3)
    assert not model.converged_ and np.abs(model.coef_[:, 1]).max() < 1e-9


def test_penalties_and_constraints_on_some_weights():
    """Weights with a penalty, a bound or a constraint make up for nothing: only the others may be 0."""
    _, x, days, y = data()
    risk, copies = (pb.risks.Pinball(X, y, fit_intercept=True) for X in (np.c_[x, days], np.c_[x, x, days[:, 0]]))
    for one, options in (
            (risk, {"lam": [1.0, 0.0, 0.0, 0.0]}), (risk, {"penalty": pb.prox.Separable(l1=[0.0, 0.0, 2.0, 0.0])}),
            (risk, {"lam": np.zeros(4), "constraints": (np.array([[1.0, 0.0, 0.0, 0.0, 0.0]]), 0.5, 0.5)}),
            (copies, {"lam": [0.0, 0.1, 0.0]})):
        result = pb.minimize(one, tol=TOL, **options)
        assert result.success
        free = pb.minimize(one, lam=np.zeros(one.dim - 1), tol=TOL)
        assert free.success and result.fun >= free.lower_bound
        assert ("the least norm" in result.message) == ("constraints" in options or options.get("lam", [0])[0] == 1.0)


def test_a_run_resumes(tmp_path):
    _, x, days, y = data()
    risk = pb.risks.Pinball(np.c_[x, days], y, fit_intercept=True)
    whole = pb.minimize(risk, lam=np.zeros(4), tol=TOL)
    with pytest.warns(pb.ConvergenceWarning, match="limit was reached"):
        pb.minimize(risk, lam=np.zeros(4), tol=TOL, max_iter=1, checkpoint=tmp_path / "run.npz")
    result = pb.minimize(risk, lam=np.zeros(4), tol=TOL, checkpoint=tmp_path / "run.npz")
    np.testing.assert_array_equal(result.x, whole.x)
    assert (result.fun, result.lower_bound) == (whole.fun, whole.lower_bound)
    again = pb.minimize(risk, lam=np.zeros(4), tol=1e-9, warm_start=whole)
    assert again.success and again.fun <= whole.fun


def exact_minimum(A, y):
    """The least sum of absolute errors, in fractions: some minimiser passes through as many points as its rank."""
    A, y = [[Fraction(a) for a in row] for row in A.tolist()], [Fraction(t) for t in y.tolist()]
    best = None
    for rows in itertools.combinations(range(len(A)), len(A[0])):
        w = _solution([A[i] + [y[i]] for i in rows])
        if w is not None:
            value = sum(abs(t - sum(a * v for a, v in zip(row, w, strict=True))) for row, t in zip(A, y, strict=True))
            best = value if best is None else min(best, value)
    return best


def _solution(M):
    n = len(M)
    for j in range(n):
        pivot = next((i for i in range(j, n) if M[i][j] != 0), None)
        if pivot is None:
            return None
        M[j], M[pivot] = M[pivot], M[j]
        M[j] = [v / M[j][j] for v in M[j]]
        for i in range(n):
            if i != j:
                M[i] = [a - M[i][j] * b for a, b in zip(M[i], M[j], strict=True)]
    return [row[n] for row in M]


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
def test_no_bound_exceeds_the_minimum_of_columns_that_nearly_depend_on_others():
    """The residual of a column that is nearly a copy fits targets with weights of 1e12: F is less than without it."""
    rng = np.random.default_rng(0)
    for k in range(6):
        x, far = rng.standard_normal(6), 10.0 ** -rng.integers(8, 16)
        X = np.c_[x, x + far * rng.standard_normal(6)] if k % 2 else np.c_[x, 1.0 + far * rng.standard_normal(6)]
        y = rng.standard_normal(6)
        columns = np.c_[X, np.ones(6)]
        result = pb.minimize(pb.risks.Absolute(X, y, fit_intercept=True), lam=np.zeros(2), tol=1e-3, max_iter=30)
        assert Fraction(result.lower_bound) <= exact_minimum(columns, y)
        assert "w has the least norm" not in result.message


def dependent(n=6):
    """Designs whose last column is a sum of the others, and whether float64 holds that sum; each row occurs thrice."""
    rng = np.random.default_rng(1)
    x, v, days = rng.standard_normal(n), rng.integers(-9, 10, n) / 4.0, np.eye(3)[np.arange(n) % 3]
    scaled = (days - days.mean(axis=0)) / days.std(axis=0)
    exact = {"dummies": np.c_[x, days], "dummies of 0.1": np.c_[x, 0.1 * days], "standardised": np.c_[x, scaled],
             "far dummies": np.c_[x, 1e6 + days], "copy": np.c_[x, x], "triple": np.c_[v, 3.0 * v],
             "sum": np.c_[v, v - 0.5 * v**2, v**2], "constant": np.c_[x, np.full(n, 0.3)],
             "zeros": np.c_[x, np.zeros(n)], "p > n": rng.standard_normal((n, 9)),
             "float32": np.float32(np.c_[x, x, days])}
    rounded = {"triple": np.c_[x, 3.0 * x], "sum": np.c_[x, v, x + v], "copy": np.c_[x, x + 1e-13 * v],
               "standardised": np.c_[x, (x - x.mean()) / x.std()]}
    return [(name, np.tile(X, (3, 1)), designs is exact) for designs in (exact, rounded) for name, X in designs.items()]


def fractions_of(A):
    return [list(map(Fraction, column)) for column in A.T.tolist()]


def independent(X):
    """Columns with the span of X and 1, in fractions and nearly in float64: of the last what a sum of others lacks."""
    A = np.c_[np.ones(len(X)), X].astype(float)
    columns = fractions_of(A)
    z = [Fraction(t).limit_denominator(100) for t in np.linalg.lstsq(A[:, :-1], A[:, -1])[0].tolist()]
    rest = [t - sum(a * b for a, b in zip(row, z, strict=True)) for *row, t in zip(*columns, strict=True)]
    size = max(map(abs, rest))
    columns[-1:] = [[t / size for t in rest]] if size else []
    return columns, np.array(columns, dtype=float).T


def value(risk, columns, y, c, w):
    """F without penalty in fractions, from columns of fractions."""
    W, total = [list(map(Fraction, row)) for row in w.reshape(-1, len(columns)).tolist()], Fraction(0)
    for row, label, weight in zip(zip(*columns, strict=True), y.tolist(), c.tolist(), strict=True):
        s = [sum(a * b for a, b in zip(row, ws, strict=True)) for ws in W]
        if len(s) == 1:
            loss = exact_loss(risk, Fraction(label), s[0])
        elif getattr(risk, "loss", None) == "logistic":
            with localcontext(prec=50):
                far = [t - s[label] for t in s]
                loss = Fraction(sum((Decimal(t.numerator) / t.denominator).exp() for t in far).ln())
        else:
            loss = max(t - s[label] + (k != label) for k, t in enumerate(s))
        total += Fraction(weight) * loss
    return total


def of_classes(X, y, loss, **options):
    return pb.risks.Structured(pb.models.Multiclass(3, X.shape[1]), X, y, loss=loss, **options)


KINDS = {kind.__name__: (partial(kind, fit_intercept=True), kind) for kind in RISKS_OF_ONE_SCORE} | {
    kind: (make, make) for kind, make in (("MulticlassHinge", pb.risks.MulticlassHinge), (
        "hinge of classes", partial(of_classes, loss="hinge")), ("logistic", partial(of_classes, loss="logistic")))}


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
@pytest.mark.parametrize("name", KINDS)
def test_no_bound_exceeds_the_value_of_any_point(name):
    """Neither with these columns nor with independent ones of the same span; values are computed in fractions."""
    (with_intercept, kind), first = KINDS[name], list(KINDS).index(name) % 3
    for k, (design, X, is_exact) in list(enumerate(dependent()))[first::3]:     # each design with a third of the risks
        rng, n, whole = np.random.default_rng(k), len(X), np.c_[X, np.ones(len(X), X.dtype)]
        y, c = np.arange(n) * 7 // 6 % 3, rng.integers(1, 4, n).astype(float)
        if with_intercept is not kind:
            y = X[:, 0] + rng.standard_normal(n) if is_regression(kind) else np.where(y > 0, 1, -1)
        is_easy, (columns, B) = is_exact and design != "far dummies", independent(X)
        results, values = [], []
        for A, basis, make in ((X if with_intercept is not kind else whole, fractions_of(whole), with_intercept),
                               (B, columns, kind)):
            risk = make(sp.csr_array(A) if k // 2 % 2 else A, y, sample_weight=c)
            lam = np.zeros(risk.dim - (risk.free is not None))
            results.append(pb.minimize(risk, lam=lam, tol=1e-6, max_iter=200 if is_easy else 5))
            values.append(value(risk, basis, y, c, results[-1].x))
        assert max(Fraction(result.lower_bound) for result in results) <= min(values), design
        assert not is_easy or results[0].success, design
        assert ("the least norm" in results[0].message) == (is_exact or len(results[0].x) > whole.shape[1]), design


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
def test_entries_of_sparse_data_at_one_place_are_not_added():
    """1 and 2^-60 at one place were 1 after a rounded sum, and the column a copy, which it is not."""
    rows, n = np.arange(8), 8
    x = np.arange(1.0, 9.0)
    entries, columns = np.c_[x, x, 2.0**-60 * np.sin(x)].ravel(), np.tile([0, 1, 1], n)
    X = sp.csr_array((entries, columns, 3 * np.r_[rows, n]), shape=(n, 2))
    y = np.cos(x)
    result = pb.minimize(pb.risks.Absolute(X, y), lam=np.zeros(2), tol=1e-6, max_iter=50)
    columns = np.c_[x, np.sin(x)]           # the same span
    assert Fraction(result.lower_bound) <= exact_minimum(columns, y)


def test_forged_limits_are_refused():
    """A certificate whose weights are held at 0 without cause."""
    _, x, days, y = data()
    good = pb.risks.Pinball(np.c_[x, days], y, fit_intercept=True)
    bad = pb.risks.Pinball(np.c_[x, days[:, :2], np.sin(days[:, 2] + x)], y, fit_intercept=True)
    certificate = solved(good).certificate
    report = pb.verify(certificate, bad)
    assert not report.ok and any(name == "limits" and not holds for name, holds, _ in report.checks)


@pytest.mark.parametrize("classifier", [pb.MulticlassLogistic, pb.MulticlassSVM])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_classifiers_of_three_classes_are_certified(classifier, fit_intercept):
    """The first class holds weights that all classes share at 0; columns of the others were no longer seen to depend.

    The fit ended with gap 1, and no column was named.
    """
    rng = np.random.default_rng(3)
    a, b, c = rng.integers(-60, 60, (3, 120))
    y = np.digitize((a - b + 2.0 * c) / 60.0 + rng.logistic(size=120), [-0.5, 0.5])
    options = {"C": np.inf, "tol": 1e-6, "fit_intercept": fit_intercept}
    whole = classifier(**options).fit(np.c_[a, b, c].astype(float), y)
    model = classifier(**options).fit(np.c_[a, b, a + b, c].astype(float), y)
    assert model.converged_ and model.certified_ and whole.converged_
    assert model.objective_ == pytest.approx(whole.objective_, rel=2e-6)
    # least norm: orthogonal to (1, 1, -1, 0), along which no score changes, and no common part of the classes
    np.testing.assert_allclose(model.coef_ @ [1.0, 1.0, -1.0, 0.0], 0.0, atol=1e-9)
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0.0, atol=1e-9)
    finite = classifier(C=1.0, fit_intercept=fit_intercept, verbose=0).fit(np.c_[a, b, a + b, c] / 60.0, y)
    assert finite.converged_


@pytest.mark.parametrize("n_classes", [2, 3])
def test_totals_in_cents_name_the_column(n_classes):
    """net + vat = price in decimals, not in float64: no bound, but the column to leave out is named."""
    rng = np.random.default_rng(0)
    net = rng.integers(100, 10000, 200) / 100.0
    vat = np.round(0.19 * net + rng.integers(0, 300, 200) / 100.0, 2)
    price = np.array([float(Decimal(str(one)) + Decimal(str(other))) for one, other in zip(net, vat, strict=True)])
    y = np.digitize(net / 20.0 + rng.logistic(size=200), [2.0, 3.5][:n_classes - 1])
    model = pb.MulticlassLogistic(C=np.inf)
    with pytest.warns(pb.ConvergenceWarning, match=r"leave out column [012], but for rounding a sum of others"):
        model.fit(np.c_[net, vat, price], y)
    assert not model.converged_ and model.lower_bound_ <= model.objective_


def test_columns_near_a_sum_are_another_problem():
    """B-splines sum to 1 up to rounding. As a column of its own the rounding lowers F, so no bound may ignore it."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.random(200))
    y = np.sin(6.0 * x) + 0.3 * rng.standard_normal(200)
    knots = np.r_[[0.0] * 4, np.linspace(0.0, 1.0, 6)[1:-1], [1.0] * 4]
    B = BSpline.design_matrix(x, knots, 3).toarray()
    rounding = [float(sum(map(Fraction, row)) - 1) for row in B.tolist()]
    assert 0.0 < np.abs(rounding).max() < 1e-15

    def solved(X):
        risk = pb.risks.Pinball(X, y, quantile=0.3, fit_intercept=True)
        return pb.minimize(risk, lam=np.zeros(X.shape[1]), tol=1e-8)

    with pytest.warns(pb.ConvergenceWarning, match="leave out column 4, but for rounding a sum of others"):
        result = solved(B)
    without, best = solved(B[:, 1:]), solved(np.c_[B[:, 1:], np.array(rounding) * 2.0**53])     # w_0 = 2^53 w_last
    assert without.success and best.success and best.fun < 0.995 * without.lower_bound
    assert result.lower_bound <= best.fun and abs(result.fun - without.fun) < 1e-6 * without.fun
