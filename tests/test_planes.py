"""Planes of many labellings at once, batches of single examples, and weights that follow w."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from test_structured import Pairs, pairs

import pybundle as pb
from pybundle.core.protocols import Oracle
from pybundle.core.ragged import Ragged
from pybundle.features._plane_rows import merge_rows
from pybundle.features._rows import RowSums, sum_rows
from pybundle.features.examples import Examples
from pybundle.features.weights import LazyWeights
from pybundle.models.batch_oracle import BatchOracle, batched
from pybundle.models.binary_labeling.oracle import BinaryLabelingOracle
from pybundle.models.model_oracle import ModelOracle


def random_trees(rng, sizes):
    """Heads of random trees with one word on the root."""
    trees = []
    for n in sizes:
        order = rng.permutation(n) + 1
        heads = np.full(n + 1, -1, np.int32)
        for k, m in enumerate(order):
            heads[m] = 0 if k == 0 else order[rng.integers(k)]
        trees.append(heads)
    return trees


def chains(storage="float64", **options):
    def make(rng):
        sizes = rng.integers(1, 7, 12)
        X = [rng.integers(0, 3, (T, 5)) for T in sizes]
        if storage == "indicators":
            X = [rng.integers(-1, 5, (T, 3)) for T in sizes]
        elif storage.startswith("csr"):
            X = [sp.csr_array(x.astype(storage[3:])) for x in X]
        else:
            X = [x.astype(storage) for x in X]
        model = pb.models.Chain(3, 5, indicators=storage == "indicators", **options)
        return model, X, *([rng.integers(0, 3, T).astype(np.int32) for T in sizes] for _ in range(2))

    return make


def multiclass(storage, rescaling="margin"):
    def make(rng):
        costs = rng.random((4, 4))
        np.fill_diagonal(costs, 0.0)
        X = storage(rng.integers(0, 3, (20, 6)).astype(float))
        model = pb.models.Multiclass(4, 6, costs, rescaling)
        return model, X, rng.integers(0, 4, 20), list(rng.integers(0, 4, 20))

    return make


def segmentation(**options):
    def make(rng):
        model = pb.models.Segmentation(2, [1, 2, 3, 2], symbols=[0, 1, 1, 2], **options)
        cover = {1: [[0]], 2: [[0, 0], [1], [3]], 3: [[2], [0, 1], [3, 0]], 4: [[1, 3], [0, 2], [2, 0], [1, 1]]}
        sizes = rng.integers(1, 5, 15)
        Y, Z = ([np.array(cover[W][rng.integers(len(cover[W]))]) for W in sizes] for _ in range(2))
        return model, [rng.integers(-2, 3, (W, 2)).astype(np.float32) for W in sizes], Y, Z

    return make


def dependency(hashed):
    def make(rng):
        sizes = rng.integers(1, 8, 12)
        Y, Z = random_trees(rng, sizes), random_trees(rng, sizes)
        if hashed:
            templates = ["h.pos m.pos distance", "h.pos m-1.pos direction", "m.pos set.pos", "h.pos each.pos"]
            return (pb.models.Dependency.hashed(6, ["pos"], templates), [rng.integers(0, 4, (n, 1)) for n in sizes], Y,
                    Z)
        return pb.models.Dependency(9), [sp.csr_array(rng.integers(-1, 2, (n * n, 9)) / 1.0) for n in sizes], Y, Z

    return make


def landmarks(codes):
    def make(rng):
        points = [rng.integers(2, 7, (10, 3, 2)) for _ in range(2)]
        if codes:
            X, descriptor = rng.integers(0, 256, (10, 2, 17, 17), dtype=np.uint8), pb.features.CodeWindows(
                [[3, 3], [2, 1]], 4)
        else:
            X, descriptor = rng.normal(size=(10, 81, 4)), pb.features.MapFeatures(4)
        return pb.models.Landmarks((9, 9), [-1, 0, 0], descriptor), X, *points

    return make


def binary_labeling(rng):
    images = pb.datasets.contrast_images(8, shape=(5, 5))
    model = pb.models.BinaryLabeling(images.X[0].nodes.shape[1], images.X[0].edge_features.shape[1])
    return model, images.X, images.y, [rng.integers(0, 2, len(y)) for y in images.y]


def plain(**options):
    def make(rng):
        X, Y = pairs(15)
        return Pairs(**options), X, Y, [tuple(rng.integers(0, 3, 2).tolist()) for _ in Y]

    return make


CASES = {
    "chain": chains(), "chain float32": chains("float32"), "chain uint8": chains("uint8", normalised=True),
    "chain csr": chains("csrfloat64"), "chain csr32": chains("csrfloat32", start=False),
    "chain indicators": chains("indicators", end=False), "chain slack": chains("uint8", rescaling="slack"),
    "chain csr slack": chains("csrfloat64", rescaling="slack", normalised=True),
    "multiclass": multiclass(np.asarray), "multiclass csr": multiclass(sp.csr_array),
    "multiclass slack": multiclass(np.float32, "slack"), "segmentation": segmentation(),
    "segmentation slack": segmentation(rescaling="slack", loss="symbol"), "dependency rows": dependency(False),
    "dependency hashed": dependency(True), "landmarks codes": landmarks(True), "landmarks maps": landmarks(False),
    "binary labeling": binary_labeling, "plain": plain(), "plain sparse": plain(sparse=True),
    "plain slack": plain(rescaling="slack"),
}  # fmt: skip


@pytest.fixture(params=CASES)
def case(request):
    """(oracle, truths, random labellings)."""
    model, X, Y, labellings = CASES[request.param](np.random.default_rng(5))
    return model.oracle(X, Y), list(Y), list(labellings)


def assert_canonical(slopes, shape):
    assert isinstance(slopes, sp.csr_array) and slopes.shape == shape
    assert slopes.dtype == np.float64 and slopes.indices.dtype == np.int32
    assert slopes.data.all()
    rows = np.repeat(np.arange(shape[0]), np.diff(slopes.indptr))
    assert (np.diff(rows * shape[1] + slopes.indices) > 0).all()


def dense(slope):
    return slope.toarray()[0] if sp.issparse(slope) else slope


def test_planes_are_those_of_single_labellings(case):
    oracle, _, labellings = case
    rng = np.random.default_rng(6)
    rows = rng.integers(0, oracle.n_examples, 2 * oracle.n_examples)       # examples repeat, in any order
    picked = [labellings[i] for i in rows]
    losses, slopes = oracle.planes(rows, picked)
    assert_canonical(slopes, (len(rows), oracle.dim))
    np.testing.assert_allclose(losses, oracle.losses(rows, picked), rtol=1e-14)
    for j, i in enumerate(rows):
        single = oracle.plane(int(i), labellings[i])
        np.testing.assert_allclose(single.offset, losses[j], rtol=1e-14)
        np.testing.assert_allclose(dense(single.slope), slopes[[j]].toarray()[0], rtol=1e-13, atol=1e-14)
    scales, total = rng.random(len(rows)), np.zeros(oracle.dim)
    offset = oracle.add_planes(rows, picked, scales, total)
    np.testing.assert_allclose(scales @ losses, offset, rtol=1e-12)
    np.testing.assert_allclose(scales @ slopes, total, rtol=1e-10, atol=1e-12)
    again = BatchOracle._planes(oracle, rows, picked)                        # the dense way
    np.testing.assert_allclose(again[0], losses, rtol=1e-14)
    assert_canonical(again[1], slopes.shape)
    assert abs(again[1] - slopes).max() <= 1e-13


def test_a_truth_has_no_plane_and_no_rows_have_none(case):
    oracle, truths, labellings = case
    mixed = [truths[i] if i % 2 else labellings[i] for i in range(oracle.n_examples)]
    losses, slopes = oracle.planes(np.arange(oracle.n_examples), mixed)
    assert not losses[1::2].any() and not np.diff(slopes.indptr)[1::2].any() and slopes.nnz
    losses, slopes = oracle.planes(np.arange(0), [])
    assert losses.shape == (0,) and slopes.shape == (0, oracle.dim)
    for rows in ([0, 1, 2], [0]):
        with pytest.raises(pb.ParameterError, match="labellings must hold one labelling for each row, "):
            oracle.planes(rows, labellings[:2])
    with pytest.raises(pb.ParameterError, match=r"rows must be numbers of examples 0\.\.\d+, got -1"):
        oracle.planes([0, -1], labellings[:2])


def test_decoded_labellings_are_taken_as_they_come_and_bits_do_not_depend_on_the_batch(case):
    oracle, _, _ = case
    w = np.random.default_rng(7).normal(size=oracle.dim)
    if isinstance(oracle, BinaryLabelingOracle):
        w = np.abs(w)
    rows = np.random.default_rng(0).permutation(oracle.n_examples)
    found = oracle.solve_batch(rows, oracle.prepare(w))
    losses, slopes = oracle.planes(rows, found.labellings)
    np.testing.assert_allclose(losses + slopes @ w, found.values, rtol=1e-9, atol=1e-9)
    pieces = [oracle.planes([i], [found.labellings[j]]) for j, i in enumerate(rows.tolist())]
    np.testing.assert_array_equal(losses, np.concatenate([piece[0] for piece in pieces]))
    np.testing.assert_array_equal(slopes.data, np.concatenate([piece[1].data for piece in pieces]))
    with ThreadPoolExecutor(4) as pool:
        for _, other in pool.map(lambda _: oracle.planes(rows, found.labellings), range(8)):
            np.testing.assert_array_equal(other.data, slopes.data)
    other = pickle.loads(pickle.dumps(oracle)).planes(rows, found.labellings)[1]
    np.testing.assert_array_equal(other.data, slopes.data)


def test_small_batches_of_wide_rows_read_w_as_it_stands():
    rng = np.random.default_rng(9)
    for dtype in (np.float32, np.float64):
        X = sp.csr_array(sp.random(50, 400, density=0.02, random_state=rng, format="csr", dtype=dtype))
        rows = Examples(X, scale=0.5, bias=2.0).rows(3)
        w = rng.normal(size=3 * 401)
        weights, some = LazyWeights(rows, w), np.array([3, 7, 7, 49])
        full = np.hstack([0.5 * X.toarray(), np.full((50, 1), 2.0)]) @ w.reshape(3, -1).T
        assert weights.packed(4) is None and weights.packed(50) is not None and weights.packed(4) is None
        np.testing.assert_allclose(weights.scores(some), full[some], rtol=1e-12)
        np.testing.assert_allclose(weights.scores(np.arange(50)), full, rtol=1e-12)


@pytest.mark.parametrize("n", [3, 30, 49, 400, 5000])
def test_rows_are_sorted_merged_and_without_zeros(n):
    """Insertion sort, one digit, several digits; indices from all of int32."""
    rng = np.random.default_rng(n)
    dim = 2**31 - 1
    for high in (7, 300, dim):
        index = rng.integers(0, high, n).astype(np.int32)
        values = rng.integers(-2, 3, n).astype(float)
        row = sp.csr_array((values, index, [0, n]), shape=(1, dim))
        slopes = merge_rows([row, row * 0.0, row], 3, dim)
        assert_canonical(slopes, (3, dim))
        found, where = np.unique(index, return_inverse=True)
        sums = np.bincount(where, values)
        for j in (0, 2):
            np.testing.assert_array_equal(slopes[[j]].indices, found[sums != 0.0])
            np.testing.assert_array_equal(slopes[[j]].data, sums[sums != 0.0])
        assert slopes.indptr[2] == slopes.indptr[1]


def test_sums_of_rows_are_checked():
    rows = Examples(np.eye(3)).rows(2)
    entries = np.array([0, 2]), np.array([1, 0], np.int32), np.ones(2), np.array([0, 2])
    assert sum_rows(6, RowSums(rows, *entries)).toarray().tolist() == [[0, 0, 1, 1, 0, 0]]
    for k, bad in ((0, np.array([0, 3])), (1, np.array([2, 0], np.int32)), (2, np.ones(3))):
        with pytest.raises(ValueError, match="rows"):
            RowSums(rows, *(bad if j == k else entry for j, entry in enumerate(entries)))
    with pytest.raises(ValueError, match="tail must have 1 planes"):
        sum_rows(6, RowSums(rows, *entries), RowSums(rows, *entries))
    with pytest.raises(OverflowError, match=r"less than 2\^31 weights"):
        merge_rows([], 0, 2**31)


# ------------------------------------------------------------------------------------ risks
def linear_risks(rng):
    X, y = rng.integers(0, 3, (40, 5)).astype(float), rng.integers(0, 3, 40)
    weights, costs = rng.random(40) * (np.arange(40) % 5 > 0), rng.random((3, 3))
    np.fill_diagonal(costs, 0.0)
    for storage in (np.asarray, np.float32, np.uint8, sp.csr_array):
        for options in ({}, {"scale": 0.5, "bias": 2.0}):
            options = {**options, "sample_weight": weights}
            yield pb.risks.MulticlassHinge(storage(X), y, loss=costs, **options), rng.integers(0, 3, 40)
            yield pb.risks.MulticlassHinge(storage(X), y, **options), rng.integers(0, 3, 40)
            yield pb.risks.BinaryHinge(storage(X), y > 0, **options), rng.integers(0, 2, 40)
            yield pb.risks.Logistic(storage(X), y > 0, **options), 50.0 * rng.normal(size=40)


def test_batches_of_linear_risks_are_their_single_examples():
    rng = np.random.default_rng(10)
    for risk, labellings in linear_risks(rng):
        oracle, w, rows = risk.oracle(), rng.normal(size=risk.dim), rng.permutation(40)[:25]
        found = oracle.solve_batch(rows, oracle.prepare(w))
        assert oracle.sizes.shape == (40,) and isinstance(oracle, Oracle) and batched(oracle) is oracle
        for chosen, values in ((found.labellings, found.values), (labellings[rows], None)):
            losses, slopes = oracle.planes(rows, chosen)
            assert_canonical(slopes, (25, risk.dim))
            for j, i in enumerate(rows.tolist()):
                single = oracle.plane(i, chosen[j])
                assert losses[j] == single.offset
                np.testing.assert_array_equal(slopes[[j]].toarray()[0], single.slope)
            if values is not None:
                np.testing.assert_allclose(losses + slopes @ w, values, rtol=1e-12, atol=1e-12)
                for j, i in enumerate(rows.tolist()):
                    single = oracle.solve(i, w)
                    np.testing.assert_allclose(single.value, values[j], rtol=1e-12, atol=1e-14)
                    assert single.labelling == pytest.approx(chosen[j], rel=1e-12)
        every = np.arange(40)
        losses, slopes = oracle.planes(every, oracle.solve_batch(every, oracle.prepare(w)).labellings)
        planes = risk.planes(w)
        np.testing.assert_allclose(losses.sum(), planes.offsets[0], rtol=1e-5)
        np.testing.assert_allclose(slopes.sum(axis=0), dense(planes.slopes[[0]]).ravel(), rtol=1e-4, atol=1e-4)
        weights = oracle.prepare(w)
        np.testing.assert_array_equal(oracle.solve_batch(rows, weights).values, found.values)


def test_weights_of_examples_multiply_planes_and_values():
    rng = np.random.default_rng(11)
    model, X, Y, labellings = chains()(rng)
    c = np.arange(12.0) % 4
    oracle, plain = (pb.risks.Structured(model, X, Y, sample_weight=weights).oracle() for weights in (c, None))
    rows, w = rng.permutation(12), rng.normal(size=model.dim)
    picked = [labellings[i] for i in rows]
    (losses, slopes), (single, bare) = (o.planes(rows, picked) for o in (oracle, plain))
    np.testing.assert_array_equal(losses, c[rows] * single)
    np.testing.assert_array_equal(slopes.toarray(), c[rows][:, None] * bare.toarray())
    assert_canonical(slopes, bare.shape)
    for j, i in enumerate(rows.tolist()):
        np.testing.assert_allclose(dense(oracle.plane(i, picked[j]).slope), slopes[[j]].toarray()[0])
    found = oracle.solve_batch(rows, oracle.prepare(w))
    for j, i in enumerate(rows.tolist()):
        decoded = oracle.solve(i, w)
        assert decoded.labelling.tolist() == found.labellings[j].tolist()
        np.testing.assert_allclose((found.values[j], found.uppers[j]), decoded[1:], rtol=1e-12)
    weights = oracle.prepare(w)
    np.testing.assert_array_equal(oracle.solve_batch(rows, weights).values, found.values)
    np.testing.assert_array_equal(oracle.sizes, [len(y) for y in Y])


def test_an_oracle_without_batches_is_asked_one_by_one():
    rng = np.random.default_rng(12)
    model, X, Y, labellings = chains("csrfloat64")(rng)
    oracle = pb.risks.Structured(model, X, Y, sample_weight=np.arange(12.0)).oracle()

    class Single:
        n_examples, dim = oracle.n_examples, oracle.dim
        solve, plane = staticmethod(oracle.solve), staticmethod(oracle.plane)

    looped, rows, w = batched(Single()), rng.permutation(12), rng.normal(size=oracle.dim)
    assert type(looped) is BatchOracle and batched(oracle) is oracle
    weights = looped.prepare(w)
    for a, b in zip(looped.solve_batch(rows, weights), oracle.solve_batch(rows, oracle.prepare(w)), strict=True):
        assert all(np.allclose(x, y, rtol=1e-12) for x, y in zip(a, b, strict=True))
    picked = [labellings[i] for i in rows]
    (a, A), (b, B) = looped.planes(rows, picked), oracle.planes(rows, picked)
    np.testing.assert_allclose(a, b)
    assert_canonical(A, B.shape)
    assert abs(A - B).max() <= 1e-12


# ------------------------------------------------------------------------------------ what is wrong is said
def test_bad_batches_are_refused_by_name():
    rng = np.random.default_rng(13)
    model, X, Y, labellings = chains()(rng)
    oracle = pb.risks.Structured(model, X, Y).oracle()
    linear = pb.risks.MulticlassHinge(np.eye(3), [0, 1, 2]).oracle()
    for o, good in ((oracle, labellings[:1]), (linear, [1])):
        with pytest.raises(pb.ParameterError, match=rf"rows must be numbers of examples 0\.\.{o.n_examples - 1}, got "):
            o.solve_batch([o.n_examples], o.prepare(np.zeros(o.dim)))
        with pytest.raises(pb.InputTypeError, match="rows must be integers, got dtype float64"):
            o.planes([0.5], good)
        with pytest.raises(pb.ParameterError, match="for each row, 2 in all, got 1"):
            o.planes([0, 1], good)
        with pytest.raises(pb.ParameterError, match=rf"w must have shape \({o.dim},\), got \(3,\)"):
            o.prepare(np.zeros(3))
    with pytest.raises(pb.ParameterError, match=r"labelling must be a class 0\.\.2, got 3"):
        linear.planes([0, 1], [2, 3])
    with pytest.raises(pb.ParameterError, match=r"labellings must be .* integers 0\.\.1"):
        pb.models.Multiclass(2, 2).oracle(np.eye(2), [0, 1]).planes([0], [2])
    with pytest.raises(pb.ParameterError, match=r"labellings\[0\]\[0\] must be a label 0\.\.2, got 7"):
        oracle.planes([0], [np.full(len(Y[0]), 7)])
    with pytest.raises(pb.OracleError, match="must return a pair"):
        pb.models.callable_model.as_model((lambda x, y: np.ones(2), lambda w, x, y: (1, 1.0)), [0], [0]).oracle(
            [0], [0]).planes([0], [3])
    assert isinstance(Ragged.of(labellings), Ragged) and ModelOracle._planes is BatchOracle._planes
