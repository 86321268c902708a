"""Graphs of images against loops over pixels, labels of segments against counts, and images of labels."""

import itertools
import pickle
import sys
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle.models import Graph, WeightedLabels, paint

IDS = np.array([-7, 0, 3, 4, 100, 2**40])


def loop_pairs(shape, neighbours):
    """All pairs of pixels that touch, each once."""
    pixels = list(itertools.product(*map(range, shape)))
    for a, b in itertools.combinations(pixels, 2):
        steps = [abs(i - j) for i, j in zip(a, b, strict=True)]
        if max(steps) == 1 and (neighbours == 8 or sum(steps) == 1):
            yield a, b


def loop_graph(image, segments, neighbours):
    """Means, and {pair of nodes: number of pairs of pixels} by loops; without channels `image` has one."""
    n_axes = 3 if neighbours == 6 else 2
    image = np.asarray(image, float).reshape(*image.shape[:n_axes], -1)
    ids = np.arange(np.prod(image.shape[:n_axes])).reshape(image.shape[:n_axes]) if segments is None else segments
    names = sorted(set(ids.ravel().tolist()))
    means = np.array([image[ids == name].mean(axis=0) for name in names])
    lengths = {}
    for a, b in loop_pairs(ids.shape, neighbours):
        pair = tuple(sorted((names.index(ids[a]), names.index(ids[b]))))
        if pair[0] != pair[1]:
            lengths[pair] = lengths.get(pair, 0) + 1
    return means, lengths


def cases():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        neighbours = (4, 8, 6)[seed % 3]
        shape = tuple(rng.integers(1, 4, 3) if neighbours == 6 else rng.integers(1, 6, 2))
        channels = () if rng.integers(2) else (int(rng.integers(1, 4)),)
        image = rng.integers(0, 4, shape + channels) / 4.0 if rng.integers(2) else rng.standard_normal(shape + channels)
        segments = rng.choice(IDS, shape) if rng.integers(3) else None
        yield pytest.param(image, segments, neighbours, id=str(seed))


@pytest.mark.parametrize("image, segments, neighbours", list(cases()))
def test_nodes_and_edges_are_those_of_a_loop(image, segments, neighbours):
    x = Graph.from_image(image, segments, neighbours=neighbours)
    means, lengths = loop_graph(image, segments, neighbours)
    np.testing.assert_allclose(x.nodes, np.column_stack([means, np.ones(len(means))]), rtol=0, atol=1e-14)
    pairs = [tuple(sorted(pair)) for pair in x.edges.tolist()]
    assert len(pairs) == len(lengths) and set(pairs) == set(lengths)
    assert x.edges.dtype == np.int32 and x.edges.shape == (len(pairs), 2)
    contrast = np.array([np.linalg.norm(means[a] - means[b]) for a, b in pairs])
    square = np.mean(contrast**2) if contrast.any() else 1.0
    expected = [np.ones(len(pairs)), contrast, np.exp(-contrast**2 / (2.0 * square))]
    if segments is not None:
        counts = np.array([lengths[pair] for pair in pairs])
        expected.append(counts / counts.mean() if len(counts) else counts)
        assert pairs == sorted(pairs)
    np.testing.assert_allclose(x.edge_features, np.column_stack(expected), rtol=1e-9, atol=1e-12)
    assert (x.edge_features >= 0.0).all() and np.isfinite(x.edge_features).all()


@pytest.mark.parametrize("neighbours", [4, 8])
def test_pixels_are_segments_of_one_pixel(neighbours):
    image = np.random.default_rng(0).random((5, 7, 3))
    pixels = Graph.from_image(image, neighbours=neighbours)
    each = Graph.from_image(image, np.arange(35).reshape(5, 7) * 3 - 50, neighbours=neighbours)
    np.testing.assert_array_equal(pixels.nodes, each.nodes)
    order = np.lexsort(np.sort(pixels.edges, axis=1).T[::-1])
    np.testing.assert_array_equal(np.sort(pixels.edges, axis=1)[order], each.edges)
    np.testing.assert_allclose(pixels.edge_features[order], each.edge_features[:, :3], rtol=1e-12)
    assert (each.edge_features[:, 3] == 1.0).all()


def test_numbers_of_pixels_are_their_places():
    x = Graph.from_image(np.arange(12.0).reshape(3, 4))
    assert x.nodes[:, 0].tolist() == list(range(12)) and len(x.edges) == 3 * 3 + 2 * 4
    right, below = x.edges[:9], x.edges[9:]
    assert (right[:, 1] - right[:, 0] == 1).all() and (below[:, 1] - below[:, 0] == 4).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 1, 4)])
