"""A call that fails leaves a learner as it was, whatever it had begun to change."""

import warnings

import numpy as np
import pytest

import pybundle as pb
from pybundle.mkl import Features, Gaussian, Linear, OnlineMKL, OnlineProximal
from pybundle.mkl.online_learner import best_rate
from pybundle.prox import L1, SquaredL2


def chains(n=20, d=4, K=3, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.standard_normal((rng.integers(2, 5), d)) for _ in range(n)]
    return X, [np.argmax(x[:, :K], axis=1).astype(np.int32) for x in X]


def state(learner):
    """Everything that a user or a later call can see."""
    found = {name: getattr(learner, name) for name in ("norms_", "weights_", "n_rounds_", "eta0_", "coef_")
             if hasattr(learner, name)}
    history = {name: learner.history_[name].copy() for name in learner.history_}
    return {**found, **history}


def assert_same(one, two):
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("groups", [
    [Features(slice(0, 2)), Features(slice(2, 4))], [Linear(normalise=False), Gaussian(2.0)],
    [Features(), Gaussian(2.0)], [Linear(normalise=False, low_rank=3)], "weights",
], ids=["features", "kernels", "mixed", "low rank", "weights"])
def test_partial_fit_that_overflows(groups, average):
    X, Y = chains()
    model = pb.models.Chain(3, 4)
    if isinstance(groups, str):
        groups = np.arange(model.dim) % 2
    learner, twin = (OnlineMKL(groups, model=model, lam=0.01, eta0=1.0, n_epochs=2, average=average,
                               random_state=0).fit(X, Y) for _ in range(2))
    before, scores = state(learner), learner.predict(X)
    # good examples first, as the order is drawn: changes are made before the scores overflow
    bad = [*X, *(np.full((3, 4), 1e180) for _ in range(3))]
    labels = [*Y, *(np.array([0, 1, 2], dtype=np.int32) for _ in range(3))]
    with warnings.catch_warnings(), pytest.raises((pb.BundleError, RuntimeWarning)):
        warnings.simplefilter("ignore", RuntimeWarning)
        learner.partial_fit(bad, labels)
    assert_same(state(learner), before)
    for one, two in zip(learner.predict(X), scores, strict=True):
        np.testing.assert_array_equal(one, two)
    # and it goes on as if nothing had been, random order included
    learner.partial_fit(X, Y)
    twin.partial_fit(X, Y)
    np.testing.assert_allclose(learner.norms_, twin.norms_, rtol=1e-12)
    for one, two in zip(learner.predict(X), twin.predict(X), strict=True):
        np.testing.assert_array_equal(one, two)


def test_first_call_that_overflows():
    X, Y = chains()
    learner = OnlineMKL([Features()], model=pb.models.Chain(3, 4), eta0=1.0, random_state=0)
    with pytest.raises(pb.NumericalError, match="eta0"):
        learner.partial_fit([x * 1e200 for x in X], Y)
    with pytest.raises(pb.StateError):
        learner.predict(X)


def test_callback_that_fails():
    X, Y = chains()
    learner = OnlineMKL([Features()], model=pb.models.Chain(3, 4), eta0=1.0, random_state=0).fit(X, Y)
    before = state(learner)

    def fail(learner):
        raise ZeroDivisionError

    learner.callback = fail
    for call in (learner.partial_fit, learner.fit):
        with pytest.raises(ZeroDivisionError):
            call(X, Y)
        assert_same(state(learner), before)


@pytest.mark.parametrize("regulariser", [SquaredL2(0.1), L1(1e-3, np.repeat([0, 1], 6))])
@pytest.mark.parametrize("average", [False, True])
def test_online_proximal(regulariser, average):
    X, y = (np.concatenate(part) for part in chains())
    learner, twin = (OnlineProximal(pb.models.Multiclass(3, 4), regulariser, eta0=0.5, n_epochs=2, average=average,
                                    random_state=0).fit(X, y) for _ in range(2))
    before = state(learner)
    bad = np.concatenate([X, np.full((3, 4), 1e180)])
    for call in (learner.partial_fit, learner.fit):
        with warnings.catch_warnings(), pytest.raises((pb.BundleError, RuntimeWarning)):
            warnings.simplefilter("ignore", RuntimeWarning)
            call(bad, np.concatenate([y, [0, 1, 2]]))
        assert_same(state(learner), before)
    np.testing.assert_allclose(learner.partial_fit(X, y).coef_, twin.partial_fit(X, y).coef_, rtol=1e-12)


def test_rates_that_overflow_are_not_chosen():
    def trial(eta0):
        if eta0 > 0.1:
            raise pb.NumericalError("scores went beyond the range of float64")
        return -eta0

    assert best_rate(trial) == 0.1
