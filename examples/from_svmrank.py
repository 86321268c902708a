"""From SVM^rank, or from pairs listed for LinearSVC, to pybundle: the same objective.

    python examples/from_svmrank.py

Reads svmlight lines `grade qid:query index:value ...`, which it makes; put the name of a
file of yours in place of `made()`. `svm_rank_learn -c 20 train.dat model.dat` divides 20
by the number of queries, so that it is `pb.RankingSVM(C=20 / n_queries)`.
"""

import io
import time
from typing import Any

import numpy as np
from sklearn.svm import LinearSVC

import pybundle as pb

LAM = 10.0


def made() -> Any:
    rng = np.random.default_rng(0)
    lines = []
    for query in range(300):
        x = rng.random((20, 40)).round(3)
        grades = np.clip(np.round(8.0 * (x[:, 0] - 0.5) + rng.standard_normal(20)), 0, 4)
        for grade, row in zip(grades.astype(int), x, strict=True):
            pairs = " ".join(f"{j}:{value}" for j, value in enumerate(row, 1))
            lines.append(f"{grade} qid:{query} {pairs}\n")
    return io.BytesIO("".join(lines).encode())


def before(X: Any, y: Any, qid: Any) -> Any:
    """List the differences of all pairs, half of them with the other sign."""
    i, j = np.nonzero((y[:, None] > y[None, :]) & (qid[:, None] == qid[None, :]))
    signs = np.where(np.arange(len(i)) % 2, 1, -1)
    differences = signs[:, None] * (X[i] - X[j])
    svm = LinearSVC(C=0.5 / LAM, fit_intercept=False, tol=1e-3).fit(differences, signs)
    return svm.coef_[0]


def after(X: Any, y: Any, qid: Any) -> Any:
    svm = pb.RankingSVM(C=1.0 / LAM, form="squared", tol=1e-4).fit(X, y, qid=qid)
    print(f"pybundle: {svm.n_pairs_} pairs, objective within {svm.gap_:.1e} of the optimum")
    return svm.coef_


def main() -> None:
    rows, y, qid = pb.datasets.read_svmlight(made())
    assert y is not None and qid is not None
    X = rows.toarray()
    print(f"{len(y)} rows of {len(np.unique(qid))} queries")
    for name, run in (("pairs by hand", before), ("pybundle", after)):
        started = time.process_time()
        w = run(X, y, qid)
        seconds = time.process_time() - started
        print(f"{name}: {100.0 * pb.metrics.ndcg(y, X @ w, qid, k=10):.2f} % NDCG@10, "
              f"{seconds:.2f} s of processor time")


if __name__ == "__main__":
    main()
