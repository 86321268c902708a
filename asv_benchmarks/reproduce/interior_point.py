"""Losses with corners on few columns: pybundle against HiGHS, statsmodels, LinearSVC and others, at equal true gaps.

    python asv_benchmarks/reproduce/interior_point.py [--large] [--only quantiles hinge l1]

Peers that are not installed (pyqreg, statsmodels, ReHLine, snapml) are left out. A true gap is the relative distance of
an objective, recomputed in float64, to our best lower bound; ours are certified. To the hinge a peer runs at the first
of TOLERANCES, three a decade, at which it reaches the gap; the fastest of them is told. It is not asked for more once a
fit takes TOO_SLOW seconds. Processor seconds of one thread, ours with the risk and its checks. Ours and the peer run in
turns: medians, and the median of the quotients. `--large` adds a million rows.
Writes results/interior_point.md; `--only` replaces single tables of that page.
"""

import argparse
import time
import warnings

from common import Page, in_turns, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
from sklearn.linear_model import QuantileRegressor
from sklearn.svm import LinearSVC

import pybundle as pb
from pybundle.prox import L1

try:
    import pyqreg
except ImportError:
    pyqreg = None
try:
    from statsmodels.regression.quantile_regression import QuantReg
except ImportError:
    QuantReg = None
try:
    from rehline import plqERM_Ridge
except ImportError:
    plqERM_Ridge = None
try:
    from snapml import SupportVectorMachine
except ImportError:
    SupportVectorMachine = None

TOLERANCES = tuple(float(f"{10.0 ** (-k / 3):.1g}") for k in range(19))
TOO_SLOW = 2.0      # seconds of a fit, about thirty times ours
SLOW = 2_000        # rows up to which HiGHS ends within a second
LARGE = 500_000     # entries up to which statsmodels ends within a second or two; 10^7 take it 80


def made(n, d):
    """Heavy tails, a variance that depends on x, and columns of uneven size."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * np.geomspace(0.3, 30.0, d)
    noise = (1.0 + np.abs(X[:, 0])) * rng.standard_t(3, n)
    return X, X @ (rng.standard_normal(d) / np.geomspace(0.3, 30.0, d)) + noise + 2.0


def uneven(n, d):
    """Columns x geomspace(0.1, 100) + 50."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, d)) * np.geomspace(0.1, 100.0, d) + 50.0
    return X, X @ rng.standard_normal(d) + rng.standard_t(3, n)


def pinball(q, X, y, w, b):
    r = y - X @ w - b
    return float(np.maximum(q * r, (q - 1.0) * r).sum())


def peers_of(q, X, y):
    """Fits by name; each returns weights and intercept."""
    with_ones = np.column_stack([X, np.ones(len(y))])

    def split(w):
        return np.ravel(w)[:-1], float(np.ravel(w)[-1])

    found = {}
    if len(y) <= SLOW and X.shape[1] <= 20:
        def highs(_turn):
            model = QuantileRegressor(quantile=q, alpha=0.0, solver="highs").fit(X, y)
            return model.coef_, model.intercept_
        found["HiGHS"] = highs
    if pyqreg is not None:
        def by_pyqreg(_turn):
            model = pyqreg.QuantReg(y, with_ones)
            model.fit(q, cov_type="iid")
            return split(model.params)
        found["pyqreg"] = by_pyqreg
    if QuantReg is not None and X.size <= LARGE:
        found["statsmodels"] = lambda _turn: split(QuantReg(y, with_ones).fit(q, p_tol=1e-7, max_iter=5000).params)
    return found


def quantiles(sizes):
    rows = []
    for data, n, d in sizes:
        X, y = data(n, d)
        for q in (0.5, 0.9):
            def ours(_turn, X=X, y=y, q=q, tol=1e-5):
                return pb.minimize(pb.risks.Pinball(X, y, q, fit_intercept=True), lam=np.zeros(X.shape[1]), tol=tol)

            bound, result = ours(0, tol=1e-8).lower_bound, ours(0)
            for name, fit in (peers_of(q, X, y) or {"-": None}).items():
                times = in_turns(ours) if fit is None else in_turns(ours, fit)
                seconds = np.median(times, axis=0)
                line = [data.__name__, f"{n} x {d}", q, f"{seconds[0]:.4f}", result.nit, f"{result.gap:.1e}", name]
                line += ["", "", ""] if fit is None else [
                    f"{seconds[1]:.4f}", f"{pinball(q, X, y, *fit(0)) / bound - 1.0:.0e}",
                    f"{np.median(times[:, 1] / times[:, 0]):.2f}"]
                rows.append(tuple(map(str, line)))
    return table(("data", "size", "q", "ours, s", "steps", "certified gap", "peer", "peer, s", "its true gap",
                  "peer / ours"), rows)


def wide():
    """l1, more columns than rows: HiGHS solves to the vertex."""
    rows, rng = [], np.random.default_rng(0)
    for n, d in ((100, 1000), (500, 600), (100, 10_000)):
        X = rng.standard_normal((n, d))
        y = X[:, :10] @ rng.standard_normal(10) + rng.standard_t(3, n)
        model = QuantileRegressor(alpha=0.02, solver="highs")
        for tol in (1e-3, 1e-5):
            def ours(_turn, tol=tol, X=X, y=y):
                return pb.minimize(pb.risks.Pinball(X, y, fit_intercept=True), penalty=L1(0.02), scale="mean", tol=tol)

            times = in_turns(ours, lambda _turn, model=model, X=X, y=y: model.fit(X, y))
            seconds, result = np.median(times, axis=0), ours(0)
            rows.append((f"{n} x {d}", f"{tol:g}", f"{seconds[0]:.3f}", str(result.nit), f"{result.gap:.1e}",
                         str(np.count_nonzero(result.x)), f"{seconds[1]:.3f}",
                         f"{np.median(times[:, 1] / times[:, 0]):.1f}"))
    return table(("size", "tol", "ours, s", "steps", "certified gap", "weights", "HiGHS, s", "HiGHS / ours"),
                 rows)


