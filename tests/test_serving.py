"""One sentence at a time: what a prediction reads and makes does not grow with the names; labels are Python values."""

import copy
import json
import pickle
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from counted import Counted
from sklearn.base import clone
from sklearn.feature_extraction import FeatureHasher

import pybundle as pb
from pybundle.estimators.tokens import columns_of, encode, rows_of
from pybundle.models.chain._token_scores import sum_duplicates

N_NAMES = 20_000
SENTENCE = [{"word": "w1", "is_title": True, "length": 2.0}, {"word": "w7", "is_title": False}, {"word": "unseen"}]


class CountedArray(np.ndarray):
    """An array that counts what NumPy's functions read of it; views are counted nowhere."""

    n_read = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        plain = [x.view(np.ndarray) if isinstance(x, CountedArray) else x for x in inputs]
        CountedArray.n_read += sum(x.size for x in inputs if isinstance(x, CountedArray))
        return getattr(ufunc, method)(*plain, **options)

    def __array_function__(self, function, types, arguments, options):
        CountedArray.n_read += self.size
        return super().__array_function__(function, types, arguments, options)

    def __getitem__(self, key):
        found = super().__getitem__(key)
        if isinstance(found, np.ndarray) and not np.shares_memory(found, self):
            CountedArray.n_read += found.size
        return found


