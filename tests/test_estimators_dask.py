"""Estimators on Dask arrays and bags: the model of the same data in memory, which never are here."""

import logging

import numpy as np
import pytest
import scipy.sparse as sp
from reference.dask_tasks import tasks_in_the_end
from reference.landmark_images import landmark_images

import pybundle as pb

base = pytest.importorskip("sklearn.base", reason="needs scikit-learn, the extra `sklearn`")
distributed = pytest.importorskip("distributed", reason="needs dask.distributed, the extra `dask`")
bag = pytest.importorskip("dask.bag", reason="needs dask.distributed, the extra `dask`")
da = pytest.importorskip("dask.array", reason="needs dask.distributed, the extra `dask`")


@pytest.fixture(scope="module", autouse=True)
def client():
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0",
                                  silence_logs=logging.CRITICAL) as cluster, distributed.Client(cluster) as client:
        yield client


def blobs(n_classes=3, n=240):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6))
    y = (X @ rng.normal(size=(6, n_classes)) + rng.normal(size=(n, n_classes))).argmax(axis=1)
    return X, np.array(["ant", "bee", "cat"])[y]


def same_optimum(one, other):
    """Both intervals hold the one minimum."""
    slack = 1e-9 * abs(one.objective_)
    return (one.lower_bound_ <= other.objective_ + slack and other.lower_bound_ <= one.objective_ + slack
            and one.converged_ and other.converged_ and one.certified_ and other.certified_)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_arrays(n_classes, class_weight):
    X, y = blobs(n_classes)
    dX, dy = da.from_array(X, chunks=(50, 4)), da.from_array(y, chunks=50)
    options = {"tol": 1e-3, "class_weight": class_weight}
    here, there = pb.MulticlassSVM(**options).fit(X, y), pb.MulticlassSVM(**options).fit(dX, dy)
    assert same_optimum(here, there) and there.classes_.tolist() == here.classes_.tolist()
    assert np.abs(here.coef_ - there.coef_).max() < 0.05 * np.abs(here.coef_).max()
    found = there.predict(dX)
    assert isinstance(found, da.Array) and (found.compute() == there.predict(X)).all()
    assert np.array_equal(there.decision_function(dX).compute(), there.decision_function(X))
    assert there.decision_function(dX).shape == there.decision_function(X).shape
    assert there.score(dX, dy) == there.score(X, y)


def test_blocks_without_examples_or_with_one_class_and_weights():
    X, y = blobs(2)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    weights = np.where(np.arange(len(y)) < 100, 0.0, 2.0)
    chunks = (50, 50, 140)
    there = pb.MulticlassSVM(tol=1e-4).fit(da.from_array(X, chunks=(chunks, 6)), da.from_array(y, chunks=(chunks,)),
                                           sample_weight=da.from_array(weights, chunks=(chunks,)))
    assert same_optimum(pb.MulticlassSVM(tol=1e-4).fit(X, y, sample_weight=weights), there)


def test_groups_of_one_class():
    X, y = blobs(2)
    order = np.argsort(y, kind="stable")
    n = int((y == "ant").sum())
    chunks = (n, len(y) - n)            # a worker has all examples of one class, and none of the other
    dX, dy = da.from_array(X[order], chunks=(chunks, 6)), da.from_array(y[order], chunks=(chunks,))
    assert same_optimum(pb.MulticlassSVM().fit(X, y), pb.MulticlassSVM().fit(dX, dy))


def test_sizes_unknown_and_blocks_left_empty():
    X, y = blobs()
    chosen = np.arange(len(y)) < 110
    dX, dy = da.from_array(X, chunks=(50, 6)), da.from_array(y, chunks=50)
    dX, dy = (data[da.from_array(chosen, chunks=50)] for data in (dX, dy))
    here, there = pb.MulticlassSVM().fit(X[chosen], y[chosen]), pb.MulticlassSVM().fit(dX, dy)
    assert same_optimum(here, there)
    assert (there.predict(dX).compute() == there.predict(X[chosen])).all()
    assert np.array_equal(there.decision_function(dX).compute(), there.decision_function(X[chosen]))


