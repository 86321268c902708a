"""Log-losses and squared hinge with l1 norms and elastic nets, a9a and 20 newsgroups, against other packages.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/sparse_penalties.py [--only a9a tf-idf counts]

All solve `strength (rho |w|_1 + (1 - rho)/2 |w|^2) + sum_i l_i(w)`, without intercept, to true gaps of 1e-3 and 1e-6:
the relative distance of an objective, recomputed in float64, to our lower bound of a run to 1e-7. A peer runs at the
first of TOLERANCES, three a decade, that reaches the gap, and gets no more once its fits took `--limit` seconds
together. Ours are certified and include the risk; "value" is the time at which our best value is that close. Processor
time of one thread, data in the form that each package wants. Ours and the fastest peer run in turns: medians, and the
median of the quotients. A dash is a package that does not offer the problem. Peers that are not installed are left out.

The squared hinge is `sum_i max(0, 1 - y_i <w, x_i>)^2 / 2`, the binary labels of 20 newsgroups, as tf-idf and as
counts, are the two halves of its classes. Writes results/sparse_penalties.md; `--only` replaces single sets of that
page.
"""

import argparse
import time
import warnings

from common import Page, data_file, in_turns, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import pybundle as pb
from pybundle.prox import Separable

try:
    from celer import LogisticRegression as Celer
except ImportError:
    Celer = None
try:
    from skglm import GeneralizedLinearEstimator
    from skglm.datafits import Logistic
    from skglm.penalties import L1, L1_plus_L2
    from skglm.solvers import ProxNewton
except ImportError:
    ProxNewton = None

GAPS = (1e-3, 1e-6)
TOLERANCES = tuple(float(f"{10.0 ** (-k / 3):.1g}") for k in range(25))
STRENGTHS = {"a9a": (10.0, 1.0), "tf-idf": (1.0, 0.1), "counts": (10.0, 1.0)}
PEERS = ("liblinear", "saga", "skglm", "celer")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(STRENGTHS), default=list(STRENGTHS))
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of all fits of a peer (default 10)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    head = ("loss", "rho", "strength", "gap", "certified, s", "value, s", "passes", "not 0",
            *(f"{peer}, s" for peer in PEERS), "fastest peer / certified")
    page = Page("sparse_penalties.md", HEAD.format(limit=arguments.limit), STRENGTHS)
    for name in arguments.only:
        X, y = binary(name)
        lines = []
        for loss in ("log-loss", "squared hinge"):
            for rho in (1.0, 0.5):
                for strength in STRENGTHS[name]:
                    for line in rows(X, y, loss, rho, strength, arguments.limit):
                        lines.append(line)
                        print(name, *line, sep=" | ", flush=True)
        page.replace(name, f"pybundle {version()}; {X.shape[0]} x {X.shape[1]}.\n\n{table(head, lines)}")


def binary(name):
    """X (CSR, float64) and labels -1, +1."""
    if name == "a9a":
        X, y = load_svmlight_file(str(data_file("libsvm", "a9a.svm.gz")), n_features=123)
        return sp.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), X.shape), y
    with np.load(data_file("news20", "news20.npz"), allow_pickle=False) as file:
        parts = (file["counts_train"].astype(np.float64), file["indices_train"].astype(np.int32),
                 file["indptr_train"].astype(np.int32))
        X = sp.csr_matrix(parts, shape=(len(file["y_train"]), int(file["n_features"])))
        y = np.where(file["y_train"] < 10, 1, -1)
    if name == "counts":
        return X, y
    X.data = np.log1p(X.data) * np.log(X.shape[0] / (1.0 + np.bincount(X.indices, minlength=X.shape[1])))[X.indices]
    X.data /= np.sqrt(X.multiply(X).sum(axis=1)).A1[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))]
    return X, y


