"""Estimators of regression: scikit-learn's checks, objectives of its solvers, penalties, saving, Dask."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import QuantileRegressor as OfSklearn
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

import pybundle as pb


@parametrize_with_checks([pb.QuantileRegressor(tol=1e-9), pb.LinearSVR(tol=1e-9)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def data(n=200, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 1.0
    return X, X @ np.array([2.0, -1.0, 0.0, 0.0, 0.5]) + 3.0 + rng.standard_t(3, n), rng.integers(1, 4, n).astype(float)


def pinball(model, X, y, q, alpha, ratio, weights):
    u, w = y - X @ model.coef_ - model.intercept_, model.coef_
    return (np.average(np.maximum(q * u, (q - 1.0) * u), weights=weights)
            + alpha * (ratio * np.abs(w).sum() + (1.0 - ratio) / 2 * w @ w))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("q", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("alpha", [0.0, 0.02, 0.3])
def test_the_objective_is_that_of_scikit_learn(fit_intercept, q, alpha):
    X, y, weights = data()
    ours = pb.QuantileRegressor(quantile=q, alpha=alpha, fit_intercept=fit_intercept, tol=1e-7).fit(X, y, weights)
    theirs = OfSklearn(quantile=q, alpha=alpha, fit_intercept=fit_intercept).fit(X, y, weights)
    value = pinball(theirs, X, y, q, alpha, 1.0, weights)
    assert ours.converged_ and ours.certified_
    assert np.isclose(ours.objective_, pinball(ours, X, y, q, alpha, 1.0, weights), rtol=1e-12)
    assert ours.lower_bound_ <= value * (1 + 1e-12) and ours.objective_ <= value * (1 + 1e-7)
    if alpha == 0.3:
        assert (ours.coef_ == 0.0).any()
    assert np.isclose(ours.score(X, y), theirs.score(X, y), atol=0.02)


@pytest.mark.parametrize("ratio", [0.0, 0.3])
def test_squares_and_mixtures(ratio):
    X, y, weights = data()
    for fit_intercept in (True, False):
        model = pb.QuantileRegressor(alpha=0.1, l1_ratio=ratio, tol=1e-6, fit_intercept=fit_intercept)
        model.fit(X, y, weights)
        assert model.converged_
        assert np.isclose(model.objective_, pinball(model, X, y, 0.5, 0.1, ratio, weights), rtol=1e-12)
        rng = np.random.default_rng(0)
        for _ in range(20):
            other = pb.QuantileRegressor().set_params(**model.get_params())
            other.coef_ = model.coef_ + 1e-2 * rng.standard_normal(5)
            other.intercept_ = model.intercept_ + fit_intercept * 1e-2 * rng.standard_normal()
            assert pinball(other, X, y, 0.5, 0.1, ratio, weights) >= model.lower_bound_


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_support_vector_regression_is_libsvm(C):
    X, y, weights = data(100)
    ours = pb.LinearSVR(C=C, epsilon=0.3, tol=1e-8).fit(X, y, weights)
    theirs = SVR(kernel="linear", C=C, epsilon=0.3, tol=1e-8).fit(X, y, weights)

    def fun(w, b):
        return w @ w / (2 * C) + weights @ np.maximum(np.abs(X @ w + b - y) - 0.3, 0.0)
    assert ours.converged_ and ours.objective_ <= fun(theirs.coef_[0], theirs.intercept_[0]) * (1 + 1e-8)
    assert np.isclose(ours.objective_, fun(ours.coef_, ours.intercept_), rtol=1e-12)
    np.testing.assert_allclose(ours.coef_, theirs.coef_[0], atol=1e-3)         # the intercept need not be unique


def test_an_uncentred_column_changes_nothing():
    X, y, _ = data()
    one, other = (pb.QuantileRegressor(alpha=0.01, tol=1e-6).fit(X + shift, y) for shift in (0.0, 100.0))
    assert one.converged_ and other.converged_ and np.isclose(one.objective_, other.objective_, rtol=3e-6)
    assert other.n_passes_ <= 2 * one.n_passes_
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-3)


def test_sparse_single_precision_and_pipelines(tmp_path):
    X, y, weights = data()
    X = np.where(np.abs(X) > 1.0, X, 0.0)
    dense = pb.QuantileRegressor(alpha=0.01, tol=1e-6).fit(X, y, weights)
    for other in (sp.csr_matrix(X), X.astype(np.float32)):
        model = pb.QuantileRegressor(alpha=0.01, tol=1e-6).fit(other, y, weights)
        assert model.converged_ and np.isclose(model.objective_, dense.objective_, rtol=1e-5)
        np.testing.assert_allclose(model.predict(other), dense.predict(X), atol=5e-3)
    dense.save(tmp_path / "model.npz")
    loaded = pb.load(tmp_path / "model.npz")
    assert np.array_equal(loaded.predict(X), dense.predict(X)) and loaded.objective_ == dense.objective_


def test_a_warm_start_needs_fewer_passes():
    X, y, _ = data(2000)
    model = pb.QuantileRegressor(alpha=0.01, tol=1e-6, warm_start=True).fit(X, y)
    cold = model.n_passes_
    assert model.fit(X, y).n_passes_ <= cold / 2
    model.set_params(alpha=0.011).fit(X, y)
    assert model.converged_ and model.n_passes_ < cold


@pytest.mark.parametrize("parameters", [{"quantile": 1.5}, {"alpha": -1.0}, {"l1_ratio": 2.0}, {"fit_intercept": "no"},
                                        {"method": "bcfw"}, {"tol": -1.0}])
def test_wrong_parameters_are_named(parameters):
    X, y, _ = data(50)
    name = next(iter(parameters))
    with pytest.raises((ValueError, TypeError), match=name):
        pb.QuantileRegressor(**parameters).fit(X, y)
    with pytest.raises(ValueError, match="epsilon"):
        pb.LinearSVR(epsilon=-1.0).fit(X, y)


QUANTILES = [0.1, 0.5, 0.9]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 0.02])
def test_several_quantiles_are_separate_fits(alpha, fit_intercept):
    X, y, weights = data()
    options = {"alpha": alpha, "fit_intercept": fit_intercept, "tol": 1e-7}
    model = pb.QuantileRegressor(quantile=np.array(QUANTILES), **options).fit(X, y, weights)
    assert model.coef_.shape == (3, 5) and model.intercept_.shape == (3,) and model.predict(X).shape == (200, 3)
    assert model.converged_.all() and model.certified_.all() and (model.gap_ <= 1e-7).all()
    for k, q in enumerate(QUANTILES):
        alone = pb.QuantileRegressor(quantile=q, **options).fit(X, y, weights)
        assert model.lower_bound_[k] <= alone.objective_ and alone.lower_bound_ <= model.objective_[k]
        other = copy.copy(alone)
        other.coef_, other.intercept_ = model.coef_[k], model.intercept_[k]
        assert np.isclose(model.objective_[k], pinball(other, X, y, q, alpha, 1.0, weights), rtol=1e-12)
        np.testing.assert_allclose(model.predict(X)[:, k], other.predict(X), rtol=1e-12)
        rows = model.history_["quantile"] == q
        assert rows.sum() == model.n_iter_[k] and model.history_["gap"][rows][-1] <= 1e-7
    assert len(model.certificate_) == 3
    one = pb.QuantileRegressor(quantile=(0.1,), **options).fit(X, y, weights)
    assert one.coef_.shape == (1, 5) and one.objective_[0] == model.objective_[0]


def test_several_quantiles_start_from_each_other_and_from_the_last_fit():
    X, y, _ = data(2000)
    options = {"alpha": 0.001, "tol": 1e-6, "method": "oca"}
    model = pb.QuantileRegressor(quantile=[0.1, 0.25, 0.5, 0.75, 0.9], warm_start=True, **options).fit(X, y)
    cold = model.n_passes_
    alone = sum(pb.QuantileRegressor(quantile=q, **options).fit(X, y).n_passes_ for q in model.quantile)
    assert cold.sum() < 1.1 * alone
    assert model.fit(X, y).n_passes_.sum() <= cold.sum() / 2
    for quantile, shape in ((0.5, (5,)), ([0.2, 0.8], (2, 5)), ([0.3, 0.7], (2, 5)), (0.4, (5,))):
        model.set_params(quantile=quantile).fit(X, y)           # of another kind, or of other quantiles
        assert model.coef_.shape == shape and np.all(model.converged_)
        assert np.shape(model.gap_) == np.shape(quantile)
    model.set_params(quantile=QUANTILES).fit(X[:, :2], y)
    assert model.coef_.shape == (3, 2) and model.n_features_in_ == 2


def test_several_quantiles_in_files_pickles_and_clones(tmp_path):
    X, y, _ = data(60)
    model = pb.QuantileRegressor(quantile=QUANTILES, alpha=0.05, warm_start=True).fit(X.astype(np.float32), y)
    model.save(tmp_path / "model.npz")
    for other in (pb.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.predict(X), model.predict(X)) and other.quantile == QUANTILES
        assert np.array_equal(other.gap_, model.gap_) and other.history_.keys() == model.history_.keys()
        assert other.fit(X, y).converged_.all()
    assert model.predict(X.astype(np.float32)).dtype == np.float64     # targets may be too large for float32
    np.testing.assert_allclose(clone(model).fit(sp.csr_array(X), y).objective_, model.objective_, rtol=2e-5)
    for name, value in (("gap_", model.gap_[:2]), ("coef_", model.coef_[:, :4]), ("objective_", model.objective_ - 9)):
        broken = copy.copy(model)
        vars(broken)[name] = value
        broken.save(tmp_path / "broken.npz")
        with pytest.raises(pb.StateError):
            pb.load(tmp_path / "broken.npz")


@pytest.mark.parametrize(("quantile", "words"), [
    ([0.1, 1.0], r"quantile\[1\] must be a finite number > 0 and < 1, got 1.0"),
    ((0.0, 0.5), r"quantile\[0\]"), ([0.1, np.nan], r"quantile\[1\]"), ([0.1, "half"], r"quantile\[1\]"),
    ([0.1, [0.2]], r"quantile\[1\]"), (np.full((2, 2), 0.5), r"quantile\[0\]"), ([], "quantile must be a number"),
    ("half", "quantile must be a real number"), (None, "quantile must be a real number"),
    ({0.1, 0.9}, "quantile must be a real number"),
])
def test_wrong_quantiles_are_named_with_their_index(quantile, words):
    X, y, _ = data(50)
    model = pb.QuantileRegressor(quantile=quantile)
    with pytest.raises((pb.ParameterError, pb.InputTypeError), match=words):
        model.fit(X, y)
    assert not any(name.endswith("_") for name in vars(model))


def test_the_score_of_several_quantiles_is_the_mean_of_their_d2():
    """Written out: 1 minus the loss over that of the best constant; a search over sequences of quantiles works."""
    X, y, weights = data()
    model = pb.QuantileRegressor(quantile=QUANTILES, alpha=0.01).fit(X, y)
    scores = []
    for q, predicted in zip(QUANTILES, model.predict(X).T, strict=True):
        losses = [np.maximum(q * (y - z), (q - 1.0) * (y - z)).mean() for z in (predicted, *y)]
        scores.append(1.0 - losses[0] / min(losses[1:]))
    np.testing.assert_allclose(model.score(X, y), np.mean(scores), rtol=1e-2)
    assert model.score(X, y, weights) != model.score(X, y) < 1.0
    constant = pb.QuantileRegressor(quantile=QUANTILES, alpha=1e3).fit(X, y)
    assert abs(constant.score(X, y)) < 1e-2
    search = GridSearchCV(pb.QuantileRegressor(quantile=QUANTILES), {"alpha": [1e3, 0.01]}, cv=2).fit(X, y)
    assert search.best_params_ == {"alpha": 0.01}
    search = GridSearchCV(pb.QuantileRegressor(alpha=0.01), {"quantile": [[0.1, 0.9], [0.4, 0.6]]}, cv=2).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_one_wrong_fit_of_several_leaves_the_estimator_as_it_was():
    X, y, _ = data(50)
    model = pb.QuantileRegressor(quantile=QUANTILES, alpha=0.1).fit(X, y)
    before, calls = model.coef_, []

    def interrupt(progress):
        calls.append(progress.estimator.quantile)
        if calls[-1] == 0.9:
            raise RuntimeError("stop")
    with pytest.raises(RuntimeError, match="stop"):
        model.set_params(callback=interrupt).fit(X[:, :3], y)
    assert model.coef_ is before and model.n_features_in_ == 5 and sorted(set(calls)) == QUANTILES
    with pytest.raises(pb.ParameterError, match="quantile must hold the 3 quantiles of the fit"):
        model.set_params(quantile=[0.5]).score(X, y)
    with pytest.raises(pb.InputTypeError, match="warm_start"):
        model.set_params(warm_start="yes").fit(X, y)
