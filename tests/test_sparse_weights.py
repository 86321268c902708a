"""Chains with weights for some pairs of feature and label: the model with all weights, the others held at 0."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from reference.workers import InTurn

import pybundle as pb
from pybundle.estimators import token_features

FORMS = ["csr64", "csr32", "indicators"]


def words(seed=0, form="csr64", n=40, K=4, d=30, **model):
    """Sequences, the model with all weights, the one with those that occur, and their places among all."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, n)
    Y = [rng.integers(0, K, T) for T in sizes]
    if form == "indicators":
        X = [rng.integers(-1, d, (T, 3)) for T in sizes]
    else:
        X = [sp.csr_array((rng.random((T, d)) < 0.1) * rng.standard_normal((T, d)),
                          dtype=np.float32 if form == "csr32" else np.float64) for T in sizes]
    whole = pb.models.Chain(K, d, indicators=form == "indicators", **model)
    part = whole.occurring(X, Y)
    features, labels = part.token_support.T
    return X, Y, whole, part, np.concatenate([labels * d + features, np.arange(K * d, whole.dim)])


def spread(w, places, dim):
    out = np.zeros(dim)
    out[places] = w
    return out


def dense(values):
    return values.toarray() if sp.issparse(values) else np.asarray(values)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss, options", [
    ("hinge", {}), ("hinge", {"start": False, "normalised": True}), ("hinge", {"rescaling": "slack"}),
    ("logistic", {}), ("logistic", {"end": False})])
def test_values_slopes_and_planes_are_those_of_all_weights(form, loss, options):
    X, Y, whole, part, places = words(1, form, **options)
    assert len(places) == part.dim < whole.dim
    rng = np.random.default_rng(2)
    for n_parts in (1, 3):
        ours, theirs = (pb.risks.Structured(model, X, Y, loss=loss, n_parts=n_parts) for model in (part, whole))
        for size in (0.1, 3.0):
            w = size * rng.standard_normal(part.dim)
            found, expected = ours.planes(w), theirs.planes(spread(w, places, whole.dim))
            np.testing.assert_allclose(found.values, expected.values, rtol=1e-12)
            np.testing.assert_allclose(found.offsets, expected.offsets, rtol=1e-11)
            np.testing.assert_allclose(dense(found.slopes), dense(expected.slopes)[:, places], rtol=1e-9, atol=1e-12)
            np.testing.assert_array_equal(ours.predict_losses(w), theirs.predict_losses(spread(w, places, whole.dim)))


@pytest.mark.parametrize("form", FORMS)
def test_single_planes_and_decodings_are_those_of_all_weights(form):
    X, Y, whole, part, places = words(3, form)
    w = np.random.default_rng(4).standard_normal(part.dim)
    ours, theirs = part.oracle(X, Y), whole.oracle(X, Y)
    rows = np.arange(len(X))
    found = ours.solve_batch(rows, ours.prepare(w))
    (losses, slopes), (expected_losses, expected) = (o.planes(rows, found.labellings) for o in (ours, theirs))
    np.testing.assert_array_equal(losses, expected_losses)
    np.testing.assert_allclose(slopes.toarray(), expected.toarray()[:, places], rtol=1e-12, atol=1e-15)
    assert (slopes.data != 0.0).all() and (np.diff(slopes.indptr) == (slopes.toarray() != 0.0).sum(axis=1)).all()
    total = np.zeros(part.dim)
    ours.add_planes(rows, found.labellings, np.ones(len(rows)), total)
    np.testing.assert_allclose(total, slopes.sum(axis=0), atol=1e-12)
    for i in (0, 7):
        for x, y in ((X[i], Y[i]), (X[i], part.decode(w, X[i]))):
            np.testing.assert_allclose(dense(part.joint_feature(x, y)).ravel(),
                                       dense(whole.joint_feature(x, y)).ravel()[places], atol=1e-12)
        np.testing.assert_array_equal(part.decode(w, X[i]), whole.decode(spread(w, places, whole.dim), X[i]))


