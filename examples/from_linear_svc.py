"""From LinearSVC and GridSearchCV to pybundle: C chosen by warm-started paths.

    PYBUNDLE_DATA=/path/to/data python examples/from_linear_svc.py

Uses the first 10000 digits of MNIST if PYBUNDLE_DATA has mnist/mnist.npz, otherwise
12164 noisy copies of scikit-learn's digits.
"""

import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

import pybundle as pb

GRID = np.logspace(-3.0, 0.0, 4)


def before(X: Any, y: Any) -> Any:
    search = GridSearchCV(LinearSVC(max_iter=5000), {"C": GRID}, cv=3).fit(X, y)
    print(f"scikit-learn: C = {search.best_params_['C']:g}, "
          "distance to the optimum unknown")
    return search


def after(X: Any, y: Any) -> Any:
    svm = pb.MulticlassSVMCV(GRID, cv=3).fit(X, y)
    print(f"pybundle: C = {svm.C_:g}, objective within {svm.gap_:.1e} of the optimum, "
          f"certified: {svm.certified_}")
    return svm


def load() -> Any:
    path = Path(os.environ.get("PYBUNDLE_DATA", ""), "mnist", "mnist.npz")
    if not path.is_file():
        train = pb.datasets.digit_strings(2000, noise=0.2, random_state=0)
        test = pb.datasets.digit_strings(300, noise=0.2, held_out=True, random_state=1)
        return train.X.values, train.y.values, test.X.values, test.y.values
    with np.load(path, allow_pickle=False) as file:
        return ((file["X_train"][:10000] / 255.0).astype(np.float32),
                file["y_train"][:10000].astype(int),
                (file["X_test"] / 255.0).astype(np.float32),
                file["y_test"].astype(int))


def main() -> None:
    X, y, X_test, y_test = load()
    print(f"{len(X)} examples, {X.shape[1]} features, {len(GRID)} values of C, 3 folds")
    for name, run in (("scikit-learn", before), ("pybundle", after)):
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = run(X, y)
        seconds = time.process_time() - started
        print(f"{name}: {100 * model.score(X_test, y_test):.2f} % right, "
              f"{seconds:.1f} s of processor time")


if __name__ == "__main__":
    main()