def test_sparse_blocks():
    X, y = blobs()
    dX = da.from_array(X, chunks=(60, 6)).map_blocks(sp.csr_matrix)
    assert same_optimum(pb.MulticlassSVM().fit(X, y), pb.MulticlassSVM().fit(dX, da.from_array(y, chunks=60)))


def sentences():
    rng = np.random.default_rng(1)
    words = {"DET": ["the", "a"], "N": ["dog", "cat", "bird"], "V": ["barks", "sleeps"]}
    y = [["DET", "N", "V"] if rng.random() < 0.5 else ["N", "V"] for _ in range(40)]
    return [[{"word": str(rng.choice(words[label]))} for label in labels] for labels in y], y


@pytest.mark.parametrize("make", [pb.ChainSVM, pb.ChainCRF, lambda **options: pb.ChainSVM(hash_bits=6, **options),
                                  lambda **options: pb.ChainSVM(min_count=3, **options)])
def test_bags_of_sentences(make):
    X, y = sentences()
    dX, dy = (bag.from_sequence(data, npartitions=5) for data in (X, y))
    here, there = make(tol=1e-3).fit(X, y), make(tol=1e-3).fit(dX, dy)
    assert same_optimum(here, there)
    assert there.classes_.tolist() == here.classes_.tolist() and there.vocabulary_ == here.vocabulary_
    found = there.predict(dX).compute()
    assert found == there.predict(X) and {type(label) for labels in found for label in labels} == {str}
    arrays = there.predict(dX, output="array").compute()
    assert all(isinstance(labels, np.ndarray) for labels in arrays) and list(map(list, arrays)) == found
    assert there.score(dX, dy) == pytest.approx(there.score(X, y), rel=1e-12)


@pytest.mark.parametrize("options", [{"token_weights": "occurring"}, {"hash_bits": 19}, {"hash_bits": 12}])
def test_bags_of_sentences_with_weights_that_occur(options):
    """Blocks differ in their pairs; "auto" takes those of all blocks from 2^20 weights on."""
    X, y = sentences()
    X[0], y[0] = [{"word": "once"}], ["V"]
    dX, dy = (bag.from_sequence(data, npartitions=5) for data in (X, y))
    here, there = (pb.ChainCRF(tol=1e-3, **options).fit(*data) for data in ((X, y), (dX, dy)))
    assert same_optimum(here, there)
    assert (here.token_support_ is None) == (options == {"hash_bits": 12})
    np.testing.assert_array_equal(here.token_support_, there.token_support_)
    assert there.predict(dX).compute() == there.predict(X)


def test_partitions_without_examples():
    X, y = sentences()
    dX, dy = (bag.from_sequence(data, npartitions=2) for data in (X, y))
    dX, dy = (bag.concat([bag.from_sequence([0], npartitions=1).filter(bool), data]) for data in (dX, dy))
    here, there = pb.ChainSVM().fit(X, y), pb.ChainSVM().fit(dX, dy)
    assert same_optimum(here, there) and len(there.predict(dX).compute()) == len(X)
    assert there.score(dX, dy) == pytest.approx(there.score(X, y), rel=1e-12)
    with pytest.raises(pb.ParameterError, match="the same blocks"):
        there.score(dX, dy.repartition(2))
    with pytest.raises(pb.ParameterError, match="at least one example with labels"):
        there.score(dX.filter(lambda x: False), dy.filter(lambda x: False))


def test_arrays_of_images_and_of_sequences():
    X, y = (np.array(data) for data in faces())
    dX, dy = da.from_array(X, chunks=(4, 20, 12)), da.from_array(y, chunks=(4, 2, 2))   # examples are put together
    detector = pb.LandmarkDetector(windows=[(5, 5)], tol=1e-2)
    there = detector.fit(dX, dy)
    assert same_optimum(pb.LandmarkDetector(windows=[(5, 5)], tol=1e-2).fit(X, y), there)
    found = there.predict(dX)
    assert isinstance(found, da.Array) and np.array_equal(found.compute(), there.predict(X))
    assert there.score(dX, dy) == there.score(X, y)

    X = np.random.default_rng(0).normal(size=(30, 4, 3))
    y = X.argmax(axis=2)
    dX, dy = da.from_array(X, chunks=(10, 4, 3)), da.from_array(y, chunks=(10, 4))
    there = pb.ChainSVM().fit(dX, dy)
    assert same_optimum(pb.ChainSVM().fit(X, y), there)
    assert np.array_equal(there.predict(dX).compute(), there.predict(X))


