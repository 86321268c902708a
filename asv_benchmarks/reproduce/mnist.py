"""The MNIST tables of the P-BMRM paper (2012) and the Prox-BMRM report (2012-2013), published beside measured.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/mnist.py

Protocol: 60000 training images, pixels / 255 in float32, 0/1 loss summed over examples, relative gap 0.01, one
thread. Writes results/mnist.md and results/mnist.png. With --methods or --lams only those rows are computed and
the others of the table are kept.
"""

import argparse
import os
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"                     # before NumPy loads BLAS

import numpy as np

import pybundle as pb

RESULTS = Path(__file__).resolve().parents[1] / "results"
GRID = (1000.0, 100.0, 10.0, 1.0)
PLOT_LAM = 10.0
NEW_LINES = ("oca-1", "oca-16", "oca-64", "prox-certificate", "prox-p16-certificate", "bmrm", "p-bmrm-16", "p-bmrm-64")

# name: (what the table calls it, method, parts, stop, reuse along the path or None, lams of a full run)
METHODS = {
    "bmrm": ("BMRM", "bmrm", 1, "published", None, GRID[:3]),
    "p-bmrm-16": ("P-BMRM 16", "bmrm", 16, "published", None, GRID[:3]),
    "p-bmrm-64": ("P-BMRM 64", "bmrm", 64, "published", None, (10.0,)),
    "prox": ("Prox-BMRM, REUSE", "prox-bmrm", 1, "published", "solution", GRID),
    "prox-p16": ("Prox-P16, REUSE", "prox-bmrm", 16, "published", "solution", GRID),
    "prox-certificate": ("Prox-BMRM, REUSE, free bound", "prox-bmrm", 1, "certificate", "solution", GRID),
    "prox-p16-certificate": ("Prox-P16, REUSE, free bound", "prox-bmrm", 16, "certificate", "solution", GRID),
    "oca-1": ("oca 1", "oca", 1, "certificate", None, GRID),
    "oca-16": ("oca 16", "oca", 16, "certificate", None, GRID),
    "oca-64": ("oca 64", "oca", 64, "certificate", None, GRID),
}

# iterations to a relative gap of 0.01 as printed in the papers, and as their C++ code takes them on this data
PAPER = {
    "bmrm": ("157-163", "417-431", "1384-1429", "5159-5932"),
    "p-bmrm-16": ("98", "208", "512", "1346"),
    "p-bmrm-64": ("60", "106", "218", "470"),
    "prox": ("226", "232", "317", "698"),
    "prox-p16": ("244", "256", "291", "408"),
}
AUTHORS_CODE = {
    "bmrm": ("172", "441", "1426", "6138"),
    "p-bmrm-16": ("102", "215", "518", "> 1248"),
    "p-bmrm-64": ("58", "107", "213", ""),
    "prox": ("144", "233", "323", "679"),
    "prox-p16": ("83", "238", "278", "410"),
}

HEADER = ("lam", "method", "paper", "authors' C++", "ours", "passes", "seconds", "oracle", "QP", "rest",
          "QP + rest in NumPy passes", "max planes", "F", "certified gap")


