"""Multiple kernel learning on handwritten words: the batch certificate, and sparse Gram matrices.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/mkl_ocr.py [--only certificate]

The words of Taskar, Guestrin and Koller, indicators of label pairs as a group of their own, unnormalised Hamming loss.
Value, bound and gap of the online and of the certified learner on one fold; memory and rounds of a sparse Gram matrix
of nine folds. Writes results/mkl_ocr.md. The published table of kernels is in online_mkl.py.
"""

import argparse
import functools
import time
import warnings

from common import RESULTS, data_file, table, version  # sets threads: before NumPy

# isort: split
import numpy as np

import pybundle as pb
from pybundle import mkl
from pybundle.core.ragged import Ragged

SIGMA = np.sqrt(5.0)
LARGEST_DENSE = 9e9
"""Bytes of the dense Gram matrix that the sparse one is compared with: that of nine folds, just."""


def three():
    return [mkl.Linear(), mkl.Polynomial(2), mkl.Gaussian(SIGMA)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="others are kept")
    arguments = parser.parse_args()
    X, Y, fold = words()
    path = RESULTS / "mkl_ocr.md"
    kept = path.read_text(encoding="utf-8").split("\n## ")[1:] if path.exists() else []
    sections = {part.split("\n")[0]: "## " + part.strip() for part in kept}
    for name in arguments.only:
        title, text = SECTIONS[name](X, Y, fold)
        sections[title] = f"## {title}\n\n{text}"
        print(sections[title], flush=True)
        path.write_text("\n\n".join([HEAD.format(version=version()), *sections.values()]) + "\n", encoding="utf-8")


@functools.cache
def words():
    """Pixels and letters of all words, and their folds."""
    with np.load(data_file("ocr_letters", "ocr_letters.npz"), allow_pickle=False) as file:
        offsets = file["offsets"].astype(np.int64)
        return (Ragged(file["X"].astype(float), offsets), Ragged(file["y"].astype(np.int32), offsets),
                file["fold"].astype(np.int64))


def learner(groups, lam, **options):
    model = pb.models.Chain(26, 128, start=False, end=False)
    return mkl.OnlineMKL(groups, model=model, lam=lam, random_state=0, certify=False, **options)


class Dense(mkl.Callable):
    """A function known to be a symmetric kernel, as good as one that is positive semidefinite."""

    is_trusted = True

    def is_definite(self, X):
        return False


def certificate(X, Y, fold):
    """Value, bound and gap of the online learner and of the certified one, three kernels, fold 0."""
    inside, test = np.flatnonzero(fold == 0), np.flatnonzero(fold != 0)
    rows = []
    for lam in (1e-2, 1e-3, 1e-4):
        for solver, options in (("online", {"n_epochs": 20}), ("certified", {"max_iter": 120})):
            model = learner(three(), lam, solver=solver, **options)
            model.certify = True
            began = time.thread_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", pb.ConvergenceWarning)
                model.fit(X.take(inside), Y.take(inside))
            seconds = time.thread_time() - began
            passes = model.n_rounds_ if solver == "certified" else 20
            rows.append((f"{lam:g}", solver, passes, f"{seconds:.1f}", f"{model.objective_:.5f}",
                         f"{model.lower_bound_:.5f}", f"{model.gap_:.1e}",
                         " ".join(f"{w:.3f}" for w in model.weights_),
                         f"{100 * model.score(X.take(test), Y.take(test)):.2f}"))
            print(*rows[-1], sep=" | ", flush=True)
    return "Batch certificate", CERTIFICATE.format(table=table(
        ("lam", "solver", "passes", "seconds", "F", "lower bound", "gap", "kernel weights, label pairs last",
         "accuracy, %"), rows))


def sparse(X, Y, fold):
    """Memory and rounds of the B1-spline, sparse on nine folds; beside the dense matrix where that fits."""
    rows = []
    for part, inside in (("fold 0", np.flatnonzero(fold == 0)), ("folds 0-2", np.flatnonzero(fold < 3)),
                         ("folds 0-8", np.flatnonzero(fold < 9))):
        data = X.take(inside), Y.take(inside)
        n = len(data[0].values)
        spline = mkl.B1Spline().fit(data[0].values)
        times = {}
        for form in ("sparse", "dense"):
            if form == "dense" and 4 * n * n > LARGEST_DENSE:
                continue
            kernel = spline if form == "sparse" else Dense(spline, normalise=False)
            seen = []
            gram = mkl.B1Spline.gram if form == "sparse" else mkl.Kernel.gram

            def counted_gram(*given, gram=gram, kernel=kernel, seen=seen):
                began = time.thread_time()
                made = gram(kernel, *given)
                seen.append((sum(array.nbytes for array in made), time.thread_time() - began))
                return made

            kernel.gram = counted_gram
            began = time.thread_time()
            learner([kernel], 1e-4, eta0=1.0, n_epochs=5, precision="float32").fit(*data)
            times[form] = time.thread_time() - began - seen[0][1], *seen[0]
        for form, (seconds, size, made) in times.items():
            share = size / (4.0 * n * n)
            ratio = f"{times['dense'][0] / times['sparse'][0]:.1f}" if form == "sparse" and "dense" in times else ""
            rows.append((part, n, form, f"{size / 1e6:.0f}", f"{share:.3f}", f"{made:.1f}", f"{seconds:.2f}", ratio))
            print(*rows[-1], sep=" | ", flush=True)
    return "Sparse Gram matrices", SPARSE.format(table=table(
        ("trained on", "letters", "Gram matrix", "MB (float32)", "share of dense", "seconds to make it",
         "seconds of 5 epochs", "dense / sparse"), rows))


SECTIONS = {"certificate": certificate, "sparse": sparse}

HEAD = """\
# Multiple kernel learning on handwritten words

Written by `asv_benchmarks/reproduce/mkl_ocr.py` with pybundle {version}; one thread. 6877 words, 26 letters, 128 binary
pixels; indicators of label pairs are a group of their own, the loss is the number of wrong letters, lam is in mean
scale."""

CERTIFICATE = """\
Linear, quadratic and Gaussian kernel, fold 0. "online": 20 epochs with automatic eta_0, bound from the labellings met
in each epoch; "certified": until the relative gap is 1e-2, at most 120 passes. Seconds with Gram matrices.

{table}"""

SPARSE = """\
B1-spline of the automatic width (95 % zeros on a sample), lam 1e-4, eta_0 1, Gram matrices in float32, beside the dense
matrix of the same kernel.

{table}"""


if __name__ == "__main__":
    main()
