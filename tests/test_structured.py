"""The structured risk against enumeration, with models in plain Python and compiled ones."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle.models.model_oracle import ModelOracle


class Pairs(pb.models.StructuredModel):
    """Two labels of three and one weight for their agreement: small enough to enumerate."""

    LABELLINGS = tuple(product(range(3), repeat=2))

    def __init__(self, rescaling="margin", sparse=False):
        self.dim, self.rescaling, self.sparse = 7, rescaling, sparse

    def joint_feature(self, x, y):
        feature = np.zeros(7)
        for k in range(2):
            feature[2 * y[k]:2 * y[k] + 2] += x[k]
        feature[6] = y[0] == y[1]
        return sp.csr_array(feature.reshape(1, -1)) if self.sparse else feature

    def loss(self, y, y_hat):
        return float(sum(a != b for a, b in zip(y, y_hat, strict=True)))

    def decode(self, w, x):
        return max(self.LABELLINGS, key=lambda y: self.score(w, x, y))

    def loss_augmented_decode(self, w, x, y):
        return max(self.LABELLINGS, key=lambda z: self.violation(w, x, y, z))

    def score(self, w, x, y):
        return (self.joint_feature(x, y) @ w).item()

    def violation(self, w, x, y, z):
        margin = self.score(w, x, z) - self.score(w, x, y)
        return self.loss(y, z) * (1.0 + margin) if self.rescaling == "slack" else self.loss(y, z) + margin


def pairs(n=12, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2, 2)), [tuple(map(int, rng.integers(0, 3, 2))) for _ in range(n)]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rescaling", ["margin", "slack"])
def test_a_model_in_plain_python_has_the_enumerated_risk(rescaling, sparse):
    model, (X, Y) = Pairs(rescaling, sparse), pairs(6)
    weights = np.linspace(0.0, 2.0, len(X))
    risk = pb.risks.Structured(model, X, Y, n_parts=3, sample_weight=weights)
    rng = np.random.default_rng(1)
    for _ in range(5):
        w = rng.normal(size=7)
        values = np.array([max(model.violation(w, x, y, z) for z in model.LABELLINGS)
                           for x, y in zip(X, Y, strict=True)]) * weights
        np.testing.assert_allclose(risk.evaluate(w)[0], [values[rows].sum() for rows in risk.parts], rtol=1e-12)
        planes = risk.planes(w)
        np.testing.assert_allclose(planes.offsets + planes.dot(w), planes.values, rtol=1e-12, atol=1e-12)
    report = pb.check_oracle(model, X, Y)
    assert report, str(report)


def test_training_is_certified_and_agrees_for_all_methods():
    X, Y = pairs(20)
    risk = pb.risks.Structured(Pairs(), X, Y)
    results = {method: pb.minimize(risk, lam=0.5, method=method, tol=1e-4) for method in ("oca", "bmrm", "prox-bmrm")}
    best = min(result.fun for result in results.values())
    for result in results.values():
        assert result.success and result.certified
        assert result.lower_bound <= best <= result.fun * (1.0 + 1e-12)
    ball = pb.minimize(risk, penalty=pb.prox.Ball(1.0), method="cutting-plane", tol=1e-4)
    assert ball.success and np.linalg.norm(ball.x) <= 1.0 + 1e-9
    sgd = pb.minimize(risk, lam=0.5, method="sgd", max_iter=5, random_state=0)
    assert sgd.lower_bound <= best * (1.0 + 1e-9) <= sgd.fun * (1.0 + 2e-9)


def test_a_pair_of_callables_is_a_model():
    model, (X, Y) = Pairs(), pairs()

    def decode(w, x, y):
        y_hat = model.loss_augmented_decode(w, x, y)
        return y_hat, model.loss(y, y_hat)

    pair = (model.joint_feature, decode)
    a = pb.minimize(pb.risks.Structured(pair, X, Y), lam=1.0, tol=1e-5)
    b = pb.minimize(pb.risks.Structured(model, X, Y), lam=1.0, tol=1e-5)
    assert (a.fun, a.lower_bound) == (b.fun, b.lower_bound)
    report = pb.check_oracle(pair, X, Y)
    assert report, str(report)


@pytest.mark.parametrize("storage", [np.asarray, np.float32, sp.csr_array])
@pytest.mark.parametrize("costs", [None, np.array([[0, 1, 3], [2, 0, 0.5], [1, 1, 0]])])
def test_multiclass_model_equals_the_multiclass_risk(costs, storage):
    rng = np.random.default_rng(3)
    X = storage(np.round(4 * rng.normal(size=(50, 6))) / 4)
    Y = rng.integers(0, 3, 50)
    a = pb.risks.Structured(pb.models.Multiclass(3, 6, costs), X, Y, 4, sample_weight=np.arange(50.0))
    b = pb.risks.MulticlassHinge(X, Y, 4, loss=costs, sample_weight=np.arange(50.0), n_classes=3)
    for _ in range(4):
        w = rng.normal(size=18)
        np.testing.assert_allclose(a.evaluate(w)[0], b.evaluate(w)[0], rtol=1e-6)
        np.testing.assert_allclose(a.evaluate(w)[1], b.evaluate(w)[1], atol=1e-9)
    np.testing.assert_array_equal(a.predict_losses(w), (costs if costs is not None else 1 - np.eye(3))[
        Y, np.argmax(X @ w.reshape(3, 6).T, axis=1)])


def test_large_numbers_do_not_make_a_valid_model_invalid():
    rng = np.random.default_rng(8)
    X, Y = [1e9 * rng.normal(size=(4, 3)) for _ in range(20)], [rng.integers(0, 3, 4) for _ in range(20)]
    report = pb.check_oracle(pb.models.Chain(3, 3), X, Y)
    assert report, str(report)


def test_multiclass_batches_agree_with_the_plain_methods():
    rng = np.random.default_rng(4)
    X, Y = rng.normal(size=(30, 4)), rng.integers(0, 3, 30)
    for rescaling in ("margin", "slack"):
        model = pb.models.Multiclass(3, 4, np.array([[0, 1, 2.5], [1, 0, 1], [0.5, 3, 0]]), rescaling)
        compiled, plain = model.oracle(X, Y), ModelOracle(model, X, Y)
        w, rows = rng.normal(size=12), np.arange(30)
        a, b = compiled.solve_batch(rows, compiled.prepare(w)), plain.solve_batch(rows, plain.prepare(w))
        np.testing.assert_array_equal(a.labellings, b.labellings)
        np.testing.assert_allclose(a.values, b.values, rtol=1e-12)
        slopes, scales = np.zeros((2, 12)), rng.random(30)
        offsets = [o.add_planes(rows, a.labellings, scales, s) for o, s in zip((compiled, plain), slopes, strict=True)]
        np.testing.assert_allclose(*slopes, atol=1e-12)
        np.testing.assert_allclose(*offsets)
        assert [model.decode(w, x) for x in X] == list(compiled.solve_batch(rows, compiled.prepare(w), False)[0])
        S = sp.csr_array(X)
        assert [model.loss_augmented_decode(w, S[[i]], Y[i]) for i in rows] == list(a.labellings)
        np.testing.assert_array_equal(model.joint_feature(S[[0]], 1), model.joint_feature(X[0], 1))


def test_log_loss_has_the_right_value_gradient_and_entropy():
    rng = np.random.default_rng(5)
    X, Y = rng.normal(size=(15, 3)), rng.integers(0, 4, 15)
    risk = pb.risks.Structured(pb.models.Multiclass(4, 3), X, Y, loss="logistic")
    w = 3.0 * rng.normal(size=12)
    scores = X @ w.reshape(4, 3).T
    planes = risk.planes(w)
    value = (np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(15), Y]).sum()
    np.testing.assert_allclose(planes.values, [value])
    np.testing.assert_allclose(planes.offsets + planes.dot(w), [value])
    h = 1e-6
    numeric = [(risk.evaluate(w + h * e)[0][0] - risk.evaluate(w - h * e)[0][0]) / (2 * h) for e in np.eye(12)]
    np.testing.assert_allclose(planes.slopes[0], numeric, atol=1e-6)
    assert pb.minimize(risk, lam=0.1, tol=1e-4).success
    with pytest.raises(pb.ParameterError, match="loss='logistic' has no loss to rescale"):
        pb.risks.Structured(pb.models.Multiclass(4, 3, rescaling="slack"), X, Y, loss="logistic")
    with pytest.raises(pb.ParameterError, match="needs marginals, but Pairs has none"):
        pb.risks.Structured(Pairs(), *pairs(), loss="logistic")


@pytest.mark.parametrize("model, X, Y", [
    (pb.models.Chain(3, 2), [np.random.default_rng(9).normal(size=(60, 2))], [np.arange(60) % 3]),
    (pb.models.Dependency.hashed(6, ["pos"], ["h.pos m.pos direction"]), [np.arange(30)[:, None] % 6],
     [np.r_[-1, 0, np.arange(1, 30)]]),
])  # fmt: skip
def test_planes_of_the_log_loss_stay_below_it_at_vast_weights(model, X, Y):
    """Scores of 1e12 leave marginals no digits: planes lay far above the risk."""
    risk, rng = pb.risks.Structured(model, X, Y, loss="logistic"), np.random.default_rng(9)
    for scale in (1.0, 1e3, 1e7, 1e12, 1e100):
        w = scale * rng.normal(size=risk.dim)
        planes = risk.planes(w)
        assert 0.0 <= planes.offsets[0] <= 150.0
        for v in (w, 0.5 * w, rng.normal(size=risk.dim), np.zeros(risk.dim)):
            value = risk.evaluate(v)[0]
            excess = planes.offsets + planes.dot(v) - value
            assert excess <= 1e-12 * (value + np.abs(planes.slopes) @ np.abs(v)) + 1e-9


class Counted:
    """An executor that counts the work units."""

    n_items = 0

    def map(self, function, items):
        items = list(items)
        self.n_items += len(items)
        return [function(item) for item in items]


def test_any_executor_gives_the_same_bits_and_pickles(monkeypatch):
    monkeypatch.setattr(pb.risks.structured, "SHARD_WORK", 200)
    rng = np.random.default_rng(6)
    X, Y = rng.normal(size=(500, 3)), rng.integers(0, 4, 500)
    risk = pb.risks.Structured(pb.models.Multiclass(4, 3), X, Y, 3)
    w, counted = rng.normal(size=12), Counted()
    assert risk.derive(executor=counted).evaluate(w)[0].tobytes() == risk.evaluate(w)[0].tobytes()
    assert counted.n_items > 10
    with ThreadPoolExecutor(4) as pool:
        other = risk.derive(executor=pool)
        for a, b in zip(risk.planes(w), other.planes(w), strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(other)).evaluate(w)[0], risk.evaluate(w)[0])
    assert risk.fingerprint == pickle.loads(pickle.dumps(risk)).fingerprint
    regrouped = risk.derive(n_parts=7)
    np.testing.assert_allclose(regrouped.evaluate(w)[0].sum(), risk.evaluate(w)[0].sum())


def test_the_rounding_bound_of_values_holds():
    rng = np.random.default_rng(7)
    X, Y = rng.normal(size=(200, 40)), rng.integers(0, 5, 200)
    risk = pb.risks.Structured(pb.models.Multiclass(5, 40), X, Y)
    for scale in (1e-3, 1.0, 1e6):
        w = scale * rng.normal(size=200)
        scores = X.astype(np.longdouble) @ w.reshape(5, 40).T.astype(np.longdouble)
        u = scores + (np.arange(5) != Y[:, None]) - scores[np.arange(200), Y][:, None]
        value, error = risk.values(w)
        assert abs(value[0] - u.max(axis=1).sum()) <= error[0] <= 1e-9 * (1 + value[0])


def sentences(seed):
    rng = np.random.default_rng(seed)
    return [rng.permuted(np.tile(np.arange(9), (4, 1)), axis=1)[:, :2] for _ in range(5)]


@pytest.mark.parametrize("model, make, Y", [
    (Pairs(), lambda seed: pairs(seed=seed)[0], pairs()[1]),
    (pb.models.Multiclass(3, 4), lambda seed: np.roll(np.eye(4), seed, axis=0), [0, 1, 2, 0]),
    (pb.models.Chain(2, 9, indicators=True), sentences, [np.zeros(4, int)] * 5),
    (pb.models.Dependency.hashed(6, ["pos"], ["h.pos m.pos"]), lambda seed: [x[:, :1] for x in sentences(seed)],
     [np.array([-1, 0, 1, 2, 3])] * 5),
    (pb.models.Dependency(4), lambda seed: [sp.csr_array(np.roll(np.eye(4), seed * (i == 1), axis=0))
                                            for i in range(5)], [np.array([-1, 0, 1])] * 5),
    (pb.models.Landmarks((2, 2), [-1, 0], pb.features.MapFeatures(4)),
     lambda seed: np.roll(np.eye(4), seed, axis=0)[None], [[[0, 0], [1, 1]]]),
    (pb.models.BinaryLabeling(2, 1), lambda seed: [
        (np.roll(np.eye(2), seed, axis=0), np.array([[0, 1]]), np.ones((1, 1)))], [[0, 1]]),
])  # fmt: skip
def test_planes_of_other_data_are_no_warm_start_and_risks_travel(model, make, Y):
    """Rows of equal norms made equal fingerprints, and planes of one data set a false bound for another."""
    a, b = (pb.risks.Structured(model, make(seed), Y) for seed in (1, 2))
    result = pb.minimize(a, lam=1.0, tol=1e-3)
    assert a.fingerprint == pb.risks.Structured(model, make(1), Y).fingerprint
    with pytest.raises(pb.ParameterError, match=r"start from .warm_start. must be on the same risk"):
        pb.minimize(b, lam=1.0, warm_start=result)
    again, state = pickle.loads(pickle.dumps((a, result)))
    assert again.fingerprint == a.fingerprint
    assert pb.minimize(again, lam=0.5, tol=1e-3, warm_start=state).success


@pytest.mark.parametrize("error, raised", [(StopIteration(), pb.OracleError), (RuntimeError("no"), RuntimeError)])
def test_an_exception_in_the_model_is_not_swallowed_and_carries_the_state(error, raised):
    """StopIteration ended `map`, and the sums over the examples, without a word."""
    X, Y = pairs()

    class Failing(Pairs):
        calls, last = 0, 5

        def loss_augmented_decode(self, w, x, y):
            self.calls += 1
            if self.calls > self.last:
                raise error
            return super().loss_augmented_decode(w, x, y)

    model = Failing()
    model.dim = 20000
    model.joint_feature = lambda x, y: sp.csr_array((np.ones(1), ([0], [sum(y)])), shape=(1, 20000))
    with pytest.raises(raised):
        pb.risks.Structured(model, X, Y).evaluate(np.zeros(20000))
    model = Failing()
    model.last = 30
    with pytest.raises(raised) as found:
        pb.minimize(pb.risks.Structured(model, X, Y), lam=0.01, tol=1e-12)
    result = found.value.result
    assert result.lower_bound <= pb.minimize(pb.risks.Structured(Pairs(), X, Y), lam=0.01, tol=1e-6).fun <= result.fun


# ---------------------------------------------------------------------------- what is wrong is said
def test_check_oracle_names_the_broken_rule():
    X, Y = pairs()
    good = Pairs()

    def broken(**methods):
        return type("Broken", (Pairs,), methods)()

    cases = {  # how the finding starts or what it says, and the model
        "loss zero at the truth": broken(loss=lambda self, y, z: good.loss(y, z) + 0.5),
        "decoding is not exact": broken(loss_augmented_decode=lambda self, w, x, y: good.decode(w, x)),
        "at least as good as the truth": broken(loss_augmented_decode=lambda self, w, x, y: min(
            self.LABELLINGS, key=lambda z: good.violation(w, x, y, z))),
        "joint_feature must return 7 numbers": broken(
            joint_feature=lambda self, x, y: np.zeros(6), loss_augmented_decode=lambda self, w, x, y: (0, 0)),
        "must return finite numbers": broken(
            joint_feature=lambda self, x, y: np.full(7, np.nan), loss_augmented_decode=lambda self, w, x, y: (0, 0)),
        "loss must be a finite number >= 0": broken(loss=lambda self, y, z: -good.loss(y, z)),
        "prediction has the largest score": broken(decode=lambda self, w, x: min(
            self.LABELLINGS, key=lambda y: good.score(w, x, y))),
    }
    def spoil(self, w, x, y):
        w *= 2.0
        return good.loss_augmented_decode(w / 2.0, x, y)

    cases["w left alone"] = broken(loss_augmented_decode=spoil)
    for text, model in cases.items():
        report = pb.check_oracle(model, X, Y)
        assert not report and text in str(report), (text, str(report))

    state = np.random.default_rng(0)
    noisy = pb.check_oracle(lambda w: (float(w @ w) * (1.0 + 1e-12 * state.random()), 2.0 * w), dim=3)
    assert "determinism" in str(noisy)
    wrong = pb.check_oracle(pb.risks.Function(lambda w: (w.sum(), np.ones(2)), 2, lower_bounds=-1.0))
    assert "lower bound" in str(wrong)


def test_arguments_are_refused_by_name():
    X, Y = pairs()
    with pytest.raises(pb.InputTypeError, match="model must be a StructuredModel or a pair"):
        pb.risks.Structured(3, X, Y)
    with pytest.raises(pb.ParameterError, match="same number of examples, at least one, got 12 and 11"):
        pb.risks.Structured(Pairs(), X, Y[:-1])
    with pytest.raises(pb.ParameterError, match="loss must be one of 'hinge', 'logistic'"):
        pb.risks.Structured(Pairs(), X, Y, loss="log")
    with pytest.raises(pb.InputTypeError, match="pass dim="):
        pb.check_oracle(lambda w: (0.0, w))
    with pytest.raises(pb.InputTypeError, match="got the class Pairs itself"):
        pb.risks.Structured(Pairs, X, Y)
    with pytest.raises(pb.InputTypeError, match="joint_feature must be callable, got int"):
        pb.risks.Structured((1, 2), X, Y)
    with pytest.raises(pb.InputTypeError, match="loss_augmented_decode must be callable, got int"):
        pb.risks.Structured((Pairs().joint_feature, 2), X, Y)
    with pytest.raises(pb.InputTypeError, match="dim of Pairs must be an integer, got None"):
        model = Pairs()
        model.dim = None
        pb.risks.Structured(model, X, Y)
    with pytest.raises(pb.ParameterError, match="rescaling of Pairs must be one of 'margin', 'slack', got 'Slack'"):
        pb.risks.Structured(Pairs("Slack"), X, Y)
    risk = pb.risks.Structured(Pairs(), X, Y)
    with pytest.raises(pb.ParameterError, match=r"i must be a number of an example 0\.\.11, got 12"):
        risk.oracle().solve(12, np.zeros(7))
    decoded = risk.oracle().solve(3, np.zeros(7))
    plane = risk.oracle().plane(3, decoded.labelling)
    assert decoded.value == plane.offset == 2.0
    with pytest.raises(TypeError, match="abstract"):
        pb.models.StructuredModel()