@pytest.mark.parametrize("edges", ["full", "tree"])
def test_arrays_of_several_labels(edges):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = (X @ rng.normal(size=(4, 3)) + rng.normal(size=(60, 1)) > 0).astype(int)
    dX, dy = da.from_array(X, chunks=(20, 4)), da.from_array(y, chunks=(20, 3))
    here, there = (pb.MultiLabelSVM(edges, tol=1e-2).fit(*pair) for pair in ((X, y), (dX, dy)))
    assert same_optimum(here, there)
    np.testing.assert_array_equal(here.edges_, there.edges_)
    found = there.predict(dX)
    assert isinstance(found, da.Array) and np.array_equal(found.compute(), there.predict(X))
    assert there.score(dX, dy) == pytest.approx(there.score(X, y))


def parses():
    words = [("the", "D"), ("dog", "N"), ("barks", "V")]
    return [words, words[1:]] * 6, [[2, 3, 0], [2, 0]] * 6


def graphs():
    rng = np.random.default_rng(2)
    y = [rng.permutation([0, 0, 1, 1, 1]) for _ in range(12)]
    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 4]])
    return [pb.models.Graph(np.c_[labels + 0.3 * rng.normal(size=5), np.ones(5)], edges, np.ones((4, 1)))
            for labels in y], y


def plates():
    rng = np.random.default_rng(3)
    y = [[("a", 0), ("b", 2)] if rng.random() < 0.5 else [("b", 0), ("a", 3)] for _ in range(12)]
    return [rng.integers(0, 9, size=(5, 4)) for _ in y], y


def relations():
    X, y = parses()
    return X, [[(int(head), "ab"[head > 0]) for head in heads if head >= 0] for heads in y]


def faces():
    images = landmark_images(8, random_state=0)
    return list(images.X), list(images.Y)


@pytest.mark.parametrize("data, estimator", [
    (parses, lambda: pb.DependencyParser(hash_bits=8)),
    (relations, lambda: pb.DependencyParser(hash_bits=8, relations=True)),
    (graphs, lambda: pb.BinaryLabelingSVM(class_weight="balanced")),
    (graphs, lambda: pb.GraphSVM(class_weight="balanced", classes=[0, 1])),
    (plates, lambda: pb.SegmentationSVM(layout="columns")),
    (faces, lambda: pb.LandmarkDetector(windows=[(5, 5)], tol=1e-2)),
], ids=["parses", "relations", "graphs", "labels", "plates", "faces"])
def test_bags_of_other_structures(data, estimator):
    X, y = data()
    dX, dy = (bag.from_sequence(values, npartitions=3) for values in (X, y))
    here, there = estimator().fit(X, y), estimator().fit(dX, dy)
    assert same_optimum(here, there)
    for name, value in vars(here).items():      # what was learned before the solve
        if name.endswith("_") and name.strip("_") in {"classes", "class_weight", "kinds", "relations", "allowed",
                                                      "widths", "symbols", "boxes",
                                                      "anchors", "spreads", "with_root", "n_features_in"}:
            np.testing.assert_array_equal(vars(there)[name], value)
    for mine, theirs in zip(there.predict(X), there.predict(dX).compute(), strict=True):
        assert np.array_equal(np.asarray(mine), np.asarray(theirs))
    assert there.score(dX, dy) == pytest.approx(there.score(X, y), rel=1e-12)


def test_workers_keep_sentences_only_encoded(client):
    X, y = sentences()
    kept = []

    def look(progress):
        if progress.n_iter == 3:
            client.sync(client.scheduler.identity)
            kept.extend(client.run_on_scheduler(lambda dask_scheduler: [
                key for key, task in dask_scheduler.tasks.items() if task.state == "memory" and "take" in str(key)]))

    result = pb.ChainSVM(callback=look, tol=1e-6).fit(*(bag.from_sequence(data, npartitions=4) for data in (X, y)))
    assert result.n_iter_ > 3 and kept == []


def test_workers_forget_the_data(client):
    X, y = blobs()
    pb.MulticlassSVM().fit(da.from_array(X, chunks=(60, 6)), da.from_array(y, chunks=60))
    assert tasks_in_the_end(client) == 0


