"""Blocks of cached planes: the point follows the multipliers, steps ascend the dual, averages are averages."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle.solvers.block._bcfw import Blocks


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def random_planes(rng, n, dim, per_row, whole=False):
    """A plane for each of n rows: offsets (n,), slopes CSR."""
    slopes = sp.random(n, dim, density=per_row / dim, random_state=rng, format="csr")
    slopes.data = rng.integers(-3, 4, slopes.nnz).astype(float) if whole else rng.normal(size=slopes.nnz)
    slopes.sort_indices()
    slopes.eliminate_zeros()
    slopes.indices, slopes.indptr = slopes.indices.astype(np.int32), slopes.indptr.astype(np.int32)
    return rng.random(n), slopes


def visit(blocks, rows, offsets, slopes, towards=False):
    """Adds a plane to each of these blocks, then steps on them, `towards` the new planes or not."""
    places = blocks.add(rows, offsets, slopes)
    return blocks.steps(rows, places if towards else None)


def filled(rng, n=12, dim=9, rounds=4, per_row=4, step="exact", nonneg=None, whole=False, lam=0.7, kappa=0.0, cap=100):
    blocks = Blocks(n, dim, nonneg, step, 10, cap)
    centre = rng.normal(size=dim)
    blocks.set_point(kappa * centre / (lam + kappa), lam + kappa)
    for _ in range(rounds):
        rows = rng.permutation(n)
        visit(blocks, rows, *random_planes(rng, n, dim, per_row, whole), step == "frank-wolfe")
    return blocks, centre





def block(blocks, i):
    """Offsets, dense slopes and multipliers of block i, the truth first."""
    rows, offsets, _, slopes = blocks.arrays()
    sizes, mine = blocks.sizes(), rows == i
    alpha = storage(blocks)["alpha"][sizes[:i].sum():][:sizes[i]]
    return np.append(0.0, offsets[mine]), np.vstack([np.zeros(blocks.dim), slopes[mine].toarray()]), alpha


def made(n, offsets, slopes, alpha):
    """Blocks of n examples with as many planes each, and these multipliers."""
    blocks = Blocks(n, slopes.shape[1])
    blocks.add(np.repeat(np.arange(n), len(alpha) // n), offsets, slopes)
    blocks.assign(alpha)
    return blocks


def dual(blocks, lam, kappa=0.0, centre=None, nonneg=None):
    """min_w of lam/2 |w|^2 + kappa/2 |w - c|^2 + B + <phi, w>, over w_N >= 0, from the data of every block."""
    offset, phi = 0.0, np.zeros(blocks.dim)
    for i in range(blocks.n_blocks):
        offsets, slopes, alpha = block(blocks, i)
        assert alpha.min() >= 0.0 and alpha.sum() == pytest.approx(1.0, abs=1e-12)
        offset += alpha @ offsets
        phi += alpha @ slopes
    c = np.zeros(blocks.dim) if centre is None else centre
    w = (kappa * c - phi) / (lam + kappa)
    if nonneg is not None:
        w = np.where(nonneg, np.maximum(w, 0.0), w)
    value = 0.5 * lam * w @ w + 0.5 * kappa * (w - c) @ (w - c) + offset + phi @ w
    return value, w, offset, phi


@pytest.mark.parametrize("step", ["exact", "pairwise", "frank-wolfe"])
@pytest.mark.parametrize("kappa", [0.0, 2.0])
@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("per_row", [2, 9])
def test_point_follows_the_multipliers_and_every_sweep_ascends(step, kappa, signs, per_row, rng):
    nonneg = rng.random(9) < 0.5 if signs else None
    blocks, centre = filled(rng, step=step, kappa=kappa, nonneg=nonneg, per_row=per_row)
    before = -np.inf
    for _ in range(10):
        value, w, offset, phi = dual(blocks, 0.7, kappa, centre, nonneg)
        assert value >= before - 1e-12
        before = value
        np.testing.assert_allclose(blocks.w, w, atol=1e-12)
        assert blocks.offset == pytest.approx(offset, abs=1e-12)
        np.testing.assert_allclose((0.7 + kappa) * blocks.unclipped(), kappa * centre - phi, atol=1e-11)
        gap = blocks.sweep(rng.permutation(12))
        assert gap >= 0.0
    np.testing.assert_allclose(blocks.aggregate().slope, dual(blocks, 0.7, kappa, centre, nonneg)[3], atol=1e-12)


def size_of(blocks):
    """sum_iq alpha_iq |psi_iq|, of which the error of the aggregate is a multiple."""
    return blocks.aggregate().slope_error / (2.02 * (blocks.n_planes + 6.0) * 2.0**-53)


def storage(blocks):
    """The arrays that a pickle holds."""
    _, _, _, arrays, _ = blocks.__reduce__()[1]
    return arrays


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("per_row", [2, 9])
def test_blocks_follow_a_metric(signs, per_row, rng):
    """Point, Gram matrices and dual are those of the inner product sum_j m_j a_j b_j, as m changes."""
    nonneg = rng.random(9) < 0.5 if signs else None
    lam, kappa, centre = 0.7, 0.4, np.abs(rng.normal(size=9))
    blocks, met = Blocks(12, 9, nonneg), []

    def value(metric):
        _, w, offset, phi = dual(blocks, lam)
        w = (kappa * centre - metric * phi) / (lam + kappa)
        w = w if nonneg is None else np.where(nonneg, np.maximum(w, 0.0), w)
        terms = lam * w**2 + kappa * (w - centre) ** 2
        return 0.5 * (terms / metric).sum() + offset + phi @ w, w

    for metric in rng.uniform(0.01, 1.0, (3, 9)):
        blocks.weigh(metric)
        blocks.set_point((kappa * centre - metric * blocks.aggregate().slope) / (lam + kappa), lam + kappa)
        before = value(metric)[0]
        for _ in range(4):
            met.append((rng.permutation(12), *random_planes(rng, 12, 9, per_row)))
            visit(blocks, *met[-1])
            blocks.sweep(rng.permutation(12))
            after, w = value(metric)
            assert after >= before - 1e-12
            np.testing.assert_allclose(blocks.w, w, atol=1e-12)
            before = after
        products = [slopes @ (metric * slopes).T for slopes in (block(blocks, i)[1] for i in range(12))]
        np.testing.assert_allclose(storage(blocks)["gram"], np.concatenate([G.ravel() for G in products]), atol=1e-12)
        # sizes of slopes are Euclidean, as rounding errors are
        _, _, alpha, slopes = blocks.arrays()
        assert size_of(blocks) == pytest.approx(alpha @ np.sqrt(slopes.multiply(slopes).sum(axis=1)))
        n_planes = blocks.n_planes
        blocks.add(*met[0])                       # planes are known again whatever the metric is
        assert blocks.n_planes == n_planes
        twin, order = pickle.loads(pickle.dumps(blocks)), rng.permutation(12)
        assert twin.sweep(order) == blocks.sweep(order)
        np.testing.assert_array_equal(twin.w, blocks.w)
    with pytest.raises(ValueError, match="metric"):
        blocks.weigh(np.ones(3))
    restore, arguments = blocks.__reduce__()[:2]
    for wrong in (np.ones(3), np.zeros(9), np.full(9, np.nan)):
        with pytest.raises(ValueError, match="metric"):
            restore(*arguments[:-1], {**arguments[-1], "metric": wrong})


def test_sweeps_reach_the_optimum_of_the_master(rng):
    lam = 0.7
    blocks, _ = filled(rng, lam=lam)
    for _ in range(300):
        blocks.sweep(np.arange(12))
    data = [block(blocks, i) for i in range(12)]
    A, b = np.vstack([d[1] for d in data]), np.concatenate([d[0] for d in data])
    parts = np.repeat(np.arange(12), [len(d[0]) for d in data])
    best = pb.qp.solve_simplex_qp(A @ A.T / lam, b, parts, tol=1e-10)
    assert dual(blocks, lam)[0] == pytest.approx(-best.value, rel=1e-8)
    assert blocks.sweep(np.arange(12)) <= 1e-5


def test_gaps_add_up_to_the_gap_of_the_cached_problem(rng):
    blocks, _ = filled(rng)
    value, w, *_ = dual(blocks, 0.7)
    model = sum(np.max(offsets + slopes @ w) for offsets, slopes, _ in (block(blocks, i) for i in range(12)))
    gaps = [np.max(offsets + slopes @ w) - alpha @ (offsets + slopes @ w)
            for offsets, slopes, alpha in (block(blocks, i) for i in range(12))]
    assert 0.35 * w @ w + model - value == pytest.approx(sum(gaps), abs=1e-12)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("per_row", [3, 9])
def test_equal_planes_are_stored_once_whatever_their_storage(whole, per_row, rng):
    blocks = Blocks(5, 9)
    blocks.set_point(np.zeros(9), 1.0)
    offsets, slopes = random_planes(rng, 5, 9, per_row, whole)
    for _ in range(3):
        blocks.add(np.arange(5), offsets, slopes)
    assert blocks.n_planes == 5
    blocks.add(np.arange(5), offsets + 1.0, slopes)
    assert blocks.n_planes == 10
    for i in range(5):
        np.testing.assert_array_equal(block(blocks, i)[1][1], slopes[[i]].toarray()[0])
    empty = sp.csr_array((5, 9))
    empty.indices, empty.indptr = empty.indices.astype(np.int32), empty.indptr.astype(np.int32)
    blocks.add(np.arange(5), np.zeros(5), empty)          # the truth itself
    assert blocks.n_planes == 10


@pytest.mark.parametrize("step", ["exact", "frank-wolfe"])
def test_a_full_block_keeps_its_point(step, rng):
    blocks, _ = filled(rng, n=3, rounds=40, cap=6, step=step)
    assert blocks.sizes().max() <= 6
    _, w, offset, _ = dual(blocks, 0.7)
    np.testing.assert_allclose(blocks.w, w, atol=1e-11)
    assert blocks.offset == pytest.approx(offset, abs=1e-11)


def test_idle_planes_are_forgotten_and_planes_in_use_are_kept(rng):
    blocks, _ = filled(rng, rounds=6)
    used = sum(int((block(blocks, i)[2][1:] > 0.0).sum()) for i in range(12))
    for _ in range(5):
        for _ in range(50):
            blocks.sweep(np.arange(12))
        blocks.forget(2)
    value = dual(blocks, 0.7)[0]
    kept = sum(int((block(blocks, i)[2][1:] > 0.0).sum()) for i in range(12))
    assert kept <= blocks.n_planes < 72 and used
    assert dual(blocks, 0.7)[0] == value
    np.testing.assert_allclose(blocks.w, dual(blocks, 0.7)[1], atol=1e-11)


@pytest.mark.parametrize("cap", [100, 3])
@pytest.mark.parametrize("signs", [False, True])
def test_planes_leave_a_working_set_but_stay_in_the_point(signs, cap, rng):
    nonneg = rng.random(9) < 0.5 if signs else None
    blocks = Blocks(3, 9, nonneg, "frank-wolfe", 10, cap, 2)
    blocks.set_point(np.zeros(9), 0.7)
    assert blocks.sweep(np.arange(3)) == 0.0 and not blocks.w.any()         # the truth is not in it
    merged = 0
    for _ in range(12):
        rows = rng.permutation(3)
        visit(blocks, rows, *random_planes(rng, 3, 9, 4), True)
        before = dual(blocks, 0.7, nonneg=nonneg)[0]
        blocks.sweep(rng.permutation(3))
        value, w, _, phi = dual(blocks, 0.7, nonneg=nonneg)
        assert value >= before - 1e-12
        np.testing.assert_allclose(blocks.w, w, atol=1e-11)
        np.testing.assert_allclose(0.7 * blocks.unclipped(), -phi, atol=1e-11)
        last, sizes = storage(blocks)["last"], blocks.sizes()
        for one in np.split(last, np.cumsum(sizes)[:-1]):
            known = one[one >= 0]
            assert len(known) <= min(cap, 6) and known.min() > blocks.tick - 2 and one[0] == -1
            assert len(one) - len(known) <= 2       # the truth, and all that have left
        merged, twin = blocks.n_merged, pickle.loads(pickle.dumps(blocks))
        blocks.forget(2)
        assert blocks.n_merged == merged            # they have left already
        twin.forget(2)
        order = rng.permutation(3)
        assert twin.sweep(order) == blocks.sweep(order) and twin.w.tobytes() == blocks.w.tobytes()
    assert merged > 0
    blocks.shrink(0.0)                              # a limit of memory moves no point
    assert blocks.sizes().max() <= 2
    np.testing.assert_allclose(blocks.w, dual(blocks, 0.7, nonneg=nonneg)[1], atol=1e-11)


def test_averages_are_those_of_the_points(rng):
    blocks = Blocks(4, 6, None, "frank-wolfe")
    blocks.set_point(np.zeros(6), 0.5)
    blocks.start_averages()
    points = [[], []]
    for turn in range(5):
        for i in rng.permutation(4):
            offsets, slopes = random_planes(rng, 1, 6, 3)
            visit(blocks, np.array([i]), offsets, slopes, True)
            points[0].append((blocks.w.copy(), blocks.offset))
        for i in rng.permutation(4) if turn % 2 else []:
            blocks.sweep(np.array([i]))
            points[1].append((blocks.w.copy(), blocks.offset))
    for k in range(2):
        w, offset, total = np.zeros(6), 0.0, 0
        for j, (point, b) in enumerate(points[k], 1):
            w, offset, total = w + 2 * j * point, offset + 2 * j * b, total + 2 * j
        mean, mean_offset = blocks.average(k)
        np.testing.assert_allclose(mean, w / total, atol=1e-12)
        assert mean_offset == pytest.approx(offset / total, abs=1e-12)


def test_copies_and_pickles_go_on_alike(rng):
    blocks, _ = filled(rng, rounds=5)
    before = blocks.aggregate()
    for other in (blocks.copy(), pickle.loads(pickle.dumps(blocks))):
        assert other.n_planes == blocks.n_planes
        again = other.aggregate()
        assert again.offset == pytest.approx(before.offset, abs=1e-12)
        np.testing.assert_allclose(again.slope, before.slope, atol=1e-12)
        other.set_point(-again.slope / 0.7, 0.7)
        value = dual(other, 0.7)[0]
        other.sweep(np.arange(12))
        assert dual(other, 0.7)[0] >= value - 1e-12
        assert other.w.tobytes() != blocks.w.tobytes()
        for i in range(12):
            assert sorted(block(other, i)[0]) == sorted(block(blocks, i)[0])


def test_multipliers_that_sum_to_more_than_one_are_scaled_down():
    """A checkpoint or rounding may bring some; sums of at most 1 are what makes a bound."""
    n, dim, rng = 60, 20, np.random.default_rng(1)
    offsets, slopes = rng.random(2 * n), sp.csr_array(rng.normal(size=(2 * n, dim)))
    alpha = rng.random(2 * n) / 2
    blocks = made(n, offsets, slopes, alpha)
    function, (*head, storage, point) = blocks.__reduce__()
    blocks = function(*head, storage | {"alpha": 3.0 * storage["alpha"]}, point)
    plane = blocks.aggregate()
    alpha = 3.0 * alpha / np.maximum(np.repeat(3.0 * alpha.reshape(n, 2).sum(axis=1), 2), 1.0)
    assert plane.offset == pytest.approx(alpha @ offsets) and blocks.offset == plane.offset
    np.testing.assert_allclose(plane.slope, alpha @ slopes, atol=1e-12)
    assert size_of(blocks) == pytest.approx(alpha @ np.sqrt(slopes.multiply(slopes).sum(axis=1)))
    for i in range(n):
        assert block(blocks, i)[2].sum() == pytest.approx(1.0, abs=1e-12)


def test_stored_zeros_are_left_out(rng):
    """They would count in memory and names, and be gone after a checkpoint."""
    blocks, offsets = Blocks(4, 9), rng.random(4)
    whole = sp.csr_array(np.ones((4, 9)))
    whole.data = np.where(rng.random(36) < 0.3, rng.normal(size=36), np.where(rng.random(36) < 0.5, 0.0, -0.0))
    whole.data[18:27] = 0.0             # a row of nothing else
    whole.indices, whole.indptr = whole.indices.astype(np.int32), whole.indptr.astype(np.int32)
    data = whole.data.tobytes()
    places = blocks.add(np.arange(4), offsets, whole)
    assert whole.data.tobytes() == data
    other = pickle.loads(pickle.dumps(blocks))
    none = whole.copy()
    none.eliminate_zeros()
    assert none.nnz < 20 and other.bytes == blocks.bytes and np.all(other.sizes() == 2)
    for each in (blocks, other):
        for slopes in (whole, none):
            assert np.all(each.add(np.arange(4), offsets, slopes) == places) and each.n_planes == 4
        np.testing.assert_array_equal(np.concatenate([block(each, i)[1][1:] for i in range(4)]), whole.toarray())


def test_bits_repeat():
    runs = []
    for _ in range(2):
        rng = np.random.default_rng(3)
        blocks, _ = filled(rng, rounds=6, kappa=1.0)
        for _ in range(5):
            blocks.sweep(rng.permutation(12))
        runs.append((blocks.w.tobytes(), blocks.offset))
    assert runs[0] == runs[1]


def test_rows_outside_are_refused(rng):
    blocks = Blocks(3, 4)
    blocks.set_point(np.zeros(4), 1.0)
    with pytest.raises(ValueError, match=r"0\.\.2"):
        blocks.sweep(np.array([3]))
    with pytest.raises(ValueError, match=r"0\.\.2"):
        blocks.add(np.array([-1]), *random_planes(rng, 1, 4, 2))
    with pytest.raises(ValueError, match="one length"):
        blocks.add(np.array([0, 1]), *random_planes(rng, 1, 4, 2))


@pytest.mark.parametrize("weighted", [False, True])
def test_squares_of_merged_slopes_that_cancel_are_not_negative(weighted):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        alpha = rng.random(3)
        alpha *= 0.999 / alpha.sum()
        slopes = rng.normal(size=(3, 2))
        slopes[-1] = -(alpha[:-1] @ slopes[:-1]) / alpha[-1]
        blocks = made(1, rng.random(3), sp.csr_array(slopes), alpha)
        if weighted:
            blocks.weigh(rng.uniform(0.1, 1.0, 2))
        blocks.shrink(0.0)
        assert blocks.n_planes == 1 and 0.0 <= storage(blocks)["gram"][-1] < 1e-28
        assert np.isfinite(blocks.aggregate().slope_error)
        assert pickle.loads(pickle.dumps(blocks)).n_planes == 1


def test_a_limit_merges_no_more_than_it_must(rng):
    blocks, _ = filled(rng, n=40, rounds=6)
    before = blocks.aggregate()
    few = [blocks.n_planes]
    while blocks.n_planes > 60:
        assert blocks.shrink(0.97 * blocks.bytes)
        few.append(blocks.n_planes)
    few = np.array(few)
    assert few[1] == 240        # room never used goes first
    assert len(few) > 10 and (few[1:] > 0.85 * few[:-1]).all()
    again = blocks.aggregate()
    assert again.offset == pytest.approx(before.offset, abs=1e-12)
    np.testing.assert_allclose(again.slope, before.slope, atol=1e-12)
