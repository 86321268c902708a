"""Binary labelling of graphs: the model against enumeration, planes, losses, training, refusals."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle.core.ragged import Ragged
from pybundle.models import BinaryLabeling, Graph, WeightedLabels

D, P = 3, 2


def graphs(n=30, seed=0, most=7, storage="float64"):
    """Small random graphs, some without edges, and labels."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for size in rng.integers(1, most + 1, n):
        m = int(rng.integers(0, 2 * size)) if size > 1 else 0
        a = rng.integers(0, size, m)
        edges = np.column_stack([a, (a + rng.integers(1, max(size, 2), m)) % size])
        nodes = rng.integers(0, 4, (size, D)) if storage == "uint8" else rng.standard_normal((size, D))
        nodes = sp.csr_array(nodes) if storage == "csr" else nodes.astype(storage)
        X.append(Graph(nodes, edges, rng.random((m, P))))
        Y.append(rng.integers(0, 2, size))
    return X, Y


def points(n=6, seed=1):
    rng = np.random.default_rng(seed)
    for scale in np.resize([0.05, 0.5, 5.0], n):
        w = scale * rng.standard_normal(D + P)
        w[D:] = np.abs(w[D:])
        yield w


def feature(x, y):
    """Psi(x, y) from its definition."""
    nodes = x.nodes.toarray() if sp.issparse(x.nodes) else x.nodes.astype(float)
    unary = sum((2.0 * label - 1.0) * row for label, row in zip(y, nodes, strict=True))
    pairs = -sum((row for (a, b), row in zip(x.edges, x.edge_features, strict=True) if y[a] != y[b]), np.zeros(P))
    return np.concatenate([unary, pairs])


def cost(y, y_hat, loss, weights, factors):
    """The loss from its definition."""
    wrong = [c * factors[t] * (t != p) for t, p, c in zip(y, y_hat, weights, strict=True)]
    if loss == "hamming":
        return sum(wrong)
    if loss == "mean":
        return sum(wrong) / sum(weights)
    total = [sum(c for t, c in zip(y, weights, strict=True) if t == label) for label in (0, 1)]
    return sum(part / (2.0 * total[t]) for part, t in zip(wrong, y, strict=True))


# each loss with both factors and with and without weights, and each pair of these
@pytest.mark.parametrize("loss, weighted, factors", [
    (loss, weighted, (0.5, 2.0) if weighted == (k % 2 == 0) else (1.0, 1.0))
    for k, loss in enumerate(["mean", "hamming", "balanced"]) for weighted in (False, True)])
def test_decoding_equals_enumeration(loss, weighted, factors):
    X, labels = graphs(15, most=6)
    rng = np.random.default_rng(2)
    areas = [rng.uniform(0.5, 3.0, len(y)) if weighted else np.ones(len(y)) for y in labels]
    Y = [WeightedLabels(y, c) for y, c in zip(labels, areas, strict=True)] if weighted else labels
    model = BinaryLabeling(D, P, loss, factors)
    oracle = model.oracle(X, Y)
    rows = np.arange(len(X))
    every = [{z: (feature(x, z) - feature(x, y), cost(y, z, loss, c, factors))
              for z in product((0, 1), repeat=len(y))} for x, y, c in zip(X, labels, areas, strict=True)]
    for w in points():
        found = oracle.solve_batch(rows, oracle.prepare(w))
        plain = oracle.solve_batch(rows, oracle.prepare(w), loss=False)
        for i, x in enumerate(X):
            scores = {z: psi @ w for z, (psi, _) in every[i].items()}
            best = max(scores[z] + b for z, (_, b) in every[i].items())
            for value in (found.values[i], found.uppers[i]):
                assert value == pytest.approx(best, abs=1e-11)
            assert found.uppers[i] >= found.values[i]
            z = tuple(found.labellings[i])
            assert model.loss(Y[i], z) == pytest.approx(every[i][z][1], abs=1e-13)
            assert scores[z] + every[i][z][1] == pytest.approx(best, abs=1e-11)
            assert plain.values[i] == pytest.approx(max(scores.values()), abs=1e-11)
            assert model.decode(w, x).tolist() == plain.labellings[i].tolist()
            assert model.loss_augmented_decode(w, x, Y[i]).tolist() == found.labellings[i].tolist()
            np.testing.assert_allclose(model.joint_feature(x, z), feature(x, z), atol=1e-13)


