from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.arborescence import (
    all_trees,
    best_tree_score,
    is_tree,
    marginals_by_enumeration,
    marginals_by_laplacian,
    tree_score,
)

import pybundle as pb
from pybundle.oracles import (
    arborescence_marginals,
    arborescence_marginals_batch,
    max_arborescence,
    max_arborescence_batch,
)


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize(("n", "repeats"), [(1, 50), (2, 500), (3, 700), (4, 700), (5, 100)])
def test_equals_enumeration(n, repeats, single_root):
    rng = np.random.default_rng(n)
    trees = np.array(list(all_trees(n, single_root)))
    assert len(trees) == (n ** (n - 1) if single_root else (n + 1) ** (n - 1))
    for t in range(repeats):
        scores = (rng.integers(-3, 3, (n + 1, n + 1)).astype(float) if t % 3 == 0      # ties
                  else rng.standard_normal((n + 1, n + 1)) - 5.0 * (t % 3 == 1))
        if t % 4 == 0:
            scores[rng.random(scores.shape) < 0.3] = -np.inf
        best = scores[trees[:, 1:], np.arange(1, n + 1)].sum(1).max()
        if best == -np.inf:
            with pytest.raises(pb.ParameterError, match="allow no tree"):
                max_arborescence(scores, single_root)
            continue
        heads, score = max_arborescence(scores, single_root)
        assert heads.dtype == np.int32 and heads[0] == -1 and is_tree(heads.tolist(), single_root)
        assert score == pytest.approx(tree_score(scores, heads), abs=1e-12)
        assert score == pytest.approx(best, abs=1e-12) if t % 3 else score == best


@settings(max_examples=40)
@given(n=st.integers(1, 40), seed=st.integers(0, 10**6), kind=st.sampled_from(["normal", "integer", "wide", "sparse"]))
def test_single_root_is_the_best_forced_root_arc(n, seed, kind):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((n + 1, n + 1))
    if kind == "integer":
        scores = rng.integers(-2, 3, scores.shape).astype(float)
    elif kind == "wide":
        scores *= 10.0 ** rng.integers(-8, 9, scores.shape)
    elif kind == "sparse":
        scores[1:, 1:][rng.random((n, n)) < 0.5] = -np.inf
    values = []
    for word in range(1, n + 1):
        forced = scores.copy()
        forced[0, 1:] = -np.inf
        forced[0, word] = scores[0, word]
        try:
            values.append(max_arborescence(forced)[1])
        except pb.ParameterError:
            continue
    if not values:
        with pytest.raises(pb.ParameterError, match="only with more"):
            max_arborescence(scores, single_root=True)
        return
    heads, value = max_arborescence(scores, single_root=True)
    assert is_tree(heads.tolist(), single_root=True)
    assert value == pytest.approx(max(values), rel=1e-12, abs=1e-12)
    assert max_arborescence(scores)[1] >= value - 1e-9 * abs(value)


