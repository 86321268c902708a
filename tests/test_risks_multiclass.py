import doctest
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.multiclass import features, multiclass_planes, multiclass_sgd

import pybundle.risks.multiclass as module
from pybundle.core.exceptions import InputTypeError, ParameterError
from pybundle.core.protocols import Oracle, Risk
from pybundle.risks import BinaryHinge, MulticlassHinge, kernel_name
from pybundle.risks import linear as linear_module
from pybundle.risks import partition as partition_module
from pybundle.risks import reduction as reduction_module
from pybundle.risks.partition import SHARD_ROWS
from pybundle.runtime.executors import make_executor
from pybundle.solvers.bundle.sgd import sgd_epoch

SCALE = 2.0**-8     # a power of two: all storages hold the same numbers


def pixels(n=150, d=17, n_classes=5, seed=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.4, rng.integers(0, 256, (n, d)), 0).astype(np.uint8)
    return X, np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)]), rng


def storages(X):
    """The same rows in every storage, with the keyword they need."""
    dense = X * SCALE
    return [(dense, {}), (dense.astype(np.float32), {}), (X, {"scale": SCALE}), (sp.csr_array(dense), {}),
            (sp.csr_matrix(dense.astype(np.float32)), {}),
            (dense.astype(np.float32), {"precision": "float64"}),
            (X, {"scale": SCALE, "precision": "float64"})]


def assert_planes(planes, expected, rtol=1e-12):
    for got, wanted in zip(planes[:3], expected[:3], strict=True):
        got = got.toarray() if sp.issparse(got) else got
        np.testing.assert_allclose(got, wanted, rtol=0, atol=rtol * max(1.0, np.abs(wanted).max()))


@pytest.mark.parametrize("n_classes, d", [(2, 17), (5, 1), (5, 17), (10, 64), (37, 33), (9, 131)])
@pytest.mark.parametrize("options", [{}, {"bias": 2.0}, {"costs": True, "bias": 0.5}])
def test_all_storages_equal_the_slow_twin(n_classes, d, options):
    X, y, rng = pixels(n=140, d=d, n_classes=n_classes)
    cost = weights = None
    if options.get("costs"):
        cost, weights = rng.random((n_classes, n_classes)) * 3, rng.random(len(y))
        np.fill_diagonal(cost, 0.0)
    for storage, kw in storages(X):
        bias = options.get("bias")
        risk = MulticlassHinge(storage, y, 3, loss=cost, sample_weight=weights, bias=bias, **kw)
        x = features(storage, kw.get("scale", 1.0), bias)
        for w in (np.zeros(risk.dim), rng.standard_normal(risk.dim), 1e-3 * rng.standard_normal(risk.dim)):
            planes = risk.planes(w)
            assert_planes(planes, multiclass_planes(x, y, n_classes, risk.parts, w, cost, weights))
            assert planes.slopes.dtype == np.float64 and planes.slopes.flags.c_contiguous
            values, slopes = risk.evaluate(w)
            assert np.array_equal(values, planes.values) and np.array_equal(slopes, planes.slopes)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(seed=st.integers(0, 1000), single=st.booleans(), size=st.sampled_from([1e-3, 1.0, 1e3]))
def test_planes_touch_and_lie_below(seed, single, size):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 7)).astype(np.float32 if single else np.float64)
    risk = MulticlassHinge(X, np.arange(60) % 4, n_parts=3)
    w, v = size * rng.standard_normal(28), size * rng.standard_normal(28)
    planes = risk.planes(w)
    scale = 60 * (1 + size) * 10
    np.testing.assert_allclose(planes.offsets + planes.dot(w), planes.values, rtol=0, atol=1e-14 * scale)
    assert (planes.offsets + planes.dot(v) <= risk.evaluate(v)[0] + 1e-13 * scale).all()
    assert (planes.values >= risk.lower_bounds).all()


