"""`GraphSVM`: labels of any type, nodes without a label, weights, bounds on predictions, files."""

import itertools
import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle.models import Graph, WeightedLabels

RING = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]])


def graphs(n=16, K=3, seed=0, noise=0.6):
    """Rings with a chord; labels are sorted, so that the direction of an edge tells something."""
    rng = np.random.default_rng(seed)
    y = [np.sort(rng.integers(0, K, 4)) for _ in range(n)]
    X = [Graph(np.column_stack([np.eye(K)[labels] + noise * rng.normal(size=(4, K)), np.ones(4)]), RING,
               np.column_stack([np.ones(5), rng.normal(size=5)])) for labels in y]
    return X, y


def unknown(y, share=0.3, seed=1):
    rng = np.random.default_rng(seed)
    return [np.where(rng.random(len(labels)) < share, -1, labels) for labels in y]


def without(graph, labels):
    """The graph of the nodes that have a label."""
    known = np.flatnonzero(labels != -1)
    number = np.full(len(labels), -1)
    number[known] = np.arange(len(known))
    kept = (number[graph.edges] >= 0).all(axis=1)
    return Graph(graph.nodes[known], number[graph.edges[kept]], graph.edge_features[kept])


@pytest.mark.parametrize("risk", ["relaxed", "true"])
@pytest.mark.parametrize("loss", ["mean", "hamming", "balanced"])
def test_the_model_is_graph_labeling(risk, loss):
    X, y = graphs(8)
    svm = pb.GraphSVM(C=2.0, symmetric=[0], antisymmetric=[1], loss=loss, risk=risk, tol=1e-2, max_iter=300).fit(X, y)
    model = pb.models.GraphLabeling(3, 4, 2, symmetric=[0], antisymmetric=[1], loss=loss, risk=risk)
    result = pb.minimize(pb.risks.Structured(model, X, y), lam=0.5, tol=1e-2, max_iter=300)
    np.testing.assert_array_equal(svm.coef_, result.x)
    assert svm.certified_ and svm.lower_bound_ == result.lower_bound and svm.coef_.shape == (model.dim,)
    assert svm.model_.risk == risk and (svm.n_features_in_, svm.n_edge_features_) == (4, 2)


@pytest.mark.parametrize("names", [np.array(["b", "c", "a"]), np.array([7, 9, 3]), np.array([2.0, 8.0, -3.0])], ids=str)
def test_labels_of_any_type(names):
    X, y = graphs()
    named = [names[labels] for labels in y]
    svm = pb.GraphSVM(tol=1e-2).fit(X, named)
    assert svm.classes_.tolist() == sorted(names.tolist()) and svm.classes_.dtype.kind == names.dtype.kind
    lists = pb.GraphSVM(tol=1e-2).fit(X, [labels.tolist() for labels in named])
    np.testing.assert_array_equal(lists.coef_, svm.coef_)
    assert {label for labels in svm.predict(X) for label in labels.tolist()} <= set(names.tolist())
    assert svm.score(X, named) == np.mean([np.mean(a == b) for a, b in zip(svm.predict(X), named, strict=True)]) > 0.5


def test_nodes_without_a_label_are_left_out_with_their_edges():
    X, y = graphs()
    y = unknown(y)
    y[2][:] = -1
    svm = pb.GraphSVM(C=3.0, tol=1e-2).fit(X, y)
    rest = [i for i in range(len(X)) if i != 2]
    smaller = pb.GraphSVM(C=3.0, tol=1e-2).fit([without(X[i], y[i]) for i in rest], [y[i][y[i] != -1] for i in rest])
    assert svm.classes_.tolist() == [0, 1, 2] and svm.certified_
    assert max(svm.lower_bound_, smaller.lower_bound_) <= min(svm.objective_, smaller.objective_)
    found = svm.predict(X)
    assert all(len(labels) == 4 for labels in found)
    expected = [np.mean(found[i][y[i] != -1] == y[i][y[i] != -1]) for i in rest]
    assert svm.score(X, y) == pytest.approx(np.mean(expected))
    texts = [[None if label < 0 else "abc"[label] for label in labels] for labels in y]
    named = pb.GraphSVM(C=3.0, tol=1e-2).fit(X, [texts[0], *(np.array(labels, dtype=object) for labels in texts[1:])])
    np.testing.assert_array_equal(named.coef_, svm.coef_)
    assert named.score(X, texts) == svm.score(X, y)
    empty = pb.GraphSVM(C=3.0, tol=1e-2).fit(X, [labels if i % 2 else [None] * 4 for i, labels in enumerate(texts)])
    assert empty.classes_.tolist() == ["a", "b", "c"]