def test_one_pixel_and_one_segment_have_no_edges(shape):
    for segments in (None, [[5]]):
        x = Graph.from_image(np.ones(shape), segments)
        assert x.edges.shape == (0, 2) and len(x.nodes) == 1 and len(x.edge_features) == 0
    assert len(Graph.from_image(np.ones((4, 4)), np.zeros((4, 4), int)).edges) == 0


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float16, np.float32, np.float64, bool, ">f8"])
def test_types_of_images(dtype):
    image = np.random.default_rng(0).integers(0, 2, (4, 5, 2)).astype(dtype)
    kind = np.float32 if dtype == np.float32 else np.float64
    for segments in (None, np.arange(20).reshape(4, 5) // 3):
        x, wide = Graph.from_image(image, segments), Graph.from_image(image.astype(float), segments)
        assert x.nodes.dtype == kind and x.edge_features.dtype == np.float64
        np.testing.assert_allclose(x.nodes, wide.nodes, rtol=1e-6)
        np.testing.assert_allclose(x.edge_features, wide.edge_features, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint64, np.int64, ">i4"])
def test_ids_of_any_integer_type(dtype):
    segments = np.array([[9, 9, 2], [2, 2, 100]])
    image = np.arange(6.0).reshape(2, 3)
    for one, other in zip(Graph.from_image(image, segments.astype(dtype)), Graph.from_image(image, segments),
                          strict=True):
        np.testing.assert_array_equal(one, other)


def test_views_and_lists_are_read_as_they_are():
    image, segments = np.random.default_rng(0).random((6, 8, 3)), np.arange(48).reshape(6, 8) // 5
    for view in (np.asfortranarray(image), image[::-1][::-1], image.tolist()):
        np.testing.assert_array_equal(Graph.from_image(view, segments.tolist()).nodes,
                                      Graph.from_image(image, segments).nodes)
    before = image.copy(), segments.copy()
    Graph.from_image(image).nodes[:] = 7.0
    np.testing.assert_array_equal(before[0], image)
    np.testing.assert_array_equal(before[1], segments)


def test_own_features_stand_before_the_constant():
    image, own = np.zeros((2, 3)), np.arange(6.0).reshape(3, 2)
    x = Graph.from_image(image, [[4, 4, 5], [4, 5, 9]], features=own)
    np.testing.assert_array_equal(x.nodes, np.column_stack([np.zeros(3), own, np.ones(3)]))
    assert Graph.from_image(image, features=np.zeros((6, 1))).nodes.shape == (6, 3)
    assert Graph.from_image(image.astype(np.float32), features=np.zeros((6, 1))).nodes.dtype == np.float64


@pytest.mark.parametrize("seed", range(30))
def test_labels_are_those_of_most_pixels(seed):
    rng = np.random.default_rng(seed)
    segments, mask = rng.choice(IDS, (5, 6)), rng.choice([0, 1, 2, 7, 255, -1], (5, 6))
    y = WeightedLabels.from_mask(mask, segments)
    for j, name in enumerate(np.unique(segments)):
        counts = {label: int(np.sum(mask[segments == name] == label)) for label in (0, 1, 2, 7)}
        assert y.weights[j] == sum(counts.values())
        expected = min(counts, key=lambda label: (-counts[label], label)) if y.weights[j] else -1
        assert y.labels[j] == expected
    assert y.labels.dtype == np.int64 and y.weights.dtype == np.float64
    assert WeightedLabels.from_mask(mask, segments, ignore=None).weights.sum() == np.sum(mask != -1)


def test_areas_are_all_pixels_where_all_are_known():
    segments = np.random.default_rng(0).choice(IDS, (30, 20))
    y = WeightedLabels.from_mask(np.zeros((30, 20), bool), segments)
    np.testing.assert_array_equal(y.weights, np.unique(segments, return_counts=True)[1])
    assert (y.labels == 0).all()


def test_labels_of_pixels():
    y = WeightedLabels.from_mask([[0, 3], [255, -1]])
    assert y.labels.tolist() == [0, 3, -1, -1] and y.weights.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert WeightedLabels.from_mask([[True, False]]).labels.tolist() == [1, 0]
    assert WeightedLabels.from_mask([[3, 0]], ignore=3).labels.tolist() == [-1, 0]
    assert WeightedLabels.from_mask(np.zeros((2, 3, 4), int)).labels.shape == (24,)


