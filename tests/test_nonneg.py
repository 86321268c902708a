"""Weights kept at or above 0: the bound, the point and the master agree with SciPy's bounded minimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize
from signs import signed

import pybundle as pb

METHODS = ("oca", "bmrm", "prox-bmrm")


def logistic(n=80, d=12, seed=0, **kw):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 0.3
    return pb.risks.Logistic(X, np.where(X @ rng.normal(size=d) > 0, 1, -1), **kw)


def reference(risk, lam, nonneg):
    def fun(w):
        values, slopes = risk.evaluate(w)
        return 0.5 * lam * w @ w + values.sum(), lam * w + slopes.sum(axis=0)
    bounds = [(0.0 if flag else None, None) for flag in nonneg]
    options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10}
    return scipy_minimize(fun, np.zeros(risk.dim), jac=True, bounds=bounds, options=options).fun


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_parts", [1, 4])
def test_certificate_brackets_the_constrained_minimum(method, n_parts):
    for seed, share in ((0, 0.3), (1, 1.0), (2, 0.6)):
        risk = logistic(seed=seed)
        nonneg = np.random.default_rng(seed).random(risk.dim) < share
        best = reference(risk, 0.5, nonneg)
        result = pb.minimize(risk, penalty=signed(0.5, nonneg), method=method, n_parts=n_parts, tol=1e-5)
        assert result.success and result.certified
        assert (result.x[nonneg] >= 0.0).all()
        assert result.lower_bound <= best * (1.0 + 1e-9) and best <= result.fun * (1.0 + 1e-9)
        free = pb.minimize(risk, lam=0.5, method=method, n_parts=n_parts, tol=1e-5)
        assert free.fun < best and (free.x[nonneg] < 0.0).any()


@pytest.mark.parametrize("method", METHODS)
def test_exact_line_search_and_hinge(method):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 5))
    risk = pb.risks.MulticlassHinge(X, rng.integers(0, 3, 60))
    nonneg = np.arange(15) % 2 == 0
    result = pb.minimize(risk, penalty=signed(1.0, nonneg), tol=1e-6, method=method)
    other = pb.minimize(risk, penalty=signed(1.0, nonneg), tol=1e-6, method="bmrm", n_parts=1)
    assert result.success and (result.x[nonneg] >= 0.0).all()
    assert abs(result.fun - other.fun) <= 2e-6 * other.fun
    assert (result.history["lower_bound"] <= result.fun).all()


def test_in_a_ball_sgd_and_infeasible_start():
    risk, nonneg = logistic(), np.arange(12) < 6
    ball = pb.minimize(risk, penalty=pb.prox.Ball(0.5) + pb.prox.Box(np.where(nonneg, 0.0, -np.inf)),
                       method="cutting-plane", tol=1e-5)
    assert ball.success and (ball.x[nonneg] >= 0).all() and np.linalg.norm(ball.x) <= 0.5 + 1e-9
    grid = scipy_minimize(lambda w: risk.evaluate(w)[0].sum(), np.full(12, 0.1), method="SLSQP",
                          jac=lambda w: risk.evaluate(w)[1].sum(axis=0),
                          bounds=[(0.0 if flag else None, None) for flag in nonneg],
                          constraints={"type": "ineq", "fun": lambda w: 0.25 - w @ w, "jac": lambda w: -2 * w},
                          options={"maxiter": 500, "ftol": 1e-12}).fun
    assert ball.lower_bound <= grid * (1 + 1e-7) and grid <= ball.fun * (1 + 1e-6)
    sgd = pb.minimize(risk, penalty=signed(1.0, nonneg), method="sgd", max_iter=3, random_state=0)
    assert (sgd.x[nonneg] >= 0).all() and sgd.lower_bound <= reference(risk, 1.0, nonneg)
    start = pb.minimize(risk, np.full(12, -1.0), penalty=signed(1.0, nonneg), tol=1e-4)
    assert start.success and (start.x[nonneg] >= 0).all()


def test_warm_starts_between_constrained_and_free_runs():
    risk, nonneg = logistic(), np.ones(12, bool)
    free = pb.minimize(risk, lam=1.0, tol=1e-4)
    bound = pb.minimize(risk, penalty=signed(1.0, nonneg), tol=1e-4, warm_start=free)
    again = pb.minimize(risk, lam=1.0, tol=1e-4, warm_start=bound)
    assert free.success and bound.success and again.success
    assert (bound.x >= 0).all() and (again.x < 0).any()
    assert abs(again.fun - free.fun) <= 2e-4 * free.fun < bound.fun - free.fun
    results = pb.path(risk, [pb.prox.SquaredL2(lam) + pb.prox.Box(0.0) for lam in (10.0, 1.0, 0.1)], tol=1e-4)
    assert all(result.success and (result.x >= 0).all() for result in results)


def test_a_clipped_centre_is_not_taken_for_the_point_of_the_master():
    """Products of the centre went stale where the master lacked a constraint, and "oca" stalled at a gap of 3 %."""
    rng = np.random.default_rng(2)
    n, d, K = (int(rng.integers(low, high)) for low, high in ((1, 12), (1, 6), (2, 4)))
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-2, 2) + rng.normal()
    Y, weights = rng.integers(0, K, n), rng.choice([0, 1, 0.3, 5.0], n)
    risk = pb.risks.Structured(pb.models.Multiclass(K, d), X, Y, loss="logistic", sample_weight=weights)
    result = pb.minimize(risk, penalty=signed(0.18, np.ones(K * d, bool)), n_parts=3, tol=1e-7, max_iter=60)
    assert result.success


@pytest.mark.parametrize("method", METHODS)
def test_the_memory_limit_counts_constraints(method):
    from pybundle.bundle import estimate_bytes, planes_within

    risk, nonneg = logistic(d=20), np.ones(20, bool)
    best = reference(risk, 0.5, nonneg)
    for n_planes in (6, 9, 20):
        limit = estimate_bytes(20, n_planes) + 1
        result = pb.minimize(risk, penalty=signed(0.5, nonneg), method=method, n_parts=2, tol=1e-2, memory_limit=limit,
                             max_iter=50)
        assert result.max_planes <= planes_within(limit, 20) == n_planes
        assert result.state.bundle.n_planes <= n_planes
        assert result.lower_bound <= best * (1.0 + 1e-9) and best <= result.fun * (1.0 + 1e-9)


def test_constraints_are_stored_once_and_travel_with_the_bundle(tmp_path):
    from pybundle.bundle import Bundle
    from pybundle.core.plane import Planes

    bundle = Bundle(4, 2)
    bundle.append(Planes(np.ones(2), np.ones(2), np.arange(8.0).reshape(2, 4)))
    bundle.append_signs([1, 3])
    bundle.append_signs([3, 0])
    assert sorted(bundle.parts.tolist()) == [-4, -2, -1, 0, 1]
    rows = np.vstack([np.arange(8.0).reshape(2, 4), *(-np.eye(4)[-1 - p] for p in bundle.parts if p < 0)])
    np.testing.assert_array_equal(bundle.H, rows @ rows.T)
    assert not np.signbit(bundle.H[bundle.H == 0.0]).any()      # as sums of products have it
    phi, offset = bundle.combine(np.array([0.5, 0.5, 7.0, 8.0, 9.0]))
    np.testing.assert_array_equal(phi, [2.0, 3.0, 4.0, 5.0])
    assert offset == 1.0
    bundle.save(tmp_path / "b.npz")
    loaded = Bundle.load(tmp_path / "b.npz")
    np.testing.assert_array_equal(loaded.parts, bundle.parts)
    loaded.drop_constraints()
    assert loaded.parts.tolist() == [0, 1]


def test_a_wrong_mask_is_refused():
    def with_signs(mask):
        risk = logistic()
        risk.nonneg = mask
        return risk

    with pytest.raises(pb.ParameterError, match=r"nonneg of the risk must be a bool array of .*, got dtype int64"):
        pb.minimize(with_signs(np.arange(12)), lam=1.0)
    with pytest.raises(pb.ParameterError, match=r"nonneg of the risk must be a bool array of shape \(12,\)"):
        pb.minimize(with_signs(np.ones(3, bool)), lam=1.0)
