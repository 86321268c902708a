"""Ranking: the sums over pairs against sorting, and the squared form against LinearSVC on the listed pairs.

    python asv_benchmarks/reproduce/ranking.py

Made data: rows uniform in a cube, grades from quantiles of a noisy linear function, groups of random sizes. LinearSVC
gets the differences of rows, which is not timed, and the loosest power of ten as tolerance, in its primal or its dual,
that brings its objective within 1e-4 of our lower bound; ours runs to 1e-4 with the risk and its checks. Processor time
of one thread; ours and the peer run in turns. Writes asv_benchmarks/results/ranking.md.
"""

import time
import warnings

from common import RESULTS, in_turns, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
from sklearn.svm import LinearSVC

import pybundle as pb

TOL = 1e-4
SETS = {"2707 x 46, 157 groups": (2707, 46, 157, 3), "3005 x 300, 201 groups": (3005, 300, 201, 5),
        "20000 x 136, 800 groups": (20_000, 136, 800, 5)}


def sums(n=1_000_000):
    """Rows: grades, sums of the hinge and of the squared form in argsorts."""
    rng = np.random.default_rng(0)
    scores = rng.standard_normal(n)
    for name, y in (("2", rng.integers(0, 2, n) * 1.0), ("5", rng.integers(0, 5, n) * 1.0),
                    ("real", rng.standard_normal(n))):
        for form in ("hinge", "squared"):
            risk = pb.risks.Ranking(scores[:, None], y, form=form)
            unit, power = risk._units[0], 1 + risk.smooth
            rows = in_turns(lambda _, unit=unit, risk=risk, power=power: risk._sums(
                unit, risk._keys(unit, scores), 1.0, power), lambda _: np.argsort(scores))
            ours, sort = np.median(rows, axis=0)
            yield name, form, f"{1e3 * ours:.0f}", f"{1e3 * sort:.0f}", f"{np.median(rows[:, 0] / rows[:, 1]):.1f}"


def made(n, d, n_groups, n_grades):
    rng = np.random.default_rng(1)
    X, w, qid = rng.random((n, d)), rng.standard_normal(d), np.sort(rng.integers(0, n_groups, n))
    z = (X - 0.5) @ w
    z = z / z.std() + rng.standard_normal(n)
    return X, np.searchsorted(np.quantile(z, np.linspace(0.5, 0.95, n_grades - 1)), z) * 1.0, qid


def listed(X, y, qid):
    """Differences of the rows of all pairs, every second one with the other sign, and the signs."""
    rows = [np.flatnonzero(qid == g) for g in np.unique(qid)]
    i, j = np.concatenate([some[np.array(np.nonzero(y[some][:, None] > y[some][None]))] for some in rows], axis=1)
    signs = np.where(np.arange(len(i)) % 2, 1.0, -1.0)
    return signs[:, None] * (X[i] - X[j]), signs


def squared():
    """Rows: data, lam, pairs, passes, seconds of ours and of LinearSVC, their ratio."""
    for name, shape in SETS.items():
        X, y, qid = made(*shape)
        D, signs = listed(X, y, qid)
        for lam in (1000.0, 100.0, 10.0, 1.0):
            def ours(_, X=X, y=y, qid=qid, lam=lam):
                return pb.minimize(pb.risks.Ranking(X, y, qid, form="squared"), lam=lam, tol=TOL)

            def theirs(tol, dual, D=D, signs=signs, lam=lam):
                svm = LinearSVC(C=0.5 / lam, fit_intercept=False, tol=tol, dual=dual, max_iter=20_000)
                return svm.fit(D, signs).coef_[0]

            result, found = ours(0), []
            for dual in (True, False):
                for tol in 10.0 ** -np.arange(1.0, 7.0):
                    began = time.process_time()
                    w = theirs(tol, dual)
                    seconds = time.process_time() - began
                    fun = lam / 2 * w @ w + 0.5 * np.sum(np.maximum(0.0, 1.0 - signs * (D @ w))**2)
                    if fun <= result.lower_bound * (1.0 + TOL) or seconds > 30.0:
                        found.append((seconds, tol, dual))
                        break
            tol, dual = min(found)[1:]
            rows = in_turns(ours, lambda _, theirs=theirs, tol=tol, dual=dual: theirs(tol, dual))
            mine, peer = np.median(rows, axis=0)
            ratio = np.median(rows[:, 1] / rows[:, 0])
            yield (name, f"{lam:g}", len(D), f"{result.n_passes:.0f}", f"{mine:.3f}", f"{peer:.3f}", f"{ratio:.1f}")


def main():
    warnings.simplefilter("ignore")
    rows = list(squared())
    ratios = [float(row[-1]) for row in rows]
    text = ["# Ranking", "`python asv_benchmarks/reproduce/ranking.py`, one thread, processor time, "
            f"pybundle {version()}.",
            "## Sums over all pairs of 10^6 scores in one group",
            table(("grades", "form", "ms", "argsort, ms", "ratio"), sums()),
            "## Squared form to 1e-4, and LinearSVC on the listed pairs",
            table(("data", "lam", "pairs", "passes", "seconds", "LinearSVC", "ratio"), rows),
            f"Least ratio {min(ratios):.1f}, median {np.median(ratios):.1f}."]
    (RESULTS / "ranking.md").write_text("\n\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
