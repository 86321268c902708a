"""Learned costs: certified runs against Adam in calls of the solver, and against ridge regression in regret.

    python asv_benchmarks/reproduce/decisions.py [--seeds 10]

Made data after [Elmachtoub, Grigas 2022]: x normal in five dimensions and a constant, B of zeros and ones, costs
[((B x)_j / sqrt 5 + 3)^degree / 3.5^degree + 1] eps_j with eps uniform in [.5, 1.5]. Decisions are shortest paths on a
grid of 5 x 5 nodes (40 arcs), or knapsacks: 32 items of whole weights 3 to 7, room for 20, profits
ceil(5 ((B x)_j / sqrt 5 + 3)^degree / 3.5^degree eps_j). Adam takes batches of 32 and the best of five rates; it stops
when its F is at most that of the certified run, and passes to look at F are not counted. A pass, like an epoch, calls
the solver once for each example. Writes asv_benchmarks/results/decisions.md.
"""

import argparse
import itertools
import time
import warnings
from functools import partial

from common import RESULTS, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
from scipy.optimize import Bounds, LinearConstraint

import pybundle as pb

K, RATES, EPOCHS = 5, (0.003, 0.01, 0.03, 0.1, 0.3), 100
ARCS = np.array([(a, b) for a in range(K * K) for b in (a + 1, a + K) if b < K * K and (b != a + 1 or b % K)])
SHORTEST = partial(pb.oracles.shortest_path_batch, arcs=ARCS)
WEIGHTS, ROOM = np.random.default_rng(0).integers(3, 8, 32), 20


def made(n, degree, seed, m=40, noise=0.5, n_test=2000):
    """Features with a constant, costs of paths or of 32 items; training rows first, test rows after them."""
    rng = np.random.default_rng([seed, degree])
    B, X = (rng.random((m, 5)) < 0.5) * 1.0, rng.standard_normal((n + n_test, 5))
    base = ((X @ B.T / np.sqrt(5) + 3.0) / 3.5) ** degree
    eps = rng.uniform(1.0 - noise, 1.0 + noise, base.shape)
    costs = (base + 1.0) * eps if m == len(ARCS) else -np.ceil(5.0 * base * eps)
    return np.c_[X, np.ones(len(X))], costs


def knapsack(costs):
    """Items of least cost, by dynamic programming over the room."""
    n, each = len(costs), np.arange(len(costs))
    best, took = np.zeros((n, ROOM + 1)), np.zeros((len(WEIGHTS), n, ROOM + 1), dtype=bool)
    for j, size in enumerate(WEIGHTS):
        taken = best[:, :-size] + costs[:, j, None]
        took[j, :, size:] = taken < best[:, size:]
        best[:, size:] = np.minimum(taken, best[:, size:])
    found, room = np.zeros(costs.shape), np.full(n, ROOM)
    for j in reversed(range(len(WEIGHTS))):
        found[:, j] = took[j, each, room]
        room -= WEIGHTS[j] * took[j, each, room]
    return found


