"""Runs over Dask with a worker killed at a random moment: all must end with the certified optimum.

    python asv_benchmarks/reproduce/faults.py [--runs 30] [--only killed both slow late scheduler stopped]

The problem is made up (multiclass hinge, P = 16) and slowed down, so that a run takes some seconds; two workers in
processes of their own. "killed": kill -9 of one worker, at a moment drawn anew for each run, from before the parts are
placed to after the end; Dask's nanny starts another one. "both": of all workers at once. "slow": a worker takes twenty
times as long. "late": a worker joins, another retires. "scheduler": it goes, and the run goes
on without workers from the state that the error carries. "stopped": SIGSTOP of one worker at a random moment, with
time_limit=8 and a tolerance that is not reached, and without a limit, but with a scheduler that gives a worker up after
10 s without a sign. A run that takes longer than 60 s beyond the undisturbed one counts as hanging; so does one of the
limit of 8 s that takes longer than 12. Writes results/faults.md.
"""

import argparse
import logging
import os
import signal
import threading
import time
from contextlib import suppress

from common import RESULTS, table, version  # sets threads: before NumPy

# isort: split
import dask
import numpy as np
from distributed import Client, LocalCluster

import pybundle as pb

LAM, TOL, PAUSE = 1.0, 1e-3, 0.02
LIMIT, LATEST = 8.0, 12.0       # seconds
TTL = 10                        # seconds without a sign after which the scheduler gives a worker up
HEADER = ("what", "runs", "same certified optimum", "same bits", "hanging", "seconds, median", "seconds, most",
          "undisturbed")


class Paused:
    """An excerpt whose risk takes its time for a pass."""

    def __init__(self, excerpt, seconds):
        self._excerpt, self._seconds, self.rows = excerpt, seconds, excerpt.rows

    def __call__(self):
        risk, seconds = self._excerpt(), self._seconds

        class Slow(type(risk)):
            def planes(self, w):
                time.sleep(seconds)
                return super().planes(w)

        risk.__class__ = Slow
        return risk


class Study(pb.risks.MulticlassHinge):
    """A risk whose passes take `PAUSE` seconds, and `slow_pause` in the last part."""

    slow_pause = PAUSE

    def excerpt(self, numbers):
        return Paused(_plain(self, numbers), self.slow_pause if self.n_parts - 1 in numbers else PAUSE)


def _plain(risk, numbers):
    excerpt = pb.risks.MulticlassHinge.excerpt(risk, numbers)
    return type(excerpt)(pb.risks.MulticlassHinge, excerpt.arguments, excerpt.rows)


def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 40))
    y = (X @ rng.normal(size=(40, 5)) + rng.normal(size=(2000, 5))).argmax(axis=1)
    return Study(X, y, n_parts=16)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--only", nargs="+", choices=list(STUDIES), default=list(STUDIES))
    arguments = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    risk = problem()
    serial = pb.minimize(risk, lam=LAM, tol=TOL, method="oca line_search=False")
    rows = []
    for name in arguments.only:
        n_runs = arguments.runs if name in ("killed", "stopped") else max(1, arguments.runs // 10)
        rows += STUDIES[name](risk, serial, n_runs)
        print(table(HEADER, rows), flush=True)
    (RESULTS / "faults.md").write_text(TEXT.format(version=version(), table=table(HEADER, rows)), encoding="utf-8")


def solve(client, risk, **options):
    began = time.perf_counter()
    result = pb.minimize(risk, lam=LAM, method="oca", executor=client, **({"tol": TOL} | options))
    return result, time.perf_counter() - began


def cluster():
    return LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0",
                        silence_logs=logging.CRITICAL)


def summary(what, found, serial, undisturbed, slower=1.0):
    seconds = [taken for _, taken in found]
    good = sum(result.success and result.certified and result.lower_bound <= serial.fun
               and serial.lower_bound <= result.fun for result, _ in found)
    same = sum(bool((result.x == serial.x).all()) for result, _ in found)
    hanging = sum(taken > slower * undisturbed + 60.0 for taken in seconds)
    return (what, len(found), good, same, hanging, f"{np.median(seconds):.1f}", f"{max(seconds):.1f}",
            f"{undisturbed:.1f}")


