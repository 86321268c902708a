"""Chains in which some labels may not follow others: against enumeration of the allowed labellings."""

import dataclasses
import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp

import pybundle as pb
from pybundle.core.ragged import Ragged
from pybundle.models import Chain

BIO = [[1, 1, 0], [1, 1, 1], [1, 1, 1]], [1, 1, 0], [1, 1, 1]               # O, B, I
SPARSE = [[0, 1, 0], [0, 0, 1], [1, 1, 0]], [1, 0, 1], [0, 1, 1]
CYCLE = [[0, 1, 0], [0, 0, 1], [1, 0, 0]], [1, 1, 1], [1, 1, 1]             # as many labellings as first labels
ENDS = np.ones((3, 3)), [1, 1, 0], [0, 1, 0]
ALLOWED = {name: tuple(np.array(part, dtype=bool) for part in parts)
           for name, parts in (("bio", BIO), ("sparse", SPARSE), ("cycle", CYCLE), ("ends", ENDS))}


def labellings(allowed, T):
    pairs, first, last = allowed
    return [np.array(y) for y in itertools.product(range(3), repeat=T)
            if first[y[0]] and last[y[-1]] and all(pairs[j, k] for j, k in itertools.pairwise(y))]


def make_data(allowed, seed=0, n=10, d=3, storage="dense", longest=4):
    rng = np.random.default_rng(seed)
    X, Y = [], []
    while len(X) < n:
        options = labellings(allowed, rng.integers(1, longest + 1))
        if options:
            Y.append(options[rng.integers(len(options))])
            x = np.eye(3)[Y[-1]][:, :d] + rng.normal(size=(len(Y[-1]), d))
            X.append(sp.csr_array(x) if storage == "csr" else x)
    return X, Y


def scores_of(model, w, x, y, allowed):
    """All allowed labellings of an example, with their scores relative to the truth and their losses."""
    options = labellings(allowed, len(y))
    true = model.joint_feature(x, y) @ w
    return options, np.array([(model.joint_feature(x, z) @ w - true).item() for z in options]), np.array(
        [model.loss(y, z) for z in options])


@pytest.mark.parametrize("name", ALLOWED)
@pytest.mark.parametrize("options", ({}, {"start": False, "end": False}, {"rescaling": "slack"}, {"normalised": True}))
def test_decodings_and_planes_equal_enumeration(name, options):
    allowed = ALLOWED[name]
    X, Y = make_data(allowed)
    model, rng = Chain(3, 3, allowed=allowed, **options), np.random.default_rng(1)
    oracle = model.oracle(X, Y)
    for scale in (0.1, 1.0, 300.0):
        w = scale * rng.normal(size=model.dim)
        found = oracle.solve_batch(np.arange(len(X)), oracle.prepare(w))
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            options_, scores, losses = scores_of(model, w, x, y, allowed)
            best = (losses * (1.0 + scores) if model.rescaling == "slack" else losses + scores).max()
            assert found.values[i] == pytest.approx(best, rel=1e-9, abs=1e-9 * scale)
            assert any((found.labellings[i] == z).all() for z in options_)
            assert any((model.decode(w, x) == z).all() for z in options_)
            assert any((model.loss_augmented_decode(w, x, y) == z).all() for z in options_)


@pytest.mark.parametrize("name", ALLOWED)
def test_k_best_are_the_allowed_ones(name):
    allowed = ALLOWED[name]
    X, Y = make_data(allowed)
    model = Chain(3, 3, allowed=allowed)
    oracle, w = model.oracle(X, Y), np.random.default_rng(2).normal(size=model.dim)
    found, owners, further = oracle.best_batch(np.arange(len(X)), oracle.prepare(w), 6)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        options, scores, losses = scores_of(model, w, x, y, allowed)
        order = np.argsort(-(scores + losses), kind="stable")[:6]
        mine = [found.labellings[i], *(z for j, z in zip(owners, further, strict=True) if j == i)]
        assert [z.tolist() for z in mine] == [options[j].tolist() for j in order]