def adam(solver, X, C, lam, goal, rate):
    """Epochs until F of the mean is at most the goal, or None; beta .9 and .999, as usual."""
    truths, rng, W, t = solver(C), np.random.default_rng(0), np.zeros((C.shape[1], X.shape[1])), 0
    first, second = np.zeros((2, *W.shape))

    def risk(rows):
        costs = 2.0 * X[rows] @ W.T - C[rows]
        apart = truths[rows] - solver(costs)
        return (costs * apart).sum() / len(rows), 2.0 * apart.T @ X[rows] / len(rows)

    for epoch in range(1, EPOCHS + 1):
        order = rng.permutation(len(X))
        for rows in np.array_split(order, -(-len(X) // 32)):
            g, t = risk(rows)[1] + lam * W, t + 1
            first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g * g
            W = W - rate * (first / (1.0 - 0.9**t)) / (np.sqrt(second / (1.0 - 0.999**t)) + 1e-8)
        if risk(np.arange(len(X)))[0] + 0.5 * lam * (W * W).sum() <= goal:
            return epoch
    return None


def runs():
    """Rows: problem, n, degree, tol, passes, seconds, gap, epochs of Adam at its best rate, ratio."""
    for name, n, degree, tol in [("path", n, degree, tol) for n in (100, 1000) for degree in (1, 4, 8)
                                 for tol in (1e-2, 1e-3)] + [("knapsack", 1000, 4, 1e-2)]:
        solver, m = (SHORTEST, len(ARCS)) if name == "path" else (knapsack, len(WEIGHTS))
        X, C = made(n, degree, 0, m, n_test=0)
        began = time.process_time()
        risk = pb.risks.Structured(pb.models.Optimizer(solver, m, X.shape[1]), X, C)
        result = pb.minimize(risk, lam=1e-3 * n, tol=tol)
        seconds = time.process_time() - began
        epochs = [adam(solver, X, C, 1e-3, result.fun / n, rate) for rate in RATES]
        known = [e for e in epochs if e is not None]
        yield (name, n, degree, f"{tol:g}", f"{result.n_passes:.0f}", f"{seconds:.2f}", f"{result.gap:.1e}",
               min(known, default=f"over {EPOCHS}"), len(known),
               f"{min(known, default=EPOCHS) / result.n_passes:.1f}")


def regrets(seeds):
    """Rows: n, degree, mean regret of ridge and of ours, relative and absolute difference, worst, chosen C n."""
    for n, degree in itertools.product((100, 1000), (1, 4, 8)):
        found, chosen = [], []
        for seed in range(1, seeds + 1):
            X, C = made(n, degree, seed)
            ours, ridge = (pb.DecisionFocusedRegressor(SHORTEST, C=c, tol=1e-2).fit(X[:n, :5], C[:n])
                           for c in ("cv", 0.0))
            found.append([-model.score(X[n:, :5], C[n:]) for model in (ridge, ours)])
            chosen.append(f"{ours.C_ * n:g}")
        ridge, ours = np.mean(found, axis=0)
        apart = np.diff(found, axis=1)
        yield (n, degree, f"{ridge:.4f}", f"{ours:.4f}", f"{100.0 * (ours / ridge - 1.0):+.1f} %",
               f"{ours - ridge:+.4f}", f"{apart.std(ddof=1) / np.sqrt(seeds):.4f}", f"{apart.max():+.3f}",
               " ".join(chosen))


def inverse():
    """Passes, regret and mean cosine between true and learned costs of all paths, less their means."""
    n = 1000
    X, C = made(n, 1, 0, noise=0.0)
    model = pb.models.Optimizer(SHORTEST, len(ARCS), X.shape[1], loss="inverse")
    result = pb.minimize(pb.risks.Structured(model, X[:n], SHORTEST(C[:n])), lam=1e-5 * n, tol=1e-2)
    learned, true = X[n:] @ result.x.reshape(len(ARCS), -1).T, C[n:]
    rights = list(itertools.combinations(range(2 * K - 2), K - 1))
    paths = np.zeros((len(rights), len(ARCS)))
    for path, right in zip(paths, rights, strict=True):
        node = 0
        for step in range(2 * K - 2):
            after = node + (1 if step in right else K)
            path[np.flatnonzero((ARCS == (node, after)).all(axis=1))] = 1.0
            node = after
    a, b = ((costs @ paths.T) - (costs @ paths.T).mean(axis=1, keepdims=True) for costs in (learned, true))
    cosine = ((a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).mean()
    best = (true * SHORTEST(true)).sum()
    return result, (true * SHORTEST(learned)).sum() / best - 1.0, cosine


def gaps(seeds, n=40):
    """Rows: seed, bounds of a run with a MILP gap of 5 %, the optimum for the same truths, what inference leaves."""
    room = LinearConstraint(WEIGHTS[None].astype(float), ub=ROOM)
    milp = partial(pb.oracles.milp_batch, bounds=Bounds(0, 1), constraints=room)
    for seed in range(seeds):
        X, C = made(n, 4, seed, len(WEIGHTS), n_test=0)
        truths = milp(C, options={"mip_rel_gap": 0.05})

        def answered(costs, later, C=C, truths=truths):
            return truths if costs.shape == C.shape and np.array_equal(costs, C) else later(costs)

        inexact, exact = (pb.minimize(pb.risks.Structured(pb.models.Optimizer(
            partial(answered, later=later), len(WEIGHTS), X.shape[1]), X, C), lam=1e-2 * n, tol=tol)
            for later, tol in ((partial(milp, options={"mip_rel_gap": 0.05}), 1e-2), (knapsack, 1e-7)))
        assert inexact.lower_bound <= exact.fun and exact.lower_bound <= inexact.fun
        yield (seed, f"{inexact.lower_bound:.4f}", f"{exact.lower_bound:.4f} to {exact.fun:.4f}", f"{inexact.fun:.4f}",
               f"{inexact.inference_gap:.1e}", inexact.status.name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")
    result, regret, cosine = inverse()
    text = ["# Learned costs", f"`python asv_benchmarks/reproduce/decisions.py --seeds {seeds}`, one thread, processor "
            f"time, pybundle {version()}. Problems and words are in the head of the script.",
            "## Calls of the solver for each example, lam/n = 1e-3",
            table(("decisions", "n", "degree", "tol", "passes", "seconds", "gap",
                   f"Adam, best of {len(RATES)} rates, epochs", "rates that get there", "Adam / ours, at least"),
                  runs()),
            f"## Regret on 2000 test rows, {seeds} seeds, C and ridge by validation",
            table(("n", "degree", "ridge", "ours", "relative", "absolute", "standard error", "worst seed",
                   "C n chosen"), regrets(seeds)),
            "## Costs from decisions, n = 1000, lam/n = 1e-5, degree 1 without noise",
            f"{result.n_passes:.0f} passes to a gap of {result.gap:.1e}; regret {regret:.1e} on 2000 test rows; mean "
            f"cosine of the costs of all paths {cosine:.4f}.",
            "## Knapsacks solved to a gap of 5 %, n = 40, lam/n = 1e-2",
            table(("seed", "lower bound", "optimum", "F", "left by inference", "status"), gaps(5))]
    (RESULTS / "decisions.md").write_text("\n\n".join(text) + "\n", encoding="utf-8")
    print("\n\n".join(text))


if __name__ == "__main__":
    main()
