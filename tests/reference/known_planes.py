"""Slow and obvious twins of `solvers/newton/known_planes.py`: one example at a time."""

from itertools import pairwise

import numpy as np
from reference.multipliers import project_simplex


def blocks_of(starts):
    """The numbers of the planes of each example."""
    return [np.arange(a, b) for a, b in pairwise(starts)]


def proximal_step(starts, alpha, u, sigma):
    """`(a, smooth, risk value)`."""
    a, smooth, value = np.zeros(len(u)), 0.0, 0.0
    for block in blocks_of(starts):
        a[block] = project_simplex(alpha[block] + sigma * u[block], 1.0)
        smooth += a[block] @ u[block] - ((a[block] - alpha[block]) ** 2).sum() / (2.0 * sigma)
        value += u[block].max()
    return a, smooth, value


def curvature(starts, a, slopes):
    """`sum_i Psi_i' J_i Psi_i`, (dim, dim), slopes (n + m, dim) with zeros for truths."""
    total = np.zeros((slopes.shape[1],) * 2)
    for block in blocks_of(starts):
        inside = a[block] > 0.0
        J = np.diag(inside.astype(float)) - np.outer(inside, inside) / inside.sum()
        total += slopes[block].T @ J @ slopes[block]
    return total
