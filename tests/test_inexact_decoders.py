"""Decoders that are not exact: bounds hold on both sides, and the result says what inexact decoding leaves."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import pybundle as pb
from pybundle.core.exceptions import ContradictionError

SETS = np.array([y for y in itertools.product((0, 1), repeat=5) if sum(y) <= 3])
METHODS = ("auto", "oca", "bmrm", "prox-bmrm", "bcfw", "mp-bcfw", "prox-bcfw", "alm", "cutting-plane")


class Subsets(pb.models.StructuredModel):
    """Subsets of at most three of five rows; `search` returns the numbers of a set and of a bound, both inexact."""

    dim = 4

    def __init__(self, gap=0.0, rescaling="margin"):
        self.gap, self.rescaling, self.calls = gap, rescaling, 0

    def joint_feature(self, x, y):
        return x.T @ y

    def loss(self, y, y_hat):
        return float((y != y_hat).sum())

    def decode(self, w, x):
        return SETS[np.argmax(SETS @ (x @ w))]

    def values(self, w, x, y):
        """Loss plus score of all sets, the score of the truth not subtracted, as `Decoded` wants it."""
        scores, losses = SETS @ (x @ w), (SETS != y).sum(axis=1)
        return losses + scores if self.rescaling == "margin" else losses * (1.0 + scores - y @ (x @ w))

    def inexact(self, w, x, y, gap):
        """A set at most half of `gap` below the maximum, and a bound half of `gap` above it."""
        values = self.values(w, x, y)
        self.calls += 1
        near = np.flatnonzero(values >= values.max() - 0.5 * gap)
        return SETS[near[self.calls * 7919 % len(near)]], values.max() + 0.5 * gap

    def loss_augmented_decode(self, w, x, y):
        return pb.Decoded(*self.inexact(w, x, y, self.gap))


class Obedient(Subsets):
    """As inexact as it is allowed to be."""

    def loss_augmented_decode(self, w, x, y, accuracy):
        return pb.Decoded(*self.inexact(w, x, y, min(accuracy, 4.0)))


class Silent(Subsets):
    """Returns no bound."""

    def loss_augmented_decode(self, w, x, y):
        return self.inexact(w, x, y, self.gap)[0]


def data(seed=0, n=12):
    rng = np.random.default_rng(seed)
    X, w = [rng.normal(size=(5, 4)) for _ in range(n)], rng.normal(size=4)
    return X, [SETS[np.argmax(SETS @ (x @ w + 0.7 * rng.normal(size=5)))] for x in X]


def solved(model, seed=0, method="auto", tol=1e-3, **options):
    X, Y = data(seed)
    how = {"penalty": pb.prox.Ball(1.5)} if method == "cutting-plane" else {"lam": 1.0}
    risk = pb.risks.Structured(model, X, Y, accuracy=options.pop("accuracy", None))
    return pb.minimize(risk, method=method, tol=tol, **how | options)


def least(seed=0, method="auto", rescaling="margin"):
    """The minimum, by an exact decoder."""
    how = "cutting-plane" if method == "cutting-plane" else "oca"
    return solved(Silent(rescaling=rescaling), seed, how, tol=1e-8)


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("method", METHODS)
def test_bounds_hold_and_the_run_ends_when_inference_is_left(method, rescaling):
    for seed, gap in ((0, 0.1), (1, 1.0)):
        exact = least(seed, method, rescaling)
        result = solved(Subsets(gap, rescaling), seed, method, max_iter=1000)
        assert result.certified and result.lower_bound <= exact.fun and exact.lower_bound <= result.fun
        assert 0.0 < result.inference_gap <= result.gap
        assert result.status in (pb.Status.INFERENCE, pb.Status.STALLED) and not result.success
        if result.status is pb.Status.INFERENCE:
            assert result.gap - result.inference_gap <= 0.11 * result.gap
            assert "inexact decoding leaves most of the gap" in result.message


@pytest.mark.parametrize("method", METHODS)
def test_a_decoder_that_takes_an_accuracy_converges(method):
    exact, result = least(method=method), solved(Obedient(), method=method)
    assert result.success and result.lower_bound <= exact.fun and exact.lower_bound <= result.fun
    assert result.inference_gap <= result.gap <= 1e-3


def test_an_exact_decoder_leaves_nothing_to_inference():
    assert solved(Silent()).inference_gap == 0.0


def test_a_declared_accuracy_is_added_to_values_and_told():
    with pytest.warns(pb.ConvergenceWarning, match="given the declared accuracy 0.1 of the decoder"):
        result = solved(Silent(0.2), accuracy=0.1)
    exact = least()
    assert result.lower_bound <= exact.fun and exact.lower_bound <= result.fun
    with pytest.raises(ContradictionError, match=r"accuracy=0.001 must be at least the value of every labelling"):
        solved(Silent(2.0), accuracy=1e-3)
    with pytest.raises(pb.ParameterError, match="accuracy is for models in plain Python"):
        pb.risks.Structured(pb.models.Multiclass(2, 2), np.eye(2), [0, 1], accuracy=0.1)
    with pytest.raises(pb.ParameterError, match="accuracy must be a finite number >= 0"):
        pb.risks.Structured(Silent(), *data(), accuracy=-1.0)


@pytest.mark.parametrize("method", ["auto", "oca"])
def test_a_bound_below_a_labelling_found_is_a_contradiction(method):
    class Wrong(Subsets):
        def loss_augmented_decode(self, w, x, y):
            found, upper = self.inexact(w, x, y, 1.0)
            return pb.Decoded(found, upper - 1.0)

    with pytest.raises(ContradictionError, match="upper of Decoded must be at least the value of every labelling"):
        solved(Wrong(), method=method)

    class BelowTruth(Subsets):
        def loss_augmented_decode(self, w, x, y):
            return pb.Decoded(np.zeros(5, int), y @ (x @ w) - 1.0)

    with pytest.raises(ContradictionError, match="upper of Decoded must be at least the value of every labelling"):
        solved(BelowTruth(), method=method)
    with pytest.raises(pb.OracleError, match="upper of Decoded must be a finite number, got inf"):
        pb.Decoded(0, np.inf)


def test_the_truth_replaces_a_labelling_that_is_worse():
    class Lazy(Subsets):
        def loss_augmented_decode(self, w, x, y):
            values = self.values(w, x, y)
            return pb.Decoded(SETS[values.argmin()], values.max())

    X, Y = data()
    risk = pb.risks.Structured(Lazy(), X, Y)
    w = np.full(4, 3.0)
    values, slopes = risk.evaluate(w)
    exact = pb.risks.Structured(Silent(), X, Y).evaluate(w)[0]
    assert values == pytest.approx(exact) and not slopes.any()
    oracle = risk.oracle()
    found = oracle.solve_batch(np.arange(12), oracle.prepare(w))
    assert (found.values == 0.0).all() and np.array_equal(found.labellings, Y)


def test_upper_bounds_relative_to_the_truth_are_rounded_upwards():
    rng = np.random.default_rng(0)
    for scale in (1.0, 1e8, 1e-8):
        X, Y = data()
        model = Subsets(0.5)
        risk, w = pb.risks.Structured(model, X, Y), scale * rng.normal(size=4)
        model.calls = 0
        oracle = risk.oracle()
        found = oracle.solve_batch(np.arange(12), oracle.prepare(w))
        for x, y, upper in zip(X, Y, found.uppers, strict=True):
            truth = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x.T @ y, w, strict=True))
            assert Fraction(float(upper)) >= Fraction(float(model.values(w, x, y).max() + 0.25)) - truth


def test_a_saved_run_goes_on_with_the_same_bits(tmp_path):
    whole = solved(Obedient(), method="mp-bcfw")
    stopped = {"checkpoint": tmp_path / "run", "method": "mp-bcfw"}
    with pytest.warns(pb.ConvergenceWarning):
        solved(Obedient(), max_iter=13, **stopped)
    model = Obedient()
    model.calls = 0
    again = solved(model, **stopped)
    assert again.success and again.lower_bound <= whole.fun and whole.lower_bound <= again.fun


def test_check_oracle_accepts_bounds():
    report = pb.check_oracle(Subsets(0.5), *data())
    assert report, report
    assert "prediction has the largest score" not in report.rules


def inexact_norm(w, accuracy=0.3):
    """The sum of |w_j - 1|, with a bound above it."""
    value, slope = np.abs(w - 1.0).sum(), np.sign(w - 1.0)
    wide = min(accuracy, 10.0)
    return value - wide / 2, slope, value + wide / 2


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
def test_a_function_may_return_upper_bounds():
    exact = 2.0             # 4 (|v - 1| + v^2 / 2), least at v = 1
    for method in ("auto", "bmrm", "prox-bmrm", "oca"):
        result = pb.minimize(lambda w: inexact_norm(w), np.zeros(4), lam=1.0, method=method, tol=1e-3)
        assert result.status is pb.Status.INFERENCE and result.certified
        assert result.lower_bound <= exact <= result.fun
        assert result.inference_gap == pytest.approx(0.3 / result.fun, rel=0.1)
        result = pb.minimize(inexact_norm, np.zeros(4), lam=1.0, method=method, tol=1e-3)
        assert result.success and result.lower_bound <= exact <= result.fun
