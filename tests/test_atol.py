"""Objectives near 0: the default of atol, what the message says of it, and runs that go on."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from test_offsets import RISKS, exact_loss, is_regression

import pybundle as pb
from pybundle.runtime.stopping import SHARE

FREE = np.zeros((2, 2))


def absolute(w):
    return np.abs(w).sum(), np.sign(w)


def distance(w):
    return np.abs(w - 1.0).sum(), np.sign(w - 1.0)


def half_spaces(w):
    s = np.vander(np.linspace(-1.0, 1.0, 30), 4) @ w
    return np.maximum(s, 0.0).sum(), np.vander(np.linspace(-1.0, 1.0, 30), 4).T @ (s > 0.0)


@pytest.mark.parametrize("method", ["auto", "bmrm", "oca"])
@pytest.mark.parametrize("fun", [absolute, half_spaces])
def test_risks_whose_minimum_is_zero_converge(fun, method):
    """They ran for hundreds of iterations to 1e-22, and were told to raise tol and lam."""
    w0 = np.ones(4)
    for far in (1.0, 1e9):
        with warnings.catch_warnings(action="error"):
            result = pb.minimize(fun, far * w0, lam=1.0, method=method)
        assert result.success and result.certified and result.fun - result.lower_bound <= 1e-12 and result.nit < 100
        assert "raise" not in result.message


@pytest.mark.parametrize("method", ["auto", "bmrm", "oca"])
@pytest.mark.parametrize("far", [0.0, 1e5, 1e7, 1e9])
def test_a_far_start_makes_no_answer_good_enough(far, method):
    """It was a success with a gap of 1: atol was a share of F at the start."""
    result = pb.minimize(distance, np.full(50, far), lam=1.0, tol=1e-6, method=method)
    assert result.success and result.gap <= 1e-6 and abs(result.fun - 25.0) <= 25e-6


@pytest.mark.parametrize("method", ["oca", "bmrm", "bcfw", "mp-bcfw", "frank-wolfe"])
@pytest.mark.parametrize("far", [1.0, 1e5])
def test_the_default_of_atol_is_a_share_of_the_value_at_zero(far, method):
    risk = pb.risks.MulticlassHinge(np.eye(2), [0, 1])
    result = pb.minimize(risk, far * np.arange(4.0), lam=1e-14, method=method)
    assert result.success and result.gap <= 0.01 and 0.01 * result.fun < result.fun - result.lower_bound <= 2e-12
    assert result.message.startswith("fun - lower_bound is within atol 2e-12 (gap ")


@pytest.mark.parametrize("method", ["auto", "prox-bcfw", "oca", "bmrm", "alm", "frank-wolfe"])
def test_far_starts_on_data(method):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 4))
    risk = pb.risks.MulticlassHinge(X, (X[:, 0] > 0).astype(int))
    best = pb.minimize(risk, lam=1.0, tol=1e-6)
    result = pb.minimize(risk, 1e7 * rng.standard_normal(risk.dim), lam=1.0, tol=1e-2, method=method)
    assert result.success and result.gap <= 1e-2 and result.fun <= 1.01 * best.fun


def test_no_advice_to_pass_atol_where_the_objective_is_not_about_zero():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((100, 30)), rng.integers(0, 2, 100)
    risk = pb.risks.MulticlassHinge(X * 1e6, y)
    with pytest.warns(pb.ConvergenceWarning) as caught:
        result = pb.minimize(risk, 1e4 * rng.standard_normal(risk.dim), lam=1.0, tol=1e-3, max_iter=300)
    assert result.lower_bound > 0.1 * result.fun and "pass atol" not in str(caught[0].message)


@pytest.mark.parametrize("method", ["auto", "prox-bcfw", "oca", "bmrm", "prox-bmrm", "alm", "bcfw", "mp-bcfw",
                                    "frank-wolfe"])
def test_starts_away_from_zero_end_soon(method):
    """"auto" shrank w by a factor in each of 59 rounds, until its square underflowed."""
    risk = pb.risks.MulticlassHinge(np.eye(2), [0, 1], loss=FREE)
    result = pb.minimize(risk, np.ones(4), lam=1.0, method=method)
    assert result.success and result.nit < (20 if method != "prox-bmrm" else 300)


def test_the_mean_scale_is_the_same_run():
    risk = pb.risks.MulticlassHinge(np.eye(2), [0, 1])
    summed = pb.minimize(risk, np.ones(4), lam=2e-14, method="oca")
    mean = pb.minimize(risk, np.ones(4), lam=1e-14, method="oca", scale="mean")
    assert mean.nit == summed.nit and mean.fun == 0.5 * summed.fun
    assert "atol 2e-12" in summed.message and "atol 1e-12" in mean.message


def test_both_tolerances_are_told_apart():
    w0, fun = np.zeros(4), lambda w: (np.abs(w - 1.0).sum(), np.sign(w - 1.0))
    assert pb.minimize(fun, w0, lam=1.0).message.startswith("the certified gap is within the tolerance (gap ")
    at = np.arange(1.0, 5.0)
    loose = pb.minimize(lambda w: (np.abs(w - at).sum(), np.sign(w - at)), w0, lam=0.3, tol=1e-9, atol=5.0,
                        method="bmrm")
    assert loose.message.startswith("fun - lower_bound is within atol 5 (gap ")
    assert loose.success and loose.gap <= 1e-9 and loose.fun - loose.lower_bound > 1e-9 * loose.fun


def test_advice_near_zero_is_to_pass_atol():
    with pytest.warns(pb.ConvergenceWarning, match="the objective is about 0: pass atol, ") as caught:
        result = pb.minimize(absolute, np.ones(4), lam=1.0, atol=0.0, max_iter=20)
    assert not result.success and "scale X" not in str(caught[0].message)
    holds = float(result.message.split("pass atol, ")[1].split()[0])
    assert pb.minimize(absolute, np.ones(4), lam=1.0, atol=holds, max_iter=20).success


def test_a_warm_start_keeps_the_size_of_the_objective():
    """A share of what the run before has reached could not be met."""
    risk = pb.risks.MulticlassHinge(np.eye(2), [0, 1])
    first = pb.minimize(risk, np.ones(4), lam=1e-14, method="oca")
    second = pb.minimize(risk, lam=5e-15, method="oca", warm_start=first)
    assert first.success and second.success and second.fun < 1e-14 and "atol 2e-12" in second.message
    results = pb.path(absolute, [10.0, 1.0, 0.1], w0=np.ones(4))
    assert all(result.success and result.nit < 50 for result in results)


@pytest.mark.parametrize("method", ["oca", "auto", "prox-bcfw", "alm", "frank-wolfe"])
def test_a_resumed_run_ends_where_the_other_did(method, tmp_path):
    risk = pb.risks.MulticlassHinge(np.eye(2), [0, 1], loss=FREE)
    whole = pb.minimize(risk, np.ones(4), lam=1.0, method=method)
    with warnings.catch_warnings(action="ignore"):
        for limit in range(1, whole.nit):
            pb.minimize(risk, np.ones(4), lam=1.0, method=method, checkpoint=tmp_path / "run.npz", max_iter=limit)
    result = pb.minimize(risk, np.ones(4), lam=1.0, method=method, checkpoint=tmp_path / "run.npz")
    assert (result.fun, result.lower_bound, result.nit, result.message) == (
        whole.fun, whole.lower_bound, whole.nit, whole.message)


@pytest.mark.parametrize("method", ["auto", "bmrm"])
def test_a_bound_that_crosses_the_value_names_the_check(method):
    """The advice was to raise tol, beside a gap of 0."""
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((200, 5)), np.random.default_rng(9).standard_normal(200)

    def fun(w):         # subgradients 1 % too short
        return np.abs(A @ w - y).sum(), 0.99 * A.T @ np.sign(A @ w - y)

    with pytest.raises(pb.OracleError, match=r"the bound and the value cross: pb.check_oracle\(risk\)") as caught:
        pb.minimize(fun, np.zeros(5), lam=1.0, tol=1e-8, method=method)
    result = caught.value.result
    assert not result.success and not result.certified and result.lower_bound == -np.inf
    assert not pb.check_oracle(fun, w0=np.zeros(5))


@pytest.mark.parametrize("kind", RISKS)
@pytest.mark.parametrize("at", [0.0, 1e6])
def test_the_best_constant_is_that_of_the_loss(kind, at):
    """It was the median for all losses: far too large an F for a quantile of 0.99 and for one per cent of positives.

    The line search, too, took two pieces of the Huber loss with delta = 1 for one: 126 instead of 76.
    """
    rng = np.random.default_rng(0)
    y, c = rng.standard_exponential(200), rng.integers(0, 3, 200).astype(float)
    t = y + at if is_regression(kind) else np.where(y > 4.0, 1, -1)
    for options in ({"quantile": 0.01}, {"quantile": 0.99}) if kind is pb.risks.Pinball else ({},):
        risk = kind(rng.standard_normal((200, 2)), t, sample_weight=c, fit_intercept=True, **options).centred()
        best, value, *_ = risk.constant
        labels = np.asarray(risk.labels)

        def total(b, risk=risk, labels=labels):
            return float(sum(Fraction(weight) * exact_loss(risk, Fraction(label), Fraction(b))
                             for label, weight in zip(labels.tolist(), c.tolist(), strict=True)))
        assert abs(total(best) - value) <= 1e-12 * value
        for b in best + np.array([-1.0, -0.1, -1e-3, 1e-3, 0.1, 1.0]):
            assert value <= (1.0 + 1e-12) * total(float(b))
        assert abs(risk.evaluate(np.array([0.0, 0.0, best]))[0].sum() - value) <= 1e-12 * value


def test_a_column_of_ones_does_not_widen_atol():
    """F(0) of targets near 1e6 is far above the loss that columns leave; the default of atol followed from it."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(200), rng.standard_normal((200, 3))])
    risk = pb.risks.Absolute(X, 1e6 + X[:, 1:].sum(axis=1) + rng.standard_normal(200))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        result = pb.minimize(risk, lam=1e-12, tol=0.0, method="interior-point")
    assert not result.success or result.fun - result.lower_bound <= SHARE * risk.constant.value


