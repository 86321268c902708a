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
    return solved(Silent(rescaling=rescaling), seed, how, tol=1e-6)


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("method", METHODS)
def test_bounds_hold_and_the_run_ends_when_inference_is_left(method, rescaling):
    seed, gap = (0, 0.1) if (rescaling == "margin") == (METHODS.index(method) % 2 == 0) else (1, 1.0)
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


class Exactly(Subsets):
    """Its bound is as far above the value as it is allowed to be, times a factor; or falls from pass to pass."""

    def __init__(self, factor=1.0, falls=None):
        super().__init__()
        self.factor, self.falls = factor, falls

    def loss_augmented_decode(self, w, x, y, accuracy):
        values = self.values(w, x, y)
        self.calls += 1
        above = self.factor * min(accuracy, 4.0) if self.falls is None else 4.0 * self.falls ** (self.calls // 12)
        return pb.Decoded(SETS[values.argmax()], values.max() + above)


@pytest.mark.parametrize("method", ["auto", "oca", "prox-bmrm", "mp-bcfw", "alm"])
@pytest.mark.parametrize("options", [(1.0,), (1.5,), (1.0, 0.5), (1.0, 0.8)])
def test_a_run_goes_on_while_decoding_gets_better(method, options):
    assert solved(Exactly(*options), method=method, max_iter=2000).success


def test_values_of_a_point_are_kept_if_it_is_decoded_again():
    class Worse(Subsets):
        """Exact at a point it has not seen, loose when it is asked again."""

        def loss_augmented_decode(self, w, x, y):
            values = self.values(w, x, y)
            self.seen, key = getattr(self, "seen", set()), (w.tobytes(), id(x))
            loose = 0.05 * (key in self.seen)
            self.seen.add(key)
            return pb.Decoded(SETS[values.argmax()], values.max() + loose)

    for method in ("oca", "bmrm", "auto"):
        assert solved(Worse(), method=method).success


def test_certificates_are_checked_with_close_decodings():
    X, Y = data()
    risk = pb.risks.Structured(Obedient(), X, Y)
    for method in ("auto", "oca"):
        result = pb.minimize(risk, lam=1.0, method=method, tol=1e-3, evidence=True)
        report = pb.verify(result.certificate, risk)
        assert report.ok, report
        assert "the upper bounds of the decoder of Obedient" in str(report)


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


def test_a_saved_run_goes_on(tmp_path):
    whole = solved(Obedient(), method="mp-bcfw")
    stopped = {"checkpoint": tmp_path / "run", "method": "mp-bcfw"}
    with pytest.warns(pb.ConvergenceWarning):
        solved(Obedient(), max_iter=13, **stopped)
    model = Obedient()
    model.calls = 0
    again = solved(model, **stopped)
    assert again.success and again.lower_bound <= whole.fun and whole.lower_bound <= again.fun


def test_a_run_that_inference_ended_has_ended(tmp_path):
    with pytest.warns(pb.ConvergenceWarning):
        first, again = (solved(Silent(), accuracy=0.1, method="oca", checkpoint=tmp_path / "run") for _ in range(2))
    assert first.status is again.status is pb.Status.INFERENCE
    assert np.array_equal(first.x, again.x) and first.n_passes == again.n_passes


def test_a_large_feature_of_the_truth_hides_no_contradiction():
    class Wrong(Subsets):
        dim = 5

        def joint_feature(self, x, y):
            return np.append(x.T @ y, 1e6)

        def loss_augmented_decode(self, w, x, y):
            values = self.values(w[:4], x, y) + 1e6 * w[4]
            self.calls += 1
            at = values.argmin() if self.calls > 24 else values.argmax()
            return pb.Decoded(SETS[at], max(values[at], 1e6 * w[4] + y @ (x @ w[:4])))

    with pytest.raises(pb.OracleError):
        solved(Wrong(), method="bmrm")


def test_check_oracle_accepts_bounds():
    report = pb.check_oracle(Subsets(0.5), *data())
    assert report, report
    assert "prediction has the largest score" not in report.rules


def inexact_norm(w, accuracy=0.3):
    """The sum of |w_j - 1|, with a bound above it."""
    value, slope = np.abs(w - 1.0).sum(), np.sign(w - 1.0)
    wide = min(accuracy, 10.0)
    return value - wide / 2, slope, value + wide / 2


def test_a_run_that_stops_for_wide_bounds_near_the_minimum_says_so():
    """2 |w - 1| + w^2 / 2 is least at 1, where bounds are so wide that the best value known lies elsewhere."""
    def wide(w):
        value = 2.0 * np.abs(w - 1.0).sum()
        return value, 2.0 * np.sign(w - 1.0), value + (0.9 if abs(w[0] - 1.0) < 0.3 else 0.5)

    with pytest.warns(pb.ConvergenceWarning):
        result = pb.minimize(wide, np.zeros(1), lam=1.0, method="oca", tol=1e-3)
    assert result.status is pb.Status.INFERENCE and result.n_passes <= 60
    assert result.lower_bound <= 0.5 <= result.fun and result.inference_gap > 0.5 * result.gap


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

        def parts(w, accuracy):
            value, slope = np.abs(w - 1.0), np.diag(np.sign(w - 1.0))
            return value, slope, value + 0.9 * min(accuracy, 10.0)

        risk = pb.risks.Function(parts, 4, n_parts=4)
        result = pb.minimize(risk, lam=1.0, method=method, tol=1e-3)
        assert result.success and result.lower_bound <= exact <= result.fun


def test_a_function_with_an_accuracy_resumes(tmp_path):
    def fun(w, accuracy):
        value, slope = np.abs(w - 1.0).sum(), np.sign(w - 1.0)
        return value, slope, value + 0.9 * min(accuracy, 10.0)

    how = {"lam": 1.0, "method": "bmrm", "tol": 1e-4, "checkpoint": tmp_path / "run"}
    with pytest.warns(pb.ConvergenceWarning):
        pb.minimize(fun, np.zeros(4), max_iter=2, **how)
    with pytest.raises(pb.StateError, match="belongs to another problem"):
        pb.minimize(lambda w: (7.0 + np.abs(w).sum(), np.sign(w)), np.zeros(4), **how)
    assert pb.minimize(fun, np.zeros(4), **how).success


def test_the_exact_verifier_takes_no_upper_bounds():
    result = pb.minimize(lambda w: inexact_norm(w), np.zeros(4), lam=1.0, method="bmrm", tol=0.5, evidence=True)
    with pytest.raises(pb.ParameterError, match="exact=True takes callables that return values alone"):
        pb.verify(result.certificate, pb.risks.Function(lambda w: inexact_norm(w), 4), exact=True)


def test_an_upper_bound_is_rounded_upwards():
    assert pb.Decoded(0, Fraction(2**53 + 1)).upper >= 2**53 + 1


def test_a_subclass_of_function_may_replace_evaluate():
    class More(pb.risks.Function):
        def evaluate(self, w):
            values, slopes = super().evaluate(w)
            return values + 1.0, slopes

    plain = pb.risks.Function(lambda w: (np.abs(w - 1.0).sum(), np.sign(w - 1.0)), 4)
    more = More(plain.fun, 4)
    assert pb.minimize(more, lam=1.0, tol=1e-6).fun == pytest.approx(pb.minimize(plain, lam=1.0, tol=1e-6).fun + 1.0)
