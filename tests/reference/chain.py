"""Chains by enumeration of all labellings, and the textbook recursion in plain Python."""

import itertools

import numpy as np


def score(unary, transition, start, end, labelling):
    total = start[labelling[0]] + end[labelling[-1]]
    total += sum(unary[t, y] for t, y in enumerate(labelling))
    return total + sum(transition[j, k] for j, k in itertools.pairwise(labelling))


def enumerate_chain(unary, transition, start=None, end=None):
    """All labellings in lexicographic order, with their scores."""
    T, K = unary.shape
    start = np.zeros(K) if start is None else start
    end = np.zeros(K) if end is None else end
    labellings = list(itertools.product(range(K), repeat=T))
    return labellings, np.array([score(unary, transition, start, end, y) for y in labellings])


def best_by_recursion(unary, transition, start=None, end=None):
    """Value of the best labelling, O(T K^2)."""
    f = unary[0] + (0 if start is None else start)
    for theta in unary[1:]:
        f = theta + (f[:, None] + transition).max(axis=0)
    return (f + (0 if end is None else end)).max()


def marginals_by_enumeration(unary, transition, start=None, end=None):
    """log Z, unary (T, K), pairwise (T - 1, K, K), entropy."""
    T, K = unary.shape
    labellings, scores = enumerate_chain(unary, transition, start, end)
    high = scores.max()
    weights = np.exp(scores - high)
    p = weights / weights.sum()
    single, pairs = np.zeros((T, K)), np.zeros((T - 1, K, K))
    for share, y in zip(p, labellings, strict=True):
        single[np.arange(T), y] += share
        if T > 1:
            pairs[np.arange(T - 1), y[:-1], y[1:]] += share
    positive = p[p > 0]
    return high + np.log(weights.sum()), single, pairs, -(positive * np.log(positive)).sum()


def log_partition_by_recursion(unary, transition, start=None, end=None):
    a = unary[0] + (0 if start is None else start)
    for theta in unary[1:]:
        a = theta + np.logaddexp.reduce(a[:, None] + transition, axis=0)
    return np.logaddexp.reduce(a + (0 if end is None else end))
