"""Block methods: steps on stored planes, exact steps on enumerable labels, whole solves."""

import warnings

import numpy as np
import scipy.sparse as sp

import pybundle as pb
from pybundle.bundle._blocks import Blocks
from pybundle.bundle._oracle_pass import OraclePass
from pybundle.datasets import load_digits
from pybundle.runtime.executors import make_executor
from pybundle.solvers.exact_blocks import ExactBlocks

from . import LARGE

N, DIM, PLANES = 2000, 4000, 6      # examples, dimension, planes of each


class StoredPlanes:
    """Six planes an example with 60 entries of 4000 each: adding them, and passes of pairwise steps over them."""

    params = [["exact", "pairwise", "frank-wolfe"]]
    param_names = ["step"]
    number, repeat, warmup_time = 1, 5, 0.0     # steps change the blocks: fresh ones for every measurement

    def setup(self, step):
        rng = np.random.default_rng(0)
        self.rows = np.arange(N)
        self.planes = []
        for _ in range(PLANES):
            slopes = sp.csr_array(sp.random(N, DIM, density=0.015, random_state=rng, format="csr"))
            slopes.sort_indices()
            slopes.indices, slopes.indptr = slopes.indices.astype(np.int32), slopes.indptr.astype(np.int64)
            self.planes.append((rng.random(N), slopes))
        self.blocks = Blocks(N, DIM, None, step)
        self.blocks.place(np.zeros(DIM), 10.0)
        for offsets, slopes in self.planes[1:]:
            self.blocks.learn(self.rows, offsets, slopes)

    def time_visit(self, step):
        self.blocks.visit(self.rows, *self.planes[0])

    def time_sweep(self, step):
        self.blocks.sweep(self.rows)

    def time_aggregate(self, step):
        self.blocks.aggregate()

    def track_bytes_a_plane(self, step):
        return self.blocks.bytes / self.blocks.n_planes

    track_bytes_a_plane.unit = "bytes"


class OraclePasses:
    """Exact passes over strings of digits (chains) and single digits: planes found and stored, a step on each block."""

    params = [["chain", "rows"], [1, 32], [1, 2]]
    param_names = ["risk", "batch", "n_jobs"]
    number, repeat, warmup_time = 1, 5, 0.0     # passes fill the blocks: fresh ones for every measurement

    def setup(self, risk, batch, n_jobs):
        if risk == "chain":
            X, y, _ = pb.datasets.digit_strings(2000 if LARGE else 500)
            self.risk = pb.risks.Structured(pb.models.Chain(10, 64), X, y)
        else:
            data = load_digits()
            self.risk = pb.risks.MulticlassHinge(data.X, data.y)
        oracle, self.pool = self.risk.oracle(), make_executor(n_jobs)
        blocks = Blocks(self.risk.n_examples, self.risk.dim)
        blocks.place(np.zeros(self.risk.dim), 1.0)
        self.visitor = OraclePass(blocks, oracle.finder(batch), batch, oracle.sizes.astype(np.int64))
        self.orders = [np.random.default_rng(k).permutation(self.risk.n_examples) for k in range(3)]

    def time_passes(self, risk, batch, n_jobs):
        for order in self.orders:
            self.visitor.visit(order, False, self.pool.map)

    def teardown(self, risk, batch, n_jobs):
        self.pool.close()


class EnumerableLabels:
    """An epoch of exact steps on digits, dense and CSR, float32: `2 n K d` multiply-adds at most."""

    params = [["dense", "csr"]]
    param_names = ["storage"]
    number, repeat, warmup_time = 1, 10, 0.0

    def setup(self, storage):
        data = load_digits()
        X = np.tile(data.X.astype(np.float32), (20 if LARGE else 4, 1))
        y = np.tile(data.y, 20 if LARGE else 4)
        risk = pb.risks.MulticlassHinge(sp.csr_array(X) if storage == "csr" else X, y)
        self.blocks = risk.blocks(None)
        self.blocks.place(np.zeros(risk.dim), 100.0)
        self.order = np.random.default_rng(0).permutation(risk.n_examples)

    def time_epoch(self, storage):
        self.blocks.visit(self.order)


class ExactLanePasses:
    """Exact passes over digits, dense, in float32: in one lane, and in two that threads may share."""

    params = [[1, 2], [1, 2]]
    param_names = ["lanes", "n_jobs"]
    number, repeat, warmup_time = 1, 10, 0.0

    def setup(self, lanes, n_jobs):
        data = load_digits()
        X = np.tile(data.X.astype(np.float32), (20 if LARGE else 4, 8))
        self.risk = pb.risks.MulticlassHinge(X, np.tile(data.y, 20 if LARGE else 4))
        self.pool = make_executor(n_jobs)
        self.core = ExactBlocks(self.risk.derive(executor=self.pool), lanes=lanes)
        self.core.place(100.0, 0.0, np.zeros(self.risk.dim))
        self.orders = [np.random.default_rng(k).permutation(self.risk.n_examples) for k in range(4)]

    def time_passes(self, lanes, n_jobs):
        for order in self.orders:
            self.core.exact_pass(order)

    def teardown(self, lanes, n_jobs):
        self.pool.close()


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