def main():
    arguments = parse()
    folder = os.environ.get("PYBUNDLE_DATA")
    if not folder:
        print("PYBUNDLE_DATA is not set; set it to the folder that holds mnist/mnist.npz")
        return 0
    X, y = load(Path(folder) / "mnist" / "mnist.npz", 2000 if arguments.quick else None)
    numpy_pass = time_numpy_pass(X, y)
    print(f"{len(y)} examples, {X.shape[1]} pixels; one NumPy pass {1e3 * numpy_pass:.1f} ms\n", flush=True)
    show(HEADER)
    show(["---"] * len(HEADER))
    risk = pb.risks.MulticlassHinge(X, y)
    rows, histories = {}, {}
    for name in arguments.methods:
        for lam, result in runs(risk, name, lams_of(name, arguments), arguments.time_limit):
            row = cells(name, lam, result, numpy_pass)
            rows[row[:2]] = row
            show(row)
            if lam == PLOT_LAM and hasattr(result, "history"):
                histories[name] = result
    if arguments.output is not None:
        write(arguments, rows, histories, len(y), numpy_pass)
    return 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="NAME",
                        help=f"any of {', '.join(METHODS)}")
    parser.add_argument("--lams", nargs="+", type=float, metavar="LAM",
                        help=f"any of {', '.join(f'{lam:g}' for lam in GRID)}; default: all that the method can afford")
    parser.add_argument("--quick", action="store_true", help="2000 examples, one lam, prints only: does it run?")
    parser.add_argument("--time-limit", type=float, default=1200.0, help="seconds for one solve (default 1200)")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the table and the plot")
    arguments = parser.parse_args()
    if arguments.lams and set(arguments.lams) - set(GRID):
        parser.error(f"--lams must be among {GRID}")
    if arguments.quick:
        arguments.output, arguments.lams = None, [GRID[0]]
    return arguments


def load(path, n_examples):
    """Training images / 255 in float32, labels."""
    if not path.exists():
        sys.exit(f"{path} does not exist; PYBUNDLE_DATA must hold mnist/mnist.npz")
    with np.load(path, allow_pickle=False) as file:
        names = {name.lower(): name for name in file.files}
        X, y = (file[next(names[k] for k in keys if k in names)]
                for keys in (("x_train", "train_x", "train_images"), ("y_train", "train_y", "train_labels")))
    X = np.ascontiguousarray(X.reshape(len(X), -1)[:n_examples], dtype=np.float32)
    X /= 255.0
    return X, np.ascontiguousarray(y[:n_examples], dtype=np.int32)


def time_numpy_pass(X, y, n_parts=16):
    """Seconds of the plain NumPy float32 pass: scores, most violating labels, one slope for each part."""
    rng = np.random.default_rng(0)
    W = rng.standard_normal((10, X.shape[1]), dtype=np.float32)
    rows = np.arange(len(y))
    cuts = np.linspace(0, len(y), n_parts + 1).astype(int)
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        scores = X @ W.T
        scores += 1.0
        scores[rows, y] -= 1.0
        labels = scores.argmax(axis=1)
        D = np.zeros_like(scores)
        D[rows, labels] += 1.0
        D[rows, y] -= 1.0
        for low, high in pairwise(cuts):
            D[low:high].T @ X[low:high]
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def lams_of(name, arguments):
    return tuple(sorted(arguments.lams, reverse=True)) if arguments.lams else METHODS[name][5]


def runs(risk, name, lams, time_limit):
    """(lam, result or error) of every row; a path always begins at the largest lam, as the paper's does."""
    _, method, n_parts, stop, reuse, _ = METHODS[name]
    options = {"method": method, "n_parts": n_parts, "stop": stop, "tol": 1e-2, "time_limit": time_limit,
               "max_iter": 100000}
    share = risk.n_examples / 60000           # keeps lam per example in --quick
    if reuse is None:
        for lam in lams:
            yield lam, attempt(pb.minimize, risk, lam=share * lam, **options)
        return
    grid = [lam for lam in GRID if lam >= min(lams)]
    results = attempt(pb.path, risk, [share * lam for lam in grid], reuse=reuse, **options)
    for k, lam in enumerate(grid):
        if lam in lams:
            yield lam, results[k] if isinstance(results, list) else results


def attempt(solve, *arguments, **options):
    """The result without its bundle, which can be large; an error of the package instead of the rest of the table."""
    try:
        results = solve(*arguments, **options)
    except pb.BundleError as error:
        return error
    for result in results if isinstance(results, list) else [results]:
        result.state = None
    return results