@pytest.mark.parametrize("n, n_parts", [(99, 8), (5, 8), (64, 1), (130, 2)])
@pytest.mark.parametrize("kind", ["strided", "contiguous", "stratified"])
def test_sums_do_not_depend_on_the_parts(n, n_parts, kind):
    X, y, rng = pixels(n=n)
    risk = MulticlassHinge(X, y, n_parts, scale=SCALE, partition=kind)
    whole = risk.derive(n_parts=1)
    w = rng.standard_normal(risk.dim)
    values, slopes = risk.evaluate(w)
    assert values.shape == (n_parts,) and slopes.shape == (n_parts, risk.dim)
    np.testing.assert_allclose(values.sum(), whole.evaluate(w)[0][0], rtol=1e-12)
    np.testing.assert_allclose(slopes.sum(0), whole.evaluate(w)[1][0], rtol=0, atol=1e-12 * n)
    for p, rows in enumerate(risk.parts):
        if len(rows) == 0:
            assert values[p] == 0.0 and not slopes[p].any()


def test_float32_labels_are_those_of_float64():
    # scores that differ by less than float32 resolves: without the second look half of the labels are wrong
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 40)).astype(np.float32)
    base = rng.standard_normal(40)
    W = base + 1e-7 * rng.standard_normal((6, 40))
    y = np.arange(500) % 6
    cost = np.full((6, 6), 1e-9)
    np.fill_diagonal(cost, 0.0)
    single, double = (MulticlassHinge(X, y, 4, loss=cost, precision=p) for p in ("float32", "float64"))
    assert single.precision == "float32"
    for mine, other in zip(single.planes(W.ravel())[:3], double.planes(W.ravel())[:3], strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-13)
    wild = 1e35 * rng.standard_normal(240)      # float32 would overflow
    assert np.isfinite(single.evaluate(wild)[0]).all()


@pytest.fixture
def at_level(level, monkeypatch):
    """Risks made in the test compute with the instruction set of that level."""
    Engine = linear_module.Engine

    def engine(*arguments):
        return Engine(*arguments).at_level(level) or pytest.skip("this CPU has not got it")

    monkeypatch.setattr(linear_module, "Engine", engine)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("n_classes, d", [(2, 5), (10, 83), (37, 130)])
def test_every_instruction_set(level, n_classes, d, at_level):
    X, y, rng = pixels(n=131, d=d, n_classes=n_classes)
    w = rng.standard_normal(n_classes * (d + 1))
    for storage, kw in storages(X):
        risk = MulticlassHinge(storage, y, 2, bias=0.5, **kw)
        x = features(storage, kw.get("scale", 1.0), 0.5)
        assert_planes(risk.planes(w), multiclass_planes(x, y, n_classes, risk.parts, w))
        np.testing.assert_allclose(risk.scores(w), x @ w.reshape(n_classes, -1).T, atol=1e-4)


def test_ties_go_to_the_smallest_label():
    for X in (np.eye(3), np.eye(3, dtype=np.float32), sp.csr_array(np.eye(3))):
        slopes = MulticlassHinge(X, [0, 1, 2]).evaluate(np.zeros(9))[1].reshape(3, 3)
        # truth 0 meets label 1, the others label 0
        np.testing.assert_array_equal(slopes, np.array([[-1, 1, 1], [1, -1, 0], [0, 0, -1]]))


def test_threads_and_order_give_the_same_bits(monkeypatch):
    monkeypatch.setattr(partition_module, "SHARD_ROWS", 32)
    monkeypatch.setattr(linear_module, "SHARD_ROWS", 32)
    X, y, rng = pixels(n=400)
    for storage, kw in storages(X):
        for threshold in (16384, 1):
            monkeypatch.setattr(reduction_module, "SPARSE_DIM", threshold)
            risk = MulticlassHinge(storage, y, 3, bias=1.0, **kw)
            w = rng.standard_normal(risk.dim)
            with ThreadPoolExecutor(4) as pool:
                threaded = risk.derive(executor=pool)
                for mine, other in zip(threaded.planes(w), risk.planes(w), strict=True):
                    assert np.array_equal(mine, other)
                assert np.array_equal(threaded.scores(w), risk.scores(w))


