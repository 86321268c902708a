"""Slow, obvious twin of the exact block steps: one example after the other, projections by sorting, float64."""

import numpy as np


def onto_simplex(v, c):
    """The point of {a >= 0, sum a = c} nearest to v, by sorting."""
    if c == 0.0:
        return np.zeros_like(v)
    sorted_v = np.sort(v)[::-1]
    thetas = (np.cumsum(sorted_v) - c) / np.arange(1, len(v) + 1)
    return np.maximum(v - thetas[np.flatnonzero(sorted_v > thetas)[-1]], 0.0)


def losses(y, n_classes, cost=None):
    """L(y_i, k) for every example and label."""
    cost = 1.0 - np.eye(n_classes) if cost is None else cost
    return cost[y]


def block_steps(x, L, c, beta, W, s, order):
    """Multipliers, point and the sum of the block gaps met, after exact steps at the rows of `order`."""
    beta, W, met = beta.copy(), W.copy(), 0.0
    for i in order:
        u = L[i] + W @ x[i]
        met += c[i] * u.max() - beta[i] @ u
        square = x[i] @ x[i]
        if square > 0.0:
            new = onto_simplex(beta[i] + u * s / square, c[i])
        else:
            new = np.where(np.arange(len(u)) == np.argmax(u), c[i], 0.0)
        W -= np.outer(new - beta[i], x[i]) / s
        beta[i] = new
    return beta, W, met


def binary_steps(x, y, c, beta, w, s, order):
    """The same for the binary hinge: beta_i in [0, c_i]."""
    beta, w, met = beta.copy(), w.copy(), 0.0
    for i in order:
        u = 1.0 - y[i] * (w @ x[i])
        met += c[i] * max(u, 0.0) - beta[i] * u
        square = x[i] @ x[i]
        new = np.clip(beta[i] + u * s / square, 0.0, c[i]) if square > 0.0 else c[i] * (u > 0.0)
        w += (new - beta[i]) * y[i] * x[i] / s
        beta[i] = new
    return beta, w, met


def variants(n, n_classes, bias):
    """Options of a multiclass hinge risk of n examples: costs, weights with a 0, the constant of an intercept, all."""
    rng = np.random.default_rng(2)
    cost, weights = rng.uniform(0.5, 2.0, (n_classes, n_classes)), rng.uniform(0.0, 2.0, n)
    np.fill_diagonal(cost, 0.0)
    weights[3] = 0.0
    return {"plain": {}, "cost": {"loss": cost}, "weights": {"sample_weight": weights}, "bias": {"bias": bias},
            "all": {"loss": cost, "sample_weight": weights, "bias": 0.5, "scale": 0.5}}