def rows(X, y, loss, rho, strength, limit):
    """A row for each gap."""
    def objective(w):
        margins = y * (X @ w)
        each = np.logaddexp(0.0, -margins) if loss == "log-loss" else 0.5 * np.maximum(0.0, 1.0 - margins) ** 2
        return strength * (rho * np.abs(w).sum() + (1.0 - rho) / 2.0 * w @ w) + each.sum()

    def ours(_turn, tol, **options):
        risk = (pb.risks.Logistic if loss == "log-loss" else pb.risks.SquaredHinge)(X, y)
        return pb.minimize(risk, penalty=Separable(l2=strength * (1.0 - rho), l1=strength * rho), tol=tol,
                           time_limit=limit, **options)

    bound = ours(0, 0.1 * GAPS[-1]).lower_bound
    found = {peer: list(ladder(make, data, y, objective, bound, limit))
             for peer, (make, data) in peers(X, loss, rho, strength).items()}
    for goal in GAPS:
        start, values = time.process_time(), []
        result = ours(0, goal, callback=lambda progress, values=values: values.append((progress.fun,
                                                                                       time.process_time())))
        near = {peer: next((fit for fit in fits if fit[1] <= goal), None) for peer, fits in found.items()}
        reached = {peer: fit for peer, fit in near.items() if fit is not None}
        fastest = min(reached, key=lambda peer: reached[peer][2], default=None)
        theirs = [] if fastest is None else [reached[fastest][0]]
        times = in_turns(lambda _turn, goal=goal: ours(_turn, goal), *theirs)
        cells = []
        for peer in PEERS:
            cells.append("-" if peer not in found else f"only {min(gap for _, gap, _ in found[peer]):.0e}")
            if peer in reached:
                cells[-1] = f"{np.median(times[:, 1]) if peer == fastest else reached[peer][2]:.3g}"
        value = next((spent - start for value, spent in values if value <= bound * (1.0 + goal)), np.inf)
        mine = f"{np.median(times[:, 0]):.3g}" + ("" if result.success else f" (gap {result.gap:.0e})")
        yield (loss, f"{rho:g}", f"{strength:g}", f"{goal:g}", mine, f"{value:.3g}", f"{result.n_passes:.0f}",
               f"{np.count_nonzero(result.x)}", *cells,
               "" if fastest is None else f"{np.median(times[:, 1] / times[:, 0]):.2f} ({fastest})")


def peers(X, loss, rho, strength):
    """By name estimators, made from a tolerance, and the rows that they want."""
    found, columns = {}, X.tocsc()
    if loss == "log-loss":
        if rho == 1.0:
            found["liblinear"] = lambda tol: LogisticRegression(
                penalty="l1", C=1.0 / strength, solver="liblinear", fit_intercept=False, tol=tol, max_iter=10000), X
            if Celer is not None:
                found["celer"] = lambda tol: Celer(C=1.0 / strength, tol=tol), columns
        found["saga"] = lambda tol: LogisticRegression(
            penalty="elasticnet", l1_ratio=rho, C=1.0 / strength, solver="saga", fit_intercept=False, tol=tol,
            max_iter=2000), X
        if ProxNewton is not None:
            n = X.shape[0]
            penalty = L1(strength / n) if rho == 1.0 else L1_plus_L2(strength / n, rho)
            found["skglm"] = lambda tol: GeneralizedLinearEstimator(
                Logistic(), penalty, ProxNewton(tol=tol * 0.01, fit_intercept=False, max_iter=50)), columns
    elif rho == 1.0:        # liblinear's squared hinge has no factor 1/2
        found["liblinear"] = lambda tol: LinearSVC(
            penalty="l1", loss="squared_hinge", dual=False, C=0.5 / strength, fit_intercept=False, tol=tol,
            max_iter=10000), X
    return found


def ladder(make, X, y, objective, bound, limit):
    """(fit, true gap, seconds) at falling tolerances, until the last of GAPS is reached."""
    few = np.r_[np.flatnonzero(y < 0)[:100], np.flatnonzero(y > 0)[:100]]
    make(1.0).fit(X[few], y[few])               # compiles what is compiled at the first call
    spent = 0.0
    for tol in TOLERANCES:
        def fit(_turn, tol=tol):
            return make(tol).fit(X, y)

        start = time.process_time()
        model = fit(0)
        seconds = time.process_time() - start
        gap, spent = objective(model.coef_.ravel()) / bound - 1.0, spent + seconds
        yield fit, gap, seconds
        if gap <= GAPS[-1] or spent > limit:
            break


HEAD = """# l1 norms and elastic nets, binary classification

`asv_benchmarks/reproduce/sparse_penalties.py`: processor time of one thread to equal true gaps. Ours include the risk,
its checks and the certificate; "value" is the time at which our best value is that close. A peer's seconds are those at
the first of its tolerances, three a decade, that reaches the gap; "only" tells what it reached in fits of {limit:g} s
together. The penalty is strength (rho |w|_1 + (1 - rho)/2 |w|^2); "not 0" counts weights. Ours and the fastest peer run
in turns: medians, and the median of the quotients: **below 1 the peer is faster**. liblinear and saga are those of
scikit-learn, "tf-idf" and "counts" are 20 newsgroups.
"""

if __name__ == "__main__":
    main()
