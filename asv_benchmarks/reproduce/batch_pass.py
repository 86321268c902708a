"""One batch pass on MNIST (60000 x 784, 10 classes, 16 parts): pybundle against a pair of NumPy products.

    PYBUNDLE_DATA=... python asv_benchmarks/reproduce/batch_pass.py [--repeats 15]

The pass gives the values and the 16 subgradients at one w. NumPy gets its best case: float32, the rows of
each part already contiguous, one-hot labels prepared, one sgemm for the scores and one for the slopes (summed
in float32, ours in float64 with float64-exact labels). Two points: a random w, where every example counts,
and one after 30 stochastic epochs at lam = 10, where few do. One thread; the candidates take turns, the table
shows median and minimum over the repeats and the ratios of both. Writes results/batch_pass.md.
"""

import argparse
import time

from common import RESULTS, data_file, version  # sets threads: before NumPy

# isort: split
import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

import pybundle as pb
from pybundle.risks import MulticlassHinge, kernel_name

N_PARTS = 16


def numpy_pass(X, y, parts):
    """Closure: values and slopes of every part with two float32 products."""
    blocks = [(np.ascontiguousarray(X[rows]), np.eye(10, dtype=np.float32)[y[rows]]) for rows in parts]

    def run(w):
        W = w.reshape(10, -1).astype(np.float32)
        values, slopes = np.empty(len(blocks)), np.empty((len(blocks), w.size), dtype=np.float32)
        for p, (rows, truth) in enumerate(blocks):
            S = rows @ W.T
            U = S + 1 - truth
            label = U.argmax(axis=1)
            M = np.eye(10, dtype=np.float32)[label] - truth
            values[p] = np.take_along_axis(U, label[:, None], 1).sum() - (S * truth).sum()
            slopes[p] = (M.T @ rows).ravel()
        return values, slopes

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    data = np.load(data_file("mnist", "mnist.npz"))
    pixels, y = data["X_train"], data["y_train"].astype(np.int64)
    X = (pixels / 255.0).astype(np.float32)
    risks = {
        "float32": MulticlassHinge(X, y, N_PARTS),
        "uint8": MulticlassHinge(pixels, y, N_PARTS, scale=1 / 255),
        "float64": MulticlassHinge(X.astype(np.float64), y, N_PARTS),
        "CSR, float32 values": MulticlassHinge(sp.csr_array(X), y, N_PARTS),
    }
    rng = np.random.default_rng(0)
    trained = pb.minimize(risks["uint8"], lam=10.0, method="sgd t0=1.0", tol=1e-9, max_iter=30, random_state=0).x
    points = {"random": rng.standard_normal(7840), "trained": trained}
    runs = {"NumPy float32": numpy_pass(X, y, risks["float32"].parts)}
    runs |= {name: risk.evaluate for name, risk in risks.items()}

    lines = ["# One batch pass on MNIST: values and 16 subgradients", "",
             f"`asv_benchmarks/reproduce/batch_pass.py`, one thread, {kernel_name()} kernels, median (and minimum) of "
             f"{repeats} interleaved repeats; pybundle {version()}.",
             "", "| data | " + " | ".join(f"{point} w, ms | NumPy / this" for point in points) + " |",
             "|---" * (1 + 2 * len(points)) + "|"]
    times = {(name, point): [] for name in runs for point in points}
    for _ in range(repeats):
        for point, w in points.items():
            for name, run in runs.items():
                start = time.perf_counter()
                run(w)
                times[name, point].append(1e3 * (time.perf_counter() - start))
    for name in runs:
        cells = [name]
        for point in points:
            mine, peer = times[name, point], times["NumPy float32", point]
            cells += [f"{np.median(mine):.1f} ({min(mine):.1f})",
                      f"{np.median(peer) / np.median(mine):.2f} ({min(peer) / min(mine):.2f})"]
        lines.append("| " + " | ".join(cells) + " |")
    S = risks["float32"].scores(trained)
    truth = S[np.arange(len(y)), y].copy()
    S[np.arange(len(y)), y] = -np.inf
    share = np.mean(truth < S.max(axis=1) + 1)
    lines += ["", f"At the trained w {share:.0%} of the examples violate the margin.", ""]
    print("\n".join(lines))
    (RESULTS / "batch_pass.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