def corpus(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = [[{"word": f"w{j}", "is_title": bool(j % 2), "length": float(j)} for j in rng.integers(0, 9, 5)]
         for _ in range(n)]
    return X, [[("A", "B", "C")[int(token["word"][1:]) % 3] for token in x] for x in X]


def many_names(cls, weights, bits=None):
    """An estimator with 20 000 names or 2^14 hashes, most of which no sentence of `corpus` has."""
    X, y = corpus()
    word = [[{f"odd{k}": 1.0 for k in range(N_NAMES)}]]
    return cls(C=5.0, token_weights=weights, hash_bits=bits, tol=0.1).fit(X + word, [*y, ["B"]])


@pytest.fixture(scope="module", params=[(cls, weights, bits) for cls in (pb.ChainCRF, pb.ChainSVM)
                                        for weights in ("all", "occurring") for bits in (None, 14)], ids=str)
def fitted(request):
    return many_names(*request.param)


def counted(estimator):
    """A copy whose vocabulary and weights count what is read of them."""
    found = copy.copy(estimator)
    if found.vocabulary_ is not None:
        found.vocabulary_ = Counted(found.vocabulary_)
    vars(found)["coef_"] = found.coef_.view(CountedArray)
    if found.token_support_ is not None:
        found.token_support_ = found.token_support_.view(CountedArray)
    return found


def n_read(estimator, call):
    """Names and weights that a call reads."""
    CountedArray.n_read = 0
    if estimator.vocabulary_ is not None:
        estimator.vocabulary_.n_read = 0
    call()
    return CountedArray.n_read + (0 if estimator.vocabulary_ is None else estimator.vocabulary_.n_read)


def test_a_prediction_reads_nothing_that_grows_with_the_names(fitted):
    """The map of names was built at every call, 155 ms for a sentence at 10^5 names, and the model with it."""
    served = counted(fitted)
    assert n_read(served, lambda: served.coef_ + 1.0) == len(served.coef_)          # they do count
    if fitted.vocabulary_ is not None:
        assert n_read(served, lambda: served.predict([SENTENCE])) >= N_NAMES        # once
    expected = served.predict([SENTENCE])
    calls = (lambda: served.predict([SENTENCE]), lambda: served.predict_single(SENTENCE),
             lambda: served.decision_function([SENTENCE]), lambda: served.k_best([SENTENCE], 2),
             lambda: served.margins([SENTENCE]))
    for call in calls:
        assert n_read(served, call) < 200
    served.set_params(C=7.0, token_weights="auto", start=False, hash_bits=3, min_count=9)     # of the next fit
    assert served.predict([SENTENCE]) == expected == fitted.predict([SENTENCE])
    for call in calls:
        assert n_read(served, call) < 200


def test_a_prediction_makes_nothing_that_grows_with_the_names(fitted):
    fitted.predict([SENTENCE])
    tracemalloc.start()
    try:
        fitted.predict([SENTENCE])
        assert tracemalloc.get_traced_memory()[1] < 60_000
    finally:
        tracemalloc.stop()


def test_weights_of_other_features_have_no_part(fitted):
    served = copy.copy(fitted)
    scores = served.decision_function([SENTENCE])
    columns = rows_of([SENTENCE], *columns_of(fitted.vocabulary_, fitted.hash_bits))[2]
    own = np.isin(np.arange(fitted.n_features_in_), columns)
    support = fitted.token_support_
    own = np.tile(own, 3) if support is None else own[support[:, 0]]
    served.coef_ = fitted.coef_.copy()
    served.coef_[:len(own)][~own] = np.nan
    np.testing.assert_array_equal(served.decision_function([SENTENCE]), scores)
    assert served.predict([SENTENCE]) == fitted.predict([SENTENCE])


def test_scores_are_those_of_the_product_with_all_weights(fitted):
    X, _ = corpus(seed=3)
    X = [*X, [], SENTENCE]
    x = (encode(X, None, 14) if fitted.hash_bits else encode(X, fitted.vocabulary_)).values
    W = fitted.token_coef_
    expected = x.astype(np.float64) @ (W.toarray() if sp.issparse(W) else W).T
    model = fitted.model_
    np.testing.assert_array_equal(model.token_scores(fitted.coef_, x), expected)
    ends = np.cumsum([len(sentence) for sentence in X])[:-1]
    best = [fitted.classes_[model.decode(fitted.coef_, rows)].tolist() if rows.shape[0] else []
            for rows in (x[first:last] for first, last in zip([0, *ends], [*ends, x.shape[0]], strict=True))]
    assert fitted.predict(X) == best


def test_what_is_kept_is_dropped_with_what_it_was_made_of():
    """Maps of an earlier fit, or of weights that `sparsify` dropped, would label by the wrong columns."""
    X, y = corpus()
    crf = pb.ChainCRF(C=5.0, l1=0.3).fit(X, y)
    first = crf.predict(X)
    others = [[{"first": 1.0, "second": "w3"} | token for token in x] for x in X]
    crf.fit(others, y)
    assert crf.predict(others) == clone(crf).fit(others, y).predict(others)
    before = crf.decision_function(others)
    assert len(crf.sparsify().vocabulary_) < 22
    np.testing.assert_allclose(np.vstack(crf.decision_function(others)), np.vstack(before), atol=1e-12)
    crf.set_params(hash_bits=6).fit(X, y)
    assert crf.predict(X) == clone(crf).fit(X, y).predict(X)
    crf.set_params(hash_bits=None).fit(X, y)
    assert crf.predict(X) == first
    crf.coef_[:] = 0.0                          # written to in place: nothing of the weights is kept
    assert crf.predict_single(X[0]) == ["A"] * 5


def test_kept_maps_are_not_in_pickles_and_files(fitted, tmp_path):
    fitted.predict([SENTENCE])
    bare = copy.copy(fitted)
    assert len(pickle.dumps(fitted)) == len(pickle.dumps(bare)) and "_kept" not in fitted.__getstate__()
    fitted.save(tmp_path / "model.npz")
    for again in (pickle.loads(pickle.dumps(fitted)), pb.load(tmp_path / "model.npz")):
        with ThreadPoolExecutor(8) as pool:     # the first predictions of all threads make map and model at once
            found = list(pool.map(again.predict_single, [SENTENCE] * 64))
        assert found == [fitted.predict_single(SENTENCE)] * 64
        served = counted(again)
        served.predict([SENTENCE])
        assert n_read(served, lambda served=served: served.predict([SENTENCE])) < 200


@pytest.mark.parametrize("labels", [("A", "B", "C"), (1, 2, 2**53 + 1), (False, True, True), (0.0, 1.0, 2.0)])
@pytest.mark.parametrize("cls", [pb.ChainCRF, pb.ChainSVM])
def test_predictions_are_python_values(cls, labels):
    """json and seqeval refused lists of arrays, and == compared none."""
    X, texts = corpus()
    y = [[dict(zip("ABC", labels, strict=True))[text] for text in row] for row in texts]
    for given in (y, [np.array(row) for row in y], [np.array(row, dtype=object) for row in y]):
        tagger = cls(C=50.0).fit(X, given)
        found = tagger.predict([*X, []])
        assert found == [*y, []] and json.loads(json.dumps(found)) == found
        assert {type(label) for row in found for label in row} == {type(labels[0])}
        assert len({id(label) for row in found for label in row}) == len(set(labels))
        assert tagger.predict_single(X[0]) == y[0] and tagger.predict_single(iter(X[0])) == y[0]
        arrays = tagger.predict(X, output="array")
        assert all(isinstance(row, np.ndarray) and row.dtype == tagger.classes_.dtype for row in arrays)
        assert [row.tolist() for row in arrays] == y
        best, scores = tagger.k_best([X[0], []], 3)
        assert best[0][0] == y[0] and best[1] == [[]] and json.dumps(best) and len(scores[0]) == len(best[0]) == 3
        assert [row.tolist() for row in tagger.k_best(X[:1], 3, output="array")[0]] == best[:1]
    with pytest.raises(pb.ParameterError, match=r"output must be .*got 'lists'"):
        tagger.predict(X, output="lists")


def test_online_mkl_labels_sequences_by_lists():
    rng = np.random.default_rng(0)
    X, Y = [rng.standard_normal((4, 3)) for _ in range(12)], [rng.integers(0, 3, 4) for _ in range(12)]
    for groups in ([pb.mkl.Features()], np.arange(3 * 3 + 9 + 6) % 2):
        learner = pb.mkl.OnlineMKL(groups, model=pb.models.Chain(3, 3), eta0=0.1, n_epochs=2).fit(X, Y)
        found = learner.predict(X)
        assert json.loads(json.dumps(found)) == found
        assert found == [labels.tolist() for labels in learner.predict(X, output="array")]


def test_bytes_are_texts_in_utf8():
    """python-crfsuite takes bytes as names and as values; here they were refused, or became the name "b'...'"."""
    X, y = [[{"слово": "да", "q": ["x", "y"], "in": {"k": "v"}}, {"слово": "нет", "n": 2.0}], [{"n": 1.0}]], \
        [["A", "B"], ["B"]]

    def raw(value):
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, list):
            return list(map(raw, value))
        return {raw(name): raw(item) for name, item in value.items()} if isinstance(value, dict) else value

    for options in ({}, {"hash_bits": 8}):
        texts, encoded = (pb.ChainCRF(**options).fit(data, y) for data in (X, raw(X)))
        assert encoded.vocabulary_ == texts.vocabulary_
        np.testing.assert_array_equal(encoded.coef_, texts.coef_)
        np.testing.assert_array_equal(texts.decision_function(raw(X))[0], texts.decision_function(X)[0])
    words = [["да", "нет"], ["нет"]]
    plain = pb.ChainCRF().fit(words, y)
    for form in (raw(words), [[[word] for word in row] for row in raw(words)], [np.array(["a", "b"], "S1")] * 2):
        assert len(plain.predict(form)) == 2
    assert plain.predict(raw(words)) == plain.predict(words) == y
    for bad in ({b"\xff": 1.0}, {"a": b"\xff"}, {"a": [b"\xff"]}, b"\xff", [b"\xff"]):
        with pytest.raises(pb.ParameterError, match=r"X\[0\]\[1\] must hold texts or UTF-8, got b'\\xff'"):
            plain.predict([["да", bad]])


