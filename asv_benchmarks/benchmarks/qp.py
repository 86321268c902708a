"""Master QPs as a bundle loop meets them: planes of a multiclass hinge, warm starts, loose tolerances."""

import numpy as np

from pybundle.qp import SimplexProblem, SimplexQP, solve_simplex_qp


def record_masters(n_parts, n_planes, lam=1.0, n_examples=1000, n_features=40, n_classes=6, seed=0):
    """Plain cutting planes until the bundle is full; the last masters, their starts and tolerances."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_examples, n_features)) ** 3
    y = (X @ rng.standard_normal((n_features, n_classes))
         + 0.3 * rng.standard_normal((n_examples, n_classes))).argmax(1)
    part = np.arange(n_examples) * n_parts // n_examples
    rows = np.arange(n_examples)
    room = np.zeros((n_planes, n_planes))
    A = np.zeros((n_planes, n_features * n_classes))
    f, parts, x = np.zeros(0), np.zeros(0, np.int32), np.zeros(0)
    w, upper, lower, masters = np.zeros(A.shape[1]), np.inf, 0.0, []
    solver, slack = SimplexQP(), np.ones(n_parts, bool)
    for m in range(n_parts, n_planes + 1, n_parts):
        scores = X @ w.reshape(n_classes, n_features).T
        loss = scores - scores[rows, y][:, None] + (np.arange(n_classes) != y[:, None])
        worst = loss.argmax(1)
        upper = min(upper, 0.5 * lam * w @ w + loss[rows, worst].sum())
        for p in range(n_parts):
            inside = part == p
            slope = np.zeros((n_classes, n_features))
            np.add.at(slope, worst[inside], X[inside])
            np.subtract.at(slope, y[inside], X[inside])
            A[m - n_parts + p] = slope.ravel()
        room[m - n_parts:m, :m] = A[m - n_parts:m] @ A[:m].T
        room[:m, m - n_parts:m] = room[m - n_parts:m, :m].T
        f = np.r_[f, np.bincount(part, worst != y, n_parts)]
        parts = np.r_[parts, np.arange(n_parts, dtype=np.int32)]
        x = np.r_[x, np.zeros(n_parts)]
        tol = max(0.1 * (upper - lower), 1e-4 * upper)
        masters.append((room[:m, :m], f, parts, slack, x.copy(), 1.0 / lam, tol))
        lower = max(lower, -solver.solve(room[:m, :m], f, parts, slack, x, 1.0 / lam, tol).value)
        w = -(x @ A[:m]) / lam
    return masters[-10:]


class WarmMasters:
    """The last ten masters of a run, one object, starts as in the run."""

    params = ([1, 16, 64], [256, 1024], ["auto", "smo", "active-set"])
    param_names = ("n_parts", "n_planes", "method")
    timeout = 300

    def setup(self, n_parts, n_planes, method):
        self.masters = record_masters(n_parts, n_planes)
        self.solver = SimplexQP()

    def solve_all(self, method):
        records = []
        for H, f, parts, slack, start, scale, tol in self.masters:
            x = start.copy()
            records.append((self.solver.solve(H, f, parts, slack, x, scale, tol, method=method), x, tol))
        return records

    def time_ten_masters(self, n_parts, n_planes, method):
        self.solve_all(method)

    def track_worst_gap_over_tolerance(self, n_parts, n_planes, method):
        worst = 0.0
        for (record, x, tol), (H, f, parts, slack, _, scale, _) in zip(self.solve_all(method), self.masters,
                                                                       strict=True):
            gap = SimplexProblem(scale * H, f, parts, slack).measure(x)[1]
            worst = max(worst, gap / tol, record.gap / tol)
        return worst


class TightMasters:
    """One master from nothing to a relative gap of 1e-9, with validation."""

    params = ([1, 16, 64], [256, 1024])
    param_names = ("n_parts", "n_planes")
    timeout = 300

    def setup(self, n_parts, n_planes):
        H, f, parts, slack, _, scale, _ = record_masters(n_parts, n_planes)[-1]
        self.arguments = (scale * H, f, parts, 1e-9, slack)

    def time_cold(self, n_parts, n_planes):
        solve_simplex_qp(*self.arguments)

    def track_relative_gap(self, n_parts, n_planes):
        result = solve_simplex_qp(*self.arguments)
        return result.gap / abs(result.value)
