"""A penalty of one's own is one class: solved, certified, resumed and checked as those of the package."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize as reference
from scipy.special import wrightomega

import pybundle as pb
from pybundle.core.exceptions import ParameterError


class Smooth(pb.prox.Penalty):
    """`rate/2 (|x|^2 + sum_k (x_k - x_{k+1})^2)`: neighbouring weights are similar."""

    def __init__(self, rate, dim):
        steps = np.diff(np.eye(dim), axis=0)
        self.rate, self.Q = rate, rate * (np.eye(dim) + steps.T @ steps)

    @property
    def moduli(self):
        return self.rate

    def value(self, x):
        return 0.5 * float(x @ self.Q @ x)

    def minimiser(self, phi, weight=0.0, centre=0.0):
        return np.linalg.solve(self.Q + weight * np.eye(len(phi)), weight * centre - phi)


class Entropy(pb.prox.Penalty):
    """`sum_k x_k log x_k - x_k` for x >= 0: no square, so it brings its own bound."""

    def value(self, x):
        if (x < 0.0).any():
            return np.inf
        logs = np.log(x, where=x > 0.0, out=np.zeros(len(x)))
        return float(np.sum(x * logs - x))

    def project(self, x):
        return x if (x >= 0.0).all() else np.maximum(x, 0.0)

    def minimiser(self, phi, weight=0.0, centre=0.0):
        if not weight:
            return np.exp(-phi)
        return wrightomega(np.log(weight) + weight * centre - phi) / weight       # log x + weight x = weight c - phi

    def least(self, phi, error=0.0):
        total = float(np.sum(np.exp(-phi)))
        return -total * np.exp(error) * (1.0 + 1e-12) if np.isfinite(total) else -np.inf


def data(n=60, d=8):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, np.where(X @ np.linspace(0.0, 1.0, d) + 0.5 * rng.standard_normal(n) > 0.0, 1, -1)


@pytest.mark.parametrize("penalty", [Smooth(2.0, 8), Smooth(2.0, 8) + pb.prox.SquaredL2(1.0), Entropy(),
                                     Entropy() + pb.prox.SquaredL2(1.0)], ids=["square", "sum", "entropy", "both"])
def test_its_certified_minimum_is_that_of_a_reference(penalty):
    X, y = data()
    result = pb.minimize(pb.risks.Logistic(X, y), penalty=penalty, tol=1e-6)
    assert result.success and result.certified, result.message
    omega = penalty.canonical(8)

    def value(u):
        w = np.exp(u) if "Entropy" in repr(penalty) else u
        return omega.value(w) + float(np.logaddexp(0.0, -y * (X @ w)).sum())

    best = reference(value, np.zeros(8), method="BFGS", options={"gtol": 1e-8}).fun
    assert result.lower_bound <= best + 1e-9 and abs(result.fun - best) <= 2e-6 * abs(best)
    assert pb.check_penalty(penalty, 8), pb.check_penalty(penalty, 8)


@pytest.mark.parametrize("loss", [pb.risks.Logistic, pb.risks.BinaryHinge])
@pytest.mark.parametrize("scale", ["sum", "mean"])
def test_a_penalty_may_be_negative(loss, scale):
    """The entropy is, and the bound that R declares was taken for one of F."""
    result = pb.minimize(loss(*data()), penalty=Entropy(), scale=scale, tol=1e-4)
    assert result.success and result.certified, result.message


def test_prox_alone_makes_no_bound():
    class OnlyProx(pb.prox.Penalty):
        moduli = 1.0

        def value(self, x):
            return 0.5 * float(x @ x)

        def prox(self, x, t=1.0):
            return x / (1.0 + t)

    with pytest.raises(ParameterError, match=r"got OnlyProx without .*minimiser\(phi, weight, centre\); write it"):
        pb.minimize(pb.risks.Logistic(*data()), penalty=OnlyProx())
    assert pb.check_penalty(OnlyProx(), 8).findings[0].startswith("lower bound: there is no method least")
    both = OnlyProx() + pb.prox.SquaredL2(1.0)
    assert pb.check_penalty(both, 8) and pb.minimize(pb.risks.Logistic(*data()), penalty=both).success


@pytest.mark.parametrize(("answer", "words"), [([1.0] * 8, "minimiser must return a float64 array"),
                                               (np.ones(3), "minimiser must return a float64 array of shape"),
                                               (np.ones(8, dtype=np.float32), "minimiser must return a float64 array")])
def test_the_check_names_a_member_of_the_wrong_kind(answer, words):
    class Odd(Smooth):
        def minimiser(self, phi, weight=0.0, centre=0.0):
            return answer

    assert pb.check_penalty(Odd(1.0, 8), 8).findings[0].startswith(f"members: {words}")
    with pytest.raises(ParameterError, match="penalty Smooth must take vectors of 8 entries"):
        pb.minimize(pb.risks.Logistic(*data()), penalty=Smooth(1.0, 9))
    risk = pb.risks.Logistic(*data())
    risk.nonneg = np.ones(8, dtype=bool)
    with pytest.raises(ParameterError, match="a risk with nonneg takes lam, Ball or a separable penalty, got Smooth"):
        pb.minimize(risk, penalty=Smooth(1.0, 8))


def test_bounds_of_the_default_hold_in_exact_arithmetic():
    """`least` of a quadratic form of whole numbers, against its minimum in fractions, for slopes within the error."""
    rng, penalty = np.random.default_rng(1), Smooth(1.0, 2)       # Q = [[2, -1], [-1, 2]], Q^-1 = [[2, 1], [1, 2]] / 3
    for _ in range(300):
        phi, error = rng.standard_normal(2) * 10.0 ** rng.uniform(-3, 3), float(10.0 ** rng.uniform(-8, 1))
        bound = Fraction(penalty.least(phi, error))
        for away in rng.standard_normal((5, 2)):
            a, b = (Fraction(p) + Fraction(s) for p, s in zip(phi, 0.999999 * error * away / np.linalg.norm(away),
                                                              strict=True))
            assert bound <= -(2 * a * a + 2 * a * b + 2 * b * b) / 6


def test_a_run_with_it_resumes_to_the_bit(tmp_path):
    X, y = data()
    options = {"penalty": Smooth(0.5, 8), "tol": 1e-7}
    whole = pb.minimize(pb.risks.Logistic(X, y), **options, checkpoint=pb.Checkpoint(tmp_path / "whole.npz", every=0.0))
    path = pb.Checkpoint(tmp_path / "run.npz", every=0.0)
    with pytest.warns(pb.ConvergenceWarning):
        pb.minimize(pb.risks.Logistic(X, y), **options, checkpoint=path, max_iter=3)
    again = pb.minimize(pb.risks.Logistic(X, y), **options, checkpoint=path)
    assert again.nit == whole.nit > 3 and np.array_equal(again.x, whole.x) and again.lower_bound == whole.lower_bound


def test_without_a_way_to_bounds_it_is_refused():
    class Bare(pb.prox.Penalty):
        def value(self, x):
            return float(np.sum(x**4))

    with pytest.raises(ParameterError, match="penalty must prove lower bounds, got Bare without a method least"):
        pb.minimize(pb.risks.Logistic(*data()), penalty=Bare())


class _Wrong(Smooth):
    """One member is wrong."""

    def __init__(self, member):
        super().__init__(1.0, 5)
        self.member = member

    @property
    def moduli(self):
        return 40.0 if self.member == "moduli" else self.rate

    def minimiser(self, phi, weight=0.0, centre=0.0):
        return super().minimiser(phi, weight, centre) * (0.9 if self.member == "minimiser" else 1.0)

    def least(self, phi, error=0.0):
        return super().least(phi, error) * (0.9 if self.member == "least" else 1.0)

    def project(self, x):
        return x.copy() if self.member == "project" else x


@pytest.mark.parametrize(("member", "rule"), [("moduli", "convexity"), ("minimiser", "minimisers"),
                                              ("least", "lower bound"), ("project", "feasible points"), ("", "")])
def test_the_check_names_the_wrong_member(member, rule):
    report = pb.check_penalty(_Wrong(member), 5)
    assert bool(report) == (not member)
    assert not member or rule in {finding.split(":")[0] for finding in report.findings}


@pytest.mark.parametrize("penalty", [
    pb.prox.L1(0.7), pb.prox.ElasticNet(0.3, 0.4), pb.prox.Box(-1.0, 2.0), pb.prox.L1(0.5, groups=[0, 0, 1, 1, 2, 2]),
    pb.prox.SparseGroupLasso([0, 0, 1, 1, 2, 2], 0.2, 0.5), pb.prox.SquaredL2(2.0, centre=1.0), pb.prox.L2(0.4),
    pb.prox.Ball(2.0), pb.prox.Ball(0.5) + pb.prox.Box(lower=0.0), pb.prox.SquaredL1(1.5),
    pb.prox.Lq(1.5, 1.5), pb.prox.SquaredLq(1.5, 1.5),
    pb.prox.L1(0.1) + pb.prox.Box(0.0) + pb.prox.SquaredL2(1.0)], ids=repr)
def test_penalties_of_the_package_keep_the_rules(penalty):
    assert pb.check_penalty(penalty, 6), pb.check_penalty(penalty, 6)


def test_a_ball_takes_signs_and_nothing_else():
    X, y = data()
    signed = pb.risks.BinaryHinge(X, y)
    signed.nonneg = np.ones(8, dtype=bool)
    by_risk = pb.minimize(signed, penalty=pb.prox.Ball(0.5), tol=1e-5)
    ball = pb.prox.Ball(0.5) + pb.prox.Box(lower=0.0)
    by_penalty = pb.minimize(pb.risks.BinaryHinge(X, y), penalty=ball, tol=1e-5)
    assert np.array_equal(by_risk.x, by_penalty.x) and by_risk.lower_bound == by_penalty.lower_bound
    assert np.linalg.norm(by_penalty.x) <= 0.5 + 1e-12 and by_penalty.x.min() >= 0.0
    with pytest.raises(ParameterError, match="Ball can be added to Box"):
        pb.minimize(pb.risks.BinaryHinge(X, y), penalty=pb.prox.Ball(0.5) + pb.prox.L1(1.0))
    with pytest.raises(ParameterError, match="penalty Ball belongs to methods 'cutting-plane'"):
        pb.minimize(pb.risks.BinaryHinge(X, y), penalty=ball, method="oca")
    for x in np.random.default_rng(2).standard_normal((20, 8)):
        z = ball.prox(x)
        assert ball.value(z) == 0.0 and ball.subgradient_distance(z, x - z) < 1e-10
        assert ball.conjugate(x) == pytest.approx(0.5 * np.linalg.norm(np.maximum(x, 0.0)))


def test_an_intercept_lies_inside_a_ball():
    X, y = data()
    result = pb.minimize(pb.risks.BinaryHinge(X + 3.0, y, fit_intercept=True), tol=1e-5, penalty=pb.prox.Ball(0.5))
    assert np.linalg.norm(result.x) == pytest.approx(0.5)


def test_evidence_in_a_ball_is_verified_for_the_ball():
    X, y = data()
    risk, ball = pb.risks.BinaryHinge(X, y), pb.prox.Ball(0.5)
    result = pb.minimize(risk, penalty=ball, tol=1e-4, evidence=True)
    signs = pb.prox.Box(lower=np.where(np.arange(8) == 2, 0.0, -np.inf))
    for given, is_right in (({"penalty": ball}, True), ({"penalty": pb.prox.Ball(0.6)}, False),
                            ({"penalty": ball + signs}, False)):
        assert pb.verify(result.certificate, risk, **given).ok == is_right
    signed = pb.minimize(risk, penalty=ball + signs, tol=1e-4, evidence=True)
    assert pb.verify(signed.certificate, risk, penalty=ball + signs).ok
    assert not pb.verify(signed.certificate, risk, penalty=ball).ok


class _TwoRates(pb.prox.Penalty):
    """`a sum_k max(x_k, 0) + b sum_k max(-x_k, 0)`; `least` may take the two rates for each other."""

    def __init__(self, a, b, is_wrong=False):
        self.a, self.b, self.is_wrong = a, b, is_wrong

    def value(self, x):
        x = np.asarray(x)
        return float(self.a * np.maximum(x, 0.0).sum() + self.b * np.maximum(-x, 0.0).sum())

    def prox(self, x, t=1.0):
        x = np.asarray(x, dtype=float)
        return np.maximum(x - t * self.a, 0.0) - np.maximum(-x - t * self.b, 0.0)

    def scaling(self, phi, error=0.0):
        a, b = (self.b, self.a) if self.is_wrong else (self.a, self.b)
        largest = float(np.max(np.maximum((-phi + error) / a, (phi + error) / b)))
        return 1.0 if largest < 1.0 else (1.0 - 1e-12) / largest

    def least(self, phi, error=0.0):
        return 0.0


@pytest.mark.parametrize("rates", [(5.0, 2.0), (50.0, 20.0), (500.0, 200.0)])
def test_the_check_tries_slopes_as_steep_as_the_penalty(rates):
    for seed in range(5):
        assert pb.check_penalty(_TwoRates(*rates), 6, random_state=seed)
        assert not pb.check_penalty(_TwoRates(*rates, is_wrong=True), 6, random_state=seed)


@pytest.mark.parametrize("name", ["bound", "modulus", "point", "support"])
def test_an_attribute_that_hides_a_method_is_refused(name):
    penalty = Smooth(1.0, 8)
    setattr(penalty, name, 0.7)
    with pytest.raises(ParameterError, match=f"penalty Smooth must have no attribute '{name}'"):
        pb.check_penalty(penalty, 8)
    with pytest.raises(ParameterError, match=f"penalty Smooth must have no attribute '{name}'"):
        pb.minimize(pb.risks.Logistic(*data()), penalty=penalty)


def test_a_penalty_that_is_infinite_somewhere_needs_project():
    """Runs went on for long, because no point of theirs had a finite value."""
    class Positive(pb.prox.Penalty):
        moduli = 1.0

        def value(self, x):
            return np.inf if (x < 0.0).any() else 0.5 * float(x @ x)

        def minimiser(self, phi, weight=0.0, centre=0.0):
            return (weight * centre - phi) / (1.0 + weight)

    X, y = data()
    with pytest.raises(ParameterError, match=r"must be finite at feasible points, got infinity.*a method project\(x\)"):
        pb.minimize(pb.risks.Logistic(X, -y), penalty=Positive())
