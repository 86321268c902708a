"""Estimators of structured labels: manners, formats, decoding against the models, what is refused."""

import copy
import itertools
import pickle
import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from reference.landmark_images import landmark_images
from reference.treebank import make_treebank
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import pybundle as pb
from pybundle.core.ragged import Ragged
from pybundle.estimators.tokens import count_features, encode, entries, frequent_features


def chains(n=24, noise=0.7, seed=0):
    """Texts and numbers: the label of a token follows from its word, or from its neighbour's."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        tags = rng.integers(0, 3, rng.integers(2, 6))
        X.append([{"word": "abc"[t] if rng.random() < noise else "?", "is_first": k == 0}
                  for k, t in enumerate(tags)])
        y.append(np.array(["A", "B", "C"])[tags].tolist())
    return X, y


def trees(n=15):
    bank = make_treebank(n, random_state=0, mean_length=5)
    return bank.X, bank.Y


def labelled_trees(n=15):
    X, y = trees(n)
    return X, [[(int(head), "root" if head == 0 else "ab"[int(head > m)]) for m, head in enumerate(heads[1:], 1)]
               for heads in y]


def segments(n=6):
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(n):
        kinds = rng.integers(0, 2, 4)
        columns = np.concatenate([np.full((2 + k, 3), float(k)) for k in kinds])
        X.append(columns + 0.2 * rng.standard_normal(columns.shape))
        starts = np.concatenate([[0], np.cumsum(2 + kinds)[:-1]])
        y.append([("ab"[k], int(s)) for k, s in zip(kinds, starts, strict=True)])
    return X, y


def graphs(n=12):
    images = pb.datasets.contrast_images(n, shape=(5, 5))
    return list(images.X), [labels.astype(int) for labels in images.y]


def labelled(n=12):
    """Rings of five nodes with three labels."""
    rng = np.random.default_rng(0)
    y = [np.sort(rng.integers(0, 3, 5)) for _ in range(n)]
    ring = np.stack([np.arange(5), np.roll(np.arange(5), 1)], axis=1)
    return [pb.models.Graph(np.eye(3)[labels] + 0.5 * rng.normal(size=(5, 3)), ring, np.ones((5, 1)))
            for labels in y], y


def faces(n=16):
    images = landmark_images(n, random_state=0)
    return images.X, images.Y


CASES = {
    "svm": (pb.ChainSVM(tol=1e-4), chains),
    "hashed": (pb.ChainSVM(hash_bits=8, rescaling="slack", start=False), chains),
    "crf": (pb.ChainCRF(min_count=2), chains),
    "cv": (pb.ChainSVMCV([0.1, 1.0], cv=2), chains), "crf-cv": (pb.ChainCRFCV([0.1, 1.0], cv=2), chains),
    "parser": (pb.DependencyParser(hash_bits=12), trees),
    "log-parser": (pb.DependencyParser(hash_bits=10, loss="logistic", tol=1e-2), trees),
    "labelled parser": (pb.DependencyParser(hash_bits=10, relations=True, tol=1e-2), labelled_trees),
    "segments": (pb.SegmentationSVM(fillers=["a"], widths={"b": [1]}), segments),
    "graphs": (pb.BinaryLabelingSVM(loss="balanced", class_weight="balanced"), graphs),
    "labels": (pb.GraphSVM(loss="balanced", class_weight="balanced", symmetric=[0]), labelled),
    "faces": (pb.LandmarkDetector(windows=[(3, 3), (2, 2)], tol=1e-2), faces),
}


def same(a, b):
    return all(np.array_equal(p, q) for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_manners(name):
    estimator, data = CASES[name]
    X, y = data()
    fitted = clone(estimator).fit(X, y)
    assert fitted.certified_ and fitted.converged_ and fitted.gap_ <= fitted.tol
    assert fitted.lower_bound_ <= fitted.objective_ and fitted.coef_.shape == (fitted.model_.dim,)
    assert repr(clone(fitted)) == repr(estimator) and not hasattr(clone(fitted), "coef_")
    found, score = fitted.predict(X), fitted.score(X, y)
    assert len(found) == len(X) and score == pytest.approx(fitted.score(X, y, np.full(len(X), 2.0)))
    for other in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        assert same(other.predict(X), found) and other.gap_ == fitted.gap_
    assert len(fitted.decision_function(X)) == len(X)


@pytest.mark.parametrize("name", CASES)
def test_weights_are_repetitions(name):
    estimator, data = CASES[name]
    if name in ("cv", "crf-cv", "graphs", "labels", "faces"):  # folds, class weights and boxes follow from the examples
        pytest.skip("the model depends on the examples")
    X, y = data()
    times = 1 + np.arange(len(X)) % 3
    estimator = clone(estimator).set_params(C=0.3, tol=1e-3)
    weighted = clone(estimator).fit(X, y, times)
    repeated = clone(estimator).fit([x for x, k in zip(X, times, strict=True) for _ in range(k)],
                                    [z for z, k in zip(y, times, strict=True) for _ in range(k)])
    assert max(weighted.lower_bound_, repeated.lower_bound_) <= min(weighted.objective_, repeated.objective_)


@pytest.mark.parametrize("name", ["svm", "crf", "parser", "segments", "graphs", "labels", "faces"])
def test_searches_and_warm_starts(name):
    estimator, data = CASES[name]
    X, y = data()
    estimator = clone(estimator).set_params(tol=1e-2)
    assert np.isfinite(cross_val_score(estimator, X, y, cv=2)).all()
    search = GridSearchCV(estimator, {"C": [0.1, 1.0]}, cv=2).fit(X, y)
    assert search.best_estimator_.certified_ and len(search.predict(X)) == len(X)
    warm = clone(estimator).set_params(warm_start=True, tol=1e-4).fit(X, y)
    cold = warm.n_passes_
    assert warm.fit(X, y).n_passes_ <= cold and warm.set_params(C=1.1 * warm.C).fit(X, y).converged_
    assert warm.fit(X[:10], y[:10]).converged_


class Words(TransformerMixin, BaseEstimator):
    """Lists of words to lists of features, as a user would write it."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return [[[word["word"], f"first={word['is_first']}"] for word in x] for x in X]


