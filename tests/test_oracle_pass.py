"""Exact passes in compiled code: the bits of batches asked for one after another, whatever threads there are."""

import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import LowLevelCallable

import pybundle as pb
from pybundle.bundle._blocks import Blocks
from pybundle.bundle._oracle_pass import OraclePass
from pybundle.solvers.batch_pass import BatchPass
from pybundle.solvers.cached_blocks import CachedBlocks
from pybundle.solvers.objective import L2

N, LAM = 150, 0.7
number, integer = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int)


def words(kind="dense", **settings):
    """Noisy words over four letters; CSR features that a batch reads as they stand, or packed."""
    rng = np.random.default_rng(0)
    sizes, centres = rng.integers(1, 7, N), rng.normal(size=(4, 5))
    Y = [rng.integers(0, 4, size).astype(np.int32) for size in sizes]
    X, d = [centres[y] + rng.normal(size=(len(y), 5)) for y in Y], 5
    if kind != "dense":
        d = 2000 if kind == "wide" else 12
        X = [sp.csr_array(np.where(np.abs(x) > 0.8, x, 0.0)) for x in X]
        X = [sp.csr_array((x.data, x.indices * (d // 5), x.indptr), shape=(x.shape[0], d)) for x in X]
    weight = settings.pop("sample_weight", None)
    model = pb.models.Chain(4, d, **settings)
    return pb.risks.Structured(model, X, Y, sample_weight=weight)


def sentences(kind, single_root=True, change=None):
    """Trees grown at random, with arc features listed or made from templates; `change` has its way with the former."""
    rng = np.random.default_rng(0)
    Y = []
    for n in rng.integers(1, 8, N):
        heads, order = np.full(n + 1, -1, np.int32), rng.permutation(n) + 1
        for k, m in enumerate(order):
            heads[m] = order[rng.integers(k)] if k and (single_root or rng.random() < 0.8) else 0
        Y.append(heads)
    if kind == "hashed":
        X = [rng.integers(0, 4, (len(y) - 1, 2)) for y in Y]
        templates = ["h.word m.pos", "h.pos m.pos distance", "h.pos m.pos set.pos", "m.word each.pos distance"]
        model = pb.models.Dependency.hashed(9, templates=templates, single_root=single_root)
    else:
        X = [sp.csr_array(sp.random(n * n, 12, 0.4, random_state=rng, dtype=kind)) for n in (len(y) - 1 for y in Y)]
        model = pb.models.Dependency(12, single_root=single_root)
        if change is not None:
            change(X)
    return pb.risks.Structured(model, X, Y)


class Lines:
    """Hinge losses max(0, 1 - <w, x_i>), by functions as C would have them; example `bad` returns a code in the end."""

    def __init__(self, bad=-1, calls=0, dim=6):
        rng, self.calls = np.random.default_rng(1), calls
        self.X = X = rng.normal(size=(N, dim)) + 0.3

        @ctypes.CFUNCTYPE(ctypes.c_int, number, ctypes.c_int64, ctypes.c_int64, integer, number, number,
                          ctypes.c_void_p)
        def solve(w, dim, i, labelling, value, upper, data):
            score = 1.0 - sum(w[k] * X[i, k] for k in range(dim))
            labelling[0], value[0] = int(score > 0.0), max(0.0, score)
            self.calls -= 1
            return 7 if i == bad and self.calls < 0 else 0

        @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, integer, number, ctypes.POINTER(ctypes.c_int64), integer,
                          number, ctypes.c_void_p)
        def plane(i, labelling, loss, n_entries, indices, values, data):
            loss[0], n_entries[0] = labelling[0], labelling[0] * 2 * dim
            for k in range(2 * dim if labelling[0] else 0):     # entries of one index add up, in any order
                indices[k], values[k] = dim - 1 - k % dim, -0.5 * X[i, dim - 1 - k % dim]
            return 0

        self.risk = pb.risks.ExampleFunctions(LowLevelCallable(solve), LowLevelCallable(plane), N, dim,
                                              max_entries=2 * dim)


RISKS = {
    "dense": words,
    "wide": lambda: words("wide"),
    "narrow": lambda: words("narrow"),
    "normalised": lambda: words(normalised=True, start=True, end=True),
    "bounds": lambda: words(start=True, end=True),
    "weights": lambda: words(sample_weight=np.arange(N) % 4 / 2.0),
    "functions": lambda: Lines().risk,
    "trees": lambda: sentences(np.float64),
    "trees, float32": lambda: sentences(np.float32),
    "trees, many roots": lambda: sentences(np.float64, single_root=False),
    "templates": lambda: sentences("hashed"),
    "templates, many roots": lambda: sentences("hashed", single_root=False),
}


def state(blocks):
    return (blocks.w.tobytes(), blocks.offset, blocks.n_planes, blocks.bytes, blocks.work,
            *(part.tobytes() for part in blocks.arrays()[:3]), abs(blocks.arrays()[3]).sum())


def dual(blocks, lam=LAM):
    offset, phi, _ = blocks.copy().aggregate()
    return offset - 0.5 * phi @ phi / lam, -phi / lam


@pytest.mark.parametrize("name", RISKS)
@pytest.mark.parametrize(("batch", "step"), [(1, "frank-wolfe"), (7, "exact"), (32, "pairwise"), (1000, "exact")])
def test_bits_are_those_of_batches_in_python(name, batch, step):
    cores = []
    for is_compiled in (True, False):
        core = CachedBlocks(RISKS[name](), L2(LAM), batch=batch, step=step, cap=4, average=True)
        core.place(LAM, 0.3, np.ones(core.dim))
        assert isinstance(core._pass, OraclePass)
        if not is_compiled:
            core._pass = BatchPass(core.blocks, core.oracle, core._hands, batch)
        rng = np.random.default_rng(2)
        core.answers = []
        for k in range(5):
            order = rng.permutation(N) if k % 2 else rng.integers(N, size=N // 3)     # sampled: some come twice
            core.answers.append(core.exact_pass(order))
            core.forget()
        cores.append(core)
    one, two = cores
    assert one.answers == two.answers and one.visits == two.visits == 2 * N + 3 * (N // 3)
    assert state(one.blocks) == state(two.blocks)
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(
        (one.blocks.average(0),), (two.blocks.average(0),), strict=True))
    assert one.answers[0] > 0.0


def passes(risk, run, batch=16, n=4, **settings):
    oracle, rng = risk.oracle(), np.random.default_rng(3)
    finder, weights = oracle.finder(batch)
    blocks = Blocks(N, risk.dim, None, "exact", 7, 20)
    blocks.place(np.zeros(risk.dim), LAM)
    visitor = OraclePass(blocks, finder, batch, oracle.sizes.astype(np.int64), weights, is_wary=False)
    answers = [visitor.visit(rng.permutation(N), False, run) for _ in range(n)]
    return blocks, visitor, answers


@pytest.mark.parametrize("name", RISKS)
def test_bits_do_not_depend_on_threads(name):
    risk = RISKS[name]()
    one, _, answers = passes(risk, map)
    for n_threads in (1, 2, 3):
        with ThreadPoolExecutor(n_threads) as pool:
            many, visitor, others = passes(risk, pool.map)
        assert others == answers and state(many) == state(one) and visitor.visits == N


@pytest.mark.parametrize("late", [False, True])
def test_an_interrupt_leaves_the_point_of_the_multipliers(late):
    risk, helpers = words(), []
    blocks, visitor, _ = passes(risk, map, n=1)

    def interrupted(function, items):
        if late:
            list(map(function, items))
        for _ in items:
            helpers.append(threading.Thread(target=function))
            helpers[-1].start()
        raise KeyboardInterrupt

    seen, before = set(), 0.0
    for k in range(60):
        with pytest.raises(KeyboardInterrupt):
            visitor.visit(np.random.default_rng(k).permutation(N), False, interrupted)
        value, w = dual(blocks)             # whoever comes late finds that it is over
        np.testing.assert_allclose(blocks.w, w, atol=1e-11)
        assert value >= before - 1e-12 * abs(before)
        before = value
        seen.add(visitor.visits)
    for helper in helpers:
        helper.join()
    assert dual(blocks)[0] == before and all(0 <= visits <= N for visits in seen)
    assert late == (seen == {N})


def test_an_example_that_fails_is_named_and_nothing_is_lost():
    lines = Lines(bad=100)
    for run in (map, None):
        core = CachedBlocks(lines.risk, L2(LAM), batch=8)
        core.place(LAM, 0.0, None)
        with ThreadPoolExecutor(2) as pool, pytest.raises(pb.OracleError, match="code 7 for example 100"):
            core._pass.visit(np.arange(N), False, run or pool.map)
        assert core._pass.visits == 96
        np.testing.assert_allclose(core.w, dual(core.blocks)[1], atol=1e-12)
    with pytest.raises(pb.OracleError, match="example 100") as caught:
        pb.minimize(Lines(100, 12 * N).risk, lam=0.1, method="bcfw", tol=1e-12, n_jobs=2)
    assert 0.0 < caught.value.result.lower_bound <= caught.value.result.fun


def test_a_sentence_beyond_float64_is_named_and_nothing_is_lost():
    def change(X):          # one feature that all others have not; the root has an arc to every word
        for i in range(N):
            X[i] = X[i].multiply(np.arange(12) > 0).tolil()
        X[100][0, 0] = 1e150
        X[:] = map(sp.csr_array, X)

    risk, centre = sentences(np.float64, change=change), np.zeros(12)
    centre[0], texts = 1e200, set()
    for run in (map, None, BatchPass):
        core = CachedBlocks(risk, L2(LAM), batch=8)
        core.place(LAM, 0.3, centre)
        if run is BatchPass:
            core._pass, run = BatchPass(core.blocks, core.oracle, core._hands, 8), map
        with ThreadPoolExecutor(2) as pool, pytest.raises(pb.NumericalError, match="sentence 100 has") as caught:
            core._pass.visit(np.arange(N), False, run or pool.map)
        texts.add(str(caught.value))
        assert core._pass.visits == 96
        phi = core.blocks.copy().aggregate()[1]
        np.testing.assert_allclose(core.w, (0.3 * centre - phi) / (LAM + 0.3), rtol=1e-12, atol=1e-12)
        core.place(LAM, 0.0, None)
        assert core.exact_pass(np.arange(N)) > 0.0
    assert len(texts) == 1


def test_a_long_example_may_fill_a_batch():
    """Its labellings are more than all examples have together."""
    rng = np.random.default_rng(4)
    sizes = np.where(np.arange(N) == 5, 200, 1)
    Y = [np.arange(-1, n, dtype=np.int32) for n in sizes]
    X = [rng.integers(0, 4, (n, 2)) for n in sizes]
    tags = [rng.integers(0, 3, n).astype(np.int32) for n in sizes]
    for risk in (pb.risks.Structured(pb.models.Dependency.hashed(9), X, Y),
                 pb.risks.Structured(pb.models.Chain(3, 2), [x.astype(float) for x in X], tags)):
        cores = [CachedBlocks(risk, L2(LAM), batch=64) for _ in range(2)]
        cores[1]._pass = BatchPass(cores[1].blocks, cores[1].oracle, cores[1]._hands, 64)
        for core in cores:
            core.place(LAM, 0.0, None)
            core.answer = core.exact_pass(np.full(64, 5))
        assert cores[0].answer == cores[1].answer and state(cores[0].blocks) == state(cores[1].blocks)


def test_rows_outside_are_refused_before_they_are_read():
    rows = np.arange(N)
    rows[3] = 10 ** 9
    _, visitor, _ = passes(words(), map, n=0)
    with pytest.raises(IndexError, match=str(10 ** 9)):
        visitor.visit(rows)
    assert visitor.visit(np.arange(0)) == 0.0


def test_sizes_and_weights_belong_to_examples():
    finder, _ = words().oracle().finder(4)
    blocks = Blocks(N, words().dim)
    for bad in ({"sizes": np.ones(N - 1, np.int64)}, {"sizes": np.ones(N, np.int64), "weights": np.ones(N + 1)}):
        with pytest.raises(ValueError, match=str(N)):
            OraclePass(blocks, finder, 4, **bad)
    with pytest.raises(ValueError, match="batch"):
        OraclePass(blocks, finder, 0, np.ones(N, np.int64))


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
@pytest.mark.parametrize("options", [
    {"method": "bcfw", "gap_sampling": True}, {"method": "bcfw", "batch": 16, "average": True},
    {"method": "mp-bcfw", "deterministic": True}, {"method": "prox-bcfw"}])
def test_runs_go_on_as_they_were(options, tmp_path):
    risk = words()
    options |= {"lam": 0.3, "tol": 1e-9, "random_state": 2}

    def bits(result):
        return result.x.tobytes(), result.n_passes, result.history["lower_bound"].tobytes()

    whole = pb.minimize(risk, **options, max_iter=9)
    for n_jobs in (1, 2, 3):
        file = tmp_path / f"{n_jobs}.npz"
        for stop in (2, 5, 9):
            last = pb.minimize(risk, **options, max_iter=stop, checkpoint=file, n_jobs=n_jobs)
        assert bits(last) == bits(whole)


def test_memory_is_looked_at_after_every_batch():
    risk, free = words(), CachedBlocks(words(), L2(LAM), batch=8)
    free.place(LAM, 0.0, None)
    for k in range(4):
        free.place(LAM, 0.0, np.random.default_rng(k).normal(size=risk.dim)) if k else None
        free.exact_pass(np.arange(N))
    limit = 8 * 20 * risk.dim + 32 * N + int(0.8 * free.nbytes())
    held = CachedBlocks(risk, L2(LAM), batch=8, memory_limit=limit)
    held.place(LAM, 0.0, None)
    for _ in range(4):
        held.exact_pass(np.arange(N))
        assert held.nbytes() <= held._for_blocks


def test_slack_rescaling_and_further_labellings_ask_in_python():
    for core in CachedBlocks(words(rescaling="slack"), L2(LAM)), CachedBlocks(words(), L2(LAM), n_best=2):
        assert isinstance(core._pass, BatchPass)
