"""Master QPs saved from real runs: pybundle against general QP solvers, at one recomputed gap.

    PYBUNDLE_DATA=... python asv_benchmarks/reproduce/qp_masters.py [--with-quadprog] [--repeats 7]

Every solver gets `min 1/2 x'Hx - f'x, x >= 0, every part's sum at most 1` in its own form, built before the
clock starts; H and f are divided by max |H_ij| and the objective by max |f_j| for peers, as their absolute
tolerances want. A peer's tolerances are tightened by tens until the relative duality gap that we recompute in
float64 from its answer (clipped and scaled to feasibility) is at most 1e-6; the time is that of the loosest
setting that does, with the setup of the solver counted. Processor time of one thread; the median of the calls, with
all solvers taking turns on a problem, a few calls in a row each, so that one does not pay for the caches that another
left behind. Writes asv_benchmarks/results/qp_masters.md.
"""

import argparse
import time
from importlib import metadata

from common import RESULTS, data_file, version  # sets threads: before NumPy

# isort: split
import numpy as np
import scipy.sparse as sp

from pybundle.qp import SimplexProblem, SimplexQP, solve_simplex_qp

GOAL = 1e-6
# ms, cold / warm, of the solver inside SHOGUN on the machine that saved the problems, and of PIQP there
LIBQP = {
    "bmrm_lam100_m200": (4.7, 2.9, 1.8),
    "bmrm_lam10_m1000": (96, 18, 138),
    "pbmrm16_lam10_m800": (25, 22, 68),
    "prox16_lam1_m900": (74, 75, 95),
    "prox1_lam1_m142": (96, 80, 0.9),
}
IN_A_ROW = 4
TOO_SLOW = 20.0     # seconds of one attempt after which a peer is not tightened further


def load(name):
    data = np.load(data_file("qp_masters", f"{name}.npz"))
    f = data["f"].copy()
    m = len(f)
    H = np.zeros((m, m))
    H[np.tril_indices(m)] = data["H_tril"]
    H += np.tril(H, -1).T
    parts = data["part"].astype(np.int32)
    return SimplexProblem(H, f, parts, np.ones(int(parts.max()) + 1, bool)), data["x_start"]