@pytest.mark.parametrize("fit, words", [
    (lambda X, y, dX, dy: pb.MulticlassSVM().fit(dX, y), "y must be a Dask array or bag"),
    (lambda X, y, dX, dy: pb.MulticlassSVM().fit(X, dy), "X must be a Dask array or bag like y"),
    (lambda X, y, dX, dy: pb.MulticlassSVM().fit(dX, None, sample_weight=dy), "y must be .* got NoneType"),
    (lambda X, y, dX, dy: pb.MulticlassSVM().fit(dX, dy.rechunk(70)), "y must have the same blocks"),
    (lambda X, y, dX, dy: pb.MulticlassSVM().fit(dX, dy, np.ones(240)), "sample_weight must be a Dask array"),
    (lambda X, y, dX, dy: pb.MulticlassSVM().fit(dX * np.nan, dy), "NaN"),
    (lambda X, y, dX, dy: pb.MulticlassSVM().fit(dX, da.full_like(dy, "bee")), "at least two classes"),
    (lambda X, y, dX, dy: pb.MulticlassSVM(loss=np.ones((2, 2))).fit(dX, dy), "loss must"),
    (lambda X, y, dX, dy: pb.MulticlassSVM().fit(
        dX.rechunk((120, 6)), bag.from_sequence([*y[:120], *range(120)], npartitions=2)), "of one type"),
    (lambda X, y, dX, dy: pb.MulticlassSVM().fit(dX[da.zeros(240, dtype=bool, chunks=50)], dy), "0 sample"),
    (lambda X, y, dX, dy: pb.MulticlassSVMCV().fit(dX, dy), "in memory"),
    (lambda X, y, dX, dy: pb.MulticlassSVM(C=-1.0).fit(dX, dy), "C must"),
    (lambda X, y, dX, dy: pb.ChainSVM().fit(bag.from_sequence([["a"], np.ones((2, 3))], npartitions=2),
                                            bag.from_sequence([["x"], ["x", "y"]], npartitions=2)), "in all blocks"),
    (lambda X, y, dX, dy: pb.ChainSVM().fit(bag.from_sequence([["a"], ["b"]], npartitions=2),
                                            bag.from_sequence([["x"], [1]], npartitions=2)), "of one type"),
])
def test_errors_keep_their_names(fit, words):
    X, y = blobs()
    with pytest.raises((ValueError, TypeError), match=words):
        fit(X, y, da.from_array(X, chunks=(50, 6)), da.from_array(y, chunks=50))


def test_without_a_client(client, monkeypatch):
    X, y = blobs()
    monkeypatch.setattr(distributed, "default_client", lambda: (_ for _ in ()).throw(ValueError("No clients found")))
    with pytest.raises(pb.BundleError, match=r"distributed\.Client\(\)"):
        pb.MulticlassSVM().fit(da.from_array(X, chunks=(50, 6)), da.from_array(y, chunks=50))


@pytest.mark.parametrize("model, at", [(pb.QuantileRegressor(alpha=0.01, tol=1e-6), 1e9),
                                       (pb.LinearSVR(tol=1e-6), -1.7e12), (pb.MulticlassLogistic(tol=1e-6), 0.0)])
@pytest.mark.parametrize("column", [0.0, 1e9])
def test_offsets_of_columns_and_targets(model, at, column):
    """Blocks are centred at the same point, which the driver finds from where each of them lies."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 2))
    y = 3.0 * X[:, 0] - X[:, 1] + rng.standard_normal(120)
    moved = X + np.array([column, 0.0])
    centred = moved - np.array([column, 0.0])
    targets, t = (y + at, (y + at) - at) if at else (np.digitize(y, [-2.0, 1.0]),) * 2
    here = base.clone(model).fit(centred, t)
    there = base.clone(model).fit(da.from_array(moved, chunks=(40, 2)), da.from_array(targets, chunks=40))
    assert there.converged_ and there.gap_ <= 1e-6
    predict = "predict" if at else "decision_function"
    found = getattr(there, predict)(da.from_array(moved, chunks=(40, 2))).compute() - at
    assert np.abs(found - getattr(here, predict)(centred)).max() <= 5e-3 + 4.0 * np.spacing(abs(at))