def test_minus_one_is_a_label_where_classes_say_so():
    X, y = graphs(K=2)
    signs = [2 * labels - 1 for labels in y]
    with pytest.raises(pb.ParameterError, match=r"y must hold at least two classes, got 1: \[1\]; pass classes="):
        pb.GraphSVM().fit(X, signs)
    svm, plain = pb.GraphSVM(classes=[1, -1]).fit(X, signs), pb.GraphSVM().fit(X, y)
    assert svm.classes_.tolist() == [-1, 1] and svm.score(X, signs) == plain.score(X, y)
    np.testing.assert_array_equal(svm.coef_, plain.coef_)


def test_classes_that_do_not_occur():
    X, y = graphs(K=3)
    svm = pb.GraphSVM(classes=[0, 1, 2, 5]).fit(X, y)
    assert svm.classes_.tolist() == [0, 1, 2, 5] and svm.coef_.shape == (4 * 4 + 16 * 2,)
    assert set(np.concatenate(svm.predict(X)).tolist()) <= {0, 1, 2}


def test_weights_of_nodes_and_of_classes():
    X, y = graphs()
    rng = np.random.default_rng(3)
    weighted = [WeightedLabels(labels, rng.random(4) + 0.1) for labels in y]
    svm = pb.GraphSVM(class_weight={0: 2.0}, tol=1e-2).fit(X, weighted)
    model = pb.models.GraphLabeling(3, 4, 2, class_weights=[2.0, 1.0, 1.0])
    np.testing.assert_array_equal(svm.coef_, pb.minimize(pb.risks.Structured(model, X, weighted), lam=1.0, tol=1e-2).x)
    expected = [np.average(a == b.labels, weights=b.weights) for a, b in zip(svm.predict(X), weighted, strict=True)]
    assert svm.score(X, weighted) == pytest.approx(np.mean(expected))
    masked = unknown(y)
    balanced = pb.GraphSVM(class_weight="balanced", tol=1e-2).fit(X, masked)
    counts = np.bincount(np.concatenate(masked)[np.concatenate(masked) >= 0])
    np.testing.assert_allclose(balanced.class_weight_, counts.sum() / (3 * counts))


def test_decode_is_between_the_best_score_and_its_bound():
    X, y = graphs(8, noise=2.0)
    svm = pb.GraphSVM(C=100.0, tol=1e-2).fit(X, y)
    labels, value, upper = svm.decode(X)
    every = [np.array(z) for z in itertools.product(range(3), repeat=4)]
    for i, x in enumerate(X):
        scores = [svm.model_.joint_feature(x, z) @ svm.coef_ for z in every]
        assert max(scores) <= upper[i] + 1e-9 * abs(upper[i])
        assert value[i] == pytest.approx(svm.model_.joint_feature(x, labels[i]) @ svm.coef_)
        np.testing.assert_array_equal(labels[i], svm.predict([x])[0])
    assert (value <= upper).all() and np.mean(upper - value <= 1e-6) > 0.5
    np.testing.assert_array_equal(svm.decision_function(X), value)
    model = svm.model_
    batch = model.decode_batch(svm.coef_, X)
    assert all(np.array_equal(batch.labels[i], model.decode(svm.coef_, x)) for i, x in enumerate(X))


