"""Kernels of the linear risks: passes over the data, line search, stochastic epoch. No file is read."""

import numpy as np
import scipy.sparse as sp

import pybundle
from pybundle.risks import BinaryHinge, MulticlassHinge


def examples(storage, n=8000, d=784, n_classes=10):
    """Rows like small images: a fifth of the pixels are not zero; labels from a linear model with noise."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((n, d)) < 0.2, rng.integers(1, 256, (n, d)), 0).astype(np.uint8)
    model = rng.standard_normal((n_classes, d)) / 255
    y = np.argmax(X @ model.T + 2.0 * rng.standard_normal((n, n_classes)), axis=1)
    if storage == "uint8":
        return X, y, {"scale": 1 / 255}
    dense = X / 255.0
    return {"float32": dense.astype(np.float32), "float64": dense, "csr": sp.csr_array(dense)}[storage], y, {}


def trained(risk, n_epochs):
    """The point after some stochastic epochs."""
    return pybundle.minimize(risk, lam=10.0, method="sgd t0=100000.0", tol=1e-9, max_iter=n_epochs, random_state=1).x


class Passes:
    """Planes of 16 parts; "random": every example counts, "trained": few do."""

    params = (["float32", "uint8", "float64", "csr"], ["random", "trained"])
    param_names = ("storage", "point")

    def setup(self, storage, point):
        X, y, kw = examples(storage)
        self.risk = MulticlassHinge(X, y, n_parts=16, n_classes=10, **kw)
        rng = np.random.default_rng(1)
        self.w = rng.standard_normal(self.risk.dim)
        if point == "trained":
            self.w = trained(self.risk, 5)
        self.S0 = self.risk.scores(self.w)
        self.S1 = self.risk.scores(0.5 * self.w + 0.01 * rng.standard_normal(self.risk.dim))

    def time_planes(self, storage, point):
        self.risk.planes(self.w)

    def time_scores(self, storage, point):
        self.risk.scores(self.w)

    def time_planes_at(self, storage, point):
        self.risk.planes_at(self.S0)

    def time_line_search(self, storage, point):
        self.risk.line_search(self.S0, self.S1, -100.0, 10.0)

    def time_sgd_epoch(self, storage, point):
        """An epoch, and the pass after it."""
        trained(self.risk, 1)

    def track_touching_error(self, storage, point):
        """Speed bought with accuracy must show: relative distance of plane and risk at the query point."""
        planes = self.risk.planes(self.w)
        value = self.risk.derive(precision="float64").planes(self.w).values
        return float(np.abs(planes.offsets + planes.dot(self.w) - value).max() / np.abs(value).max())


class BinaryPasses:
    """One score an example: the pass is bound by memory."""

    params = ("float32", "uint8", "csr")
    param_names = ("storage",)

    def setup(self, storage):
        X, y, kw = examples(storage)
        self.risk = BinaryHinge(X, y % 2, n_parts=16, **kw)
        self.w = np.random.default_rng(1).standard_normal(self.risk.dim)

    def time_planes(self, storage):
        self.risk.planes(self.w)
