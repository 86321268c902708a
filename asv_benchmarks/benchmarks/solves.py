"""Whole solves on scikit-learn's digits."""

import numpy as np

import pybundle as pb
from pybundle.datasets import load_digits

from . import LARGE


class Digits:
    """Multiclass hinge on 1437 digits: time, and what it bought."""

    params = [["bmrm", "prox-bmrm", "oca"], [1, 16], [10.0, 1.0] if LARGE else [1.0]]
    param_names = ["method", "n_parts", "lam"]
    tol = 1e-2

    def setup(self, method, n_parts, lam):
        data = load_digits()
        self.risk = pb.risks.MulticlassHinge(data.X, data.y)

    def solve(self, method, n_parts, lam):
        return pb.minimize(self.risk, lam=lam, method=method, n_parts=n_parts, tol=self.tol)

    def time_solve(self, method, n_parts, lam):
        self.solve(method, n_parts, lam)

    def peakmem_solve(self, method, n_parts, lam):
        self.solve(method, n_parts, lam)

    def track_gap(self, method, n_parts, lam):
        return self.solve(method, n_parts, lam).gap

    def track_passes(self, method, n_parts, lam):
        return self.solve(method, n_parts, lam).n_passes

    def track_max_planes(self, method, n_parts, lam):
        return self.solve(method, n_parts, lam).max_planes

    track_passes.unit = "passes"
    track_max_planes.unit = "planes"


class FewWeights:
    """Raw columns, whose sizes differ by 10^5, beside equal ones: who takes over from a slow run of "auto"."""

    params = [["two", "classes", "pinball", "quantile"], ["equal", "unequal"], [1e-3, 1e-6]]
    param_names = ["risk", "columns", "tol"]

    def setup(self, risk, columns, tol):
        rng = np.random.default_rng(0)
        n, d = (20000, 20) if LARGE else (2000, 10)
        X, W = rng.standard_normal((n, d)), rng.standard_normal((4, d))
        scores = X @ W.T + rng.standard_normal((n, 4))
        X *= 10.0 ** rng.uniform(-2.0, 3.0, d) if columns == "unequal" else 1.0
        self.risk = (pb.risks.MulticlassHinge(X, scores.argmax(axis=1)) if risk == "classes" else
                     pb.risks.BinaryHinge(X, np.where(scores[:, 0] > 0.0, 1.0, -1.0)) if risk == "two" else
                     pb.risks.Pinball(X, scores[:, 0], 0.8, fit_intercept=risk == "quantile"))
        self.lam = np.zeros(d) if risk == "quantile" else 0.01

    def solve(self, risk, columns, tol):
        return pb.minimize(self.risk, lam=self.lam, tol=tol, time_limit=30.0)

    def time_solve(self, risk, columns, tol):
        self.solve(risk, columns, tol)

    def track_gap(self, risk, columns, tol):
        return self.solve(risk, columns, tol).gap

    def track_passes(self, risk, columns, tol):
        return self.solve(risk, columns, tol).n_passes

    track_passes.unit = "passes"


class Smooth:
    """Log-losses of digits, alone and in strings, to 1e-2 and to 1e-6."""

    params = [["auto", "lbfgs", "oca"], ["logistic", "classes", "chain"], [1e-2, 1e-6]]
    param_names = ["method", "risk", "tol"]

    def setup(self, method, risk, tol):
        if risk == "chain":
            X, y, _ = pb.datasets.digit_strings(2000 if LARGE else 200)
            self.risk = pb.risks.Structured(pb.models.Chain(10, 64), X, y, loss="logistic")
        elif risk == "classes":
            data = load_digits()
            self.risk = pb.risks.Structured(pb.models.Multiclass(10, 64), data.X / 16.0, data.y, loss="logistic")
        else:
            data = load_digits()
            self.risk = pb.risks.Logistic(data.X, data.y == 0)

    def solve(self, method, risk, tol):
        return pb.minimize(self.risk, lam=1e-3, scale="mean", method=method, tol=tol)

    def time_solve(self, method, risk, tol):
        self.solve(method, risk, tol)

    def peakmem_solve(self, method, risk, tol):
        self.solve(method, risk, tol)

    def track_gap(self, method, risk, tol):
        return self.solve(method, risk, tol).gap

    def track_passes(self, method, risk, tol):
        return self.solve(method, risk, tol).n_passes

    track_passes.unit = "passes"


