"""Lagrangian duals of the generalised assignment problem: certified bundle runs against Polyak's subgradient method.

    python asv_benchmarks/reproduce/assignment.py [--sizes 5x100 10x100 20x200]

Job j goes to one agent i at cost c_ij and takes a_ij of its capacity b_i. With F = -L, two duals are

    jobs        L(v) = sum_j v_j + sum_i min over knapsacks of agent i of sum_j (c_ij - v_j) x_ij    (m parts, dim n)
    capacities  L(u) = sum_j min_i (c_ij + u_i a_ij) - sum_i u_i b_i                                 (n parts, dim m)

Instances of types A to D follow Chu and Beasley (1997), type E Yagiura, Ibaraki and Glover. One call evaluates all
parts at one point. pybundle minimises over multipliers in a generous box and stops at a certified gap of 1e-3. Polyak's
steps theta (F - target) / |g|^2 stop at a true gap of 1e-3, which they could not know, and the best setting is chosen
with hindsight: the target is the minimum F*, or the cost of a feasible assignment, with theta halved after p calls
without progress. Writes asv_benchmarks/results/assignment.md.
"""

import argparse
import warnings

import numpy as np
import scipy.sparse as sp
from common import RESULTS, table, version
from scipy.optimize import Bounds, LinearConstraint, milp

import pybundle as pb
from pybundle.prox import Box
from pybundle.risks import Function

TOL = 1e-3
MOST = 400          # iterations of pybundle, and calls of one setting of the subgradient method
IDEAL = [(theta, None) for theta in (0.5, 1.0, 1.5, 1.9)]
PRACTICAL = [(theta, p) for theta in (0.5, 1.0, 1.5, 2.0) for p in (5, 10, 20, 30)]


def instance(kind, m, n):
    """Costs and resources, shape (m, n), and capacities (m,), which are integers."""
    rng = np.random.default_rng([ord(kind), m, n])
    if kind in "ABC":
        a, c = rng.integers(5, 26, (m, n)), rng.integers(10, 51, (m, n))
    elif kind == "D":
        a = rng.integers(1, 101, (m, n))
        c = 111 - a + rng.integers(-10, 11, (m, n))
    else:
        a = 1.0 - 10.0 * np.log(1.0 - rng.random((m, n)))
        a, c = np.rint(a).astype(int), np.rint(1000.0 / a - 10.0 * rng.random((m, n))).astype(int)
    b = 0.8 * a.sum(axis=1) / m
    if kind in "AB":
        cheapest = c.argmin(axis=0) == np.arange(m)[:, None]
        b[:] = (1.0 if kind == "A" else 0.7) * (0.6 * n / m * 15.0 + 0.4 * (a * cheapest).sum(axis=1).max())
    return c.astype(float), a, np.floor(b).astype(int)


def feasible(c, a, b):
    """The agent of each job in a good feasible assignment, by HiGHS to a gap of 0.1 % or 2000 nodes."""
    m, n = c.shape
    once = LinearConstraint(sp.kron(np.ones((1, m)), sp.eye_array(n)), 1.0, 1.0)
    room = LinearConstraint(sp.block_diag([row[None] for row in a]), -np.inf, b)
    found = milp(c.ravel(), constraints=[once, room], integrality=np.ones(m * n), bounds=Bounds(0, 1),
                 options={"mip_rel_gap": 1e-3, "node_limit": 2000})
    agents = found.x.reshape(m, n).argmax(axis=0)
    assert all(a[i, agents == i].sum() <= b[i] for i in range(m))
    return agents


class Knapsacks:
    """Best values of m knapsacks at once, by dynamic programming over integer capacities."""

    def __init__(self, a, b):
        self.a, self.b, self.shift = a, b, a.max()
        self.best = np.full((len(b), self.shift + b.max() + 1), -np.inf)    # capacities from -shift on
        self.start = np.arange(len(b))[:, None] * self.best.shape[1] + self.shift + np.arange(b.max() + 1)

    def solve(self, profits):
        """Values (m,) and choices (m, n) for profits of any sign."""
        m, n = profits.shape
        best, took = self.best, np.zeros((n, m, self.b.max() + 1), dtype=bool)
        best[:, self.shift:] = 0.0
        for j in range(n):
            i = np.flatnonzero(profits[:, j] > 0.0)
            taken, left = best.take(self.start[i] - self.a[i, j, None]) + profits[i, j, None], best[i, self.shift:]
            took[j, i] = taken > left
            best[i, self.shift:] = np.maximum(taken, left)
        x, room = np.zeros((m, n)), self.b.copy()
        for j in reversed(range(n)):
            x[:, j] = took[j, np.arange(m), room]
            room -= self.a[:, j] * took[j, np.arange(m), room]
        return (profits * x).sum(axis=1), x