def test_a_derived_risk_keeps_its_executor_and_a_pickled_one_does_not():
    class Counting:
        calls = 0

        def map(self, function, items):
            self.calls += 1
            return list(map(function, items))

    X, y, rng = pixels(n=30)
    executor = Counting()
    risk = MulticlassHinge(X, y, 3).derive(executor=executor)
    for other in (risk, risk.derive(precision="float64"), risk.derive(n_parts=2)):
        before = executor.calls
        other.evaluate(rng.standard_normal(risk.dim))
        assert executor.calls > before
    before = executor.calls
    pickle.loads(pickle.dumps(risk)).evaluate(np.zeros(risk.dim))
    assert executor.calls == before


def test_sparse_slopes_equal_dense(monkeypatch):
    rng = np.random.default_rng(1)
    X = sp.csr_array(sp.random(40, 5000, density=2e-3, random_state=rng))
    y = np.arange(40) % 4
    risk = MulticlassHinge(X, y, n_parts=4, scale=0.5, bias=3.0)
    assert risk.dim >= reduction_module.SPARSE_DIM
    w = 0.1 * rng.standard_normal(risk.dim)
    planes = risk.planes(w)
    assert isinstance(planes.slopes, sp.csr_array) and planes.slopes.shape == (4, risk.dim)
    assert planes.slopes.has_canonical_format
    expected = multiclass_planes(features(X, 0.5, 3.0), y, 4, risk.parts, w)
    assert_planes(planes, expected)
    monkeypatch.setattr(reduction_module, "SPARSE_DIM", 10**9)
    assert_planes(risk.planes(w), expected)
    monkeypatch.setattr(reduction_module, "SPARSE_DIM", 1)      # dense planes come back dense
    for X in (np.ones((9, 2)), sp.csr_array(np.ones((9, 2)))):
        assert isinstance(MulticlassHinge(X, y[:9]).evaluate(np.ones(8))[1], np.ndarray)


def test_wide_indices_are_narrowed():
    X, y, rng = pixels()
    csr = sp.csr_array(X * SCALE)
    wide = sp.csr_array((csr.data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64)), csr.shape)
    w = rng.standard_normal(85)
    assert np.array_equal(MulticlassHinge(wide, y).evaluate(w)[1], MulticlassHinge(csr, y).evaluate(w)[1])


def test_data_are_not_copied():
    X, y, _ = pixels()
    for storage, kw in storages(X):
        risk = MulticlassHinge(storage, y, bias=1.0, **kw)
        given = storage.data if sp.issparse(storage) else storage
        assert np.shares_memory(risk.examples.storage[0], given)
        assert np.shares_memory(risk.derive(n_parts=4).examples.storage[0], given)
    readonly = X.copy()
    readonly.setflags(write=False)
    MulticlassHinge(readonly, y).evaluate(np.zeros(85))
    assert np.array_equal(MulticlassHinge(np.asfortranarray(X), y).evaluate(np.ones(85))[1],
                          MulticlassHinge(X, y).evaluate(np.ones(85))[1])


def test_error_bounds_are_those_of_the_present_parts_and_data():
    rng = np.random.default_rng(0)
    X, y, c = rng.normal(size=(50, 3)), np.arange(50) % 4, rng.random(50)
    risk = MulticlassHinge(X, y, sample_weight=c)
    for n_parts in (1, 7, 2):           # sums over parts are kept until the parts change
        risk = risk.derive(n_parts=n_parts)
        for _ in range(2):
            fresh = MulticlassHinge(X, y, n_parts=n_parts, sample_weight=c)
            for name in ("slope_errors", "slope_sizes", "offset_errors"):
                np.testing.assert_array_equal(getattr(risk, name), getattr(fresh, name))
    risk.examples.X[:] *= 2.0
    np.testing.assert_allclose(risk.renewed().slope_errors, 2.0 * fresh.slope_errors, rtol=1e-14)