@pytest.mark.parametrize("odd", ["abc", b"abc", None, 3, {"word": "a"}, [None], "a; b alone"])
@pytest.mark.parametrize("make", [lambda: pb.ChainCRF(tol=0.1).fit(*corpus()),
                                  lambda: pb.DependencyParser(tol=0.1).fit([[("a", "N")]], [[0]])])
def test_predict_single_asks_for_one_sequence(make, odd):
    """The error advised a list of one sequence, which only `predict` takes."""
    with pytest.raises(pb.InputTypeError, match=r"; predict_single takes one sequence, a list of tokens$") as caught:
        make().predict_single(odd)
    assert "alone" not in str(caught.value).rpartition(";")[2] and len(str(caught.value)) < 220


class Table:
    """A table as pandas and polars have them."""

    shape, columns = (3, 2), ["word", "tag"]

    def __iter__(self):
        return iter(self.columns)


@pytest.mark.parametrize(("odd", "word"), [(Table(), "Table; a table is no list of sequences"),
                                           (sp.csr_array(np.eye(2)), "csr_array; a table is no list of sequences"),
                                           ("a text", "str; a sequence is a list of tokens"),
                                           (b"bytes", "bytes; a sequence is a list of tokens"),
                                           ({"word": "a"}, "dict; a sequence is a list of tokens")])
