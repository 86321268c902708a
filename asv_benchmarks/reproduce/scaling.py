"""How training scales: threads, Dask processes, costs of an iteration, and a simulation of larger clusters.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/scaling.py [--data mnist landmarks] [--lam 1000 100]

Measured: "oca" with P = 16 on landmarks without executor, with two threads, and over Dask with one and two worker
processes, to the same gap, in turns `--repeats` times, of which the median counts: with the faces that
`landmarks.py` trains on, all of the file, and their mirror images with them, as the paper has 7000; seconds and bytes
of a round of P-BMRM with the published stop for every P.

Simulated: P-BMRM on 1 to 1024 workers and 10^5 to 10^9 examples from these measured numbers. The assumptions are
printed below the table. Writes results/scaling.md and results/scaling.png; with --processes-only
the first section of that file alone.
"""

import argparse
import logging
import time
import warnings
from typing import NamedTuple

from common import RESULTS, data_file, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
import race
import threads

import pybundle as pb

P_MEASURED = (1, 8, 16, 32, 64)
WORKERS = tuple(2**k for k in range(11))
EXAMPLES = (10**5, 10**6, 10**7, 10**8, 10**9)
BANDWIDTH = 1.25e9      # bytes a second in and out of the driver: 10 Gbit/s
LOADERS = {"mnist": lambda: race.mnist()[0], "landmarks": threads.faces}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=list(LOADERS), default=list(LOADERS), help="for the columns")
    parser.add_argument("--lam", nargs="+", type=float, default=[1000.0, 100.0])
    parser.add_argument("--time-limit", type=float, default=300.0, help="seconds of a run (default 300)")
    parser.add_argument("--repeats", type=int, default=5, help="of threads and processes (default 5)")
    parser.add_argument("--processes-only", action="store_true", help="threads and processes; the rest stays as it is")
    arguments = parser.parse_args()
    data_file("lfw_landmarks", "lfw_landmarks.npz")
    processes = []
    for which in ((0,),), ((0, 1, 2),), ((0, 1, 2), True):
        risk = threads.faces(*which).derive(n_parts=16)
        rows, message = measure_processes(risk, 1000.0, arguments.time_limit, arguments.repeats)
        processes += rows
    about = ABOUT_PROCESSES.format(repeats=arguments.repeats, version=version()) + table(PROCESSES, processes)
    if arguments.processes_only:
        return replace_processes(about)
    columns, rounds = [], {}
    for name in arguments.data:
        risk = LOADERS[name]()
        for lam in arguments.lam:
            found = costs_of(name, risk, lam, arguments.time_limit)
            columns += [row for row, _ in found]
            if found:
                rounds[name, lam] = [costs for _, costs in found]
            print(table(COLUMNS, columns), flush=True)
    if not rounds:
        raise SystemExit("no run ended within the time limit, so there is nothing to simulate from")
    name, lam = next(iter(rounds))
    costs = rounds[name, lam]
    simulated = {n: [speed_up(costs, message, n, workers) for workers in WORKERS] for n in EXAMPLES}
    plot(simulated)
    text = TEXT.format(
        version=version(), processes=about,
        columns=table(COLUMNS, columns), name=name,
        lam=lam, example=1e6 * costs[0].example, message=1e3 * message, bandwidth=BANDWIDTH / 1e9,
        plane=costs[-1].plane / 1e3, w=costs[0].w / 1e3,
        qp=", ".join(f"{1e3 * cost.driver:.1f} ms at P = {cost.n_parts}" for cost in costs),
        simulated=table(("examples", *WORKERS), [(f"10^{round(np.log10(n))}", *map(rounded, row))
                                                 for n, row in simulated.items()]))
    (RESULTS / "scaling.md").write_text(text, encoding="utf-8")
    print(text)


def replace_processes(about):
    path = RESULTS / "scaling.md"
    text = path.read_text(encoding="utf-8")
    first, last = text.index(PROCESSES_TITLE), text.index(COLUMN_TITLE)
    path.write_text(text[:first] + PROCESSES_TITLE + about + "\n\n" + text[last:], encoding="utf-8")


# ---------------------------------------------------------------------- threads and processes

PROCESSES = ("faces", "where", "seconds", "certified gap", "iterations", "speed-up", "idle, %", "oracle, s",
             "driver, s", "MB in")


