"""Segmentation against enumeration of all covers."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.segmentation import best_cover, score

import pybundle as pb
from pybundle.oracles import argmax_batch, segment, segment_batch


def random_item(rng, integer, forbidden=0.0):
    n_labels, n_columns = rng.integers(1, 5), rng.integers(1, 9)
    widths = rng.integers(1, 4, n_labels)
    draw = (lambda shape: rng.integers(-3, 3, shape).astype(float)) if integer else rng.standard_normal
    scores, transition = draw((int(n_labels), int(n_columns))), draw((int(n_labels), int(n_labels)))
    scores[rng.random(scores.shape) < forbidden] = -np.inf
    transition[rng.random(transition.shape) < forbidden] = -np.inf
    return scores, widths, transition


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("integer, forbidden", [(True, 0.0), (True, 0.2), (False, 0.0), (False, 0.3)])
def test_equals_enumeration(integer, forbidden, pairs):
    """Integer scores tie often, and then the labelling must be the documented one."""
    rng = np.random.default_rng(7)
    without_cover = 0
    for _ in range(150):
        scores, widths, transition = random_item(rng, integer, forbidden)
        transition = transition if pairs else None
        expected, value = best_cover(scores, widths, transition)
        if expected is None:
            without_cover += 1
            with pytest.raises(pb.ParameterError, match=f"item 0 has no cover of its {scores.shape[1]} columns"):
                segment(scores, widths, transition)
            continue
        labels, starts, found = segment(scores, widths, transition)
        assert found == pytest.approx(value, abs=1e-12)
        assert found == pytest.approx(score(labels, scores, widths, transition), abs=1e-12)
        assert starts.tolist() == [0, *np.cumsum(widths[labels])[:-1]]
        assert tuple(labels) == expected
    assert without_cover < 120 and (without_cover or not forbidden)


@given(st.data())
def test_batch_equals_single_calls(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    widths = np.array([*data.draw(st.lists(st.integers(1, 5), max_size=40)), 1], dtype=np.int32)
    sizes = data.draw(st.lists(st.integers(1, 12), min_size=0, max_size=6))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    scores = rng.integers(-4, 4, (offsets[-1], len(widths))).astype(float)
    transition = rng.standard_normal((len(widths), len(widths))) if data.draw(st.booleans()) else None
    labels, starts, values = segment_batch(scores, offsets, widths, transition)
    assert len(labels) == len(starts) == len(values) == len(sizes)
    for i in range(len(sizes)):
        one = segment(scores[offsets[i]:offsets[i + 1]].T, widths, transition)
        assert (one.labels.tolist(), one.starts.tolist(), one.value) == (
            labels[i].tolist(), starts[i].tolist(), values[i])
        assert widths[labels[i]].sum() == sizes[i] and labels[i].dtype == starts[i].dtype == np.int32


def test_runs_of_many_labels():
    """Runs longer than the lanes of the maximum, ties inside and between them."""
    rng = np.random.default_rng(3)
    for n_labels in (15, 16, 17, 31, 32, 33, 100):
        for widths in (np.repeat([1, 2, 3], n_labels), np.tile([1, 2, 3], n_labels)):
            scores = rng.integers(-2, 3, (len(widths), 6)).astype(float)
            labels, _, value = segment(scores, widths)
            firsts = {width: np.flatnonzero(widths == width) for width in (1, 2, 3)}
            small = np.stack([scores[firsts[width]].max(axis=0) for width in (1, 2, 3)])
            assert value == best_cover(small, [1, 2, 3])[1]
            for label, start in zip(labels, np.cumsum(widths[labels]) - widths[labels], strict=True):
                same = scores[firsts[widths[label]], start]
                assert scores[label, start] == same.max()
                assert label == firsts[widths[label]][same.argmax()]


@pytest.mark.parametrize("pairs", [False, True])
def test_any_executor_gives_the_same_bits(pairs):
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 120, 200))])
    widths = np.repeat(np.arange(1, 9), 5)
    scores = rng.standard_normal((offsets[-1], len(widths)))
    transition = rng.standard_normal((len(widths), len(widths))) if pairs else None
    alone = segment_batch(scores, offsets, widths, transition)
    with ThreadPoolExecutor(4) as executor:
        shared = segment_batch(scores, offsets, widths, transition, executor=executor)
    assert alone.value.tobytes() == shared.value.tobytes()
    assert alone.labels.values.tobytes() == shared.labels.values.tobytes()
    assert alone.starts.values.tobytes() == shared.starts.values.tobytes()


def test_edges():
    assert segment([[2.5]], [1]).value == 2.5
    labels, starts, value = segment(np.zeros((1, 6)), [3])
    assert labels.tolist() == [0, 0] and starts.tolist() == [0, 3] and value == 0.0
    assert len(segment_batch(np.empty((0, 2)), [0], [1, 2]).labels) == 0
    single = segment(np.full((2, 4), 0.5, dtype=np.float32), [1, 2])
    assert single.labels.tolist() == [0, 0, 0, 0] and single.value == 2.0
    # what reaches beyond the end is never read
    assert segment([[1.0, 1.0], [0.0, np.nan]], [1, 2]).labels.tolist() == [0, 0]
    assert segment([[1.0, 1.0], [0.0, np.inf]], [1, 2]).value == 2.0


@pytest.mark.parametrize("error, text, call", [
    (pb.ParameterError, "item 0 has no cover of its 3 columns by segments of widths 2 ",
     lambda: segment(np.ones((1, 3)), [2])),
    (pb.ParameterError, "item 1 has no cover", lambda: segment_batch(np.ones((5, 1)), [0, 2, 5], [2])),
    (pb.ParameterError, "item 1 must have at least one column", lambda: segment_batch(np.ones((2, 1)), [0, 2, 2], [1])),
    (pb.ParameterError, "item 0 must have at least one column", lambda: segment(np.ones((1, 0)), [1])),
    (pb.ParameterError, r"finite or -inf, got nan for label 1 at column 1 of item 1",
     lambda: segment_batch([[0, 0], [0, 0], [0, np.nan]], [0, 1, 3], [1, 1])),
    (pb.ParameterError, r"finite or -inf, got inf for label 0 at column 0", lambda: segment([[np.inf]], [1])),
    (pb.ParameterError, r"widths must be between 1 and \d+, got widths\[1\] = 0",
     lambda: segment(np.ones((2, 2)), [1, 0])),
    (pb.ParameterError, r"widths must have shape \(A,\)", lambda: segment(np.ones((2, 2)), [[1, 1]])),
    (pb.InputTypeError, "widths must be integers", lambda: segment(np.ones((2, 2)), [1.0, 2.0])),
    (pb.ParameterError, r"shape \(A, W\), one row for each of the 3 widths, got shape \(2, 4\)",
     lambda: segment(np.ones((2, 4)), [1, 1, 1])),
    (pb.ParameterError, r"one entry for each of the 3 widths at every column, got shape \(4, 2\)",
     lambda: segment_batch(np.ones((4, 2)), [0, 4], [1, 1, 1])),
    (pb.InputTypeError, "scores must be an array of real numbers", lambda: segment([[1.0, 2.0], [3.0]], [1, 1])),
    (pb.InputTypeError, "transition must be an array of real", lambda: segment(np.ones((2, 4)), [1, 1], [[1], [1, 2]])),
    (pb.InputTypeError, "widths must be integers", lambda: segment(np.ones((2, 4)), [[1], [1, 2]])),
    (pb.InputTypeError, "offsets must be integers", lambda: segment_batch(np.ones((2, 1)), [[0], [1, 2]], [1])),
    (pb.InputTypeError, "scores must be real numbers", lambda: argmax_batch([[1.0, 2.0], [3.0]])),
    (pb.ParameterError, r"scores must have shape \(A, W\)", lambda: segment(np.ones(2), [1, 1])),
    (pb.InputTypeError, "scores must be an array of real numbers", lambda: segment([["a"]], [1])),
    (pb.ParameterError, r"transition must have shape \(A, A\) = \(1, 1\)", lambda: segment([[1.0]], [1], [[1.0, 2.0]])),
    (pb.ParameterError, r"transition must hold .* got nan at \[0, 0\]", lambda: segment([[1.0]], [1], [[np.nan]])),
    (pb.ParameterError, "offsets must run from 0", lambda: segment_batch(np.ones((2, 1)), [0, 1], [1])),
    (pb.ParameterError, r"scores must have shape \(n, K\)", lambda: argmax_batch([1.0])),
    (pb.InputTypeError, "scores must be real numbers", lambda: argmax_batch([["x"]])),
    (pb.ParameterError, r"scores\[1\] must hold finite numbers or -inf, got nan at class 1",
     lambda: argmax_batch([[0.0, 1.0], [2.0, np.nan]])),
    (pb.ParameterError, r"scores\[0\] must hold at least one class", lambda: argmax_batch([[-np.inf, -np.inf]])),
])  # fmt: skip
def test_errors_say_what_and_where(error, text, call):
    with pytest.raises(error, match=text):
        call()


def test_argmax_takes_the_smallest_of_equals():
    rng = np.random.default_rng(1)
    scores = rng.integers(-2, 2, (500, 6)).astype(float)
    scores[rng.random(scores.shape) < 0.2] = -np.inf
    scores[:, 3] = 0.0
    labels, values = argmax_batch(scores)
    assert labels.dtype == np.int32 and values.tolist() == scores.max(axis=1).tolist()
    assert labels.tolist() == [row.tolist().index(max(row)) for row in scores]