def test_what_is_no_list_of_sequences_is_named(odd, word):
    """Columns of a table and keys of a dictionary were read as sequences."""
    X, y = corpus()
    crf = pb.ChainCRF().fit(X, y)
    calls = [("X", lambda: pb.ChainSVM().fit(odd, y)), ("y", lambda: pb.ChainCRF().fit(X, odd)),
             ("X", lambda: crf.predict(odd)), ("X", lambda: crf.score(odd, y)), ("X", lambda: crf.margins(odd)),
             ("X", lambda: pb.ChainCRFCV([1.0]).fit(odd, y))]
    for name, call in calls:
        with pytest.raises(pb.InputTypeError, match=f"{name} must be a list .*got {word}") as caught:
            call()
        assert len(str(caught.value)) < 220


class Frame(Table):
    """A table with its entries, as arrays see it."""

    def __init__(self, entries):
        self.entries = self.iloc = entries
        self.shape, self.columns = entries.shape, list("abc")[:entries.shape[1]]

    def __len__(self):
        return len(self.entries)

    def __array__(self, dtype=None, copy=None):
        return self.entries.astype(dtype or self.entries.dtype)


class Column:
    """A column of a table as pandas and polars have them."""

    def __init__(self, values):
        self.values, self.shape = values, (len(values),)

    def __iter__(self):
        return iter(self.values)

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)

    def to_list(self):
        return list(self.values)


def test_columns_of_tables_are_sequences():
    """They were asked for the shape (tokens, features), though they hold tokens."""
    X, y = corpus()
    texts, labels = [[token["word"] for token in x] for x in X], [Column(one) for one in y]
    model, columns = pb.ChainCRF().fit(texts, y), list(map(Column, texts))
    other = pb.ChainCRF().fit(columns, labels)
    assert other.vocabulary_ == model.vocabulary_ and np.array_equal(other.coef_, model.coef_)
    assert other.predict(columns) == model.predict(texts) and other.score(columns, labels) == model.score(texts, y)
    assert other.predict_single(columns[0]) == model.predict_single(texts[0])
    parser, pairs = pb.DependencyParser(hash_bits=8), [("dogs", "N"), ("bark", "V")]
    assert parser.fit([Column(pairs)], [Column([2, 0])]).predict([pairs]) == [[2, 0]]


def test_a_frame_as_one_sequence_holds_numbers():
    X, y = corpus()
    texts = [Frame(np.array([list(token.values()) for token in x], dtype=object)) for x in X]
    with pytest.raises(pb.InputTypeError, match=r"X\[0\] must hold real numbers where it is a table, got 'w\d+' in "
                       r"column 'a'; tokens with texts are dictionaries, table.to_dict\('records'\)"):
        pb.ChainCRF().fit(texts, y)
    arrays = [np.array([[token["length"], token["is_title"]] for token in x]) for x in X]
    one, other = pb.ChainCRF().fit(list(map(Frame, arrays)), y), pb.ChainCRF().fit(arrays, y)
    assert one.predict(arrays) == other.predict(list(map(Frame, arrays)))


