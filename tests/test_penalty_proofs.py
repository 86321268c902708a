"""Claims about sums of penalties and rewritten problems hold for the sum that was meant, and forgeries are refused.

A sample of what `asv_benchmarks/reproduce/proofs.py --penalties` runs. Sums used to be rounded into one centre, one
constant and one rate for each weight, and bounds of that other problem were certified: 1.5e-8 above the minimum.
"""

import dataclasses
import warnings
from fractions import Fraction

import numpy as np
import pytest
from reference import penalty_proofs, proofs

import pybundle as pb
from pybundle.proof import Points
from pybundle.proof.given import penalty_of
from pybundle.proof.limits import Limits
from pybundle.proof.plane import ProvenPlane
from pybundle.prox import L1, L2, Box, ElasticNet, Separable, SparseGroupLasso, SquaredL2, Sum

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
SIGNS = np.where(X[:, 0] > 0, 1, -1)


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_claims_hold(first):
    rows = [(index, row) for index in range(first, first + 10) for row in penalty_proofs.attack(0, index, 4)]
    failed = [f"problem {index}, {row.risk}, {row.words}: {row.details}" for index, row in rows
              if row.counts["not verified"] or any(row.counts[kind] for kind in proofs.FAILURES)]
    assert not failed, "\n".join(failed)
    assert sum(row.counts["verified"] for _, row in rows) > 10


@pytest.mark.parametrize("c1, c2, low", [(1e8, 1e8 + 2**-26, 1e8 + 1), (1e8, 1e8 + 2**-26, 1e8 - 2),
                                         (1000.1, 1000.2, 999.0), (1000.1, 1000.2, 1001.0)])