def test_a_mask_of_black_and_white_is_noticed():
    """255 is the white of a mask of two labels, and the unknown label of many sets of images."""
    mask = np.array([[0, 255], [0, 255]], dtype=np.uint8)
    with pytest.warns(pb.LabelWarning, match="if 255 is a label, pass mask > 0"):
        y = WeightedLabels.from_mask(mask)
    assert y.labels.tolist() == [0, -1, 0, -1]
    assert WeightedLabels.from_mask(mask > 0).labels.tolist() == [0, 1, 0, 1]
    assert WeightedLabels.from_mask(mask, ignore=None).labels.tolist() == [0, 255, 0, 255]


@pytest.mark.parametrize("seed", range(10))
def test_paint_is_the_inverse_of_masks(seed):
    rng = np.random.default_rng(seed)
    segments = rng.choice(IDS, (5, 6) if seed % 2 else (3, 2, 4))
    labels = rng.integers(0, 5, len(np.unique(segments)))
    mask = paint(labels, segments)
    assert mask.shape == segments.shape and mask.dtype == labels.dtype
    np.testing.assert_array_equal(WeightedLabels.from_mask(mask, segments).labels, labels)
    for j, name in enumerate(np.unique(segments)):
        assert (mask[segments == name] == labels[j]).all()
    colours = rng.random((len(labels), 3))
    assert paint(colours, segments).shape == (*segments.shape, 3)


def test_the_same_nodes_for_graph_labels_and_picture():
    segments = np.random.default_rng(0).choice(IDS, (6, 7))
    x = Graph.from_image(segments % 1009.0, segments)
    y = WeightedLabels.from_mask(segments % 1009, segments, ignore=None)
    np.testing.assert_array_equal(x.nodes[:, 0], y.labels)
    np.testing.assert_array_equal(paint(x.nodes[:, 0], segments), segments % 1009)


IMAGE, SEGMENTS = np.ones((2, 3)), np.array([[1, 1, 2], [1, 2, 2]])


@pytest.mark.parametrize("arguments, error, message", [
    ({"image": np.ones(3)}, pb.ParameterError, r"image must have shape \(H, W\) or \(H, W, F\), .* got \(3,\)"),
    ({"image": np.ones((0, 3))}, pb.ParameterError, r"image must have .* got \(0, 3\)"),
    ({"image": np.ones((2, 3, 0))}, pb.ParameterError, r"none of them 0, got \(2, 3, 0\)"),
    ({"image": np.ones((2, 3, 4, 1))}, pb.ParameterError, "a volume needs neighbours=6"),
    ({"image": np.ones((2, 3)), "neighbours": 6}, pb.ParameterError, r"image must have shape \(D, H, W\)"),
    ({"image": [[1.0, np.nan]]}, pb.ParameterError, r"image must be finite, got nan in image\[0, 1\]"),
    ({"image": [[1e200]]}, pb.ParameterError, r"image must hold numbers of at most 1e\+100"),
    ({"image": [["a"]]}, pb.InputTypeError, "image must be real numbers"),
    ({"image": [[1.0], [1.0, 2.0]]}, pb.InputTypeError, "image must be real numbers"),
    ({"image": np.ma.masked_equal([[0, 1]], 1)}, pb.InputTypeError, "image .* masked"),
    ({"image": sp.eye_array(3)}, pb.InputTypeError, "image must be real numbers"),
    ({"neighbours": 5}, pb.ParameterError, "neighbours must be 4 or 8, or 6 for a volume, got 5"),
    ({"neighbours": "4"}, pb.InputTypeError, "neighbours must be an integer"),
    ({"segments": SEGMENTS.T}, pb.ParameterError, r"segments must have an id for each pixel of image, shape \(2, 3\)"),
    ({"segments": SEGMENTS + 0.0}, pb.InputTypeError, r"segments must be integers.*pass segments.astype\(int\)"),
    ({"segments": SEGMENTS > 1}, pb.InputTypeError, "segments must be integers, got dtype bool"),
    ({"segments": np.ma.masked_equal(SEGMENTS, 1)}, pb.InputTypeError, "segments must have no masked entries"),
    ({"segments": SEGMENTS, "features": np.ones((3, 1))}, pb.ParameterError,
     r"features must have a row for each of the 2 nodes, shape \(2, d\), got \(3, 1\)"),
    ({"segments": SEGMENTS, "features": np.ones(2)}, pb.ParameterError, r"got \(2,\)"),
    ({"segments": SEGMENTS, "features": [[0.0], [np.inf]]}, pb.ParameterError, "features must be finite, got inf"),
])
def test_bad_images_are_named(arguments, error, message):
    with pytest.raises(error, match=message) as caught:
        Graph.from_image(**{"image": IMAGE, **arguments})
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("arguments, error, message", [
    ({"mask": SEGMENTS + 0.5}, pb.InputTypeError, r"got dtype float64; round them, as \d+.5 is no integer"),
    ({"mask": SEGMENTS + 0.0}, pb.InputTypeError, "mask must be integers, got dtype float64; pass mask.astype"),
    ({"mask": SEGMENTS.astype(str)}, pb.InputTypeError, "got dtype <U.*; number what they name"),
    ({"mask": np.ones(3, int)}, pb.ParameterError, r"mask must have shape \(H, W\)"),
    ({"mask": np.ones((0, 3), int)}, pb.ParameterError, "mask must have shape"),
    ({"mask": SEGMENTS - 3}, pb.ParameterError, r"mask must hold labels 0\.\.2\^31 - 1, or -1, got -2\.\.-1"),
    ({"mask": SEGMENTS.T}, pb.ParameterError, r"segments must have an id for each pixel of mask, shape \(3, 2\)"),
    ({"ignore": 1.5}, pb.InputTypeError, "ignore must be an integer"),
    ({"mask": np.ma.masked_equal(SEGMENTS, 1)}, pb.InputTypeError, "mask must have no masked entries"),
])
def test_bad_masks_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        WeightedLabels.from_mask(**{"mask": SEGMENTS, "segments": SEGMENTS, **arguments})


