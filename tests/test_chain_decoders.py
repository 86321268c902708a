"""Chain decoders: equality with enumeration, order of ties, extreme scores, batches, errors."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.chain import (
    best_by_recursion,
    enumerate_chain,
    log_partition_by_recursion,
    marginals_by_enumeration,
    score,
)

from pybundle.core.exceptions import InputTypeError, ParameterError
from pybundle.oracles import forward_backward, forward_backward_batch, k_best_viterbi, viterbi, viterbi_batch

SMALL = [(T, K) for K in (1, 2, 3, 4) for T in (1, 2, 3, 4)]


def make_chain(rng, T, K, integer=False, boundaries=True, scale=1.0):
    """Scores; small integers make ties, and all sums exact."""
    def draw(*shape):
        return rng.integers(-3, 3, shape).astype(float) if integer else scale * rng.standard_normal(shape)

    return draw(T, K), draw(K, K), draw(K) if boundaries else None, draw(K) if boundaries else None


def forbid(rng, *scores, share=0.3):
    for array in scores:
        array[rng.random(array.shape) < share] = -np.inf


@pytest.mark.parametrize("T, K", SMALL)
def test_viterbi_is_the_first_of_the_best_labellings(T, K):
    rng = np.random.default_rng(100 * T + K)
    for repeat in range(150):
        unary, transition, start, end = make_chain(rng, T, K, integer=True, boundaries=repeat % 2)
        if repeat % 3 == 0:
            forbid(rng, unary, transition)
        labellings, scores = enumerate_chain(unary, transition, start, end)
        labelling, value = viterbi(unary, transition, start, end)
        assert value == scores.max()
        assert tuple(labelling) == labellings[scores.argmax()] or value == -np.inf
        assert labelling.dtype == np.int32


@pytest.mark.parametrize("T, K", SMALL)
def test_k_best_lists_labellings_in_order(T, K):
    rng = np.random.default_rng(100 * T + K)
    for repeat in range(60):
        unary, transition, start, end = make_chain(rng, T, K, integer=True, boundaries=repeat % 2)
        if repeat % 3 == 0:
            forbid(rng, unary, transition)
        labellings, scores = enumerate_chain(unary, transition, start, end)
        order = np.argsort(-scores, kind="stable")[:int((scores > -np.inf).sum())]
        for k in (1, 2, 5, 1000):
            found, values = k_best_viterbi(unary, transition, k, start, end)
            assert values.tolist() == scores[order[:k]].tolist()
            assert found.tolist() == [list(labellings[i]) for i in order[:k]]


def test_k_best_of_long_chains_falls_and_scores_what_it_says():
    rng = np.random.default_rng(0)
    unary, transition, start, end = make_chain(rng, 40, 30)
    labellings, values = k_best_viterbi(unary, transition, 50, start, end)
    assert len({tuple(y) for y in labellings}) == 50
    assert (np.diff(values) <= 0).all()
    for y, value in zip(labellings, values, strict=True):
        assert value == pytest.approx(score(unary, transition, start, end, y), rel=1e-12)
    best, value = viterbi(unary, transition, start, end)
    assert labellings[0].tolist() == best.tolist() and values[0] == pytest.approx(value, rel=1e-14)


@settings(max_examples=30)
@given(st.integers(1, 60), st.integers(1, 70), st.integers(0, 2**32 - 1), st.booleans())
def test_any_shape_agrees_with_the_recursion(T, K, seed, boundaries):
    rng = np.random.default_rng(seed)
    scores = make_chain(rng, T, K, boundaries=boundaries, scale=3.0)
    labelling, value = viterbi(*scores)
    assert value == pytest.approx(best_by_recursion(*scores), rel=1e-13)
    start, end = (np.zeros(K) if s is None else s for s in scores[2:])
    assert score(*scores[:2], start, end, labelling) == pytest.approx(value, rel=1e-12, abs=1e-12)
    result = forward_backward(*scores)
    assert result.log_partition == pytest.approx(log_partition_by_recursion(*scores), rel=1e-13)
    assert result.unary.sum(axis=1) == pytest.approx(np.ones(T), rel=1e-13)
    if T > 1:
        assert result.pairwise.sum(axis=2) == pytest.approx(result.unary[:-1], rel=1e-11, abs=1e-300)
        assert result.pairwise.sum(axis=1) == pytest.approx(result.unary[1:], rel=1e-11, abs=1e-300)


@pytest.mark.parametrize("n_labels", [255, 256, 257, 700])
def test_many_labels(n_labels):
    rng = np.random.default_rng(n_labels)
    scores = make_chain(rng, 5, n_labels)
    labelling, value = viterbi(*scores)
    assert value == pytest.approx(best_by_recursion(*scores), rel=1e-14)
    assert score(*scores, labelling) == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("T, K", SMALL)
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_marginals_equal_enumeration(T, K, scale):
    rng = np.random.default_rng(100 * T + K)
    for repeat in range(16):
        scores = make_chain(rng, T, K, boundaries=repeat % 2, scale=scale)
        if repeat % 4 == 0:
            forbid(rng, *scores[:2], share=0.2)
        log_partition, unary, pairwise, entropy = marginals_by_enumeration(*scores) \
            if best_by_recursion(*scores) > -np.inf else (None,) * 4
        if log_partition is None:
            with pytest.raises(ParameterError, match="every labelling is forbidden"):
                forward_backward(*scores)
            continue
        result = forward_backward(*scores)
        assert result.log_partition == pytest.approx(log_partition, rel=1e-13, abs=1e-13)
        assert result.unary == pytest.approx(unary, rel=1e-10, abs=1e-13)
        assert result.pairwise == pytest.approx(pairwise, rel=1e-10, abs=1e-13)
        assert result.entropy == pytest.approx(entropy, rel=1e-10, abs=1e-11)


def test_marginals_of_extreme_scores():
    """Two labels that never mix: the weaker one at first is the stronger one at the end."""
    lost = np.array([[0.0, -1000.0]] * 3 + [[0.0, 999.0]] * 3)
    transition = np.array([[0.0, -1e4], [-1e4, 0.0]])
    result = forward_backward(lost, transition)
    assert result.log_partition == pytest.approx(np.log1p(np.exp(-3.0)), rel=1e-12)
    assert result.unary[:, 1] == pytest.approx(np.full(6, 1 / (1 + np.exp(3.0))), rel=1e-12)
    # a large common score changes nothing but the value
    rng = np.random.default_rng(0)
    unary, transition, start, end = make_chain(rng, 12, 5)
    plain, shifted = (forward_backward(unary + shift, transition, start, end) for shift in (0.0, 1e3))
    assert shifted.log_partition == pytest.approx(plain.log_partition + 12e3, rel=1e-14)
    assert shifted.unary == pytest.approx(plain.unary, rel=1e-11)


@pytest.mark.parametrize("n_labels", [3, 26])
def test_scaled_probabilities_and_logarithms_agree(n_labels):
    """A forbidden label that nobody would take switches to logarithms."""
    rng = np.random.default_rng(n_labels)
    unary, transition, start, end = make_chain(rng, 30, n_labels, scale=5.0)
    plain = forward_backward(unary, transition, start, end)
    more = np.full((30, n_labels + 1), -np.inf), np.zeros((n_labels + 1, n_labels + 1)), \
        np.zeros(n_labels + 1), np.zeros(n_labels + 1)
    more[0][:, :-1], more[1][:-1, :-1], more[2][:-1], more[3][:-1] = unary, transition, start, end
    other = forward_backward(*more)
    assert other.log_partition == pytest.approx(plain.log_partition, rel=1e-14)
    assert other.unary[:, :-1] == pytest.approx(plain.unary, rel=1e-11, abs=1e-300)
    assert other.pairwise[:, :-1, :-1] == pytest.approx(plain.pairwise, rel=1e-11, abs=1e-300)
    assert other.entropy == pytest.approx(plain.entropy, rel=1e-12)


def test_entropy_of_a_certain_chain_does_not_cancel():
    unary = np.zeros((50, 4))
    unary[:, 2] = 40.0
    exact = 50 * 3 * np.exp(-40.0) * 41.0
    assert forward_backward(unary + 1e3, np.zeros((4, 4))).entropy == pytest.approx(exact, abs=1e-13)


def make_batch(seed, n=300, K=7):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 12, n))])
    unary, transition, start, end = make_chain(rng, int(offsets[-1]), K)
    unary[offsets[5]:offsets[6], 1] = -np.inf
    unary[offsets[9], 1] = -500.0                # one chain too wide for scaled probabilities
    return unary, offsets, transition, start, end


def test_batches_equal_single_calls():
    unary, offsets, *rest = make_batch(0)
    weights = np.random.default_rng(1).random(len(offsets) - 1)
    labels, values = viterbi_batch(unary, offsets, *rest)
    batch = forward_backward_batch(unary, offsets, *rest, weights=weights, entropy=True)
    pairwise = np.zeros((7, 7))
    for i, (first, last) in enumerate(itertools.pairwise(offsets)):
        labelling, value = viterbi(unary[first:last], *rest)
        assert labels[first:last].tolist() == labelling.tolist() and values[i] == value
        single = forward_backward(unary[first:last], *rest)
        assert batch.log_partitions[i] == single.log_partition
        assert (batch.unary[first:last] == single.unary).all()
        assert batch.entropies[i] == single.entropy
        pairwise += weights[i] * single.pairwise.sum(axis=0)
    assert batch.pairwise == pytest.approx(pairwise, rel=1e-12)


def test_any_executor_gives_the_same_bits():
    unary, offsets, *rest = make_batch(2, n=20000, K=3)
    with ThreadPoolExecutor(4) as pool:
        for decoder in (viterbi_batch, forward_backward_batch):
            alone, together = decoder(unary, offsets, *rest), decoder(unary, offsets, *rest, executor=pool)
            for one, other in zip(alone, together, strict=True):
                assert one is other is None or one.tobytes() == other.tobytes()


def test_empty_batch():
    labels, values = viterbi_batch(np.zeros((1, 2)), [0, 1], np.zeros((2, 2)))
    assert labels.tolist() == [0] and values.tolist() == [0.0]


def test_float32_scores_are_converted():
    unary = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    assert viterbi(unary, np.zeros((3, 3)))[1] == unary.max(axis=1).astype(float).sum()


@pytest.mark.parametrize("decoder", [viterbi, forward_backward, lambda *a: k_best_viterbi(*a[:2], 2, *a[2:])])
@pytest.mark.parametrize("change, text", [
    ({0: np.zeros((0, 2))}, "at least one position, got an empty chain"),
    ({0: np.zeros((3, 0))}, "at least one label"),
    ({0: np.zeros(3)}, r"shape \(positions, labels\)"),
    ({0: [[0.0, np.nan]]}, r"unary\[0, 1\] = nan"),
    ({0: [[0.0, 0.0], [np.inf, 0.0]]}, r"unary\[1, 0\] = inf"),
    ({1: np.zeros((3, 3))}, r"transition must have shape \(K, K\) = \(2, 2\).*got \(3, 3\)"),
    ({1: [[0.0, np.nan], [0.0, 0.0]]}, r"transition\[0, 1\] = nan"),
    ({2: np.zeros(3)}, r"start must have shape \(K,\) = \(2,\)"),
    ({3: [np.inf, 0.0]}, r"end\[0\] = inf"),
])  # fmt: skip
def test_bad_scores_are_refused(decoder, change, text):
    scores = [np.zeros((3, 2)), np.zeros((2, 2)), np.zeros(2), np.zeros(2)]
    for position, value in change.items():
        scores[position] = value
    with pytest.raises(ParameterError, match=text):
        decoder(*scores)


def test_bad_batches_are_refused():
    unary, transition = np.zeros((4, 2)), np.zeros((2, 2))
    for decoder in (viterbi_batch, forward_backward_batch):
        with pytest.raises(ParameterError, match=r"item 1 is empty \(offsets\[1\] = offsets\[2\] = 2\)"):
            decoder(unary, [0, 2, 2, 4], transition)
        with pytest.raises(ParameterError, match="must run from 0 to the length of the data, 4"):
            decoder(unary, [0, 2], transition)
        with pytest.raises(ParameterError, match=r"unary\[2, 1\] = inf"):
            decoder([[0, 0], [0, 0], [0, np.inf], [0, np.nan]], [0, 1, 4], transition)
        with pytest.raises(InputTypeError, match="unary must be an array of real numbers"):
            decoder([["a", "b"]], [0, 1], transition)
    with pytest.raises(ParameterError, match="every labelling of item 1 is forbidden"):
        forward_backward_batch([[0, 0], [-np.inf, -np.inf]], [0, 1, 2], transition)
    with pytest.raises(ParameterError, match=r"weights must be finite numbers of shape \(n,\) = \(1,\)"):
        forward_backward_batch(unary, [0, 4], transition, weights=[1.0, 2.0])


def test_bad_k_is_refused():
    with pytest.raises(ParameterError, match="k must be an integer >= 1, got 0"):
        k_best_viterbi(np.zeros((2, 2)), np.zeros((2, 2)), 0)


def test_a_k_beyond_the_range_is_refused():
    with pytest.raises(ParameterError, match=r"k must be below 2\^31, got 10{12}$"):
        k_best_viterbi(np.zeros((60, 3)), np.zeros((3, 3)), 10**12)


def test_weights_are_numbers():
    with pytest.raises(InputTypeError, match="weights must be an array of real numbers"):
        forward_backward_batch(np.zeros((2, 2)), [0, 2], np.zeros((2, 2)), weights=["a"])


def test_a_batch_without_chains():
    labels, values = viterbi_batch(np.zeros((0, 3)), [0], np.zeros((3, 3)))
    assert labels.shape == values.shape == (0,)
    result = forward_backward_batch(np.zeros((0, 3)), [0], np.zeros((3, 3)), entropy=True)
    assert result.unary.shape == (0, 3) and result.entropies.shape == (0,) and not result.pairwise.any()


def test_marginals_sum_to_one_where_the_log_of_a_count_is_lost():
    """Two equal paths of huge scores: log 2 vanishes beside them, the probabilities must not."""
    result = forward_backward([[1e299, -1e299], [-1e299, 0.0]], [[0.0, -1e299], [1e299, 1e299]])
    assert result.unary.sum(axis=1) == pytest.approx([1.0, 1.0], rel=1e-15)
    rng = np.random.default_rng(0)
    for _ in range(300):
        T, K = rng.integers(1, 6), rng.integers(1, 4)
        unary, transition = 1e299 * rng.integers(-1, 2, (T, K)), 1e299 * rng.integers(-1, 2, (K, K))
        log_partition, unary, pairwise, entropy = forward_backward(unary, transition)
        assert np.isfinite([log_partition, entropy]).all() and entropy >= 0.0
        assert unary.sum(axis=1) == pytest.approx(np.ones(T), rel=1e-14)
        assert pairwise.sum(axis=2) == pytest.approx(unary[:-1], rel=1e-14)
        assert pairwise.sum(axis=1) == pytest.approx(unary[1:], rel=1e-14)