@pytest.mark.parametrize("storage", ["float64", "float32", "uint8", "csr"])
def test_planes_and_losses(storage):
    X, Y = graphs(40, storage=storage)
    model = BinaryLabeling(D, P, "balanced")
    oracle = model.oracle(X, Y)
    rng = np.random.default_rng(3)
    rows = rng.permutation(40)[:25]
    labellings = [rng.integers(0, 2, len(Y[i])).astype(np.uint8) for i in rows]
    scales, slope = rng.standard_normal(25), np.ones(D + P)
    total = oracle.add_planes(rows, labellings, scales, slope)
    losses = oracle.losses(rows, Ragged.of(labellings))
    expected = [model.loss(Y[i], z) for i, z in zip(rows, labellings, strict=True)]
    np.testing.assert_allclose(losses, expected, rtol=1e-13)
    assert total == pytest.approx(scales @ losses)
    psi = [feature(X[i], z) - feature(X[i], Y[i]) for i, z in zip(rows, labellings, strict=True)]
    np.testing.assert_allclose(slope, 1.0 + scales @ np.array(psi), atol=1e-12)
    for i, z, row in zip(rows, labellings, psi, strict=True):
        plane = oracle.plane(i, z)
        np.testing.assert_allclose(plane.slope, row, atol=1e-13)
        assert np.linalg.norm(row) <= oracle.norms[i]
    assert oracle.losses(np.arange(40), Y).tolist() == [0.0] * 40


def test_the_oracle_is_valid_and_takes_ragged_data():
    X, Y = graphs(60, most=20)
    model = BinaryLabeling(D, P)
    report = pb.check_oracle(model, X, Y)
    assert report, str(report)
    joined = Graph(*(Ragged.of([x[k] for x in X]) for k in range(3)))
    weights = WeightedLabels(Ragged.of(Y), Ragged.of([np.ones(len(y)) for y in Y]))
    w = next(points())
    values = [pb.risks.Structured(model, data, truth).evaluate(w)[0][0]
              for data, truth in ((X, Y), (joined, Ragged.of(Y)), (joined, weights))]
    assert values[0] == values[1] == values[2]
    assert len({model.oracle(data, Y).fingerprint for data in (X, joined)}) == 1
    assert model.oracle(X, [1 - y for y in Y]).fingerprint != model.oracle(X, Y).fingerprint


@pytest.fixture(scope="module")
def images():
    return pb.datasets.contrast_images(60, shape=(8, 8), random_state=3)


def test_training_keeps_the_pairs_nonnegative_and_certifies(images):
    X, y, weights, _ = images
    model = BinaryLabeling(2, 2)
    risk = pb.risks.Structured(model, X[:40], y[:40], n_parts=4)
    results = [pb.minimize(risk, lam=0.1, method=method, tol=1e-3) for method in ("oca", "bmrm", "prox-bmrm")]
    best = min(result.fun for result in results)
    for result in results:
        assert result.success and result.certified
        assert (result.x[2:] >= 0.0).all()
        assert result.lower_bound <= best
    test = pb.risks.Structured(model, X[40:], y[40:])
    trained, planted = (test.predict_losses(w).mean() for w in (results[0].x, weights))
    alone = test.predict_losses(weights * [1, 1, 0, 0]).mean()
    assert trained < planted + 0.03
    assert planted < alone                      # the pairs carry information


def test_images_are_equal_for_equal_seeds(images):
    again = pb.datasets.contrast_images(60, shape=(8, 8), random_state=3)
    assert all(np.array_equal(a, b) for a, b in zip(images.y, again.y, strict=True))
    assert np.array_equal(images.X[5].nodes, again.X[5].nodes)
    assert not np.array_equal(images.X[5].nodes, pb.datasets.contrast_images(60, shape=(8, 8)).X[5].nodes)
    assert all(0.05 < np.concatenate(images.y).mean() < 0.95 for _ in (0,))
    with pytest.raises(pb.ParameterError, match="the last two >= 0"):
        pb.datasets.contrast_images(1, weights=(1, 1, -1, 0))


