"""Passes of exact block steps with many labels: those of a plain twin, to the same bits by one thread and by two."""

import os
import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from reference.interrupts import interrupted_once, undivided
from reference.multiclass import features
from reference.sdm import block_steps, losses

import pybundle as pb
from pybundle.risks._sdm_pass import Pass
from pybundle.runtime.executors import make_executor

N, D, K = 700, 815, 20          # enough labels and features that W lags, enough products that a second thread is called


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, N)
    X = 0.2 * rng.normal(size=(K, D))[y] + rng.normal(size=(N, D))
    X[5] = 0.0
    X[7] = X[8]                 # rows that correct each other most
    return X, y


def variants(N=N, K=K):
    rng = np.random.default_rng(2)
    cost, weights = rng.uniform(0.5, 2.0, (K, K)), rng.uniform(0.0, 2.0, N)
    np.fill_diagonal(cost, 0.0)
    weights[3] = 0.0
    return {"plain": {}, "cost": {"loss": cost}, "weights": {"sample_weight": weights}, "bias": {"bias": 5.0},
            "all": {"loss": cost, "sample_weight": weights, "bias": 0.5, "scale": 0.5}}


def placed(risk, s=N / 10.0):
    blocks = risk.blocks()
    blocks.place(np.random.default_rng(3).normal(size=risk.dim) * 1e-2, s)
    return blocks


def order_of(n_rows, seed=4):
    """Neighbours meet again, in the same four and in the next."""
    rng = np.random.default_rng(seed)
    order = np.r_[rng.permutation(N), np.repeat(rng.integers(0, N, 50), 3), rng.integers(0, N, N)][:n_rows]
    return order.astype(np.intp)


def everything(blocks):
    return [np.array(blocks.beta), np.array(blocks.point()), blocks.examples["vertex"].copy(),
            blocks.examples["active"].copy(), blocks.visits]


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def assert_bits_of_one(risk, order, executors):
    """Passes by these executors end where one thread alone does."""
    one = placed(risk)
    Pass(one, order).run()
    for run in executors:
        other = placed(risk)
        Pass(other, order).run(run)
        assert_same(everything(one), everything(other))


@pytest.mark.parametrize("name", variants())
@pytest.mark.parametrize("form", ["float64", "float32", "uint8", "csr"])
def test_steps_are_those_of_one_row_after_the_other(data, name, form):
    X, y = data
    if form == "uint8":
        X = np.clip(np.rint(20.0 * X + 60.0), 0, 255).astype(np.uint8)
    X = X.astype(np.float32) if form == "float32" else X
    options = variants()[name] | ({"scale": 0.05} if form == "uint8" else {})
    precision = "float32" if form == "float32" else "float64"
    risk = pb.risks.MulticlassHinge(sp.csr_array(X) if form == "csr" else X, y, precision=precision, **options)
    blocks, order = placed(risk), order_of(1502)
    x = features(X, options.get("scale", 1.0), options.get("bias"))
    L, c = losses(y, K, options.get("loss")), options.get("sample_weight", np.ones(N))
    beta = np.zeros((N, K))
    beta[np.arange(N), y] = c
    wanted, W, met = block_steps(x, L, c, beta, blocks.point().reshape(K, -1), blocks.s, order)
    tolerance = 2e-3 if form == "float32" else 1e-9
    assert Pass(blocks, order[:601]).run() + Pass(blocks, order[601:]).run() == pytest.approx(met, rel=tolerance)
    np.testing.assert_allclose(blocks.beta, wanted, atol=tolerance)
    np.testing.assert_allclose(blocks.point().reshape(W.shape), W, atol=tolerance)


@pytest.mark.parametrize("name", variants())
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_two_threads_give_the_bits_of_one(data, name, precision):
    X, y = data
    risk = pb.risks.MulticlassHinge(X.astype(np.float32), y, precision=precision, **variants()[name])
    pool = make_executor(2)
    for n_rows in (1499, 1500, 1501, 1502, 0):
        order = np.tile(order_of(n_rows), 6)
        one, two = placed(risk), placed(risk)
        alone, paired = Pass(one, order), Pass(two, order)
        assert alone.run() == paired.run(pool.map)
        assert_same(everything(one), everything(two))
        assert alone.invited == 0 and paired.dismissed <= len(order)
    pool.close()


@pytest.mark.parametrize("begin", [0, 1, 2, 7])
def test_the_second_thread_may_come_at_any_time(data, begin):
    """Both orders of arrival, and arrivals at every stage of a pass."""
    X, y = data
    risk = pb.risks.MulticlassHinge(X.astype(np.float32), y)
    order = np.tile(order_of(1502), 4)

    def late(function, items):
        late_one = threading.Thread(target=lambda: (time.sleep(1e-4 * begin), function(1)))
        late_one.start()
        function(0)
        late_one.join()
        return items

    assert_bits_of_one(risk, order, [late] * 5)


