"""What the scripts share: methods, solves that always end, turns of a clock, tables, the commit that is measured."""

import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"                     # before NumPy loads BLAS

import numpy as np

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


class Page:
    """The page `results/name`: a head, and sections of which single ones are replaced; `order` are their titles."""

    def __init__(self, name, head, order):
        self.path, self.head, self.order = RESULTS / name, head, tuple(order)
        parts = self.path.read_text(encoding="utf-8").split("\n## ")[1:] if self.path.exists() else []
        self.sections = dict(part.split("\n", 1) for part in parts)

    def replace(self, title, text):
        """Write the page with another section `title`."""
        self.sections[title] = f"\n{text}"
        self.path.write_text(self.head + "".join(f"\n## {name}\n{self.sections[name].rstrip()}\n" for name in self.order
                                                 if name in self.sections), encoding="utf-8")


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


def in_turns(*calls):
    """Processor seconds of the calls, shape (turns, len(calls)).

    A turn is one call after the other, every other turn backwards: five, more of them while they fit into a second, and
    one if a call takes three seconds. `calls` are functions of the number of the turn.
    """
    rows = []
    while len(rows) < 5 or np.sum(rows) < 1.0:
        row = np.zeros(len(calls))
        for k in range(len(calls))[::1 - 2 * (len(rows) % 2)]:
            start = time.process_time()
            calls[k](len(rows))
            row[k] = time.process_time() - start
        rows.append(row)
        if row.max() >= 3.0:
            break
    return np.array(rows)


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
