"""Losses of one score: pybundle against scikit-learn's HiGHS and ReHLine, at equal true gaps.

    python asv_benchmarks/reproduce/one_score.py [--rows 3000000]

ReHLine is skipped where it is not installed. A true gap is the relative distance of an objective, recomputed in
float64, to our best lower bound, not to what a solver reports; a peer's tolerance is the loosest power of ten that
meets it. Processor time of one thread, ours with the risk and its checks. Ours and the peer run in turns, five or more
of them, or one if that takes three seconds: seconds are medians, and a ratio is the median of the quotients. Writes
asv_benchmarks/results/one_score.md.
"""

import argparse
import resource
import time
import warnings

from common import RESULTS, in_turns, table, version  # sets threads: before NumPy

# isort: split
import numpy as np

import pybundle as pb
from pybundle.prox import L1, SquaredL2
from pybundle.risks import BinaryHinge, Huber, Pinball, SquaredHinge

try:
    from rehline import plqERM_Ridge
except ImportError:
    plqERM_Ridge = None


class SmoothedHinge(SquaredHinge):
    """max(0, 1 - m)^2 / 2 down to m = 0, and linear below."""

    curve = -1.0, 0.0, 1.0, 1.0, 0.0
    second_derivatives = None       # 0 where the loss is linear: Newton steps do not suit it


def pinball(q, X, y, w, b):
    u = y - X @ w - b
    return float(np.mean(np.maximum(q * u, (q - 1.0) * u)))


def quantiles(n=10_000, d=20, q=0.8):
    """Rows: alpha, ours, HiGHS."""
    from sklearn.linear_model import QuantileRegressor

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = X @ rng.standard_normal(d) + 3.0 + rng.standard_normal(n) * (1.0 + np.abs(X[:, 0]))
    rows = []
    for alpha in (0.0, 1e-3):
        def solve(_turn, alpha=alpha):
            return pb.minimize(Pinball(X, y, q, fit_intercept=True), penalty=L1(alpha) if alpha else SquaredL2(0.0),
                               tol=1e-6, scale="mean")

        model = QuantileRegressor(quantile=q, alpha=alpha)
        times = in_turns(solve, lambda _turn, model=model: model.fit(X, y))
        ours, (seconds, slow) = solve(0), np.median(times, axis=0)
        theirs = pinball(q, X, y, model.coef_, model.intercept_) + alpha * np.abs(model.coef_).sum()
        rows.append((f"{alpha:g}", f"{seconds:.2f}", f"{slow:.2f}", f"{slow / seconds:.1f}", f"{ours.n_passes:.0f}",
                     f"{ours.gap:.1e}", f"{ours.fun:.9f}", f"{theirs:.9f}", f"{(ours.fun - theirs) / theirs:.1e}"))
    return table(("alpha", "ours, s", "HiGHS, s", "ratio", "passes", "certified gap", "our F", "HiGHS's F",
                  "ours above"), rows)


def many_rows(n, d=20, tol=1e-3):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = X @ rng.standard_normal(d) + rng.standard_t(3, n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    result = pb.minimize(Pinball(X, y, 0.5, fit_intercept=True), lam=np.zeros(d), tol=tol, scale="mean")
    seconds = time.process_time() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    return table(("rows", "seconds", "passes", "certified gap", "memory beside X and y, GB"),
                 [(f"{n:,}", f"{seconds:.1f}", f"{result.n_passes:.0f}", f"{result.gap:.1e}", f"{grown:.2f}")])


def rehline(problem, goal):
    """A fit of ReHLine at the loosest tolerance that reaches the goal, if any, and that tolerance, in words."""
    loss, X, y, C, fun, bound = problem
    gap = np.inf
    for exponent in range(10) if plqERM_Ridge else ():
        def fit(_turn, exponent=exponent):
            return plqERM_Ridge(loss=loss, C=C, tol=10.0**-exponent, max_iter=100_000).fit(X, y)

        gap = (fun(fit(0).coef_) - bound) / bound
        if gap <= goal:
            return fit, f"(tol 1e-{exponent})"
    return None, f"only {gap:.0e}" if plqERM_Ridge else "not installed"


def objective(risk, lam):
    """F in float64."""
    exact = risk.derive(precision="float64")
    return lambda w: 0.5 * lam * float(w @ w) + float(exact.values(w)[0].sum())


def peers(C=0.01):
    """The table of both; the arguments of a risk come before it, so that building it counts."""
    rows = []
    for n, d in ((5000, 100), (100_000, 20)):
        rng = np.random.default_rng(1)
        X = rng.standard_normal((n, d))
        score = X @ rng.standard_normal(d) + rng.standard_normal(n)
        labels = np.where(score > 0.0, 1.0, -1.0)
        problems = {
            "quantile 0.25": ((Pinball, X, score, 0.25), {"name": "QR", "qt": 0.25}, score),
            "SVM": ((BinaryHinge, X, labels), {"name": "svm"}, labels),
            "smoothed SVM": ((SmoothedHinge, X, labels), {"name": "sSVM"}, labels),
            "Huber": ((Huber, X, score, 1.0), {"name": "huber", "tau": 1.0}, score),
        }
        for name, ((kind, *arguments), loss, y) in problems.items():
            bound = pb.minimize(kind(*arguments), lam=1.0 / C, tol=1e-9).lower_bound
            fun = objective(kind(*arguments), 1.0 / C)
            for goal in (1e-2, 1e-3, 1e-6):
                def ours(_turn, kind=kind, arguments=arguments, goal=goal):
                    return pb.minimize(kind(*arguments), lam=1.0 / C, tol=goal)

                theirs, words = rehline((loss, X, y, C, fun, bound), goal)
                times = in_turns(ours) if theirs is None else in_turns(ours, theirs)
                seconds, ratio = np.median(times, axis=0), ""
                if theirs is not None:
                    words, ratio = f"{seconds[1]:.4f} {words}", f"{np.median(times[:, 1] / times[:, 0]):.2f}"
                rows.append((name, f"{n} x {d}", f"{goal:g}", f"{seconds[0]:.4f}", f"{ours(0).n_passes:.0f}", words,
                             ratio))
    return table(("problem", "size", "true gap", "ours, s", "passes", "ReHLine, s", "ReHLine / ours"), rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    text = ["# Losses of one score", "`python asv_benchmarks/reproduce/one_score.py`, one thread, processor "
            f"time, pybundle {version()}.",
            "## Quantile regression, 10000 x 20, q = 0.8, free intercept, to a certified 1e-6", quantiles(),
            "## Median of many rows, no penalty, to a certified 1e-3", many_rows(arguments.rows),
            "## ReHLine at equal true gaps, lam = 100", peers()]
    (RESULTS / "one_score.md").write_text("\n\n".join(text) + "\n", encoding="utf-8")
    print("\n\n".join(text))


if __name__ == "__main__":
    main()