def test_derive_and_pickle():
    X, y, rng = pixels()
    risk = MulticlassHinge(X, y, scale=SCALE)
    assert (risk.n_parts, risk.n_parts_given) == (1, False)
    other = risk.derive(n_parts=4, precision="float64")
    assert (other.n_parts, other.precision, risk.n_parts, risk.precision) == (4, "float64", 1, "float32")
    assert MulticlassHinge(X, y, 2).n_parts_given
    w = rng.standard_normal(risk.dim)
    again = pickle.loads(pickle.dumps(other))
    for mine, theirs in zip(again.planes(w), other.planes(w), strict=True):
        assert np.array_equal(mine, theirs)


def test_oracle_agrees_with_the_pass():
    X, y, rng = pixels()
    cost = rng.random((5, 5))
    np.fill_diagonal(cost, 0.0)
    for storage, kw in storages(X):
        risk = MulticlassHinge(storage, y, loss=cost, sample_weight=np.linspace(0, 1, len(y)), bias=1.0, **kw)
        oracle = risk.oracle()
        assert isinstance(oracle, Oracle) and isinstance(risk, Risk)
        w = rng.standard_normal(risk.dim)
        total, offset, slope = 0.0, 0.0, np.zeros(risk.dim)
        for i in range(risk.n_examples):
            decoded = oracle.solve(i, w)
            plane = oracle.plane(i, decoded.labelling)
            assert decoded.upper == decoded.value
            np.testing.assert_allclose(plane.offset + plane.slope @ w, decoded.value, atol=1e-10)
            total, offset, slope = total + decoded.value, offset + plane.offset, slope + plane.slope
        assert_planes(risk.planes(w), ([total], [offset], [slope]))
        with pytest.raises(ParameterError, match=r"labelling must be a class 0\.\.4, got 5"):
            oracle.plane(0, 5)


# scores and the line search ---------------------------------------------------------------------------------


def test_scores_and_planes_at():
    X, y, rng = pixels()
    for storage, kw in storages(X):
        risk = MulticlassHinge(storage, y, 3, bias=1.5, **kw)
        w = rng.standard_normal(risk.dim)
        S = risk.scores(w)
        assert S.dtype == risk.precision
        expected = features(storage, kw.get("scale", 1.0), 1.5) @ w.reshape(5, -1).T
        np.testing.assert_allclose(S, expected, atol=1e-12 if risk.precision == "float64" else 1e-4)
        assert_planes(risk.planes_at(S), risk.planes(w), 1e-12 if risk.precision == "float64" else 1e-4)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(seed=st.integers(0, 10000), n=st.sampled_from([3, 10, 60, 400]),
       upper=st.sampled_from([0.1, 1.0, 5.0]), curved=st.booleans(), costs=st.booleans())
def test_line_search_is_exact(seed, n, upper, curved, costs):
    rng = np.random.default_rng(seed)
    cost = None
    if costs:
        cost = rng.random((3, 3))
        np.fill_diagonal(cost, 0.0)
    X, weights = rng.standard_normal((n, 2)), rng.random(n)
    risk = MulticlassHinge(X, np.arange(n) % 3, loss=cost, sample_weight=weights)
    S0, S1 = risk.scores(rng.standard_normal(6)), risk.scores(rng.standard_normal(6))
    a, b = 0.3 * n * rng.standard_normal(), (n * rng.random() if curved else 0.0)

    def phi(t):
        return a * t + b * t**2 / 2 + risk.planes_at(risk.combine(S0, S1, t)).values.sum()

    t, value = risk.line_search(S0, S1, a, b, upper)
    best = phi(t)
    tolerance = 1e-11 * (n + abs(a) + b) * (1 + upper) ** 2
    assert 0.0 <= t <= upper
    np.testing.assert_allclose(value, risk.planes_at(risk.combine(S0, S1, t)).values.sum(), atol=tolerance)
    assert best <= min(phi(s) for s in np.linspace(0, upper, 101)) + tolerance
    # zero lies between the one-sided derivatives, where it can
    h = 1e-6 * upper
    if t < upper:
        assert phi(t + h) >= best - tolerance
    if t > 0:
        assert phi(t - h) >= best - tolerance