def test_two_squares_about_far_centres(c1, c2, low):
    """The one centre of both is no float; the minimum is at an end of the box, where F is known exactly."""
    risk = pb.risks.Absolute([[1.0]], [0.0], sample_weight=[1e-12])
    penalty = SquaredL2(1.0, centre=[c1]) + SquaredL2(1.0, centre=[c2]) + Box(low, low + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        result = pb.minimize(risk, penalty=penalty, tol=1e-13, evidence=True)
    x = Fraction(float(result.x[0]))
    F = (x - Fraction(c1)) ** 2 / 2 + (x - Fraction(c2)) ** 2 / 2 + Fraction(1e-12) * x
    assert result.x[0] in (low, low + 1) and result.certified
    assert Fraction(result.lower_bound) <= F <= Fraction(result.fun) + Fraction(result.error)
    report = pb.verify(result.certificate, risk, penalty=penalty)
    assert report.ok and Fraction(report.lower_bound) <= F <= Fraction(report.fun)


def test_sums_without_rounding_count_none():
    penalty = (SquaredL2(1.5, centre=[1e9, 2.0]) + L1(0.25) + Box(0.0, [1.0, np.inf]) + SquaredL2([0.0, 0.5],
                                                                                         centre=2.0)).canonical(2)
    assert penalty.rounding == (0.0, 0.0, 0.0) and penalty.lowered() is penalty
    assert penalty.l2.tolist() == [1.5, 2.0] and penalty.centre.tolist() == [1e9, 2.0]


@pytest.mark.parametrize("term", [L1(0.1), SquaredL2(0.7), SquaredL2(0.3, centre=1e8 + 0.1)])
def test_a_thousand_terms_are_rounded_once(term):
    """The sum of the rates one after the other was off by a hundred units in the last place."""
    omega = Sum(*[term] * 999, Box(-1.0)).canonical(1)
    rate = max(omega.l1[0], omega.l2[0])
    assert abs(Fraction(rate) - 999 * Fraction(term.rate)) <= Fraction(omega.rounding.rates) * Fraction(rate)
    assert omega.rounding.rates <= 2.0**-52 and omega.centre[0] in (0.0, 1e8 + 0.1)


def test_other_problems_of_the_caller_are_refused():
    risk = pb.risks.BinaryHinge(X, SIGNS)
    A = np.array([[1.0, 1.0, 0.0]])
    groups = [0, 0, 1]
    problems = [dict(lam=0.5), dict(lam=0.5, scale="mean"), dict(lam=[0.5, 1.0, 2.0]), dict(lam=[2.0, 1.0, 0.5]),
                dict(penalty=L1(0.1)), dict(penalty=L1([0.1, 2.0, 5.0])), dict(penalty=L1([5.0, 2.0, 0.1])),
                dict(penalty=ElasticNet(0.1, 0.5)), dict(penalty=SquaredL2(0.5, centre=1.0)),
                dict(penalty=SquaredL2(0.1, centre=[0.3, 1.0, 2.0]) + SquaredL2(0.3, centre=0.7)),
                dict(penalty=SquaredL2(0.5) + Box(np.array([0.0, -np.inf, -np.inf]))),
                dict(penalty=SquaredL2(0.5) + Box(0.0)),
                dict(lam=0.5, constraints=(A, -np.inf, 0.1)), dict(lam=0.5, constraints=(A, -np.inf, 0.2)),
                dict(penalty=pb.prox.Ball(0.5)), dict(penalty=pb.prox.Ball(0.25)),
                dict(penalty=L1(0.5, groups=groups)), dict(penalty=L2(0.5)),
                dict(penalty=L1(0.5, groups=groups) + SquaredL2(0.1) + SquaredL2(0.2)),
                dict(penalty=SparseGroupLasso(groups, 0.1, 0.5)), dict(penalty=Separable(l2=0.1, upper=1.0))]
    for i, mine in enumerate(problems):
        certificate = pb.minimize(risk, tol=1e-4, evidence=True, **mine).certificate
        for j, theirs in enumerate(problems):
            report = pb.verify(certificate, risk, **theirs)
            assert report.ok == (i == j), (mine, theirs, str(report))
        assert pb.verify(certificate, risk).ok


def test_arguments_of_verify_are_checked():
    risk = pb.risks.BinaryHinge(X, SIGNS)
    certificate = pb.minimize(risk, lam=1.0).certificate
    for wrong, kind in (({"lam": 1.0, "penalty": pb.prox.Ball(1.0)}, pb.ParameterError),
                        ({"penalty": 1.0}, pb.InputTypeError),
                        ({"scale": "half", "lam": 1.0}, pb.ParameterError), ({"lam": -1.0}, pb.ParameterError),
                        ({"lam": np.ones(2)}, pb.ParameterError),
                        ({"constraints": 3.0}, pb.InputTypeError)):
        with pytest.raises(kind, match=list(wrong)[-1] if "scale" not in wrong else "scale"):
            pb.verify(certificate, risk, **wrong)


def test_a_shifted_constant_is_stated_and_compared():
    """`constant` raised F and the bound alike, by any number, and no text showed it."""
    risk, penalty = pb.risks.BinaryHinge(X, SIGNS), ElasticNet(0.1, 0.3)
    true = pb.minimize(risk, penalty=penalty, tol=1e-6, evidence=True, method="prox-bcfw").certificate
    forged = dataclasses.replace(true, penalty=dataclasses.replace(true.penalty, constant=1000.0), fun=true.fun + 1000,
                                 lower_bound=true.lower_bound + 999.9999)
    assert pb.verify(true, risk, exact=True, penalty=penalty).ok
    assert not pb.verify(forged, risk, exact=True, penalty=penalty).ok
    assert "constant 1000" in pb.verify(forged, risk).problem != true.problem()


def test_no_far_point_hides_a_claim():
    """Limits widened by a point at 1e20, whose own gap allowed any bound; evidence at 1e14 with weight 1e-300."""
    risk = pb.risks.BinaryHinge(X, np.repeat([1, -1], 20), fit_intercept=True)
    true = pb.minimize(risk, lam=np.full(3, 1e4), tol=1e-9, evidence=True, method="prox-bcfw").certificate
    w = np.array([0.0, 0.0, 0.0, 1e20])
    fun = float(risk.evaluate(w)[0].sum())
    assert pb.verify(true, risk, lam=np.full(3, 1e4)).ok
    assert not pb.verify(dataclasses.replace(
        true, w=w, fun=fun, error=1e-8 * fun, lower_bound=1e6,
        limits=Limits(np.array([1e21]), None, [None, None])), risk).ok
    steep = pb.risks.SquaredHinge(X, np.repeat([1, -1], 20))
    true = pb.minimize(steep, lam=1.0, tol=1e-12, evidence=True).certificate
    noisy = dataclasses.replace(true, evidence=Points(np.vstack([true.w, np.full((1, 3), 1e14)]),
                                                      np.array([[1.0 - 1e-15], [1e-300]])))
    assert pb.verify(noisy, steep, lam=1.0).lower_bound >= true.lower_bound * (1.0 - 1e-9)
    w = np.full(3, -1e6)
    fun = float(steep.evaluate(w)[0].sum() + 0.5 * w @ w)
    assert not pb.verify(dataclasses.replace(noisy, w=w, fun=fun, lower_bound=1.2 * true.lower_bound), steep).ok


@pytest.mark.parametrize("w", [0.3, 0.0])
def test_own_functions_round_in_fractions_too(w):
    """At 1e17 `abs(w - 0.3)` is w, and the plane there 0.3 too high: a bound of 0.15 was proven where F is 0.045."""
    def fun(w):
        return abs(w[0] - 0.3), np.array([np.sign(w[0] - 0.3)])

    true = pb.minimize(fun, np.zeros(1), lam=1.0, tol=1e-9, evidence=True).certificate
    assert pb.verify(true, fun, exact=True, lam=1.0).ok
    forged = dataclasses.replace(
        true, w=np.array([w]), fun=abs(w - 0.3) + w * w / 2, evidence=Points(np.array([[1e17], [-1.0]]),
                                                                             np.array([[0.5], [0.5]])),
        phi=np.zeros(1), offset=0.15, offset_error=0.0, slope_error=0.0, lower_bound=0.15)
    for is_exact in (True, False):
        report = pb.verify(forged, fun, exact=is_exact)
        assert not report.ok and report.lower_bound <= 0.045


@pytest.mark.parametrize("method", ["auto", "oca"])
def test_evidence_where_no_example_is_violated(method):
    """All multipliers are those of the truths; their empty list was one of floats, which blamed the risk."""
    risk = pb.risks.BinaryHinge([[1.0], [-1.0]], [1, -1])
    result = pb.minimize(risk, penalty=Box(2.0, 3.0), evidence=True, method=method)
    assert pb.verify(result.certificate, risk, penalty=Box(2.0, 3.0)).ok and result.fun == 0.0


def test_a_norm_absorbs_the_errors_of_slopes():
    """Within bounds of 1e9 an l1 norm holds weights at 0, so that errors of their slopes cost nothing.

    The verifier charged them times the bounds, and called honest certificates uncertain.
    """
    omega = Separable(l1=[1.0, 1.0, 0.0], lower=[-1e9, 0.5, -1.0], upper=1e9).canonical(3)
    plane = ProvenPlane(0.0, np.array([0.5, -0.9, 2.0]), 0.0, 1e-9)
    low, high = penalty_of(omega, 3).bounds(plane, None, 1)
    assert low <= Fraction(-2.0 + 0.05) <= high and high - low < 1e-8
    rng = np.random.default_rng(0)
    for _ in range(200):            # also where the error is as large as the threshold
        l1, phi = rng.choice([0.0, 1.0, 2.0]), rng.choice([-2.0, -1.0, 0.0, 1.0, 3.0])
        ends = np.sort(rng.integers(-3, 4, 2))
        error = float(rng.choice([0.0, 0.1, 1.0, 2.5]))
        found, _ = penalty_of(Separable(l1=l1, lower=ends[0], upper=ends[1]).canonical(1), 1).bounds(
            ProvenPlane(0.0, np.array([phi]), 0.0, error), None, 1)
        inside = [x for x in (*ends, 0.0) if ends[0] <= x <= ends[1]]
        least = min(l1 * abs(x) + (phi + d) * x for x in inside for d in (-error, error))
        assert found <= least