RIDGE, SPARSE = pb.prox.SquaredL2(0.5), pb.prox.L1(0.3) + pb.prox.SquaredL2(0.1)


@pytest.mark.parametrize("loss, penalty, methods", [
    ("hinge", RIDGE, ["auto", "prox-bcfw", "oca", "alm", "mp-bcfw"]), ("hinge", SPARSE, ["auto", "oca"]),
    ("logistic", RIDGE, ["auto", "oca", "lbfgs"]), ("logistic", SPARSE, ["auto", "oca"])])
def test_the_optimum_is_that_of_all_weights_with_the_others_held_at_zero(loss, penalty, methods):
    X, Y, whole, part, places = words(5)
    free = spread(np.full(part.dim, np.inf), places, whole.dim)
    held = pb.minimize(pb.risks.Structured(whole, X, Y, loss=loss), penalty=penalty + pb.prox.Box(-free, free),
                       tol=1e-5)
    assert held.certified
    given = {"lam": 0.5} if penalty is RIDGE else {"penalty": penalty}
    for method in methods:
        found = pb.minimize(pb.risks.Structured(part, X, Y, loss=loss), method=method, tol=1e-3, **given)
        assert found.certified and found.gap <= 1e-3, method
        assert found.lower_bound <= held.fun and held.lower_bound <= found.fun, method


def test_pairs_are_those_with_an_entry_that_is_not_zero():
    X = [sp.csr_array(([1.0, 0.0, -1.0], ([0, 0, 1], [0, 1, 2])), shape=(2, 4))]
    model = pb.models.Chain(3, 4).occurring(X, [np.array([2, 0])])
    assert model.token_support.tolist() == [[0, 2], [2, 0]]
    given = pb.models.Chain(3, 4, token_support=[[2, 0], [0, 2], [2, 0]])
    np.testing.assert_array_equal(given.token_support, model.token_support)
    slack = pb.models.Chain(3, 4, rescaling="slack", end=False).occurring(X, [np.array([2, 0])])
    assert slack.rescaling == "slack" and slack.dim == 2 + 9 + 3


def test_pairs_in_any_order_and_layout_are_one_problem():
    X, Y, _, part, _ = words(6)
    pairs = part.token_support
    values = pb.risks.Structured(part, X, Y).evaluate(np.ones(part.dim))[0]
    for given in (pairs[::-1], np.asfortranarray(pairs), pairs.astype(np.uint64), pairs.tolist(), np.r_[pairs, pairs]):
        model = pb.models.Chain(4, 30, token_support=given)
        assert model.token_support.dtype == np.int32 and model.token_support.flags.c_contiguous
        np.testing.assert_array_equal(model.token_support, pairs)
        np.testing.assert_array_equal(pb.risks.Structured(model, X, Y).evaluate(np.ones(part.dim))[0], values)


