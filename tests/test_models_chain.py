"""The chain model: values and planes against enumeration, batches against single examples, storages, errors."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from reference.chain import enumerate_chain

import pybundle as pb
from pybundle.core.exceptions import InputTypeError, ParameterError
from pybundle.core.ragged import Ragged
from pybundle.models import Chain

COSTS = np.array([[0.0, 1.0, 3.0], [0.5, 0.0, 1.0], [2.0, 2.0, 0.0]])


def make_data(seed, n=12, K=3, d=5, longest=4, storage="float64"):
    rng = np.random.default_rng(seed)
    lengths = np.concatenate([[1], rng.integers(1, longest + 1, n - 1)])
    Y = [rng.integers(0, K, T) for T in lengths]
    if storage == "indicators":
        return [rng.integers(-1, d, (T, 3)) for T in lengths], Y
    X = [rng.integers(0, 3, (T, d)) for T in lengths]
    if storage == "csr":
        return [sp.csr_array(x.astype(float)) for x in X], Y
    return [x.astype(storage) for x in X], Y


class Enumerated:
    """All labellings of an example: their losses, and their features less those of the truth."""

    def __init__(self, model, x, y):
        self.labellings = [np.array(z) for z in itertools.product(range(model.n_labels), repeat=len(y))]
        self.losses = np.array([model.loss(y, z) for z in self.labellings])
        features = [model.joint_feature(x, z) for z in self.labellings]
        features = np.array([row.toarray().ravel() if sp.issparse(row) else row for row in features])
        self.places = {z.tobytes(): k for k, z in enumerate(self.labellings)}
        self.psi = features - features[self.places[y.tobytes()]]

    def plane(self, z):
        k = self.places[z.astype(int).tobytes()]
        return self.losses[k], self.psi[k]


@pytest.mark.parametrize("storage", ["float64", "float32", "uint8", "csr", "indicators"])
@pytest.mark.parametrize("options", [
    {}, {"normalised": True}, {"loss": COSTS}, {"start": False}, {"end": False},
    {"loss": COSTS, "normalised": True, "start": False, "end": False},
])  # fmt: skip
def test_values_and_planes_equal_enumeration(storage, options):
    model = Chain(3, 5, indicators=storage == "indicators", **options)
    X, Y = make_data(1, n=8, storage=storage)
    oracle = model.oracle(X, Y)
    rng = np.random.default_rng(0)
    rows, every = rng.permutation(len(X)), [Enumerated(model, x, y) for x, y in zip(X, Y, strict=True)]
    for integer in (True, False):
        w = rng.integers(-2, 3, model.dim).astype(float) if integer else rng.standard_normal(model.dim)
        weights, scales = oracle.prepare(w), rng.random(len(X))
        found = oracle.solve_batch(rows, weights)
        slope, expected, offset = np.zeros(model.dim), np.zeros(model.dim), 0.0
        for j, i in enumerate(rows):
            assert found.values[j] == pytest.approx(max(every[i].losses + every[i].psi @ w), rel=1e-12, abs=1e-12)
            z = found.labellings[j]
            b, a = every[i].plane(z)
            assert b + a @ w == pytest.approx(found.values[j], rel=1e-12, abs=1e-12)
            assert np.linalg.norm(a) <= oracle.norms[i]
            assert z.tolist() == model.loss_augmented_decode(w, X[i], Y[i]).tolist()
            expected += scales[j] * a
            offset += scales[j] * b
        assert oracle.add_planes(rows, found.labellings, scales, slope) == pytest.approx(offset, rel=1e-13)
        assert slope == pytest.approx(expected, rel=1e-12, abs=1e-12)
        predicted = oracle.solve_batch(rows, weights, loss=False)
        for j, i in enumerate(rows):
            assert predicted.labellings[j].tolist() == model.decode(w, X[i]).tolist()
            assert predicted.values[j] == pytest.approx(max(every[i].psi @ w), rel=1e-12, abs=1e-12)
            assert predicted.values[j] == pytest.approx(every[i].plane(predicted.labellings[j])[1] @ w, abs=1e-12)
            single = oracle.solve(int(i), w)
            assert single.labelling.tolist() == found.labellings[j].tolist()
            assert single.value == pytest.approx(found.values[j], rel=1e-13, abs=1e-13) and single.upper >= single.value
        assert (found.uppers == found.values).all()


@pytest.mark.parametrize("storage", ["float64", "csr"])
@pytest.mark.parametrize("options", [{}, {"normalised": True}, {"start": False, "end": False}])
def test_slack_rescaling_equals_enumeration(storage, options):
    model = Chain(3, 5, rescaling="slack", **options)
    X, Y = make_data(4, n=8, storage=storage)
    oracle, rows = model.oracle(X, Y), np.arange(len(X))
    rng, every = np.random.default_rng(2), [Enumerated(model, x, y) for x, y in zip(X, Y, strict=True)]
    for scale in (0.0, 0.3, 3.0):
        w = scale * rng.standard_normal(model.dim)
        found = oracle.solve_batch(rows, oracle.prepare(w))
        for i in rows:
            values = every[i].losses * (1.0 + every[i].psi @ w)
            assert found.values[i] == pytest.approx(max(values), rel=1e-12, abs=1e-12)
            offset, slope = oracle.plane(i, found.labellings[i])
            assert offset + slope @ w == pytest.approx(found.values[i], rel=1e-12, abs=1e-12)
            np.testing.assert_array_equal(model.loss_augmented_decode(w, X[i], Y[i]), found.labellings[i])
    assert pb.check_oracle(model, X, Y)
    result = pb.minimize(pb.risks.Structured(model, X, Y), lam=1.0, tol=1e-4)
    assert result.success
    with pytest.raises(ParameterError, match="exact for loss='hamming' only"):
        Chain(3, 5, loss=COSTS, rescaling="slack")


@pytest.mark.parametrize("storage", ["float32", "csr", "indicators"])
@pytest.mark.parametrize("options", [{}, {"start": False, "end": False}])
def test_marginals_equal_enumeration(storage, options):
    model = Chain(3, 5, indicators=storage == "indicators", **options)
    X, Y = make_data(2, storage=storage)
    oracle, rng = model.oracle(X, Y), np.random.default_rng(0)
    w, scales, rows = rng.standard_normal(model.dim), rng.random(len(X)), rng.permutation(len(X))
    slope, expected = np.zeros(model.dim), np.zeros(model.dim)
    values, entropies = oracle.marginals_batch(rows, oracle.prepare(w), scales, slope)
    for j, i in enumerate(rows):
        planes = Enumerated(model, X[i], Y[i]).psi
        scores = planes @ w
        value = np.logaddexp.reduce(scores)
        p = np.exp(scores - value)
        assert values[j] == pytest.approx(value, rel=1e-12, abs=1e-12)
        assert entropies[j] == pytest.approx(-(p * np.log(p)).sum(), rel=1e-11, abs=1e-13)
        expected += scales[j] * p @ planes
    assert slope == pytest.approx(expected, rel=1e-11, abs=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_the_oracle_passes_the_check(loss):
    X, Y = make_data(3)
    assert pb.check_oracle(pb.risks.Structured(Chain(3, 5), X, Y, loss=loss))


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_all_storages_give_the_same_risk(loss):
    X, Y = make_data(4, n=40, storage="indicators")
    dense = [np.array([np.bincount(row[row >= 0], minlength=5) for row in x]) for x in X]
    w = np.random.default_rng(0).standard_normal(15 + 9 + 6)
    risks = [pb.risks.Structured(Chain(3, 5, indicators=True), X, Y, loss=loss)]
    for convert in (np.float64, np.float32, np.uint8, lambda x: sp.csr_array(x.astype(float))):
        risks.append(pb.risks.Structured(Chain(3, 5), [convert(x) for x in dense], Y, loss=loss))
    planes = [risk.planes(w) for risk in risks]
    for other in planes[1:]:
        assert other.values == pytest.approx(planes[0].values, rel=1e-13)
        assert other.slopes == pytest.approx(planes[0].slopes, rel=1e-12, abs=1e-12)


def test_ragged_data_are_not_copied_and_executors_agree():
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 20, 8000))])
    X = Ragged(rng.standard_normal((offsets[-1], 4)).astype(np.float32), offsets)
    Y = Ragged(rng.integers(0, 5, offsets[-1]).astype(np.int32), offsets)
    model = Chain(5, 4)
    oracle = model.oracle(X, Y)
    w = rng.standard_normal(model.dim)
    X.values[:] *= -1.0             # seen by the oracle
    rows, weights = np.arange(50), oracle.prepare(w)
    np.testing.assert_array_equal(oracle.solve_batch(rows, weights).values,
                                  model.oracle(X, Y).solve_batch(rows, weights).values)
    with ThreadPoolExecutor(4) as pool:
        for loss in ("hinge", "logistic"):
            risk = pb.risks.Structured(model, X, Y, n_parts=3, loss=loss)
            alone, together = risk.planes(w), risk.derive(executor=pool).planes(w)
            for one, other in zip(alone[:3], together[:3], strict=True):
                assert one.tobytes() == other.tobytes()


def test_long_chains_are_cut_into_blocks_of_whole_examples():
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((T, 2)) for T in (1, 3000, 2, 2047, 1, 5000)]
    Y = [rng.integers(0, 2, len(x)) for x in X]
    model = Chain(2, 2)
    oracle, w = model.oracle(X, Y), rng.standard_normal(model.dim)
    found = oracle.solve_batch(np.arange(6), oracle.prepare(w))
    for i in range(6):
        assert found.labellings[i].tolist() == model.loss_augmented_decode(w, X[i], Y[i]).tolist()


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_hinge_is_the_largest_of_all_planes(longest, K, seed):
    X, Y = make_data(seed, n=4, K=K, longest=min(longest, 5))
    model = Chain(K, 5)
    w = np.random.default_rng(seed).standard_normal(model.dim)
    W, transition, start, end = model.split(w)
    value = 0.0
    for x, y in zip(X, Y, strict=True):
        scores = enumerate_chain(x @ W.T + (np.arange(K) != y[:, None]), transition, start, end)[1]
        truth = enumerate_chain(x @ W.T, transition, start, end)
        value += scores.max() - truth[1][truth[0].index(tuple(y))]
    assert pb.risks.Structured(model, X, Y).evaluate(w)[0][0] == pytest.approx(value, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("loss, method", [("hinge", "oca"), ("hinge", "bmrm"), ("logistic", "bmrm")])
def test_training_reaches_a_certificate(loss, method):
    X, Y = make_data(5, n=30)
    result = pb.minimize(pb.risks.Structured(Chain(3, 5), X, Y, loss=loss), lam=1.0, method=method, tol=1e-4)
    assert result.success and result.certified and result.gap <= 1e-4


def test_planes_of_single_examples_are_sparse_where_there_are_many_features():
    rng = np.random.default_rng(0)
    X = [rng.integers(-1, 20000, (T, 4)) for T in (3, 1, 5)]
    Y = [rng.integers(0, 2, len(x)) for x in X]
    model = Chain(2, 20000, indicators=True)
    oracle = model.oracle(X, Y)
    for i, y in enumerate(Y):
        slope = np.zeros(model.dim)
        offset = oracle.add_planes(np.array([i]), [1 - y], np.ones(1), slope)
        plane = oracle.plane(i, 1 - y)
        assert sp.issparse(plane.slope) and plane.offset == offset
        assert (plane.slope.toarray().ravel() == slope).all()


@pytest.mark.parametrize("change, error, text", [
    (lambda X, Y: Y[3].__setitem__(0, 3), ParameterError, r"Y\[3\]\[0\] must be a label 0..2, got 3"),
    (lambda X, Y: Y[3].__setitem__(0, -1), ParameterError, r"Y\[3\]\[0\] must be a label 0..2, got -1"),
    (lambda X, Y: Y.__setitem__(2, np.zeros(9, int)), ParameterError, r"one label for each token of X\[2\], \d, got 9"),
    (lambda X, Y: Y.pop(), ParameterError, "same number of examples, at least one, got 12 and 11"),
    (lambda X, Y: Y.__setitem__(slice(None), [y + 0.5 for y in Y]), InputTypeError,
     r"Y\[0\] must hold integers, got dtype float64"),
    (lambda X, Y: X.__setitem__(1, np.zeros((0, 5))), ParameterError, r"X\[1\] must have at least one token"),
    (lambda X, Y: X.__setitem__(1, np.zeros((2, 4))), ParameterError, r"X\[1\] must have rows of shape \(5,\)"),
    (lambda X, Y: X.__setitem__(slice(None), [x[:, :4] for x in X]), ParameterError,
     r"X\[0\] must have n_features = 5 columns, got 4"),
    (lambda X, Y: X[2].__setitem__((0, 1), np.nan), ParameterError,
     r"X must be finite, got nan in X\[2\]\[0\], column 1"),
])  # fmt: skip
def test_bad_data_are_refused(change, error, text):
    X, Y = make_data(6)
    change(X, Y)
    with pytest.raises(error, match=text):
        Chain(3, 5).oracle(X, Y)


def test_bad_indicators_are_refused():
    X, Y = make_data(7, storage="indicators")
    X[4][0, 2] = 5
    with pytest.raises(ParameterError, match=r"X\[4\]\[0, 2\] must be a feature number 0..4 or -1 for none, got 5"):
        Chain(3, 5, indicators=True).oracle(X, Y)
    with pytest.raises(InputTypeError, match="X must hold integer feature numbers"):
        Chain(3, 5, indicators=True).oracle([x.astype(float) for x in X], Y)


@pytest.mark.parametrize("arguments, error, text", [
    ({"n_labels": 0}, ParameterError, "n_labels must be an integer >= 1, got 0"),
    ({"loss": "zero-one"}, ParameterError, "loss must be one of 'hamming', got 'zero-one'"),
    ({"loss": None}, InputTypeError, "loss must be 'hamming' or a matrix"),
    ({"loss": np.ones((3, 3))}, ParameterError, "zero diagonal"),
    ({"start": 1}, InputTypeError, "start must be True or False, got 1"),
])  # fmt: skip
def test_bad_parameters_are_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        Chain(**{"n_labels": 3, "n_features": 5, **arguments})


def test_bad_labellings_are_refused():
    X, Y = make_data(8)
    oracle = Chain(3, 5).oracle(X, Y)
    with pytest.raises(ParameterError, match=r"labellings\[0\]\[0\] must be a label 0..2, got 7"):
        oracle.add_planes(np.array([0]), [np.array([7])], np.ones(1), np.zeros(oracle.dim))


def test_a_ragged_of_another_sparse_format_is_read_row_by_row():
    X, Y = make_data(7)
    oracle, w = Chain(3, 5).oracle(X, Y), np.random.default_rng(7).normal(size=Chain(3, 5).dim)
    for convert in (sp.csc_array, sp.coo_array):
        other = Chain(3, 5).oracle(Ragged(convert(np.concatenate(X)), Ragged.of(X).offsets), Y)
        for i in range(len(Y)):
            np.testing.assert_allclose(other.solve(i, w).value, oracle.solve(i, w).value)


def test_what_is_no_array_is_named():
    with pytest.raises(InputTypeError, match=r"X\[1\] must be an array, got list"):
        Chain(2, 2).oracle([np.ones((1, 2)), [[1, 2], [3]]], [[0], [1, 0]])
    with pytest.raises(InputTypeError, match="offsets must be integers, got dtype float64"):
        Ragged(np.ones(3), [0, 1.5, 3])
    with pytest.raises(InputTypeError, match="values must be an array or a CSR matrix, got list"):
        Ragged([1, 2], [0, 2])


@pytest.mark.parametrize("rows, n_scales", [([0, -1], 2), ([0, 1], 1), ([0, 1], 3)])
def test_sums_of_planes_read_nothing_beside_the_data(rows, n_scales):
    oracle = Chain(2, 1).oracle([np.ones((2, 1))] * 2, [[0, 0]] * 2)
    with pytest.raises(ValueError, match=r"rows|scales"):
        oracle.add_planes(rows, [[1, 1]] * len(rows), np.ones(n_scales), np.zeros(oracle.dim))
