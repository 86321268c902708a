"""Estimators: a grid of C by warm paths against GridSearchCV, small calls, what watching costs, the import.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/estimators.py

MNIST, 60000 x 784 pixels / 255 in float32, 8 values of C, 3 folds. Both sides run in one thread, are timed by processor
time, in one process, one after another. Writes results/estimators.md.
"""

import io
import os
import subprocess
import sys
import time
import warnings
from functools import partial

from common import RESULTS, data_file, in_turns, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
import sklearn
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

import pybundle as pb
from pybundle.runtime.history import History
from pybundle.runtime.stopping import Callback

GRIDS = {"1e-4 to 1e2, the default": (-4.0, 2.0), "1e-4 to 1": (-4.0, 0.0), "10^-2.5 to 10^-0.5": (-2.5, -0.5)}
TOLS = (1e-2, 1e-3)
REPEATS = 9


def main():
    with np.load(data_file("mnist", "mnist.npz"), allow_pickle=False) as file:
        X, y = (file["X_train"] / 255.0).astype(np.float32), file["y_train"].astype(int)
    rows = []
    for name, ends in GRIDS.items():
        for tol in TOLS:
            for row in search(X, y, np.logspace(*ends, 8), tol):
                rows.append((name, f"{tol:g}", *row))
                print(*rows[-1], sep=" | ", flush=True)
    rows.append(peer(X, y))
    print(*rows[-1], sep=" | ", flush=True)
    text = TEXT.format(version=version(), sklearn=sklearn.__version__, search=table(SEARCH, rows),
                       small=table(SMALL, small()), watch=table(WATCH, watching()), imports=table(IMPORTS, imports()))
    (RESULTS / "estimators.md").write_text(text, encoding="utf-8")
    print(text)


def search(X, y, grid, tol):
    """For each `search_tol` it, seconds of both, their quotient, the chosen C, the largest difference of mean scores.

    None is the default. With `search_tol = tol` every solve reaches the gap of the single fits.
    """
    started = time.process_time()
    theirs = GridSearchCV(pb.MulticlassSVM(tol=tol), {"C": grid}, cv=3).fit(X, y)
    single = time.process_time() - started
    for search_tol in (None, *sorted({0.1, tol, max(tol, 1e-2)}, reverse=True)):
        started = time.process_time()
        ours = pb.MulticlassSVMCV(grid, cv=3, tol=tol, search_tol=search_tol).fit(X, y)
        seconds = time.process_time() - started
        apart = np.nanmax(np.abs(ours.scores_.mean(axis=0) - theirs.cv_results_["mean_test_score"]))
        reached = "default" if search_tol is None else f"{search_tol:g}"
        yield (reached, f"{seconds:.1f}", f"{single:.1f}", f"{seconds / single:.2f}",
               f"{ours.C_:.3g}, {theirs.best_params_['C']:.3g}", f"{100 * apart:.2f} %")


def peer(X, y):
    """The same grid with LinearSVC, whose tol of 0.2 brings it within about 1e-2 of the optimum."""
    name = "1e-4 to 1"
    ends = GRIDS[name]
    started = time.process_time()
    ours = pb.MulticlassSVMCV(np.logspace(*ends, 8), cv=3, tol=1e-2, search_tol=1e-2).fit(X, y)
    middle = time.process_time()
    svc = LinearSVC(multi_class="crammer_singer", tol=0.2, max_iter=10**5)
    theirs = GridSearchCV(svc, {"C": np.logspace(*ends, 8)}, cv=3).fit(X, y)
    seconds = middle - started, time.process_time() - middle
    apart = np.nanmax(np.abs(ours.scores_.mean(axis=0) - theirs.cv_results_["mean_test_score"]))
    return (name, "LinearSVC, 0.2", "0.01", f"{seconds[0]:.1f}", f"{seconds[1]:.1f}", f"{seconds[0] / seconds[1]:.2f}",
            f"{ours.C_:.3g}, {theirs.best_params_['C']:.3g}", f"{100 * apart:.2f} %")


