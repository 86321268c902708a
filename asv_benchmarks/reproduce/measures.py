"""Measures of whole samples: passes on w8a, and quality beside hinges and logistic regressions that were tuned.

    PYBUNDLE_DATA=... python asv_benchmarks/reproduce/measures.py [--splits 8] [--only passes|planes|quality]

Passes: random splits of w8a, 30000 rows as they are (F1 with a constant column of ones). Quality: the same splits, the
other rows to test, and the ten digits of MNIST against the rest (9000 and 10000 rows). Each model is fitted on two
thirds of the rows for each lam, to a gap of 1e-2 or 1000 iterations; the last third chooses lam, the model among
several, and thresholds for F1. "Usual" are hinge and logistic loss, plain and balanced; "weighted" are also both with
the weights of negative rows times 2 and 4. Writes asv_benchmarks/results/measures.md.
"""

import argparse
import time
import warnings
from collections import defaultdict

from common import Page, data_file, in_turns, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import precision_recall_curve, roc_auc_score

import pybundle as pb

LAMS = {"w8a": 10.0 ** np.arange(-7, -2), "MNIST": 10.0 ** np.arange(-5, -1)}
WEIGHTS = {"plain": None, "balanced": "balanced", "x 2": {False: 2.0}, "x 4": {False: 4.0}}


def risks(X, y):
    k = int(y.sum()) // 2
    return {"ROC": pb.risks.ROCArea(X, y), "F1": pb.risks.FScore(X, y, bias=1.0),
            "precision at n+/2": pb.risks.PrecisionAtK(X, y, k)}


def passes(n_splits):
    """Rows: measure, lam / n, passes to a certified gap of 1e-3, those of BMRM on the first split, seconds."""
    found = defaultdict(list)
    for number, (X, y, n) in enumerate(splits("w8a", n_splits)):
        for name, risk in risks(X[:n], y[:n]).items():
            for lam in (1e-3, 1e-5):
                options = {"lam": lam * n, "tol": 1e-3}
                if number == 0:
                    found[name, lam].append(pb.minimize(risk, method="bmrm", **options).n_passes)
                began = time.process_time()
                result = pb.minimize(risk, **options)
                assert result.certified and result.success
                found[name, lam].append((result.n_passes, time.process_time() - began))
    for (name, lam), (bmrm, *ours) in found.items():
        counts, seconds = np.array(ours).T
        yield (name, f"{lam:g}", f"{np.median(counts):.0f} ({counts.min():.0f} to {counts.max():.0f})",
               f"{bmrm:.0f}", f"{np.median(seconds):.2f}")


def oracles(n=1_000_000):
    """Rows: measure, time of a plane from 10^6 scores in one column, and of an argsort."""
    rng = np.random.default_rng(0)
    scores, y = rng.standard_normal(n), rng.integers(0, 2, n)
    for name, risk in risks(scores[:, None], y).items():
        unit = risk._units[0]
        rows = in_turns(lambda _, risk=risk, unit=unit: risk._plane(unit, scores), lambda _: np.argsort(scores))
        yield name, *(f"{1e3 * seconds:.0f}" for seconds in np.median(rows, axis=0))


def splits(data, n_splits):
    if data == "w8a":
        X, y = load_svmlight_file(str(data_file("libsvm", "w8a.svm.gz")), n_features=300)
        for seed in range(n_splits):
            order = np.random.default_rng(seed).permutation(len(y))
            yield X[order], y[order] > 0, 30_000
    else:
        mnist = np.load(data_file("mnist", "mnist.npz"))
        rows = np.random.default_rng(0).permutation(60_000)[:9000]
        X = np.vstack([mnist["X_train"][rows], mnist["X_test"]]).astype(np.float32) / 255.0
        y = np.concatenate([mnist["y_train"][rows], mnist["y_test"]])
        for digit in range(min(10, n_splits + 2)):
            yield X, y == digit, len(rows)


