"""The interior point method: proven gaps against linear programs, closed-form limits in exact arithmetic, forgeries."""

import dataclasses
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import linprog

import pybundle as pb
from pybundle.proof import multipliers
from pybundle.proof.given import penalty_of
from pybundle.proof.score_limits import score_limits
from pybundle.prox import Box, Separable
from pybundle.solvers.interior import few_rows
from pybundle.solvers.interior import methods as interior

KINDS = ("pinball", "absolute", "tube", "hinge")
pytestmark = pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")


def problem(kind, seed, n=None, d=None):
    """A risk with weights, some of them 0, on columns of uneven size; with the rows and boxes of its losses."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    n, d = n or int(rng.integers(6, 40)), d or int(rng.integers(1, 5))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-1, 3, d) + rng.integers(0, 2) * rng.integers(0, 60, d)
    if seed % 4 == 1:
        X[:, -1] = X[:, 0]
    if seed % 3 == 2:
        X = X.astype(np.float32)
    c = rng.integers(0, 3, n) * 0.7 if seed % 2 else np.ones(n)
    c[:4] = 1.0
    y = X[:, 0] + rng.standard_t(3, n) + rng.integers(0, 2) * 1e4
    options, has_intercept = {"sample_weight": c, "fit_intercept": bool(seed % 5)}, bool(seed % 5)
    A, flat = np.hstack([X, np.ones((n, 1))]) if has_intercept else X.astype(np.float64), 0.3
    if kind == "hinge":
        labels = np.where(rng.random(n) < 0.4, 1, -1)
        labels[:2] = 1, -1
        return pb.risks.BinaryHinge(X, labels, **options), labels[:, None] * A, np.ones(n), 0.0 * c, c
    if kind == "tube":
        A, t = np.vstack([A, A]), np.r_[y - flat, y + flat]
        return pb.risks.EpsilonInsensitive(X, y, flat, **options), A, t, np.r_[0.0 * c, -c], np.r_[c, 0.0 * c]
    if kind == "absolute":
        return pb.risks.Absolute(X, y, **options), A, y, -c, c
    return pb.risks.Pinball(X, y, 0.8, **options), A, y, -(1.0 - 0.8) * c, 0.8 * c


def rates(risk, kind, seed):
    """l1 for some weights; hinge has no free ones but the intercept."""
    d = risk.dim - (0 if risk.free is None else 1)
    l1 = np.where(np.arange(d) % 2 == seed % 2, 0.5, 0.5 if kind == "hinge" else 0.0)
    return l1 if seed % 7 or kind == "hinge" else np.zeros(d)


def by_simplex(A, t, lo, hi, l1, objective=None, level=None):
    """The least sum of losses and l1; or the least of an objective of w where that sum is at most `level`."""
    n = len(A)
    cost = np.r_[l1, l1, hi, -lo]
    more = {} if level is None else {"A_ub": cost[None], "b_ub": [level]}
    found = linprog(cost if objective is None else np.r_[objective, -objective, np.zeros(2 * n)],
                    A_eq=np.hstack([A, -A, np.eye(n), -np.eye(n)]), b_eq=t, bounds=(0.0, None), **more)
    return found.fun if found.status == 0 else -np.inf


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", KINDS)
def test_the_minimum_of_the_linear_program_lies_between_the_bounds(kind, seed):
    risk, A, t, lo, hi = problem(kind, seed)
    l1 = rates(risk, kind, seed)
    result = pb.minimize(risk, penalty=Separable(l1=l1), method="interior-point", tol=1e-6)
    least = by_simplex(A, t, lo, hi, l1 if risk.free is None else np.append(l1, 0.0))
    assert result.success and result.certified and result.nit < 40
    assert result.lower_bound <= least * (1.0 + 1e-9) and least <= (result.fun + result.error) * (1.0 + 1e-9)
    report = pb.verify(result.certificate, risk, penalty=Separable(l1=l1))
    assert report.ok and report.lower_bound >= result.lower_bound - 1e-4 * result.fun
    assert report.lower_bound <= least * (1.0 + 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_few_rows_of_many_are_proven_on_all(kind, monkeypatch):
    """Wrong guesses of sides cost another round, never the bound."""
    monkeypatch.setattr(few_rows, "FEW", 1.0)
    monkeypatch.setattr(few_rows, "SIZE", 0.5)
    risk, A, t, lo, hi = problem(kind, 6, n=400, d=3)
    l1 = rates(risk, kind, 6)
    result = pb.minimize(risk, penalty=Separable(l1=l1), method="interior-point", tol=1e-6)
    least = by_simplex(A, t, lo, hi, np.append(l1, 0.0))
    assert result.success and result.lower_bound <= least * (1.0 + 1e-9) <= result.fun * (1.0 + 2e-9)
    assert pb.verify(result.certificate, risk, penalty=Separable(l1=l1)).ok


def exact_quantile(X, y, q):
    """The least pinball loss of one column and an intercept: some line through two points, in fractions."""
    X, y = [Fraction(float(x)) for x in X], [Fraction(float(x)) for x in y]
    high, low, best = Fraction(q), Fraction(1.0 - q), None
    for i, j in combinations(range(len(y)), 2):
        if X[i] != X[j]:
            slope = (y[i] - y[j]) / (X[i] - X[j])
            rest = [b - y[i] - slope * (a - X[i]) for a, b in zip(X, y, strict=True)]
            value = sum(high * r if r > 0 else -low * r for r in rest)
            best = value if best is None else min(best, value)
    return best


@pytest.mark.parametrize("seed", range(40))
def test_no_bound_exceeds_the_minimum_in_fractions(seed):
    """Columns and targets far from 0 and of any size, gaps down to rounding."""
    rng = np.random.default_rng(seed)
    n, q = int(rng.integers(3, 9)), float(rng.choice([0.5, 0.9, 0.03]))
    X = rng.standard_normal(n) * 10.0 ** rng.integers(-4, 5) + rng.integers(0, 2) * 10.0 ** rng.integers(0, 9)
    y = rng.standard_normal(n) * 10.0 ** rng.integers(-4, 5) + rng.integers(0, 2) * 10.0 ** rng.integers(0, 9)
    risk = pb.risks.Pinball(X[:, None], y, q, fit_intercept=True)
    result = pb.minimize(risk, lam=np.zeros(1), method="interior-point", tol=float(rng.choice([1e-3, 1e-7, 1e-15])))
    least = exact_quantile(X, y, q)
    assert Fraction(result.lower_bound) <= least <= Fraction(result.fun) + Fraction(result.error)
    report = pb.verify(result.certificate, risk, lam=np.zeros(1))
    assert Fraction(report.lower_bound) <= least


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", KINDS)
def test_free_weights_are_within_their_closed_limits(kind, seed):
    """The largest weight among all points of a level, by a linear program."""
    risk, A, t, lo, hi = problem(kind, seed)
    l1 = rates(risk, kind, seed)
    every = l1 if risk.free is None else np.append(l1, 0.0)
    least = by_simplex(A, t, lo, hi, every)
    level = (1.0 + seed) * least + 1e-9
    means = None if risk.free is None else risk.means
    limits = score_limits(risk, penalty_of(Separable(l1=every).canonical(risk.dim), risk.dim), means, level)
    free = np.flatnonzero(every == 0.0)
    if limits is None:      # no free weights, or columns that depend on each other
        assert len(free) == 0 or seed % 4 == 1
        return
    for j, size in zip(free, limits.sizes(), strict=True):
        direction = np.eye(risk.dim)[j]
        if j == risk.dim - 1 and means is not None:
            direction = direction + means
        for sign in (1.0, -1.0):
            assert -by_simplex(A, t, lo, hi, every, sign * direction, level) <= size * (1.0 + 1e-7)


def test_forged_multipliers_and_limits_are_refused():
    risk, *_ = problem("pinball", 4)
    lam = np.zeros(risk.dim - 1)
    certificate = pb.minimize(risk, lam=lam, method="interior-point", tol=1e-7).certificate
    assert certificate.evidence.kind == "multipliers" and pb.verify(certificate, risk, lam=lam).ok

    def is_refused(**changes):
        return not pb.verify(dataclasses.replace(certificate, **changes), risk, lam=lam).ok

    beta = certificate.evidence.beta
    moved = np.array(beta)
    moved[np.argmin(np.abs(beta))] += 2.0
    for forged in (moved, np.sign(beta) * 1.0001, -beta, beta[:-1], np.ones((len(beta), 2))):
        evidence = dataclasses.replace(certificate.evidence, beta=forged)
        if forged.shape[0] != len(beta):
            with pytest.raises(pb.ParameterError, match="beta"):
                is_refused(evidence=evidence)
        else:
            assert is_refused(evidence=evidence)
    limits = certificate.limits
    assert is_refused(limits=dataclasses.replace(limits, sizes=1e-6 * limits.sizes))
    assert is_refused(limits=None) and is_refused(lower_bound=certificate.fun, phi=0.0 * certificate.phi)
    assert is_refused(lower_bound=certificate.fun * (1.0 + 1e-6), fun=certificate.fun * (1.0 + 1e-6))


@pytest.mark.parametrize("kind", ["Pinball", "EpsilonInsensitive", "Huber", "SquaredHinge", "Logistic"])
def test_planes_of_any_multipliers_lie_below_the_risk(kind):
    """Dense and sparse rows of any scale, with weights, some of them 0; the conjugate of each loss."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        n, d = rng.integers(2, 9, 2)
        X, c = rng.standard_normal((n, d)), np.append(rng.integers(0, 3, n - 1), 1.0)
        y = np.arange(n) % 2 if kind in ("SquaredHinge", "Logistic") else rng.standard_normal(n)
        X = scipy.sparse.csr_array(X) if rng.random() < 0.5 else X
        risk = getattr(pb.risks, kind)(X, y, sample_weight=c, scale=2.0, fit_intercept=True)
        low, high = (-1.0, 0.0) if kind == "Logistic" else np.maximum(risk.curve[:2], -5.0)
        beta = np.clip(rng.uniform(1.2 * low - 0.1, 1.2 * high + 0.1, n), low, high) * c
        assert multipliers.feasible(risk, beta)[0]
        assert not multipliers.feasible(risk, beta + c * (high - low + 1e-3))[0]
        plane = multipliers.plane(risk, beta)
        for w in rng.standard_normal((20, risk.dim)) * 3.0:
            assert plane.offset + plane.phi @ w <= risk.evaluate(w)[0].sum() + 1e-12 * (1.0 + abs(plane.offset))