def test_batches_of_predictions_do_not_depend_on_their_size(monkeypatch):
    X, y = graphs()
    svm = pb.GraphSVM(tol=1e-2).fit(X, y)
    whole = svm.decode(X)
    monkeypatch.setattr("pybundle.models.graph_labeling.model.DECODED", 70)
    parts = svm.decode(X)
    np.testing.assert_array_equal(parts.value, whole.value)
    np.testing.assert_array_equal(np.concatenate(parts.labels), np.concatenate(whole.labels))


@pytest.mark.parametrize("mask", [False, True])
def test_sparse_features_are_the_same_problem(mask):
    X, y = graphs()
    y = unknown(y) if mask else y
    sparse = [Graph(sp.csr_array(x.nodes), x.edges, sp.csr_array(x.edge_features)) for x in X]
    dense, csr = pb.GraphSVM(tol=1e-4, symmetric=[0]).fit(X, y), pb.GraphSVM(tol=1e-4, symmetric=[0]).fit(sparse, y)
    assert max(dense.lower_bound_, csr.lower_bound_) <= min(dense.objective_, csr.objective_)
    model, rng = csr.model_, np.random.default_rng(0)
    oracles, w = [model.oracle(data, y) for data in (X, sparse)], rng.normal(size=model.dim)
    rows = np.arange(len(X))
    one, other = (oracle.solve_batch(rows, oracle.prepare(w)) for oracle in oracles)
    np.testing.assert_allclose(other.uppers, one.uppers)
    for a, b in zip(oracles[0].planes(rows, one.labellings), oracles[1].planes(rows, one.labellings), strict=True):
        np.testing.assert_allclose(*(part.toarray() if sp.issparse(part) else part for part in (a, b)), atol=1e-15)
    np.testing.assert_allclose(oracles[0].norms, oracles[1].norms)
    edited = [Graph(x.nodes, x.edges, x.edge_features.copy()) for x in sparse]
    bound = model.oracle(edited, y)
    assert bound.fingerprint == oracles[1].fingerprint != oracles[0].fingerprint


def test_edges_may_be_missing():
    X, y = graphs()
    lone = [Graph(sp.csr_array(x.nodes), np.empty((0, 2), int), sp.csr_array((0, 2))) for x in X]
    for data in (lone, [Graph(x.nodes.toarray(), x.edges, np.empty((0, 2))) for x in lone], [lone[0], *lone[1:]]):
        svm = pb.GraphSVM(tol=1e-2).fit(data, y)
        assert svm.certified_ and not svm.coef_[12:].any()
    alone = [np.array([0, -1, 1, -1])] * len(X)     # the chord 0-2 is the only edge that is left
    cut = [Graph(x.nodes, x.edges[:4], sp.csr_array(x.edge_features[:4])) for x in X]
    assert not pb.GraphSVM(tol=1e-2).fit(cut, alone).coef_[8:].any()


def test_files_keep_labels_and_parameters(tmp_path):
    X, y = graphs()
    named = [np.array(["sea", "sky", "land"])[labels] for labels in y]
    svm = pb.GraphSVM(symmetric=np.array([0]), classes=["sea", "sky", "land"], tol=1e-2).fit(X, named)
    svm.save(tmp_path / "svm.npz")
    again = pb.load(tmp_path / "svm.npz")
    assert again.classes_.tolist() == ["land", "sea", "sky"] and again.gap_ == svm.gap_
    np.testing.assert_array_equal(again.decode(X).upper, svm.decode(X).upper)
    svm.n_edge_features_ = 20
    svm.save(tmp_path / "odd.npz")
    with pytest.raises(pb.StateError, match="coef_ must have a weight for each label and feature"):
        pb.load(tmp_path / "odd.npz")


X0, Y0 = graphs(4)


