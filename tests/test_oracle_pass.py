"""Exact passes in compiled code: the bits of batches asked for in Python, in accord with the point when they end."""

import ctypes
import signal

import numpy as np
import pytest
import scipy.sparse as sp
from reference.interrupts import interrupted_once
from scipy import LowLevelCallable

import pybundle as pb
from pybundle.models.batch_oracle import batched
from pybundle.prox.of_norm import Square
from pybundle.solvers.block._bcfw import Blocks
from pybundle.solvers.block.cached_blocks import CachedBlocks
from pybundle.solvers.problem.problem import Problem

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


def rows(storage="dense", n_classes=4, **settings):
    """Noisy points of some classes: dense with a constant feature, or CSR that is read as it stands, or packed."""
    rng = np.random.default_rng(4)
    y, d = rng.integers(n_classes, size=N), 300 if storage == "wide" else 9
    X = rng.normal(size=(n_classes, d))[y] + 2.0 * rng.normal(size=(N, d))
    X = X if storage in ("dense", "uint8") else sp.csr_array(np.where(np.abs(X) > 3.0, X, 0.0))
    X = np.clip(40.0 * X + 100.0, 0, 255).astype(np.uint8) if storage == "uint8" else X
    weight = np.arange(N) % 4 / 2.0
    if n_classes == 2:
        return pb.risks.BinaryHinge(X, 2 * y - 1, sample_weight=weight, bias=1.0)
    return pb.risks.MulticlassHinge(X, y, sample_weight=weight, **settings)


RISKS = {
    "rows": lambda: rows(bias=1.0),
    "bytes": lambda: rows("uint8", scale=1.0 / 255.0),
    "csr rows": lambda: rows("csr", loss=np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))),
    "wide rows": lambda: rows("wide"),
    "two classes": lambda: rows(n_classes=2),
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


def asked_in_python(risk):
    """The same risk with an oracle whose `planes` was overridden, so that batches are asked for in Python."""
    oracle = risk.oracle()
    oracle.planes = oracle.planes
    assert oracle.compiled(4) is None
    risk.oracle = lambda: oracle
    return risk


FORMS = pytest.mark.parametrize("form", [lambda risk: risk, asked_in_python], ids=["compiled", "python"])


def state(blocks):
    return (blocks.w.tobytes(), blocks.offset, blocks.n_planes, blocks.bytes, blocks.work,
            *(part.tobytes() for part in blocks.arrays()[:3]), abs(blocks.arrays()[3]).sum())


def dual(blocks, lam=LAM):
    plane = blocks.copy().aggregate()
    return plane.offset - 0.5 * plane.slope @ plane.slope / lam, -plane.slope / lam