def killed(risk, serial, n_runs, victims=1):
    rng, found = np.random.default_rng(1), []
    with cluster() as local, Client(local) as client:
        usual = solve(client, risk)[1]
    for moment in rng.uniform(0.0, 1.1 * usual, size=n_runs):
        with cluster() as local, Client(local) as client:
            pids = list(client.run(os.getpid).values())

            def kill(pids=pids):
                for pid in pids[:victims]:
                    with suppress(ProcessLookupError):      # the run has ended
                        os.kill(pid, signal.SIGKILL)

            timer = threading.Timer(moment, kill)
            timer.start()
            found.append(solve(client, risk))
            timer.join()
        print(f"killed after {moment:.1f} s: {found[-1][1]:.1f} s", flush=True)
    return [summary("one worker killed" if victims == 1 else "all workers killed", found, serial, usual)]


def slow(risk, serial, n_runs):
    with cluster() as local, Client(local) as client:
        usual = solve(client, risk)[1]
        risk.slow_pause = 20.0 * PAUSE
        try:
            found = [solve(client, risk) for _ in range(n_runs)]
        finally:
            risk.slow_pause = PAUSE
    return [summary("a worker slower by 20", found, serial, usual, 20.0)]


def late(risk, serial, n_runs):
    found = []
    for _ in range(n_runs):
        with cluster() as local, Client(local) as client:
            usual = solve(client, risk)[1]

            def change(progress, local=local, client=client):
                if progress.n_iter == 5:
                    local.scale(3)
                if progress.n_iter == 10:
                    client.retire_workers(sorted(client.nthreads())[:1])

            found.append(solve(client, risk, callback=change))
    return [summary("a worker joins, another retires", found, serial, usual)]


def scheduler(risk, serial, n_runs):
    found = []
    for _ in range(n_runs):
        local = cluster()
        client = Client(local)
        usual = solve(client, risk)[1]

        def close(progress, local=local):
            if progress.n_iter == 10:
                threading.Thread(target=local.close).start()

        began = time.perf_counter()
        try:
            solve(client, risk, callback=close)
        except pb.BundleError as error:
            state = error.result
        result = pb.minimize(risk, lam=LAM, tol=TOL, method="oca line_search=False", warm_start=state)
        found.append((result, time.perf_counter() - began))
        client.close()
    return [summary("the scheduler goes; on from error.result", found, serial, usual)]


def stopped(risk, serial, n_runs):
    rng, rows = np.random.default_rng(2), []
    with cluster() as local, Client(local) as client:
        usual = solve(client, risk)[1]
    for what, limits, options in (("a worker stopped, time_limit=8", {}, {"time_limit": LIMIT, "tol": 1e-14}),
                                  (f"a worker stopped, worker-ttl {TTL} s", {"worker-ttl": f"{TTL}s"}, {})):
        found, hanging, same = [], 0, 0
        for moment in rng.uniform(0.0, LIMIT if options else usual, size=n_runs):
            with dask.config.set({f"distributed.scheduler.{name}": value for name, value in limits.items()}), \
                    cluster() as local, Client(local) as client:
                timer = threading.Timer(moment, os.kill, [min(client.run(os.getpid).values()), signal.SIGSTOP])
                timer.start()
                result, seconds = solve(client, risk, **options)
                timer.join()
            found.append((result, seconds))
            hanging += bool(seconds > (LATEST if options else usual + 60.0))
            same += bool((result.x == serial.x).all())
            print(f"stopped after {moment:.1f} s: {seconds:.1f} s, {result.status.name}", flush=True)
        good = sum(result.certified and result.lower_bound <= serial.fun and serial.lower_bound <= result.fun
                   for result, _ in found)
        seconds = [taken for _, taken in found]
        rows.append((what, n_runs, good, "" if options else same, hanging, f"{np.median(seconds):.1f}",
                     f"{max(seconds):.1f}", f"{usual:.1f}"))
    return rows


STUDIES = {"killed": killed, "both": lambda *a: killed(*a, victims=2), "slow": slow, "late": late,
           "scheduler": scheduler, "stopped": stopped}
TEXT = """\
# Faults

Dask with two worker processes, a made-up problem (2000 examples, P = 16, passes slowed down to {pause:g} s a group),
solved to a certified gap of 1e-3. "same certified optimum": certified, and neither lower bound, of this run and of one
without workers, lies above the value of the other. "same bits": the solution is that of the run without workers to the
last bit; where the run goes on without workers, it need not be. A run hangs that takes a
minute longer than an undisturbed one, or than 20 of these with a slower worker. "Stopped": by SIGSTOP; with the limit
of 8 s and a gap that is not reached a run hangs that takes more than 12. Written by
`asv_benchmarks/reproduce/faults.py` with pybundle {version}.

{table}
""".replace("{pause:g}", f"{PAUSE:g}")


if __name__ == "__main__":
    main()