def test_certificates_of_multipliers_survive_files(tmp_path):
    risk, *_ = problem("tube", 4)
    lam = np.zeros(risk.dim - 1)
    pb.minimize(risk, lam=lam, method="interior-point").certificate.save(tmp_path / "a.npz")
    report = pb.verify(tmp_path / "a.npz", risk, lam=lam)
    assert report.ok and report.evidence == "multipliers"


@pytest.mark.parametrize("risk, options, words", [
    (pb.risks.Logistic([[1.0], [2.0]], [1, -1]), {"lam": 1.0}, "piecewise linear"),
    (pb.risks.Huber([[1.0], [2.0]], [1.0, 2.0]), {"lam": 1.0}, "piecewise linear"),
    (pb.risks.MulticlassHinge([[1.0], [2.0], [0.0]], [0, 1, 2]), {"lam": 1.0}, "piecewise linear"),
    (pb.risks.Absolute([[1.0], [2.0]], [1.0, 2.0]), {"penalty": Box(0.0, 1.0)}, "bounds of weights"),
    (pb.risks.Absolute([[1.0], [2.0]], [1.0, 2.0]), {"penalty": pb.prox.SquaredL2(1.0) + Box(0.0)}, "w_k >= 0"),
    (pb.risks.Absolute([[1.0], [2.0]], [1.0, 2.0]), {"lam": 1.0, "memory_limit": 10**6}, "memory_limit"),
    (pb.risks.BinaryHinge([[1.0], [2.0]], [1, -1]), {"lam": [0.0]}, "no free weights but the intercept")])
