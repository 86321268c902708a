"""The process that solves is killed (SIGKILL) at a random moment and goes on from its checkpoint: is it the same run?

    python asv_benchmarks/reproduce/faults_driver.py [--kills 50] [--seed 0]

For each problem a run that nobody stops, then `--kills` runs with a checkpoint every 0.02 s. Each is killed at a moment
drawn uniformly from the time that the whole run takes, is started again and left alone. A file is torn where reading
raises; "while writing" counts the kills that left an unfinished file beside it, which nobody reads and the next start
removes. Runs are forks of this process, so the moments lie in the solve and not in the imports.

Writes results/faults_driver.md. The data come with scikit-learn or are generated.
"""

import argparse
import hashlib
import multiprocessing
import os
import signal
import tempfile
import time
import warnings
from pathlib import Path

from common import RESULTS, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
from sklearn.datasets import load_digits

import pybundle as pb
from pybundle.core.archive import read_archive
from pybundle.runtime.checkpoint import FORMAT, VERSION

EVERY = 0.02
HEADER = ("problem", "method", "seconds", "iterations", "killed", "before the first write", "while writing",
          "iteration in the file: least, median, most", "torn", "went on", "same w", "same history", "file, MB")


def digits(**_):
    X, y = load_digits(return_X_y=True)
    return pb.risks.MulticlassHinge(X.astype(np.float32) / 16.0, y)


def sequences(loss="hinge"):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(rng.integers(4, 12), 30)) for _ in range(400)]
    W = rng.normal(size=(30, 6))
    Y = [np.argmax(x @ W + rng.gumbel(size=(len(x), 6)), axis=1) for x in X]
    return pb.risks.Structured(pb.models.Chain(6, 30), X, Y, loss=loss)


def distances():
    rng = np.random.default_rng(1)
    A, b = rng.normal(size=(400, 60)), rng.normal(size=400)

    def fun(w):
        r = A @ w - b
        return np.abs(r).sum(), A.T @ np.sign(r)
    return pb.risks.Function(fun, 60)


PROBLEMS = {
    ("digits", "oca"): (digits, {"lam": 0.05, "tol": 1e-4}),
    ("digits", "auto"): (digits, {"lam": 0.01, "tol": 1e-7}),
    ("digits", "prox-bcfw"): (digits, {"lam": 0.01, "tol": 1e-7}),
    ("digits", "sgd"): (digits, {"lam": 1.0, "tol": 1e-9, "max_iter": 200, "random_state": 0}),
    ("letter sequences, generated", "mp-bcfw"): (sequences, {"lam": 1.0, "tol": 1e-2}),
    ("letter sequences, generated", "auto"): (sequences, {"lam": 0.1, "tol": 1e-6}),
    ("letter sequences, generated", "prox-bcfw"): (sequences, {"lam": 0.1, "tol": 1e-6}),
    ("the same, logistic", "lbfgs"): (lambda: sequences("logistic"), {"lam": 0.1, "tol": 1e-6}),
    ("sum of distances, a Python callable", "bmrm"): (distances, {"lam": 1.0, "tol": 1e-3}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="of each problem (default 50)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", pb.ConvergenceWarning)
    rows = []
    for (name, method), (make, options) in PROBLEMS.items():
        found = row(make, {"method": method, **options}, arguments.kills,
                    np.random.default_rng(arguments.seed))
        rows.append((name, method, *found))
        print(" | ".join(map(str, rows[-1])), flush=True)
    (RESULTS / "faults_driver.md").write_text(HEAD.format(
        kills=arguments.kills, seed=arguments.seed, every=EVERY, version=version()) + table(HEADER, rows) + "\n",
        encoding="utf-8")


def row(make, options, kills, rng):
    counts, iterations, size = dict.fromkeys(("early", "writing", "torn", "on", "w", "history"), 0), [], 0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "run.npz")
        start = time.perf_counter()
        whole = solve(make, options, file)
        seconds = time.perf_counter() - start
        killed = 0
        while killed < kills:
            for left in Path(folder).iterdir():
                left.unlink()
            if not kill(make, options, file, rng.uniform(0.0, seconds)):
                continue            # it was faster
            killed += 1
            left = [path for path in Path(folder).iterdir() if path.suffix != ".lock"]
            counts["writing"] += len(left) > file.exists()
            if file.exists():
                try:
                    header, _ = read_archive(file, FORMAT, VERSION)
                    iterations.append(header["n_iter"])
                    size = max(size, file.stat().st_size)
                except pb.StateError:
                    counts["torn"] += 1
            else:
                counts["early"] += 1
            again = solve(make, options, file)
            counts["on"] += again["success"] == whole["success"]
            counts["w"] += again["w"] == whole["w"]
            counts["history"] += again["history"] == whole["history"]
    least, median, most = (int(q) for q in np.quantile(iterations, [0.0, 0.5, 1.0], method="nearest"))
    return (f"{seconds:.1f}", whole["nit"], killed, counts["early"], counts["writing"],
            f"{least}, {median}, {most}", counts["torn"], counts["on"], counts["w"], counts["history"],
            f"{size / 2**20:.1f}")


def fork(*arguments):
    context = multiprocessing.get_context("fork")
    process = context.Process(target=work, args=arguments)
    process.start()
    return process


def kill(make, options, file, seconds):
    """Whether the run was still at work after so many seconds, and is dead now."""
    process = fork(make, options, file, None)
    process.join(seconds)
    if not process.is_alive():
        return False
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    return process.exitcode == -signal.SIGKILL


def solve(make, options, file):
    """What became of a run in a process of its own: what it answered, as check sums."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = fork(make, options, file, sender)
    sender.close()
    answer = receiver.recv()
    process.join()
    return answer


def work(make, options, file, sender):
    result = pb.minimize(make(), checkpoint=pb.Checkpoint(file, every=EVERY), **options)
    if sender is not None:
        trace = b"".join(result.history[name].tobytes() for name in sorted(result.history) if name != "time")
        trace += repr((result.nit, result.n_passes, result.fun, result.lower_bound)).encode()
        sender.send({"w": hashlib.sha256(result.x.tobytes()).hexdigest(), "nit": result.nit, "success": result.success,
                     "history": hashlib.sha256(trace).hexdigest()})


HEAD = """# The solving process killed at random moments

SIGKILL at {kills} moments for each problem, drawn uniformly from the time of the whole run (seed {seed}); then the same
call again, with the same checkpoint. "same w" and "same history" count the runs that ended with the bits of the run
that was never stopped; the history has passes, values, bounds and gaps of every iteration. A checkpoint every
{every} s. Written by `asv_benchmarks/reproduce/faults_driver.py` with pybundle {version}.

"""


if __name__ == "__main__":
    main()
