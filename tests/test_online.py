"""Online proximal learning, Algorithm 1: steps, averages, regret, bad input."""

import numpy as np
import pytest

import pybundle as pb
from pybundle.mkl import OnlineProximal
from pybundle.mkl.settings import Rate
from pybundle.prox import L1, ElasticNet, SparseGroupLasso, SquaredL1, SquaredL2, project_l2_ball

GROUPS = np.repeat([0, 1, 2], 4)


def data(n=50, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    return X, np.argmax(X @ rng.standard_normal((3, 4)).T + 0.3 * rng.standard_normal((n, 3)), axis=1)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("regularisers", [
    [L1(0.02), L1(0.02, GROUPS)], SparseGroupLasso(GROUPS, 0.02, 0.02), SquaredL1(0.05, GROUPS), ElasticNet(0.02, 0.1),
], ids=["l1 then groups", "sparse groups", "squared l2,1", "elastic net"])
@pytest.mark.parametrize(("rate", "radius"), [("invsqrt", None), ("fixed", 0.7), ("strong", None)])
def test_rounds_are_those_of_the_algorithm(loss, regularisers, rate, radius):
    X, y = data()
    model = pb.models.Multiclass(3, 4)
    learner = OnlineProximal(model, regularisers, loss=loss, rate=rate, eta0=0.5, sigma=2.0, n_epochs=4, batch=3,
                             radius=radius, average=True, random_state=0).fit(X, y)
    oracle, rng, theta, points, total = model.oracle(X, y), np.random.default_rng(0), np.zeros(12), [], 0.0
    etas = Rate(rate, 0.5, 2.0)(1, 68)
    listed = regularisers if isinstance(regularisers, list) else [regularisers]
    batches = [rows for _ in range(4) for rows in np.split(rng.permutation(50), range(3, 50, 3))]
    for rows, eta in zip(batches, etas, strict=True):
        slope = np.zeros(12)
        if loss == "logistic":
            values, _ = oracle.marginals_batch(rows, oracle.prepare(theta), np.ones(len(rows)), slope)
        else:
            found = oracle.solve_batch(rows, oracle.prepare(theta))
            oracle.add_planes(rows, found.labellings, np.ones(len(rows)), slope)
            values = found.uppers
        total += values.mean() + sum(R.value(theta) for R in listed)
        theta = theta - eta * slope / len(rows)
        for R in listed:
            theta = R.prox(theta, eta)
        theta = theta if radius is None else project_l2_ball(theta, radius)
        points.append(theta)
    np.testing.assert_allclose(learner.coef_, np.mean(points, axis=0), atol=1e-12)
    assert abs(learner.history_["online"].sum() * 17 - total) < 1e-9


@pytest.mark.parametrize(("rate", "radius"), [("fixed", None), ("invsqrt", 3.0)])
def test_regret_stays_below_its_bound(rate, radius):
    X, y = data(n=100)
    model, lam = pb.models.Multiclass(3, 4), 0.1
    risk = pb.risks.Structured(model, X, y)
    best = pb.minimize(risk, lam=lam * 100, tol=1e-6).x
    assert radius is None or np.linalg.norm(best) < radius
    learner = OnlineProximal(model, SquaredL2(lam), rate=rate, eta0=0.3, n_epochs=10, radius=radius, random_state=0)
    found = learner.fit(X, y).regret(best, risk.values(best)[0].sum() / 100)
    assert found.regret <= found.bound < np.inf
    assert found.regret > -1e-9 * learner.n_rounds_     # the best fixed point is no worse than points of the future


def test_partial_fit_and_automatic_rate():
    X, y = data(n=120)
    pieces = OnlineProximal(pb.models.Multiclass(3, 4), L1(1e-3, GROUPS), random_state=0)
    for first in range(0, 120, 40):
        pieces.partial_fit(X[first:first + 40], y[first:first + 40])
    assert pieces.eta0_ in (0.01, 0.1, 1.0, 10.0)
    assert pieces.n_rounds_ == 120
    assert pieces.score(X, y) > 0.75


@pytest.mark.parametrize(("options", "words"), [
    ({"rate": "slow"}, "rate"), ({"eta0": np.nan}, "eta0"), ({"eta0": -1.0}, "eta0"), ({"batch": 0}, "batch"),
    ({"regularisers": []}, "regularisers"), ({"regularisers": 3.0}, "regularisers"), ({"loss": "square"}, "loss"),
    ({"radius": 0.0}, "radius"), ({"regularisers": L1(1.0, [slice(0, 5), slice(4, 12)])}, "overlap"),
    ({"regularisers": L1(1.0, [slice(0, 5)])}, "feature"),
])
def test_bad_parameters_leave_the_learner_as_it_was(options, words):
    X, y = data()
    learner = OnlineProximal(pb.models.Multiclass(3, 4), L1(0.1), eta0=1.0, random_state=0).fit(X, y)
    before = learner.coef_
    for name, value in options.items():
        setattr(learner, name, value)
    with pytest.raises((pb.ParameterError, pb.InputTypeError), match=words):
        learner.fit(X, y)
    assert learner.coef_ is before
    with pytest.raises(pb.StateError, match="fit"):
        OnlineProximal(pb.models.Multiclass(3, 4), L1(0.1)).predict(X)
