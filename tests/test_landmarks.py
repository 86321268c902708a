"""The landmark model equals enumeration of all placements, whatever describes the positions."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from reference.landmark_images import landmark_images
from reference.landmarks import joint_feature, lbp_code, placements, window_feature

import pybundle as pb
from pybundle.core.exceptions import InputTypeError, ParameterError
from pybundle.core.ragged import Ragged
from pybundle.features import CodeWindows, MapFeatures, lbp_maps

PARENTS = [1, -1, 1]
YARDSTICK = ([0], [1, 2])


def test_patterns_equal_their_definition():
    rng = np.random.default_rng(0)
    image = rng.integers(0, 5, (6, 7)).astype(np.uint8)
    maps = lbp_maps(image, 3, margin=2)
    assert maps.shape == (3, 10, 11) and maps.dtype == np.uint8
    for s in range(3):
        for y in range(-2, 8):
            for x in range(-2, 9):
                assert maps[s, y + 2, x + 2] == lbp_code(image, y, x, s)
    assert np.array_equal(lbp_maps(np.stack([image[::-1], image]), 3, 2)[1], maps)


def random_model(rng, kind, **options):
    """A model of three landmarks in 5 x 6 images with small boxes, two images, and their features one by one."""
    shape, n = (5, 6), 2
    boxes = np.array([[0, 1, 2, 3], [1, 1, 3, 2], [2, 0, 2, 2]])
    if kind == "codes":
        margin = 3
        X = rng.integers(0, 256, (n, 2, shape[0] + 2 * margin, shape[1] + 2 * margin)).astype(np.uint8)
        windows = CodeWindows([[[3, 2], [0, 0]], [[1, 1], [2, 2]], [[2, 3], [1, 0]]], margin)
        cells = windows.cells(3)

        def appearance(i, j, position):
            return window_feature(X[i], margin, cells[j].tolist(), position)
    else:
        windows = MapFeatures(4)
        X = rng.integers(-2, 3, (n, shape[0] * shape[1], 4)).astype(np.float32)

        def appearance(i, j, position):
            feature = np.zeros((3, 4))
            feature[j] = X[i, position[1] * shape[1] + position[0]]
            return feature[j]
    anchors, spreads = rng.integers(-3, 4, (3, 2)) / 2.0, rng.choice([0.5, 1.0, 2.0], (3, 2))
    model = pb.models.Landmarks(shape, PARENTS, windows, boxes=boxes, anchors=anchors, spreads=spreads, **options)
    Y = boxes[None, :, :2] + rng.random((n, 3, 2)) * (boxes[:, 2:] - 1)
    return model, X, Y, appearance


@pytest.mark.parametrize("kind", ["codes", "features"])
@pytest.mark.parametrize("whole", [True, False])
def test_decodings_equal_enumeration(kind, whole):
    rng = np.random.default_rng(1)
    for _ in range(8):
        model, X, Y, appearance = random_model(rng, kind, yardstick=YARDSTICK, unit=3.0)
        w = rng.integers(-2, 3, model.dim).astype(float) if whole else rng.standard_normal(model.dim)
        if rng.random() < 0.5:
            w[model.n_appearance:] = np.abs(w[model.n_appearance:])
        oracle = model.oracle(X, Y)
        rows = np.array([1, 0], dtype=np.intp)
        for loss in (True, False):
            found = oracle.solve_batch(rows, oracle.prepare(w), loss=loss)
            assert np.array_equal(found.values, found.uppers)
            for i, labelling, value in zip(rows, found.labellings, found.values, strict=True):
                check_decoding(model, w, X[i], Y[i], partial(appearance, i), loss, labelling, value)


def check_decoding(model, w, x, truth, appearance, loss, labelling, value):
    pixels = np.floor(truth + 0.5).astype(int)
    size = np.linalg.norm(truth[0] - truth[1:].mean(axis=0))

    def value_of(y):
        cost = 3.0 * np.mean(np.linalg.norm(np.array(y) - pixels, axis=1)) / size if loss else 0.0
        return cost + w @ (joint_feature(model, appearance, np.array(y)) - joint_feature(model, appearance, pixels))

    best = max(map(value_of, placements(model)))
    assert value == pytest.approx(best, rel=1e-12, abs=1e-12)
    assert value_of(labelling) == pytest.approx(best, rel=1e-12, abs=1e-12)
    single = model.loss_augmented_decode(w, x, truth) if loss else model.decode(w, x)
    assert np.array_equal(single, labelling)
    assert np.array_equal(model.joint_feature(x, single), joint_feature(model, appearance, single))


@pytest.mark.parametrize("kind", ["codes", "features"])
def test_planes_and_losses(kind):
    rng = np.random.default_rng(2)
    model, X, Y, _ = random_model(rng, kind, yardstick=YARDSTICK)
    oracle = model.oracle(X, Y)
    rows = np.array([0, 1, 0], dtype=np.intp)
    labellings = [model.boxes[:, :2] + rng.integers(0, model.boxes[:, 2:]) for _ in rows]
    scales, slope = rng.random(3), np.zeros(model.dim)
    offset = oracle.add_planes(rows, labellings, scales, slope)
    losses = [model.loss(Y[i], y) for i, y in zip(rows, labellings, strict=True)]
    np.testing.assert_allclose(oracle.losses(rows, labellings), losses, rtol=1e-14)
    assert offset == pytest.approx(scales @ losses)
    psis = [model.joint_feature(X[i], y) - model.joint_feature(X[i], Y[i])
            for i, y in zip(rows, labellings, strict=True)]
    np.testing.assert_allclose(slope, scales @ psis, atol=1e-14)
    assert all(np.linalg.norm(psi) <= norm for psi, norm in zip(psis, oracle.norms[rows], strict=True))
    truth = np.floor(Y + 0.5)
    slope = np.zeros(model.dim)
    assert oracle.add_planes(rows[:2], truth, np.ones(2), slope) == 0.0
    assert not slope.any()
    assert model.loss(Y[0], Y[0]) == 0.0


@pytest.mark.parametrize("kind", ["codes", "features"])
def test_the_oracle_is_valid(kind):
    model, X, Y, _ = random_model(np.random.default_rng(3), kind, yardstick=YARDSTICK)
    report = pb.check_oracle(model, X, Y)
    assert report, str(report)


def test_planes_of_single_examples_are_sparse_where_weights_are_many(monkeypatch):
    model, X, Y, _ = random_model(np.random.default_rng(6), "codes")
    oracle = model.oracle(X, Y)
    labelling = model.decode(np.random.default_rng(6).standard_normal(model.dim), X[1])
    dense = oracle.plane(1, labelling)
    monkeypatch.setattr("pybundle.models.batch_oracle.SPARSE_DIM", 1)
    sparse = oracle.plane(1, labelling)
    assert sparse.offset == dense.offset and sparse.slope.shape == (1, model.dim)
    assert np.array_equal(sparse.slope.toarray()[0], dense.slope)
    assert pb.check_oracle(model, X, Y)


def test_images_come_as_arrays_lists_ragged_and_sparse():
    rng = np.random.default_rng(4)
    model, X, Y, _ = random_model(rng, "features")
    w = rng.standard_normal(model.dim)
    rows = np.arange(2)
    forms = [X, list(X), Ragged.of(list(X)), [sp.csr_array(x) for x in X], X.astype(float), X.reshape(2, 5, 6, 4)]
    results = []
    for form in forms:
        oracle = model.oracle(form, list(Y))
        results.append(oracle.solve_batch(rows, oracle.prepare(w)))
    for result in results[1:]:
        assert np.array_equal(result.labellings, results[0].labellings)
        np.testing.assert_allclose(result.values, results[0].values, rtol=1e-13)
    codes, maps, Y, _ = random_model(rng, "codes")
    one, two = codes.oracle(maps, Y), codes.oracle(list(maps), list(Y))
    assert one.fingerprint == two.fingerprint
    assert codes.oracle(maps[::-1], Y).fingerprint != one.fingerprint


def test_a_decoding_does_not_depend_on_the_images_beside_it():
    rng = np.random.default_rng(8)
    model, X, Y, _ = random_model(rng, "codes", yardstick=YARDSTICK)
    places = rng.integers(0, 2, 37)             # more images than a table serves at a time
    oracle, weights = model.oracle(X[places], Y[places]), rng.standard_normal(model.dim)
    single = model.oracle(X, Y)
    found, alone = (o.solve_batch(np.arange(o.n_examples), o.prepare(weights)) for o in (oracle, single))
    assert np.array_equal(found.values, alone.values[places])
    assert np.array_equal(found.labellings, alone.labellings[places])


def test_training_finds_the_landmarks_of_new_images():
    train, test = landmark_images(120, random_state=1), landmark_images(60, random_state=2)
    model = pb.models.Landmarks.from_examples((24, 24), train.parents, train.Y, CodeWindows([[5, 5], [3, 3]], 6))
    risk = pb.risks.Structured(model, lbp_maps(train.X, 2, 6), train.Y)
    result = pb.minimize(risk, lam=1.0, tol=1e-2)
    assert result.success and result.certified
    mean = train.Y.mean(axis=0)
    maps = lbp_maps(test.X, 2, 6)
    guess = model.decode_batch(result.x, maps)
    assert np.array_equal(guess[7], model.decode(result.x, maps[7]))
    error = np.linalg.norm(guess - test.Y, axis=2).mean()
    assert error < 0.7 * np.linalg.norm(mean - test.Y, axis=2).mean()
    again = pb.risks.Structured(model, lbp_maps(train.X, 2, 6), train.Y, n_parts=4)
    with ThreadPoolExecutor(3) as pool:
        serial, threads = again.evaluate(result.x), again.derive(executor=pool).evaluate(result.x)
    assert np.array_equal(serial[0], threads[0])
    assert np.array_equal(*(s.toarray() if sp.issparse(s) else s for s in (serial[1], threads[1])))


def test_deformation_weights_stay_nonnegative_where_asked():
    model, *_ = random_model(np.random.default_rng(5), "codes")
    assert model.nonneg.sum() == 4 and model.dim == model.n_appearance + 8
    assert not model.nonneg[:model.n_appearance].any()
    free, *_ = random_model(np.random.default_rng(5), "codes", nonneg=False)
    assert free.nonneg is None
    alone = pb.models.Landmarks((4, 4), [-1], MapFeatures(2))
    assert alone.nonneg is None and alone.dim == 2


M = MapFeatures(2)


@pytest.mark.parametrize("make, error, text", [
    (lambda: pb.models.Landmarks((4, 4), [0, 1], M), ParameterError, "cycle"),
    (lambda: pb.models.Landmarks((4,), [-1], M), ParameterError, "shape must be"),
    (lambda: pb.models.Landmarks((4, 4), [-1], 3), InputTypeError, "descriptor must be"),
    (lambda: pb.models.Landmarks((4, 4), [-1], M, boxes=[[1, 0, 4, 4]]), ParameterError, r"boxes\[0\] must lie in"),
    (lambda: pb.models.Landmarks((4, 4), [-1], M, boxes=[[1.5, 0, 2, 2]]), ParameterError, "boxes must be integers"),
    (lambda: pb.models.Landmarks((4, 4), [-1], M, spreads=[[0, 1]]), ParameterError, "spreads must be positive"),
    (lambda: pb.models.Landmarks((4, 4), [-1], M, anchors=[0, 1]), ParameterError, "anchors must be finite"),
    (lambda: pb.models.Landmarks((4, 4), [-1], M, yardstick=([0], [1])), ParameterError, "yardstick must hold"),
    (lambda: pb.models.Landmarks((4, 4), [-1], M, yardstick=3), ParameterError, "yardstick must be a pair"),
    (lambda: pb.models.Landmarks((4, 4), [-1], CodeWindows([[3, 5]], 1)), ParameterError, "margin must be at least 2"),
    (lambda: pb.models.Landmarks((4, 4), [-1], CodeWindows([[0, 0]], 1)), ParameterError, "at least one cell"),
    (lambda: pb.models.Landmarks((4, 4), [-1, 0], CodeWindows([[[1, 1]]] * 3)), ParameterError, "2 landmarks, got 3"),
    (lambda: CodeWindows([[0.5, 1]]), InputTypeError, "windows must be integers"),
    (lambda: CodeWindows([[-1, 1]]), ParameterError, "rows and columns 0..1024"),
    (lambda: lbp_maps(np.zeros(3)), ParameterError, "images must have shape"),
])  # fmt: skip
def test_errors_of_parameters(make, error, text):
    with pytest.raises(error, match=text):
        make()


X = np.zeros((2, 16, 2))
Y = np.ones((2, 1, 2))


@pytest.mark.parametrize("X, Y, error, text", [
    (X, Y[:1], ParameterError, "same number of examples, got 2 and 1"),
    (X, [[[1, 1]], [[1, 5]]], ParameterError, r"Y\[1\]\[0\] = \(1, 5\) must lie in the search box .* 0, x 1..3"),
    (X, [[[1, 1]], [[1, 1], [2, 2]]], ParameterError, r"Y\[1\] must have shape \(n_landmarks, 2\) = \(1, 2\)"),
    (X, [[[1, 1]], [[1, np.nan]]], ParameterError, r"Y\[1\]\[0\] must be a position"),
    (X, [["a"]], InputTypeError, "positions|shape"),
    (X[:, :, :1], Y, ParameterError, "2 columns"),
    ([X[0], X[1][:5]], Y, ParameterError, r"X\[1\] must have a row for each of the 4 x 4 pixels, got 5"),
])  # fmt: skip
def test_errors_of_data(X, Y, error, text):
    model = pb.models.Landmarks((4, 4), [-1], M, boxes=[[1, 0, 3, 4]])
    with pytest.raises((error, ParameterError), match=text):
        model.oracle(X, Y)


@pytest.mark.parametrize("X, error, text", [
    (np.zeros((1, 1, 5, 4), np.uint8), ParameterError, r"\(n, 1, 4, 4\), got"),
    (np.zeros((1, 1, 4, 4)), InputTypeError, "dtype uint8, got float64"),
    ([np.zeros((2, 4, 4), np.uint8)], ParameterError, r"X\[0\] must have shape"),
])  # fmt: skip
def test_errors_of_codes(X, error, text):
    with pytest.raises(error, match=text):
        pb.models.Landmarks((4, 4), [-1], CodeWindows([[1, 1]])).oracle(X, np.ones((1, 1, 2)))


def test_a_labelling_outside_its_box_is_refused():
    model = pb.models.Landmarks((4, 4), [-1], M, boxes=[[1, 0, 3, 4]])
    oracle = model.oracle(X, Y)
    with pytest.raises(ParameterError, match=r"labellings\[0\]\[0\] = \(0, 0\)"):
        oracle.plane(0, np.zeros((1, 2)))


def test_coinciding_ends_of_the_yardstick():
    model = pb.models.Landmarks((4, 4), [-1, 0], M, yardstick=([0], [1]))
    with pytest.raises(ParameterError, match=r"in Y\[1\] the centres"):
        model.oracle(X, [[[0, 0], [1, 1]], [[2, 2], [2, 2]]])


@pytest.mark.parametrize("kind", ["codes", "features"])
def test_the_log_loss_equals_enumeration(kind):
    rng = np.random.default_rng(7)
    for _ in range(4):
        model, X, Y, appearance = random_model(rng, kind)
        w = 0.5 * rng.standard_normal(model.dim)
        oracle = model.oracle(X, Y)
        slope, scales, rows = np.zeros(model.dim), np.array([0.5, 2.0]), np.arange(2)
        values, entropies = oracle.marginals_batch(rows, oracle.prepare(w), scales, slope)
        expected = np.zeros(model.dim)
        for i in rows:
            pixels = model.joint_feature(X[i], Y[i])
            psis = np.array([joint_feature(model, partial(appearance, i), np.array(y)) - pixels
                             for y in placements(model)])
            scores = psis @ w
            log_z = scores.max() + np.log(np.exp(scores - scores.max()).sum())
            p = np.exp(scores - log_z)
            assert values[i] == pytest.approx(log_z, rel=1e-12)
            assert entropies[i] == pytest.approx(-(p * np.log(p)).sum(), rel=1e-10, abs=1e-12)
            expected += scales[i] * (p @ psis)
        np.testing.assert_allclose(slope, expected, atol=1e-12)


def test_the_log_loss_is_a_valid_risk():
    model, X, Y, _ = random_model(np.random.default_rng(8), "codes")
    report = pb.check_oracle(pb.risks.Structured(model, X, Y, loss="logistic"))
    assert report, str(report)


def test_positions_outside_of_the_image_are_named():
    """Exchanged rows and columns gave an error about search boxes, which users of the estimator never pass."""
    with pytest.raises(ParameterError, match=r"Y\[1\]\[0\] must lie in the image, column 0..5 and row 0..23, got "
                                             r"\(20, 3\); a position has its column first"):
        pb.models.Landmarks.from_examples((24, 6), [-1], [[[3, 20]], [[20, 3]]], CodeWindows([[3, 3]]))
