"""Slow, obvious twins: the multiclass objective from its definition, and its minimum by SciPy's SLSQP."""

import numpy as np
from scipy.optimize import minimize


def multiclass_objective(W, X, y, lam):
    """lam/2 |W|^2 + sum_i max_k [k != y_i] + <w_k - w_yi, x_i>, example by example."""
    total = 0.5 * lam * np.sum(W * W)
    for x, label in zip(X, y, strict=True):
        scores = W @ x
        margins = scores - scores[label] + 1.0
        margins[label] = 0.0
        total += margins.max()
    return total


def multiclass_minimum(X, y, lam, n_classes):
    """Minimal objective: variables W and one slack per example, every margin a linear constraint."""
    n, d = X.shape
    rows, limits = [], []
    for i in range(n):
        for k in range(n_classes):
            row = np.zeros(n_classes * d + n)
            row[n_classes * d + i] = 1.0
            if k != y[i]:
                row[k * d:(k + 1) * d] -= X[i]
                row[y[i] * d:(y[i] + 1) * d] += X[i]
            rows.append(row)
            limits.append(float(k != y[i]))
    C, limits = np.array(rows), np.array(limits)
    scale = np.r_[np.full(n_classes * d, lam), np.zeros(n)]
    cost = np.r_[np.zeros(n_classes * d), np.ones(n)]
    start = np.r_[np.zeros(n_classes * d), np.ones(n)]
    found = minimize(lambda z: 0.5 * z @ (scale * z) + cost @ z, start, jac=lambda z: scale * z + cost, method="SLSQP",
                     constraints={"type": "ineq", "fun": lambda z: C @ z - limits, "jac": lambda z: C},
                     options={"maxiter": 500, "ftol": 1e-10})
    assert found.success, found.message
    return found.fun