@pytest.mark.parametrize("kind", ["plain", "float32", "costs", "binary"])
def test_line_search_over_many_rows_has_the_same_bits_with_any_threads(kind):
    """More rows than a shard, the rows of one of them without loss at either end; against maxima taken by NumPy."""
    n, K, rng = 3 * SHARD_ROWS + 11, 4, np.random.default_rng(0)
    weights, cost = rng.random(n), None
    if kind == "costs":
        cost = rng.random((K, K))
        np.fill_diagonal(cost, 0.0)
    X = np.zeros((n, 1), dtype=np.float32 if kind == "float32" else np.float64)
    if kind == "binary":
        y = 2 * rng.integers(0, 2, n) - 1
        risk = BinaryHinge(X, y, sample_weight=weights)
        S0, S1 = rng.normal(size=(2, n, 1))
        S0[SHARD_ROWS:2 * SHARD_ROWS, 0] += 9.0 * y[SHARD_ROWS:2 * SHARD_ROWS]
    else:
        y = rng.integers(0, K, n)
        risk = MulticlassHinge(X, y, loss=cost, sample_weight=weights)
        S0, S1 = rng.normal(size=(2, n, K)).astype(X.dtype)
        S0[np.arange(n), y] += 9.0 * (np.arange(n) // SHARD_ROWS == 1)
    S1[SHARD_ROWS:2 * SHARD_ROWS] += S0[SHARD_ROWS:2 * SHARD_ROWS]

    def losses(t):
        S = S0.astype(np.float64) + t * (S1.astype(np.float64) - S0.astype(np.float64))
        if kind == "binary":
            return weights @ np.maximum(1.0 - y * S[:, 0], 0.0)
        L = 1.0 - np.eye(K) if cost is None else cost
        return weights @ (L[y] + S - S[np.arange(n), y][:, None]).max(axis=1)

    threads = [make_executor(n_jobs) for n_jobs in (1, 2, 3)]
    b = 0.5 * n
    for a in (-0.4 * n, -0.05 * n, 0.1 * n, -9.0 * n, 9.0 * n):
        t, value = risk.line_search(S0, S1, a, b)
        for pool in threads:
            assert risk.derive(executor=pool).line_search(S0, S1, a, b) == (t, value)
        assert value == pytest.approx(losses(t), rel=1e-12)
        best = a * t + b * t * t / 2 + value
        for other in (*np.linspace(0.0, 1.0, 21), *np.clip([t - 1e-5, t + 1e-5], 0.0, 1.0)):
            assert best <= a * other + b * other**2 / 2 + losses(other) + 1e-12 * n
    for pool in threads:
        pool.close()


def test_line_search_null_step_and_ends():
    X, y, rng = pixels()
    risk = MulticlassHinge(X, y, scale=SCALE)
    S0, S1 = risk.scores(rng.standard_normal(85)), risk.scores(rng.standard_normal(85))
    value = risk.planes_at(S0).values.sum()
    t, at_zero = risk.line_search(S0, S1, 1e6, 1.0)
    assert t == 0.0 and np.isclose(at_zero, value, rtol=1e-6)
    assert risk.line_search(S0, S1, -1e6, 1.0, 0.75)[0] == 0.75
    assert risk.line_search(S0, S0, 0.0, 0.0)[0] == 0.0


def test_line_search_with_many_equal_kinks():
    # one example a thousand times: all breakpoints coincide, no bracket ever separates them
    X = np.tile([[1.0, 0.0]], (1000, 1))
    y = np.arange(1000) % 2 * 0
    risk = MulticlassHinge(X, y, n_classes=2)
    S0, S1 = risk.scores(np.zeros(4)), risk.scores(np.array([2.0, 0.0, 0.0, 0.0]))
    t, value = risk.line_search(S0, S1, 1.0, 1e-3)
    assert np.isclose(t, 0.5, rtol=1e-15) and abs(value) < 1e-9


# sgd --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [None, 1.5])
def test_sgd_epoch_equals_the_slow_twin(bias):
    X, y, rng = pixels()
    order = rng.permutation(len(y))
    for storage, kw in storages(X):
        risk = MulticlassHinge(storage, y, 3, bias=bias, **kw)
        x = features(storage, kw.get("scale", 1.0), bias)
        w = np.zeros(risk.dim)
        expected, t = w.copy(), 0.0
        for _ in range(3):
            t, planes = sgd_epoch(risk, w, order, 10.0, t, 1.0)
            expected, met = multiclass_sgd(x, y, 5, expected, order, 10.0, t - len(y) + 1.0)
            np.testing.assert_allclose(w, expected, rtol=0, atol=1e-11 * np.abs(expected).max())
        assert t == 3 * len(y)
        for p, rows in enumerate(risk.parts):
            slope = np.zeros((5, x.shape[1]))
            for i in rows:
                slope[met[i]] += x[i]
                slope[y[i]] -= x[i]
            np.testing.assert_allclose(planes.slopes[p], slope.ravel(), atol=1e-10)
            assert planes.offsets[p] == (met[rows] != y[rows]).sum()
        assert (planes.values <= risk.evaluate(w)[0] + 1e-9).all()
        v = rng.standard_normal(risk.dim)
        assert (planes.offsets + planes.dot(v) <= risk.evaluate(v)[0] + 1e-9).all()


def test_sgd_epoch_over_some_examples_gives_valid_planes():
    X, y, rng = pixels()
    risk = MulticlassHinge(X, y, 3, scale=SCALE)
    w = rng.standard_normal(risk.dim)
    _, planes = sgd_epoch(risk, w, np.array([1, 5, 5, 9]), 10.0, 0, 100.0)
    for v in rng.standard_normal((20, risk.dim)):
        assert (planes.offsets + planes.dot(v) <= risk.evaluate(v)[0] + 1e-9).all()


# values for the certificate ---------------------------------------------------------------------------------


def exact_hinge(X, y, n_classes, W, scale, bias, weights):
    """The risk in rational arithmetic."""
    def number(a):
        return Fraction(float(a))
    total = Fraction(0)
    for x, truth, c in zip(X, y, weights, strict=True):
        row = [number(scale) * number(v) for v in x] + [number(bias)]
        scores = [sum(number(a) * v for a, v in zip(w, row, strict=True)) for w in W]
        total += number(c) * max(int(k != truth) + scores[k] - scores[truth] for k in range(n_classes))
    return total


@settings(derandomize=True, deadline=None, max_examples=30)
@given(seed=st.integers(0, 1000), size=st.sampled_from([0.0, 1e-9, 1e-4, 1.0, 1e5]),
       scale=st.sampled_from([1e4, 1 / 255, 1.0]), kind=st.integers(0, 2))
def test_values_are_within_their_error(seed, size, scale, kind):
    rng = np.random.default_rng(seed)
    X, y, weights = rng.integers(0, 256, (12, 5)), np.arange(12) % 3, rng.random(12)
    data = [X.astype(np.uint8), X.astype(np.float64), sp.csr_array(X.astype(np.float32))][kind]
    risk = MulticlassHinge(data, y, n_parts=2, scale=scale, bias=3.0, sample_weight=weights)
    w = size * rng.standard_normal(18)
    if seed % 2 and size:           # separates: most examples are without loss, the others touch their margin
        w = np.repeat(w.reshape(3, 6)[:1], 3, axis=0).ravel()
        w[[5, 11, 17]] = [0.0, 1 / 3, -1 / 3]
    values, errors = risk.values(w)
    exact = exact_hinge(X, y, 3, w.reshape(3, 6), scale, 3.0, weights)
    assert abs(exact - sum(Fraction(v) for v in values)) <= Fraction(errors.sum())
    assert errors.sum() <= 1e-10 * weights.sum() * (1.0 + scale * 256 * 9 * 5 * max(size, float(seed % 2)))


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("sparse", [False, True])
def test_values_of_long_rows_are_within_their_error(level, sparse, at_level):
    rng = np.random.default_rng(level)
    X, y = np.full((6, 331), 0.1), np.arange(6) % 3        # equal terms: their roundings do not average out
    X[:, ::7] = 1 / 3
    risk = MulticlassHinge(sp.csr_array(X) if sparse else X, y, scale=0.7, bias=3.0)
    W = np.abs(rng.standard_normal((3, 1))) * np.ones((1, 332)) / 3
    values, errors = risk.values(W.ravel())
    exact = exact_hinge(X, y, 3, W, 0.7, 3.0, np.ones(6))
    assert abs(exact - Fraction(values[0])) <= Fraction(errors[0]) and errors[0] < 1e-10


def test_examples_without_loss_add_no_error():
    risk = MulticlassHinge(np.eye(3), [0, 1, 2])
    values, errors = risk.values(1.5 * np.eye(3).ravel())
    assert values.tolist() == [0.0] and errors.tolist() == [0.0]


# errors -----------------------------------------------------------------------------------------------------

GOOD = np.ones((4, 3))
LABELS = [0, 1, 2, 0]


@pytest.mark.parametrize("X, y, options, error, message", [
    (GOOD, ["a", "b", "c", "a"], {}, InputTypeError,
     "y must hold integers.*encode the labels as 0..K-1"),
    (GOOD, [0.5, 1, 2, 0], {}, ParameterError, "y must hold integers, got 0.5 at index 0"),
    (GOOD, [0, np.nan, 2, 0], {}, ParameterError, "got nan at index 1"),
    (GOOD, [0, -1, 2, 0], {}, ParameterError, "y must hold labels 0..K-1, got -1 at index 1"),
    (GOOD, [0, 1, 2], {}, ParameterError,
     r"y must have one label for each row of X, shape \(4,\), got shape \(3,\)"),
    (GOOD, [1, 1, 1, 1], {}, ParameterError, "at least two classes, got only 1"),
    (GOOD, [1, 2, 3, 1], {}, ParameterError, "no example has the label 0; encode.*or pass n_classes=4"),
    (GOOD, [0, 2, 2, 0], {}, ParameterError, "no example has the label 1; encode.*or pass n_classes=3"),
    (GOOD, [0, 9, 10**12, 0], {}, ParameterError, "no example has the label 1, 2, 3, 4, 5 and 999999999993 more"),
    (GOOD, [0, 1, 1e300, 0], {}, ParameterError, r"integers of at most 2\^53, got 1e\+300 at index 2"),
    (GOOD, [[0], [1, 2], [0], [1]], {}, InputTypeError, "y must hold one integer for each row"),
    (GOOD, LABELS, {"n_classes": 2}, ParameterError, "labels below n_classes = 2, got 2 at index 2"),
    (GOOD[:0], [], {}, ParameterError, "X must have at least one example"),
    (np.ones(4), LABELS, {}, ParameterError,
     r"X must have shape \(n_examples, n_features\), got shape \(4,\)"),
    (np.ones((4, 3), dtype=complex), LABELS, {}, InputTypeError,
     "X must be float32, float64 or uint8, got dtype"),
    (np.where(np.eye(4, 3) > 0, np.nan, 1), LABELS, {}, ParameterError,
     "X must be finite, got nan in row 0, column 0"),
    (sp.csr_array(np.where(np.eye(4, 3) > 0, np.inf, 0)), LABELS, {}, ParameterError,
     "got inf in row 0, column 0"),
    (GOOD * 1e200, LABELS, {}, ParameterError, "row 0 overflows; rescale"),
    (GOOD, LABELS, {"sample_weight": [1, 1, -1, 1]}, ParameterError,
     "sample_weight must be finite and >= 0, got -1"),
    (GOOD, LABELS, {"sample_weight": [1]}, ParameterError, r"sample_weight must have shape \(4,\)"),
    (GOOD, LABELS, {"loss": np.ones((3, 3))}, ParameterError, "zero diagonal"),
    (GOOD, LABELS, {"loss": np.eye(2)}, ParameterError, r"have shape \(3, 3\), got shape \(2, 2\)"),
    (GOOD, LABELS, {"loss": np.eye(3) - 1}, ParameterError, "loss must be finite and >= 0, got -1"),
    (GOOD, LABELS, {"scale": 0.0}, ParameterError, "scale must be a finite number > 0"),
    (GOOD, LABELS, {"bias": np.inf}, ParameterError, "bias must be a finite number"),
    (GOOD, LABELS, {"bias": 1e200}, ParameterError, "bias must have a finite square, got 1e\\+200"),
    (GOOD, LABELS, {"bias": 10**400}, ParameterError, "bias must be a finite number, got a number beyond the range"),
    (GOOD, LABELS, {"scale": 1e300}, ParameterError, "scale must leave rows of finite squared norm, got 1e\\+300"),
    (GOOD, LABELS, {"random_state": -1}, ParameterError, "random_state must be an integer >= 0, got -1"),
    (GOOD, LABELS, {"random_state": "a"}, InputTypeError, "random_state must be an integer, got 'a'"),
    (GOOD, LABELS, {"sample_weight": [1, 1, 1j, 1]}, InputTypeError, "sample_weight must hold real numbers"),
    (GOOD, LABELS, {"sample_weight": [[1], [1, 2]]}, InputTypeError, "sample_weight must hold real numbers"),
    (GOOD, LABELS, {"loss": [[0, 1], [1]]}, InputTypeError, "loss must be None or a matrix of real numbers"),
    (GOOD, LABELS, {"n_parts": 0}, ParameterError, "n_parts must be an integer >= 1, got 0"),
    (GOOD, LABELS, {"n_parts": 2.0}, InputTypeError, "n_parts must be an integer"),
    (GOOD, LABELS, {"precision": "half"}, ParameterError, "precision must be one of 'float32', 'float64'"),
    (GOOD, LABELS, {"partition": "x"}, ParameterError, "partition must be one of"),
])
def test_errors_say_what_came_and_what_was_expected(X, y, options, error, message):
    with pytest.raises(error, match=message):
        MulticlassHinge(X, y, **options)


def test_absent_classes_may_be_asked_for():
    assert MulticlassHinge(GOOD, [1, 2, 3, 1], n_classes=5).n_classes == 5


def test_errors_of_calls():
    risk = MulticlassHinge(GOOD, LABELS)
    with pytest.raises(ParameterError, match=r"w must be of shape \(9,\), got shape \(8,\)"):
        risk.evaluate(np.zeros(8))
    with pytest.raises(ParameterError, match="w must be finite, got nan at index 2"):
        risk.planes(np.where(np.arange(9) == 2, np.nan, 0.0))
    with pytest.raises(ParameterError, match=r"S must have shape \(n_examples, n_scores\) = \(4, 3\)"):
        risk.planes_at(np.zeros((3, 3)))


def test_malformed_csr_is_refused():
    csr = sp.csr_array(np.eye(4, 3))
    csr.indices[0] = 7
    with pytest.raises(ParameterError, match=r"column indices in 0\.\.2"):
        MulticlassHinge(csr, LABELS)


def test_doctest_and_kernel_name():
    assert doctest.testmod(module).failed == 0
    assert kernel_name() in ("avx512", "avx2", "baseline")
