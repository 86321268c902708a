"""Binary hinge on sparse data, certified by "auto", against LIBLINEAR's dual coordinate descent.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/sparse_hinge.py [--only tf-idf counts a9a w8a]

`lam/2 |w|^2 + sum_i max(0, 1 - y_i <w, x_i>)` without intercept. "tf-idf" and "counts" are the two halves of the
classes of 20 newsgroups. LinearSVC has no certificate: it runs at the loosest of TOLERANCES at which at least three of
five seeds reach an objective within the gap of our lower bound, or at the least of them if none does. Processor time of
one thread, data in the form that each package wants (CSR), both in turns: at least five, and as many as fit into a
second. Writes results/sparse_hinge.md.
"""

import argparse
import warnings

from common import RESULTS, data_file, in_turns, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.svm import LinearSVC

import pybundle as pb

SETS = ("tf-idf", "counts", "a9a", "w8a")
LAMS, GAPS = (10.0, 1.0, 0.1), (1e-2, 1e-3)
TOLERANCES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
SEEDS = 5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in arguments.only:
        X, y = binary(name)
        for lam in LAMS:
            for gap in GAPS:
                rows.append(row(name, X, y, lam, gap))
                print(*rows[-1], sep=" | ", flush=True)
    head = ("set", "lam", "gap", "pybundle, s", "passes", "LinearSVC, s", "its tol", "its passes",
            "LinearSVC / pybundle")
    (RESULTS / "sparse_hinge.md").write_text(TEXT.format(version=version(), table=table(head, rows)),
                                             encoding="utf-8")


def binary(name):
    """Rows in CSR, labels -1 and 1."""
    if name in ("a9a", "w8a"):
        X, y = load_svmlight_file(str(data_file("libsvm", f"{name}.svm.gz")))
        return sp.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), X.shape), y
    with np.load(data_file("news20", "news20.npz"), allow_pickle=False) as file:
        y = file["y_train"]
        X = sp.csr_matrix((file["counts_train"].astype(np.float64), file["indices_train"].astype(np.int32),
                           file["indptr_train"].astype(np.int32)), shape=(len(y), int(file["n_features"])))
    if name == "tf-idf":
        X = TfidfTransformer(sublinear_tf=True).fit_transform(X)
    return sp.csr_matrix(X), np.where(y < (y.max() + 1) // 2, -1.0, 1.0)


def row(name, X, y, lam, gap):
    """A row of the table."""
    def ours(_turn):
        return pb.minimize(pb.risks.BinaryHinge(X, y), lam=lam, tol=gap)

    def theirs(turn, tol):
        return LinearSVC(loss="hinge", C=1.0 / lam, fit_intercept=False, tol=tol, max_iter=100_000,
                         random_state=turn).fit(X, y)

    def objective(w):
        return 0.5 * lam * float(w @ w) + float(np.maximum(0.0, 1.0 - y * (X @ w)).sum())

    result = ours(0)
    for tol in TOLERANCES:
        fits = [theirs(seed, tol) for seed in range(SEEDS)]
        fun = np.median([objective(fit.coef_[0]) for fit in fits])
        is_close = fun - result.lower_bound <= gap * fun
        if is_close:
            break
    times = in_turns(ours, lambda turn: theirs(turn % SEEDS, tol))
    mine, other = np.median(times, axis=0)
    return (name, f"{lam:g}", f"{gap:g}", f"{mine:.3g}" if result.success else f"{mine:.3g} (gap {result.gap:.1g})",
            f"{result.n_passes:.1f}", f"{other:.3g}",
            f"{tol:g}" if is_close else f"{tol:g} (not reached)", f"{np.median([fit.n_iter_ for fit in fits]):.0f}",
            ("" if is_close else "> ") + f"{np.median(times[:, 1] / times[:, 0]):.2f}")


TEXT = """# Binary hinge on sparse data

`asv_benchmarks/reproduce/sparse_hinge.py` with pybundle {version}: processor time of one thread. Our seconds include
the risk, its checks and the certificate. LinearSVC's are those at the loosest tolerance at which at least three of five
seeds reach an objective within the same gap of our lower bound. Passes are over all rows or those not set aside; ours
count one for each value of F. Both run in turns, five or more; seconds are medians, and the last column is the median
of their quotients.

{table}
"""

if __name__ == "__main__":
    main()