def cells(name, lam, result, numpy_pass):
    known = [table[name][GRID.index(lam)] if name in table else "" for table in (PAPER, AUTHORS_CODE)]
    head = (f"{lam:g}", METHODS[name][0], *known)
    if not hasattr(result, "nit"):
        return (*head, f"{type(result).__name__}: {result}", *[""] * (len(HEADER) - len(head) - 1))
    seconds = result.seconds
    others = seconds["qp"] + seconds["rest"]
    gap = f"{result.gap:.2e}" + ("" if result.certified else " (not certified)")
    if not result.success:
        gap += f" ({result.status.name.lower().replace('_', ' ')})"
    return (*head, str(result.nit), f"{result.n_passes:.0f}", f"{seconds['total']:.1f}", f"{seconds['oracle']:.1f}",
            f"{seconds['qp']:.1f}", f"{seconds['rest']:.1f}", f"{others / numpy_pass:.0f}", str(result.max_planes),
            f"{result.fun:.2f}", gap)


def show(row, file=None):
    print("| " + " | ".join(row) + " |", file=file, flush=True)


def write(arguments, rows, histories, n_examples, numpy_pass):
    """The table, old rows kept where they were not computed again, and the plot of a complete set of runs."""
    arguments.output.mkdir(parents=True, exist_ok=True)
    table = arguments.output / "mnist.md"
    merged = {**(read_rows(table) if table.exists() else {}), **rows}
    order = [(f"{lam:g}", METHODS[name][0]) for lam in GRID for name in METHODS]
    partial = table.with_suffix(".md.partial")
    with partial.open("w", encoding="utf-8") as file:
        print(INTRODUCTION.format(n_examples=n_examples, version=pb.__version__, numpy=np.__version__,
                                  kernels=pb.risks.kernel_name(), milliseconds=1e3 * numpy_pass), file=file)
        show(HEADER, file)
        show(["---"] * len(HEADER), file)
        for key in order:
            if key in merged:
                show(merged[key], file)
        print(f"\n![gap over passes and over seconds at lam = {PLOT_LAM:g}](mnist.png)", file=file)
    partial.replace(table)
    print(f"\nwrote {table}")
    if all(name in histories for name in NEW_LINES):
        from pybundle.plotting import plot_convergence

        named = {METHODS[name][0]: histories[name] for name in NEW_LINES}
        figure = plot_convergence(named, tol=1e-2, title=f"MNIST, {n_examples} examples, lam = {PLOT_LAM:g}")
        figure.savefig(arguments.output / "mnist.png", dpi=110)
        print(f"wrote {arguments.output / 'mnist.png'}")


def read_rows(table):
    """Rows of a table that this script wrote, by lam and method."""
    rows = {}
    for line in table.read_text(encoding="utf-8").splitlines():
        row = tuple(cell.strip() for cell in line.strip().strip("|").split("|")) if line.startswith("| ") else ()
        if len(row) == len(HEADER) and row[0] not in ("lam", "---"):
            rows[row[:2]] = row
    return rows


INTRODUCTION = """\
# MNIST, published beside measured

Linear multiclass SVM on {n_examples} x 784 pixels / 255 in float32, 0/1 loss summed over examples, to a relative gap of
0.01, one thread. Written by `asv_benchmarks/reproduce/mnist.py` with pybundle {version}, NumPy {numpy}, kernels
{kernels}. "paper" and "authors' C++" are iteration counts: as printed in the P-BMRM paper and the Prox-BMRM report,
and as the authors' code takes them on this data (its Prox rows at lam = 1000 start from zero, as ours do). "ours" are
master solutions. REUSE starts from the solution of the next larger lam. Rows with "free bound" stop when best point
and best bound are within the gap, so do the rows of oca, which start cold; the others use the papers' rule at the
current iterate.

One plain NumPy float32 pass (scores, labels, 16 slopes) took {milliseconds:.1f} ms in the run that wrote this file;
"QP + rest in NumPy passes" takes the pass of the run that computed the row.
"""


if __name__ == "__main__":
    sys.exit(main())