def test_pipeline_on_a_transformer_of_lists():
    X, y = chains()
    pipeline = make_pipeline(Words(), pb.ChainSVM()).fit(X, y)
    assert pipeline.score(X, y) > 0.6 and np.isfinite(cross_val_score(pipeline, X, y, cv=2)).all()
    assert pipeline[-1].vocabulary_ == ["?", "a", "b", "c", "first=False", "first=True"]


def test_formats_of_tokens_are_one_problem():
    X, y = chains()
    names = frequent_features(count_features(X))
    csr = encode(X, names)
    forms = {
        "dict": X, "texts": [[[name for name, value in entries(token, 0, 0) if value] for token in x] for x in X],
        "csr": [csr[i] for i in range(len(X))], "dense": [csr[i].toarray() for i in range(len(X))], "ragged": csr,
        "tuple of sets": tuple([{name for name, value in entries(token, 0, 0) if value} for token in x] for x in X),
    }  # fmt: skip
    fits = {form: pb.ChainSVM(tol=1e-6).fit(data, y) for form, data in forms.items()}
    for form, svm in fits.items():
        assert svm.objective_ == pytest.approx(fits["dict"].objective_, rel=2e-6), form
        assert same(svm.predict(forms[form]), fits["dict"].predict(X))
    assert fits["dict"].vocabulary_ == names and fits["csr"].vocabulary_ is None
    hashed = pb.ChainSVM(tol=1e-6, hash_bits=20, token_weights="all").fit(X, y)      # no two of a few features meet
    assert hashed.objective_ == pytest.approx(fits["dict"].objective_, rel=2e-6)
    assert hashed.n_features_in_ == 1 << 20
    integers = pb.ChainSVM(tol=1e-6).fit(X, Ragged.of([np.searchsorted(["A", "B", "C"], labels) for labels in y]))
    assert integers.classes_.tolist() == [0, 1, 2]
    assert integers.objective_ == pytest.approx(fits["dict"].objective_, rel=2e-6)


def test_entries_are_those_of_crfsuite():
    token = {"w": "the", "t": True, "f": False, "n": 2.5, "in": {"pos": "DT", "k": 3}, "s": ["he", "e"]}
    assert entries(token, 0, 0) == [("w:the", 1.0), ("t", 1.0), ("f", 0.0), ("n", 2.5), ("in:pos:DT", 1.0),
                                    ("in:k", 3.0), ("s:he", 1.0), ("s:e", 1.0)]
    assert entries(["a", "b"], 0, 0) == [("a", 1.0), ("b", 1.0)] and entries("a", 0, 0) == [("a", 1.0)]
    matrix = encode([[["a", "a", "new"], []], [{"b": 0.1}]], ["a", "b"])
    np.testing.assert_array_equal(matrix.values.toarray(), [[2.0, 0.0], [0.0, 0.0], [0.0, 0.1]])
    assert frequent_features(count_features([["a", "b", "a"]]), min_count=2) == ["a"]


def score(svm, x, labels):
    tokens = encode([x], svm.vocabulary_) if svm.hash_bits is None else encode([x], None, svm.hash_bits)
    return float((svm.model_.joint_feature(tokens[0], labels) @ svm.coef_).item())


