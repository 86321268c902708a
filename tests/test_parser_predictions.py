"""Predictions of a parser: lists of heads, and what one sentence may cost."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from counted import Counted

import pybundle as pb


def treebank(n_words):
    """As many sentences of five words, every word of which occurs five times and hangs on the one before."""
    numbers = np.random.default_rng(0).permutation(np.repeat(np.arange(n_words), 5)).reshape(n_words, 5)
    X = [[(f"w{k}", f"X{k % 10}", "AB"[k % 2]) for k in row] for row in numbers.tolist()]
    return X, [[0, 1, 2, 3, 4]] * n_words


def fitted(n_words=20, **parameters):
    X, y = treebank(n_words)
    parser = pb.DependencyParser(attributes=("lower", "xpos", "pos"), templates=pb.models.TREEBANK_TEMPLATES,
                                 hash_bits=12, min_count=2, tol=0.5)
    return parser.set_params(**parameters).fit(X, y), X


class Weights(np.ndarray):
    """Weights that go through no operation of NumPy: the decoder looks up those of the features that it meets."""

    def __array_ufunc__(self, *_, **__):
        raise AssertionError("all weights are read")

    def __array_function__(self, *_, **__):
        raise AssertionError("all weights are read")


@pytest.mark.parametrize("n_words", [20, 200])
def test_a_sentence_costs_nothing_per_value_and_weight(n_words, monkeypatch):
    """Every call read all values of the vocabulary, once per attribute, and parsed all templates twice."""
    parser, X = fitted(n_words)
    expected = parser.predict(X)
    assert len(parser.vocabulary_) == n_words + 12
    parser.vocabulary_, parser.kinds_ = values = Counted(parser.vocabulary_), Counted(parser.kinds_)
    vars(parser)["coef_"] = parser.coef_.view(Weights)
    assert parser.predict(X[:1]) == expected[:1]
    n_read = [names.n_read for names in values]
    assert min(n_read) > 0

    def refuse(*_):
        raise AssertionError("templates are parsed again")

    for name in ("models.dependency.model.parse_templates", "models.dependency.model.KeyMaker",
                 "estimators.words.parse_templates"):
        monkeypatch.setattr(f"pybundle.{name}", refuse)
    assert [parser.predict_single(x) for x in X] == parser.predict(X) == expected
    parser.set_params(C=2.0, tol=0.1)
    assert parser.predict(X) == expected
    assert [names.n_read for names in values] == n_read


def test_maps_are_made_anew_after_all_that_changes_them(tmp_path):
    parser, X = fitted()
    expected = parser.predict(X)
    with_maps, parser._kept = len(pickle.dumps(parser)), {}
    assert with_maps == len(pickle.dumps(parser))               # maps stay at home
    parser.predict(X)
    parser.save(tmp_path / "parser.npz")
    for again in (pickle.loads(pickle.dumps(parser)), pb.load(tmp_path / "parser.npz")):
        assert again.predict(X) == again.predict(X) == expected
    # predictions are those of the fit until the next one, which has other attributes
    parser.set_params(attributes=("word", "tag", "pos"), templates=["h.tag m.tag direction"], min_count=1)
    assert parser.predict(X) == expected
    words = [[dict(zip(("word", "tag", "pos"), word, strict=True)) for word in x] for x in X]
    parser.fit(words, expected)
    fresh = pb.DependencyParser().set_params(**parser.get_params()).fit(words, expected)
    assert parser.predict(words) == fresh.predict(words) and parser.vocabulary_ is None
    # a vocabulary of other words, as somebody may put in
    other, _ = fitted()
    before = other.decision_function(X[:1])[0]
    other.vocabulary_ = []
    assert (other.decision_function(X[:1])[0] != before).any()


def test_first_predictions_of_many_threads(tmp_path):
    parser, X = fitted(50)
    parser.save(tmp_path / "parser.npz")
    expected = parser.predict(X)
    for _ in range(3):
        loaded = pb.load(tmp_path / "parser.npz")
        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(loaded.predict_single, X)) == expected


@pytest.mark.parametrize("with_root", [False, True])
def test_heads_are_lists_of_int(with_root):
    """Arrays are not what `json` takes, and == of a list of arrays has no truth value."""
    X, y = [[("dogs", "N"), ("bark", "V")], [], [("see", "V")]], [[2, 0], [], [0]]
    if with_root:
        y = [[-1, *heads] for heads in y]
    parser = pb.DependencyParser(C=10.0, hash_bits=10).fit(X, y)
    assert parser.predict(X) == y and json.loads(json.dumps(parser.predict(X))) == y
    assert {type(head) for heads in parser.predict(X) for head in heads} == {int}
    assert [parser.predict_single(x) for x in X] == y
    arrays = parser.predict(X, output="array")
    assert [(heads.dtype, heads.tolist()) for heads in arrays] == [(np.int32, heads) for heads in y]
    sentence = pb.datasets.Sentence(["dogs", "bark"], [], ["N", "V"], [], np.array([-1, 2, 0]), [])
    assert parser.predict_single(sentence) == y[0] and parser.score(X, y) == 1.0
    with pytest.raises(pb.ParameterError, match=r"output must be .*'list', 'array'.*'tuple'"):
        parser.predict(X, output="tuple")


def test_arcs_and_numbers_as_sentences():
    arcs = sp.csr_array(np.eye(4))                              # arcs 0 -> 1, 0 -> 2, 1 -> 2, 2 -> 1
    assert pb.DependencyParser(C=10.0).fit([arcs], [[2, 0]]).predict_single(arcs) == [2, 0]
    numbers = np.array([[1, 2], [3, 4]])
    assert pb.DependencyParser(C=10.0, hash_bits=9).fit([numbers], [[2, 0]]).predict_single(numbers) == [2, 0]


def test_bags_of_sentences():
    bag = pytest.importorskip("dask.bag")
    parser, X = fitted()
    with_dask = bag.from_sequence(X, npartitions=3)
    assert parser.predict(with_dask).compute(scheduler="sync") == parser.predict(X)
    arrays = parser.predict(with_dask, output="array").compute(scheduler="sync")
    assert all(isinstance(heads, np.ndarray) for heads in arrays)


def test_keys_of_a_sentence_depend_on_nothing_but_it():
    """Neither on sentences beside it, nor on the longest of them, nor on where the keys of many are cut."""
    rng = np.random.default_rng(1)
    templates = (*pb.models.TREEBANK_TEMPLATES, "m-3.pos direction", "h.pos h+2.pos each.pos distance")
    model = pb.models.Dependency.hashed(14, ("lower", "xpos", "pos"), templates, single_root=False)
    X = [rng.integers(0, 40, (n, 3)) for n in rng.integers(1, 70, 90)]
    Y = [np.arange(-1, len(x)) for x in X]
    w = rng.standard_normal(model.dim)
    assert sum(map(len, X)) > 2048
    found = model.oracle(X, Y).solve_batch(np.arange(len(X)), w)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        alone = model.oracle([x], [y]).solve_batch(np.arange(1), w)
        assert alone.values[0] == found.values[i] and np.array_equal(alone.labellings[0], found.labellings[i])


def test_bytes_of_words_are_texts_in_utf8():
    """A fit on bytes, as HDF5 and old files have them, learnt the word "b'dog'", which no text is."""
    texts, y = [[("dög", "N"), ("bark", "V")], [("the", "D"), ("cat", "N"), ("sleeps", "V")]], [[2, 0], [2, 3, 0]]
    raw = [[tuple(value.encode() for value in word) for word in x] for x in texts]
    forms = [raw, [np.array(x, object) for x in raw], [np.array(x) for x in raw],
             [[{"word": word, b"pos": tag} for word, tag in x] for x in raw]]
    options = {"C": 10.0, "hash_bits": 12, "templates": ["h.word m.word direction", "h.pos m.pos set.pos"]}
    expected = pb.DependencyParser(**options).fit(texts, y)
    for form in forms:
        parser = pb.DependencyParser(**options).fit(form, y)
        assert parser.kinds_ == expected.kinds_ and "pos=N" in parser.kinds_
        np.testing.assert_array_equal(parser.coef_, expected.coef_)
        for one, other in zip(expected.decision_function(form), expected.decision_function(texts), strict=True):
            np.testing.assert_array_equal(one, other)
    for fails in (lambda bad: pb.DependencyParser().fit([bad], [[0]]), lambda bad: expected.predict([bad])):
        with pytest.raises(pb.ParameterError, match=r"X\[0\]\[0\] must hold texts or UTF-8, got b'\\xff'"):
            fails([(b"\xff", b"N")])
