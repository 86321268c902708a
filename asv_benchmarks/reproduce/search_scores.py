"""Searches over C: what the gap of their solves does to the scores, and what they lose against trying every C.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/search_scores.py

5 folds, one thread, processor time. The tables with a rare class come from scikit-learn, thinned or generated; MNIST
and news20 from PYBUNDLE_DATA. Writes results/search_scores.md.
"""

import time
import warnings
from contextlib import contextmanager
from functools import partial
from unittest import mock

from common import RESULTS, data_file, in_turns, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.metrics import f1_score
from sklearn.preprocessing import StandardScaler

import pybundle as pb
from pybundle.estimators.cv import has_fallen

GRID = np.logspace(-4.0, 1.0, 6)
GAPS = (0.1, 1e-2, 1e-3, None)
EXACT = 1e-5
HEAD = ("data (examples)", "gap", "chosen C", "mean scores differ by at most, points", "examples of a fold, by C",
        "s", "times 0.1")
TEXT = """\
# Scores of a search over C

Written by `asv_benchmarks/reproduce/search_scores.py` with pybundle {version}, scikit-learn {sklearn}; one thread,
processor time.

`MulticlassSVMCV`, C = 1e-4 to 10 in steps of 10, 5 folds: differences from the scores at a gap of {exact:g}, in
examples the largest over folds for each C. By default a solve ends where the gap is 0.0007 of the smaller one of F(w)
and F(0) - F(w), or 1e-5 of F(w). These searches have no end.

{rows}

## Rare classes: the search against every C

Tables and sequences with a class of 1 to 5 %. Scores over C often have two humps there: a tiny C finds the rare class
by accident, a middle C predicts the others, a larger C learns it. Dip: values of C in a row whose mean score is a point
or more below the best one before them, and below the best one after them. Lost: points of the mean score of the chosen
C below the best of all C, by the scores of the same search without an end; at `search_tol=1e-5`, by default (an example
of a rare class that lies on a border may be several points), and of a search that ends at the first fall. Status:
**s**olved, **p**robed, **n**ot tried. Seconds: the default search, and the one without an end.

{dips}

The largest losses, in points: {worst}.

## One hump: what the search costs

The default grid of 8 values, 3 folds; beside it a search of the values of C up to the first fall that scores no
training examples and goes no further; one pair of turns, since each takes seconds.

{humps}
"""
DIPS = ("data (examples, of the rare class)", "scoring", "values of C", "dip", "status", "lost, 1e-5", "lost, default",
        "lost, first fall", "s", "every C, s")
HUMPS = ("data (examples)", "scoring", "chosen C", "status", "s", "first fall, s", "times")


def problems():
    """(name, X, y)"""
    X, y, *_ = pb.datasets.load_digits()
    yield "digits", X, y
    for name, load in (("breast cancer", load_breast_cancer), ("wine", load_wine)):
        X, y = load(return_X_y=True)
        yield name, StandardScaler().fit_transform(X), y
    yield "made, 5 % in the rare class", *make_classification(1000, 20, n_informative=5, weights=[0.95],
                                                              random_state=0)
    yield "made, 6 classes", *make_classification(1500, 20, n_informative=10, n_classes=6, class_sep=1.5,
                                                  random_state=0)


def search(X, y, gap):
    """The fitted search, and its seconds."""
    seconds = []
    for _ in range(2):
        started = time.process_time()
        with without_end():
            svm = pb.MulticlassSVMCV(GRID, cv=5, search_tol=gap).fit(X, y)
        seconds.append(time.process_time() - started)
    return svm, min(seconds)


def thin(X, y, rare, share):
    """The examples with `rare` cut down to that share, in their order."""
    others = np.count_nonzero(y != rare)
    kept = np.random.default_rng(0).permutation(np.flatnonzero(y == rare))[:round(share * others / (1.0 - share))]
    rows = np.sort(np.concatenate([np.flatnonzero(y != rare), kept]))
    return X[rows], y[rows]