def test_what_it_does_not_take_is_named(risk, options, words):
    with pytest.raises(pb.ParameterError, match=f"'interior-point'.*{words}.*use method"):
        pb.minimize(risk, method="interior-point", **options)


def test_auto_starts_with_it_or_leaves_blocks_for_it():
    """Blocks took thousands of passes on columns of very different size, planes linear programs for each."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 20)) * np.geomspace(0.01, 300.0, 20) + 50.0
    y = X @ rng.standard_normal(20) + rng.standard_t(2, 600)
    for lam in (np.zeros(20), 1e-3):
        result = pb.minimize(pb.risks.Pinball(X, y, 0.9, fit_intercept=True), lam=lam, tol=1e-6)
        assert result.success and "'interior-point'" in result.message and result.nit < 40
    risk = pb.risks.BinaryHinge(X, y > np.median(y))
    result = pb.minimize(risk, lam=1e-3, tol=1e-6)
    assert result.success and "'prox-bcfw'" in result.message
    assert result.n_passes <= interior.cost_in_passes(risk) + 200.0


def test_classes_that_are_nearly_separable_on_uneven_columns():
    """Corrections after short steps pressed multipliers against their boxes: the run stalled at a gap of 0.4."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((2000, 20)) * np.geomspace(0.1, 100.0, 20) + 50.0
    y = X @ rng.standard_normal(20) + rng.standard_t(3, 2000)
    risk = pb.risks.BinaryHinge(X, y > np.median(y), fit_intercept=True)
    for options in ({"lam": 0.01}, {"penalty": pb.prox.L1(0.01)}):
        assert pb.minimize(risk, method="interior-point", tol=1e-5, **options).success