@pytest.mark.parametrize("depth", [3, 30, 200])
def test_nested_cycles(depth):
    """Arcs m -> m - 1 and 1 -> m make every prefix a cycle of cycles."""
    scores = np.full((depth + 1, depth + 1), -1e6)
    for m in range(2, depth + 1):
        scores[m, m - 1] = 10.0 * depth - m
        scores[1, m] = float(m)
    scores[0, depth // 2 + 1] = -5.0
    heads, value = max_arborescence(scores, single_root=True)
    assert is_tree(heads.tolist(), single_root=True) and heads[depth // 2 + 1] == 0
    assert value == tree_score(scores, heads) == max_arborescence(scores)[1]


def test_constant_added_to_a_column_changes_nothing_but_the_value():
    rng = np.random.default_rng(3)
    scores, shift = rng.integers(-99, 99, (31, 31)).astype(float), rng.integers(-99, 99, 31).astype(float)
    for single_root in (False, True):
        heads, value = max_arborescence(scores, single_root)
        moved_heads, moved = max_arborescence(scores + shift, single_root)
        assert np.array_equal(heads, moved_heads) and moved == value + shift[1:].sum()


def test_diagonal_and_first_column_are_ignored():
    scores = np.random.default_rng(0).standard_normal((9, 9))
    filled = scores.copy()
    np.fill_diagonal(filled, np.nan)
    filled[:, 0] = np.inf
    for function in (max_arborescence, arborescence_marginals):
        for single_root in (False, True):
            a, b = function(scores, single_root), function(filled, single_root)
            assert np.array_equal(a[0], b[0]) and a[1] == b[1]


def test_ties_take_the_smallest_head():
    assert max_arborescence(np.zeros((6, 6)))[0].tolist() == [-1, 0, 0, 0, 0, 0]
    scores = np.zeros((5, 5))
    scores[0] = -1.0
    scores[0, 2] = 0.0
    assert max_arborescence(scores)[0][[2, 3, 4]].tolist() == [0, 1, 1]


def test_masks_of_the_largest_numbers_forbid():
    scores = np.zeros((4, 4))
    scores[0, :3] = np.finfo(float).min
    scores[1, 2] = scores[3, 2] = -1e305
    with pytest.raises(pb.ParameterError, match="from the root to word 2;"):
        max_arborescence(scores)


def test_other_layouts_and_types():
    scores = np.random.default_rng(1).integers(0, 9, (6, 6))
    expected = max_arborescence(scores.astype(float))
    for other in (scores, scores.tolist(), scores.astype(np.float32), np.asfortranarray(scores, dtype=float)):
        heads, value = max_arborescence(other)
        assert np.array_equal(heads, expected[0]) and value == expected[1]


def ragged(seed, n_sentences=60, longest=30):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest, n_sentences)
    matrices = [rng.standard_normal((n + 1, n + 1)) for n in lengths]
    return matrices, lengths, np.concatenate([matrix.ravel() for matrix in matrices])


@pytest.mark.parametrize("single_root", [False, True])
def test_batch_equals_single_calls_for_any_executor(single_root):
    matrices, lengths, flat = ragged(0)
    heads, values = max_arborescence_batch(flat, lengths, single_root)
    marginals, partitions = arborescence_marginals_batch(flat, lengths, single_root)
    alone = [max_arborescence(matrix, single_root) for matrix in matrices]
    assert np.array_equal(heads, np.concatenate([h for h, _ in alone]))
    assert np.array_equal(values, [v for _, v in alone])
    alone = [arborescence_marginals(matrix, single_root) for matrix in matrices]
    assert np.array_equal(marginals, np.concatenate([m.ravel() for m, _ in alone]))
    assert np.array_equal(partitions, [z for _, z in alone])
    with ThreadPoolExecutor(3) as executor:
        for a, b in zip(max_arborescence_batch(flat, lengths, single_root, executor), (heads, values), strict=True):
            assert np.array_equal(a, b)
        for a, b in zip(arborescence_marginals_batch(flat, lengths, single_root, executor), (marginals, partitions),
                        strict=True):
            assert np.array_equal(a, b)


def test_many_threads_many_shards():
    _, lengths, flat = ragged(1, n_sentences=400, longest=40)
    heads, values = max_arborescence_batch(flat, lengths)
    with ThreadPoolExecutor(4) as executor:
        again, again_values = max_arborescence_batch(flat, lengths, executor=executor)
    assert np.array_equal(heads, again) and np.array_equal(values, again_values)


def test_an_empty_batch():
    heads, values = max_arborescence_batch(np.zeros(0), np.zeros(0, int))
    assert heads.shape == values.shape == (0,)


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_marginals_equal_enumeration(n, single_root):
    rng = np.random.default_rng(n)
    for t in range(100):
        scores = rng.standard_normal((n + 1, n + 1)) * (1.0, 5.0, 40.0)[t % 3]
        if t % 4 == 0:
            scores[rng.random(scores.shape) < 0.3] = -np.inf
        if best_tree_score(scores, single_root) == -np.inf:
            with pytest.raises(pb.ParameterError, match="allow no tree"):
                arborescence_marginals(scores, single_root)
            continue
        marginals, log_partition = arborescence_marginals(scores, single_root)
        expected, expected_partition = marginals_by_enumeration(scores, single_root)
        assert log_partition == pytest.approx(expected_partition, rel=1e-13, abs=1e-12)
        assert np.abs(marginals - expected).max() < 1e-12


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("n", [5, 17, 60])
def test_marginals_equal_the_laplacian_formulas(n, single_root):
    scores = np.random.default_rng(n).standard_normal((n + 1, n + 1))
    marginals, log_partition = arborescence_marginals(scores, single_root)
    expected, expected_partition = marginals_by_laplacian(scores, single_root)
    assert log_partition == pytest.approx(expected_partition, rel=1e-12)
    assert np.abs(marginals - expected).max() < 1e-11
    assert np.allclose(marginals[:, 1:].sum(0), 1.0, atol=1e-12) and not marginals[:, 0].any()
    if single_root:
        assert marginals[0].sum() == pytest.approx(1.0)


def test_marginals_are_the_gradient_of_the_log_partition():
    rng = np.random.default_rng(0)
    scores, direction = rng.standard_normal((2, 8, 8))
    for single_root in (False, True):
        slope = (arborescence_marginals(scores + 1e-5 * direction, single_root)[1]
                 - arborescence_marginals(scores - 1e-5 * direction, single_root)[1]) / 2e-5
        assert slope == pytest.approx((arborescence_marginals(scores, single_root)[0] * direction).sum(), rel=1e-7)


def test_sharp_marginals_are_the_best_tree():
    """The best heads close cycles here, so the Laplacian is singular to many digits."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        scores = rng.integers(-20, 20, (13, 13)) + 0.01 * rng.random((13, 13))
        scores[0] -= 50.0
        for single_root in (False, True):
            value = max_arborescence(scores, single_root)[1]
            marginals, log_partition = arborescence_marginals(3.0 * scores, single_root)
            assert np.allclose(marginals[:, 1:].sum(0), 1.0, atol=1e-10)
            assert log_partition >= 3.0 * value - 1e-9
            assert log_partition <= 3.0 * value + 11 * np.log(13)


def test_errors():
    scores = np.zeros((4, 4))
    for value in (np.nan, np.inf, 1e301):
        bad = scores.copy()
        bad[2, 1] = value
        for function in (max_arborescence, arborescence_marginals):
            with pytest.raises(pb.ParameterError, match=r"scores\[2, 1\] must be a number <= 1e300"):
                function(bad)
        flat = np.concatenate([scores.ravel(), bad.ravel()])
        for function in (max_arborescence_batch, arborescence_marginals_batch):
            with pytest.raises(pb.ParameterError, match=r"sentence 1: scores\[2, 1\] must be a number"):
                function(flat, [3, 3])
    for function in (max_arborescence, arborescence_marginals):
        with pytest.raises(pb.ParameterError, match=r"shape \(n \+ 1, n \+ 1\)"):
            function(np.zeros((3, 4)))
        with pytest.raises(pb.ParameterError, match=r"shape \(n \+ 1, n \+ 1\)"):
            function(np.zeros((1, 1)))
        with pytest.raises(pb.ParameterError, match=r"shape \(n \+ 1, n \+ 1\)"):
            function(np.zeros(4))
        with pytest.raises(pb.InputTypeError, match="scores must be a matrix of real numbers"):
            function("scores")
        with pytest.raises(pb.InputTypeError, match="scores must be a matrix of real numbers"):
            function(np.zeros((3, 3), complex))
        with pytest.raises(pb.InputTypeError, match="single_root must be True or False, got 1"):
            function(scores, 1)
        cut = scores.copy()
        cut[:, 3] = -np.inf
        with pytest.raises(pb.ParameterError, match="no path of allowed arcs leads from the root to word 3;"):
            function(cut)
        cut = np.full((3, 3), -np.inf)
        cut[0] = 0.0
        with pytest.raises(pb.ParameterError, match="no tree with one root arc"):
            function(cut, single_root=True)
        assert function(cut)[0].shape[0] == 3


def test_errors_of_batches():
    for function in (max_arborescence_batch, arborescence_marginals_batch):
        with pytest.raises(pb.ParameterError, match=r"scores must have shape \(25,\)"):
            function(np.zeros(24), [3, 2])
        with pytest.raises(pb.ParameterError, match=r"lengths\[1\] must be a number of words from 1"):
            function(np.zeros(17), [3, 0])
        with pytest.raises(pb.InputTypeError, match="lengths must be integers"):
            function(np.zeros(16), [3.0])
        with pytest.raises(pb.ParameterError, match="lengths must have shape"):
            function(np.zeros(16), [[3]])
        with pytest.raises(pb.InputTypeError, match="scores must be a vector of real numbers"):
            function("scores", [3])
        flat = np.zeros(25)
        flat[[17 + 0, 17 + 3, 17 + 6]] = -np.inf
        with pytest.raises(pb.ParameterError, match=r"sentence 1: scores allow no tree: .* to word 1;"):
            function(flat, [3, 2])


@pytest.mark.parametrize("single_root", [False, True])
def test_marginals_of_scores_far_apart(single_root):
    """Here all weights of trees underflow beside the best heads, and logarithms take over."""
    scores = np.zeros((3, 3))
    scores[0] = -800.0
    marginals, log_partition = arborescence_marginals(scores, single_root)
    assert log_partition == pytest.approx(-800.0 + np.log(2.0), rel=1e-15)
    assert marginals == pytest.approx(np.array([[0.0, 0.5, 0.5], [0.0, 0.0, 0.5], [0.0, 0.5, 0.0]]), abs=1e-12)
    rng = np.random.default_rng(0)
    for n in (2, 3, 4):
        for t in range(100):
            scores = 100.0 * rng.integers(-9, 9, (n + 1, n + 1)) + rng.standard_normal((n + 1, n + 1))
            scores[0] -= 3000.0
            if t % 4 == 0:
                scores[rng.random(scores.shape) < 0.2] = -np.inf
            if best_tree_score(scores, single_root) == -np.inf:
                continue
            marginals, log_partition = arborescence_marginals(scores, single_root)
            expected, expected_partition = marginals_by_enumeration(scores, single_root)
            assert log_partition == pytest.approx(expected_partition, rel=1e-14)
            assert np.abs(marginals - expected).max() < 1e-11


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("scale", [2.0**944, 2.0**970, 2.0**996])
def test_huge_scores_are_neither_forbidden_nor_allowed_by_rounding(scale, single_root):
    """Differences of scores leave the range in which scores are allowed."""
    rng = np.random.default_rng(1)
    trees = np.array(list(all_trees(4, single_root)))
    for _ in range(400):
        scores = scale * rng.integers(-2, 3, (5, 5)) / 2.0
        scores[rng.random((5, 5)) < 0.5] = -np.inf
        best = max(sum(scores[tree[m], m] for m in range(1, 5)) for tree in trees)
        if best == -np.inf:
            with pytest.raises(pb.ParameterError, match="allow no tree"):
                max_arborescence(scores, single_root=single_root)
        else:
            assert max_arborescence(scores, single_root=single_root)[1] == best


def test_lengths_that_are_ragged():
    with pytest.raises(pb.InputTypeError, match="lengths must be integers"):
        max_arborescence_batch(np.zeros(4), [[1], [1, 2]])