def made(name, m, n_parts, rank, seed):
    """Planes of random shape with norms over two orders of magnitude."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, rank)) * np.exp(rng.standard_normal((m, 1))) + rng.standard_normal(rank)
    f = rank * rng.random(m)
    parts = rng.permutation(np.arange(m) % n_parts).astype(np.int32)
    return SimplexProblem(A @ A.T * (0.3 / n_parts), f, parts, np.ones(n_parts, bool)), np.zeros(m)


def relative_gap(problem, x):
    """Of x made feasible."""
    x = np.maximum(np.nan_to_num(x), 0.0)
    sums = np.bincount(problem.parts, x, len(problem.slack))
    x = x / np.maximum(sums, 1.0)[problem.parts]
    value, gap, _, _ = problem.measure(x)
    return gap / max(abs(value), 1e-300)


# ---------------------------------------------------------------------- peers: prepare(problem) -> run(tol)


def scaled(problem):
    """x = t y with t chosen so that quadratic and linear term have entries of order one."""
    unit = np.abs(problem.f).max()
    m, n_parts = len(problem.f), len(problem.slack)
    E = np.zeros((n_parts, m))
    E[problem.parts, np.arange(m)] = 1.0
    return problem.H / unit, -problem.f / unit, E


def piqp(problem):
    import piqp
    P, c, E = scaled(problem)
    m, n_parts = len(c), len(E)

    def run(tol):
        solver = piqp.DenseSolver()
        solver.settings.eps_abs = solver.settings.eps_rel = tol
        solver.settings.eps_duality_gap_abs = solver.settings.eps_duality_gap_rel = tol
        solver.setup(P, c, None, None, E, np.full(n_parts, -np.inf), np.ones(n_parts), np.zeros(m),
                     np.full(m, np.inf))
        solver.solve()
        return solver.result.x
    return run


def clarabel(problem):
    import clarabel
    P, c, E = scaled(problem)
    m, n_parts = len(c), len(E)
    upper = sp.csc_matrix(np.triu(P))
    A = sp.csc_matrix(np.vstack([E, -np.eye(m)]))
    b = np.r_[np.ones(n_parts), np.zeros(m)]
    cones = [clarabel.NonnegativeConeT(n_parts + m)]

    def run(tol):
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
        return np.array(clarabel.DefaultSolver(upper, c, A, b, cones, settings).solve().x)
    return run


def osqp(problem):
    import osqp
    P, c, E = scaled(problem)
    m, n_parts = len(c), len(E)
    upper = sp.csc_matrix(np.triu(P))
    A = sp.csc_matrix(np.vstack([E, np.eye(m)]))
    low, high = np.r_[np.full(n_parts, -np.inf), np.zeros(m)], np.r_[np.ones(n_parts), np.full(m, np.inf)]

    def run(tol):
        solver = osqp.OSQP()
        solver.setup(upper, c, A, low, high, verbose=False, eps_abs=tol, eps_rel=tol, max_iter=100000,
                     polishing=True, time_limit=TOO_SLOW)
        return np.asarray(solver.solve(raise_error=False).x, dtype=float)
    return run


def proxqp(problem):
    import proxsuite
    P, c, E = scaled(problem)
    m, n_parts = len(c), len(E)
    C = np.vstack([E, np.eye(m)])
    low, high = np.r_[np.full(n_parts, -1e20), np.zeros(m)], np.r_[np.ones(n_parts), np.full(m, 1e20)]

    def run(tol):
        solver = proxsuite.proxqp.dense.QP(m, 0, n_parts + m)
        solver.settings.eps_abs = tol
        solver.settings.eps_rel = 0.0
        solver.settings.max_iter = 1000
        solver.init(P, c, None, None, C, low, high)
        solver.solve()
        return solver.results.x
    return run


def quadprog(problem):
    import quadprog
    P, c, E = scaled(problem)
    P = P + 1e-13 * P.diagonal().mean() * np.eye(len(c))
    C = np.vstack([-E, np.eye(len(c))]).T.copy()
    b = np.r_[-np.ones(len(E)), np.zeros(len(c))]
    return lambda tol: quadprog.solve_qp(P.copy(), -c, C, b)[0]


PEERS = {"PIQP": (piqp, "piqp"), "Clarabel": (clarabel, "clarabel"), "OSQP": (osqp, "osqp"),
         "ProxQP": (proxqp, "proxsuite")}


def clock(call, *arguments):
    start = time.process_time()
    answer = call(*arguments)
    return time.process_time() - start, answer


def tighten(problem, run):
    """Loosest tolerance whose answer has the gap: (tol, gap, seconds), tol None where none has."""
    best = (None, np.inf, np.inf)
    for exponent in range(-4, -15, -1):
        seconds, x = clock(run, 10.0**exponent)
        gap = relative_gap(problem, x)
        if gap < best[1]:
            best = (None, gap, seconds)
        if gap <= GOAL:
            return 10.0**exponent, gap, seconds
        if seconds > TOO_SLOW / 2:
            break
    return best


def measure(problem, start, peers, repeats):
    """Rows name -> (cold seconds, warm seconds or None, gap)."""
    slack, x, gaps = problem.slack, np.zeros(len(problem.f)), {}
    fixed = SimplexQP()

    def ours(x0):
        return solve_simplex_qp(problem.H, problem.f, problem.parts, GOAL, slack, x0).x

    def loop(x0):
        x[:] = x0
        fixed.solve(problem.H, problem.f, problem.parts, slack, x, rtol=GOAL)
        return x

    calls = {("pybundle", "cold"): lambda: ours(None), ("pybundle", "warm"): lambda: ours(start),
             ("pybundle, in a loop", "cold"): lambda: loop(0.0),
             ("pybundle, in a loop", "warm"): lambda: loop(start)}
    times = {key: [] for key in calls}
    few = dict.fromkeys(calls, repeats)
    for name, prepare in peers.items():
        run = prepare(problem)
        tol, gap, seconds = tighten(problem, run)
        gaps[name] = gap
        times[name, "cold"] = []
        if tol is None:
            times[name, "cold"] = [seconds]
            few[name, "cold"] = 0
        else:
            few[name, "cold"] = repeats if seconds < 0.5 else min(3, repeats)
        calls[name, "cold"] = lambda run=run, tol=tol: run(tol)
    for turn in range(repeats):
        for key, call in calls.items():
            if turn < few[key]:
                for _ in range(IN_A_ROW if few[key] == repeats else 1):
                    seconds, answer = clock(call)
                    times[key].append(seconds)
                gap = relative_gap(problem, answer)
                gaps[key[0]] = max(gaps.get(key[0], 0.0), gap)
    names = dict.fromkeys(name for name, _ in calls)
    return {name: (np.median(times[name, "cold"]),
                   np.median(times[name, "warm"]) if (name, "warm") in times else None, gaps[name])
            for name in names}


def table(rows):
    """Markdown, ms, with the ratios of the fastest peer that reached the gap to both of ours."""
    names = list(next(iter(rows.values())))
    lines = ["| problem | " + " | ".join(names) + " | best peer / pybundle | best peer / in a loop |",
             "|---" * (len(names) + 3) + "|"]
    for label, row in rows.items():
        cells = []
        for cold, warm, gap in row.values():
            text = f"{cold * 1e3:.3g}" + (f" / {warm * 1e3:.3g}" if warm is not None else "")
            cells.append(text if gap <= GOAL else f"({text}: gap {gap:.0e})")
        ours = row["pybundle"][0]
        peer = min((row[n][0] for n in names[2:] if row[n][2] <= GOAL), default=np.nan)
        lines.append(f"| {label} | " + " | ".join(cells) + f" | {peer / ours:.3g} | {peer / row[names[1]][0]:.3g} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--with-quadprog", action="store_true", help="a GPL peer, if you have it")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    peers, versions = {}, []
    table_of_peers = PEERS | ({"quadprog": (quadprog, "quadprog")} if arguments.with_quadprog else {})
    for name, (prepare, package) in table_of_peers.items():
        try:
            versions.append(f"{name} {metadata.version(package)}")
            peers[name] = prepare
        except ImportError:
            print(f"{name} is not installed: skipped (pip install {package})")
    problems = {name: load(name) for name in LIBQP}
    problems["made: 1000 planes, 1 part, rank 40"] = made("low rank", 1000, 1, 40, 0)
    problems["made: 600 planes, 64 parts, rank 2000"] = made("many parts", 600, 64, 2000, 1)
    rows = {}
    for name, (problem, start) in problems.items():
        row = measure(problem, start, peers, arguments.repeats)
        exact = solve_simplex_qp(problem.H, problem.f, problem.parts, 1e-9, problem.slack)
        active = np.count_nonzero(exact.x)
        rows[f"{name} ({active} active)"] = row
        for solver, (cold, warm, gap) in row.items():
            warm = np.nan if warm is None else warm
            print(f"{name:24s} {solver:20s} {cold * 1e3:9.3f} {warm * 1e3:9.3f} ms, gap {gap:.0e}",
                  flush=True)
    lines = ["# Master QPs to a relative duality gap of 1e-6", "",
             "Milliseconds of processor time, cold / warm where a solver takes a start; one thread, median, all "
             "solvers in turn in one run, by `asv_benchmarks/reproduce/qp_masters.py`. Gaps are recomputed in float64 "
             "from the data; in brackets where a peer never got there (best of its answers). 'In a loop' is the "
             "compiled object without validation, as the bundle loop calls it; 'pybundle' is `solve_simplex_qp`, "
             "which first checks by a Cholesky factor that H is positive semidefinite. "
             + ", ".join([f"pybundle {version()}", *versions]) + ".", "", *table(rows), ""]
    if "PIQP" in peers:
        lines += ["SHOGUN's libqp was timed on another machine together with PIQP; its times are rescaled "
                  "here by the ratio of the two PIQP times.", "",
                  "| problem | libqp rescaled, cold / warm | pybundle, in a loop, cold / warm | ratio |",
                  "|---|---|---|---|"]
        for name, label in zip(LIBQP, rows, strict=False):
            cold, warm, piqp_there = LIBQP[name]
            factor = rows[label]["PIQP"][0] * 1e3 / piqp_there
            ours = [seconds * 1e3 for seconds in rows[label]["pybundle, in a loop"][:2]]
            lines.append(f"| {name} | {cold * factor:.3g} / {warm * factor:.3g} | "
                         f"{ours[0]:.3g} / {ours[1]:.3g} | "
                         f"{cold * factor / ours[0]:.3g} / {warm * factor / ours[1]:.3g} |")
        lines.append("")
    (RESULTS / "qp_masters.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
