"""The decoders and the QP of the C interface return what the functions of Python with these names return."""

import ctypes

import numpy as np
import pytest
from native.interface import API

import pybundle as pb

OK, PARAMETER, NUMERICAL = 0, -1, -3


def number(kind=ctypes.c_double):
    return np.zeros(1, dtype=kind)


def call(function, *arguments):
    """Call a function with arrays as pointers; return its code."""
    return function(*[value.ctypes.data if isinstance(value, np.ndarray) else value for value in arguments])


def chain(rng, T=7, K=3, spread=1.0, forbidden=False):
    unary, transition = spread * rng.normal(size=(T, K)), spread * rng.normal(size=(K, K))
    if forbidden:
        transition[0, 1] = unary[2, 0] = -np.inf
    return unary, transition, rng.normal(size=K), rng.normal(size=K)


@pytest.mark.parametrize("T, K", [(1, 1), (1, 4), (2, 9), (7, 3), (40, 17)])
@pytest.mark.parametrize("spread, forbidden", [(1.0, False), (500.0, False), (1.0, True)])
def test_chains(T, K, spread, forbidden):
    unary, transition, start, end = chain(np.random.default_rng(T), T, K, spread, forbidden and T > 2 and K > 2)
    for boundaries in ((start, end), (None, None)):
        labels, value = np.zeros(T, np.int32), number()
        assert call(API.viterbi, T, K, unary, transition, *boundaries, labels, value) == OK
        expected = pb.oracles.viterbi(unary, transition, *boundaries)
        assert np.array_equal(labels, expected[0]) and value[0] == expected[1]
        partition, nodes, pairs, entropy = number(), np.ones((T, K)), np.ones((K, K)), number()
        for room in (entropy, None):
            assert call(API.forward_backward, T, K, unary, transition, *boundaries, partition, nodes, pairs,
                        room) == OK
        found = pb.oracles.forward_backward(unary, transition, *boundaries)
        assert np.allclose(nodes, found.unary, rtol=1e-12, atol=1e-14)
        assert np.allclose(pairs, found.pairwise.sum(axis=0), rtol=1e-12, atol=1e-14)
        assert partition[0] == pytest.approx(found.log_partition, rel=1e-13)
        assert entropy[0] == pytest.approx(found.entropy, rel=1e-9, abs=1e-12)


def test_wrong_chains_are_refused():
    unary, transition, start, end = chain(np.random.default_rng(0))
    labels, value, nodes, pairs = np.zeros(7, np.int32), number(), np.zeros((7, 3)), np.zeros((3, 3))
    for place in range(4):
        for wrong in (np.nan, np.inf):
            given = [array.copy() for array in (unary, transition, start, end)]
            given[place].flat[1] = wrong
            assert call(API.viterbi, 7, 3, *given, labels, value) == PARAMETER
            assert call(API.forward_backward, 7, 3, *given, value, nodes, pairs, None) == PARAMETER
    for T, K in ((0, 3), (7, 0), (-1, 3), (2**31, 3), (7, 2**31)):
        assert call(API.viterbi, T, K, unary, transition, None, None, labels, value) == PARAMETER
    assert call(API.viterbi, 7, 3, unary, transition, None, None, None, value) == PARAMETER
    nothing = np.full((3, 3), -np.inf)
    assert call(API.forward_backward, 7, 3, unary, nothing, None, None, value, nodes, pairs, None) == PARAMETER
    assert call(API.forward_backward, 1, 3, unary, nothing, None, None, value, nodes, pairs, None) == OK
    assert call(API.viterbi, 7, 3, unary, nothing, None, None, labels, value) == OK and value[0] == -np.inf


@pytest.mark.parametrize("n, single_root", [(1, 0), (5, 0), (5, 1), (20, 1)])
def test_trees(n, single_root):
    scores = np.random.default_rng(n).normal(size=(n + 1, n + 1))
    heads, value, marginals = np.zeros(n + 1, np.int32), number(), np.zeros((n + 1, n + 1))
    assert call(API.max_arborescence, n, scores, single_root, heads, value) == OK
    expected = pb.oracles.max_arborescence(scores, bool(single_root))
    assert np.array_equal(heads, expected[0]) and value[0] == expected[1]
    assert call(API.arborescence_marginals, n, scores, single_root, marginals, value) == OK
    expected = pb.oracles.arborescence_marginals(scores, bool(single_root))
    assert np.array_equal(marginals, expected[0]) and value[0] == expected[1]
    scores[0, 1] = np.nan
    assert call(API.max_arborescence, n, scores, single_root, heads, value) == PARAMETER
    assert call(API.arborescence_marginals, n, scores, single_root, marginals, value) == PARAMETER
    scores[:, 1] = -np.inf
    assert call(API.max_arborescence, n, scores, single_root, heads, value) == PARAMETER
    assert call(API.max_arborescence, 0, scores, single_root, heads, value) == PARAMETER


@pytest.mark.parametrize("has_tables", [False, True])
def test_cuts(has_tables):
    rng, n, m = np.random.default_rng(0), 9, 20
    unary, edges = rng.normal(size=(n, 2)), np.array([rng.choice(n, 2, replace=False) for _ in range(m)], np.int32)
    weights, tables = rng.random(m), rng.normal(size=(m, 2, 2))
    tables[:, 0, 0] += 10.0
    pairs = (None, tables) if has_tables else (weights, None)
    labels, value, upper = np.zeros(n, np.uint8), number(), number()
    assert call(API.min_cut, n, m, unary, edges, *pairs, labels, value, upper) == OK
    expected = pb.oracles.min_cut(unary, edges, tables if has_tables else weights)
    assert np.array_equal(labels, expected[0]) and (value[0], upper[0]) == expected[1:]
    assert call(API.min_cut, n, 0, unary, None, None, None, labels, value, upper) == OK
    assert value[0] == pytest.approx(unary.max(axis=1).sum())
    for wrong in ((weights, tables), (None, None), (-weights, None)):
        assert call(API.min_cut, n, m, unary, edges, *wrong, labels, value, upper) == PARAMETER
    assert call(API.min_cut, n, m, unary, edges + 5, weights, None, labels, value, upper) == PARAMETER


def test_the_master_problem():
    rng = np.random.default_rng(1)
    A, f, parts = rng.normal(size=(8, 5)), rng.normal(size=8), np.repeat([0, 1], 4).astype(np.int32)
    for slack in (None, np.array([1, 0], np.uint8)):
        x, gap = np.zeros(8), number()
        assert call(API.simplex_qp, 8, A @ A.T, f, parts, 2, slack, 1e-9, x, gap) == OK
        expected = pb.qp.solve_simplex_qp(A @ A.T, f, parts, 1e-9, False if slack is None else slack.astype(bool))
        assert np.array_equal(x, expected.x) and gap[0] == expected.gap
    assert call(API.simplex_qp, 8, -A @ A.T, f, parts, 2, None, 1e-9, x, gap) == PARAMETER
    assert call(API.simplex_qp, 0, A @ A.T, f, parts, 2, None, 1e-9, x, gap) == PARAMETER
    assert call(API.simplex_qp, 8, A @ A.T, f, None, 2, None, 1e-9, x, gap) == PARAMETER
    assert call(API.simplex_qp, 8, A @ A.T, f, parts, 2, None, 1e-300, x, gap) == NUMERICAL and gap[0] < 1e-12