class JobsDual:
    """F(v), a part for each agent: it bears -v_j of its jobs in a feasible assignment, minus their cost bounds it."""

    def __init__(self, c, a, b, agents):
        self.c, self.knapsacks = c, Knapsacks(a, b)
        self.mine = (agents == np.arange(len(b))[:, None]).astype(float)
        self.n_parts, self.dim = c.shape
        self.lower_bounds, self.upper = -(self.mine * c).sum(axis=1), 3.0 * c.max()
        self.starts = {"0": np.zeros(self.dim), "second cost": np.sort(c, axis=0)[1]}

    def parts(self, v):
        values, x = self.knapsacks.solve(v - self.c)
        return values - self.mine @ v, x - self.mine


class CapacitiesDual:
    """F(u), a part for each job: it bears what it takes in a feasible assignment, and a share of what is left."""

    def __init__(self, c, a, b, agents):
        self.c, self.a, jobs = c, a, np.arange(c.shape[1])
        self.dim, self.n_parts = c.shape
        self.share = np.zeros((self.n_parts, self.dim))
        self.share[jobs, agents] = a[agents, jobs]
        self.share += (b - self.share.sum(axis=0)) / self.n_parts
        self.lower_bounds, self.upper = -c[agents, jobs], c.max()
        self.starts = {"0": np.zeros(self.dim)}

    def parts(self, u):
        costs, jobs = self.c + u[:, None] * self.a, np.arange(self.n_parts)
        i = costs.argmin(axis=0)
        slopes = self.share.copy()
        slopes[jobs, i] -= self.a[i, jobs]
        return self.share @ u - costs[i, jobs], slopes


def whole(dual):
    """F as one function."""
    return lambda w: [parts.sum(axis=0) for parts in dual.parts(w)]


def passes(dual, w0, tol=TOL, goal=-np.inf, one=False, bounded=False, most=MOST):
    """A run with the default method; its passes until the gap is certified, in words with those until F <= goal."""
    reached, bounds = [], dual.lower_bounds if bounded else None
    risk = (Function(whole(dual), dual.dim, 1, bounds.sum() if bounded else None) if one else
            Function(dual.parts, dual.dim, dual.n_parts, bounds))
    result = pb.minimize(risk, w0, penalty=Box(0.0, dual.upper), tol=tol, max_iter=most, callback=lambda progress:
                         reached.append(f"{progress.n_passes:.0f}") if progress.fun <= goal else None)
    count = result.n_passes if result.success else np.inf
    return result, count, (f"{count:.0f}" if result.success else f"over {most}") + f" ({[*reached, '-'][0]})"


def least(dual, w0, target, goal, settings):
    """The least number of calls until F is at most `goal`, over settings (theta, p), and the setting in words."""
    fun, least_calls, words = whole(dual), np.inf, f"over {MOST}"
    for theta, p in settings:
        w, best, idle, step = w0, np.inf, 0, theta
        for k in range(1, min(MOST, least_calls - 1) + 1):
            value, g = fun(w)
            best, idle = (value, 0) if value < best else (best, idle + 1)
            if best <= goal:
                least_calls, words = k, f"{k} ({theta:g}" + (f", {p})" if p else ")")
                break
            if idle == p:
                step, idle = 0.5 * step, 0
            w = np.maximum(w - step * (value - target) / (g @ g) * g, 0.0)
    return least_calls, words