def test_another_support_is_another_problem(tmp_path):
    X, Y, whole, part, _ = words(6)
    missing = next([j, k] for j in range(30) for k in range(4) if [j, k] not in part.token_support.tolist())
    other = pb.models.Chain(4, 30, token_support=np.r_[part.token_support[1:], [missing]])
    risks = [pb.risks.Structured(model, X, Y) for model in (part, other, whole)]
    assert len({risk.fingerprint for risk in risks}) == 3 and risks[0].dim == risks[1].dim
    pb.minimize(risks[0], lam=1.0, tol=1e-9, max_iter=2, checkpoint=tmp_path / "run")
    with pytest.raises(pb.StateError, match="checkpoint"):
        pb.minimize(risks[1], lam=1.0, tol=1e-9, checkpoint=tmp_path / "run")


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("penalty", [pb.prox.SquaredL2(1.0), pb.prox.L1(0.2) + pb.prox.SquaredL2(0.5)])
def test_a_resumed_run_ends_with_the_same_bits(loss, penalty, tmp_path):
    X, Y, _, part, _ = words(7)
    risk = pb.risks.Structured(part, X, Y, loss=loss)
    whole = pb.minimize(risk, penalty=penalty, tol=1e-4)
    pb.minimize(risk, penalty=penalty, tol=1e-4, max_iter=3, checkpoint=pb.Checkpoint(tmp_path / "run", every=1))
    again = pb.minimize(risk, penalty=penalty, tol=1e-4, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(again.x, whole.x)
    assert again.lower_bound == whole.lower_bound and again.n_passes == whole.n_passes


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_pickles_threads_and_workers_give_the_same_bits(loss):
    X, Y, _, part, _ = words(8)
    risk = pb.risks.Structured(part, X, Y, loss=loss, n_parts=2)
    w = np.random.default_rng(9).standard_normal(part.dim)
    expected = risk.planes(w)
    copied = pickle.loads(pickle.dumps(risk))
    rows = part.oracle(X, Y)._rows
    assert copied.fingerprint == risk.fingerprint and type(pickle.loads(pickle.dumps(rows))) is type(rows)
    for found in (copied.planes(w), InTurn(2, pickled=True).place(risk).planes(w)):
        np.testing.assert_array_equal(dense(found.slopes), dense(expected.slopes))
        np.testing.assert_array_equal(found.offsets, expected.offsets)
    threads = pb.minimize(risk, lam=1.0, method="oca", tol=1e-4, n_jobs=2)
    np.testing.assert_array_equal(threads.x, pb.minimize(risk, lam=1.0, method="oca", tol=1e-4).x)


def test_evidence_is_verified():
    X, Y, _, part, _ = words(10)
    risk = pb.risks.Structured(part, X, Y)
    result = pb.minimize(risk, lam=1.0, tol=1e-3, evidence=True)
    assert pb.verify(result.certificate, risk).ok


def test_features_without_a_pair_and_a_single_label_have_no_say():
    X = [sp.csr_array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])]
    model = pb.models.Chain(2, 3, token_support=[[0, 1]])
    w = np.arange(1.0, model.dim + 1.0)
    W = model.split(w)[0]
    np.testing.assert_array_equal(W.toarray(), [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert np.shares_memory(W.data, w)
    psi = model.joint_feature(X[0], np.array([1, 0])).toarray()[0]
    assert psi[0] == 1.0 and psi.sum() == 1.0 + 1.0 + 2.0
    alone = pb.models.Chain(1, 3, token_support=[[2, 0]])
    assert pb.minimize(pb.risks.Structured(alone, X, [np.zeros(2, int)]), lam=1.0).fun == 0.0


@pytest.mark.parametrize("support, word", [
    ([[0, 3]], r"token_support\[0\] must be a feature 0..3 and a label 0..2"), ([[0, 0], [4, 0]], "got \\[4, 0\\]"),
    ([[-1, 0]], "got \\[-1, 0\\]"), ([0, 1], "shape"), (np.zeros((0, 2), int), "shape"), ([[0.5, 1.0]], "dtype"),
    ([[0, 1], [2]], "token_support must be integers"), (np.ma.array([[0, 1]], mask=[[True, False]]), "masked")])
def test_wrong_pairs_are_refused(support, word):
    with pytest.raises((pb.ParameterError, pb.InputTypeError), match=word):
        pb.models.Chain(3, 4, token_support=support)


def test_data_that_do_not_fit_are_refused():
    x, model = sp.csr_array(np.eye(2, 4)), pb.models.Chain(3, 4)
    with pytest.raises(pb.ParameterError, match="same number of examples"):
        model.occurring([x, x], [[0, 1]])
    with pytest.raises(pb.ParameterError, match=r"Y\[1\] must have one label for each token of X\[1\], 2,"):
        model.occurring([x, x], [[0, 1], [1]])


def test_data_without_pairs_are_refused():
    zeros = [sp.csr_array((2, 4))]
    with pytest.raises(pb.ParameterError, match="X must have an entry that is not 0"):
        pb.models.Chain(3, 4).occurring(zeros, [np.array([0, 1])])


def test_dense_tokens_and_kernels_are_refused():
    x, y = [np.ones((2, 4))], [np.array([0, 1])]
    with pytest.raises(pb.InputTypeError, match="CSR tokens"):
        pb.models.Chain(3, 4).occurring(x, y)
    model = pb.models.Chain(3, 4, token_support=[[0, 0]])
    with pytest.raises(pb.InputTypeError, match="X must hold CSR tokens"):
        pb.risks.Structured(model, x, y)
    with pytest.raises(pb.ParameterError, match="token_support=None"):
        pb.mkl.OnlineMKL([pb.mkl.Gaussian(1.0)], model=model).fit(x, y)


# ---------------------------------------------------------------------- estimators
def sentences(seed=0, n=60):
    rng = np.random.default_rng(seed)
    tags = ["A", "B", "C"]
    y = [[tags[k] for k in rng.integers(0, 3, T)] for T in rng.integers(1, 6, n)]
    return [[{"w": f"{tag}{rng.integers(4)}", "common": True, f"r{rng.integers(20)}": 2.0} for tag in tags_of]
            for tags_of in y], y


@pytest.mark.parametrize("kind", [pb.ChainSVM, pb.ChainCRF])
def test_estimators_with_weights_that_occur(kind, tmp_path):
    X, y = sentences()
    all_of_them, some = (kind(C=5.0, token_weights=choice).fit(X, y) for choice in ("all", "occurring"))
    support, names = some.token_support_, some.vocabulary_
    seen = {(name, tag) for x, tags in zip(X, y, strict=True) for token, tag in zip(x, tags, strict=True)
            for name in (f"w:{token['w']}", *(name for name in token if name != "w"))}
    assert {(names[j], some.classes_[k]) for j, k in support} == seen
    assert all_of_them.token_support_ is None and some.vocabulary_ == all_of_them.vocabulary_
    assert some.certified_ and len(some.coef_) == len(seen) + 9 + 6 < len(all_of_them.coef_)
    assert some.objective_ >= all_of_them.lower_bound_          # a smaller model
    W = some.token_coef_
    assert W.shape == all_of_them.token_coef_.shape and W.nnz == len(seen)
    best = some.top_features("A", 3)
    assert [weight for _, weight in best] == sorted(W.toarray()[0], reverse=True)[:3]
    some.save(tmp_path / "model.npz")
    loaded = pb.load(tmp_path / "model.npz")
    for one, other in zip(some.predict(X), loaded.predict(X), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(loaded.token_support_, support)
    again = kind(C=5.0, token_weights="occurring", warm_start=True).fit(X, y)
    assert again.fit(X, y).n_iter_ <= 2 and again.certified_


def test_features_and_pairs_without_weight_are_dropped():
    X, y = sentences(1)
    crf = pb.ChainCRF(l1=4.0, token_weights="occurring").fit(X, y)
    before, size = crf.predict_proba(X), len(crf.coef_)
    zeros = int((crf.token_coef_.data == 0.0).sum())
    crf.sparsify()
    assert len(crf.coef_) == size - zeros < size and (crf.token_coef_.data != 0.0).all()
    assert crf.n_features_in_ == len(crf.vocabulary_) == len(np.unique(crf.token_support_[:, 0]))
    assert crf.token_support_.dtype == np.int32
    np.testing.assert_array_equal(crf.sparsify().token_support_, crf.token_support_)        # nothing is left to drop
    for one, other in zip(before, crf.predict_proba(X), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-14)
    crf = pb.ChainCRF(l1=1e4, token_weights="occurring").fit(X, y).sparsify()
    assert len(crf.vocabulary_) == len(crf.token_support_) == 1 and len(crf.predict(X)) == len(X)


def test_auto_takes_weights_that_occur_where_all_are_many(monkeypatch, tmp_path):
    X, y = sentences(2)
    assert pb.ChainSVM().fit(X, y).token_support_ is None
    hashed = pb.ChainSVM(hash_bits=20).fit(X, y)
    assert len(hashed.token_support_) < 200 and hashed.n_features_in_ == 1 << 20
    hashed.save(tmp_path / "hashed.npz")
    for one, other in zip(hashed.predict(X), pb.load(tmp_path / "hashed.npz").predict(X), strict=True):
        np.testing.assert_array_equal(one, other)
    monkeypatch.setattr(token_features, "FEW_WEIGHTS", 10)
    assert pb.ChainCRF().fit(X, y).token_support_ is not None
    assert pb.ChainCRF(token_weights="all").fit(X, y).token_support_ is None
    dense = [np.eye(6)[:len(x)] for x in X]
    assert pb.ChainSVM().fit(dense, y).token_support_ is None
    nothing = pb.ChainSVM(hash_bits=20).fit([[{}, {}], [{}]], [["A", "B"], ["B"]])      # no pair occurs
    assert nothing.token_support_ is None and nothing.certified_
    search = pb.ChainCRFCV([0.1, 1.0], cv=2).fit(X, y)
    assert search.token_support_ is not None and np.isfinite(search.scores_).all()


def test_a_file_with_pairs_out_of_order_is_refused(tmp_path):
    X, y = sentences(6)
    svm = pb.ChainSVM(token_weights="occurring").fit(X, y)
    svm.token_support_ = svm.token_support_[::-1]
    svm.save(tmp_path / "svm.npz")
    with pytest.raises(pb.StateError, match="token_support_ must be int32, sorted"):
        pb.load(tmp_path / "svm.npz")


def test_wrong_choices_are_refused():
    X, y = sentences(3)
    with pytest.raises(pb.ParameterError, match="token_weights must be"):
        pb.ChainSVM(token_weights="some").fit(X, y)
    with pytest.raises(pb.InputTypeError, match="CSR tokens"):
        pb.ChainSVM(token_weights="occurring").fit([np.eye(6)[:len(x)] for x in X], y)


def test_weights_that_occur_beside_predictions_of_every_kind():
    X, y = sentences(4)
    crf = pb.ChainCRF(C=2.0, token_weights="occurring", l1=0.1).fit(X, y)
    W = crf.token_coef_.toarray()
    unary = [sum(value * W[:, crf.vocabulary_.index(name)] for name, value in
                 ((f"w:{x[0]['w']}", 1.0), *((name, float(v)) for name, v in x[0].items() if name != "w"))) for x in X]
    single = [[x[0]] for x in X]
    scores = crf.decision_function(single)
    for table, expected in zip(scores, unary, strict=True):
        np.testing.assert_allclose(table[0], expected + crf.start_coef_ + crf.end_coef_, atol=1e-12)
    values = crf.k_best(single, 2)[1]
    assert [found[0] for found in values] == pytest.approx([table[0].max() for table in scores])
    assert all(np.isclose(row.sum(), 1.0) for table in crf.predict_proba(X) for row in table)
    worst = crf.top_features("B", -2)
    assert [weight for _, weight in worst] == sorted(W[1])[:2]
    unseen = crf.predict([[{"w": "never", "new": 1.0}], []])
    assert len(unseen[0]) == 1 and len(unseen[1]) == 0
    images = pb.plotting.WeightImagesDisplay.from_estimator(crf, shape=(1, W.shape[1]))
    np.testing.assert_array_equal(np.ravel(images.images[0]), W[0])


def test_other_pairs_start_from_zero():
    X, y = sentences(5)
    svm = pb.ChainSVM(token_weights="occurring", warm_start=True).fit(X, y)
    other = [[{"A": "B", "B": "C", "C": "A"}[tag] for tag in tags] for tags in y]
    cold = pb.ChainSVM(token_weights="occurring").fit(X, other)
    np.testing.assert_array_equal(svm.fit(X, other).coef_, cold.coef_)
