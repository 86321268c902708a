"""Missing values and labels that float64 would round are refused by name, also in columns of pandas."""

import numpy as np
import pytest

import pybundle as pb

pytest.importorskip("sklearn")
pd = pytest.importorskip("pandas")

X, Y = np.arange(24.0).reshape(8, 3), np.arange(8) % 2
BIG = [2**53, 2**53 + 1] * 4


@pytest.mark.parametrize("estimator", [pb.MulticlassSVM(), pb.MulticlassSVMCV([1.0], cv=2), pb.OnlineMKLClassifier(),
                                       pb.MetricSVM()], ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize("y, words", [
    (np.array(["2020", "NaT"] * 4, dtype="M8[D]"), "NaT, got it at index 1"),           # was a class
    (np.array([1, "NaT"] * 4, dtype="m8[s]"), "NaT, got it at index 1"),
    ([*BIG[:7], -1.0], "the integer 9007199254740993; use texts"),
    (np.array([1, 2] * 4, dtype=object), r"got 1 at index 0; np.array\(y.tolist\(\)\)"),     # was "fit a classifier"
    (np.array([1, None] * 4, dtype=object), "got None at index 1; leave out rows"),
    (np.array([1, pd.NA] * 4, dtype=object), "got <NA> at index 1; leave out rows"),
    (pd.Series(pd.date_range("2020", periods=2, tz="UTC").tolist() * 4), "got Timestamp.* at index 0; .*as texts"),
], ids=str)
def test_labels_that_are_missing_or_rounded(estimator, y, words):
    with pytest.raises(pb.BundleError, match=words):
        estimator.fit(X, y)


@pytest.mark.parametrize("y, words", [(np.array(["2020", "NaT"], dtype="M8[D]"), "NaT"), ([2**53 + 1, 1.0], "exact")])
def test_labels_of_tokens_that_are_missing_or_rounded(y, words):
    with pytest.raises(pb.BundleError, match=rf"y\[1\] must .*{words}"):
        pb.ChainSVM().fit([X[:2], X[2:4]], [y[:1], y])


def test_integers_of_any_size_are_classes():
    assert pb.MulticlassSVM().fit(X, np.array(BIG)).classes_.tolist() == BIG[:2]
    assert pb.ChainSVM().fit([X[:2]], [pd.array(BIG[:2], dtype="Int64")]).classes_.tolist() == BIG[:2]


@pytest.mark.parametrize("dtype, kind", [("Int64", "i"), ("UInt8", "ui"), ("boolean", "b"), ("Float64", "f"),
                                         (pd.SparseDtype("int64"), "i"), ("category", "i")], ids=str)
@pytest.mark.parametrize("estimator", [pb.MulticlassSVM(), pb.OnlineMKLClassifier(), pb.MetricSVM(), pb.ChainSVM()],
                         ids=lambda estimator: type(estimator).__name__)
def test_columns_of_pandas_keep_integers_and_truth_values(estimator, dtype, kind):
    """scikit-learn made floats of them, and one class of 2^53 and 2^53 + 1."""
    y = pd.Series(BIG if dtype == "Int64" else Y, dtype=dtype)
    model = estimator.fit(*([X], [y]) if isinstance(estimator, pb.ChainSVM) else (X, y))
    assert model.classes_.dtype.kind in kind and model.classes_.tolist() == sorted(set(y))


@pytest.mark.parametrize("dtype", ["uint64", "UInt64"])
def test_a_column_of_pandas_has_the_classes_of_its_array(dtype):
    """A list of such integers became an array of floats."""
    values = np.array([1, 2**63, 2**63 + 1] * 2, dtype=np.uint64)
    model = pb.MulticlassSVM().fit(np.arange(12.0).reshape(6, 2), pd.Series(values, dtype=dtype))
    assert model.classes_.dtype == np.uint64 and model.classes_.tolist() == values[:3].tolist()


def test_integers_beside_numbers_of_other_sequences():
    """Arrays of each are exact, but not one array of all: 2^53 and 2^53 + 1 were one class."""
    for estimator, graphs in (pb.ChainSVM(), [X[:2], X[:2]]), (pb.GraphSVM(), [pb.Graph(X[:2], [[0, 1]], [[1.0]])] * 2):
        with pytest.raises(pb.InputTypeError, match="y must be exact in float64, got the integer 9007199254740993"):
            estimator.fit(graphs, [BIG[:2], [0.5, 1.0]])


@pytest.mark.parametrize("value", [None, np.nan, pd.NA, pd.NaT], ids=str)
def test_words_that_are_missing(value):
    """They became the text 'None', 'nan', ..."""
    with pytest.raises(pb.ParameterError, match=r"X\[0\]\[1\] must not hold missing values, got "):
        pb.DependencyParser().fit([[("dogs", "N"), (value, "V")]], [[2, 0]])


def test_sparse_columns_with_a_fill_value():
    """pandas takes NaN unless told; the error spoke of a COO matrix."""
    for fill in np.nan, 1.0:
        with pytest.raises(pb.ParameterError, match=r"got another fill value; X.sparse.to_dense"):
            pb.MulticlassSVM().fit(pd.DataFrame(X).astype(pd.SparseDtype("float", fill)), Y)
    assert pb.MulticlassSVM().fit(pd.DataFrame(X).astype(pd.SparseDtype("float", 0.0)), Y).certified_
