"""Slow and obvious twins of what `solvers/newton/label_multipliers.py` computes: one example at a time, in float64."""

import numpy as np


def project_simplex(v, mass):
    """The nearest point of `{a >= 0, sum a = mass}` by sorting."""
    if mass == 0.0:
        return np.zeros(len(v))
    shifted = np.asarray(v, dtype=np.longdouble) - np.max(v)
    ordered = np.sort(shifted)[::-1]
    thresholds = (np.cumsum(ordered) - mass) / np.arange(1, len(v) + 1)
    size = np.flatnonzero(ordered > thresholds)[-1]
    return np.maximum(shifted - thresholds[size], 0.0).astype(float)


def losses(risk):
    """L(y_i, k) of every example and label, (n, K)."""
    cost = 1.0 - np.eye(risk.n_classes) if risk.loss is None else risk.loss
    return cost[risk.labels]


def proximal_step(risk, alpha, S, sigma):
    """`(a, smooth, offset, risk value)` of a multiclass hinge."""
    n = len(S)
    u = losses(risk) + S - S[np.arange(n), risk.labels][:, None]
    a = np.array([project_simplex(alpha[i] + sigma * u[i], c) for i, c in enumerate(risk.sample_weight)])
    smooth = (a * u).sum() - ((a - alpha) ** 2).sum() / (2.0 * sigma)
    return a, smooth, (a * losses(risk)).sum(), risk.sample_weight @ u.max(axis=1)


def slope(risk, x, alpha):
    """phi of multipliers, x (n, width) the rows with scale and bias."""
    coef = alpha.copy()
    coef[np.arange(len(x)), risk.labels] -= risk.sample_weight
    return (coef.T @ x).ravel()


def face_products(x, alpha, v):
    """sum_i J_i V x_i x_i'."""
    V, out = v.reshape(alpha.shape[1], -1), np.zeros((alpha.shape[1], x.shape[1]))
    for xi, a in zip(x, alpha, strict=True):
        inside = a > 0.0
        J = np.diag(inside.astype(float)) - np.outer(inside, inside) / max(inside.sum(), 1)
        out += np.outer(J @ V @ xi, xi)
    return out.ravel()