def test_weights_that_l1_makes_zero_are_zero():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 8))
    risk = pb.risks.Absolute(X, X[:, 0] + rng.standard_normal(300), fit_intercept=True)
    result = pb.minimize(risk, penalty=Separable(l1=60.0), method="interior-point", tol=1e-9)
    assert result.success and result.x[0] != 0.0 and not result.x[1:8].any()


def test_a_run_on_few_rows_goes_on_from_every_step(tmp_path, monkeypatch):
    """Sample, rows near the corners and all rows; matrices and products are made again."""
    monkeypatch.setattr(few_rows, "FEW", 1.0)
    monkeypatch.setattr(few_rows, "SIZE", 0.1)
    risk, *_ = problem("tube", 6, n=400, d=3)
    options = {"penalty": Separable(l1=rates(risk, "tube", 6)), "method": "interior-point", "tol": 1e-9}
    whole = pb.minimize(risk, **options)
    for k in range(1, whole.nit + 1):
        last = pb.minimize(risk, **options, max_iter=k, checkpoint=tmp_path / "run.npz")
    assert whole.success and whole.nit > 3 and last.x.tobytes() == whole.x.tobytes()
    assert (last.fun, last.lower_bound, last.nit, last.n_passes) == (
        whole.fun, whole.lower_bound, whole.nit, whole.n_passes)


@pytest.mark.parametrize("kind", [pb.risks.Pinball, pb.risks.Absolute, pb.risks.EpsilonInsensitive])
def test_steps_on_examples_refuse_to_keep_evidence_of_losses_without_labellings(kind):
    """Such runs ended without evidence, and a warning spoke of labellings that are no numbers."""
    X = np.random.default_rng(0).standard_normal((20, 2))
    with pytest.raises(pb.ParameterError, match="keeps no evidence of a loss without labellings"):
        pb.minimize(kind(X, X[:, 0]), lam=1.0, method="prox-bcfw", evidence=True)
    assert pb.minimize(kind(X, X[:, 0]), lam=1.0, evidence=True).certificate.evidence is not None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [pb.risks.Pinball, pb.risks.Absolute, pb.risks.EpsilonInsensitive])
def test_no_example_of_any_weight(kind):
    """The mean of no residuals was NaN, with NumPy's warning."""
    risk = kind(np.ones((5, 2)), np.arange(5.0), sample_weight=np.zeros(5))
    result = pb.minimize(risk, penalty=Separable(l2=[1.0, 0.0]), method="interior-point")
    assert result.success and result.fun == result.lower_bound == 0.0
