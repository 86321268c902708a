"""Block methods: steps on stored planes, exact steps on enumerable labels, whole solves."""

import warnings

import numpy as np
import scipy.sparse as sp

import pybundle as pb
from pybundle.datasets import load_digits

from . import LARGE


def iterate(risk, lam, method, n_iterations, **options):
    """So many iterations from the start, whatever the gap, and the certificate of the last point."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        return pb.minimize(risk, lam=lam, method=method, tol=1e-12, max_iter=n_iterations, **options)


def strings():
    """Strings of digits: a chain each."""
    X, y, _ = pb.datasets.digit_strings(2000 if LARGE else 500)
    return pb.risks.Structured(pb.models.Chain(10, 64), X, y)


class StoredPlanes:
    """Ten iterations on strings of digits: an exact pass each, then passes over the planes met so far."""

    params = [["exact", "pairwise", "frank-wolfe"]]
    param_names = ["step"]

    def setup(self, step):
        self.risk = strings()

    def solve(self, step):
        return iterate(self.risk, 1.0, "mp-bcfw", 10, step=step)

    def time_iterations(self, step):
        self.solve(step)

    def peakmem_iterations(self, step):
        self.solve(step)

    def track_gap(self, step):
        return self.solve(step).gap

    def track_passes(self, step):
        return self.solve(step).n_passes

    def track_cached_passes(self, step):
        return self.solve(step).n_cached_passes

    track_passes.unit = track_cached_passes.unit = "passes"


class LogLossPasses:
    """Twelve iterations on the log-loss of strings of digits and of single digits, a pass of steps each."""

    params = [["chain", "classes"], ["square", "l1"]]
    param_names = ["model", "penalty"]

    def setup(self, model, penalty):
        if model == "chain":
            hinge = strings()
            self.risk = pb.risks.Structured(hinge.model, hinge.X, hinge.Y, loss="logistic")
        else:
            data = load_digits()
            self.risk = pb.risks.Structured(pb.models.Multiclass(10, 64), data.X / 16.0, data.y, loss="logistic")
        self.terms = {"lam": 1.0} if penalty == "square" else {"lam": None, "penalty": pb.prox.L1(1.0)}

    def solve(self, model, penalty):
        return iterate(self.risk, method="prox-bcfw", n_iterations=12, **self.terms)

    def time_iterations(self, model, penalty):
        self.solve(model, penalty)

    def peakmem_iterations(self, model, penalty):
        self.solve(model, penalty)

    def track_gap(self, model, penalty):
        return self.solve(model, penalty).gap


class OraclePasses:
    """Three exact passes over strings of digits (chains) and single digits: planes found, a step on each block."""

    params = [["chain", "rows"], [1, 32], [1, 2]]
    param_names = ["risk", "batch", "n_jobs"]

    def setup(self, risk, batch, n_jobs):
        if risk == "chain":
            self.risk = strings()
        else:
            data = load_digits()
            self.risk = pb.risks.MulticlassHinge(data.X, data.y)

    def solve(self, risk, batch, n_jobs):
        return iterate(self.risk, 1.0, "bcfw", 3, batch=batch, n_jobs=n_jobs)

    def time_passes(self, risk, batch, n_jobs):
        self.solve(risk, batch, n_jobs)

    def track_gap(self, risk, batch, n_jobs):
        return self.solve(risk, batch, n_jobs).gap

    def track_passes(self, risk, batch, n_jobs):
        return self.solve(risk, batch, n_jobs).n_passes

    track_passes.unit = "passes"


class EnumerableLabels:
    """Ten iterations of exact steps on digits, dense and CSR, float32: `2 n K d` multiply-adds an epoch at most."""

    params = [["dense", "csr"], [1, 2]]
    param_names = ["storage", "n_jobs"]

    def setup(self, storage, n_jobs):
        data = load_digits()
        X = np.tile(data.X.astype(np.float32), (20 if LARGE else 4, 1))
        y = np.tile(data.y, 20 if LARGE else 4)
        self.risk = pb.risks.MulticlassHinge(sp.csr_array(X) if storage == "csr" else X, y)

    def solve(self, storage, n_jobs):
        return iterate(self.risk, 100.0, "prox-bcfw", 10, n_jobs=n_jobs)

    def time_iterations(self, storage, n_jobs):
        self.solve(storage, n_jobs)

    def track_gap(self, storage, n_jobs):
        return self.solve(storage, n_jobs).gap

    def track_passes(self, storage, n_jobs):
        return self.solve(storage, n_jobs).n_passes

    track_passes.unit = "passes"


class ManyClasses:
    """Linear scores plus noise of 1000 classes in float64, about a tenth of the rows trained wrong: whole solves."""

    params = [[1e-2, 1e-3]]
    param_names = ["tol"]
    timeout = 120.0

    def setup(self, tol):
        rng = np.random.default_rng(0)
        n, K = (20000, 1000) if LARGE else (4000, 1000)
        X, W = rng.standard_normal((n, 100)), rng.standard_normal((K, 100))
        y = np.argmax(X @ W.T + 3.0 * rng.standard_normal((n, K)), axis=1)
        self.risk = pb.risks.MulticlassHinge(X, y, n_classes=K)

    def solve(self, tol):
        return pb.minimize(self.risk, lam=30.0, tol=tol)

    def time_solve(self, tol):
        self.solve(tol)

    def peakmem_solve(self, tol):
        self.solve(tol)

    def track_gap(self, tol):
        return self.solve(tol).gap

    def track_passes(self, tol):
        return self.solve(tol).n_passes

    track_passes.unit = "passes"


class Solves:
    """Strings of digits (chains) and single digits, to a certified gap."""

    params = [["auto", "prox-bcfw", "mp-bcfw", "alm", "oca"], ["chain", "multiclass"], [1e-2, 1e-4]]
    param_names = ["method", "risk", "tol"]
    timeout = 120.0

    def setup(self, method, risk, tol):
        if risk == "chain":
            X, y, _ = pb.datasets.digit_strings(2000 if LARGE else 200)
            self.risk = pb.risks.Structured(pb.models.Chain(10, 64), X, y)
        else:
            data = load_digits()
            self.risk = pb.risks.MulticlassHinge(data.X, data.y)

    def solve(self, method, risk, tol):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pb.ConvergenceWarning)
            return pb.minimize(self.risk, lam=1.0, method=method, tol=tol, time_limit=30.0)

    def time_solve(self, method, risk, tol):
        self.solve(method, risk, tol)

    def peakmem_solve(self, method, risk, tol):
        self.solve(method, risk, tol)

    def track_passes(self, method, risk, tol):
        return self.solve(method, risk, tol).n_passes

    def track_gap(self, method, risk, tol):
        return self.solve(method, risk, tol).gap

    track_passes.unit = "passes"


class Interval:
    """Every lam between two ends: runs and passes that certify all of them."""

    def setup(self):
        data = load_digits()
        self.risk = pb.risks.MulticlassHinge(data.X, data.y)

    def solve(self):
        return pb.path(self.risk, (100.0, 1.0), interval=True, tol=1e-2)

    def time_interval(self):
        self.solve()

    def track_runs(self):
        return len(self.solve())

    def track_passes(self):
        return sum(result.n_passes for result in self.solve())

    track_runs.unit, track_passes.unit = "runs", "passes"