@pytest.mark.parametrize("scale", (1e-3, 1.0, 30.0, 1e3))
@pytest.mark.parametrize("name", ALLOWED)
def test_log_losses_sum_over_the_allowed_labellings(name, scale):
    """Values and gradients, where scaled probabilities are used and where logarithms are."""
    allowed = ALLOWED[name]
    X, Y = make_data(allowed, n=6, longest=6)
    model = Chain(3, 3, allowed=allowed)
    risk = pb.risks.Structured(model, X, Y, loss="logistic", n_parts=1)
    w = scale * np.random.default_rng(3).normal(size=model.dim)
    value, slope = 0.0, np.zeros(model.dim)
    for x, y in zip(X, Y, strict=True):
        options, scores, _ = scores_of(model, w, x, y, allowed)
        value += logsumexp(scores)
        p = np.exp(scores - logsumexp(scores))
        truth = model.joint_feature(x, y)
        slope += sum(q * (model.joint_feature(x, z) - truth) for q, z in zip(p, options, strict=True))
    values, slopes = risk.evaluate(w)
    assert values.sum() == pytest.approx(value, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(np.asarray(slopes).ravel(), slope, rtol=1e-7, atol=1e-12 * len(X))
    pairs = model.rest(np.asarray(slopes).ravel())[0]
    assert (pairs[~allowed[0]] == 0.0).all()        # weights that no labelling has


def test_long_chains_whose_probabilities_would_underflow():
    """A label that only follows itself loses 3 at each token, and only it may be the last one."""
    allowed = np.array([[True, False], [True, True]]), np.array([True, True]), np.array([False, True])
    T = 2000
    unary = np.zeros((T, 2))
    unary[:, 1] = -3.0
    masks = [np.where(part, 0.0, -np.inf) for part in allowed]
    found = pb.oracles.forward_backward(unary, *masks)
    assert found.log_partition == pytest.approx(-3.0 * T) and (found.unary[:, 1] == 1.0).all()
    # all transitions allowed but one, so that two steps join all labels
    masks = [np.array([[0.0, 0.0], [0.0, -np.inf]]), np.zeros(2), np.zeros(2)]
    found = pb.oracles.forward_backward(unary, *masks)
    steps = np.zeros(2)
    for t in range(T):
        steps = unary[t] + (logsumexp(steps[:, None] + masks[0], axis=0) if t else 0.0)
    assert found.log_partition == pytest.approx(logsumexp(steps), rel=1e-12)
    assert (found.pairwise[:, 1, 1] == 0.0).all() and found.unary.sum(axis=1) == pytest.approx(np.ones(T))


@pytest.mark.parametrize("method", ("auto", "oca", "mp-bcfw", "lbfgs", "prox-bcfw", "alm"))
@pytest.mark.parametrize("loss", ("hinge", "logistic"))
@pytest.mark.parametrize("storage", ("dense", "csr"))
def test_all_methods_find_the_same_minimum(loss, method, storage):
    if (method == "lbfgs") != (loss == "logistic") and method in ("lbfgs", "mp-bcfw", "alm"):
        pytest.skip("this loss has other methods")
    allowed = ALLOWED["bio"]
    X, Y = make_data(allowed, storage=storage, n=20)
    model = Chain(3, 3, allowed=allowed)
    risk = pb.risks.Structured(model, X, Y, loss=loss)
    tol = 1e-2 if method == "mp-bcfw" else 1e-4
    found = pb.minimize(risk, lam=0.5, tol=tol, method=method, max_iter=4000)
    reference = pb.minimize(risk, lam=0.5, tol=1e-5, method="oca")
    assert found.success and found.lower_bound <= reference.fun and reference.lower_bound <= found.fun
    assert found.fun == pytest.approx(reference.fun, rel=2.0 * tol)
    assert (model.rest(found.x)[0][~allowed[0]] == 0.0).all()
    free = pb.minimize(pb.risks.Structured(Chain(3, 3), X, Y, loss=loss), lam=0.5, tol=1e-3)
    assert found.lower_bound <= free.fun        # fewer labellings


@pytest.mark.parametrize("loss, method", (("hinge", "auto"), ("hinge", "oca"), ("logistic", "oca")))
def test_evidence_is_verified_and_forbidden_labellings_are_none(loss, method):
    allowed = ALLOWED["bio"]
    X, Y = make_data(allowed, n=20)
    risk, free = (pb.risks.Structured(Chain(3, 3, allowed=some), X, Y, loss=loss) for some in (allowed, None))
    result = pb.minimize(risk, lam=0.5, method=method, evidence=True)
    assert pb.verify(result.certificate, risk, lam=0.5).ok
    if loss == "hinge":
        assert pb.verify(result.certificate, risk, lam=0.5, exact=True).ok
    other = pb.minimize(free, lam=0.5, method=method, evidence=True)
    with pytest.raises(pb.ParameterError, match="same risk"):
        pb.minimize(risk, lam=0.5, warm_start=other)
    assert risk.fingerprint != free.fingerprint
    forged = dataclasses.replace(other.certificate, fingerprint=risk.fingerprint)
    assert not pb.verify(forged, risk).ok
    if loss == "logistic":
        return
    evidence = result.certificate.evidence
    for y in labellings([np.ones((3, 3), dtype=bool), *np.ones((2, 3), dtype=bool)], len(Y[0])):
        some = dataclasses.replace(evidence, examples=np.zeros(1, dtype=np.intp), labellings=Ragged.of([y]),
                                   masses=np.ones(1))
        report = pb.verify(dataclasses.replace(result.certificate, evidence=some, lower_bound=-1e9), risk)
        is_allowed = any((y == z).all() for z in labellings(allowed, len(Y[0])))
        assert ("must follow the labels" in str(report)) == (not is_allowed)


def test_occurring_weights_keep_what_is_allowed():
    allowed = ALLOWED["bio"]
    X, Y = make_data(allowed, storage="csr")
    model = Chain(3, 3, allowed=allowed).occurring(X, Y)
    for loss in ("hinge", "logistic"):
        risk = pb.risks.Structured(model, X, Y, loss=loss)
        result = pb.minimize(risk, lam=0.5, tol=1e-4)
        assert result.success and risk.fingerprint != pb.risks.Structured(
            Chain(3, 3).occurring(X, Y), X, Y, loss=loss).fingerprint


def test_wrong_arguments_and_wrong_labels_are_named():
    X, Y = make_data(ALLOWED["bio"])
    for allowed, message in ((np.ones((2, 2), dtype=bool), r"for transitions, must be .* \(3, 3\), got .*\(2, 2\)"),
                             (np.ones((3, 3)), "allowed, for transitions, must be a bool array .* got dtype float64"),
                             ([[True], [True, False]], "allowed, for transitions, must be a bool array"),
                             ((ALLOWED["bio"][0], np.zeros(3, dtype=bool), None), "must leave a first and a last"),
                             ((ALLOWED["bio"][0], np.ones(2, dtype=bool), None), r"first labels, .* \(3,\), got")):
        with pytest.raises(pb.BundleError, match=message):
            Chain(3, 3, allowed=allowed)
    rows = ALLOWED["bio"][0].tolist()
    assert (Chain(3, 3, allowed=rows).allowed.pairs == rows).all()      # three rows are no triple
    model = Chain(3, 3, allowed=ALLOWED["bio"])
    for wrong, place in (([2, 0], r"Y\[1\]\[0\] .* got 2 as first label"),
                         ([0, 1, 0, 2], r"Y\[1\]\[3\] .* got 2 after 0")):
        with pytest.raises(pb.ParameterError, match=place):
            model.oracle([X[0], np.ones((len(wrong), 3))], [Y[0], np.array(wrong)])
    with pytest.raises(pb.ParameterError, match=r"Y\[0\]\[1\] .* got 0 as last label"):
        Chain(3, 3, allowed=ALLOWED["ends"]).oracle([np.ones((2, 3))], [np.array([1, 0])])
    with pytest.raises(pb.ParameterError, match="must follow"):
        model.joint_feature(np.ones((2, 3)), [0, 2])


@pytest.mark.parametrize("method", ("auto", "prox-bcfw", "oca", "lbfgs"))
def test_single_tokens_whose_labels_follow_nothing(method):
    """All transitions are forbidden, so that every chain is one token, which is first and last."""
    allowed = np.zeros((3, 3), dtype=bool), [True, True, False], [False, True, True]
    X = list(np.random.default_rng(0).normal(size=(8, 1, 3)))
    free = allowed[0], [True] * 3, [True] * 3
    for some, n_labels in ((allowed, 1), (free, 3)):
        risk = pb.risks.Structured(Chain(3, 3, allowed=some), X, [np.array([1])] * 8, loss="logistic")
        result = pb.minimize(risk, lam=1.0, method=method)
        assert result.success and 0.0 <= result.lower_bound <= result.fun <= 8.0 * np.log(n_labels)


def test_sequences_without_an_allowed_labelling_are_named():
    model = Chain(2, 1, allowed=(np.array([[False, True], [False, False]]), [True, False], [False, True]))
    w = np.zeros(model.dim)
    assert model.decode(w, np.ones((2, 1))).tolist() == [0, 1]
    for T in (1, 3):
        with pytest.raises(pb.ParameterError, match="x must have a labelling that `allowed` admits, got none"):
            model.decode(w, np.ones((T, 1)))
    learner = pb.mkl.OnlineMKL([pb.mkl.Linear()], model=model, lam=0.1)
    learner.fit([np.ones((2, 1))] * 4, [np.array([0, 1])] * 4)
    with pytest.raises(pb.ParameterError, match=r"X\[1\] must have a labelling that `allowed` admits"):
        learner.predict([np.ones((2, 1)), np.ones((3, 1))])
