"""Slow and obvious twins of the linear risks: one example at a time, plain Python and float64."""

import math

import numpy as np


def features(X, scale=1.0, bias=None):
    """Dense float64 rows x_i with the constant feature."""
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64) * scale
    return X if bias is None else np.hstack([X, np.full((len(X), 1), bias)])


def multiclass_planes(x, y, n_classes, parts, w, cost=None, weights=None):
    """Values, offsets and slopes of every part at w; the smallest label wins a tie."""
    W = np.reshape(w, (n_classes, x.shape[1]))
    cost = 1.0 - np.eye(n_classes) if cost is None else cost
    weights = np.ones(len(x)) if weights is None else weights
    values, offsets, slopes = np.zeros(len(parts)), np.zeros(len(parts)), np.zeros((len(parts), *W.shape))
    for p, rows in enumerate(parts):
        for i in rows:
            u = [cost[y[i], k] + (W[k] - W[y[i]]) @ x[i] for k in range(n_classes)]
            k = max(range(n_classes), key=lambda k: (u[k], -k))
            values[p] += weights[i] * u[k]
            offsets[p] += weights[i] * cost[y[i], k]
            slopes[p, k] += weights[i] * x[i]
            slopes[p, y[i]] -= weights[i] * x[i]
    return values, offsets, slopes.reshape(len(parts), -1)


def binary_planes(x, signs, parts, w, smooth, weights=None):
    """The same for the hinge (or, if `smooth`, logistic) loss of one score."""
    weights = np.ones(len(x)) if weights is None else weights
    values, offsets, slopes = np.zeros(len(parts)), np.zeros(len(parts)), np.zeros((len(parts), x.shape[1]))
    for p, rows in enumerate(parts):
        for i in rows:
            m = signs[i] * (x[i] @ w)
            if smooth:
                value, derivative = math.log1p(math.exp(-m)), -1.0 / (1.0 + math.exp(m))
            else:
                value, derivative = max(0.0, 1.0 - m), -1.0 if m < 1.0 else 0.0
            values[p] += weights[i] * value
            offsets[p] += weights[i] * (value - derivative * m)
            slopes[p] += weights[i] * derivative * signs[i] * x[i]
    return values, offsets, slopes


def multiclass_sgd(x, y, n_classes, w, order, lam, start):
    """w after the steps, and the label met at each example (the truth where not visited)."""
    W = np.reshape(w, (n_classes, x.shape[1])).copy()
    met = np.array(y)
    for step, i in enumerate(order):
        u = W @ x[i] + 1.0
        u[y[i]] -= 1.0
        k = int(np.argmax(u))
        eta = 1.0 / (lam * (start + step))
        W *= 1.0 - eta * lam
        W[k] -= eta * len(x) * x[i]
        W[y[i]] += eta * len(x) * x[i]
        met[i] = k
    return W.ravel(), met
