"""The segmentation model against enumeration of covers and against its own plain methods."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from reference.glued_digits import glued_digits
from reference.segmentation import covers

import pybundle as pb
from pybundle.core.ragged import Ragged
from pybundle.models.model_oracle import ModelOracle


def slow_feature(model, x, y):
    """Psi(x, y) from the definition."""
    feature, k = np.zeros(model.dim), 0
    for a in y:
        width = model.widths[a]
        feature[model.first[a]:model.first[a + 1]] += np.asarray(x[k:k + width], dtype=float).ravel()
        k += width
    return feature


def slow_loss(model, y, y_hat):
    """Wrong columns, one by one."""
    def columns(cover):
        starts = model.starts(cover)
        return [(a, k) for a, k in zip(cover, starts, strict=True) for _ in range(model.widths[a])]

    wrong = 0
    for (a, k), (b, m) in zip(columns(y), columns(y_hat), strict=True):
        same = model.symbols[a] == model.symbols[b] and (model.loss_name == "symbol" or k == m)
        wrong += not model.fillers[a] and not same
    return wrong


def random_problem(rng, n=3, dtype=float):
    n_labels = int(rng.integers(1, 6))
    widths = rng.integers(1, 4, n_labels)
    fillers = np.flatnonzero(rng.random(n_labels) < 0.3)
    symbols = rng.integers(0, 3, n_labels) if rng.random() < 0.7 else None
    model = pb.models.Segmentation(int(rng.integers(1, 4)), widths, symbols=symbols, fillers=fillers,
                                   loss=rng.choice(["start", "symbol"]).item())
    Y = [rng.integers(0, n_labels, rng.integers(1, 4)) for _ in range(n)]
    X = [rng.integers(0, 3, (widths[y].sum(), model.height)).astype(dtype) for y in Y]
    return model, X, Y


def enumerated(model, x, y):
    """Losses and features less those of the truth, of all covers."""
    every = [np.array(cover) for cover in covers(len(x), model.widths)]
    return (np.array([slow_loss(model, y, cover) for cover in every]),
            np.array([slow_feature(model, x, cover) for cover in every]) - slow_feature(model, x, y))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64, np.int16])
def test_equals_enumeration(dtype):
    """Integer weights tie often; then value and loss must still be those of the labelling."""
    rng = np.random.default_rng(11)
    for trial in range(80):
        model, X, Y = random_problem(rng, dtype=dtype)
        every = [enumerated(model, x, y) for x, y in zip(X, Y, strict=True)]
        w = rng.integers(-2, 3, model.dim).astype(float) if trial % 2 else rng.standard_normal(model.dim)
        oracle = model.oracle(X, Y)
        rows = rng.permutation(len(X))
        for loss in (True, False):
            found = oracle.solve_batch(rows, oracle.prepare(w), loss)
            for j, i in enumerate(rows):
                truth = slow_feature(model, X[i], Y[i])
                best = max(loss * every[i][0] + every[i][1] @ w)
                y = found.labellings[j]
                value = loss * slow_loss(model, Y[i], y) + w @ (slow_feature(model, X[i], y) - truth)
                assert found.values[j] == pytest.approx(best, abs=1e-9) == pytest.approx(value, abs=1e-9)
                assert found.uppers[j] == found.values[j] >= 0.0
        assert oracle.losses(rows, found.labellings).tolist() == [
            slow_loss(model, Y[i], y) for i, y in zip(rows, found.labellings, strict=True)]
        scales = rng.standard_normal(len(rows))
        slope = np.ones(model.dim)
        total = oracle.add_planes(rows, found.labellings, scales, slope)
        psi = [slow_feature(model, X[i], y) - slow_feature(model, X[i], Y[i])
               for i, y in zip(rows, found.labellings, strict=True)]
        np.testing.assert_allclose(slope, 1.0 + scales @ np.array(psi), atol=1e-12)
        assert total == pytest.approx(scales @ oracle.losses(rows, found.labellings), abs=1e-12)
        for i in range(len(X)):
            pieces = 2 * np.linalg.norm(np.asarray(X[i], float), axis=1).sum()
            assert pieces <= oracle.norms[i] <= pieces * (1 + 1e-9)


def test_slack_rescaling_equals_enumeration():
    rng = np.random.default_rng(12)
    for trial in range(80):
        plain, X, Y = random_problem(rng)
        model = pb.models.Segmentation(plain.height, plain.widths, symbols=plain.symbols,
                                       fillers=np.flatnonzero(plain.fillers), loss=plain.loss_name, rescaling="slack")
        w = rng.integers(-2, 3, model.dim).astype(float) if trial % 2 else rng.standard_normal(model.dim)
        oracle, rows = model.oracle(X, Y), rng.permutation(len(X))
        found = oracle.solve_batch(rows, oracle.prepare(w))
        for j, i in enumerate(rows):
            losses, psi = enumerated(model, X[i], Y[i])
            best = max(losses * (1.0 + psi @ w))
            assert found.values[j] == pytest.approx(best, abs=1e-9)
            offset, slope = oracle.plane(int(i), found.labellings[j])
            assert offset + slope @ w == pytest.approx(best, abs=1e-9)
            np.testing.assert_array_equal(model.loss_augmented_decode(w, X[i], Y[i]), found.labellings[j])
    report = pb.check_oracle(model, X, Y)
    assert report, str(report)
    assert pb.minimize(pb.risks.Structured(model, X, Y), lam=1.0, tol=1e-3).success


def test_plain_methods_agree_with_batches():
    rng = np.random.default_rng(12)
    for _ in range(60):
        model, X, Y = random_problem(rng)
        w = rng.standard_normal(model.dim)
        compiled, plain = model.oracle(X, Y), ModelOracle(model, X, Y)
        rows = np.arange(len(X))
        for loss in (True, False):
            a, b = (oracle.solve_batch(rows, oracle.prepare(w), loss) for oracle in (compiled, plain))
            assert [y.tolist() for y in a.labellings] == [y.tolist() for y in b.labellings]
            np.testing.assert_allclose(a.values, b.values, atol=1e-12)
        for x, y, z in zip(X, Y, a.labellings, strict=True):
            np.testing.assert_allclose(model.joint_feature(x, z), slow_feature(model, x, z))
            assert model.loss(y, z) == slow_loss(model, y, z) and model.loss(y, y) == 0.0
        np.testing.assert_array_equal(compiled.losses(rows, a.labellings), plain.losses(rows, b.labellings))


def test_the_oracle_is_a_valid_one():
    rng = np.random.default_rng(13)
    model, X, Y = random_problem(rng, 8)
    report = pb.check_oracle(model, X, Y)
    assert report, str(report)


def test_forms_of_images_and_covers():
    rng = np.random.default_rng(14)
    model = pb.models.Segmentation(3, [1, 2, 4])
    images = pb.models.Segmentation(3, [1, 2, 4], layout="image")
    Y = [np.array([0, 2, 1]), np.array([1, 1])]
    X = [rng.integers(0, 9, (7, 3)), rng.integers(0, 9, (4, 3))]
    assert model.starts(Y[0]).tolist() == [0, 1, 5]
    pairs = [np.stack([y, model.starts(y)], axis=1) for y in Y]
    w = rng.standard_normal(model.dim)
    forms = [(model, X, Y), (model, Ragged.of(X), Ragged.of(Y)), (model, X, pairs), (images, [x.T for x in X], Y),
             (model, X, [y.tolist() for y in Y])]
    results = []
    for m, examples, covers_ in forms:
        oracle = m.oracle(examples, covers_)
        found = oracle.solve_batch(np.arange(2), oracle.prepare(w))
        results.append((found.values.tolist(), [y.tolist() for y in found.labellings], oracle.fingerprint))
    assert all(result[:2] == results[0][:2] for result in results)
    assert len({result[2] for result in results}) == 1
    assert model.template(w, 1).shape == (3, 2) and model.template(w, 1)[2, 1] == w[3 + 5]
    data = Ragged.of([x.astype(np.uint8) for x in X])
    oracle, rows, weights = model.oracle(data, Ragged.of(Y)), np.arange(2), model.oracle(X, Y).prepare(w)
    data.values[:] = 3 - data.values            # seen by the oracle, as the images are not copied
    fresh = model.oracle(data, Ragged.of(Y))
    assert (oracle.solve_batch(rows, weights).values == fresh.solve_batch(rows, weights).values).all()


@pytest.mark.parametrize("method, n_parts", [("oca", 1), ("oca", 4), ("bmrm", 1), ("prox-bmrm", 4)])
def test_training_is_certified_and_reads_glued_digits(method, n_parts):
    pytest.importorskip("sklearn")
    data, test = (glued_digits(n, widths=(7, 9), random_state=n, held_out=n == 60) for n in (150, 60))
    model = pb.models.Segmentation(8, data.widths, symbols=data.symbols)
    risk = pb.risks.Structured(model, data.X, data.y, n_parts=n_parts)
    result = pb.minimize(risk, lam=10.0, method=method, tol=1e-2)
    assert result.success and result.certified and result.gap <= 1e-2
    held_out = pb.risks.Structured(model, test.X, test.y)
    wrong = held_out.predict_losses(result.x).sum() / sum(map(len, test.X))
    assert wrong < 0.4
    assert held_out.predict_losses(np.zeros(model.dim)).sum() / sum(map(len, test.X)) > 0.8


def test_any_executor_gives_the_same_bits_and_pickles(monkeypatch):
    monkeypatch.setattr(pb.risks.structured, "SHARD_WORK", 200)
    rng = np.random.default_rng(15)
    widths = np.array([2, 1, 3, 2])
    model = pb.models.Segmentation(4, widths, fillers=[1], loss="symbol")
    Y = [rng.integers(0, 4, rng.integers(1, 9)) for _ in range(80)]
    X = [rng.standard_normal((widths[y].sum(), 4)) for y in Y]
    risk = pb.risks.Structured(model, X, Y, 3)
    w = rng.standard_normal(model.dim)
    with ThreadPoolExecutor(4) as pool:
        for a, b in zip(risk.planes(w), risk.derive(executor=pool).planes(w), strict=True):
            np.testing.assert_array_equal(a, b)
    copy = pickle.loads(pickle.dumps(risk))
    np.testing.assert_array_equal(copy.evaluate(w)[0], risk.evaluate(w)[0])
    assert copy.fingerprint == risk.fingerprint
    np.testing.assert_allclose(risk.derive(n_parts=7).evaluate(w)[0].sum(), risk.evaluate(w)[0].sum())


def test_blocks_longer_than_the_buffer():
    """Images beyond a block, and many in one."""
    rng = np.random.default_rng(16)
    model = pb.models.Segmentation(2, [3, 2], fillers=[])
    Y = [rng.integers(0, 2, size) for size in (400, 1, 2, 700, 300, 1, 90, 90)]
    X = [rng.standard_normal((model.widths[y].sum(), 2)) for y in Y]
    oracle, w = model.oracle(X, Y), rng.standard_normal(model.dim)
    together = oracle.solve_batch(np.arange(len(X)), oracle.prepare(w))
    for i in range(len(X)):
        alone = oracle.solve(i, w)
        assert alone.value == pytest.approx(together.values[i], rel=1e-12)
        assert alone.labelling.tolist() == together.labellings[i].tolist()


MODEL = pb.models.Segmentation(2, [1, 3])
GOOD = [np.ones((4, 2)), np.ones((3, 2))]


@pytest.mark.parametrize("error, text, call", [
    (pb.ParameterError, r"Y\[1\] must cover the 3 columns of X\[1\] exactly.*column 2 is not covered",
     lambda: MODEL.oracle(GOOD, [[1, 0], [0, 0]])),
    (pb.ParameterError, r"Y\[0\] must cover the 4 columns .* reaches beyond column 3",
     lambda: MODEL.oracle(GOOD, [[1, 0, 0], [1]])),
    (pb.ParameterError, r"Y\[1\]\[0\] must be a label 0\.\.1, got 2", lambda: MODEL.oracle(GOOD, [[1, 0], [2]])),
    (pb.ParameterError, r"Y\[0\]: column 3 is not covered: segment 1 must start at column 3, got 4",
     lambda: MODEL.oracle(GOOD, [[(1, 0), (0, 4)], [1]])),
    (pb.ParameterError, r"Y\[0\]: column 2 is covered twice: segment 1 must start at column 3, got 2",
     lambda: MODEL.oracle(GOOD, [[(1, 0), (0, 2)], [1]])),
    (pb.ParameterError, r"Y\[0\]\[1\] must have a label 0\.\.1, got -1",
     lambda: MODEL.oracle(GOOD, [[(1, 0), (-1, 3)], [1]])),
    (pb.ParameterError, r"Y\[1\] must hold labels or pairs", lambda: MODEL.oracle(GOOD, [[1, 0], [[1, 0, 2]]])),
    (pb.InputTypeError, r"Y\[0\] must be integers", lambda: MODEL.oracle(GOOD, [[1.0, 0.0], [1]])),
    (pb.ParameterError, r"X\[1\] must have shape \(W, 2\), got \(2, 3\); pass layout='image'",
     lambda: MODEL.oracle([GOOD[0], GOOD[1].T], [[1, 0], [1]])),
    (pb.ParameterError, r"X\[1\] must be finite, got nan in column 2",
     lambda: MODEL.oracle([GOOD[0], [[0, 0], [0, 0], [0, np.nan]]], [[1, 0], [1]])),
    (pb.ParameterError, r"X\[1\] must have at least one column",
     lambda: MODEL.oracle([GOOD[0], np.ones((0, 2))], [[1, 0], []])),
    (pb.InputTypeError, "X must hold real numbers", lambda: MODEL.oracle([[["a", "b"]]], [[0]])),
    (pb.ParameterError, "same number of examples", lambda: MODEL.oracle(GOOD, [[1, 0]])),
    (pb.ParameterError, r"X\[0\] has 3 columns, which no segments of the widths \[2\] cover exactly",
     lambda: pb.models.Segmentation(2, [2]).decode(np.ones(4), np.ones((3, 2)))),
    (pb.NumericalError, r"scores of X\[0\] overflow; scale", lambda: MODEL.decode(np.full(8, -1e308), 3.0 * GOOD[0])),
    (pb.NumericalError, r"scores of X\[0\] overflow",
     lambda: MODEL.oracle([3.0 * x for x in GOOD], [[1, 0], [1]]).solve(0, 1e308 * np.resize([1.0, -1.0], 8))),
    (pb.ParameterError, r"w must be of shape \(8,\)", lambda: MODEL.decode(np.ones(7), GOOD[0])),
    (pb.ParameterError, r"widths must be between 1", lambda: pb.models.Segmentation(2, [0])),
    (pb.ParameterError, r"symbols must hold one number", lambda: pb.models.Segmentation(2, [1, 2], symbols=[0])),
    (pb.ParameterError, r"fillers must be labels 0\.\.1", lambda: pb.models.Segmentation(2, [1, 2], fillers=[2])),
    (pb.ParameterError, "loss must be one of 'start', 'symbol'", lambda: pb.models.Segmentation(2, [1], loss="x")),
    (pb.InputTypeError, "a Ragged holds columns",
     lambda: pb.models.Segmentation(2, [1], layout="image").oracle(Ragged.of(GOOD), [[0] * 4, [0] * 3])),
    (pb.ParameterError, r"labellings\[0\] must cover the 4 columns",
     lambda: MODEL.oracle(GOOD, [[1, 0], [1]]).plane(0, np.array([1]))),
])  # fmt: skip
def test_errors_name_example_and_column(error, text, call):
    with pytest.raises(error, match=text):
        call()
