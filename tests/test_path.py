"""Intervals of lam: one of a few results is a certified answer at every lam."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signs import signed
from test_minimize import multiclass

import pybundle as pb
from pybundle.solvers.lam_range import gap_at, reach


def objective(risk, lam, w, scale="sum"):
    share = risk.n_examples if scale == "mean" else 1
    return 0.5 * lam * w @ w + np.sum(risk.evaluate(w)[0]) / share


@pytest.mark.parametrize("method", ["auto", "oca", "bcfw"])
@pytest.mark.parametrize("scale", ["sum", "mean"])
def test_every_lam_of_an_interval_is_certified(method, scale):
    risk = multiclass(n=100)
    high, low, tol = (50.0, 0.05, 0.02) if scale == "sum" else (0.25, 2.5e-4, 0.02)
    results = pb.path(risk, (low, high), interval=True, tol=tol, method=method, scale=scale)
    assert results[0].lam_range[1] == high and results[-1].lam_range[0] == low
    assert all(a.lam_range[0] == b.lam_range[1] == b.lam for a, b in pairwise(results))
    rng = np.random.default_rng(0)
    for result in results:
        for lam in rng.uniform(*result.lam_range, 2):
            exact = pb.minimize(risk, lam=lam, tol=1e-6, scale=scale)
            value = objective(risk, lam, result.x, scale)
            proven = gap_at(result, result.lam, lam)
            assert (value - exact.fun) / value <= proven * (1 + 1e-9) <= tol * (1 + 1e-9)


def test_a_reach_is_much_longer_than_the_tolerance():
    risk = multiclass(n=200)
    result = pb.minimize(risk, lam=1.0, tol=1e-4)
    assert reach(result, 1.0, 1e-3, 0.01) < 0.9         # about 1 - sqrt(tol)
    assert gap_at(result, 1.0, 1.0) == pytest.approx(result.gap, rel=1e-6)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 1000), tol=st.floats(1e-4, 0.5), spread=st.floats(1.0, 1e4))
def test_the_proven_gap_holds_inside_what_is_reached(seed, tol, spread):
    risk = multiclass(n=40, seed=seed)
    result = pb.minimize(risk, lam=1.0, tol=min(tol, 0.1))
    low = reach(result, 1.0, 1.0 / spread, tol)
    assert 1.0 / spread <= low <= 1.0
    if result.gap <= tol:
        assert low < 1.0 or spread == 1.0 or gap_at(result, 1.0, 1.0 - 1e-9) > tol
        for lam in np.geomspace(low, 1.0, 7):
            assert gap_at(result, 1.0, lam) <= tol * (1 + 1e-9) + 1e-12


def test_weights_that_must_not_be_negative():
    risk = multiclass(n=120)
    nonneg = np.zeros(risk.dim, bool)
    nonneg[::3] = True
    with_signs = multiclass(n=120)
    with_signs.nonneg = nonneg
    results = pb.path(with_signs, (10.0, 0.1), interval=True, tol=0.02)
    for result in results:
        lam = np.mean(result.lam_range)
        exact = pb.minimize(risk, penalty=signed(lam, nonneg), tol=1e-5)
        assert (result.x[nonneg] >= 0.0).all() and objective(risk, lam, result.x) <= exact.fun / (1 - 0.02)


def test_an_interval_ends_where_a_run_does():
    risk = multiclass(n=200)
    with pytest.warns(pb.ConvergenceWarning):
        results = pb.path(risk, (10.0, 1e-3), interval=True, tol=1e-4, max_iter=1)
    assert len(results) == 1 and results[0].lam_range is None
    with pytest.warns(pb.ConvergenceWarning):
        assert len(pb.path(risk, (1.0001, 1.0), interval=True, tol=1e-13)) == 1

    def interrupt(progress):
        raise KeyboardInterrupt
    results = pb.path(risk, (10.0, 1.0), interval=True, callback=interrupt)
    assert [r.status for r in results] == [pb.Status.INTERRUPTED] and results[0].lam_range is None


def test_an_interval_does_not_crawl():
    """Runs that end between half the tolerance and all of it have ranges, which may be too small to go on."""
    risk, limits = multiclass(n=200), {"method": "bmrm", "max_iter": 30}
    with pytest.warns(pb.ConvergenceWarning):
        gap = pb.minimize(risk, lam=1.0, tol=1e-9, **limits).gap
        results = pb.path(risk, (1.0, 0.2), interval=True, tol=1.5 * gap, **limits)
    assert len(results) > 1 and results[-1].lam_range[0] == 0.2
    risk = pb.risks.Structured(pb.models.Chain(2, 1), [np.array([[-0.00254726]]), np.array([[0.00127363]])],
                               [np.array([1]), np.array([0])], loss="logistic")
    with pytest.warns(pb.ConvergenceWarning):       # ranges of .02 % for 10^4 runs
        results = pb.path(risk, (2.3e-5, 5e-8), interval=True, method="prox-bmrm", max_iter=40, tol=0.3, scale="mean")
    assert len(results) < 5 and 0.99 < results[-1].lam_range[0] / results[-1].lam_range[1] < 1.0


def test_where_everything_smaller_is_answered():
    """Separable data: below some lam the loss is 0 and one run does for all."""
    risk = pb.risks.BinaryHinge([[1.0], [-1.0]], [1, -1])
    results = pb.path(risk, (1.0, 1e-9), interval=True, tol=0.01)
    assert results[-1].lam_range[0] == 1e-9 and len(results) < 5


def test_named_errors():
    risk = multiclass()
    with pytest.raises(pb.ParameterError, match=r"lams must be \(high, low\) with interval=True, got 3"):
        pb.path(risk, [3.0, 2.0, 1.0], interval=True)
    with pytest.raises(pb.ParameterError, match="risk must have lower_bounds >= 0"):
        pb.path(lambda w: (w.sum(), np.ones(2)), (1.0, 0.1), interval=True, w0=np.zeros(2))
    with pytest.raises(pb.ParameterError, match="tol must be"):
        pb.path(risk, (1.0, 0.1), interval=True, tol=-1.0)


@pytest.mark.parametrize("binary", [False, True])
def test_a_path_beyond_the_last_loss_costs_little(binary):
    """If no loss is left, the minimiser stays for every smaller lam, but multipliers per lam threw w far away."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % (2 if binary else 3)
    X = rng.standard_normal((60, 80)) + np.eye(3, 80)[y]
    risk = pb.risks.BinaryHinge(X, 2 * y - 1) if binary else pb.risks.MulticlassHinge(X, y)
    grid = [0.1, 0.01, 0.001, 0.0001]
    first, *others = pb.path(risk, grid, tol=1e-4, method="prox-bcfw")
    for lam, result in zip(grid[1:], others, strict=True):
        cold = pb.minimize(risk, lam=lam, tol=1e-4, method="prox-bcfw")
        assert result.success and result.n_passes < 0.5 * cold.n_passes
        assert result.lower_bound <= cold.fun and cold.lower_bound <= result.fun
        np.testing.assert_allclose(result.x, first.x, atol=0.03 * np.abs(first.x).max())


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 1000), before=st.floats(1e-3, 1e3), after=st.floats(1e-3, 1e3),
       kind=st.sampled_from(["multiclass", "binary", "pinball"]))
def test_a_warm_start_of_another_lam_bounds_the_minimum(seed, before, after, kind):
    rng = np.random.default_rng(seed)
    target = rng.standard_normal(30)
    X, weights = rng.standard_normal((30, 4)) * 10.0 ** rng.uniform(-3.0, 3.0), rng.uniform(0.0, 2.0, 30)
    y = np.arange(30) % 3
    risk = {"multiclass": lambda: pb.risks.MulticlassHinge(X, y, sample_weight=weights),
            "binary": lambda: pb.risks.BinaryHinge(X, 2 * (y > 0) - 1, sample_weight=weights),
            "pinball": lambda: pb.risks.Pinball(X, target, quantile=0.3, sample_weight=weights)}[kind]()
    start = pb.minimize(risk, lam=before, method="prox-bcfw", tol=1e-3, max_iter=20)
    warm = pb.minimize(risk, lam=after, method="prox-bcfw", tol=1e-9, max_iter=1, warm_start=start)
    cold = pb.minimize(risk, lam=after, tol=1e-6, max_iter=100)
    assert warm.lower_bound <= cold.fun and cold.lower_bound <= warm.fun