@pytest.mark.parametrize("kind, methods", [
    (pb.risks.BinaryHinge, ["auto", "interior-point", "oca", "prox-bcfw"]),
    (pb.risks.SquaredHinge, ["auto", "oca", "newton", "lbfgs"]),
    (pb.risks.Logistic, ["auto", "oca", "newton", "lbfgs"])])
@pytest.mark.parametrize("far", [0.0, 1e4])
def test_one_class_of_no_weight_is_solved_at_zero(kind, methods, far):
    """F is 0 at the first point, so that atol was 0, too: rounding alone kept the gap open, and the run stalled."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(40) < 0.5, 1, -1)
    risk = kind(rng.standard_normal((40, 3)) + far, y, sample_weight=(y > 0).astype(float), fit_intercept=True)
    for method in methods:
        for tol in (1e-2, 1e-7, 0.0):
            with warnings.catch_warnings(action="error"):
                result = pb.minimize(risk, lam=1.0, method=method, tol=tol)
            assert result.success and result.fun + result.error - result.lower_bound <= 1e-9
            assert result.gap <= (tol or 1.0)


def test_a_rounding_error_as_large_as_losses_is_no_success():
    """Products of 1e15 cancel: the margin is 1.8 as computed, hence F = 0 = the bound, but its error is above 1."""
    risk = pb.risks.BinaryHinge([[1e15, 1e15]], [1], n_classes=2)
    with warnings.catch_warnings(action="ignore"):
        result = pb.minimize(risk, np.array([1.0, 2.0**-49 - 1.0]), penalty=pb.prox.Ball(2.0), max_iter=1)
    assert result.fun == result.lower_bound == 0.0 and not result.success and result.error > 0.1


@pytest.mark.parametrize("kind", ["hinge", "classes", "graph"])
def test_losses_far_below_rounding_are_no_success_at_a_centre(kind):
    """F(0) is about 1e-14, and F is about 0 at the centre as computed, but with a larger rounding error."""
    x, costs, centre = np.array([[500.0, 500.0]]), 1e-14 * (1.0 - np.eye(2)), np.array([1.0, 2.0**-40 - 1.0])
    graph = pb.models.BinaryLabeling(2, 1, loss="hamming", class_weights=[1e-14, 1e-14])
    risk, centre = {
        "hinge": lambda: (pb.risks.MulticlassHinge(x, [0], n_classes=2, loss=costs), np.r_[centre, 0.0, 0.0]),
        "classes": lambda: (pb.risks.Structured(pb.models.Multiclass(2, 2, loss=costs), x, [0]),
                            np.r_[centre, 0.0, 0.0]),
        "graph": lambda: (pb.risks.Structured(graph, [pb.Graph(x, np.empty((0, 2), int), np.empty((0, 1)))], [[1]]),
                          np.r_[centre, 0.0])}[kind]()
    with warnings.catch_warnings(action="ignore"):
        result = pb.minimize(risk, centre, penalty=pb.prox.SquaredL2(1e-40, centre=centre), max_iter=5)
    assert result.lower_bound == 0.0 and (not result.success or result.error < 1e-16)


@pytest.mark.parametrize("kind", ["classes", "Huber", "FScore", "PrecisionAtK", "chain", "costs", "dear costs"])
def test_a_centre_without_any_loss_is_the_minimum(kind):
    """F is 0 at the centre but for rounding, so that atol was about 0: runs went on for 300 passes, and then warned."""
    X = np.random.default_rng(0).standard_normal((40, 3))
    X[:, 0] += 10.0 * np.sign(X[:, 0])
    W, signs = 50.0 * np.array([[1.0, 0.1, 0.0], [-1.0, 0.0, 0.1], [0.0, 0.0, 0.0]]), np.sign(X[:, 0])
    y, size = (X @ W.T).argmax(axis=1), 1e6 if kind == "dear costs" else 1.0
    optimizer = pb.models.Optimizer(lambda costs: np.eye(3)[costs.argmin(axis=1)], 3, 3)
    chain, even = pb.models.Chain(3, 3), np.split(np.arange(40), 10)
    risk, centre = {
        "classes": lambda: (pb.risks.MulticlassHinge(X, y, n_classes=3), W.ravel()),
        "Huber": lambda: (pb.risks.Huber(X, X @ W[0]), W[0]),
        "FScore": lambda: (pb.risks.FScore(X, signs), W[0]),
        "PrecisionAtK": lambda: (pb.risks.PrecisionAtK(X, signs, 5), W[0]),
        "chain": lambda: (pb.risks.Structured(chain, [X[rows] for rows in even], [y[rows] for rows in even]),
                          np.r_[W.ravel(), np.zeros(chain.dim - 9)])}.get(
        kind, lambda: (pb.risks.Structured(optimizer, X, size * X @ W.T), size * W.ravel()))()
    for method in ("auto", "oca"):
        with warnings.catch_warnings(action="error"):
            result = pb.minimize(risk, penalty=pb.prox.SquaredL2(1.0, centre=centre), tol=1e-3, max_iter=50,
                                 method=method)
        assert result.success and result.fun - result.lower_bound <= 1e-9 * size and result.gap <= 1e-3
