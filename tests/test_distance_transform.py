"""The distance transform equals the maximum over every pair of positions, for curvatures of any sign."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.tree import transform_line, transform_map

from pybundle.core.exceptions import InputTypeError, ParameterError
from pybundle.oracles import distance_transform, distance_transform_batch


def random_line(rng, n):
    """Scores in three manners: whole numbers (ties), real numbers, wide range; some forbidden."""
    f = [rng.integers(-4, 5, n).astype(float), rng.standard_normal(n),
         rng.standard_normal(n) * 10.0 ** rng.integers(-3, 6, n)][rng.integers(3)]
    if rng.random() < 0.3:
        f[rng.random(n) < 0.5] = -np.inf
    return f


@pytest.mark.parametrize("seed", range(8))
def test_a_line_equals_brute_force(seed):
    rng = np.random.default_rng(seed)
    for _ in range(500):
        n = int(rng.integers(1, 30))
        f = random_line(rng, n)
        whole = bool(rng.random() < 0.5)
        a = float(rng.integers(-2, 4)) if whole else rng.standard_normal() * 10.0 ** rng.integers(-6, 3)
        b = float(rng.integers(-3, 4)) if whole else rng.standard_normal() * 10.0 ** rng.integers(-6, 3)
        values, argmax = distance_transform(f, a, b)
        expected, first = transform_line(f, a, b)
        p = np.arange(n)
        assert np.array_equal(values, f[argmax] - a * (p - argmax) ** 2 - b * (p - argmax))
        if whole and np.array_equal(f[f > -np.inf], np.round(f[f > -np.inf])):
            assert np.array_equal(values, expected) and np.array_equal(argmax, first)
        scale = (np.abs(f[f > -np.inf]).max(initial=0.0) + abs(a) * n**2 + abs(b) * n)
        np.testing.assert_allclose(values, expected, rtol=0, atol=4e-16 * scale)


@given(values=st.lists(st.integers(-5, 5), min_size=1, max_size=40), a=st.integers(-8, 8), b=st.integers(-8, 8))
@settings(max_examples=100)
def test_ties_go_to_the_smallest_position(values, a, b):
    """Quarters: every sum is exact, so the winners must be those of the full search."""
    result, argmax = distance_transform(values, a / 4, b / 4)
    expected, first = transform_line(values, a / 4, b / 4)
    assert np.array_equal(result, expected)
    assert np.array_equal(argmax, first)


@pytest.mark.parametrize("a", [0.0, -0.0, 5e-324, -1e-310, 1e-300, -1e-300, 1e-20, 1e200, -1e200])
@pytest.mark.parametrize("b", [0.0, 1.0, -1e10])
def test_extreme_curvatures(a, b):
    f = np.array([0.0, 3.0, 3.0, -np.inf, -1.0, 3.0])
    values, _ = distance_transform(f, a, b)
    expected, _ = transform_line(f, a, b)
    np.testing.assert_allclose(values, expected, rtol=1e-15)


def test_scores_at_the_ends_of_a_long_line_keep_their_digits():
    """The textbook form adds a q^2 = 10^10 to scores of 10^-3 and loses them."""
    n = 100_000
    f = 1e-3 * np.random.default_rng(0).standard_normal(n)
    values, argmax = distance_transform(f, 1.0)
    assert np.array_equal(argmax, np.arange(n))
    assert np.array_equal(values, f)
    values, argmax = distance_transform(f, 1e-4, 1e-3)
    for p in (0, 1, 777, n - 2, n - 1):
        near = np.arange(max(0, p - 200), min(n, p + 200))
        assert values[p] == pytest.approx((f[near] - 1e-4 * (p - near) ** 2 - 1e-3 * (p - near)).max(), rel=1e-13)


@pytest.mark.parametrize("seed", range(4))
def test_a_map_equals_brute_force(seed):
    rng = np.random.default_rng(100 + seed)
    for _ in range(150):
        shape = tuple(rng.integers(1, 9, 2))
        f = rng.integers(-6, 7, shape).astype(float)
        if rng.random() < 0.3:
            f[rng.random(shape) < 0.6] = -np.inf
        a, b = rng.integers(-3, 7, 2) / 2.0, rng.integers(-3, 4, 2) / 2.0
        values, argmax = distance_transform(f, a, b)
        expected, first = transform_map(f, a, b)
        assert np.array_equal(values, expected)
        assert np.array_equal(argmax, first)


def test_one_number_serves_both_axes():
    f = np.random.default_rng(0).standard_normal((5, 7))
    one, two = distance_transform(f, 0.5, 0.1), distance_transform(f, (0.5, 0.5), (0.1, 0.1))
    assert np.array_equal(one[0], two[0]) and np.array_equal(one[1], two[1])


def test_a_batch_equals_its_items_for_any_executor():
    f = np.random.default_rng(1).standard_normal((70, 33, 41))
    values, argmax = distance_transform_batch(f, (0.3, 0.01), (0.0, -0.2))
    with ThreadPoolExecutor(3) as pool:
        again = distance_transform_batch(f, (0.3, 0.01), (0.0, -0.2), executor=pool)
    assert np.array_equal(values, again[0]) and np.array_equal(argmax, again[1])
    for i in (0, 1, 69):
        one = distance_transform(f[i], (0.3, 0.01), (0.0, -0.2))
        assert np.array_equal(values[i], one[0]) and np.array_equal(argmax[i], one[1])
    lines = distance_transform_batch(f[:, 0], 0.3)
    assert np.array_equal(lines[0][5], distance_transform(f[5, 0], 0.3)[0])
    assert distance_transform_batch(np.empty((0, 4)), 1.0)[0].shape == (0, 4)


def test_everything_forbidden():
    values, argmax = distance_transform(np.full((2, 3), -np.inf), 1.0)
    assert (values == -np.inf).all() and (argmax == 0).all()


@pytest.mark.parametrize("arguments, error, text", [
    (([],  1.0), ParameterError, "at least one position"),
    ((np.zeros((2, 2, 2)), 1.0), ParameterError, "1 or 2 dimensions"),
    (([0.0, np.nan], 1.0), ParameterError, r"f\[1\] must be finite or -inf"),
    (([[0.0], [np.inf]], 1.0), ParameterError, r"f\[1, 0\]"),
    ((["x"], 1.0), InputTypeError, "real scores"),
    (([0.0], np.inf), ParameterError, "a must be finite"),
    (([0.0], 1.0, np.nan), ParameterError, "b must be finite"),
    (([0.0], (1.0, 2.0)), ParameterError, "one for each axis"),
    (([0.0], "1"), InputTypeError, "a must be a number"),
    (([0.0, 1.0], 1e308), ParameterError, "overflow"),
])  # fmt: skip
def test_errors(arguments, error, text):
    with pytest.raises(error, match=text):
        distance_transform(*arguments)
