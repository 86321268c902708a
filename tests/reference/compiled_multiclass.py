"""Slow twins of tests/native/multiclass.c, number by number in the same order."""

import numpy as np

from pybundle.core.protocols import Decodings
from pybundle.models import BatchOracle


def _worst(data, w, i):
    X, y = data.arrays
    x, truth = X[i].tolist(), int(y[i])

    def score(k):
        total = 0.0
        for j in range(data.d):
            total += float(w[k * data.d + j]) * x[j]
        return total

    best, value, base = truth, 0.0, score(truth)
    for k in range(data.K):
        found = 0.0 if k == truth else 1.0 + (score(k) - base)
        if found > value:
            best, value = k, found
    return best, value


def risk(data):
    """`fun(w) -> (values, slopes)` of the parts."""
    X, y = data.arrays

    def fun(w):
        values, slopes = np.zeros(data.P), np.zeros((data.P, data.K, data.d))
        for p in range(data.P):
            for i in range(p, data.n, data.P):
                k, found = _worst(data, w, i)
                values[p] += found
                if k != y[i]:
                    slopes[p, k] += X[i]
                    slopes[p, y[i]] -= X[i]
        return values, slopes.reshape(data.P, -1)
    return fun


class Oracle(BatchOracle):
    """The functions `solve` and `plane` as a batch oracle in Python."""

    norms, fingerprint = None, 1

    def __init__(self, data):
        self.data, self.n_examples, self.dim, self.sizes = data, data.n, data.K * data.d, np.full(data.n, 64)

    def _decode(self, rows, weights, loss):
        found = [_worst(self.data, weights, int(i)) for i in rows]
        values = np.array([value for _, value in found])
        return Decodings(np.array([[k] for k, _ in found], dtype=np.int32).reshape(-1, 1), values, values)

    def _add_planes(self, rows, labellings, scales, slope):
        X, y = self.data.arrays
        total, slope = 0.0, slope.reshape(self.data.K, self.data.d)
        for i, (k,), scale in zip(rows, labellings, scales, strict=True):
            if scale != 0.0 and k != y[i]:
                total += scale
                slope[k] += scale * X[i]
                slope[y[i]] += scale * -X[i]
        return total

    def _losses(self, rows, labellings):
        return (np.asarray(labellings)[:, 0] != self.data.arrays[1][rows]).astype(float)


class Model:
    """Hands the oracle to `Structured`."""

    def __init__(self, data):
        self.data, self.dim = data, data.K * data.d

    def oracle(self, X, Y):
        return Oracle(self.data)

