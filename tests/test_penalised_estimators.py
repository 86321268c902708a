"""Estimators with an l1 part in the penalty: objectives, exact zeros, warm starts, files, wrong arguments."""

import numpy as np
import pytest

import pybundle as pb


def blobs(n=80, d=6, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return rng.standard_normal((n, d)) + 1.5 * rng.standard_normal((n_classes, d))[y] * (np.arange(d) < 3), y


def elastic(W, C, rho):
    return (rho * np.abs(W).sum() + (1.0 - rho) / 2 * (W**2).sum()) / C


def hinge(X, y, W, weights):
    if len(W) == 1:
        return weights @ np.maximum(0.0, 1.0 - (2 * y - 1) * (X @ W[0]))
    scores, rows = X @ W.T, np.arange(len(y))
    return weights @ ((np.arange(len(W)) != y[:, None]) + scores - scores[rows, y][:, None]).max(axis=1)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("rho", [0.3, 1.0])
def test_multiclass_svm_minimises_what_it_says(n_classes, rho, tmp_path):
    X, y = blobs(n_classes=n_classes)
    weights = np.random.default_rng(1).random(len(y))
    svm = pb.MulticlassSVM(C=0.2, l1_ratio=rho, tol=1e-5).fit(X, y, weights)
    W, rng = np.c_[svm.coef_, svm.intercept_], np.random.default_rng(2)
    full = np.c_[X, np.ones(len(X))]
    assert svm.converged_ and svm.certified_ and (svm.coef_ == 0.0).any()
    assert np.isclose(svm.objective_, elastic(W, 0.2, rho) + hinge(full, y, W, weights), rtol=1e-12)
    for step in (1e-3, 1e-2, 0.1):
        other = W + step * rng.standard_normal(W.shape)
        assert elastic(other, 0.2, rho) + hinge(full, y, other, weights) >= svm.lower_bound_
    svm.save(tmp_path / "svm.npz")
    again = pb.load(tmp_path / "svm.npz")
    assert np.array_equal(again.coef_, svm.coef_) and again.l1_ratio == rho


def test_without_l1_the_svm_is_as_before():
    X, y = blobs()
    svm = pb.MulticlassSVM(C=0.2, fit_intercept=False).fit(X, y)
    plain = pb.minimize(pb.risks.MulticlassHinge(X, y), lam=5.0, tol=1e-3)
    assert np.array_equal(svm.coef_.ravel(), plain.x) and svm.lower_bound_ == plain.lower_bound


def test_warm_starts_between_penalties():
    X, y = blobs(300)
    svm = pb.MulticlassSVM(C=0.1, tol=1e-3, warm_start=True).fit(X, y)
    for rho in (0.5, 0.6, 0.0):
        cold = pb.MulticlassSVM(C=0.1, tol=1e-3, l1_ratio=rho).fit(X, y)
        svm.set_params(l1_ratio=rho).fit(X, y)
        assert svm.converged_ and max(svm.lower_bound_, cold.lower_bound_) <= min(svm.objective_, cold.objective_)


@pytest.mark.parametrize("ratio", [-0.1, 1.5, "all"])
def test_wrong_ratios_are_named(ratio):
    with pytest.raises((ValueError, TypeError), match="l1_ratio must be a"):
        pb.MulticlassSVM(l1_ratio=ratio).fit(*blobs())


SENTENCES = [["the", "dog", "barks"], ["dogs", "bark"], ["the", "cat"], ["a", "dog", "bites", "the", "cat"]]
TAGS = [["DET", "N", "V"], ["N", "V"], ["DET", "N"], ["DET", "N", "V", "DET", "N"]]


@pytest.mark.parametrize("kind", [pb.ChainCRF, pb.ChainSVM])
def test_chains_with_an_l1_norm(kind, tmp_path):
    """Weights are exactly 0, the objective is the one that the docstring states, and a file keeps them."""
    sparse = kind(C=5.0, l1=0.2, tol=1e-4).fit(SENTENCES, TAGS)
    dense = kind(C=5.0, tol=1e-4).fit(SENTENCES, TAGS)
    w = sparse.coef_
    assert sparse.converged_ and sparse.certified_
    assert np.count_nonzero(w) < np.count_nonzero(dense.coef_)
    if kind is pb.ChainCRF:
        loss = -sparse.log_likelihood(SENTENCES, TAGS).sum()
        assert np.isclose(sparse.objective_, loss + 0.2 * np.abs(w).sum() + 0.1 * w @ w, rtol=1e-9)
    assert sparse.lower_bound_ <= sparse.objective_ and dense.objective_ <= sparse.objective_
    sparse.save(tmp_path / "chain.npz")
    again = pb.load(tmp_path / "chain.npz")
    assert np.array_equal(again.coef_, w) and again.l1 == 0.2
    assert again.predict(SENTENCES) == sparse.predict(SENTENCES) == TAGS


def test_features_and_transitions_of_a_model_are_named():
    crf = pb.ChainCRF(C=5.0).fit(SENTENCES, TAGS)
    top, bottom = crf.top_features("N", 2), crf.top_features("N", -2)
    assert {name for name, _ in top} <= {"cat", "dog", "dogs"} and top[0][1] >= top[1][1] > 0.0
    assert bottom and all(weight < 0.0 for _, weight in bottom)
    table, codes = crf.transitions(), {label: code for code, label in enumerate(crf.classes_.tolist())}
    assert table["DET"]["N"] == crf.transition_coef_[codes["DET"], codes["N"]] > table["DET"]["DET"]
    numbered = pb.ChainCRF().fit([np.eye(2), np.eye(2)], [[0, 1], [0, 1]])
    assert numbered.top_features(1)[0][0] == 1
    with pytest.raises(ValueError, match="label must be a label of classes_"):
        crf.top_features("VERB")


@pytest.mark.parametrize("kind", [pb.ChainCRF, pb.ChainSVM])
def test_models_without_features_that_have_no_weight_predict_the_same(kind, tmp_path):
    """Bit for bit; files are smaller, a fit after it learns all features again, and other inputs are left alone."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{k}" for k in range(300)])
    X = [[[str(w) for w in words[rng.integers(0, 300, 4)]] for _ in range(6)] for _ in range(30)]
    y = [[["B", "I", "O"][int(token[0][1:]) % 3] for token in sentence] for sentence in X]
    model = kind(C=10.0, l1=1.0, warm_start=True).fit(X, y)
    before, scores = model.predict(X), model.decision_function(X)
    width, top = model.n_features_in_, model.top_features("B")
    model.save(tmp_path / "whole.npz")
    assert model.sparsify() is model and 0 < model.n_features_in_ < 0.6 * width
    assert model.predict(X) == before and model.top_features("B") == top
    for mine, old in zip(model.decision_function(X), scores, strict=True):
        np.testing.assert_allclose(mine, old, rtol=1e-12)
    model.save(tmp_path / "few.npz")
    assert (tmp_path / "few.npz").stat().st_size < (tmp_path / "whole.npz").stat().st_size
    assert pb.load(tmp_path / "few.npz").predict(X) == before
    assert model.fit(X, y).n_features_in_ == width
    arrays = kind(l1=0.1).fit([np.eye(2), np.eye(2)], [[0, 1], [0, 1]])
    coef = arrays.coef_
    assert arrays.sparsify().coef_ is coef


@pytest.mark.parametrize("l1", [-1.0, "much"])
def test_wrong_rates_are_named(l1):
    with pytest.raises((ValueError, TypeError), match="l1 must be a"):
        pb.ChainCRF(l1=l1).fit(SENTENCES, TAGS)