class Words:
    """Chains of made words, hinge and log-loss to 1e-2, with all weights of features or with those that occur."""

    params = [["all", "occurring"], ["hinge", "logistic"]]
    param_names = ["weights", "loss"]

    def setup(self, weights, loss):
        rng, K, d, n = np.random.default_rng(0), 20, 20000, 2000 if LARGE else 300
        sizes = rng.integers(5, 30, n)
        Y = [rng.integers(0, K, T) for T in sizes]
        # ten features of each token: common ones, and words that prefer a label
        X = [np.concatenate([d * rng.random((T, 5))**4, d // K * (y[:, None] + rng.random((T, 5))**3)],
                            axis=1).astype(int) for T, y in zip(sizes, Y, strict=True)]
        model = pb.models.Chain(K, d, indicators=True)
        if weights == "occurring":
            model = model.occurring(X, Y)
        self.risk = pb.risks.Structured(model, X, Y, loss=loss)

    def solve(self, weights, loss):
        return pb.minimize(self.risk, lam=1.0, tol=1e-2)

    def time_solve(self, weights, loss):
        self.solve(weights, loss)

    def peakmem_solve(self, weights, loss):
        self.solve(weights, loss)

    def track_gap(self, weights, loss):
        return self.solve(weights, loss).gap

    def track_passes(self, weights, loss):
        return self.solve(weights, loss).n_passes

    track_passes.unit = "passes"


class Penalties:
    """Multiclass hinge on digits with sums over entries in place of the square, to 1e-3."""

    params = [["prox-bcfw", "oca"], ["l1", "elastic net", "bounds", "free biases"]]
    param_names = ["method", "penalty"]

    def setup(self, method, penalty):
        data = load_digits()
        self.risk = pb.risks.MulticlassHinge(data.X, data.y, bias=1.0)
        is_bias = np.arange(self.risk.dim) % (self.risk.dim // self.risk.n_scores) == data.X.shape[1]
        held = np.where(np.arange(self.risk.dim) == np.flatnonzero(is_bias)[0], 0.0, np.inf)     # one bias is 0
        free = pb.prox.SquaredL2(np.where(is_bias, 0.0, 10.0)) + pb.prox.Box(-held, held)
        self.penalty = {"l1": pb.prox.L1(10.0), "elastic net": pb.prox.ElasticNet(10.0, 5.0),
                        "bounds": pb.prox.SquaredL2(10.0) + pb.prox.Box(-0.01, 0.01),
                        "free biases": free}[penalty]

    def solve(self, method, penalty):
        return pb.minimize(self.risk, penalty=self.penalty, method=method, tol=1e-3)

    def time_solve(self, method, penalty):
        self.solve(method, penalty)

    def track_gap(self, method, penalty):
        return self.solve(method, penalty).gap

    def track_passes(self, method, penalty):
        return self.solve(method, penalty).n_passes

    track_passes.unit = "passes"


class Path:
    """A grid of lam with planes kept, with the point kept, and cold."""

    params = [["planes", "solution", "cold"]]
    param_names = ["reuse"]
    lams = (100.0, 10.0, 1.0)

    def setup(self, reuse):
        data = load_digits()
        self.risk = pb.risks.MulticlassHinge(data.X, data.y)

    def solve(self, reuse):
        if reuse == "cold":
            return [pb.minimize(self.risk, lam=lam, tol=1e-2) for lam in self.lams]
        return pb.path(self.risk, self.lams, reuse=reuse, tol=1e-2)

    def time_path(self, reuse):
        self.solve(reuse)

    def track_passes(self, reuse):
        return sum(result.n_passes for result in self.solve(reuse))

    track_passes.unit = "passes"
