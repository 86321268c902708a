"""Bundle: Gram matrix, dropping, aggregation, dense against sparse storage, saving."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csc_array, csr_array

import pybundle as pb
from pybundle.bundle import Bundle, estimate_bytes, planes_within
from pybundle.bundle._dense import DensePlanes
from pybundle.bundle.bundle import survivors
from pybundle.core.plane import Planes


def some_planes(rng, n_parts, dim, density=1.0):
    slopes = rng.normal(size=(n_parts, dim)) * (rng.random((n_parts, dim)) < density)
    return Planes(rng.normal(size=n_parts), rng.uniform(0.1, 1.0, n_parts), slopes)


def filled(storage, rng, rounds=7, n_parts=3, dim=23, density=1.0):
    bundle = Bundle(dim, n_parts, storage)
    for _ in range(rounds):
        bundle.append(some_planes(rng, n_parts, dim, density))
    return bundle


def slopes_of(bundle):
    return np.array([bundle.combine(row)[0] for row in np.eye(bundle.n_planes)])


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_gram_is_that_of_the_slopes_after_any_drops(storage):
    rng = np.random.default_rng(0)
    bundle = filled(storage, rng)
    for _ in range(6):
        bundle.drop(rng.choice(bundle.n_planes, size=4, replace=False))
        bundle.append(some_planes(rng, 3, 23))
        A = slopes_of(bundle)
        np.testing.assert_allclose(bundle.H, A @ A.T, rtol=1e-12, atol=1e-12)


def test_dense_and_sparse_storage_agree():
    dense, sparse = (filled(s, np.random.default_rng(1), density=0.2) for s in ("dense", "sparse"))
    rng = np.random.default_rng(2)
    for _ in range(5):
        gone = rng.choice(dense.n_planes, size=5, replace=False)
        dense.drop(gone)
        sparse.drop(gone)
        planes = some_planes(rng, 3, 23, 0.2)
        dense.append(planes)
        sparse.append(planes._replace(slopes=csr_array(planes.slopes)))
    w, beta = rng.normal(size=23), rng.random(dense.n_planes)
    np.testing.assert_array_equal(dense.parts, sparse.parts)
    np.testing.assert_allclose(dense.H, sparse.H, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(dense.dot(w), sparse.dot(w), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(dense.combine(beta)[0], sparse.combine(beta)[0], rtol=1e-12, atol=1e-13)


def test_storage_is_chosen_by_density():
    rng = np.random.default_rng(0)
    assert filled("auto", rng, dim=500, density=0.02).is_sparse
    assert not filled("auto", rng, dim=500, density=0.5).is_sparse


@given(st.integers(1, 40), st.data())
def test_survivors_fill_holes_from_the_end(n, data):
    gone = data.draw(st.sets(st.integers(0, n - 1)))
    order = survivors(n, sorted(gone))
    assert sorted(order) == sorted(set(range(n)) - gone)
    assert all(order[k] >= k for k in range(len(order)))


def test_copies_and_zero_planes_are_not_stored():
    rng = np.random.default_rng(3)
    bundle, planes = Bundle(5, 2, "dense"), some_planes(rng, 2, 5)
    bundle.append(planes)
    bundle.settle(np.zeros(2))
    bundle.append(planes)
    assert bundle.n_planes == 2
    assert (bundle.idle == 0).all()
    bundle.append(Planes(np.zeros(2), np.zeros(2), np.zeros((2, 5))), slack=True)
    assert bundle.n_planes == 2


def test_a_parallel_plane_with_another_offset_is_stored():
    bundle = Bundle(2, 1, "dense")
    bundle.append(Planes(np.ones(1), np.array([1.0]), np.array([[1.0, 0.0]])))
    bundle.append(Planes(np.ones(1), np.array([2.0]), np.array([[1.0, 0.0]])))
    assert bundle.n_planes == 2


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_nearly_equal_slopes_are_two_planes(storage):
    """Distances in the Gram matrix cancel: slopes that differ by 1e-9 look equal in it."""
    slope = np.random.default_rng(0).normal(size=(1, 50))
    bundle, one = Bundle(50, 1, storage), np.ones(1)
    for shift in (0.0, 1e-9, 1e-15):
        bundle.append(Planes(one, one, slope + shift))
    assert bundle.n_planes == 3
    for shift in (0.0, 1e-9, 1e-15):                     # the same labelling again: equal to the last bit
        bundle.append(Planes(one, one, slope + shift))
    assert bundle.n_planes == 3


def test_copies_are_found_after_drops_whatever_the_products_round_to():
    rng = np.random.default_rng(1)
    for storage in ("dense", "sparse"):
        bundle, old = Bundle(301, 3, storage), [some_planes(rng, 3, 301) for _ in range(9)]
        for planes in old:
            bundle.append(planes)
        bundle.drop([0, 4])
        for planes in old:
            bundle.append(planes)
        assert bundle.n_planes == 27


def test_csr_slopes_with_repeated_entries():
    twice = csr_array((np.array([1.0, 2.0, 5.0]), np.array([0, 0, 2]), np.array([0, 3])), shape=(1, 3))
    bundle = Bundle(3, 1, "sparse")
    bundle.append(Planes(np.ones(1), np.ones(1), twice))
    assert bundle.H.tolist() == [[34.0]] and twice.nnz == 3


@pytest.mark.parametrize(("arguments", "kind", "words"), [
    ((-1, 1), pb.ParameterError, "dim must be an integer >= 1, got -1"),
    ((1, 0), pb.ParameterError, "n_parts must be an integer >= 1, got 0"),
    ((1.5, 1), pb.InputTypeError, "dim must be an integer"),
    ((1, 1, "full"), pb.ParameterError, "storage must be one of 'auto'"),
])
def test_arguments_are_checked(arguments, kind, words):
    with pytest.raises(kind, match=words):
        Bundle(*arguments)


def test_saving_to_a_bad_path(tmp_path):
    bundle = filled("dense", np.random.default_rng(7))
    for path in (tmp_path / "nowhere" / "bundle.npz", 3.5):
        with pytest.raises(pb.StateError, match="path must name a file that can be written"):
            bundle.save(path)


def test_a_file_with_wild_indices_is_refused(tmp_path):
    filled("sparse", np.random.default_rng(7), density=0.3).save(tmp_path / "bundle.npz")
    with np.load(tmp_path / "bundle.npz") as file:
        arrays = dict(file)
    arrays["slopes_indices"][0] = 10**6
    np.savez(tmp_path / "wild.npz", **arrays)
    (tmp_path / "empty.npz").write_bytes(b"")
    for name, words in (("wild.npz", "not a bundle"), ("empty.npz", "not a readable"), ("none.npz", "No such file")):
        with pytest.raises(pb.StateError, match=words):
            Bundle.load(tmp_path / name)


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("cap", [15, 9, 6])
def test_a_hard_cap_keeps_the_lower_bound(storage, cap):
    rng = np.random.default_rng(4)
    bundle = filled(storage, rng, rounds=8)
    beta = rng.random(bundle.n_planes) * (rng.random(bundle.n_planes) < 0.7)
    beta /= np.bincount(bundle.parts, beta)[bundle.parts]
    bundle.settle(beta)
    phi, offset = bundle.combine(beta)
    bundle.shrink_to(cap)
    assert bundle.n_planes <= cap
    after = bundle.combine(bundle.beta)
    np.testing.assert_allclose(after[0], phi, rtol=1e-12, atol=1e-12)
    assert after[1] == pytest.approx(offset, rel=1e-12)
    A = slopes_of(bundle)
    np.testing.assert_allclose(bundle.H, A @ A.T, rtol=1e-11, atol=1e-11)


def test_centre_products_follow_drops_appends_and_aggregates():
    rng = np.random.default_rng(5)
    bundle = filled("dense", rng)
    c = rng.normal(size=23)
    bundle.move_centre(c)
    bundle.drop([0, 5, 20])
    bundle.append(some_planes(rng, 3, 23))
    beta = np.full(bundle.n_planes, 0.1)
    bundle.settle(beta)
    bundle.shrink_to(8)
    np.testing.assert_allclose(bundle.products, slopes_of(bundle) @ c, rtol=1e-11, atol=1e-12)


def test_prune_takes_only_planes_idle_for_too_long():
    rng = np.random.default_rng(6)
    bundle = filled("dense", rng, rounds=2, n_parts=1)
    for _ in range(3):
        bundle.settle(np.array([0.0, 1.0]))
    bundle.prune(3)
    assert bundle.n_planes == 2
    bundle.prune(2)
    assert bundle.n_planes == 1 and bundle.beta[0] == 1.0


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_save_and_load(tmp_path, storage):
    bundle = filled(storage, np.random.default_rng(7), density=0.3)
    bundle.settle(np.random.default_rng(8).random(bundle.n_planes))
    bundle.save(tmp_path / "bundle.npz")
    with np.load(tmp_path / "bundle.npz", allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)
    again = Bundle.load(tmp_path / "bundle.npz")
    assert again.is_sparse == bundle.is_sparse
    for name in ("H", "offsets", "parts", "beta", "idle"):
        np.testing.assert_array_equal(getattr(again, name), getattr(bundle, name))
    np.testing.assert_array_equal(slopes_of(again), slopes_of(bundle))
    again.append(some_planes(np.random.default_rng(9), 3, 23))
    assert again.n_planes == bundle.n_planes + 3


@pytest.mark.parametrize("storage", ["auto", "dense", "sparse"])
def test_an_empty_bundle_keeps_its_storage(tmp_path, storage):
    bundle = Bundle(20, 2, storage)
    bundle.save(tmp_path / "bundle.npz")
    planes = some_planes(np.random.default_rng(3), 2, 20, density=1.0)
    for again in (bundle.copy(), Bundle.load(tmp_path / "bundle.npz"), pickle.loads(pickle.dumps(bundle))):
        again.append(planes)
        assert again.storage == storage and again.is_sparse == (storage == "sparse")


def test_a_file_that_is_no_bundle_is_refused(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(pb.StateError, match="not a file of pybundle bundles"):
        Bundle.load(tmp_path / "other.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(pb.StateError, match="not a readable"):
        Bundle.load(tmp_path / "text.npz")
    bundle = filled("dense", np.random.default_rng(7))
    bundle.save(tmp_path / "bundle.npz")
    with np.load(tmp_path / "bundle.npz") as file:
        arrays = dict(file)
    arrays["offsets"] = arrays["offsets"][:-1]
    np.savez(tmp_path / "short.npz", **arrays)
    with pytest.raises(pb.StateError, match="shapes"):
        Bundle.load(tmp_path / "short.npz")


def test_planes_within_inverts_the_estimate():
    n = planes_within(10**7, 100)
    assert estimate_bytes(100, n) <= 10**7 < estimate_bytes(100, n + 1)
    with pytest.raises(pb.ParameterError, match="memory_limit"):
        planes_within(100, 1000)


@pytest.mark.parametrize("density", [1.0, 0.05])
def test_pickle_and_deepcopy(density):
    """Results hold a bundle, and users pickle results."""
    rng = np.random.default_rng(0)
    bundle = Bundle(40, 3)
    for empty in (True, False):
        for twin in (pickle.loads(pickle.dumps(bundle)), copy.deepcopy(bundle)):
            assert (twin.dim, twin.n_parts, twin.n_planes) == (40, 3, bundle.n_planes)
            assert np.array_equal(twin.H, bundle.H) and np.array_equal(twin.beta, bundle.beta)
            twin.append(some_planes(rng, 3, 40, density))
        if empty:
            bundle.append(some_planes(rng, 3, 40, density))


@pytest.mark.parametrize("dim", [1, 7, 8, 100, 2049, 4100])
@pytest.mark.parametrize("n", [1, 4, 6, 53])
def test_products_of_the_newest_planes_with_all(n, dim):
    """Tiles of 4 x 4 products and what is left of them, up to 48 new planes; more go to BLAS."""
    rng = np.random.default_rng(dim + n)
    rows = rng.standard_normal((n, dim))
    store = DensePlanes(dim)
    store.append(rows)
    for first in {0, n // 2, max(n - 5, 0), n - 1}:
        inner = store.inner(first)
        np.testing.assert_allclose(inner, rows[first:] @ rows.T, rtol=0, atol=1e-13 * dim)


@pytest.mark.parametrize("n_new", [1, 3, 16, 60])
def test_dense_planes_in_several_blocks_are_those_in_one(n_new):
    """Bits must not depend on how rows came: a resumed run appends all at once what the first one got by and by."""
    rng = np.random.default_rng(n_new)
    dim, capacity, rows = 37, 8, rng.standard_normal((0, 37))
    grown = DensePlanes(dim, capacity)
    for _ in range(9):
        new = rng.standard_normal((n_new, dim))
        rows = np.concatenate([rows, new])
        grown.append(new)
        dropped = np.arange(len(rows)) % 5 == 2
        order = np.flatnonzero(~dropped)
        rows = rows[order]
        grown.keep(order)
    assert len(rows) > capacity or n_new == 1
    twin = DensePlanes(dim, capacity)
    twin.restore(grown.arrays())
    assert np.array_equal(grown.arrays()["slopes"], rows) and grown.nbytes == rows.nbytes
    weights, w = rng.standard_normal(len(rows)), rng.standard_normal(dim)
    for first in {0, len(rows) // 2, len(rows) - 1}:
        np.testing.assert_allclose(grown.inner(first), rows[first:] @ rows.T, rtol=0, atol=1e-12)
        assert np.array_equal(grown.inner(first), twin.inner(first))
        np.testing.assert_allclose(grown.dot(w, first), rows[first:] @ w, rtol=0, atol=1e-12)
        assert np.array_equal(grown.dot(w, first), twin.dot(w, first))
    np.testing.assert_allclose(grown.combine(weights), rows.T @ weights, rtol=0, atol=1e-12)
    assert np.array_equal(grown.combine(weights), twin.combine(weights))
    assert grown.equal(0, 0) and not grown.equal(0, len(rows) - 1)


def test_squares_of_aggregates_of_slopes_that_cancel_are_not_negative():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        beta = rng.random(3)
        beta /= beta.sum()
        slopes = rng.normal(size=(3, 2))
        slopes[-1] = -(beta[:-1] @ slopes[:-1]) / beta[-1]          # their weighted mean is 0 but for rounding
        bundle = Bundle(2, 1)
        bundle.append(Planes(np.zeros(3), np.arange(3.0), slopes), parts=np.zeros(3, dtype=int))
        bundle.settle(beta)
        bundle.shrink_to(1)
        assert bundle.n_planes == 1 and 0.0 <= bundle.H[0, 0] < 1e-28
        assert bundle.copy().n_planes == pickle.loads(pickle.dumps(bundle)).n_planes == 1


@pytest.mark.parametrize("kind", [np.ascontiguousarray, np.asfortranarray, csr_array, csc_array])
def test_offsets_from_subgradients_lie_below_the_risk_in_exact_arithmetic(kind):
    rng = np.random.default_rng(3)
    for dim in (1, 7, 300):
        slopes, w = rng.normal(size=(4, dim)) * 1e3, rng.normal(size=dim) * 1e6
        values = rng.normal(size=4)
        planes = Planes.from_subgradients(values, kind(slopes), w)
        for j in range(4):
            exact = Fraction(values[j]) - sum(Fraction(a) * Fraction(x) for a, x in zip(slopes[j], w, strict=True))
            lost = float(exact - Fraction(planes.offsets[j]))
            assert 0.0 <= lost <= 1e-12 * np.abs(slopes[j] * w).sum()
    slopes = np.asfortranarray(np.full((3, 100_000), 0.3))          # sums of columns would add up the rounding
    exact = Fraction(1) - 100_000 * Fraction(0.3) * Fraction(0.7)
    assert (Planes.from_subgradients(np.ones(3), slopes, np.full(100_000, 0.7)).offsets <= float(exact)).all()
