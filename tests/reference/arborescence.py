"""Dependency trees the slow way: all of them listed, determinants of Laplacians, projective charts."""

from itertools import product

import numpy as np


def all_trees(n, single_root=False):
    """Heads (n + 1,) of every spanning arborescence of n words."""
    for heads in product(range(n + 1), repeat=n):
        if is_tree((-1, *heads), single_root):
            yield np.array((-1, *heads))


def is_tree(heads, single_root=False):
    """Whether every word leads to the root."""
    for m in range(1, len(heads)):
        seen = set()
        while m > 0:
            if m in seen:
                return False
            seen.add(m)
            m = heads[m]
    return not single_root or list(heads).count(0) == 1


def tree_score(scores, heads):
    return float(sum(scores[heads[m], m] for m in range(1, len(heads))))


def best_tree_score(scores, single_root=False):
    return max(tree_score(scores, heads) for heads in all_trees(len(scores) - 1, single_root))


def marginals_by_enumeration(scores, single_root=False):
    trees = list(all_trees(len(scores) - 1, single_root))
    values = np.array([tree_score(scores, heads) for heads in trees])
    log_partition = np.logaddexp.reduce(values)
    marginals = np.zeros_like(scores)
    for heads, value in zip(trees, values, strict=True):
        marginals[heads[1:], np.arange(1, len(heads))] += np.exp(value - log_partition)
    return marginals, log_partition


def marginals_by_laplacian(scores, single_root=False):
    """The textbook formulas: determinant and inverse of the Laplacian (Koo et al. 2007)."""
    n = len(scores) - 1
    top = np.where(np.eye(n + 1, dtype=bool), -np.inf, scores)[:, 1:].max(0)
    weights = np.exp(scores[:, 1:] - top)
    r, W = weights[0], weights[1:] * (1 - np.eye(n))
    laplacian = np.diag(W.sum(0)) - W
    if single_root:
        laplacian[0] = r
    else:
        laplacian += np.diag(r)
    B = np.linalg.inv(laplacian)
    marginals = np.zeros_like(scores)
    first = np.arange(n) == 0
    if single_root:
        marginals[0, 1:] = r * B[:, 0]
        marginals[1:, 1:] = W * (np.where(first, 0.0, B.diagonal()) - np.where(first[:, None], 0.0, B.T))
    else:
        marginals[0, 1:] = r * B.diagonal()
        marginals[1:, 1:] = W * (B.diagonal() - B.T)
    return marginals, np.linalg.slogdet(laplacian)[1] + top.sum()
