"""Max-sum and sum-product on trees equal enumeration; deformation equals its table."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.tree import deformation_table, tree_best, tree_probabilities, tree_score

from pybundle.core.exceptions import InputTypeError, ParameterError
from pybundle.oracles import tree_marginals, tree_max_sum, tree_max_sum_batch


def random_tree(rng, n_nodes, shape="any"):
    """Parents with nodes in random order."""
    above = {"any": lambda j: int(rng.integers(j)), "chain": lambda j: j - 1, "star": lambda j: 0}[shape]
    names = rng.permutation(n_nodes)
    parents = np.empty(n_nodes, dtype=int)
    parents[names[0]] = -1
    for j in range(1, n_nodes):
        parents[names[j]] = names[above(j)]
    return parents.tolist()


def random_problem(rng, shape="any", forbid=True):
    n_nodes = int(rng.integers(1, 6))
    parents = random_tree(rng, n_nodes, shape)
    sizes = rng.integers(1, 5, n_nodes)
    draw = (lambda size: rng.integers(-2, 3, size).astype(float)) if rng.random() < 0.5 else rng.standard_normal
    unaries = [draw(k) for k in sizes]
    pairwise = [None if p < 0 else draw((sizes[p], k)) for p, k in zip(parents, sizes, strict=True)]
    if forbid and rng.random() < 0.3:
        for table in [*unaries, *(t for t in pairwise if t is not None)]:
            table[rng.random(table.shape) < 0.2] = -np.inf
    return unaries, parents, pairwise


@pytest.mark.parametrize("shape", ["any", "chain", "star"])
@pytest.mark.parametrize("seed", range(4))
def test_equals_enumeration(seed, shape):
    rng = np.random.default_rng(seed)
    for _ in range(250):
        unaries, parents, pairwise = random_problem(rng, shape)
        labels, value = tree_max_sum(unaries, parents, pairwise)
        best, top = tree_best(unaries, parents, pairwise)
        assert value == tree_score(labels, unaries, parents, pairwise) or value == pytest.approx(top, rel=1e-13)
        assert value == pytest.approx(top, rel=1e-13, abs=1e-13)
        if top > -np.inf and all(np.array_equal(u, np.round(u)) for u in unaries):
            assert tuple(labels.tolist()) == best and value == top


def test_a_chain_equals_the_textbook_recursion():
    rng = np.random.default_rng(5)
    for length in (1, 2, 3, 40, 200):
        unaries = rng.standard_normal((length, 11))
        table = rng.standard_normal((11, 11))
        best = unaries[0]
        for t in range(1, length):
            best = unaries[t] + (best[:, None] + table).max(axis=0)
        # the root of a chain may be either end
        forward = tree_max_sum(unaries, np.arange(length) - 1, [None, *[table] * (length - 1)])
        parents = np.append(np.arange(1, length), -1)
        backward = tree_max_sum(unaries, parents, [*[table.T] * (length - 1), None])
        assert forward[1] == pytest.approx(best.max(), rel=1e-12)
        assert backward[1] == pytest.approx(best.max(), rel=1e-12)
        assert np.array_equal(forward[0], backward[0])


def test_many_labels_use_every_lane():
    rng = np.random.default_rng(6)
    for k in (7, 8, 9, 16, 31, 100):
        unaries = [rng.integers(-3, 4, 5).astype(float), rng.integers(-3, 4, k).astype(float)]
        table = rng.integers(-3, 4, (5, k)).astype(float)
        labels, value = tree_max_sum(unaries, [-1, 0], [None, table])
        scores = unaries[0][:, None] + unaries[1] + table
        assert value == scores.max()
        assert labels.tolist() == list(np.unravel_index(np.argmax(scores), scores.shape))


@pytest.mark.parametrize("seed", range(4))
def test_deformation_equals_its_table(seed):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        n_nodes = int(rng.integers(1, 5))
        parents = random_tree(rng, n_nodes)
        maps = [rng.integers(-9, 10, tuple(rng.integers(1, 6, 2))).astype(float) for _ in parents]
        if rng.random() < 0.3:
            for m in maps:
                m[rng.random(m.shape) < 0.4] = -np.inf
        deformations = rng.integers(-2, 5, (n_nodes, 4)) / 2.0
        anchors = rng.integers(-6, 7, (n_nodes, 2)) / 2.0
        labels, value = tree_max_sum(maps, parents, deformations=deformations, anchors=anchors)
        pairwise = [None if p < 0 else deformation_table(maps[p].shape, maps[j].shape, deformations[j], anchors[j])
                    for j, p in enumerate(parents)]
        flat = [m.ravel() for m in maps]
        expected, top = tree_max_sum(flat, parents, pairwise)
        assert value == top == tree_score(labels, flat, parents, pairwise)
        if top > -np.inf:
            assert np.array_equal(labels, expected)


def test_deformation_with_real_numbers():
    rng = np.random.default_rng(9)
    parents = [-1, 0, 0, 1, 2]
    maps = rng.standard_normal((5, 9, 8))
    deformations, anchors = rng.random((5, 4)) * 0.1 - [0.0, 0.05, 0.0, 0.05], rng.standard_normal((5, 2)) * 3
    labels, value = tree_max_sum(maps, parents, deformations=deformations, anchors=anchors)
    pairwise = [None, *(deformation_table((9, 8), (9, 8), deformations[j], anchors[j]) for j in range(1, 5))]
    expected, top = tree_max_sum(maps.reshape(5, -1), parents, pairwise)
    assert value == pytest.approx(top, rel=1e-14) and np.array_equal(labels, expected)


def test_batches_equal_their_items_for_any_executor():
    rng = np.random.default_rng(3)
    parents = [2, 2, -1, 1]
    unaries = [rng.standard_normal((300, k)) for k in (3, 40, 50, 2)]
    tables = [rng.standard_normal((50, 3)), rng.standard_normal((50, 40)), None, rng.standard_normal((40, 2))]
    maps = rng.standard_normal((4, 90, 13, 17))
    costs, anchors = rng.random((4, 4)), rng.standard_normal((4, 2))
    with ThreadPoolExecutor(3) as pool:
        for data, options in ((unaries, {"pairwise": tables}), (maps, {"deformations": costs, "anchors": anchors})):
            labels, values = tree_max_sum_batch(data, parents, **options)
            again = tree_max_sum_batch(data, parents, **options, executor=pool)
            assert np.array_equal(labels, again[0]) and np.array_equal(values, again[1])
            for i in (0, 17, 89):
                one = tree_max_sum([u[i] for u in data], parents, **options)
                assert np.array_equal(labels[i], one[0]) and values[i] == one[1]
    labels, values = tree_max_sum_batch([np.empty((0, 2)), np.empty((0, 3))], [-1, 0], [None, np.zeros((2, 3))])
    assert labels.shape == (0, 2) and values.shape == (0,)


@pytest.mark.parametrize("shape", ["any", "chain", "star"])
def test_marginals_equal_enumeration(shape):
    rng = np.random.default_rng(11)
    checked = 0
    for _ in range(300):
        unaries, parents, pairwise = random_problem(rng, shape)
        if tree_best(unaries, parents, pairwise)[1] == -np.inf:
            with pytest.raises(ParameterError, match="forbid every labelling"):
                tree_marginals(unaries, parents, pairwise)
            continue
        checked += 1
        log_z, unary, edges = tree_marginals(unaries, parents, pairwise)
        expected = tree_probabilities(unaries, parents, pairwise)
        assert log_z == pytest.approx(expected[0], rel=1e-13, abs=1e-13)
        for j, p in enumerate(parents):
            np.testing.assert_allclose(unary[j], expected[1][j], rtol=0, atol=1e-14)
            if p < 0:
                assert edges[j] is None
            else:
                np.testing.assert_allclose(edges[j], expected[2][j], rtol=0, atol=1e-14)
    assert checked > 100


def test_marginals_are_the_gradient_and_survive_large_scores():
    rng = np.random.default_rng(12)
    parents = random_tree(rng, 30)
    unaries = [rng.standard_normal(7) * 3 for _ in parents]
    pairwise = [None if p < 0 else rng.standard_normal((7, 7)) for p in parents]
    log_z, unary, edges = tree_marginals(unaries, parents, pairwise)
    for j in (0, 13):
        moved = [np.array(u) for u in unaries]
        moved[j][2] += 1e-6
        assert (tree_marginals(moved, parents, pairwise)[0] - log_z) / 1e-6 == pytest.approx(unary[j][2], abs=1e-6)
    for j, p in enumerate(parents):
        if p >= 0:
            np.testing.assert_allclose(edges[j].sum(axis=1), unary[p], atol=1e-14)
            np.testing.assert_allclose(edges[j].sum(axis=0), unary[j], atol=1e-14)
    large = tree_marginals([u + 1e6 for u in unaries], parents, pairwise)
    assert large.log_partition == pytest.approx(log_z + 30e6, rel=1e-13)


@given(seed=st.integers(0, 10**6), n_nodes=st.integers(1, 60))
def test_any_order_of_nodes(seed, n_nodes):
    rng = np.random.default_rng(seed)
    parents = np.array(random_tree(rng, n_nodes))
    unaries = rng.integers(-3, 4, (n_nodes, 3)).astype(float)
    table = rng.integers(-3, 4, (3, 3)).astype(float)
    _, value = tree_max_sum(unaries, parents, [None if p < 0 else table for p in parents])
    renamed = rng.permutation(n_nodes)
    moved = np.empty(n_nodes, dtype=int)
    moved[renamed] = np.where(parents < 0, -1, renamed[parents])
    shuffled = np.empty_like(unaries)
    shuffled[renamed] = unaries
    assert tree_max_sum(shuffled, moved, [None if p < 0 else table for p in moved])[1] == value


def test_float32_and_integers_are_taken():
    labels, value = tree_max_sum([np.float32([0.5, 1.5]), np.array([1, 0])], [-1, 0], [None, np.eye(2, dtype=np.int8)])
    assert labels.dtype == np.int32 and (labels.tolist(), value) == ([0, 0], 2.5)


U = [[0.0, 1.0], [0.0, 1.0, 2.0]]
T = [None, np.zeros((2, 3))]
M = np.zeros((2, 3, 3))


@pytest.mark.parametrize("arguments, options, error, text", [
    ((U, [-1, -1], T), {}, ParameterError, "exactly one root .*nodes 0, 1"),
    ((U, [1, 0], T), {}, ParameterError, "nodes 0 -> 1 -> 0 form a cycle"),
    ((U, [-1, 1], T), {}, ParameterError, "nodes 1 -> 1 form a cycle"),
    ((U, [-1, 2], T), {}, ParameterError, r"parents\[1\] must be a node 0..1 or -1 for the root, got 2"),
    ((U, [-1, -2], T), {}, ParameterError, r"parents\[1\]"),
    ((U, [], T), {}, ParameterError, "at least one node"),
    ((U, [-1.0, 0.0], T), {}, InputTypeError, "parents must be integers"),
    ((U, [-1, 0, 0], T), {}, ParameterError, "one array for each of the 3 nodes"),
    ((U, [-1, 0], T[:1]), {}, ParameterError, "one table for each of the 2 nodes"),
    ((U, [-1, 0], [None, np.zeros((3, 2))]), {}, ParameterError, r"pairwise\[1\] must have shape .* \(2, 3\)"),
    ((U, [-1, 0], [None, None]), {}, InputTypeError, r"pairwise\[1\]"),
    ((U, [-1, 0], [None, np.full((2, 3), np.nan)]), {}, ParameterError, r"pairwise\[1\]\[0, 0\]"),
    (([[0.0], [np.inf]], [-1, 0], T), {}, ParameterError, r"unaries\[1\]\[0\] must be finite or -inf"),
    (([[0.0], []], [-1, 0], T), {}, ParameterError, r"unaries\[1\] must hold at least one position"),
    (([[0.0], [[1.0]]], [-1, 0], T), {}, ParameterError, r"unaries\[1\] must have 1 dimension,"),
    ((3, [-1, 0], T), {}, InputTypeError, "unaries must be a list"),
    ((U, [-1, 0]), {}, ParameterError, "exactly one of pairwise"),
    ((M, [-1, 0], T), {"deformations": np.ones((2, 4))}, ParameterError, "exactly one of pairwise"),
    ((U, [-1, 0], T), {"anchors": np.ones((2, 2))}, ParameterError, "anchors belong to deformations"),
    ((M, [-1, 0]), {"deformations": np.ones(4)}, ParameterError, r"deformations must have shape .* \(2, 4\)"),
    ((M, [-1, 0]), {"deformations": [[1.0] * 4, [np.inf] * 4]}, ParameterError, r"deformations\[1\] must be finite"),
    ((M, [-1, 0]), {"deformations": np.ones((2, 4)), "anchors": [0, 1]}, ParameterError, "anchors must have shape"),
    ((U, [-1, 0]), {"deformations": np.ones((2, 4))}, ParameterError, r"unaries\[0\] must have 2 dimensions"),
])  # fmt: skip
def test_errors(arguments, options, error, text):
    with pytest.raises(error, match=text):
        tree_max_sum(*arguments, **options)


def test_examples_of_a_batch_must_agree():
    with pytest.raises(ParameterError, match=r"unaries\[1\] must have 2 examples like unaries\[0\], got 1"):
        tree_max_sum_batch([np.zeros((2, 3)), np.zeros((1, 3))], [-1, 0], [None, np.zeros((3, 3))])


def test_costs_beyond_the_range_are_refused():
    maps = np.zeros((2, 2, 2))
    with pytest.raises(ParameterError, match=r"anchors\[0\] must be finite and below 1e100"):
        tree_max_sum(maps, [-1, 0], deformations=np.full((2, 4), -1.0), anchors=np.full((2, 2), 1e149))
    _, value = tree_max_sum(maps, [-1, 0], deformations=np.full((2, 4), -9e99), anchors=np.full((2, 2), 9e99))
    assert np.isfinite(value)


def test_ragged_parents_are_refused():
    with pytest.raises(InputTypeError, match="parents must be integers"):
        tree_max_sum([[0.0], [0.0]], [[-1], [0, 1]], [None, [[0.0]]])
