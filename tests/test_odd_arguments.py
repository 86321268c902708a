"""Arguments of odd types, shapes and sizes are refused by name, not by an exception from NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle.core.plane import Planes
from pybundle.prox import Groups, OverlappingGroups

X, Y = np.arange(24.0).reshape(8, 3), np.arange(8) % 2
HUGE = [2**31, 2**40, 2**62, 2**63, 2**64]


def data_as(name, kind):
    made = sp.csr_array(np.eye(3))
    setattr(made, name, kind(getattr(made, name)))
    return made


@pytest.mark.parametrize("cls", [Groups, OverlappingGroups])
@pytest.mark.parametrize("number", HUGE)
def test_huge_groups(cls, number):
    """MemoryError and OverflowError, from arrays of that length."""
    with pytest.raises(pb.ParameterError, match=rf"dim must be an integer <= 2147483647, got {number}"):
        cls([[0], [1]], dim=number)
    with pytest.raises((pb.ParameterError, pb.InputTypeError), match="groups"):
        cls([[0], [number]], dim=2)
    with pytest.raises(pb.ParameterError, match="dim"):
        Groups.single(number)


def test_few_groups_of_many_features():
    with pytest.raises(pb.ParameterError, match="but 2147483645 of them, feature 1 first"):
        Groups([[0], [2]], dim=2**31 - 1)


@pytest.mark.parametrize("number", HUGE)
def test_huge_maps(number):
    with pytest.raises(pb.ParameterError, match="margin must be an integer <= 1024"):
        pb.features.lbp_maps(np.zeros((3, 3)), margin=number)
    with pytest.raises(pb.ParameterError, match=r"n_maps must leave blocks .* got .*; 2 is the most"):
        pb.features.lbp_maps(np.zeros((3, 3)), n_maps=number)


@pytest.mark.parametrize("kind", [memoryview, list])
@pytest.mark.parametrize("name", ["data", "indices"])
def test_csr_of_other_things_than_arrays(name, kind):
    with pytest.raises(pb.InputTypeError, match=rf"X\.{name} must be a vector, an ndarray, got {kind.__name__}"):
        pb.risks.MulticlassHinge(data_as(name, kind), [0, 1, 2])


@pytest.mark.parametrize("name", ["parts", "slack"])
def test_ragged_columns_of_a_program(name):
    arguments = {"parts": [0, 0], "slack": False} | {name: [[0], [1, 2]]}
    with pytest.raises(pb.InputTypeError, match=f"{name} must be "):
        pb.qp.solve_simplex_qp(np.eye(2), np.ones(2), **arguments)


RAGGED, RISK = [[True], [True, False]], pb.risks.BinaryHinge(X, 2 * Y - 1)


@pytest.mark.parametrize(("name", "call"), [
    ("lam", lambda: pb.minimize(RISK, lam=RAGGED)),
    ("lams", lambda: pb.path(RISK, [RAGGED, 1.0])),
    ("lam", lambda: pb.verify(pb.minimize(RISK, lam=1.0).certificate, RISK, lam=RAGGED)),
    ("slack", lambda: pb.bundle.Bundle(2, 2).append(Planes(np.zeros(2), np.ones(2), np.eye(2)), RAGGED)),
])
def test_rows_of_different_lengths(name, call):
    with pytest.raises(pb.BundleError, match=f"^{name} must be"):
        call()


@pytest.mark.parametrize("columns", [0, True, [[0]], [[0], [1, 2]], slice("a"), [9], 2**70], ids=str)
@pytest.mark.parametrize("kind", [pb.mkl.Features, pb.mkl.Linear])
def test_columns_of_a_group(kind, columns):
    for data in (X, sp.csr_array(X)):
        with pytest.raises(pb.ParameterError, match=r"columns of .* must be "):
            pb.mkl.OnlineMKL([kind(columns=columns)]).fit(data, Y)


@pytest.mark.parametrize("y", [[[0], [1, 2]] * 4, np.array([0, None] * 4, dtype=object)], ids=["ragged", "none"])
def test_classes_of_tokens(y):
    with pytest.raises(pb.InputTypeError, match="y must be a vector of classes"):
        pb.mkl.OnlineMKL([pb.mkl.Linear()]).fit(X, y)


def test_values_of_a_callable_kernel():
    with pytest.raises(pb.ParameterError, match=r"function of Callable must return shape \(8, 8\), got \(8,\)"):
        pb.mkl.OnlineMKL([pb.mkl.Callable(lambda A, B: A[:, 0])]).fit(X, Y)


@pytest.mark.parametrize("field", ["nodes", "edges", "edge_features"])
@pytest.mark.parametrize("odd", [[[0, 1], [1]], [np.zeros(2), np.zeros(3)], "ab", None, 3], ids=str)
def test_graphs_of_odd_fields(field, odd):
    good = pb.core.graph.Graph(np.zeros((4, 2)), np.array([[0, 1], [1, 2]]), np.ones((2, 1)))
    with pytest.raises((pb.InputTypeError, pb.ParameterError)):
        pb.models.BinaryLabeling(2, 1).oracle([good, good._replace(**{field: odd})], [np.array([0, 1, 0, 1])] * 2)


def test_scores_of_trees_that_are_not_aligned():
    scores = np.zeros(9 * 8 + 1, dtype=np.uint8)[1:].view(np.float64).reshape(3, 3)
    scores[:] = [[0, 5, 1], [0, 0, 4], [0, 2, 0]]
    assert not scores.flags.aligned
    assert pb.oracles.max_arborescence(scores)[0].tolist() == pb.oracles.max_arborescence(scores.copy())[0].tolist()


MAPS, CODES = pb.features.MapFeatures(2), pb.features.CodeWindows([[1, 1]])
IMAGES, IMAGE_CODES = np.zeros((1, 16, 2)), np.zeros((1, 1, 4, 4), np.uint8)
BOXES = [[0, 0, 4, 4]]


@pytest.mark.parametrize("descriptor, images", [(MAPS, IMAGES), (CODES, IMAGE_CODES)], ids=["maps", "codes"])
@pytest.mark.parametrize("arguments, words", [
    ({"shape": []}, r"shape must be \(rows, columns\) of the images, got \[\]"),
    ({"shape": (4, 0)}, r"shape\[1\] must be an integer >= 1, got 0"),
    ({"boxes": 3}, r"boxes must be integers .* of shape \(1, 4\), got shape \(\)"),
    ({"boxes": [[1], [2, 3]]}, r"boxes must be integers x_0, y_0, width, height, got \[\[1\], \[2, 3\]\]"),
    ({"boxes": []}, r"boxes must be integers .* got shape \(0,\)"),
    ({"boxes": [[0, 0, 5, 4]]}, r"boxes\[0\] must lie in the image of 4 columns and 4 rows"),
    ({"X": 1.5}, "X must be a list with one entry for each example, got float"),
    ({"X": []}, "X must hold at least one example, got none"),
    ({"X": [[[0], [1, 2]]]}, r"X\[0\] must be an array, got list"),
])
def test_descriptors_of_odd_images(descriptor, images, arguments, words):
    """IndexError, ValueError and the like; lists of boxes were no boxes."""
    given = {"X": images, "shape": (4, 4), "boxes": BOXES} | arguments
    with pytest.raises((pb.ParameterError, pb.InputTypeError), match=words) as caught:
        descriptor.bind(**given)
    assert len(str(caught.value)) < 200
    if "X" not in arguments:
        with pytest.raises((pb.ParameterError, pb.InputTypeError), match=words):
            descriptor.check(given["shape"], given["boxes"])
    assert descriptor.bind(images, (4, 4), BOXES).n_examples == 1


@pytest.mark.parametrize("descriptor", [MAPS, CODES], ids=["maps", "codes"])
def test_numbers_of_landmarks(descriptor):
    with pytest.raises(pb.ParameterError, match="n_landmarks must be an integer >= 1, got -1"):
        descriptor.sizes(-1)
    with pytest.raises(pb.InputTypeError, match="n_landmarks must be an integer, got"):
        descriptor.sizes([-1])


@pytest.mark.parametrize("descriptor", [-300000, pb.features.MapFeatures, type("Half", (), {"bind": len})()],
                         ids=["number", "class", "half"])
def test_descriptors_of_a_model(descriptor):
    with pytest.raises(pb.InputTypeError, match=r"descriptor must be a pb\.features\.CodeWindows or MapFeatures, got"):
        pb.models.Landmarks((4, 4), [-1, 0], descriptor)


def test_data_of_a_program():
    """ValueError of a maximum of nothing; what was given was checked by `solve_simplex_qp` alone."""
    with pytest.raises(pb.ParameterError, match="f must have at least one entry"):
        pb.qp.SimplexProblem(np.zeros((0, 0)), [], [], [])
    with pytest.raises(pb.ParameterError, match="H must be square with the size of f"):
        pb.qp.SimplexProblem([1.0], [1.0], [0], False)
    assert pb.qp.SimplexProblem([[1]], [1], [0], False).measure([1]) == (-0.5, 0.0, 0.5, 0.0)


@pytest.mark.parametrize("path", ["\0", "model\0.npz", b"\0", "\ud800"], ids=ascii)
def test_paths_that_no_file_has(path):
    svm = pb.MulticlassSVM().fit(X, Y)
    for call in (pb.load, svm.save, lambda path: pb.minimize(pb.risks.MulticlassHinge(X, Y), lam=1.0, checkpoint=path)):
        with pytest.raises((pb.ParameterError, pb.InputTypeError), match="must be the path of a file, got"):
            call(path)


@pytest.mark.parametrize("cv, words", [
    ([], r"cv must yield at least one fold, a pair \(train, test\)"),
    ("a", "cv must be a number of folds, a splitter of scikit-learn or a list of pairs .*, got 'a'"),
    (1.5, "cv must be a number of folds, .*, got 1.5"),
    ([1], r"cv\[0\] must be a pair \(train, test\) of numbers of examples, got 1"),
    ([(range(4),)], r"cv\[0\] must be a pair"),
    ([(1, 2)], r"train of cv\[0\] must be a vector of integers 0..7, got shape \(\)"),
    ([(range(6), [8])], r"test of cv\[0\] must be a vector of integers 0..7, got numbers 8..8"),
    ([(range(6), [])], r"test of cv\[0\] must hold at least one example, got none"),
])
def test_folds_of_a_search(cv, words):
    with pytest.raises((pb.ParameterError, pb.InputTypeError), match=words) as caught:
        pb.MulticlassSVMCV([1.0], cv=cv).fit(X, Y)
    assert len(str(caught.value)) < 200


def test_folds_as_masks():
    mask = np.arange(8) < 6
    by_masks, by_numbers = (pb.MulticlassSVMCV([1.0], cv=iter([fold])).fit(X, Y) for fold in (
        (mask, ~mask), (np.arange(6), [6, 7])))
    assert np.array_equal(by_masks.scores_, by_numbers.scores_)


@pytest.mark.parametrize("estimator", [pb.MulticlassSVM(), pb.MulticlassSVMCV([1.0], cv=2), pb.OnlineMKLClassifier()],
                         ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize("pair", [
    ["a", 1], np.array(["a", 1], dtype=object), ["a", None], [b"a", "b"], ["a", np.datetime64("2020-01-01")]], ids=repr)
def test_labels_of_two_types(estimator, pair):
    """NumPy made texts of them, or raised "'<' not supported"."""
    y = np.tile(pair, 4) if isinstance(pair, np.ndarray) else pair * 4
    with pytest.raises(pb.InputTypeError, match=r"y must hold labels of one type, texts or numbers, got '[ab]' and"):
        estimator.fit(X, y)


@pytest.mark.parametrize("make", [pb.risks.MulticlassHinge, pb.risks.Logistic, pb.risks.Absolute], ids=str)
def test_weights_so_small_that_inverses_overflow(make):
    """"w must be finite, got nan", or "float division by zero"."""
    with pytest.raises(pb.ParameterError, match="sample_weight must have an entry of 1e-300 or more, got"):
        make(X, Y, sample_weight=np.arange(8) * 3e-321)
    for tiny in np.full(8, 1e-300), np.r_[np.full(7, 5e-324), 1.0]:
        assert pb.minimize(make(X, Y, sample_weight=tiny), lam=1.0).certified


@pytest.mark.parametrize("C", [1e-320, 1e-101, 1e101])
def test_range_of_C(C):
    """The error named lam, which nobody had given."""
    for estimator in pb.MulticlassSVM(C), pb.MulticlassLogistic(C), pb.RankingSVM(C):
        with pytest.raises(pb.ParameterError, match=r"C must lie between 1e-100 and 1e\+100, got "):
            estimator.fit(X, Y)


def test_labels_that_are_no_classes():
    with pytest.raises(pb.ParameterError, match=r"y must hold the classes of the fit, \[0, 1\], got"):
        pb.MulticlassSVM().fit(X, Y).margins(X, np.array(["a", 1] * 4, dtype=object))
    dates = [np.datetime64("2020-01-01"), np.datetime64("2021-01-01")]
    with pytest.raises(pb.InputTypeError, match=r"y\[1\] must hold labels of one type, .* got \[1, 2\]"):
        pb.ChainSVM().fit([X[:2], X[2:4]], [dates, [1, 2]])
    assert pb.ChainSVM().fit([X[:2], X[2:4]], [dates, dates]).classes_.dtype.kind == "M"


def test_ragged_labels_of_scores_and_losses():
    with pytest.raises(pb.InputTypeError, match=r"y\[0\] must be an array, got list"):
        pb.models.Chain(2, 2).loss([[1], [2, 3]], [0, 1])
    with pytest.raises(pb.InputTypeError, match="Y must be an array, got list"):
        pb.mkl.OnlineMKL([pb.mkl.Linear()]).fit(X, Y).score(X, [[0], [1, 2]])


IMAGES, COVERS = [np.eye(3)[:, :2], np.ones((2, 2))], [[(0, 0), (1, 1)], [(1, 0)]]


@pytest.mark.parametrize("start", [2.7, 1.0, np.nan, np.inf, -np.inf, 1 + 1j, np.complex128(1), None, "1", "x",
                                   np.datetime64("2020-01-01"), np.array([1.0])], ids=repr)
def test_first_columns_of_segments(start):
    """They were cut to integers: 2.7 was column 2. Infinity was an OverflowError."""
    odd = [[(0, 0), (1, start)], [(1, 0)]]
    for call in (lambda: pb.SegmentationSVM().fit(IMAGES, odd),
                 lambda: pb.SegmentationSVM(max_iter=3).fit(IMAGES, COVERS).score(IMAGES, odd)):
        with pytest.raises(pb.InputTypeError, match=r"y\[0\] must be a list of pairs \(label, first column\), got"):
            call()


@pytest.mark.parametrize("label", [np.nan, np.inf, 1 + 1j, None, [1], np.array([1])], ids=repr)
def test_labels_of_segments(label):
    """NaN was a KeyError, a list a TypeError; scores counted them as wrong."""
    odd = [[(0, 0), (label, 1)], [(1, 0)]]
    for call in (lambda: pb.SegmentationSVM().fit(IMAGES, odd),
                 lambda: pb.SegmentationSVM(max_iter=3).fit(IMAGES, COVERS).score(IMAGES, odd)):
        with pytest.raises((pb.InputTypeError, pb.ParameterError), match=r"labels of y\[0\] must"):
            call()


@pytest.mark.parametrize("labels", [[0.0, np.nan], np.array([0, np.nan], dtype=object), [0, np.inf], [0, 1j]], ids=repr)
@pytest.mark.parametrize("estimator", ["chains", "nodes", "labels"])
def test_labels_of_scores(estimator, labels):
    """They were compared, and counted as wrong."""
    if estimator == "chains":
        data, model, good = [np.eye(2)] * 2, pb.ChainSVM(max_iter=3), [[0, 1], [1, 0]]
    else:
        data = [pb.models.Graph(np.eye(2), np.array([[0, 1]]), np.ones((1, 1)))] * 2
        model, good = (pb.BinaryLabelingSVM if estimator == "nodes" else pb.GraphSVM)(max_iter=3), [[0, 1], [1, 0]]
    model.fit(data, good)
    for call in (model.score, model.fit):
        with pytest.raises((pb.InputTypeError, pb.ParameterError), match=r"y\[0\] must"):
            call(data, [labels, [0, 1]])


@pytest.mark.parametrize("model", [pb.MulticlassSVM(), pb.LinearSVR(), pb.QuantileRegressor(),
                                   pb.OnlineMKLClassifier()], ids=lambda model: type(model).__name__)
def test_dates_and_complex_numbers_of_tables(model):
    """Dates were read as counts of their unit, which `predict` may have been given another of."""
    for dates in (X.astype("datetime64[D]"), X.astype("timedelta64[s]")):
        with pytest.raises(pb.InputTypeError, match=r"X must hold numbers, got dtype .*64"):
            model.fit(dates, Y)
    for odd in (X + 0j, (X + 0j).tolist(), sp.csr_array(X + 0j)):
        with pytest.raises(pb.ParameterError, match="Complex data not supported: X must hold real numbers"):
            model.fit(odd, Y)
    with pytest.raises(pb.ParameterError, match="Complex data not supported: y must hold real numbers"):
        model.fit(X, Y + 0j)


def test_durations_are_no_numbers():
    """NumPy's are integers to Python: a day was 1, or an error of float()."""
    risk = pb.risks.BinaryHinge(X, Y)
    with pytest.raises(pb.InputTypeError, match=r"lam must be .*, got"):
        pb.minimize(risk, lam=np.timedelta64(1, "D"))
    with pytest.raises(pb.InputTypeError, match="max_iter must be an integer, got"):
        pb.minimize(risk, lam=1.0, max_iter=np.timedelta64(1))


@pytest.mark.parametrize("columns", [[np.nan, np.nan], np.array([0.5, 1.0])], ids=str)
@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
def test_columns_of_a_kernel_are_integers(columns, kind):
    """SciPy read beyond its arrays for NaN, and cut fractions off."""
    with pytest.raises(pb.ParameterError, match=r"columns of .* they are no integers"):
        pb.OnlineMKLClassifier(kernels=[pb.mkl.Features(columns)]).fit(kind(X), Y)
