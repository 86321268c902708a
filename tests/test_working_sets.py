"""Working sets of labels: what they hold, steps on them against a plain reference, and runs with many classes."""

import signal
import warnings

import numpy as np
import pytest
from reference.interrupts import interrupted_once
from reference.multiclass import features
from reference.sdm import losses, onto_simplex, variants

import pybundle as pb
from pybundle.prox.of_norm import Square
from pybundle.solvers.block._label_blocks import set_capacity
from pybundle.solvers.block._label_dual import LabelDual
from pybundle.solvers.block.exact_blocks import ExactBlocks
from pybundle.solvers.problem.problem import Problem

N, D, K = 400, 23, 80
S = 4.0             # the curvature lam + kappa


def planted(seed=0, n=N, n_classes=K):
    """Linear scores plus noise; some rows are 0 or the same."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    y = np.argmax(X @ rng.normal(size=(D, n_classes)) + rng.normal(size=(n, n_classes)), axis=1)
    X[5], X[7] = 0.0, X[8]
    return X, y


def risk_of(X, y, **options):
    return pb.risks.MulticlassHinge(X, y, n_classes=K, **options)


def sets(dual):
    """Labels of the working set of every row; None where the next step looks at all of them."""
    return [row[:count] if count else None
            for row, count in zip(dual.near, dual.examples["n_near"], strict=True)]


def steps_on_sets(x, L, c, beta, W, s, order, chosen):
    """As `block_steps` of the reference, among the labels `chosen[i]` of a row."""
    beta, W, met = beta.copy(), W.copy(), 0.0
    for i in order:
        k = np.arange(L.shape[1]) if chosen[i] is None else chosen[i]
        u = L[i, k] + W[k] @ x[i]
        met += beta[i, k].sum() * u.max() - beta[i, k] @ u
        square = x[i] @ x[i]
        new = (onto_simplex(beta[i, k] + u * s / square, c[i]) if square > 0.0
               else np.where(np.arange(len(u)) == np.argmax(u), c[i], 0.0))
        W[k] -= np.outer(new - beta[i, k], x[i]) / s
        beta[i, k] = new
    return beta, W, met


@pytest.mark.parametrize("name", variants(N, K, bias=2.0))
@pytest.mark.parametrize("form", ["float64", "float32", "uint8"])
def test_steps_are_the_maximisers_among_the_labels_of_the_sets(name, form):
    X, y = planted()
    options = variants(N, K, bias=2.0)[name] | ({"scale": 0.05} if form == "uint8" else {})
    X = np.clip(np.rint(20.0 * X + 60.0), 0, 255).astype(np.uint8) if form == "uint8" else X.astype(form)
    risk = risk_of(X, y, precision="float64", **options)
    dual, rng = LabelDual(risk.engine, "float64"), np.random.default_rng(4)
    dual.set_point(0.3 * rng.normal(size=risk.dim), S)
    for _ in range(3):
        dual.visit(rng.permutation(N))
    chosen, beta, W = sets(dual), np.array(dual.alpha), dual.point().reshape(K, -1)
    known = np.flatnonzero([k is not None for k in chosen])
    assert len(known) > N // 2
    order = np.r_[rng.permutation(N), np.repeat(rng.choice(known, 50), 3)]      # rows without a set come once
    x = features(X, options.get("scale", 1.0), options.get("bias"))
    L, c = losses(y, K, options.get("loss")), options.get("sample_weight", np.ones(N))
    wanted, point, met = steps_on_sets(x, L, c, beta, W, S, order, chosen)
    assert dual.visit(order, on_sets=True) == pytest.approx(met, rel=1e-8)
    np.testing.assert_allclose(dual.alpha, wanted, atol=1e-9)
    np.testing.assert_allclose(dual.point().reshape(W.shape), point, atol=1e-9)
    assert dual.cached_visits == 150 + len(known)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", ["plain", "all"])
def test_sets_hold_the_labels_near_the_best_and_those_with_multipliers(name, precision):
    X, y = planted()
    options = variants(N, K, bias=2.0)[name]
    risk = risk_of(X.astype(np.float32), y, precision=precision, **options)
    dual, rng = LabelDual(risk.engine, risk.search_precision), np.random.default_rng(4)
    dual.set_point(np.zeros(risk.dim), S)
    for _ in range(3):
        dual.visit(rng.permutation(N))
    scores = risk.derive(precision="float64").scores(dual.point())
    u = scores + losses(y, K, options.get("loss"))
    value = dual.mark(scores)
    weights = options.get("sample_weight", np.ones(N))
    assert value == pytest.approx(float(weights @ (u.max(axis=1) - scores[np.arange(N), y])), rel=1e-12)
    near = (u > u.max(axis=1, keepdims=True) - dual.margin) | (np.array(dual.alpha) > 0.0)
    for i, kept in enumerate(sets(dual)):
        wanted = np.flatnonzero(near[i])
        if kept is None:
            assert len(wanted) > set_capacity(risk.engine)
        else:
            np.testing.assert_array_equal(kept, wanted)


def test_sets_are_kept_for_many_labels_of_dense_rows_only():
    X, y = planted(n_classes=63)
    assert set_capacity(pb.risks.MulticlassHinge(X, y, n_classes=63).engine) == 0
    assert set_capacity(pb.risks.MulticlassHinge(X, y, n_classes=64).engine) == 8
    assert set_capacity(pb.risks.BinaryHinge(X, np.where(y > 30, 1, -1)).engine) == 0


@pytest.mark.parametrize("lam", [30.0, 3.0])
@pytest.mark.parametrize("name", ["plain", "all"])
def test_bounds_hold_and_the_proof_is_exact(name, lam):
    X, y = planted()
    risk = risk_of(X, y, **variants(N, K, bias=2.0)[name])
    reference = pb.minimize(risk, lam=lam, method="alm", tol=1e-8)
    result = pb.minimize(risk, lam=lam, method="prox-bcfw", tol=1e-5)
    assert result.success and result.certified and result.n_cached_passes > 4.0
    history = result.history
    assert (history["lower_bound"] <= reference.fun).all()
    assert (history["best_primal"] >= reference.lower_bound).all()
    assert (np.diff(history["lower_bound"]) >= 0.0).all()
    assert result.fun <= reference.fun * (1 + 1.01e-5)
    assert pb.verify(result.certificate, risk).ok


def test_penalties_take_steps_on_sets():
    X, y = planted()
    risk, penalty = risk_of(X, y, bias=1.0), pb.prox.ElasticNet(2.0, 5.0)
    result = pb.minimize(risk, penalty=penalty, method="prox-bcfw", tol=1e-3)
    reference = pb.minimize(risk, penalty=penalty, method="oca", tol=1e-2)
    assert result.success and result.certified and result.n_cached_passes > 0.0
    assert result.lower_bound <= reference.fun and reference.lower_bound <= result.fun


def test_a_run_resumes_to_the_last_bit(tmp_path):
    X, y = planted()
    options = {"lam": 3.0, "method": "prox-bcfw", "tol": 1e-4}
    whole = pb.minimize(risk_of(X, y), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        pb.minimize(risk_of(X, y), **options, max_iter=4, checkpoint=tmp_path / "run")
    resumed = pb.minimize(risk_of(X, y), **options, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(resumed.x, whole.x)
    assert resumed.lower_bound == whole.lower_bound and resumed.n_cached_passes == whole.n_cached_passes


def shuffled(rows, seed):
    """Fisher-Yates with the numbers of splitmix64."""
    rows, state, mask = list(rows), seed, 2**64 - 1
    for i in range(len(rows) - 1, 0, -1):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        j = ((z >> 32) * (i + 1)) >> 32
        rows[i], rows[j] = rows[j], rows[i]
    return np.array(rows), state


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_passes_over_active_rows_are_visits_in_random_order(precision):
    X, y = planted()
    one, other = (LabelDual(risk_of(X, y).engine, precision) for _ in range(2))
    for dual in (one, other):
        dual.set_point(np.zeros(K * D), S)
        dual.visit(np.arange(N))
    state = 2**63 - 5
    assert not one.visit_active(state, 0.0, 3, np.inf)
    for _ in range(3):
        order, state = shuffled(other.active(), state)
        other.visit(order, on_sets=True)
    np.testing.assert_array_equal(one.alpha, other.alpha)
    np.testing.assert_array_equal(one.point(), other.point())
    assert (one.visits, one.cached_visits) == (other.visits, other.cached_visits) and one.cached_visits > 0.0


def test_cached_passes_end_at_the_limit_of_visits_values_included():
    X, y = planted()
    risk = risk_of(X, y)
    core = ExactBlocks(risk, Problem(Square(1.0)))
    core.place(S, 0.0, np.zeros(risk.dim))
    core.oracle_pass(np.arange(N))
    core.scores.visits += 40.0 * N                     # visits of values
    core._dual.examples["n_near"] = 0               # all labels are looked at: each step is a visit
    before = core.visits
    core.cached_passes(np.random.default_rng(0), 0.0, 100, before + 0.5)
    assert before < core.visits <= before + N


def test_sets_of_other_labels_are_refused():
    X, y = planted()
    dual = LabelDual(risk_of(X, y).engine, "float64")
    dual.set_point(np.zeros(K * D), S)
    dual.visit(np.arange(N))
    for name, value in (("near", K), ("near", -1), ("n_near", K // 8 + 1)):
        state = {key: np.array(part) if isinstance(part, np.ndarray) else part
                 for key, part in dual.get_state().items()}
        state[name][3] = value
        with pytest.raises(ValueError, match="working sets must hold labels"):
            LabelDual(risk_of(X, y).engine, "float64").set_state(state)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
def test_an_interrupt_leaves_multipliers_and_point_in_accord():
    X, y = planted()
    risk = risk_of(X, y)
    dual = LabelDual(risk.engine, "float64")
    dual.set_point(np.zeros(risk.dim), S)
    dual.visit(np.arange(N))
    beginning = np.array(dual.alpha)
    with interrupted_once(lambda: not np.array_equal(dual.alpha, beginning)):
        dual.visit(np.tile(np.arange(N), 20_000), on_sets=True)
    assert 0 < dual.cached_visits < N * 20_000
    np.testing.assert_allclose(dual.point(), -dual.aggregate().slope / S, atol=1e-9)