@pytest.mark.parametrize("name", RISKS)
@pytest.mark.parametrize(("batch", "step"), [(1, "frank-wolfe"), (7, "exact"), (32, "pairwise"), (1000, "exact")])
def test_bits_are_those_of_batches_in_python(name, batch, step):
    cores = []
    assert RISKS[name]().oracle().compiled(batch) is not None
    for risk in (RISKS[name](), asked_in_python(RISKS[name]())):
        core = CachedBlocks(risk, Problem(Square(LAM)), batch=batch, step=step, cap=4, average=True)
        core.place(LAM, 0.3, np.ones(core.dim))
        rng = np.random.default_rng(2)
        core.answers = []
        for k in range(5):
            order = rng.permutation(N) if k % 2 else rng.integers(N, size=N // 3)     # sampled: some come twice
            core.answers.append(core.oracle_pass(order))
            core.forget()
        cores.append(core)
    one, two = cores
    np.testing.assert_allclose(one.answers, two.answers, rtol=1e-13)        # sums of pieces there
    assert one.visits == two.visits == 2 * N + 3 * (N // 3)
    assert state(one.blocks) == state(two.blocks)
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(
        (one.blocks.average(0),), (two.blocks.average(0),), strict=True))
    assert one.answers[0] > 0.0


def test_an_example_that_fails_is_named_and_nothing_is_lost():
    lines = Lines(bad=100)
    core = CachedBlocks(lines.risk, Problem(Square(LAM)), batch=8)
    core.place(LAM, 0.0, None)
    with pytest.raises(pb.OracleError, match="code 7 for example 100"):
        core.oracle_pass(np.arange(N))
    assert core.visits == 96
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
    for form in (lambda risk: risk, asked_in_python):
        core = CachedBlocks(form(risk), Problem(Square(LAM)), batch=8)
        core.place(LAM, 0.3, centre)
        with pytest.raises(pb.NumericalError, match="sentence 100 has") as caught:
            core.oracle_pass(np.arange(N))
        texts.add(str(caught.value))
        assert core.visits == 96
        phi = core.blocks.copy().aggregate().slope
        np.testing.assert_allclose(core.w, (0.3 * centre - phi) / (LAM + 0.3), rtol=1e-12, atol=1e-12)
        core.place(LAM, 0.0, None)
        assert core.oracle_pass(np.arange(N)) > 0.0
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
        forms = (lambda risk: risk, asked_in_python)
        cores = [CachedBlocks(form(risk), Problem(Square(LAM)), batch=64) for form in forms]
        for core in cores:
            core.place(LAM, 0.0, None)
            core.answer = core.oracle_pass(np.full(64, 5))
        assert cores[0].answer == cores[1].answer and state(cores[0].blocks) == state(cores[1].blocks)


def test_rows_outside_are_refused_before_they_are_read():
    rows = np.arange(N)
    rows[3] = 10 ** 9
    core = CachedBlocks(words(), Problem(Square(LAM)))
    with pytest.raises(ValueError, match=str(10 ** 9)):
        core.oracle_pass(rows)
    assert core.oracle_pass(np.arange(0)) == 0.0


def test_batches_have_examples():
    with pytest.raises(ValueError, match="batch"):
        Blocks(N, words().dim).ask(words().oracle().compiled(4), np.arange(N), 0)


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
@pytest.mark.parametrize("options", [
    {"method": "bcfw gap_sampling=True"}, {"method": "bcfw batch=16 average=True"},
    {"method": "mp-bcfw visit=all"}, {"method": "prox-bcfw"}])
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
    """Asked in Python, it is seen whenever planes are made; compiled passes end with the same planes."""
    seen, ends, risk, own = [], [], asked_in_python(words()), 87_000
    oracle, planes = risk.oracle(), risk.oracle().planes
    oracle.planes = lambda *batch: seen.append(held.nbytes) or planes(*batch)
    for which in (words(), risk):
        limit = own + CachedBlocks(which, Problem(Square(LAM)), batch=8).passes.working_bytes()
        held = CachedBlocks(which, Problem(Square(LAM)), batch=8, memory_limit=limit)
        for k in range(6):
            held.place(LAM, 0.5, np.random.default_rng(k).normal(size=risk.dim))
            held.oracle_pass(np.arange(N))
            held.forget()
            assert held.nbytes <= own and held.visits == (k + 1) * N
        ends.append((state(held.blocks), held.n_merged))
    assert max(seen) <= own and ends[0] == ends[1] and held.n_merged > 0


def test_slack_rescaling_is_asked_in_python():
    assert words(rescaling="slack").oracle().compiled(4) is None


@pytest.mark.parametrize("where", ["class", "object"])
@pytest.mark.parametrize("method", ["planes", "_planes"])
@pytest.mark.parametrize("name", ["dense", "rows", "trees", "weights", "functions"])
def test_methods_that_were_overridden_are_asked(name, method, where):
    """Half of the losses: planes of the parent would be no bounds."""
    oracle = RISKS[name]().oracle()

    def halved(self, rows, labellings):
        losses, slopes = getattr(type(oracle), method)(self, rows, labellings)
        return 0.5 * losses, slopes

    half = object.__new__(type("Half", (type(oracle),), {method: halved} if where == "class" else {}))
    vars(half).update(vars(oracle))
    if where == "object":
        setattr(half, method, lambda rows, labellings: halved(half, rows, labellings))
    assert half.compiled(4) is None and oracle.compiled(4) is not None


def test_proxies_are_asked_themselves():
    """An object in front of an oracle that hands on all it does not know is asked for one example after another."""
    class Proxy:
        def __init__(self, oracle):
            self._oracle = oracle

        def __getattr__(self, name):
            return getattr(self._oracle, name)

        def plane(self, i, labelling):
            loss, slope = self._oracle.plane(i, labelling)
            return 0.5 * loss, 0.5 * slope

    oracle = rows().oracle()
    proxy, picked = batched(Proxy(oracle)), (np.arange(5), np.arange(5) % 4)
    assert proxy.compiled(4) is None and oracle.compiled(4) is not None
    np.testing.assert_array_equal(proxy.planes(*picked)[0], 0.5 * oracle.planes(*picked)[0])


@pytest.mark.parametrize("name", ["dense", "rows", "csr rows", "two classes"])
@FORMS
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_scores_beyond_the_range_of_numbers_are_refused(name, form):
    core = CachedBlocks(form(RISKS[name]()), Problem(Square(1.0)), batch=8)
    core.place(1e-300, 1.0, np.full(core.dim, 1e308))
    with pytest.raises(pb.NumericalError, match=r"example \d+ has scores beyond"):
        core.oracle_pass(np.arange(N))
    assert core.visits < N


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers of the system")
def test_long_passes_can_be_interrupted():
    core = CachedBlocks(words(), Problem(Square(LAM)), batch=4)
    core.place(LAM, 0.0, None)
    order = np.tile(np.arange(N), 1000)
    with interrupted_once(lambda: core.blocks.visits > 0):
        core.oracle_pass(order)
    assert 0 < core.visits < len(order) and core.visits % 4 == 0
    np.testing.assert_allclose(core.w, dual(core.blocks)[1], atol=1e-12)


def test_states_of_risks_that_fail_are_for_nobody_else():
    """Without a name a state might be that of another risk, whose planes are no bounds here."""
    with pytest.raises(pb.OracleError) as caught:
        pb.minimize(Lines(100, 12 * N).risk, lam=0.1, method="bcfw", tol=1e-12)
    with pytest.raises(pb.ParameterError, match="warm_start"):
        pb.minimize(Lines().risk, lam=0.1, method="bcfw", max_iter=2, warm_start=caught.value.result)