def rows_of(kind, c, a, b, agents, make):
    """One row for each start."""
    dual = make(c, a, b, agents)
    cost = c[agents, np.arange(c.shape[1])].sum()
    exact = passes(dual, list(dual.starts.values())[-1], 1e-7, most=3000)[0]
    assert exact.gap <= 1e-7, exact.message
    assert -exact.fun <= cost + 1e-6, "weak duality"
    assert exact.x.max() < dual.upper, "the bound of the box must not matter"
    milliseconds = 1e3 * exact.seconds["oracle"] / exact.n_passes
    goal = exact.fun + TOL * abs(exact.fun)
    for name, w0 in dual.starts.items():
        ideal, practical = least(dual, w0, exact.fun, goal, IDEAL), least(dual, w0, -cost, goal, PRACTICAL)
        _, counts, cells = zip(*(passes(dual, w0, TOL, goal, one, bounded) for one in (False, True)
                                 for bounded in (True, False)), strict=True)
        yield (kind, f"{c.shape[0]} x {c.shape[1]}", name, f"{-exact.fun:.2f}", f"{cost:.0f}", f"{milliseconds:.1f}",
               ideal[1], practical[1], *cells, *(f"{min(ideal, practical)[0] / count:.2f}" for count in counts[:2]))


def check():
    """Knapsacks against all subsets, and both duals against their subgradient inequality, on small instances."""
    rng = np.random.default_rng(0)
    subsets = (np.arange(2**9)[:, None] >> np.arange(9) & 1).astype(float)
    for kind in "ABCDE":
        c, a, b = instance(kind, 3, 9)
        for _ in range(20):
            profits = rng.uniform(-0.3, 1.0, c.shape) * c.max()
            values, x = Knapsacks(a, b).solve(profits)
            for i in range(3):
                brute = (subsets @ profits[i])[subsets @ a[i] <= b[i]].max()
                assert abs(values[i] - brute) <= 1e-9 * (1.0 + brute) and x[i] @ a[i] <= b[i]
        for make in (JobsDual, CapacitiesDual):
            dual = make(c, a, b, rng.integers(0, 3, 9))
            v, w = rng.uniform(0.0, c.max(), (2, dual.dim))
            (at_v, slopes), (at_w, _) = dual.parts(v), dual.parts(w)
            assert (at_w >= at_v + slopes @ (w - v) - 1e-8 * c.max() * (1.0 + np.abs(at_v))).all()


HEADER = ("type", "agents x jobs", "start", "L*", "feasible", "call, ms", "ideal Polyak (theta)",
          "practical Polyak (theta, p)", "auto, parts, bounds", "auto, parts", "auto, 1 part, bounds", "auto, 1 part",
          "Polyak / (parts, bounds)", "Polyak / parts")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="+", default=["5x100", "10x100", "20x200"])
    sizes = parser.parse_args().sizes
    warnings.simplefilter("ignore", pb.ConvergenceWarning)
    check()
    problems = [(kind, *instance(kind, *map(int, size.split("x")))) for size in sizes for kind in "ABCDE"]
    problems = [(*problem, feasible(*problem[1:])) for problem in problems]
    text = ["# Lagrangian duals of the generalised assignment problem",
            f"`python asv_benchmarks/reproduce/assignment.py --sizes {' '.join(sizes)}`, one thread, pybundle "
            f"{version()}. Calls of the oracle until F is within 1e-3 of F*: the best of all settings of the "
            "subgradient method, and passes of `pb.minimize` until that is certified, in brackets until it is true. "
            "`parts`: one for each agent or job; "
            "`bounds`: with the `lower_bounds` that a feasible assignment proves. Types A to E are those of the "
            "literature on this problem; L* is the best bound, `feasible` the cost of an assignment, theta and p the "
            "factor of the step and the idle steps after which it is halved. The ratios divide the better of the two "
            "Polyak columns by certified passes."]
    for title, make in (("Relaxed assignment of jobs: a knapsack for each agent", JobsDual),
                        ("Relaxed capacities", CapacitiesDual)):
        rows = [row for problem in problems for row in rows_of(*problem, make)]
        text += [f"## {title}", table(HEADER, rows)]
        for name, *ratios in list(zip(HEADER, *rows, strict=True))[-2:]:
            reached = sum(float(ratio) >= 2.0 for ratio in ratios)
            text.append(f"{name}: {reached} of {len(rows)} reach 2; median {np.median(np.float64(ratios)):.2f}.")
    (RESULTS / "assignment.md").write_text("\n\n".join(text) + "\n", encoding="utf-8")
    print("\n\n".join(text))


if __name__ == "__main__":
    main()
