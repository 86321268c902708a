"""Which method for how many workers: seconds to a gap of 1e-2 with 1 to 64 threads, or workers that hold the parts.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/workers.py [--only mnist ocr landmarks] [--repeats 5]

Each method runs with an executor that keeps the CPU seconds of every work unit. The seconds with T threads follow from
them. Two threads are also measured: CPU seconds of the calling thread and of the busier one in work units. Medians.
Workers that hold the parts are simulated from passes, master and bundle of the same runs, and from the measured cost
of a message of Dask. Writes results/workers.md.
"""

import argparse
import heapq
import time
from statistics import median

from common import RESULTS, solve, table, version  # sets threads: before NumPy

# isort: split
import race
import threads
from scaling import BANDWIDTH, cost_of_message

from pybundle.runtime.executors import make_executor

SETS = {"mnist": (lambda: race.mnist()[0], (100.0, 10.0)), "ocr": (lambda: race.ocr()[0], (62.51,)),
        "landmarks": (threads.faces, (1000.0,))}
METHODS = {"block steps": ("prox-bcfw", None), "oca, P = 16": ("oca", 16), "oca, P = 64": ("oca", 64)}
WORKERS = (1, 2, 4, 8, 16, 64)
HEADER = ("data", "lam", "who", "method", "passes", *(f"T = {n}" for n in WORKERS), "T = 2, measured")


class Units:
    """An executor of one thread that keeps the CPU seconds of its work units, a list for every call."""

    def __init__(self):
        self.calls = []

    def map(self, function, items):
        answers, seconds = [], []
        for item in items:
            began = time.process_time()
            answers.append(function(item))
            seconds.append(time.process_time() - began)
        self.calls.append(seconds)
        return answers

    def seconds(self, n_threads):
        """What the calls take if each unit goes to the first thread that is free."""
        total = 0.0
        for units in self.calls:
            ends = [0.0] * min(n_threads, len(units) or 1)
            for unit in units:
                heapq.heapreplace(ends, ends[0] + unit)
            total += max(ends)
        return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--repeats", type=int, default=5, help="runs of each method (default 5)")
    parser.add_argument("--time-limit", type=float, default=150.0, help="seconds of a run (default 150)")
    arguments = parser.parse_args()
    message, rows = measure_message(), []
    for name in arguments.only:
        make, lams = SETS[name]
        risk = make()
        solve(risk, lams[0], "auto", None, max_iter=1)      # what a process does once
        for lam in lams:
            rows += of_set(name, risk, lam, message, arguments)
            print(table(HEADER, rows), flush=True)
    text = TEXT.format(version=version(), message=1e3 * message, repeats=arguments.repeats,
                       bandwidth=BANDWIDTH / 1e9, table=table(HEADER, rows))
    (RESULTS / "workers.md").write_text(text, encoding="utf-8")


def of_set(name, risk, lam, message, arguments):
    """Rows of HEADER: threads first, then workers."""
    rows, remote = [], []
    for label, (method, n_parts) in METHODS.items():
        runs = [with_one(risk, lam, method, n_parts, arguments) for _ in range(arguments.repeats)]
        two = median(with_two(risk, lam, method, n_parts, arguments) for _ in range(arguments.repeats))
        result = runs[0][0]         # the passes are the same in all
        passes = result.n_passes
        shown = f"{passes:.0f}" + ("" if result.success else f" (gap {result.gap:.0e})")
        simulated = [median(rest + meter.seconds(n) for _, rest, meter in runs) for n in WORKERS]
        rows.append((name, f"{lam:g}", "threads", label, shown, *(f"{s:.2f}" for s in (*simulated, two))))
        if method == "oca":         # the only one that takes parts held by workers
            simulated = [median(rest + passes * round_of(risk, n_parts, n, meter.seconds(1) / passes, message)
                                for _, rest, meter in runs) for n in WORKERS]
            remote.append((name, f"{lam:g}", "workers", label, shown, *(f"{s:.2f}" for s in simulated), "-"))
    return rows + remote


def with_one(risk, lam, method, n_parts, arguments):
    """Result, CPU seconds outside work units, and the work units of a run in one thread."""
    meter, began = Units(), time.process_time()
    result = solve(risk, lam, method, n_parts, time_limit=arguments.time_limit, executor=meter)
    return result, time.process_time() - began - meter.seconds(1), meter


def round_of(risk, n_parts, n_workers, whole, message):
    """Seconds of a pass over workers: the largest share of the work, messages, and w and dense planes on the wire.

    `whole` are the CPU seconds of a pass, `message` those of a message to a worker.
    """
    share = -(-n_parts // n_workers) / n_parts
    busy = min(n_workers, n_parts)
    return whole * share + busy * message + 8.0 * risk.dim * (busy + n_parts) / BANDWIDTH


def with_two(risk, lam, method, n_parts, arguments):
    """CPU seconds of a run with two threads along its longest path, whatever else the machine does."""
    pool = make_executor(2)
    metered = threads.Metered(pool)
    solve(risk, lam, method, n_parts, time_limit=arguments.time_limit, executor=metered)
    pool.close()
    return metered.path()


def measure_message():
    """Seconds of a task of Dask that does nothing, the least of ten measurements."""
    import logging

    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0",
                      silence_logs=logging.CRITICAL) as local, Client(local) as client:
        return min(cost_of_message(client, 2) for _ in range(10))


TEXT = """\
# Which method for how many workers

Seconds to a certified gap of 1e-2 from zero with T threads, or T workers that hold the parts. `method="auto"` takes
block steps ("prox-bcfw") with threads, and "oca" with P = 16 where an executor keeps the parts. Written by
`asv_benchmarks/reproduce/workers.py` with pybundle {version}.

{table}

Medians of {repeats} runs. Threads: simulated from the CPU seconds of the work units, each taken by the first thread
that is free; what is no work unit (block steps, line search, master, bundle) belongs to one thread. "T = 2, measured"
are CPU seconds of the calling thread and of the busier of two in work units. Workers: a pass takes as long as the
largest share of the parts; each round costs {message:.1f} ms a worker (measured: a task of Dask that does nothing, the
least of ten), and w and dense planes go over a wire of {bandwidth:g} GB/s.
"""


if __name__ == "__main__":
    main()
