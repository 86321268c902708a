"""From LinearSVC and GridSearchCV to pybundle: C chosen by one warm path for each fold, with a certificate.

    PYBUNDLE_DATA=/path/to/data python examples/from_linear_svc.py

The first 10000 digits of MNIST where PYBUNDLE_DATA names it, else scikit-learn's digits.
"""

import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

import pybundle as pb

GRID = np.logspace(-3.0, 0.0, 4)


def before(X, y):
    search = GridSearchCV(LinearSVC(max_iter=5000), {"C": GRID}, cv=3).fit(X, y)
    print(f"scikit-learn: C = {search.best_params_['C']:g}, no bound is known")
    return search


def after(X, y):
    svm = pb.MulticlassSVMCV(GRID, cv=3).fit(X, y)
    print(f"pybundle: C = {svm.C_:g}, certified gap {svm.gap_:.1e}")
    return svm


def load():
    path = Path(os.environ.get("PYBUNDLE_DATA", ""), "mnist", "mnist.npz")
    if not path.is_file():
        return tuple(pb.datasets.load_digits())
    with np.load(path, allow_pickle=False) as file:
        return ((file["X_train"][:10000] / 255.0).astype(np.float32), file["y_train"][:10000].astype(int),
                (file["X_test"] / 255.0).astype(np.float32), file["y_test"].astype(int))


def main():
    X, y, X_test, y_test = load()
    for name, run in (("scikit-learn", before), ("pybundle", after)):
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = run(X, y)
        print(f"{name}: {100 * model.score(X_test, y_test):.2f} % right, "
              f"{time.process_time() - started:.1f} s of processor time")


if __name__ == "__main__":
    main()
