"""Exact steps in two lanes: those of a plain twin, an ascent whatever the examples, bits of any threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from reference.interrupts import Interrupted
from reference.lanes import dual, lane_steps
from reference.multiclass import features
from reference.sdm import binary_steps, block_steps, losses
from test_sdm_pass import assert_same, everything, variants

import pybundle as pb
from pybundle.risks._sdm_lanes import ExactLanes
from pybundle.runtime.executors import make_executor
from pybundle.solvers.exact_blocks import ExactBlocks

N, D, K, S = 1100, 37, 6, 110.0
KINDS = ["random", "equal", "near", "opposite"]
LANES = {"most": 64, "low": 0.5, "high": 0.75}


def rows_of(kind, n=N):
    """Examples of no relation, or (nearly) the same ones, or of two kinds that disagree."""
    rng = np.random.default_rng(0)
    y, one = rng.integers(0, K, n), rng.normal(size=D)
    if kind == "random":
        return 0.5 * rng.normal(size=(K, D))[y] + rng.normal(size=(n, D)), y
    if kind == "equal":
        return np.tile(one, (n, 1)), y
    if kind == "near":
        return one + 0.1 * rng.normal(size=(n, D)), y
    return np.where(np.arange(n)[:, None] % 2, one, -one), y


def placed(risk, s=S):
    """At the point of the multipliers, so that D and W agree."""
    blocks = risk.blocks()
    blocks.place(np.zeros(risk.dim), s)
    return blocks


def orders(n_passes, n=N, seed=4):
    rng = np.random.default_rng(seed)
    for k in range(n_passes):
        yield rng.permutation(n)[:n - 300 * (k % 2)]


def evidence(risk, blocks):
    """D of the multipliers in float64, and their point."""
    slope = np.zeros(risk.dim)
    offset = blocks.aggregate(slope)[0]
    slope = risk.examples.unscale(slope, risk.n_scores)
    return offset - 0.5 * slope @ slope / blocks.s, -slope / blocks.s


@pytest.mark.parametrize("name", variants(N, K))
@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_those_of_the_twin(kind, name):
    (X, y), options = rows_of(kind), variants(N, K)[name]
    risk = pb.risks.MulticlassHinge(X, y, precision="float64", **options)
    blocks, tolerance = placed(risk), 1e-6 if kind == "equal" else 1e-9        # ties there
    lanes = ExactLanes(blocks)
    x, L = features(X, options.get("scale", 1.0), options.get("bias")), losses(y, K, options.get("loss"))
    c = options.get("sample_weight", np.ones(N))
    beta, W, length = np.zeros((N, K)), np.zeros((K, x.shape[1])), 64
    beta[np.arange(N), y] = c
    for order in orders(4):
        before = dual(beta, W, L, S)
        lanes.visit(order)
        beta, W, length = lane_steps(
            lambda b, w, rows: block_steps(x, L, c, b, w, S, rows), beta, W, L, S, order, length, **LANES)
        value, w = evidence(risk, blocks)
        assert value == pytest.approx(dual(beta, W, L, S), rel=1e-9, abs=1e-9)
        if value - before < 1e-9 * value:       # rounding says where examples that are all alike go
            break
        np.testing.assert_allclose(w.reshape(W.shape), W, atol=tolerance)
        np.testing.assert_allclose(blocks.beta, beta, atol=tolerance)
        np.testing.assert_allclose(blocks.point().reshape(W.shape), W, atol=tolerance)
        assert lanes.steps == length
        if length < 0:                          # the twin of passes in one lane is in another file
            break


@pytest.mark.parametrize("kind", KINDS)
def test_binary_steps_are_those_of_the_twin(kind):
    X, y = rows_of(kind)
    y = np.where(y % 2, 1, -1)
    risk = pb.risks.BinaryHinge(X, y, bias=0.5, precision="float64")
    blocks = placed(risk)
    x, c = features(X, 1.0, 0.5), np.ones(N)
    order = np.random.default_rng(1).permutation(N)
    ExactLanes(blocks).visit(order)

    def steps(beta, w, rows):
        return binary_steps(x, y, c, beta, w, S, rows)

    beta, w, _ = lane_steps(steps, np.zeros(N), np.zeros(D + 1), np.ones(N), S, order, 64, **LANES)
    np.testing.assert_allclose(blocks.beta[:, 0], beta, atol=1e-9)
    np.testing.assert_allclose(blocks.point(), w, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", ["plain", "all"])
def test_bits_do_not_depend_on_threads(kind, precision, name):
    X, y = rows_of(kind)
    risk = pb.risks.MulticlassHinge(X.astype(np.float32), y, precision=precision, **variants(N, K)[name])
    one, met = placed(risk), []
    lanes = ExactLanes(one)
    for order in orders(12):
        met.append((lanes.visit(order), lanes.steps))
    for n_threads in (1, 2, 3):
        many, again = placed(risk), []
        lanes = ExactLanes(many, is_wary=False)
        with ThreadPoolExecutor(n_threads) as pool:
            for order in orders(12):
                again.append((lanes.visit(order, pool.map), lanes.steps))
        assert again == met
        assert_same(everything(one), everything(many))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("s", [1.0, S, 1e4])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_every_pass_ascends_and_the_point_follows(kind, s, precision):
    X, y = rows_of(kind)
    risk = pb.risks.MulticlassHinge(X, y, precision=precision)
    blocks = placed(risk, s)
    lanes, before, unit = ExactLanes(blocks), 0.0, 1e-12 if precision == "float64" else 1e-4
    for order in orders(15):
        lanes.visit(order)
        value, w = evidence(risk, blocks)
        assert value >= before - unit * abs(before)
        before = value
        np.testing.assert_allclose(blocks.point(), w, atol=unit * N / s * abs(X).max())
        np.testing.assert_allclose(blocks.beta.sum(axis=1), 1.0, rtol=1e-5)
        assert (np.array(blocks.beta) >= 0.0).all()
        assert (blocks.examples["vertex"] == np.where(
            np.count_nonzero(blocks.beta, axis=1) == 1, blocks.beta.argmax(axis=1), -1)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_examples_that_are_alike_cost_few_passes(kind):
    """The dual of one lane after k passes is met in half more."""
    X, y = rows_of(kind)
    risk = pb.risks.MulticlassHinge(X, y, precision="float64")
    one, two = placed(risk), placed(risk)
    lanes, rng = ExactLanes(two), np.random.default_rng(1)
    for _ in range(12):
        one.visit(rng.permutation(N))
    for _ in range(18):
        lanes.visit(rng.permutation(N))
    value = evidence(risk, one)[0]
    assert evidence(risk, two)[0] >= value - 1e-4 * abs(value)


def test_lanes_that_go_too_far_together_are_left_for_a_while():
    """Every example alone has the whole solution, and both lanes find it."""
    X = rows_of("near")[0]
    risk = pb.risks.MulticlassHinge(X, np.zeros(N, dtype=int), n_classes=K, sample_weight=np.full(N, 1e4))
    order = np.random.default_rng(0).permutation(N)[:512]
    for steps, wanted in ((64, 32), (8, -8)):
        lanes = ExactLanes(placed(risk), steps)
        lanes.visit(order)
        assert lanes.steps == wanted
    for rest in (*range(-7, 0), 8):
        lanes.visit(order)
        assert lanes.steps == rest


def test_other_passes_are_those_of_one_lane():
    """Few rows, rows that come twice, sparse data."""
    X, y = rows_of("random")
    dense, sparse = pb.risks.MulticlassHinge(X, y), pb.risks.MulticlassHinge(sp.csr_array(X), y)
    whole = np.random.default_rng(0).permutation(N)
    pool = make_executor(2)
    for risk, order in ((dense, whole[:511]), (dense, np.r_[whole, whole[:1]]), (sparse, whole), (dense, whole[:0])):
        for run in (map, pool.map):
            one, two = placed(risk), placed(risk)
            assert ExactLanes(one).visit(order, run) == two.visit(order)
            assert_same(everything(one), everything(two))
    pool.close()
    two, one = placed(dense), placed(dense)
    ExactLanes(two).visit(whole[:512])
    one.visit(whole[:512])
    assert (np.array(two.beta) != np.array(one.beta)).any()         # there are two lanes from here on


def test_rows_outside_are_refused_before_they_are_read():
    X, y = rows_of("random")
    for bad in (N, -1, 10 ** 12):
        rows = np.arange(N)
        rows[7] = bad
        with pytest.raises(ValueError, match=f"order must hold rows 0..{N - 1}"):
            ExactLanes(placed(pb.risks.MulticlassHinge(X, y))).visit(rows)


@pytest.mark.parametrize("late", [False, True])
def test_an_interrupt_leaves_multipliers_and_point_in_accord(late):
    X, y = rows_of("random", 6000)
    risk, executor = pb.risks.MulticlassHinge(X, y, precision="float64"), Interrupted(late)
    blocks = placed(risk)
    lanes = ExactLanes(blocks, is_wary=False)

    for order in orders(30, 6000):
        lanes.steps = 64                # in two lanes, whatever was met before
        with pytest.raises(KeyboardInterrupt):
            lanes.visit(order, executor.map)
        value, w = evidence(risk, blocks)     # whoever comes late finds that it is over
        np.testing.assert_allclose(blocks.point(), w, atol=1e-11)
    executor.join()
    assert evidence(risk, blocks)[0] == value
    lanes.visit(np.arange(6000))
    assert evidence(risk, blocks)[0] >= value - 1e-9


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
def test_runs_prove_the_same_optimum_and_go_on_as_they_were(tmp_path):
    X, y = rows_of("near")
    risk = pb.risks.MulticlassHinge(X, y)
    options = {"lam": 0.5, "tol": 1e-5, "method": "prox-bcfw", "random_state": 2}
    one, two = pb.minimize(risk, **options), pb.minimize(risk, **options, lanes=2)
    assert one.success and two.success and (one.x != two.x).any()
    assert max(one.lower_bound, two.lower_bound) <= min(one.fun, two.fun)
    for n_jobs in (1, 2, 3):
        file = tmp_path / f"{n_jobs}.npz"
        for stop in (2, 4, 1000):
            last = pb.minimize(risk, **options, lanes=2, max_iter=stop, checkpoint=file, n_jobs=n_jobs)
        assert last.x.tobytes() == two.x.tobytes()
        assert last.history["lower_bound"].tobytes() == two.history["lower_bound"].tobytes()


def test_a_state_from_before_lanes_can_be_taken_up():
    X, y = rows_of("random")
    risk = pb.risks.MulticlassHinge(X, y)
    core = ExactBlocks(risk, lanes=2)
    core.place(1.0, core.default_kappa(1.0), np.zeros(risk.dim))
    state, old = core.__getstate__() | {"risk": risk}, ExactBlocks.__new__(ExactBlocks)
    assert state["_lanes"] == 64
    del state["_lanes"]
    old.risk = risk
    old.__setstate__(state)
    order = np.random.default_rng(0).permutation(N)
    blocks = risk.blocks()
    blocks.set_state(old._blocks.get_state())
    assert old.exact_pass(order) == blocks.visit(order)


def test_memory_counts_what_lanes_take():
    X, y = rows_of("random")
    risk = pb.risks.MulticlassHinge(X, y)
    one, two = (pb.estimate_memory(risk, method="prox-bcfw", lanes=lanes) for lanes in (1, 2))
    assert two.parts["points"] == one.parts["points"] + 2 * 8 * risk.dim
    needed = ExactBlocks.bytes_needed(risk, 2)
    options = {"lam": 1.0, "method": "prox-bcfw", "lanes": 2}
    with pytest.raises(pb.ParameterError, match=f"memory_limit must be at least {needed}"):
        pb.minimize(risk, **options, memory_limit=needed - 1)
    assert pb.minimize(risk, **options, memory_limit=needed).success


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_executors_may_call_nothing(calls):
    X, y = rows_of("random")
    risk = pb.risks.MulticlassHinge(X, y)
    one, two = placed(risk), placed(risk)
    order = np.random.default_rng(0).permutation(N)
    ExactLanes(one).visit(order)
    ExactLanes(two, is_wary=False).visit(order, lambda function, items: [function(k) for k in items[:calls]])
    assert_same(everything(one), everything(two))
