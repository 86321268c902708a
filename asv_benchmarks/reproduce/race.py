"""Every method that knows single examples, and peers, on the same objectives, to several certified gaps.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/race.py [--only mnist classes ...] [--time-limit 30]

Multiclass SVMs on MNIST, USPS, 20 newsgroups (CSR) and a made set of 996 classes, chain SVMs on the words of folds 1-9
of the OCR letters (normalised Hamming loss); lam in the sum scale, cold starts, one thread. The clock stops when best
value and best bound of a run are within the gap; passes count visits of examples by the exact oracle. Peers: LinearSVC
(crammer_singer, CSR made beforehand) runs at falling tolerances until its objective is within 1 % of our lower bound,
and its last run is timed; python-crfsuite trains 100 L-BFGS iterations of a CRF on the same words, which is another
objective and has no certificate.

"auto" and "prox-bcfw", which take the same passes until "auto" hands over, run five times in turns: their seconds are
medians. LinearSVC and "auto" with a tolerance of 1e-2, which searches in float32, are timed in turns, too, by processor
time, five times or more, but once if LinearSVC takes three seconds; the median of their quotients is the ratio.

Writes results/race.md and results/race-*.png.
"""

import argparse
import tempfile
import time
import warnings
from pathlib import Path

from common import RESULTS, Page, data_file, in_turns, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
import scipy.sparse as sp

import pybundle as pb
from pybundle.core.ragged import Ragged

GAPS = (1e-2, 1e-3, 1e-6)
METHODS = {
    "auto": {},
    "prox-bcfw": {"method": "prox-bcfw"},
    "alm": {"method": "alm"},
    "oca, P = 16": {"method": "oca", "n_parts": 16},
    "bcfw": {"method": "bcfw"},
    "bcfw, gap sampling, pairwise": {"method": "bcfw gap_sampling=True step=pairwise"},
    "mp-bcfw": {"method": "mp-bcfw"},
    "frank-wolfe": {"method": "frank-wolfe"},
}
RIVALS = ("auto", "prox-bcfw")
TURNS = 5
SETS = {"mnist": (1000.0, 100.0, 10.0, 1.0), "usps": (1.0,), "news20": (10.0, 1.0, 0.1), "classes": (30.0,),
        "ocr": (62.51, 6.251, 1.0)}
LINEAR_SVC_TOLERANCES = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SETS), default=list(SETS), help="the other parts are kept")
    parser.add_argument("--time-limit", type=float, default=30.0, help="seconds of a run (default 30)")
    arguments = parser.parse_args()
    page = Page("race.md", HEAD, SETS)
    for name in arguments.only:
        page.replace(name, part(name, arguments.time_limit).strip())


def part(name, limit):
    risk, peer = {"mnist": mnist, "usps": usps, "news20": news20, "classes": classes, "ocr": ocr}[name]()
    run(risk, SETS[name][0], limit, max_iter=1)         # what a process does once is nobody's time
    rows = []
    for lam in SETS[name]:
        runs = {method: run(risk, lam, limit, **options) for method, options in METHODS.items()}
        histories = {method: [result.history] for method, result in runs.items()}
        for turn in range(1, TURNS):
            for method in RIVALS[::1 - 2 * (turn % 2)]:
                histories[method].append(run(risk, lam, limit, **METHODS[method]).history)
        for method, result in runs.items():
            rows.append((f"{lam:g}", method, *reached(histories[method]), f"{result.gap:.1e}", f"{result.fun:.8g}"))
            print(name, *rows[-1], sep=" | ", flush=True)
        bound = max(result.lower_bound for result in runs.values())
        rows.append((f"{lam:g}", *peer(risk, lam, bound)))
        print(name, *rows[-1], sep=" | ", flush=True)
        plot(runs, f"{name}, lam = {lam:g}", RESULTS / f"race-{name}-{lam:g}.png")
    pictures = "\n".join(f"![lam = {lam:g}](race-{name}-{lam:g}.png)" for lam in SETS[name])
    head = f"{risk.n_examples} examples, dimension {risk.dim}; at most {limit:g} s a run; pybundle {version()}."
    return "\n\n".join((head, table(COLUMNS, rows), pictures))