def scores(data, X, y, n):
    """Scores of all rows by model and lam; a model is (loss or metric, weight of negative rows)."""
    kept = slice(0, 2 * n // 3)
    for lam in LAMS[data]:
        options = {"C": 1.0 / (lam * len(y[kept])), "tol": 1e-2, "max_iter": 1000}
        models = {(loss, weight): kind(class_weight=factors, **options) for weight, factors in WEIGHTS.items()
                  for loss, kind in (("hinge", pb.MulticlassSVM), ("logistic", pb.MulticlassLogistic))}
        models |= {("roc_auc", ""): pb.MetricSVM(metric="roc_auc", **options),
                   ("f1", ""): pb.MetricSVM(metric="f1", **options),
                   ("precision", ""): pb.MetricSVM(metric="precision_at_k", k=int(y[kept].sum()) // 2, **options)}
        for name, model in models.items():
            yield name, model.fit(X[kept], y[kept]).decision_function(X)


def precision(y, s):
    k = int(y.sum()) // 2
    return y[np.argsort(-s, kind="stable")[:k]].mean()


def f1(y, s, threshold=0.0):
    found = s > threshold
    return 2.0 * np.count_nonzero(found & y) / (y.sum() + found.sum())


def best_threshold(y, s):
    p, r, thresholds = precision_recall_curve(y, s)
    return np.nextafter(thresholds[np.argmax((2.0 * p * r / np.maximum(p + r, 1e-300))[:-1])], -np.inf)


def quality(data, X, y, n):
    """Scores on the test rows: by measure, those of ours and of the choices of the validation rows."""
    found = list(scores(data, X, y, n))
    held, test = slice(2 * n // 3, n), slice(n, None)
    usual = [(loss, weight) for loss in ("hinge", "logistic") for weight in ("plain", "balanced")]
    weighted = [(loss, weight) for loss in ("hinge", "logistic") for weight in WEIGHTS]

    def chosen(measure, names, is_tuned=False):
        """The measure on the test rows of the model of these names, and the threshold, best on the validation rows."""
        best = (-1.0, None)
        for name, s in found:
            if name in names:
                cut = (best_threshold(y[held], s[held]),) if is_tuned else ()
                best = max(best, (measure(y[held], s[held], *cut), measure(y[test], s[test], *cut)))
        return best[1]

    return {"precision at n+/2": (chosen(precision, [("precision", "")]), chosen(precision, usual),
                                  chosen(precision, weighted)),
            "AUC": (chosen(roc_auc_score, [("roc_auc", "")]), chosen(roc_auc_score, usual),
                    chosen(roc_auc_score, weighted)),
            "F1": (chosen(f1, [("f1", "")]), chosen(f1, [("hinge", "plain")]), chosen(f1, weighted, True),
                   chosen(f1, [("hinge", "balanced"), ("logistic", "balanced")]))}


def differences(data, n_splits):
    """Rows: data, measure, ours, then mean and standard error of ours less the others."""
    columns = {"precision at n+/2": ("usual", "usual and weighted"), "AUC": ("usual", "usual and weighted"),
               "F1": ("hinge at 0", "weighted, tuned threshold", "balanced at 0")}
    rows = []
    for number, split in enumerate(splits(data, n_splits)):
        rows.append(quality(data, *split))
        print(data, number, rows[-1], flush=True)
    for measure, names in columns.items():
        found = np.array([row[measure] for row in rows])
        for number, name in enumerate(names, 1):
            apart = found[:, 0] - found[:, number]
            yield (data, measure, f"{found[:, 0].mean():.3f}", name,
                   f"{apart.mean():+.4f} +- {apart.std(ddof=1) / np.sqrt(len(apart)):.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=8)
    parser.add_argument("--only", choices=("passes", "planes", "quality"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    n_splits = arguments.splits
    titles = {"passes": f"Passes to a certified gap of 1e-3, 30000 rows of w8a, median and range of {n_splits} splits",
              "planes": "A plane from 10^6 scores, half of them positive, without products with X",
              "quality": f"Test scores less those of others, {n_splits} splits of w8a, ten digits of MNIST"}
    page = Page("measures.md", "# Measures of whole samples\n\n`python asv_benchmarks/reproduce/measures.py`, one "
                "thread, processor time.\n", titles.values())
    for name in [arguments.only] if arguments.only else titles:
        if name == "passes":
            text = table(("measure", "lam / n", "passes", "BMRM", "seconds"), passes(n_splits))
        elif name == "planes":
            text = table(("measure", "ms", "argsort, ms"), oracles())
        else:
            text = table(("data", "measure", "ours", "others", "ours less others"),
                         [row for data in LAMS for row in differences(data, n_splits)])
        page.replace(titles[name], f"{text}\n\npybundle {version()}.")


if __name__ == "__main__":
    main()