def sequences(seed, share, scale):
    """100 sequences of two labels, one of them rare."""
    rng = np.random.default_rng(seed)
    mean = rng.standard_normal(10)
    mean *= 2.5 / np.linalg.norm(mean)
    Y = [(rng.random(rng.integers(5, 12)) < share).astype(int) for _ in range(100)]
    return [scale * (y[:, None] * mean + rng.standard_normal((len(y), 10))) for y in Y], Y


def f1_of_tokens(estimator, X, Y):
    return f1_score(np.hstack(Y), np.hstack(estimator.predict(X)), average="macro")


def log_likelihood(estimator, X, Y):
    return float(np.mean(estimator.log_likelihood(X, Y)))


def rare_tables():
    """(name, X, y, estimator, scorings, number of C)"""
    flat = pb.MulticlassSVMCV, ("f1_macro", "balanced_accuracy", "roc_auc")
    for seed, share, n in ((2, 0.01, 8), (5, 0.01, 8), (5, 0.02, 15), (8, 0.02, 8), (11, 0.02, 8), (11, 0.05, 15),
                           (17, 0.01, 22)):
        yield (f"made, {100 * share:g} %, seed {seed}", *make_classification(
            1000, 20, n_informative=6, weights=[1.0 - share], flip_y=0.0, random_state=seed), *flat, n)
    for seed in (13, 14):
        yield (f"made, 3 classes, 1 %, seed {seed}", *make_classification(
            1000, 20, n_informative=6, n_classes=3, n_clusters_per_class=1, weights=[0.6, 0.39], flip_y=0.0,
            class_sep=1.3, random_state=seed), flat[0], ("f1_macro", "accuracy"), 15)
    for name, load, rare, share, n in (
            ("digits", load_digits, 0, 0.02, 8), ("digits", load_digits, 8, 0.04, 15),
            ("breast cancer", load_breast_cancer, 0, 0.02, 15), ("breast cancer", load_breast_cancer, 0, 0.04, 15),
            ("wine", load_wine, 0, 0.04, 15)):
        X, y = load(return_X_y=True)
        X, y = thin(StandardScaler().fit_transform(X), y, rare, share)
        yield f"{name}, class {rare} against all, {100 * share:g} %", X, (y == rare).astype(int), *flat, n
        if len(np.unique(y)) > 2 and name == "digits":
            yield f"{name}, class {rare} thinned to {100 * share:g} %", X, y, flat[0], ("f1_macro", "accuracy"), 8
    for seed, share, scale in ((0, 0.04, 3.0), (0, 0.04, 10.0), (1, 0.05, 3.0), (2, 0.03, 10.0)):
        data = sequences(seed, share, scale)
        yield f"sequences, {100 * share:g} %, seed {seed}, times {scale:g}", *data, pb.ChainSVMCV, (f1_of_tokens,), 9
        yield (f"sequences, {100 * share:g} %, seed {seed}, times {scale:g}", *data, pb.ChainCRFCV,
               (f1_of_tokens, log_likelihood), 9)


@contextmanager
def without_end():
    """Searches solve the whole grid."""
    with mock.patch("pybundle.estimators.cv.has_fallen", lambda scores: False), \
            mock.patch("pybundle.estimators.fold.Fold.has_learnt_all", lambda fold, k: False):
        yield


def dip(means):
    """Length of the longest dip."""
    low = [int(0.01 <= min(means[:k].max(), means[k + 1:].max()) - means[k]) for k in range(1, len(means) - 1)]
    return max(map(len, "".join(" x"[is_low] for is_low in low).split()), default=0)


def against_every_C(name, X, y, kind, scoring, n):
    grid = np.logspace(-5.0, 2.0, n)
    lost = []
    for gap in (EXACT, None):
        options = {"cv": 5, "scoring": scoring, "tol": 0.1, "search_tol": gap}
        started = time.process_time()
        with without_end():
            scores = kind(grid, **options).fit(X, y).scores_
        middle = time.process_time()
        search = kind(grid, **options).fit(X, y)
        seconds, means = (time.process_time() - middle, middle - started), scores.mean(axis=0)
        lost.append(100.0 * (means.max() - means[search.best_index_]))
        if gap is not None:
            length = dip(means)
    fall = next((k for k in range(1, n) if has_fallen(scores[:, :k])), n)
    lost.append(100.0 * (means.max() - means[:fall].max()))
    labels = np.hstack(y)
    cells = (f"{name} ({len(y)}, {np.bincount(labels).min()})", getattr(scoring, "__name__", scoring), n, length,
             "".join(status[0] for status in search.status_), *(f"{points:.1f}" for points in lost),
             *(f"{s:.2f}" for s in seconds))
    return (cells[0] + (", CRF" if kind is pb.ChainCRFCV else ""), *cells[1:]), lost