def test_negative_pair_weights_are_refused():
    X, Y = graphs()
    model = BinaryLabeling(D, P)
    w = np.array([1.0, 1.0, 1.0, 0.5, -0.25])
    with pytest.raises(pb.ParameterError, match=r"w\[4\], the weight of edge feature 1, must be >= 0, got -0.25"):
        pb.risks.Structured(model, X, Y).evaluate(w)
    with pytest.raises(pb.ParameterError, match="must be >= 0"):
        model.decode(w, X[0])


def changed(kind, value):
    """Data whose third example is wrong in one place."""
    X = [Graph(np.ones((3, D)), np.array([[0, 1], [1, 2]]), np.ones((2, P))) for _ in range(5)]
    Y = [np.array([0, 1, 1]) for _ in range(5)]
    if kind == "y":
        Y[2] = value
    elif kind == "x":
        X[2] = value
    else:
        X[2] = X[2]._replace(**{kind: value})
    return X, Y


@pytest.mark.parametrize("kind, value, text", [
    ("y", np.array([0, 2, 1]), r"Y\[2\]\[1\] must be a label 0 or 1, got 2"),
    ("y", np.array([0, 1]), r"Y\[2\] must have labels for its 3 nodes, one each, got shape \(2,\)"),
    ("y", WeightedLabels(np.array([0, 1, 1]), np.array([1.0, -1.0, 1.0])),
     r"Y\[2\].weights\[1\] must be a finite number >= 0, got -1.0"),
    ("y", WeightedLabels(np.array([0, 1, 1]), np.ones(2)), r"Y\[2\] must have weights for its 3 nodes"),
    ("edges", np.array([[0, 1], [1, 3]]), r"X\[2\].edges\[1\] must join two different nodes of 0..2, got \(1, 3\)"),
    ("edges", np.array([[0, 0], [1, 2]]), r"X\[2\].edges\[0\] must join two different nodes of 0..2, got \(0, 0\)"),
    ("edges", np.array([[0, 1]]), r"X\[2\].edge_features must have one row for each edge, 1 in all, got 2"),
    ("edge_features", np.array([[1.0, 1.0], [1.0, -0.5]]), r"X\[2\].edge_features\[1, 1\] must be a finite number "
                                                           r">= 0, got -0.5"),
    ("edge_features", np.ones((2, 3)), r"X\[2\].edge_features must have shape \(.., 2\)"),
    ("nodes", np.full((3, D), np.nan), r"X must be finite, got nan in X\[2\].nodes\[0\], column 0"),
    ("nodes", np.ones((0, D)), r"X\[2\] must have at least one node"),
    ("x", np.ones((3, D)), r"X\[2\] must be a Graph"),
])  # fmt: skip
def test_bad_data_is_refused(kind, value, text):
    with pytest.raises((pb.ParameterError, pb.InputTypeError), match=text):
        BinaryLabeling(D, P).oracle(*changed(kind, value))


def test_bad_models_and_sizes_are_refused():
    X, Y = graphs()
    with pytest.raises(pb.ParameterError, match=r"X\[0\].nodes must have shape \(.., 4\), the n_features of the model"):
        BinaryLabeling(4, P).oracle(X, Y)
    with pytest.raises(pb.ParameterError, match="same number of examples"):
        BinaryLabeling(D, P).oracle(X, Y[:-1])
    with pytest.raises(pb.InputTypeError, match="one Graph whose fields are all Ragged, got nodes nd"):
        BinaryLabeling(D, P).oracle(X[0], Y[0])
    with pytest.raises(pb.ParameterError, match="loss must be one of"):
        BinaryLabeling(D, P, "zero-one")
    with pytest.raises(pb.ParameterError, match="class_weights must be >= 0"):
        BinaryLabeling(D, P, class_weights=(1.0, -1.0))


@pytest.mark.parametrize("model", [BinaryLabeling(D, P), pb.models.GraphLabeling(2, D, P)], ids=["binary", "any"])
def test_the_loss_refuses_labels_of_another_shape(model):
    with pytest.raises(pb.ParameterError, match=r"y_hat must have shape \(2,\) like y, got \(1, 2\)"):
        model.loss([0, 1], [[0, 1]])