@pytest.mark.parametrize("options, X, y, error, match", [
    ({"loss": "logistic"}, X0, Y0, pb.ParameterError, "loss must be one of 'mean', 'hamming', 'balanced', got 'logis"),
    ({"risk": "fractional"}, X0, Y0, pb.ParameterError, "risk must be one of 'relaxed', 'true'"),
    ({"symmetric": [2]}, X0, Y0, pb.ParameterError, "symmetric must list different edge features 0..1"),
    ({"classes": [0]}, X0, [[0] * 4] * 4, pb.ParameterError, r"classes must be two or more different labels, got \[0"),
    ({"classes": [0, 1, 1]}, X0, Y0, pb.ParameterError, "classes must be two or more different labels"),
    ({"classes": [0, 1]}, X0, [[0, 1, 7, 0]] * 4, pb.ParameterError, r"y must hold the labels of classes, \[0, 1\], "),
    ({"classes": ["a", "b"]}, X0, Y0, pb.ParameterError, r"y must hold the labels of classes, \['a', 'b'\], got 0"),
    ({"classes": [0, np.nan]}, X0, Y0, pb.ParameterError, "classes must not hold NaN.*a node without"),
    ({"classes": 3}, X0, Y0, pb.InputTypeError, "classes must be a sequence of labels"),
    ({"classes": [0, 1]}, X0, [[-1] * 4] * 4, pb.ParameterError, "at least one label that is known"),
    ({"classes": [0, 1, 2, 3], "class_weight": "balanced"}, X0, Y0, pb.ParameterError, "in every class, got none of 3"),
    ({}, X0, [[0] * 4] * 4, pb.ParameterError, r"y must hold at least two classes, got 1: \[0\]"),
    ({}, X0, [[0, 1, np.nan, 2]] * 4, pb.ParameterError, r"y\[0\] must not hold NaN"),
    ({}, X0, [[0, "a", None, 2]] * 4, pb.InputTypeError, r"y\[0\] must hold labels of one type"),
    ({}, X0, [[0, 1, 2]] * 4, pb.ParameterError, r"Y\[0\] must have labels for its 4 nodes"),
    ({}, X0, Y0[:3], pb.ParameterError, "same number of examples"),
    ({}, X0, np.zeros((4, 4, 1)), pb.InputTypeError, r"y\[0\] must be a sequence of labels"),
    ({}, [1] * 4, Y0, pb.InputTypeError, r"X\[0\] must be a Graph"),
    ({}, [Graph(x.nodes * np.nan, *x[1:]) for x in X0], Y0, pb.ParameterError, r"X must be finite, got nan in X\[0\]"),
    ({}, [Graph(x.nodes, x.edges, sp.csr_array(x.edge_features * np.inf)) for x in X0], Y0, pb.ParameterError,
     r"got -?inf in X\[0\].edge_features\[0\]"),
    ({}, [Graph(x.nodes, x.edges + 1, x.edge_features) for x in X0], Y0, pb.ParameterError, "must join two different"),
    ({}, [Graph(x.nodes, x.edges, x.edge_features[:2]) for x in X0], Y0, pb.ParameterError, "one row for each edge, "),
    ({}, [X0[0], Graph(X0[0].nodes[:, :2], *X0[0][1:]), *X0[2:]], Y0, pb.ParameterError,
     r"X\[1\].nodes must have shape \(.., 4\)"),
])  # fmt: skip
def test_what_is_refused(options, X, y, error, match):
    with pytest.raises(error, match=match) as caught:
        pb.GraphSVM(**options).fit(X, y)
    assert len(str(caught.value)) < 200


