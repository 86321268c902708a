"""Oracles that give more than the best labelling, and block methods that learn from all of them."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from reference.arborescence import is_tree

import pybundle as pb
from pybundle.oracles._chain import ChainTables, k_best_items
from pybundle.solvers.block import oracle_pass


def chains(n=40, seed=0, K=3, weights=None, **options):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(K, 5))
    Y = [rng.integers(0, K, size).astype(np.int32) for size in rng.integers(1, 6, n)]
    X = [centres[y] + rng.normal(size=(len(y), 5)) for y in Y]
    return pb.risks.Structured(pb.models.Chain(K, 5, **options), X, Y, sample_weight=weights)


def trees(n=30, seed=0, single_root=True):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, n)
    X = [sp.csr_array(rng.normal(size=(size * size, 6))) for size in sizes]
    Y = [pb.oracles.max_arborescence(rng.normal(size=(size + 1, size + 1)), single_root)[0] for size in sizes]
    return pb.risks.Structured(pb.models.Dependency(6, single_root=single_root), X, Y)


def values_of(oracle, rows, labellings, w):
    losses, slopes = oracle.planes(rows, labellings)
    return losses + slopes @ w


def test_items_are_those_of_one_at_a_time():
    rng = np.random.default_rng(3)
    sizes, K, k = [1, 4, 2, 1, 7], 3, 6
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    unary, transition = rng.normal(size=(offsets[-1], K)), rng.normal(size=(K, K))
    start, end = rng.normal(size=(2, K))
    counts, paths, values = k_best_items(unary, offsets, ChainTables(transition, start, end), k)
    at = place = 0
    for i, size in enumerate(sizes):
        labellings, best = pb.oracles.k_best_viterbi(unary[offsets[i]:offsets[i + 1]], transition, k, start, end)
        assert counts[i] == len(labellings) == min(k, K**size)
        np.testing.assert_array_equal(paths[at:at + labellings.size].reshape(labellings.shape), labellings)
        np.testing.assert_array_equal(values[place:place + len(best)], best)
        at, place = at + labellings.size, place + len(best)
    assert at == len(paths) and place == len(values)


@pytest.mark.parametrize("k", [1, 2, 5, 300])
@pytest.mark.parametrize("options", [{}, {"start": True, "end": True}, {"normalised": False}])
def test_chain_gives_the_best_of_all_labellings(k, options):
    risk = chains(**options)
    oracle, w = risk.oracle(), np.random.default_rng(1).normal(size=risk.dim)
    rows = np.array([5, 0, 5, 17, 30])
    weights = oracle.prepare(w)
    found, owners, further = oracle.best_batch(rows, weights, k)
    plain = oracle.solve_batch(rows, weights)
    np.testing.assert_allclose(found.values, plain.values, rtol=1e-12)
    assert (np.diff(owners) >= 0).all() and len(owners) == len(further)
    values = values_of(oracle, rows[owners], further, w) if len(owners) else np.zeros(0)
    for j, i in enumerate(rows):
        size = len(found.labellings[j])
        np.testing.assert_array_equal(found.labellings[j], plain.labellings[j])
        every = list(product(range(3), repeat=size))
        best = np.sort(values_of(oracle, [i] * len(every), [np.array(y, dtype=np.int32) for y in every], w))[::-1]
        np.testing.assert_allclose(values[owners == j], best[1:k], atol=1e-9)
        mine = {tuple(further[q]) for q in np.flatnonzero(owners == j)} | {tuple(found.labellings[j])}
        assert len(mine) == min(k, 3**size)


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("k", [1, 4, 200])
def test_trees_that_differ_in_one_head(single_root, k):
    risk = trees(single_root=single_root)
    oracle, w = risk.oracle(), np.random.default_rng(1).normal(size=risk.dim)
    rows = np.arange(risk.n_examples)[::-1]
    weights = oracle.prepare(w)
    found, owners, further = oracle.best_batch(rows, weights, k)
    plain = oracle.solve_batch(rows, weights)
    np.testing.assert_array_equal(found.values, plain.values)
    values = values_of(oracle, rows[owners], further, w) if len(owners) else np.zeros(0)
    assert len(owners) or k == 1
    for j, i in enumerate(rows):
        best = found.labellings[j]
        np.testing.assert_array_equal(best, plain.labellings[j])
        moves = []
        for m, h in product(range(1, len(best)), range(len(best))):
            tree = best.copy()
            tree[m] = h
            if h != best[m] and is_tree(tree, single_root):     # another word on the root would need two moves
                moves.append(tree)
        expected = np.sort(values_of(oracle, [i] * len(moves), moves, w))[::-1] if moves else np.zeros(0)
        np.testing.assert_allclose(values[owners == j], expected[:k - 1], atol=1e-9)
        assert all(((further[q] != best).sum() == 1) for q in np.flatnonzero(owners == j))


@pytest.mark.parametrize("make", [chains, trees])
def test_more_labellings_a_visit_need_fewer_passes(make, monkeypatch):
    monkeypatch.setattr(oracle_pass, "EXAMPLES", 16)         # several shards for the threads
    risk = make(150)
    one, many, again = (
        pb.minimize(risk, lam=0.01, tol=1e-4, method=pb.methods.parse("prox-bcfw", n_best=n), n_jobs=jobs)
        for n, jobs in ((1, 1), (8, 1), (8, 3)))
    assert many.success and many.certified and many.n_passes < one.n_passes
    assert many.lower_bound <= one.fun * (1 + 1e-14) and one.lower_bound <= many.fun * (1 + 1e-14)
    assert (many.x == again.x).all() and many.lower_bound == again.lower_bound


def test_a_list_of_nothing_and_scores_that_are_no_numbers():
    oracle = chains().oracle()
    found, owners, further = oracle.best_batch([], oracle.prepare(np.zeros(oracle.dim)), 3)
    assert len(found.values) == len(owners) == len(further) == 0
    with pytest.raises(pb.ParameterError, match="k must"):
        oracle.best_batch([0], oracle.prepare(np.zeros(oracle.dim)), 0)
    with pytest.raises(pb.NumericalError, match="rescale"):
        oracle.best_batch([0, 1], oracle.prepare(np.full(oracle.dim, np.nan)), 3)


def test_weights_scale_values_of_further_labellings():
    c = np.linspace(0.0, 3.0, 40)
    plain, weighted = chains().oracle(), chains(weights=c).oracle()
    w, rows = np.random.default_rng(2).normal(size=plain.dim), np.arange(40)
    found, owners, further = weighted.best_batch(rows, weighted.prepare(w), 4)
    np.testing.assert_allclose(found.values, c * plain.solve_batch(rows, plain.prepare(w)).values)
    np.testing.assert_allclose(values_of(weighted, rows[owners], further, w),
                               c[owners] * values_of(plain, rows[owners], further, w), atol=1e-12)


def test_models_without_further_labellings_say_so():
    slack = chains(rescaling="slack")
    flat = pb.risks.MulticlassHinge(np.eye(6), np.arange(6) % 3)
    for risk in (slack, flat):
        with pytest.raises(pb.ParameterError, match="n_best must be 1"):
            pb.minimize(risk, lam=1.0, method="prox-bcfw n_best=3")
    with pytest.raises(pb.ParameterError, match="n_best"):
        pb.minimize(chains(), lam=1.0, method="auto prox_bcfw.n_best=0")
    for bad in (100, 2**40):
        with pytest.raises(pb.ParameterError, match="n_best"):
            pb.minimize(chains(), lam=1.0, method=pb.methods.parse("auto", **{"prox_bcfw.n_best": bad}))
    with pytest.raises(pb.ParameterError, match="single examples have labellings"):
        pb.minimize(pb.risks.Function(lambda w: (w @ w, 2 * w), 3, lower_bounds=0.0), lam=1.0,
                    method="prox-bcfw n_best=3")
    with pytest.raises(NotImplementedError, match="the best labelling only"):
        flat.oracle().best_batch([0], None, 2)
