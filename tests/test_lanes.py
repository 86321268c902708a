"""Sweeps in two lanes: bits of any threads, an ascent whatever the examples, the point of the multipliers."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from reference.interrupts import Interrupted

import pybundle as pb
from pybundle.bundle._blocks import Blocks
from pybundle.bundle._lanes import Lanes
from pybundle.solvers.cached_blocks import CachedBlocks
from pybundle.solvers.objective import L2

N, DIM, LAM = 600, 40, 0.7
KINDS = ["random", "equal", "near", "opposite"]


def filled(kind, step="exact", lam=LAM):
    """Blocks with three planes each: of no relation, or (nearly) those of all others."""
    rng = np.random.default_rng(0)
    blocks = Blocks(N, DIM, None, step, 10)
    blocks.place(np.zeros(DIM), lam)
    for _ in range(3):
        plane = rng.normal(size=DIM) * (rng.random(DIM) < 0.4)
        slopes = {"random": rng.normal(size=(N, DIM)) * (rng.random((N, DIM)) < 0.3),
                  "equal": np.tile(plane, (N, 1)),
                  "near": plane + 1e-3 * rng.normal(size=(N, DIM)),
                  "opposite": np.where(np.arange(N)[:, None] % 2, plane, -plane)}[kind]
        slopes = sp.csr_array(slopes)
        slopes.indices, slopes.indptr = slopes.indices.astype(np.int32), slopes.indptr.astype(np.int32)
        blocks.learn(np.arange(N), rng.random(N) + 0.5, slopes)
    return blocks


def dual(blocks, lam=LAM):
    """D of the multipliers, and its point."""
    offset, phi, _ = blocks.copy().aggregate()
    return offset - 0.5 * phi @ phi / lam, -phi / lam


def sweeps(blocks, n, run=map, lanes=None):
    rng, lanes = np.random.default_rng(1), lanes or Lanes(blocks, is_wary=False)
    return [lanes.sweep(rng.permutation(N), k % 3 > 0, run) for k in range(n)], lanes.steps


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", ["exact", "pairwise", "frank-wolfe"])
def test_bits_do_not_depend_on_threads(kind, step):
    one = filled(kind, step)
    answers = sweeps(one, 12)
    for n_threads in (1, 2, 3):
        many = filled(kind, step)
        with ThreadPoolExecutor(n_threads) as pool:
            assert sweeps(many, 12, pool.map) == answers
        assert many.w.tobytes() == one.w.tobytes() and (many.offset, many.work) == (one.offset, one.work)
        for mine, others in zip(one.arrays()[:3], many.arrays()[:3], strict=True):
            assert mine.tobytes() == others.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lam", [0.01, 1.0, 1000.0])
def test_every_sweep_ascends_and_the_point_follows(kind, lam):
    blocks, before = filled(kind, lam=lam), 0.0
    rng, lanes = np.random.default_rng(1), Lanes(blocks)
    for k in range(20):
        lanes.sweep(rng.permutation(N), k % 2 > 0)
        value, w = dual(blocks, lam)
        assert value >= before - 1e-12 * abs(before)
        before = value
        np.testing.assert_allclose(blocks.w, w, rtol=1e-10, atol=1e-10 * abs(w).max())
        assert np.all(blocks.sizes(True) == np.bincount(
            blocks.arrays()[0], blocks.arrays()[2] > 0.0, N) + [blocks.block(i)[2][0] > 0.0 for i in range(N)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lam", [0.01, 1.0, 1000.0])
def test_examples_that_are_alike_cost_few_sweeps(kind, lam):
    """The dual of one lane after k sweeps is met in a quarter more, to 1e-5."""
    one, two = filled(kind, lam=lam), filled(kind, lam=lam)
    rng, again, lanes = np.random.default_rng(1), np.random.default_rng(1), Lanes(two)
    for k in (4, 12, 24):
        while one.tick < k:
            one.sweep(rng.permutation(N))
            one.forget(N)               # counts
        while two.tick < k + k // 4:
            lanes.sweep(again.permutation(N))
            two.forget(N)
        value = dual(one, lam)[0]
        assert dual(two, lam)[0] >= value - 1e-5 * abs(value)


def test_lanes_that_went_too_far_together_are_left_for_a_while():
    blocks = filled("opposite", lam=1.0)
    lanes, seen = Lanes(blocks), set()
    for _ in range(40):
        lanes.sweep(np.random.default_rng(0).permutation(N))
        seen.add(lanes.steps)
    assert min(seen) < 0 < max(seen)
    far = filled("random", lam=1e4)         # steps end at the borders: nothing to disturb
    lanes = Lanes(far, 8)
    lanes.sweep(np.arange(N))
    assert lanes.steps == Lanes(far).steps > 8


@pytest.mark.parametrize("late", [False, True])
def test_an_interrupt_leaves_the_point_of_the_multipliers(late):
    blocks = filled("random")
    lanes = Lanes(blocks, is_wary=False)
    executor = Interrupted(late)
    for _ in range(30):
        lanes.steps = 32                # in two lanes, whatever was met before
        with pytest.raises(KeyboardInterrupt):
            lanes.sweep(np.random.default_rng(2).permutation(N), False, executor.map)
        value, w = dual(blocks)             # whoever comes late finds that it is over
        np.testing.assert_allclose(blocks.w, w, atol=1e-11)
        assert blocks.offset == pytest.approx(value + 0.5 * LAM * w @ w)
    executor.join()
    assert dual(blocks)[0] == value
    (gap, *_), _ = sweeps(blocks, 1, lanes=lanes)
    assert gap >= 0.0 and dual(blocks)[0] >= value - 1e-12


def test_lanes_begin_with_steps_that_can_be():
    """A checkpoint may hold anything."""
    blocks = filled("random")
    assert [Lanes(blocks, steps).steps for steps in (-100, -3, 0, 5, 16, 1000)] == [-8, -3, 8, 5, 16, 32]


def test_rows_outside_are_refused_before_they_are_read():
    rows = np.arange(N)
    rows[3] = 10 ** 9
    with pytest.raises(IndexError, match=str(10 ** 9)):
        Lanes(filled("random")).sweep(rows)


def test_an_error_in_one_thread_ends_the_other():
    lanes = Lanes(filled("random"), is_wary=False)

    def failing(function, items):
        with ThreadPoolExecutor(1) as pool:
            helper = pool.submit(function)
            raise ZeroDivisionError(helper)

    with pytest.raises(ZeroDivisionError):
        lanes.sweep(np.arange(N), False, failing)


@pytest.mark.parametrize("settings", [{}, {"nonneg": np.arange(DIM) % 2 == 0}])
def test_other_sweeps_are_those_of_the_blocks(settings):
    """Few rows, many dimensions, signs, averages: one lane."""
    blocks = [filled("random").copy(**settings) for _ in range(2)]
    for each in blocks:
        each.place(np.zeros(DIM), LAM)
        if not settings:
            each.start_averages()
    rows = np.random.default_rng(0).permutation(N)
    assert Lanes(blocks[0]).sweep(rows) == blocks[1].sweep(rows)
    assert blocks[0].w.tobytes() == blocks[1].w.tobytes()


def words(n=400, seed=0):
    rng = np.random.default_rng(seed)
    sizes, centres = rng.integers(2, 7, n), rng.normal(size=(4, 5))
    Y = [rng.integers(0, 4, size).astype(np.int32) for size in sizes]
    return pb.risks.Structured(pb.models.Chain(4, 5), [centres[y] + rng.normal(size=(len(y), 5)) for y in Y], Y)


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
def test_runs_in_lanes_go_on_as_they_were(tmp_path, monkeypatch):
    risk, seen = words(), []
    options = {"lam": 0.3, "tol": 1e-6, "method": "prox-bcfw", "lanes": 2, "random_state": 2}
    monkeypatch.setattr(CachedBlocks, "__getstate__", _recorded(CachedBlocks.__getstate__, seen))

    def bits(result):
        return result.x.tobytes(), result.n_cached_passes, result.history["lower_bound"].tobytes()

    whole = pb.minimize(risk, **options, max_iter=12)
    for n_jobs in (1, 2, 3):
        file = tmp_path / f"{n_jobs}.npz"
        for stop in (3, 6, 12):
            last = pb.minimize(risk, **options, max_iter=stop, checkpoint=file, n_jobs=n_jobs)
        assert bits(last) == bits(whole)
    assert len(set(seen)) > 1           # steps had changed when a run was stopped


def test_a_state_from_before_lanes_can_be_taken_up():
    core = CachedBlocks(words(20), L2(1.0), lanes=2)
    old, state = CachedBlocks.__new__(CachedBlocks), core.__getstate__()
    del state["_lanes"]
    old.__setstate__(state)
    rows = np.arange(20)
    assert old._sweep(rows, False) == core.blocks.copy().sweep(rows)


def _recorded(getstate, seen):
    def recorded(self):
        state = getstate(self)
        seen.append(state["_lanes"])
        return state
    return recorded


def test_lanes_are_one_or_two():
    for bad in (0, 3):
        with pytest.raises(pb.ParameterError, match="lanes must"):
            pb.minimize(words(20), lam=1.0, method="prox-bcfw", lanes=bad)
    with pytest.raises(pb.ParameterError, match="lanes"):
        pb.minimize(words(20), lam=1.0, method="oca", lanes=2)
    assert pb.minimize(words(), lam=1.0, lanes=2).success