def test_rows_sum_duplicates_and_hash_as_scikit_learn():
    rng = np.random.default_rng(1)
    tokens = [[(f"f{k}", float(value)) for k, value in zip(rng.integers(0, 30, n), rng.integers(-2, 3, n), strict=True)]
              for n in (0, 1, 5, 40, 0, 300, 0)]
    X = [[{"a": dict(pairs[:3]), "b": [name for name, _ in pairs]} for pairs in tokens], []]
    pairs = [[(f"a:{name}", value) for name, value in token["a"].items()] + [(f"b:{name}", 1.0) for name in token["b"]]
             for token in X[0]]
    theirs = sp.csr_array(FeatureHasher(32, input_type="pair", alternate_sign=False).transform(pairs))
    theirs.sum_duplicates()
    found = encode(X, None, 5)
    np.testing.assert_array_equal(found.values.toarray(), theirs.toarray())
    assert found.values.has_canonical_format and found.sizes.tolist() == [7, 0]


@pytest.mark.parametrize("n", [0, 1, 64, 65, 3000])
def test_long_tokens_are_sorted_and_summed(n):
    """Each feature of a token of 50000 was moved past all before it; long tokens are now sorted first."""
    rng = np.random.default_rng(n)
    ends = np.array([0, 0, n, n, n + 3], dtype=np.int64)
    columns = np.append(rng.integers(0, 1 + n // 2, n), [7, 2, 7]).astype(np.int32)
    values = np.append(rng.integers(-3, 4, n) / 4.0, [1.0, 2.0, 3.0])
    rows = sp.csr_array((values.copy(), columns.copy(), ends.copy()), shape=(4, n + 9))
    kept = sum_duplicates(ends, columns, values)
    rows.sum_duplicates()
    assert kept == rows.nnz and ends.tolist() == rows.indptr.tolist()
    assert columns[:kept].tolist() == rows.indices.tolist() and values[:kept].tolist() == rows.data.tolist()


@pytest.mark.parametrize("cls", [pb.ChainSVM, pb.DependencyParser])
def test_unpickled_models_are_as_fitted(cls, tmp_path):
    """Numbers of a pickle are new objects, and every call copied the model, as after a change of parameters."""
    X, y = corpus()
    if cls is pb.DependencyParser:
        X, y = [[(token["word"], "N") for token in x] for x in X], [range(5)] * len(X)
    options = {"min_count": int("300")} if cls is pb.DependencyParser else {"l1": float("0.01")}
    model = cls(tol=0.1, hash_bits=8, **options).fit(X, y)
    model.save(tmp_path / "model.npz")
    for again in (pickle.loads(pickle.dumps(model)), pb.load(tmp_path / "model.npz"), copy.deepcopy(model)):
        assert again._as_fitted() is again
        assert pickle.loads(pickle.dumps(again))._as_fitted().get_params() == model.get_params()
        again.set_params(min_count=2)
        assert again._as_fitted() is not again and again._as_fitted().min_count == model.min_count


def test_changes_in_place_are_seen_as_the_page_says():
    """A new list is seen, a change in place is not: no prediction compares all names."""
    X, y = [["a", "b"], ["b", "c"], ["c", "a"]], [["A", "B"], ["B", "C"], ["C", "A"]]
    crf = pb.ChainCRF(C=100.0, start=False, end=False).fit(X, y)
    before = crf.predict([["a"], ["b"]])
    crf.vocabulary_[:2] = "b", "a"
    assert crf.predict([["a"], ["b"]]) == before
    crf.vocabulary_ = [*crf.vocabulary_]
    assert crf.predict([["a"], ["b"]]) == before[::-1] != before