def small():
    """Milliseconds of one call on small data, medians of turns, and their quotients."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 10))
    y = np.where(X @ rng.standard_normal(10) + rng.standard_normal(200) > 0, 1.0, -1.0)
    digits, digit = load_digits(return_X_y=True)
    classes = pb.risks.MulticlassHinge, LinearSVC(multi_class="crammer_singer", fit_intercept=False)
    return [("planted, 200 x 10", *calls(X, y, pb.risks.BinaryHinge, LinearSVC(loss="hinge", fit_intercept=False))),
            ("iris, 150 x 4", *calls(*load_iris(return_X_y=True), *classes)),
            ("digits, 1797 x 64", *calls(digits / 16.0, digit, *classes))]


def calls(X, y, risk, svc):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")         # of LinearSVC, at its limit of iterations
        ours, fit, theirs = 1e3 * np.median(in_turns(
            lambda turn: pb.minimize(risk(X, y), lam=1.0, tol=1e-3), lambda turn: pb.MulticlassSVM().fit(X, y),
            lambda turn: svc.fit(X, y)), axis=0)
    bound = pb.minimize(risk(X, y), lam=1.0, tol=1e-6).lower_bound
    fun = 0.5 * np.square(svc.coef_).sum() + risk(X, y).values(svc.coef_.ravel())[0].sum()
    return (f"{ours:.1f}", f"{fit:.1f}", f"{theirs:.1f}", f"{ours / theirs:.2f}", f"{fit / theirs:.2f}",
            f"{fun / bound - 1.0:.0e}")


def watching():
    """Time inside callback and history, the least of several solves of the digits that take about 100 ms."""
    X, y, _, _ = pb.datasets.load_digits()
    risk, rows = pb.risks.MulticlassHinge(X, y), []
    solves = {method: partial(pb.minimize, risk, lam=lam, tol=1e-3, method=method)
              for method, lam in (("auto", 0.1), ("oca", 1.0), ("bmrm", 5.0))}
    solves["bmrm in MulticlassSVM"] = lambda callback=None: pb.MulticlassSVM(
        C=0.2, method="bmrm", tol=1e-3, callback=callback).fit(X, y)
    for name, solve in solves.items():
        plain, watched, kept = [], [], []
        for _ in range(REPEATS):
            with Stopwatch(History, "record") as history:
                started = time.thread_time()
                solve()
                plain.append(time.thread_time() - started)
            with Stopwatch(Callback, "__call__") as calls, Stopwatch(Callback, "close") as close:
                result = solve(callback=pb.callbacks.ProgressBar(file=io.StringIO()))
            watched.append(calls.seconds + close.seconds)
            kept.append(history.seconds)
        seconds, n_iter = min(plain), getattr(result, "n_iter_", None) or result.nit
        rows.append((name, n_iter, f"{1e3 * seconds:.0f}", *(f"{1e3 * t:.2f} ({100 * t / seconds:.2f} %)" for t in (
            min(watched), min(kept)))))
    return rows


class Stopwatch:
    """Adds up the time spent in a method of a class, less what reading the clock takes.

    The clock of the wall: that of the thread is a system call, ten times as long as what is measured.
    """

    def __init__(self, cls, name):
        self._cls, self._name, self._method = cls, name, getattr(cls, name)
        self._spent = self._count = 0

    def __enter__(self):
        def timed(owner, *arguments):
            started = time.perf_counter_ns()
            answer = self._method(owner, *arguments)
            self._spent += time.perf_counter_ns() - started
            self._count += 1
            return answer

        setattr(self._cls, self._name, timed)
        return self

    def __exit__(self, *problem):
        setattr(self._cls, self._name, self._method)
        readings = np.array([time.perf_counter_ns() for _ in range(1001)])
        self.seconds = 1e-9 * max(0.0, self._spent - self._count * float(np.median(np.diff(readings))))


def imports():
    """Milliseconds of the import beyond NumPy and the parts of SciPy, median of fresh processes."""
    code = ("import time\nimport numpy, scipy.sparse, scipy.linalg, scipy.optimize\nstart = time.process_time()\n"
            "import pybundle\nprint(time.process_time() - start)\n{}\nprint(time.process_time() - start)\n")
    rows = []
    for name, then in (("import pybundle", ""), ("... and the first estimator", "pybundle.MulticlassSVM")):
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
        runs = [subprocess.run([sys.executable, "-c", code.format(then)], capture_output=True, text=True, check=True,
                               env=environment).stdout.split()[bool(then)] for _ in range(REPEATS)]
        rows.append((name, f"{1e3 * float(np.median(np.array(runs, dtype=float))):.0f}"))
    return rows


SEARCH = ("C", "tol", "search_tol", "MulticlassSVMCV, s", "GridSearchCV, s", "quotient", "chosen C",
          "mean scores differ by at most")
SMALL = ("data", "minimize, ms", "fit, ms", "LinearSVC, ms", "minimize / LinearSVC", "fit / LinearSVC",
         "LinearSVC above the bound")
WATCH = ("method", "iterations", "solve, ms", "in the bar, ms", "in the history, ms")
IMPORTS = ("", "ms")
TEXT = """\
# Estimators

Written by `asv_benchmarks/reproduce/estimators.py` with pybundle {version}, scikit-learn {sklearn}; one thread,
processor time, but time of the wall inside the bar and the history.

## Choosing C: one warm path for each fold against single fits

MNIST, 60000 x 784 pixels / 255, float32, 8 values of C in equal factors, 3 folds, and the final fit. Both sides fit
`MulticlassSVM` to the certified gap `tol`; solves of the path that are only scored reach `search_tol`.
The standard error of a mean score is about 0.11 %. In the last row GridSearchCV has `LinearSVC` with the objective of
Crammer and Singer, whose tol of 0.2 brings it within about 1e-2 of the optimum. Searches over the default grid end
before its last C: the last column is of the values that both solved, the quotient of all that either did.

{search}

## Small calls

`minimize` of a hinge risk, built in the call, to a relative gap of 1e-3 at lam = 1, and `MulticlassSVM().fit` with an
intercept to the same gap, beside `LinearSVC` of the same loss at C = 1 without intercept, which stops by its own rule
at tol = 1e-4; the last column is how far its objective then is above our bound, relatively. Medians of five turns or
more, for a second at least.

{small}

## What watching costs

Digits; the least of {repeats} solves each, since other work on the machine only adds.

{watch}

## Import

Beyond importing numpy, scipy.sparse, scipy.linalg and scipy.optimize.

{imports}
""".replace("{repeats}", str(REPEATS))


if __name__ == "__main__":
    main()