@pytest.mark.parametrize("name", ["svm", "crf", "hashed"])
def test_chains_against_enumeration(name):
    estimator, data = CASES[name]
    X, y = data()
    svm = clone(estimator).fit(X, y)
    x, T = next((x, len(x)) for x in X if len(x) == 4)
    every = list(itertools.product(range(3), repeat=T))
    values = np.array([score(svm, x, np.array(labels)) for labels in every])
    order = np.argsort(-values, kind="stable")
    labellings, scores = svm.k_best([x], k=5)
    np.testing.assert_allclose(scores[0], values[order[:5]], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose([score(svm, x, np.searchsorted(svm.classes_, row)) for row in labellings[0]], scores[0],
                               rtol=1e-9, atol=1e-9)
    table = svm.decision_function([x])[0]
    brute = [[max(v for v, labels in zip(values, every, strict=True) if labels[t] == k) for k in range(3)]
             for t in range(T)]
    np.testing.assert_allclose(table, brute, rtol=1e-9, atol=1e-9)
    top = np.sort(brute, axis=1)
    np.testing.assert_allclose(svm.margins([x])[0], top[:, -1] - top[:, -2], atol=1e-9)
    assert score(svm, x, np.searchsorted(svm.classes_, svm.predict([x])[0])) == pytest.approx(values.max())
    if name == "crf":
        p = np.exp(values - values.max())
        p /= p.sum()
        brute = [[sum(q for q, labels in zip(p, every, strict=True) if labels[t] == k) for k in range(3)]
                 for t in range(T)]
        np.testing.assert_allclose(svm.predict_proba([x])[0], brute, rtol=1e-8)
        assert svm.predict_marginals([x])[0][0] == pytest.approx(dict(zip("ABC", brute[0], strict=True)))
        labels = [svm.classes_[list(every[7])]]
        assert svm.log_likelihood([x], labels)[0] == pytest.approx(np.log(p[7]))


def test_views_of_chain_weights():
    svm = pb.ChainSVM().fit(*chains())
    assert svm.token_coef_.shape == (3, svm.n_features_in_) and svm.transition_coef_.shape == (3, 3)
    assert svm.start_coef_.shape == svm.end_coef_.shape == (3,)
    weights = {name: svm.token_coef_[:, k] for k, name in enumerate(svm.vocabulary_)}
    assert weights["word:a"].argmax() == 0


def test_crf_is_the_documented_objective():
    X, y = chains()
    crf = pb.ChainCRF(C=0.5, tol=1e-6).fit(X, y)
    assert crf.objective_ == pytest.approx(crf.coef_ @ crf.coef_ - crf.log_likelihood(X, y).sum())


def test_parser_takes_words_in_every_form():
    y = [[2, 0], [2, 3, 0], [0, 1]]
    tuples = [[("dogs", "N"), ("bark", "V")], [("the", "D"), ("cat", "N"), ("sleeps", "V")],
              [("see", "V"), ("it", "P")]]
    dicts = [[{"word": word, "pos": pos} for word, pos in x] for x in tuples]
    sentences = [pb.datasets.Sentence([w for w, _ in x], [], [p for _, p in x], [], np.array([-1, *heads]), [])
                 for x, heads in zip(tuples, y, strict=True)]
    fits = [pb.DependencyParser(hash_bits=10).fit(X, y) for X in (tuples, dicts, sentences)]
    assert fits[0].kinds_ == ["pos=V", "pos=N", "pos=D", "pos=P"]
    for parser, X in zip(fits, (tuples, dicts, sentences), strict=True):
        np.testing.assert_array_equal(parser.coef_, fits[0].coef_)
        assert parser.predict(X) == y and parser.score(X, y) == 1.0
    rooted = pb.DependencyParser(hash_bits=10).fit(tuples, [[-1, *heads] for heads in y])
    assert rooted.predict(tuples)[0] == [-1, 2, 0] and rooted.score(tuples, y) == 1.0
    assert rooted.predict([[("new", "X")]])[0] == [-1, 0]
    with pytest.raises(pb.ParameterError, match=r"X\[0\]\[1\] must have the attribute 'pos', got {'word': 'b'}"):
        rooted.predict([[{"word": "a", "pos": "N"}, {"word": "b"}]])
    with pytest.raises(pb.ParameterError, match=r"X\[0\]\[0\] must have 2 attributes, word, pos"):
        rooted.predict([[("a", "b", "c")]])
    with pytest.raises(AttributeError, match="use loss='logistic' in the fit"):
        rooted.predict_proba(tuples)


def test_parser_probabilities_and_own_features():
    X, y = trees()
    parser = clone(CASES["log-parser"][0]).fit(X, y)
    for table, heads in zip(parser.predict_proba(X), y, strict=True):
        assert table.shape == (len(heads), len(heads))
        np.testing.assert_allclose(table[:, 1:].sum(axis=0), 1.0)
    arcs = [sp.csr_array([[float(heads[m] == h), 1.0] for h in range(len(heads)) for m in range(1, len(heads))
                          if h != m]) for heads in y]
    own = pb.DependencyParser(C=10.0).fit(arcs, y)
    assert own.n_features_in_ == 2 and own.score(arcs, y) == 1.0


def test_segments():
    X, y = segments()
    svm = pb.SegmentationSVM(C=10.0).fit(X, y)
    assert svm.predict(X) == y and svm.score(X, y) == 1.0
    assert sorted(zip(svm.classes_[svm.symbols_], svm.widths_, strict=True)) == [("a", 2), ("b", 3)]
    assert svm.template("b", 3).shape == (3, 3)
    turned = pb.SegmentationSVM(C=10.0, layout="image").fit([x.T for x in X], y)
    np.testing.assert_array_equal(turned.coef_, svm.coef_)
    wrong = [[("b", 0)] + [("a", k) for k in range(1, len(x))] for x in X]
    assert svm.score(X, wrong) < 0.5
    with pytest.raises(pb.ParameterError, match="got 'a', 7"):
        svm.template("a", 7)


def test_graphs_count_what_weights_say():
    X, y = graphs()
    named = [np.array(["sea", "boat"])[labels] for labels in y]
    svm = pb.BinaryLabelingSVM(class_weight={"boat": 3.0}).fit(X, named)
    assert svm.classes_.tolist() == ["boat", "sea"] and svm.class_weight_.tolist() == [3.0, 1.0]
    assert set(np.concatenate(svm.predict(X))) <= {"boat", "sea"}
    assert (svm.coef_[svm.n_features_in_:] >= 0.0).all()
    weighted = [pb.models.WeightedLabels(labels, np.ones(len(labels))) for labels in named]
    again = pb.BinaryLabelingSVM(class_weight={"boat": 3.0}).fit(X, weighted)
    np.testing.assert_array_equal(again.coef_, svm.coef_)
    assert again.score(X, weighted) == svm.score(X, named)


def test_landmarks_with_features_of_their_own():
    X, y = faces()
    pixels = np.round(X.reshape(len(X), -1, 1) / 255.0, 3)
    detector = pb.LandmarkDetector(descriptor=pb.features.MapFeatures(1), shape=(24, 24), parents=[-1, 0, 0, 0],
                                   tol=1e-2).fit(pixels, y)
    assert detector.predict(pixels).shape == (len(X), 4, 2) and -9.0 < detector.score(pixels, y) < 0.0
    plain = clone(CASES["faces"][0]).fit(X, y)
    deviation = np.linalg.norm(plain.predict(X) - np.floor(np.asarray(y) + 0.5), axis=2).mean()
    assert plain.score(X, y) == pytest.approx(-deviation)


def test_interrupt_stores_the_best_state():
    def interrupt(progress):
        if progress.n_iter == 2:
            assert progress.estimator.score(*chains()) >= 0.0
            raise KeyboardInterrupt

    svm = pb.ChainSVM(C=100.0, tol=1e-9, callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        svm.fit(*chains())
    assert svm.certified_ and not svm.converged_ and len(svm.predict(chains()[0])) == 24


def test_path_of_a_grid_equals_single_fits():
    X, y = chains(40, noise=1.0)        # words say it all, so that no prediction is close, ...
    rng = np.random.default_rng(1)
    y = [[label if rng.random() < 0.8 else "A" for label in labels] for labels in y]        # ... but not always right
    svm = pb.ChainSVMCV([1.0, 0.1, 0.01], cv=3, tol=1e-6, search_tol=1e-6).fit(X, y)
    assert svm.Cs_.tolist() == [0.01, 0.1, 1.0] and svm.scores_.shape == (3, 3) and (svm.gaps_ <= 1e-6).all()
    search = GridSearchCV(pb.ChainSVM(tol=1e-6), {"C": svm.Cs_}, cv=3).fit(X, y)
    theirs = np.array([search.cv_results_[f"split{k}_test_score"] for k in range(3)])
    np.testing.assert_allclose(svm.scores_, theirs)
    assert 0.5 < svm.scores_.min() < svm.scores_.max() < 1.0
    assert svm.C_ == svm.Cs_[svm.scores_.mean(axis=0).argmax()] and svm.converged_
    assert svm.objective_ == pytest.approx(pb.ChainSVM(svm.C_, tol=1e-6).fit(X, y).objective_, rel=2e-6)
    threads = clone(svm).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(threads.scores_, svm.scores_)
    np.testing.assert_array_equal(threads.coef_, svm.coef_)


def some_empty(X):
    """The sentences with empty ones before, between and behind."""
    return [[], X[0], [], *X[1:], []]


@pytest.mark.parametrize("name", ["svm", "hashed", "crf", "parser", "log-parser"])
def test_empty_sentences_are_labelled_by_nothing_and_teach_nothing(name):
    """One empty line failed the whole call."""
    estimator, data = CASES[name]
    X, y = (list(part) for part in data())
    if "parser" in name:
        X, y = [list(map(tuple, np.asarray(x).astype(str)[:, :2])) for x in X], [heads[1:] for heads in y]
    fitted = clone(estimator).fit(X, y)
    again = clone(estimator).fit(some_empty(X), some_empty(y), [5.0, 1.0, 5.0, *np.ones(len(X) - 1), 5.0])
    np.testing.assert_array_equal(again.coef_, fitted.coef_)
    assert same(fitted.predict(some_empty(X)), some_empty(fitted.predict(X)))
    assert fitted.score(some_empty(X), some_empty(y)) == pytest.approx(fitted.score(X, y))
    assert [list(labels) for labels in fitted.predict([[], []])] == [[], []]
    assert len(fitted.decision_function(some_empty(X))) == len(X) + 3
    if name == "crf":
        assert fitted.predict_marginals([X[0], []]) == [fitted.predict_marginals(X[:1])[0], []]
        assert fitted.predict_proba([[]])[0].shape == (0, 3)
        np.testing.assert_array_equal(fitted.log_likelihood([X[0], []], [y[0], []]),
                                      [*fitted.log_likelihood(X[:1], y[:1]), 0.0])
    if name in ("crf", "svm"):
        labellings, scores = fitted.k_best([[], X[0]])
        assert labellings[0] == [[]] and scores[0].tolist() == [0.0] and len(scores[1]) == 3
        assert [len(margins) for margins in fitted.margins([[], X[0]])] == [0, len(X[0])]


def test_empty_sentences_among_arrays():
    X, y = chains()
    csr = encode(X, frequent_features(count_features(X)))
    for form in ([csr[i] for i in range(len(X))], [csr[i].toarray() for i in range(len(X))]):
        svm = pb.ChainSVM().fit(some_empty(form), some_empty(y))
        assert same(svm.predict(some_empty(form)), some_empty(svm.predict(form)))
        assert svm.predict([[]]) == [[]] and svm.predict([[]], output="array")[0].dtype.kind == "U"
    numbers = [[{"A": 2**53 + 1, "B": 2**53, "C": 0}[label] for label in labels] for labels in y]
    assert pb.ChainSVM().fit(some_empty(X), some_empty(numbers)).classes_.tolist() == [0, 2**53, 2**53 + 1]


@pytest.mark.parametrize("name", ["svm", "crf", "cv"])
def test_sentences_may_come_from_generators(name):
    X, y = chains()
    estimator = clone(CASES[name][0])
    plain = clone(estimator).fit(X, y)
    for fitted in (clone(estimator).fit((x for x in X), (labels for labels in y)),
                   clone(estimator).fit(((token for token in x) for x in X), map(iter, y)),
                   clone(estimator).fit([iter(x) for x in X], {i: labels for i, labels in enumerate(y)}.values())):
        np.testing.assert_array_equal(fitted.coef_, plain.coef_)
    assert same(plain.predict(iter(X)), plain.predict(X))
    assert same(plain.predict((token for token in x) for x in X), plain.predict(X))
    assert plain.score(map(iter, X), map(iter, y)) == plain.score(X, y)
    if name == "crf":
        assert plain.predict_marginals(map(iter, X)) == plain.predict_marginals(X)
        np.testing.assert_array_equal(plain.log_likelihood(iter(X), iter(y)), plain.log_likelihood(X, y))
    with pytest.raises(pb.ParameterError, match="X must hold at least one example"):
        plain.predict(iter([]))


ONE = ([["a", "b"]], [["A", "B"]])


@pytest.mark.parametrize("estimator, X, y, error, match", [
    (pb.ChainSVM(), [], [], pb.ParameterError, "X must hold at least one example"),
    (pb.ChainSVM(), 3, ONE[1], pb.InputTypeError, "X must be a list with one entry for each example, got int"),
    (pb.ChainSVM(), *ONE[:1], [], pb.ParameterError, "y must hold at least one"),
    (pb.ChainSVM(), [*ONE[0], ["a"]], ONE[1], pb.ParameterError, "X and Y"),
    (pb.ChainSVM(), ONE[0], [["A", "A"]], pb.ParameterError, "two classes, got one class only, 'A'"),
    (pb.ChainSVM(), ONE[0], [["A"]], pb.ParameterError, r"y\[0\] must have one label .* X\[0\], 2,"),
    (pb.ChainSVM(), ONE[0], [["A", "B", "C"]], pb.ParameterError, r"y\[0\] must have one label .* X\[0\], 2,"),
    (pb.ChainSVM(), [np.eye(3)], [["A", "B"]], pb.ParameterError, r"y\[0\] must have one label .* X\[0\], 3,"),
    (pb.ChainSVM(), Ragged.of([np.eye(2)]), [["A"]], pb.ParameterError, r"y\[0\] must have one label .* X\[0\], 2,"),
    (pb.ChainSVM(), ["the dog"], [["DET", "N"]], pb.InputTypeError, r"X\[0\] must be a sequence of tokens, got 'the d"),
    (pb.ChainSVM(), [{"word": "a"}], [["A"]], pb.InputTypeError, r"one sequence alone as \[sequence\]"),
    (pb.ChainSVM(), np.eye(2), [["A"], ["B"]], pb.ParameterError, r"got \(2,\); one sequence alone is \[sequence\]"),
    (pb.ChainSVM(), [[], []], [[], []], pb.ParameterError, "X must hold at least one example that is not empty"),
    (pb.ChainSVM(), [["a", "b"], []], [["A", "B"], ["A"]], pb.ParameterError, "for each token of X.1., 0, got 1"),
    (pb.ChainSVM(), [[], ["a", 3]], [[], ["A", "B"]], pb.InputTypeError, r"X\[1\]\[1\] must be a dictionary of feat"),
    (pb.DependencyParser(), [[("a", "b")], []], [[0], [0]], pb.ParameterError, r"y\[1\] must have no heads"),
    (pb.ChainSVM(), ONE[0], ["AB"], pb.InputTypeError, r"y\[0\] must be a sequence of labels, got 'AB'"),
    (pb.ChainSVM(), [["a", 3]], ONE[1], pb.InputTypeError, r"X\[0\]\[1\] must be a dictionary of features"),
    (pb.ChainSVM(), [[{"a": None}, {}]], ONE[1], pb.InputTypeError, r"X\[0\]\[0\]\['a'\] must be a text"),
    (pb.ChainSVM(hash_bits=50), *ONE, pb.ParameterError, "hash_bits must be an integer <= 30, got 50"),
    (pb.ChainCRF(hash_bits=9, min_count=2), *ONE, pb.ParameterError, "min_count must be 1 with hash_bits"),
    (pb.ChainSVM(min_count=9), *ONE, pb.ParameterError, "min_count = 9"),
    (pb.ChainSVM(loss="zero"), *ONE, pb.ParameterError, "loss must be"),
    (pb.ChainSVM(C=-1), *ONE, pb.ParameterError, "C must be"),
    (pb.ChainSVMCV(Cs=[]), *ONE, pb.ParameterError, "Cs must be"),
    (pb.ChainSVMCV(Cs=0), *ONE, pb.ParameterError, "Cs must be at least 1"),
    (pb.ChainSVMCV(cv=1), *ONE, pb.ParameterError, "cv must be at least 2 folds, .* got 1"),
    (pb.DependencyParser(), ["the dog"], [[2, 0]], pb.InputTypeError, r"X\[0\] must be a list of words, .* word, pos"),
    (pb.DependencyParser(), [["the", "dog"]], [[2, 0]], pb.InputTypeError, r"X\[0\] must be a list of words"),
    (pb.DependencyParser(), [("the", "D"), ("dog", "N")], [[0], [0]], pb.InputTypeError, r"alone is \[sentence\]"),
    (pb.DependencyParser(), [[("a", "b")]], [["x"]], pb.InputTypeError, r"y\[0\] must be a sequence of heads"),
    (pb.DependencyParser(), [[("a", "b")]], [[5]], pb.ParameterError, "the head of word 1 must be 0..1"),
    (pb.SegmentationSVM(), [np.ones((3, 2))], [[("a", 1)]], pb.ParameterError, r"y\[0\] must hold segments from col"),
    (pb.SegmentationSVM(), [np.ones((3, 9))], [[("a", 0), ("b", 5)]], pb.ParameterError,
     r"the last one before column 3, got the first columns \[0, 5\]; images are read as columns, pass layout='image'"),
    (pb.SegmentationSVM(), [np.ones((3, 2))], [["a"]], pb.InputTypeError, r"y\[0\] must be a list of pairs"),
    (pb.SegmentationSVM(), [np.ones(3)], [[("a", 0)]], pb.ParameterError, r"X\[0\] must be an image"),
    (pb.SegmentationSVM(fillers=["z"]), *segments(), pb.ParameterError, "fillers must be labels that occur, got 'z'"),
    (pb.SegmentationSVM(widths=[3]), *segments(), pb.InputTypeError, "widths must be a dictionary"),
    (pb.SegmentationSVM(widths={"c": [3]}), *segments(), pb.ParameterError, "by labels of y, 'a', 'b', got 'c'"),
    (pb.BinaryLabelingSVM(), [1], [[0]], pb.InputTypeError, r"X\[0\] must be a Graph"),
    (pb.BinaryLabelingSVM(), [pb.models.Graph([[1.0]], np.empty((0, 2), int), np.empty((0, 1)))], [[0]],
     pb.InputTypeError, r"X\[0\] must have arrays nodes"),
    # as many weights as nodes in all, but not for each graph
    (pb.BinaryLabelingSVM(), [pb.models.Graph(np.ones((2, 1)), np.empty((0, 2), int), np.empty((0, 1)))] * 2,
     [pb.models.WeightedLabels([0, 1], np.ones(n)) for n in (1, 3)], pb.ParameterError, r"y\[0\].weights must be of"),
    (pb.BinaryLabelingSVM(class_weight={7: 1.0}), *graphs(), pb.ParameterError, "class_weight must be"),
    (pb.LandmarkDetector(), [np.ones((3, 3)), np.ones((3, 4))], np.zeros((2, 1, 2)), pb.ParameterError, "of one size"),
    (pb.LandmarkDetector(windows=[3]), *faces(), pb.ParameterError, "windows must be pairs"),
])  # fmt: skip
def test_what_is_refused(estimator, X, y, error, match):
    with pytest.raises(error, match=match):
        clone(estimator).fit(X, y)


def test_predictions_refuse_other_data():
    X, y = chains()
    names, arrays = pb.ChainSVM().fit(X, y), pb.ChainSVM().fit(encode(X, frequent_features(count_features(X))), y)
    with pytest.raises(pb.ParameterError, match="X must hold features by name"):
        names.predict([np.ones((2, 3))])
    with pytest.raises(pb.ParameterError, match="X must hold arrays or CSR"):
        arrays.predict(X)
    for model in (names, arrays):
        with pytest.raises(pb.InputTypeError, match=r"X\[0\] must be a sequence of tokens, got 'a' of type str; .*"):
            model.predict(["a", "b"])
    with pytest.raises(pb.ParameterError, match=r"y\[0\] must have"):
        names.score(X, [labels[:1] for labels in y])
    with pytest.raises(Exception, match="not fitted"):
        pb.ChainSVM().predict(X)
    detector = clone(CASES["faces"][0]).fit(*faces())
    with pytest.raises(pb.ParameterError, match="images of shape"):
        detector.predict(np.ones((2, 10, 10)))


def test_nothing_is_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svm = pb.ChainSVM().fit(*chains())
    assert svm.converged_ and svm.certified_


def test_landmarks_can_be_fitted_again_on_images_of_another_size():
    images = landmark_images(6, random_state=0)
    detector = pb.LandmarkDetector(windows=[(5, 5)], tol=0.5).fit(images.X, images.Y)
    larger = np.pad(np.asarray(images.X), ((0, 0), (0, 4), (0, 4)))
    assert tuple(detector.fit(larger, images.Y).shape_) == larger.shape[1:]
    with pytest.raises(pb.ParameterError, match="images of shape"):
        detector.predict(images.X)


@pytest.mark.parametrize("name, changes", [
    ("svm", {"start": False, "end": False}), ("crf", {"start": False}), ("hashed", {"hash_bits": 9}),
    ("parser", {"hash_bits": 11, "single_root": False, "templates": ["head.word"], "attributes": ("a",)}),
    ("log-parser", {"loss": "hinge"}), ("segments", {"layout": "image", "fillers": [], "loss": "symbol"}),
    ("graphs", {"loss": "mean", "class_weight": None}),
    ("labels", {"loss": "mean", "class_weight": None, "risk": "true", "classes": [0, 1, 2, 7]}),
    ("faces", {"parents": [-1, 0, 1, 2], "windows": [(1, 1)], "unit": 7.0}),
])  # fmt: skip
def test_predictions_use_the_parameters_of_the_fit(name, changes, tmp_path):
    estimator, data = CASES[name]
    X, y = data()
    fitted = clone(estimator).fit(X, y)
    found, score, scores = fitted.predict(X), fitted.score(X, y), fitted.decision_function(X)
    seen = []
    for other in (fitted.set_params(**changes), pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        assert same(other.predict(X), found) and other.score(X, y) == score
        assert same(other.decision_function(X), scores)
        assert other.get_params()[next(iter(changes))] == changes[next(iter(changes))]
    fitted.save(tmp_path / "model")
    again = pb.load(tmp_path / "model").set_params(**changes)
    assert same(again.predict(X), found)
    # a callback sees the parameters of the fit that runs
    if name not in ("parser", "segments"):
        fitted.set_params(callback=lambda progress: seen.append(progress.estimator.predict(X))).fit(X, y)
        assert len(seen) == fitted.n_iter_ and same(seen[-1], fitted.predict(X))


@pytest.mark.parametrize("estimator, X, y", [
    (pb.ChainSVM(), [["a", "b"], ["a", "c"]], [["N", 1], ["N", "V"]]),
    (pb.ChainSVM(), [["a", "b"], ["a", "c"]], [["N", "V"], [1, 2]]),
    (pb.ChainSVM(), [["a", "b"], ["a", "c"]], [np.array(["N", 1], dtype=object), ["N", "V"]]),
    (pb.ChainSVM(), [["a", "b"], ["a", "c"]], [["N", ("V", 1)], ["N", "V"]]),
    (pb.SegmentationSVM(), [np.ones((3, 1)), np.ones((3, 1))], [[("a", 0), (1, 2)], [("a", 0)]]),
])  # fmt: skip
def test_texts_and_numbers_are_not_mixed_as_labels(estimator, X, y):
    with pytest.raises(pb.InputTypeError, match=r"labels of one type|sequence of labels"):
        clone(estimator).fit(X, y)


def test_labels_of_numbers_stay_numbers():
    X, y = chains()
    y = [[{"A": 1, "B": 5, "C": 7}[label] for label in labels] for labels in y]
    svm = pb.ChainSVM(tol=1e-2).fit(X, y)
    assert svm.classes_.dtype.kind == "i" and set(np.concatenate(svm.predict(X)).tolist()) <= {1, 5, 7}


def test_texts_of_numpy_are_texts():
    X, y = [["the", "dog"], ["dogs", "bark"]], [["D", "N"], ["N", "V"]]
    plain = pb.ChainSVM().fit(X, y)
    for form in (lambda x: np.array(x), lambda x: np.array(x, dtype=object), lambda x: [np.str_(w) for w in x],
                 lambda x: np.array([[w] for w in x]), lambda x: [np.array([w]) for w in x]):
        other = pb.ChainSVM().fit([form(x) for x in X], [np.array(labels) for labels in y])
        assert other.vocabulary_ == plain.vocabulary_
        np.testing.assert_array_equal(other.coef_, plain.coef_)
        assert same(other.predict([form(x) for x in X]), plain.predict(X))
    words = [[("dogs", "N"), ("bark", "V")], [("the", "D"), ("cat", "N"), ("sleeps", "V")]]
    heads = [[2, 0], [2, 3, 0]]
    parser = pb.DependencyParser(hash_bits=10).fit(words, heads)
    again = pb.DependencyParser(hash_bits=10).fit([np.array(x) for x in words], heads)
    assert again.kinds_ == parser.kinds_
    np.testing.assert_array_equal(again.coef_, parser.coef_)
    with pytest.raises(pb.ParameterError, match="X must hold words as texts"):
        parser.predict([np.ones((2, 2), dtype=int)])


def test_examples_without_weight_bring_nothing():
    X, y = chains()
    extra_X, extra_y = [[{"word": "new"}]], [["D"]]
    weights = np.append(np.ones(len(X)), 0.0)
    svm = pb.ChainSVM(tol=1e-4).fit(X + extra_X, y + extra_y, weights)
    plain = pb.ChainSVM(tol=1e-4).fit(X, y)
    assert svm.classes_.tolist() == ["A", "B", "C"] and svm.vocabulary_ == plain.vocabulary_
    np.testing.assert_array_equal(svm.coef_, plain.coef_)
    with pytest.raises(pb.ParameterError, match="sample_weight must leave at least one example"):
        svm.fit(X, y, np.zeros(len(X)))


def test_balanced_nodes_count_the_weights_of_their_graphs():
    X, y = graphs(4)
    weighted = pb.BinaryLabelingSVM(class_weight="balanced", tol=1e-2).fit(X, y, [1, 2, 3, 1])
    repeated = pb.BinaryLabelingSVM(class_weight="balanced", tol=1e-2).fit(
        [X[i] for i in (0, 1, 1, 2, 2, 2, 3)], [y[i] for i in (0, 1, 1, 2, 2, 2, 3)])
    np.testing.assert_allclose(weighted.class_weight_, repeated.class_weight_)


def test_errors_of_structured_estimators_have_names():
    X, y = chains()
    crf = pb.ChainCRF(tol=0.1).fit(X, y)
    for wrong, match in ((y[:3], "same number"), ([[7] * len(labels) for labels in y], "labels of classes_"),
                         ([[*labels, "A"] for labels in y], "labels of classes_"), (3, "y must be a list")):
        with pytest.raises(pb.BundleError, match=match):
            crf.log_likelihood(X, wrong)
    np.testing.assert_allclose(np.exp(crf.log_likelihood(X[:1], y[:1])), np.exp(crf.log_likelihood(X, y)[0]))
    X, y = graphs(4)
    svm = pb.BinaryLabelingSVM(tol=0.1).fit(X, y)
    for weights, match in ((np.ones(3), r"y\[0\].weights must be of shape"),
                           (np.zeros(len(y[0])), r"y\[0\] must weight one of its nodes")):
        wrong = [pb.models.WeightedLabels(labels, weights) for labels in y]
        with pytest.raises(pb.ParameterError, match=match):
            svm.score(X, wrong)
    with pytest.raises(pb.ParameterError, match=r"class_weight\[1\] must be"):
        pb.BinaryLabelingSVM(class_weight={1: -1.0}).fit(X, y)
    X, y = segments()
    with pytest.raises(pb.InputTypeError, match=r"widths\['b'\] must be a list of widths, got 3"):
        pb.SegmentationSVM(widths={"b": 3}).fit(X, y)


def test_kinds_of_words_that_are_seen_once(tmp_path):
    X = [[("dogs", "N"), ("bark", "V")], [("the", "D"), ("cat", "N"), ("sleeps", "V")], [("the", "D"), ("dogs", "N")]]
    y = [[2, 0], [2, 3, 0], [2, 0]]
    parser = pb.DependencyParser(hash_bits=12, min_count=2).fit(X, y)
    assert parser.vocabulary_ == ["word=dogs", "word=the", "pos=D", "pos=N", "pos=V"]
    one, other = (parser.decision_function([[(word, "N"), ("bark", "V")]])[0] for word in ("cat", "mouse"))
    assert np.array_equal(one, other)           # "cat" was seen once, "mouse" never
    parser.save(tmp_path / "m.npz")
    assert np.array_equal(pb.load(tmp_path / "m.npz").decision_function(X)[0], parser.decision_function(X)[0])
    apart = pb.DependencyParser(hash_bits=12).fit(X, y)
    assert apart.vocabulary_ is None
    with pytest.raises(pb.ParameterError, match="min_count must be"):
        pb.DependencyParser(min_count=0).fit(X, y)


def test_small_letters_of_sentences():
    words = ["The", "dog"]
    sentences = [pb.datasets.Sentence(forms, forms, ["DET", "NOUN"], ["DT", "NN"], np.array([-1, 2, 0], np.int32),
                                      ["_", "_"]) for forms in (words, [word.upper() for word in words])]
    parser = pb.DependencyParser(attributes=("lower", "xpos", "pos"), templates=pb.models.TREEBANK_TEMPLATES,
                                 hash_bits=10).fit(sentences, [[2, 0], [2, 0]])
    scores = parser.decision_function(sentences)
    assert np.array_equal(*scores)


NAMED = [[{"t": 1.0}, {"t": -1.0, "u": 2}], [{"t": 0.5}, {"t": -2.0}, {"u": True}]]
ARRAYS = [np.array([[1.0, 0.0], [-1.0, 2.0]]), np.array([[0.5, 0.0], [-2.0, 0.0], [0.0, 1.0]])]
CODES = [[0, 1], [0, 1, 1]]
METHODS = ["predict", "decision_function", "margins", "k_best"]


@pytest.mark.parametrize("make", [pb.ChainSVM, pb.ChainCRF, partial(pb.ChainCRF, hash_bits=4)],
                         ids=["svm", "crf", "hashed"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, -4e38, 10**400],
                         ids=["nan", "inf", "-inf", "1e308", "-4e38", "huge"])
def test_numbers_of_features_are_named(make, value):
    """Of a score that was not finite, or with warnings of NumPy; the largest number of float32 is fine."""
    bad = [NAMED[0], [{"t": 0.5}, {"v": {"t": value}}, {"u": True}]]
    model = make().fit(NAMED, CODES)
    words = r"X\[1\]\[1\]\['v:t'\] must be a finite number of at most 3.4e\+38, got "
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (lambda: make().fit(bad, CODES), *(partial(getattr(model, name), bad) for name in METHODS)):
            with pytest.raises(pb.ParameterError, match=words) as caught:
                call()
            assert len(str(caught.value)) < 200
        model.predict([[{"t": float(np.finfo(np.float32).max)}]])


@pytest.mark.parametrize("make", [pb.ChainSVM, pb.ChainCRF])
@pytest.mark.parametrize("form", [np.array, np.float32, sp.csr_array, np.ndarray.tolist])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_of_arrays_are_named(make, form, value):
    model, bad = make().fit(ARRAYS, CODES), [x.copy() for x in ARRAYS]
    bad[1][2, 1] = value
    bad = [form(x) for x in [np.zeros((0, 2)), *bad]] if form is not np.ndarray.tolist else [[], *map(form, bad)]
    for name in METHODS + ["predict_proba"] * (make is pb.ChainCRF):
        with pytest.raises(pb.ParameterError, match=rf"X must be finite, got {value} in X\[2\]\[2\], column 1; drop"):
            getattr(model, name)(bad)


@pytest.mark.parametrize("make", [pb.ChainSVM, pb.ChainCRF])
@pytest.mark.parametrize("data", [NAMED, ARRAYS], ids=["named", "arrays"])
@pytest.mark.parametrize("X, words", [
    ([None], r"X\[0\] must be a sequence of tokens, got None of type NoneType"),
    ([["a"], 3], r"X\[1\] must be a sequence of tokens, got 3 of type int"),
    ([[None]], r"X\[0\]\[0\] must be a token, .*, got None of type NoneType"),
    ([[1.5, 2.5]], r"X\[0\]\[0\] must be a token, .*, got 1.5 of type float; one sequence alone is \[sequence\]"),
    ([[], [[1.0, 2.0], np.float64(1.0)]], r"X\[1\]\[1\] must be a token, .* of type float64"),
])
def test_what_is_no_token(make, data, X, words):
    """It was called an array, also where arrays are meant."""
    with pytest.raises(pb.InputTypeError, match=words) as caught:
        make().fit(data, CODES).predict(X)
    assert len(str(caught.value)) < 200
    with pytest.raises(pb.InputTypeError, match=words):
        make().fit([*X, *data], [[0] * (len(x) if isinstance(x, list) else 1) for x in X] + CODES)
    with pytest.raises(pb.ParameterError, match="got arrays" if data is NAMED else "got features by name"):
        make().fit(data, CODES).predict(ARRAYS if data is NAMED else NAMED)


def test_advice_names_parameters_that_there_are():
    """The objective is nearly 0 here."""
    rng = np.random.default_rng(0)
    y = [rng.integers(0, 3, 6) for _ in range(10)]
    X = [1e5 * (np.eye(3)[labels] + 0.1 * rng.normal(size=(6, 3))) for labels in y]
    with pytest.warns(pb.ConvergenceWarning, match="the objective is about 0: pass atol, .* holds here; or ") as caught:
        pb.ChainCRF().fit(X, y)
    holds = float(str(caught[0].message).split("pass atol, ")[1].split()[0])
    assert pb.ChainCRF(atol=holds).fit(X, y).converged_
    with pytest.warns(pb.ConvergenceWarning, match="the objective is about 0: pass atol, .* holds here"):
        pb.minimize(pb.risks.Structured(pb.models.Chain(3, 3), X, y, loss="logistic"), lam=1.0, tol=1e-3)


PAIRS, NUMBERS, ARCS = [[("the", "D"), ("dog", "N")]], [np.array([[1, 2], [3, 4]])], [sp.csr_array(np.eye(4))]


@pytest.mark.parametrize("data", [PAIRS, NUMBERS, ARCS], ids=["pairs", "numbers", "arcs"])
@pytest.mark.parametrize("X, words", [
    ([None], r"X\[0\] must be a list of words, got None of type NoneType; one sentence alone is \[sentence\]"),
    ([[None]], r"X\[0\]\[0\] must be a word, got None of type NoneType"),
    ([[("the", "D"), 3]], r"X\[0\]\[1\] must be a word, got 3 of type int"),
])
def test_what_is_no_word(data, X, words):
    """AttributeError, a TypeError of Python, or words of arrays."""
    model = pb.DependencyParser().fit(data, [[2, 0]])
    for call in (model.predict, lambda X: pb.DependencyParser().fit(X, [[2, 0]])):
        with pytest.raises(pb.InputTypeError, match=words) as caught:
            call(X)
        assert len(str(caught.value)) < 200


def test_words_as_lists_of_numbers():
    """`fit` took them, `predict` did not."""
    lists = [NUMBERS[0].tolist()]
    assert pb.DependencyParser().fit(lists, [[2, 0]]).predict(lists) == [[2, 0]]


def test_ragged_images():
    with pytest.raises(pb.InputTypeError, match=r"X\[0\] must be an array, got list"):
        pb.SegmentationSVM().fit([[[1], [2, 3]]], [[("a", 0)]])


def test_scores_of_other_labels_are_refused():
    """Texts never equal numbers: a score of 0 said that all predictions were wrong."""
    X, y = chains()
    svm = pb.ChainSVM(tol=0.1).fit(X, y)
    is_text = isinstance(svm.classes_[0], str)
    with pytest.raises(pb.InputTypeError, match=r"y\[0\] must hold labels like those of training"):
        svm.score(X, [[0 if is_text else "a"] * len(labels) for labels in y])
