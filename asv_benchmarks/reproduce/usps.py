"""USPS digits: linear multiclass SVM, trained to a certified relative gap.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/usps.py [--time-limit 60]

7291 training and 2007 test images of 256 pixels in [-1, 1], 0/1 loss summed over examples, one thread. A seeded fifth
of the training images chooses lam; the table of passes is on all 7291. Writes results/usps.md and results/usps.png.
"""

import argparse

from common import HEADER, METHODS, RESULTS, cells, data_file, solve, table, version  # sets threads: before NumPy

# isort: split
import curves
import numpy as np

import pybundle as pb

GRID = (1e4, 1e3, 300.0, 100.0, 30.0, 10.0, 1.0)
TABLE = (1e3, 100.0, 10.0, 1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for one solve (default 60)")
    limit = parser.parse_args().time_limit
    with np.load(data_file("usps", "usps.npz"), allow_pickle=False) as file:
        X, X_test = (np.ascontiguousarray(file[name] / file["scale"], dtype=np.float32)
                     for name in ("X_train", "X_test"))
        y, y_test = (file[name].astype(np.int32) for name in ("y_train", "y_test"))
    order = np.random.default_rng(0).permutation(len(y))
    held, fit = order[:len(y) // 5], order[len(y) // 5:]
    chosen = curves.held_out(pb.risks.MulticlassHinge(X[fit], y[fit]), GRID, {
        "training": lambda w: error(w, X[fit], y[fit]), "validation": lambda w: error(w, X[held], y[held])}, limit)
    best = curves.best_lam(chosen, "validation")
    risk = pb.risks.MulticlassHinge(X, y)
    final = solve(risk, best, *METHODS["auto"], time_limit=limit)
    print(f"lam {best:g}: test error {100 * error(final.x, X_test, y_test):.2f} %", flush=True)
    solves = []
    for lam in TABLE:
        for name, (method, n_parts) in METHODS.items():
            result = solve(risk, lam, method, n_parts, time_limit=limit)
            solves.append((*cells(f"{lam:g}", name, result), f"{100 * error(result.x, X_test, y_test):.2f}"))
            print(*solves[-1], sep=" | ", flush=True)
    text = TEXT.format(version=version(), curve=table(
        ("lam", "gap", "passes", "training error, %", "validation error, %"), curves.rows(chosen)), best=best,
        fit=len(fit), held=len(held), test=100 * error(final.x, X_test, y_test), limit=limit,
        solves=table((*HEADER, "test error, %"), solves))
    curves.plot(chosen, best, "wrong images, %", "USPS", RESULTS / "usps.png")
    (RESULTS / "usps.md").write_text(text, encoding="utf-8")
    print(text)


def error(w, X, y):
    return float(np.mean((X @ w.reshape(-1, X.shape[1]).T).argmax(axis=1) != y))


TEXT = """\
# USPS, linear multiclass SVM

7291 x 256 pixels in [-1, 1], float32, no bias; 0/1 loss summed over examples, certified relative gap 1e-2, one thread.
Written by `asv_benchmarks/reproduce/usps.py` with pybundle {version}.

## Error over lam

`method="auto"` on {fit} training images, each lam from what the one before knew; {held} others are the
validation set.

{curve}

Best on the validation set: lam = {best:g}. Trained on all 7291 images with it, the test error is {test:.2f} %.

![error over lam](usps.png)

## Passes to a gap of 1e-2, all training images

Every solve starts at zero and ends after {limit:g} seconds at the latest; "seconds" are wall clock.

{solves}
"""


if __name__ == "__main__":
    main()