def measure_processes(risk, lam, limit, repeats):
    """Rows of PROCESSES, and the seconds that a round over Dask costs for each message."""
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    options = {"lam": lam, "method": "oca", "tol": 1e-2, "time_limit": limit}
    found, messages = {}, []

    def run(where, risk=risk, **more):
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pb.ConvergenceWarning)
            result = pb.minimize(risk, **options, **more)
        seconds = time.perf_counter() - began
        rounds, rest = result.get("rounds"), result.seconds
        costs = ("-", f"{rest['oracle']:.1f}", f"{rest['total'] - rest['oracle']:.1f}", "-") if rounds is None else (
            f"{100 * rounds['idle']:.0f}", f"{rounds['oracle'].sum():.1f}", f"{rounds['driver'].sum():.1f}",
            f"{rounds['bytes_in'].sum() / 1e6:.0f}")
        print(risk.n_examples, where, f"{seconds:.1f}", *costs, sep=" | ", flush=True)
        gap = f"{result.gap:.2e}" + ("" if result.success else " (time limit)")
        found.setdefault(where, []).append((seconds, gap, result.nit, costs))

    for _ in range(repeats):
        run("one thread")
        run("two threads", n_jobs=2)
        for n_workers in (1, 2):
            with LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0",
                              silence_logs=logging.CRITICAL) as local, Client(local) as client:
                remote = pb.distributed.Dask(client, route="direct").place(risk)
                remote.planes(np.zeros(risk.dim))           # data and modules have arrived
                run(f"Dask, {n_workers} process{'es' * (n_workers - 1)}", remote)
                if n_workers == 2:
                    messages.append(cost_of_message(client, n_workers))
    middle = {where: sorted(runs)[(len(runs) - 1) // 2] for where, runs in found.items()}
    rows = []
    for where, (seconds, gap, nit, costs) in middle.items():
        reference = middle["Dask, 1 process" if where.startswith("Dask") else "one thread"][0]
        rows.append((risk.n_examples, where, f"{seconds:.1f}", gap, nit, f"{reference / seconds:.2f}", *costs))
    return rows, min(messages)


def cost_of_message(client, n_workers):
    """Seconds of a task that does nothing, when there is one for each worker; least of some rounds."""
    best = np.inf
    for _ in range(20):
        began = time.perf_counter()
        client.gather([client.submit(int, k, pure=False) for k in range(n_workers)])
        best = min(best, time.perf_counter() - began)
    return best / n_workers


# ---------------------------------------------------------------------- costs of an iteration

COLUMNS = ("data", "lam", "P", "oracle, ms", "driver, ms")


class Costs(NamedTuple):
    """Of an iteration with P parts: seconds for an example and on the driver, bytes of w and of a plane."""

    n_parts: int
    iterations: float
    example: float
    driver: float
    w: float
    plane: float


def costs_of(name, risk, lam, limit):
    """Rows of COLUMNS with their `Costs`."""
    found = []
    for P in P_MEASURED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pb.ConvergenceWarning)
            result = pb.minimize(risk, lam=lam, method="bmrm stop=published max_idle=10", n_parts=P, tol=1e-2,
                                 time_limit=limit)
        if not result.success:
            print(f"{name}, lam {lam:g}, P = {P}: not within {limit:g} s, gap {result.gap:.1e}")
            break
        oracle = result.seconds["oracle"] / result.n_passes
        driver = (result.seconds["total"] - result.seconds["oracle"]) / result.nit
        slopes = risk.derive(n_parts=P).evaluate(result.x)[1]
        count = slopes.nnz if hasattr(slopes, "nnz") else np.count_nonzero(slopes)
        costs = Costs(P, result.nit, oracle / risk.n_examples, driver, 8.0 * risk.dim,
                      min(8.0 * risk.dim, 12.0 * count / P))
        found.append(((name, f"{lam:g}", P, f"{1e3 * oracle:.1f}", f"{1e3 * driver:.1f}"), costs))
    return found


# ---------------------------------------------------------------------- simulation

def speed_up(costs, message, n, workers):
    """Seconds of BMRM on one computer over those of P-BMRM on so many workers."""
    first = costs[0]
    alone = first.iterations * (n * first.example + first.driver)
    known = np.array([cost.n_parts for cost in costs])
    P = min(workers, int(known.max()))
    iterations, driver, plane = (np.interp(np.log2(P), np.log2(known), [getattr(cost, field) for cost in costs])
                                 for field in ("iterations", "driver", "plane"))
    wire = workers * (first.w + plane) / BANDWIDTH + workers * message * (workers > 1)
    return alone / (iterations * (n / workers * first.example + wire * (workers > 1) + driver))


def rounded(value):
    return f"{value:.2g}" if value < 10.0 else f"{value:.0f}"


def plot(simulated):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    for n, row in simulated.items():
        axes.loglog(WORKERS, row, marker="o", markersize=3, label=f"$10^{{{round(np.log10(n))}}}$ examples")
    axes.loglog(WORKERS, WORKERS, color="grey", linestyle=":", label="one to one")
    axes.set_xlabel("workers")
    axes.set_ylabel("speed-up over BMRM on one computer")
    axes.legend()
    figure.savefig(RESULTS / "scaling.png", dpi=120)


PROCESSES_TITLE = "## Threads and processes\n\n"
ABOUT_PROCESSES = """\
Landmarks, lam = 1000 (losses in per cent), "oca" around the best point, P = 16, certified gap 1e-2: 2287 faces are
those that the other tables train on, 3812 all of the file, 7624 these and their mirror images, as the paper has 7000.
Runs of pybundle {version} take turns, {repeats} times, and the median time counts. The speed-up
of threads is over one thread, that of Dask over one worker process; data are at the workers when the clock starts, and
questions go to them past the scheduler (`route="direct"`). "idle" is the share of their time in which workers had no
task, "oracle" their work, "driver" the seconds between rounds. All have the same bits.

"""
COLUMN_TITLE = "## Costs of an iteration"
TEXT = """\
# Scaling

Written by `asv_benchmarks/reproduce/scaling.py` with pybundle {version}.

## Threads and processes

{processes}

## Costs of an iteration

P-BMRM with the published stop, planes dropped after 10 idle iterations; times are those of one thread. Iterations and
the papers' speed-up, P iter_1 / iter_P, are in papers/p_bmrm.md, but for landmarks at P = 64.

{columns}

## Simulation

Speed-up of P-BMRM on 1 to 1024 workers over BMRM on one computer, from the numbers of {name} at lam = {lam:g}.

{simulated}

![speed-up](scaling.png)

Assumptions: an example costs {example:.2f} microseconds of a worker, whatever their number; all workers are equally
fast. The iterations depend on P alone, not on the number of examples, and P is the number of workers up to the largest
P measured; beyond, a part is shared by several workers, each of which sends its sum, and the iterations stay. In every
round the driver sends w ({w:.0f} kB) to each worker and receives a plane ({plane:.0f} kB) from each, at
{bandwidth:g} GB/s in all, and every message costs it {message:.2f} ms, the measured cost of a task of Dask. Its own
work is what was measured, interpolated in log P: {qp}. Nothing overlaps.
"""


if __name__ == "__main__":
    main()
