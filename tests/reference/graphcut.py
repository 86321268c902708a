"""Slow twins of the minimum cut: all 2^n labellings, and scipy's integer flow."""

import itertools

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import maximum_flow


def score(unary, edges, pairwise, labels):
    """Score of one labelling, straight from the definition."""
    total = 0.0
    for j, label in enumerate(labels):
        total += unary[j][label] if np.ndim(unary) == 2 else unary[j] if label else 0.0
    for (a, b), pair in zip(edges, pairwise, strict=True):
        if np.ndim(pair) == 2:
            total += pair[labels[a]][labels[b]]
        elif labels[a] != labels[b]:
            total -= pair
    return total


def best_labelling(unary, edges, pairwise):
    """The largest score, and of the labellings that have it the one with the fewest ones."""
    labellings = itertools.product((0, 1), repeat=len(unary))
    value, _, labels = max((score(unary, edges, pairwise, y), -sum(y), y) for y in labellings)
    return np.array(labels, dtype=np.uint8), value


def flow_value(unary, edges, weights):
    """Best score for integer unaries (n,) and weights (m,) by scipy's maximum flow."""
    n = len(unary)
    unary, weights, edges = (np.asarray(array, dtype=np.int32) for array in (unary, weights, edges))
    nodes = np.arange(n, dtype=np.int32)        # the flow of older SciPy takes no other indices
    tails = np.concatenate([edges[:, 0], edges[:, 1], np.full(n, n, np.int32), nodes])
    heads = np.concatenate([edges[:, 1], edges[:, 0], nodes, np.full(n, n + 1, np.int32)])
    capacities = np.concatenate([weights, weights, np.maximum(unary, 0), np.maximum(-unary, 0)])
    graph = sp.csr_array((capacities, (tails, heads)), shape=(n + 2, n + 2), dtype=np.int32)
    return int(np.maximum(unary, 0).sum()) - maximum_flow(graph, n, n + 1).flow_value
