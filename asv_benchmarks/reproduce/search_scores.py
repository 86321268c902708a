"""How far the scores of a search over C are from those of the optimum, by the gap of its solves, on small data.

    python asv_benchmarks/reproduce/search_scores.py

6 values of C from 1e-4 to 10, 5 folds, one thread, the least processor time of two searches. Writes
results/search_scores.md.
"""

import time

from common import RESULTS, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
import sklearn
from sklearn.datasets import load_breast_cancer, load_wine, make_classification
from sklearn.preprocessing import StandardScaler

import pybundle as pb

GRID = np.logspace(-4.0, 1.0, 6)
GAPS = (0.1, 1e-2, 1e-3, None)
EXACT = 1e-5
HEAD = ("data (examples)", "gap", "chosen C", "mean scores differ by at most, points", "examples of a fold, by C",
        "s", "times 0.1")
TEXT = """\
# Scores of a search over C

Written by `asv_benchmarks/reproduce/search_scores.py` with pybundle {version}, scikit-learn {sklearn}; one thread,
processor time.

`MulticlassSVMCV`, C = 1e-4 to 10 in steps of 10, 5 folds: differences from the scores at a gap of {exact:g}, in
examples the largest over folds for each C. By default a solve ends where the gap is 0.0007 of the smaller one of F(w)
and F(0) - F(w), or 1e-5 of F(w).

{rows}
"""


def problems():
    """(name, X, y)"""
    X, y, *_ = pb.datasets.load_digits()
    yield "digits", X, y
    for name, load in (("breast cancer", load_breast_cancer), ("wine", load_wine)):
        X, y = load(return_X_y=True)
        yield name, StandardScaler().fit_transform(X), y
    yield "made, 5 % in the rare class", *make_classification(1000, 20, n_informative=5, weights=[0.95],
                                                              random_state=0)
    yield "made, 6 classes", *make_classification(1500, 20, n_informative=10, n_classes=6, class_sep=1.5,
                                                  random_state=0)


def search(X, y, gap):
    """The fitted search, and its seconds."""
    seconds = []
    for _ in range(2):
        started = time.process_time()
        svm = pb.MulticlassSVMCV(GRID, cv=5, search_tol=gap).fit(X, y)
        seconds.append(time.process_time() - started)
    return svm, min(seconds)


def main():
    rows = []
    for name, X, y in problems():
        exact, _ = search(X, y, EXACT)
        rows.append((f"{name} ({len(y)})", f"{EXACT:g}", f"{exact.C_:g}", "", "", "", ""))
        rough = None
        for gap in GAPS:
            svm, seconds = search(X, y, gap)
            rough = rough or seconds
            apart = np.abs(svm.scores_ - exact.scores_).max(axis=0) * len(y) / 5
            points = 100.0 * np.abs(svm.scores_.mean(axis=0) - exact.scores_.mean(axis=0)).max()
            rows.append((f"{name} ({len(y)})", "the default" if gap is None else f"{gap:g}", f"{svm.C_:g}",
                         f"{points:.2f}", " ".join(f"{count:.0f}" for count in apart), f"{seconds:.2f}",
                         f"{seconds / rough:.1f}"))
            print(*rows[-1], sep=" | ", flush=True)
    text = TEXT.format(version=version(), sklearn=sklearn.__version__, exact=EXACT, rows=table(HEAD, rows))
    (RESULTS / "search_scores.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
