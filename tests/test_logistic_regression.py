"""Multinomial logistic regression: scikit-learn's checks and optima, free intercepts, probabilities."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import pybundle as pb


# a small C: copies and weights of rows must agree to 1e-9, which a flat minimum does not give
# few iterations: all later ones are at the level of rounding, where no gap of 1e-14 can be proven
@parametrize_with_checks([pb.MulticlassLogistic(C=0.01, tol=1e-14, max_iter=60)])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def blobs(n_classes, n=90, d=5):
    rng = np.random.default_rng(4)
    y = np.arange(n) % n_classes
    return rng.standard_normal((n, d)) + rng.standard_normal((n_classes, d))[y], y


def objective(X, y, W, b, C, rho, weights):
    scores = X @ W.T + b
    if len(W) == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
    loss = -weights @ log_softmax(scores, axis=1)[np.arange(len(y)), y]
    return (rho * np.abs(W).sum() + (1.0 - rho) / 2.0 * (W**2).sum()) / C + loss


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("rho", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_optimum_is_that_of_scikit_learn(n_classes, rho, fit_intercept):
    X, y = blobs(n_classes)
    weights = 0.5 + np.random.default_rng(0).random(len(y))
    ours = pb.MulticlassLogistic(C=0.1, l1_ratio=rho, fit_intercept=fit_intercept, tol=1e-6).fit(X, y, weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = LogisticRegression(C=0.1, penalty="elasticnet", l1_ratio=rho, solver="saga", tol=1e-8, max_iter=5000,
                                    fit_intercept=fit_intercept).fit(X, y, weights)
    there = objective(X, y, theirs.coef_, theirs.intercept_, 0.1, rho, weights)
    assert ours.converged_ and ours.certified_
    assert np.isclose(ours.objective_, objective(X, y, ours.coef_, ours.intercept_, 0.1, rho, weights), rtol=1e-12)
    assert ours.lower_bound_ <= there and ours.objective_ <= there * (1.0 + 1e-6)
    assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=0.01)
    assert np.allclose(ours.predict_proba(X).sum(axis=1), 1.0)
    assert abs(ours.intercept_.mean()) < 1e-12 or n_classes == 2
    if rho == 1.0:
        assert (ours.coef_ == 0.0).any()


def test_dense_and_sparse_data_and_warm_starts():
    X, y = blobs(4)
    dense = pb.MulticlassLogistic(C=0.1, l1_ratio=0.5, tol=1e-6, warm_start=True).fit(X, y)
    sparse = pb.MulticlassLogistic(C=0.1, l1_ratio=0.5, tol=1e-6).fit(sp.csr_array(X), y)
    assert np.allclose(dense.decision_function(X), sparse.decision_function(X), atol=1e-2)
    first = dense.n_passes_
    assert dense.fit(X, y).n_passes_ < first
    moved = dense.set_params(C=0.15).fit(X, y)
    assert moved.converged_ and moved.lower_bound_ <= moved.objective_