def run(risk, lam, limit, **options):
    """To the smallest gap, or as far as the time goes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        return pb.minimize(risk, lam=lam, tol=GAPS[-1], time_limit=limit, **{"max_iter": 10**6} | options)


def reached(histories):
    """Median passes and seconds of runs of one method at which each of the gaps was there."""
    cells = []
    for gap in GAPS:
        passes, seconds = np.median([first_at(history, gap) for history in histories], axis=0)
        cells.append(f"{passes:.1f}; {seconds:.2f}" if np.isfinite(seconds) else "-")
    return cells


def first_at(history, gap):
    """Passes and seconds at which a run had this gap, infinite if it never had."""
    at = np.flatnonzero(history["gap"] <= gap)
    return (history["n_passes"][at[0]], history["time"][at[0]]) if len(at) else (np.inf, np.inf)


def mnist():
    with np.load(data_file("mnist", "mnist.npz"), allow_pickle=False) as file:
        X, y = file["X_train"].reshape(60000, -1).astype(np.float32) / np.float32(255.0), file["y_train"]
    return multiclass(X, y)


def usps():
    with np.load(data_file("usps", "usps.npz"), allow_pickle=False) as file:
        X, y = np.ascontiguousarray(file["X_train"] / file["scale"], dtype=np.float32), file["y_train"]
    return multiclass(X, y)


def news20():
    """log(1 + count), rows of norm 1."""
    with np.load(data_file("news20", "news20.npz"), allow_pickle=False) as file:
        X = sp.csr_array((np.log1p(file["counts_train"].astype(np.float64)), file["indices_train"].astype(np.int32),
                          file["indptr_train"].astype(np.int32)), shape=(len(file["y_train"]), int(file["n_features"])))
        y = file["y_train"]
    return multiclass(sp.csr_array(sp.diags_array(1.0 / np.sqrt(X.power(2).sum(axis=1))) @ X), y)


def classes():
    """1000 classes, some of them empty: the best of linear scores plus noise; a tenth of the rows are trained wrong."""
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((20000, 100)), rng.standard_normal((1000, 100))
    best = np.argmax(X @ W.T + 3.0 * rng.standard_normal((20000, 1000)), axis=1)
    return multiclass(X, np.unique(best, return_inverse=True)[1], LINEAR_SVC_TOLERANCES[:1])     # minutes a run


def multiclass(X, y, tolerances=LINEAR_SVC_TOLERANCES):
    risk, csr = pb.risks.MulticlassHinge(X, y.astype(np.int32)), sp.csr_matrix(X.astype(np.float64))

    def linear_svc(risk, lam, bound):
        try:
            from sklearn.svm import LinearSVC
        except ImportError:
            return "LinearSVC (not installed)", *["-"] * 5
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")             # at its limit of iterations
            for tol in tolerances:
                svc = LinearSVC(multi_class="crammer_singer", C=1.0 / lam, fit_intercept=False, tol=tol).fit(csr, y)
                fun = 0.5 * lam * float(np.square(svc.coef_).sum()) + float(risk.values(svc.coef_.ravel())[0].sum())
                if fun <= 1.01 * bound:
                    break
            turns = in_turns(lambda turn: pb.minimize(risk, lam=lam, tol=1e-2), lambda turn: svc.fit(csr, y))
        ours, seconds = np.median(turns, axis=0)
        ratio = float(np.median(turns[:, 1] / turns[:, 0]))
        return (f"LinearSVC, tol = {tol:g}", f"{seconds:.2f} s: {ratio:.2f} x auto, {ours:.3f} s", "-", "-", "none",
                f"{fun:.8g}")

    return risk, linear_svc


def ocr():
    with np.load(data_file("ocr_letters", "ocr_letters.npz"), allow_pickle=False) as file:
        X, offsets, fold = file["X"], file["offsets"].astype(np.int64), file["fold"]
        y = file["y"].astype(np.int32)
    fold = fold if len(fold) == len(offsets) - 1 else fold[offsets[:-1]]
    rows = np.flatnonzero(fold != 0)
    words = Ragged(np.hstack([X, np.ones((len(X), 1), np.uint8)]), offsets).take(rows)
    letters = Ragged(y, offsets).take(rows)
    risk = pb.risks.Structured(pb.models.Chain(26, 129, normalised=True), words, letters)

    def crfsuite(risk, lam, bound):
        try:
            import pycrfsuite
        except ImportError:
            return "python-crfsuite (not installed)", *["-"] * 5
        trainer = pycrfsuite.Trainer(verbose=False)
        for word, labels in zip(words, letters, strict=True):
            trainer.append([[str(k) for k in np.flatnonzero(x)] for x in word], [str(label) for label in labels])
        trainer.set_params({"c1": 0.0, "c2": 1.0, "max_iterations": 100})
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            trainer.train(str(Path(folder) / "model"))
            seconds = time.perf_counter() - began
        return "python-crfsuite, 100 iterations", f"{seconds:.2f} s", "-", "-", "none", "another objective"

    return risk, crfsuite


def plot(runs, title, path):
    """Gap over passes and over seconds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    for axes, over, label in zip(figure.subplots(1, 2, sharey=True), ("n_passes", "time"), ("passes", "seconds"),
                                 strict=True):
        for method, result in runs.items():
            known = np.isfinite(result.history["gap"])
            axes.loglog(result.history[over][known], result.history["gap"][known], label=method)
        axes.set(xlabel=label, ylim=(GAPS[-1], 1.0))
    axes.figure.axes[0].set(ylabel="certified relative gap")
    axes.legend(fontsize=8)
    figure.suptitle(title)
    figure.savefig(path, dpi=110)


COLUMNS = ("lam", "method", *(f"passes; seconds to {gap:g}" for gap in GAPS), "gap at the end", "F at the end")
HEAD = """\
# Race

Every method on the same objectives: passes and seconds of one thread until best value and best bound are within a
relative gap; "-" means not within the time limit. A run goes to 1e-6, so that "auto" works in float64 from the start.
"auto" and "prox-bcfw" ran five times in turns: passes and seconds are medians, gap and F at the end those of the first
run. The others ran once. Seconds are of the wall clock.

LinearSVC has the same objective, whose value at its end is in the last column; python-crfsuite another one. LinearSVC
is timed in turns with "auto" to 1e-2, which works in float32, on a risk built before: medians of the processor time of
both and of their quotients, of five turns or more, but of a single turn where LinearSVC takes three seconds. Written by
`asv_benchmarks/reproduce/race.py`.
"""


if __name__ == "__main__":
    main()