def test_one_thread_in_a_pool_does_all(data):
    """Executors may call units one after another, or never the second."""
    X, y = data
    risk = pb.risks.MulticlassHinge(X.astype(np.float32), y)
    order = np.tile(order_of(1502), 2)
    assert_bits_of_one(risk, order, [map, lambda function, items: [function(items[0])],
                                     lambda f, items: [f(k) for k in (0, 1, 2, 3)]])


def test_three_threads_at_once(data):
    """An executor that repeats units: the third thread has nothing to do."""
    X, y = data
    risk = pb.risks.MulticlassHinge(X.astype(np.float32), y)
    order = np.tile(order_of(1502), 4)

    def thrice(function, items):
        threads = [threading.Thread(target=function, args=(k,)) for k in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return items

    assert_bits_of_one(risk, order, [thrice] * 10)


def test_an_executor_that_fails_stops_the_pass(data):
    """Nobody steps any more when the error arrives, whether the pass had begun or not.

    A busy machine began later than the executor waited: now it waits for a step, and the interpreter is not given away
    from then on to the error, so that the other thread stands at its next look for signals at the latest.
    """
    X, y = data
    risk = pb.risks.MulticlassHinge(X.astype(np.float32), y, precision="float64")
    order, leaders = np.tile(order_of(1502), 400), []

    def fails(function, items):
        if begins:
            leaders.append(threading.Thread(target=function, args=(0,)))
            leaders[-1].start()
            while np.array_equal(blocks.beta, beginning):
                time.sleep(1e-3)
        raise OSError("no more threads")

    for begins in (False, True):
        blocks = placed(risk)
        start, steps, beginning = blocks.point(), Pass(blocks, order), np.array(blocks.beta)
        with undivided(), pytest.raises(OSError, match="no more threads"):
            steps.run(fails)
        done, beta = int(blocks.visits), np.array(blocks.beta)
        steps.work(1)           # a late unit
        for leader in leaders:
            leader.join()
        assert done == blocks.visits < len(order) and (done > 0) == begins
        np.testing.assert_array_equal(beta, blocks.beta)
        slope = np.zeros(risk.dim)
        blocks.aggregate(slope)
        np.testing.assert_allclose(blocks.point(), start - slope / blocks.s, atol=1e-9)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs processors to choose from")
@pytest.mark.parametrize("K", [20, 150])
def test_two_threads_on_one_processor_give_the_bits_of_one(K):
    """Each waits for the other at every group; the second one is sent away, when depends on the machine."""
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(N, D)).astype(np.float32), np.arange(N) % K
    risk = pb.risks.MulticlassHinge(X, y)
    order = np.tile(order_of(1502), 40 if K == 20 else 8)
    one, pool, processors = placed(risk), make_executor(2), os.sched_getaffinity(0)
    Pass(one, order).run()
    os.sched_setaffinity(0, {min(processors)})          # of this thread, and of those that it starts
    try:
        for _ in range(3):
            two = placed(risk)
            Pass(two, order).run(pool.map)
            assert_same(everything(one), everything(two))
    finally:
        os.sched_setaffinity(0, processors)
        pool.close()


def test_whole_runs_have_the_same_bits(data):
    X, y = data
    X, y = np.tile(X, (6, 1)).astype(np.float32), np.tile(y, 6)
    X[:, 0] += np.random.default_rng(5).normal(size=len(X))
    results = [pb.minimize(pb.risks.MulticlassHinge(X, y), lam=20.0, tol=1e-3, n_jobs=n) for n in (1, 2, 3)]
    for result in results:
        assert result.success and result.certified
        np.testing.assert_array_equal(result.x, results[0].x)
        np.testing.assert_array_equal(result.history["lower_bound"], results[0].history["lower_bound"])


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_leaves_multipliers_and_point_in_accord(data, n_jobs):
    X, y = data
    risk = pb.risks.MulticlassHinge(X.astype(np.float32), y, precision="float64")
    blocks, order = placed(risk), np.tile(order_of(1502), 400)
    start, beginning, pool = blocks.point(), np.array(blocks.beta), make_executor(n_jobs)
    with interrupted_once(lambda: not np.array_equal(blocks.beta, beginning)):
        Pass(blocks, order).run(pool.map)
    pool.close()
    done = int(blocks.visits)
    assert 0 < done < len(order)
    slope = np.zeros(risk.dim)
    blocks.aggregate(slope)
    np.testing.assert_allclose(blocks.point(), start - slope / blocks.s, atol=1e-9)
    again = placed(risk)
    Pass(again, order[:done]).run()
    assert_same(everything(again), everything(blocks))


def test_rows_outside_are_refused(data):
    X, y = data
    blocks = pb.risks.MulticlassHinge(X, y).blocks()
    for rows in ([0, N], [-1]):
        with pytest.raises(ValueError, match=f"order must hold rows 0..{N - 1}"):
            Pass(blocks, np.array(rows, dtype=np.intp))
