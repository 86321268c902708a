"""What the scripts share: methods, solves that always end, tables, the commit that is measured."""

import itertools
import os
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"                     # before NumPy loads BLAS

import pybundle as pb

RESULTS = Path(__file__).resolve().parents[1] / "results"
FIGURES = Path(__file__).resolve().parents[1] / "figures"
"""For pictures that show data; not committed."""

METHODS = {
    "auto": ("auto", None),
    "oca, P = 16": ("oca", 16),
    "oca": ("oca", 1),
    "BMRM": ("bmrm", 1),
    "BMRM, P = 16": ("bmrm", 16),
    "Prox-BMRM": ("prox-bmrm", 1),
    "Prox-BMRM, P = 16": ("prox-bmrm", 16),
}
HEADER = ("lam", "method", "certified gap", "passes", "seconds", "oracle", "QP", "F", "lower bound")


def commit():
    """The last commit of the package, with a plus if its files differ from it."""
    def git(*words):
        return subprocess.run(["git", *words, "--", "pybundle"], cwd=RESULTS.parents[1], capture_output=True, text=True,
                              check=True).stdout.strip()

    return git("log", "-1", "--format=%h") + "+" * bool(git("status", "--porcelain", "-uno"))


def version():
    """What the head of a page says was measured."""
    return f"{pb.__version__} at commit {commit()}"


def data_file(*parts):
    """A file below PYBUNDLE_DATA; ends the script with a sentence where it is not there."""
    folder = os.environ.get("PYBUNDLE_DATA")
    if not folder or not Path(folder, *parts).exists():
        print(f"skipped: set PYBUNDLE_DATA to the folder that holds {'/'.join(parts)}")
        sys.exit(0)
    return Path(folder, *parts)


def solve(risk, lam, method, n_parts, tol=1e-2, time_limit=60.0, **options):
    """`pb.minimize` without its warning at the time limit: the gap is in the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        return pb.minimize(risk, lam=lam, method=method, n_parts=n_parts, tol=tol, time_limit=time_limit, **options)


def in_turns(*calls, turns=5, long=3.0):
    """Median processor seconds of each call, and the median of last over first; one turn if a call takes `long`."""
    def turn():
        times = [time.process_time()]
        for call in calls:
            call()
            times.append(time.process_time())
        return [after - before for before, after in itertools.pairwise(times)]

    rows = [turn()]
    rows += [turn() for _ in range(turns - 1 if max(rows[0]) < long else 0)]
    return (*(statistics.median(column) for column in zip(*rows, strict=True)),
            statistics.median(row[-1] / row[0] for row in rows))


def cells(lam, name, result):
    """A row of HEADER; `lam` as the table prints it."""
    seconds = result.seconds
    gap = f"{result.gap:.1e}" + ("" if result.success else " (time limit)")
    return (lam, name, gap + ("" if result.certified else " (not certified)"), f"{result.n_passes:.0f}",
            f"{seconds['total']:.1f}", f"{seconds['oracle']:.1f}", f"{seconds['qp']:.1f}", f"{result.fun:.5g}",
            f"{result.lower_bound:.5g}")


def table(header, rows):
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |"
                     for row in (header, ["---"] * len(header), *rows))