def hinge_peers(lam):
    """Estimators by name, made from a tolerance, all with 1/2 |w|^2 + C sum or lam/2 |w|^2 + sum and no intercept."""
    found = {"LinearSVC": lambda tol: LinearSVC(loss="hinge", C=1.0 / lam, fit_intercept=False, tol=tol,
                                                max_iter=10_000)}
    if plqERM_Ridge is not None:
        found["ReHLine"] = lambda tol: plqERM_Ridge(loss={"name": "svm"}, C=1.0 / lam, tol=tol, max_iter=10_000)
    if SupportVectorMachine is not None:
        found["snapml"] = lambda tol: SupportVectorMachine(loss="hinge", regularizer=lam, tol=tol, max_iter=10_000)
    return found


def ladder(make, X, y, lam, bound):
    """(model, true gap, seconds) at falling tolerances."""
    for tol in TOLERANCES:
        start = time.process_time()
        model = make(tol).fit(X, y)
        seconds = time.process_time() - start
        w = np.ravel(model.coef_)
        yield model, (0.5 * lam * w @ w + np.maximum(1.0 - y * (X @ w), 0.0).sum()) / bound - 1.0, seconds
        if seconds > TOO_SLOW:
            break


def hinge():
    """57 columns of very different size, as they are and standardised."""
    rng = np.random.default_rng(1)
    Z = np.exp(rng.standard_normal((4601, 57))) * (rng.random((4601, 57)) < 0.4)
    score = Z @ rng.standard_normal(57)
    y = np.where(score + 3.0 * rng.standard_normal(4601) > np.median(score), 1.0, -1.0)
    raw, rows = Z * rng.permutation(np.geomspace(0.05, 500.0, 57)), []
    for name, X in (("raw", raw), ("standardised", (raw - raw.mean(axis=0)) / raw.std(axis=0))):
        for lam in (1e4, 100.0, 1.0, 0.01):
            bound = pb.minimize(pb.risks.BinaryHinge(X, y), lam=lam, tol=1e-7).lower_bound
            found = {peer: list(ladder(make, X, y, lam, bound)) for peer, make in hinge_peers(lam).items()}
            for goal in (1e-2, 1e-3):
                def ours(_turn, X=X, lam=lam, goal=goal):
                    return pb.minimize(pb.risks.BinaryHinge(X, y), lam=lam, tol=goal)

                near = {peer: next((model for model, gap, _ in fits if gap <= goal), None)
                        for peer, fits in found.items()}
                near = {peer: model for peer, model in near.items() if model is not None}
                times = in_turns(ours, *(lambda _turn, m=model, X=X: m.fit(X, y) for model in near.values()))
                seconds, result = np.median(times, axis=0), ours(0)
                line = [name, f"{lam:g}", f"{goal:g}", f"{seconds[0]:.4f}", f"{result.n_passes:.0f}"]
                if near:
                    best = 1 + int(np.argmin(seconds[1:]))
                    line += [list(near)[best - 1], f"{seconds[best]:.4f}",
                             f"{np.median(times[:, best] / times[:, 0]):.2f}"]
                else:
                    gap, spent, peer = min((gap, spent, peer) for peer, fits in found.items() for _, gap, spent in fits)
                    line += [peer, f"only {gap:.0e} in {spent:.2f}", ""]
                rows.append((*line, ", ".join(near)))
    return table(("columns", "lam", "gap", "ours, s", "passes", "fastest peer", "its s", "peer / ours",
                  "peers that reach the gap"), rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--only", nargs="+", choices=list(TITLES), default=list(TITLES))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    sizes = [(made, 1000, 5), (made, 20_640, 8), (made, 100_000, 20), (made, 100_000, 100), (uneven, 20_000, 20)]
    sizes += [(made, 1_000_000, 20), (uneven, 1_000_000, 20)] if arguments.large else []
    sections = {"quantiles": lambda: quantiles(sizes), "hinge": hinge, "l1": wide}
    page = Page("interior_point.md", HEAD, TITLES.values())
    for name in arguments.only:
        text = sections[name]()
        print(text, flush=True)
        page.replace(TITLES[name], f"pybundle {version()}.\n\n{text}")


TITLES = {"quantiles": "Quantiles without penalty, to a certified 1e-5",
          "hinge": "Hinge, 4601 x 57, no intercept, by auto",
          "l1": "Quantiles with l1 (alpha = 0.02), more columns than rows"}
HEAD = """# Losses with corners on few columns

`asv_benchmarks/reproduce/interior_point.py`, one thread, processor time. To the hinge a peer (LinearSVC, ReHLine or
snapml) runs at the first of its tolerances, three a decade, that reaches the true gap; the fastest is told, or what the
best reached and the seconds of that fit. Ratios are medians over turns: **below 1 the peer is faster**.
"""

if __name__ == "__main__":
    main()