@pytest.mark.parametrize("labels, segments, message", [
    ([1, 2, 3], SEGMENTS, r"labels must have an entry for each of the 2 segments, got shape \(3,\)"),
    (1, SEGMENTS, "labels must have an entry"),
    ([1, [2, 3]], SEGMENTS, "labels must be an array"),
    ([1], np.zeros(4, int), r"segments must have shape \(H, W\)"),
    ([1], np.zeros((0, 4), int), r"segments must have shape"),
])
def test_bad_labels_are_named(labels, segments, message):
    with pytest.raises(pb.BundleError, match=message):
        paint(labels, segments)


def test_one_class_has_two_names():
    assert pb.Graph is pb.models.Graph
    x = pickle.loads(pickle.dumps(pb.Graph.from_image(IMAGE)))
    assert isinstance(x, Graph) and x.nodes.shape == (6, 2)


def test_the_number_of_calls_does_not_depend_on_the_size():
    def calls(size):
        image = np.random.default_rng(0).random((size, size, 3))
        segments = np.add.outer(np.arange(size) // 10 * 100, np.arange(size) // 10)
        seen = Counter()
        sys.setprofile(lambda frame, event, argument: seen.update([event]))
        for ids in (None, segments):
            Graph.from_image(image, ids, neighbours=8)
        paint(WeightedLabels.from_mask(segments % 20, segments).labels, segments)
        sys.setprofile(None)
        return seen["call"], seen["c_call"]
    calls(20)       # imports what is missing
    assert calls(40) == calls(200)


def test_both_models_take_the_graphs():
    """Two noisy halves: pixels alone are wrong on a tenth, segments by their mean hardly ever."""
    rng = np.random.default_rng(0)
    mask = np.repeat([[0, 1]], 12, axis=0).repeat(6, axis=1)
    segments = np.add.outer(np.arange(12) // 2 * 10, np.arange(12) // 2)
    images = [mask + 0.4 * rng.standard_normal(mask.shape) for _ in range(6)]
    for ids in (None, segments):
        X = [Graph.from_image(image, ids) for image in images]
        Y = [WeightedLabels.from_mask(mask, ids)] * len(X)
        p = X[0].edge_features.shape[1]
        for model in (pb.models.BinaryLabeling(2, p, loss="hamming"),
                      pb.models.GraphLabeling(2, 2, p, symmetric=range(p), loss="hamming")):
            result = pb.minimize(pb.risks.Structured(model, X, Y), lam=1.0, tol=0.1)
            assert result.certified
            found = model.decode(result.x, X[0])
            picture = paint(found, ids) if ids is not None else found.reshape(mask.shape)
            assert np.mean(picture == mask) > 0.97


def test_nodes_stay_finite_and_pairs_of_labels_and_weights_are_painted():
    """A float32 image made wider features infinite; two segments were painted with labels and weights."""
    x = Graph.from_image(np.zeros((1, 2), np.float32), features=[[1e39], [123456789.0]])
    assert x.nodes[:, 1].tolist() == [1e39, 123456789.0]
    assert Graph.from_image(np.zeros((1, 2), "f4")).nodes.dtype == "f4"
    assert paint(WeightedLabels(np.array([1, 0]), np.array([5.0, 6.0])), [[0, 1]]).tolist() == [[1, 0]]
    with pytest.raises(pb.InputTypeError, match="mask must"):
        WeightedLabels.from_mask([[1], [1, 2]])
    with pytest.warns(UserWarning, match="divide bytes by 255"):
        Graph.from_image(np.full((2, 2), 200, np.uint8))
