"""Slow and obvious twins of the tree decoders and the distance transform: every candidate, every labelling."""

import itertools
import math

import numpy as np


def transform_line(f, a, b):
    """Values and smallest winners by trying every pair of positions."""
    f = np.asarray(f, dtype=float)
    d = np.arange(len(f))[:, None] - np.arange(len(f))[None, :]
    scores = f[None, :] - a * d * d - b * d
    return scores.max(axis=1), scores.argmax(axis=1)


def transform_map(f, a, b):
    """Values at every pair of positions of a map, the flat winners with the smallest row, then column."""
    height, width = f.shape
    y, x = np.divmod(np.arange(height * width), width)
    dy, dx = y[:, None] - y[None, :], x[:, None] - x[None, :]
    scores = f.ravel()[None, :] - a[1] * dx * dx - b[1] * dx - a[0] * dy * dy - b[0] * dy
    return scores.max(axis=1).reshape(f.shape), scores.argmax(axis=1).reshape(f.shape)


def tree_score(labels, unaries, parents, pairwise):
    score = sum(u[k] for u, k in zip(unaries, labels, strict=True))
    return score + sum(pairwise[j][labels[p]][labels[j]] for j, p in enumerate(parents) if p >= 0)


def tree_labellings(unaries):
    return itertools.product(*(range(len(u)) for u in unaries))


def tree_best(unaries, parents, pairwise):
    """The best score; of the best labellings the one smallest at the root, then downwards."""
    scores = {y: tree_score(y, unaries, parents, pairwise) for y in tree_labellings(unaries)}
    top = max(scores.values())
    best = [y for y, s in scores.items() if s == top]
    order = [parents.index(-1)]
    while len(order) < len(parents):
        order += [j for j, p in enumerate(parents) if j not in order and p in order]
    return min(best, key=lambda y: [y[j] for j in order]), top


def tree_probabilities(unaries, parents, pairwise):
    """log Z, and the marginals as sums over all labellings."""
    labellings = list(tree_labellings(unaries))
    scores = [tree_score(y, unaries, parents, pairwise) for y in labellings]
    top = max(scores)
    log_z = top + math.log(sum(math.exp(s - top) for s in scores))
    unary = [np.zeros(len(u)) for u in unaries]
    edges = [None if p < 0 else np.zeros((len(unaries[p]), len(unaries[j]))) for j, p in enumerate(parents)]
    for y, s in zip(labellings, scores, strict=True):
        probability = math.exp(s - log_z)
        for j, p in enumerate(parents):
            unary[j][y[j]] += probability
            if p >= 0:
                edges[j][y[p], y[j]] += probability
    return log_z, unary, edges


def deformation_table(parent_shape, shape, deformation, anchor):
    """The table (positions of the parent, positions of the node) of a quadratic cost."""
    a_x, b_x, a_y, b_y = deformation
    up_y, up_x = np.divmod(np.arange(parent_shape[0] * parent_shape[1]), parent_shape[1])
    y, x = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    dx = x[None, :] - up_x[:, None] - anchor[0]
    dy = y[None, :] - up_y[:, None] - anchor[1]
    return -(a_x * dx * dx + b_x * dx + a_y * dy * dy + b_y * dy)