def hump_tables():
    with np.load(data_file("mnist", "mnist.npz"), allow_pickle=False) as file:
        yield "MNIST", (file["X_train"][:10_000] / 255.0).astype(np.float32), file["y_train"][:10_000].astype(int)
    with np.load(data_file("news20", "news20.npz"), allow_pickle=False) as file:
        X = sp.csr_array((np.log1p(file["counts_train"]).astype(float), file["indices_train"], file["indptr_train"]),
                         shape=(len(file["y_train"]), int(file["n_features"])))[::2]
        X = sp.csr_array(X.multiply(1.0 / np.sqrt(X.multiply(X).sum(axis=1))[:, None]))
        yield "half of news20", X, file["y_train"][::2].astype(int)


def one_hump(name, X, y, scoring):
    search = pb.MulticlassSVMCV(cv=3, scoring=scoring, tol=1e-2).fit(X, y)
    n = next((k for k in range(1, 8) if has_fallen(search.scores_[:, :k])), 8)
    lean = partial(pb.MulticlassSVMCV(search.Cs_[:n], cv=3, scoring=scoring, tol=1e-2).fit, X, y)

    def without(turn):
        with without_end():
            lean()

    ours, theirs = np.median(in_turns(lambda turn: search.fit(X, y), without), axis=0)
    return (f"{name} ({len(y)})", scoring, f"{search.C_:.3g}", "".join(status[0] for status in search.status_),
            f"{ours:.1f}", f"{theirs:.1f}", f"{ours / theirs:.2f}")


def main():
    warnings.simplefilter("ignore", UserWarning)        # the largest C may win
    dips, lost = [], []
    for *data, kind, scorings, n in rare_tables():
        for scoring in scorings:
            row, points = against_every_C(*data, kind, scoring, n)
            dips.append(row)
            lost.append(points)
            print(*row, sep=" | ", flush=True)
    worst = ", ".join(f"{points:.1f} ({name})" for points, name in zip(
        np.max(lost, axis=0), ("search_tol=1e-5", "the default", "ending at the first fall"), strict=True))
    rows = gaps()
    humps = [one_hump(*data, scoring) for data in hump_tables() for scoring in ("accuracy", "f1_macro")]
    print(table(HUMPS, humps), flush=True)
    text = TEXT.format(version=version(), sklearn=sklearn.__version__, exact=EXACT, rows=table(HEAD, rows),
                       dips=table(DIPS, dips), worst=worst, humps=table(HUMPS, humps))
    (RESULTS / "search_scores.md").write_text(text, encoding="utf-8")


def gaps():
    """Rows of the first table."""
    rows = []
    for name, X, y in problems():
        exact, _ = search(X, y, EXACT)
        rows.append((f"{name} ({len(y)})", f"{EXACT:g}", f"{exact.C_:g}", "", "", "", ""))
        rough = None
        for gap in GAPS:
            svm, seconds = search(X, y, gap)
            rough = rough or seconds
            apart = np.abs(svm.scores_ - exact.scores_).max(axis=0) * len(y) / 5
            points = 100.0 * np.abs(svm.scores_.mean(axis=0) - exact.scores_.mean(axis=0)).max()
            rows.append((f"{name} ({len(y)})", "the default" if gap is None else f"{gap:g}", f"{svm.C_:g}",
                         f"{points:.2f}", " ".join(f"{count:.0f}" for count in apart), f"{seconds:.2f}",
                         f"{seconds / rough:.1f}"))
            print(*rows[-1], sep=" | ", flush=True)
    return rows


if __name__ == "__main__":
    main()