def test_predictions_refuse_other_data():
    svm = pb.GraphSVM(tol=0.1).fit(X0, Y0)
    for call in (svm.predict, svm.decode):
        with pytest.raises(pb.ParameterError, match="n_features of the model"):
            call([Graph(x.nodes[:, :2], *x[1:]) for x in X0])
    for wrong, match in (([[0, 1]] * 4, r"y\[0\] must have one label for each node of X\[0\], 4 in"),
                         ([WeightedLabels(labels, np.zeros(4)) for labels in Y0], "must weight one of its nodes"),
                         ([[-1] * 4] * 4, "y must hold at least one example with known labels")):
        with pytest.raises(pb.ParameterError, match=match):
            svm.score(X0, wrong)
    with pytest.raises(AttributeError, match=r"'GraphSVM' has no attribute 'predict_proba'.*hinge"):
        svm.predict_proba(X0)


@pytest.mark.parametrize("make", [lambda: pb.GraphSVM(C=1.0, symmetric=range(3)), lambda: pb.BinaryLabelingSVM(C=1.0)])
def test_images_stand_for_the_graphs_of_their_pixels(make):
    rng = np.random.default_rng(5)
    images = [rng.random(shape) for shape in ((4, 6, 2), (5, 3, 2), (1, 7, 2))]
    masks = [(image[..., 0] > 0.5).astype(int) for image in images]
    graphs, flat = [pb.Graph.from_image(image) for image in images], list(map(np.ravel, masks))
    svm, same = make().fit(images, masks), make().fit(graphs, flat)
    assert np.array_equal(svm.coef_, same.coef_) and svm.objective_ == same.objective_
    for found, other, mask in zip(svm.predict(images), same.predict(graphs), masks, strict=True):
        assert found.shape == mask.shape and np.array_equal(found.ravel(), other)
    assert svm.score(images, masks) == same.score(graphs, flat) == svm.score(graphs, flat) == svm.score(images, flat)
    with pytest.raises(pb.ParameterError, match=r"y\[0\] must have the shape \(4, 6\) of the image X\[0\], got \("):
        make().fit(images, [mask.T for mask in masks])
    if hasattr(svm, "decode"):
        assert [labels.shape for labels in svm.decode(images).labels] == [mask.shape for mask in masks]


@pytest.mark.parametrize("make", [partial(pb.GraphSVM, 0.1), partial(pb.BinaryLabelingSVM, 0.1)])
def test_what_is_wrong_with_images_is_named(make):
    rng = np.random.default_rng(1)
    images = [rng.random((*shape, 1)) for shape in ((4, 6), (5, 3))]
    masks = [(image[..., 0] > 0.5).astype(int) for image in images]
    for one in (images[0], [image[..., 0] for image in images], np.ones((2, 4, 6))):       # no list, or grey
        with pytest.raises(pb.InputTypeError, match=r"X must be a list of images .*grey ones image\[:, :, None\]"):
            make().fit(one, masks[0] if one is images[0] else masks)
    with pytest.raises(pb.InputTypeError, match=r"y\[1\] must be the labels of the pixels"):
        make().fit(images, [masks[0], [[0, 1], [1]]])
    images[1][2, 1] = np.nan
    with pytest.raises(pb.ParameterError, match=r"X\[1\] must be finite, got nan in X\[1\]\[2, 1, 0\]"):
        make().fit(images, masks)


def test_a_mask_that_marks_unknown_pixels_with_255_is_warned_of():
    rng = np.random.default_rng(2)
    images = [rng.random((4, 6, 2)) for _ in range(3)]
    masks = [np.digitize(image[..., 0], [0.3, 0.9]) for image in images]
    void = [np.where(mask == 2, 255, mask) for mask in masks]
    with pytest.warns(pb.LabelWarning, match="y holds 255 beside 2 other labels"):
        pb.GraphSVM(0.1).fit(images, [mask.astype(np.uint8) for mask in void])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pb.GraphSVM(0.1).fit(images, masks)
        known = [np.where(mask == 255, -1, mask.astype(int)) for mask in void]
        assert pb.GraphSVM(0.1).fit(images, known).classes_.tolist() == [0, 1]
        pb.GraphSVM(0.1, classes=[0, 1, 255]).fit(images, void)
        pb.BinaryLabelingSVM(0.1).fit(images, [255 * (mask > 0) for mask in masks])
