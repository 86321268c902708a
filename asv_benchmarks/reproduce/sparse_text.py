"""Sparse text: hinge and log-losses against LinearSVC, SGDClassifier and LogisticRegression, at gaps and at defaults.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/sparse_text.py [--only news20 sentences docstrings]

"news20" is 20 newsgroups (long messages, 20 classes), "sentences" are those of the English Web Treebank, their five
genres being the classes, "docstrings" are those of the public callables of the installed SciPy, its subpackages being
the classes. The two classes of a set are the first half of its classes against the rest. Hinges have no intercept; the
log-losses have a free one, the default of both packages, or none, as liblinear needs it. A peer has no certificate: it
runs at the loosest of its tolerances, three a decade (SGDClassifier: the fewest of its epochs), at which two of three
seeds reach an objective within the gap of our lower bound; it is not asked for more once three fits take ten seconds.
Where we miss the gap within LIMIT seconds, the least objective of a peer replaces our bound. Processor time of one
thread, also for LIMIT, all in turns: five at least, one if a call takes three seconds. Writes results/sparse_text.md;
`--only` replaces single sets of that page.
"""

import argparse
import functools
import gzip
import importlib
import inspect
import re
import time
import warnings
from typing import NamedTuple

from common import Page, data_file, in_turns, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
import scipy.sparse as sp
import sklearn
from scipy.special import logsumexp
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import LinearSVC

import pybundle as pb

FORMS = ("tf-idf", "counts")
LAMS, GAPS = (10.0, 1.0, 0.1), (1e-2, 1e-3)
TOLERANCES = tuple(float(f"{10.0 ** (-k / 3):.1g}") for k in range(13))
EPOCHS = (1, 2, 5, 10, 20, 50, 100, 200)
SEEDS = 3
LIMIT, TOO_SLOW = 20.0, 10.0
LARGE = 10**6       # entries of X from which counts are left out: minutes a row; sparse_hinge.md has them for the hinge
SUBPACKAGES = ("cluster", "fft", "integrate", "interpolate", "io", "linalg", "ndimage", "optimize", "signal", "sparse",
               "spatial", "special", "stats")


class Split(NamedTuple):
    """Rows in CSR and classes 0 .. K - 1, for training and held out."""

    X: sp.csr_matrix
    y: np.ndarray
    X_test: sp.csr_matrix
    y_test: np.ndarray


class Peer(NamedTuple):
    """`fit(X, y, lam, effort, seed)` at rising efforts, `efforts`."""

    name: str
    efforts: tuple
    fit: object


class Loss(NamedTuple):
    """`ours(X, y, lam, tol)` is (value, lower bound, passes); `objective(model, X, y, lam)` is that of a peer's fit."""

    title: str
    two: bool
    forms: tuple
    ours: object
    objective: object
    peers: tuple


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SETS), default=list(SETS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    page = Page("sparse_text.md", HEAD.format(sklearn=sklearn.__version__, limit=LIMIT, slow=TOO_SLOW), SETS)
    for name in arguments.only:
        page.replace(name, section(SETS[name]()))


def section(counts):
    idf = TfidfTransformer(sublinear_tf=True).fit(counts.X)
    weighted = counts._replace(X=csr(idf.transform(counts.X)), X_test=csr(idf.transform(counts.X_test)))
    forms = dict(zip(FORMS, (weighted, counts), strict=True) if counts.X.nnz < LARGE else [(FORMS[0], weighted)])
    n_classes = int(counts.y.max()) + 1
    lines = [f"pybundle {version()}; {counts.X.shape[0]} x {counts.X.shape[1]}, {n_classes} classes, "
             f"{counts.X.nnz / counts.X.shape[0]:.0f} words a row."]
    for loss in LOSSES:
        rows = [row for form, split in forms.items() if form in loss.forms for lam in LAMS
                for row in compare(loss, form, split, lam)]
        peers = [cell for peer in loss.peers for cell in (f"{peer.name}, s", f"{peer.name} / pybundle")]
        lines += [f"### {loss.title}", table(("rows", "lam", "gap", "pybundle, s", "passes", *peers), rows)]
    rows = [row for form, split in forms.items() for row in defaults(form, split)]
    lines += ["### Defaults", table(("rows", "classes", "estimator", "s", "held out, % right"), rows)]
    return "\n\n".join(lines)


def compare(loss, form, split, lam):
    """A row for each gap."""
    X, y = split.X, two(split.y) if loss.two else split.y
    for gap in GAPS:
        start = time.process_time()
        value, bound, passes = loss.ours(X, y, lam, gap)
        seconds = time.process_time() - start
        reached = value - bound <= gap * value
        if not reached:
            bound = min(loss.objective(peer.fit(X, y, lam, peer.efforts[-1], 0), X, y, lam) for peer in loss.peers)
        calls, notes = [], []
        for peer in loss.peers:
            for effort in peer.efforts:
                start = time.process_time()
                funs = [loss.objective(peer.fit(X, y, lam, effort, seed), X, y, lam) for seed in range(SEEDS)]
                enough = np.median(funs) - bound <= gap * np.median(funs)
                if enough or time.process_time() - start > TOO_SLOW:
                    break
            calls.append(lambda turn, fit=peer.fit, effort=effort: fit(X, y, lam, effort, turn % SEEDS))
            notes.append("" if enough else "> ")
        times = in_turns(*calls, *[lambda _turn, gap=gap: loss.ours(X, y, lam, gap)] * reached)
        ours = times[:, -1] if reached else np.full(len(times), seconds)
        row = [form, f"{lam:g}", f"{gap:g}", ("" if reached else "> ") + f"{np.median(ours):.3g}", f"{passes:.0f}"]
        for k, note in enumerate(notes):
            mark = note or ("" if reached else "< ")
            ratio = "-" if note and not reached else f"{mark}{np.median(times[:, k] / ours):.2g}"
            row += [f"{note}{np.median(times[:, k]):.3g}", ratio]
        print(loss.title, *row, sep=" | ", flush=True)
        yield row


def defaults(form, split):
    """What a user gets who changes nothing: estimators with their defaults, but for the limit on time."""
    for classes in (2, int(split.y.max()) + 1):
        y, y_test = (two(split.y), two(split.y_test)) if classes == 2 else (split.y, split.y_test)
        makers = {"MulticlassSVM()": lambda: pb.MulticlassSVM(callback=limit()), "LinearSVC()": LinearSVC,
                  "MulticlassLogistic()": lambda: pb.MulticlassLogistic(callback=limit()),
                  "LogisticRegression()": LogisticRegression}
        models = {}

        def fit(_turn, name, make, y=y, models=models):
            models[name] = make().fit(split.X, y)

        times = in_turns(*(functools.partial(fit, name=name, make=make) for name, make in makers.items()))
        for k, (name, model) in enumerate(models.items()):
            late = getattr(model, "gap_", 0.0) > 1e-3
            row = (form, classes, name, ("> " if late else "") + f"{np.median(times[:, k]):.3g}",
                   f"{100 * model.score(split.X_test, y_test):.1f}" + (f" (gap {model.gap_:.1g})" if late else ""))
            print(*row, sep=" | ", flush=True)
            yield row


# ---------------------------------------------------------------------- losses


def limit():
    """A callback that ends a run after LIMIT seconds of the processor, however busy it is with others."""
    end = time.process_time() + LIMIT
    return lambda _progress: time.process_time() > end


def minimised(risk, lam, tol):
    result = pb.minimize(risk, lam=lam, tol=tol, callback=limit())
    return result.fun, result.lower_bound, result.n_passes


def fitted(X, y, lam, tol):
    model = pb.MulticlassLogistic(C=1.0 / lam, tol=tol, callback=limit()).fit(X, y)
    return model.objective_, model.lower_bound_, model.n_passes_


def objective(loss, model, X, y, lam):
    """Of a peer's fit; losses of rows from scores (n,) or (n, K)."""
    scores = model.decision_function(X)
    return 0.5 * lam * float(np.sum(model.coef_**2)) + float(loss(scores, y).sum())


def margins(scores, y):
    return np.where(y == 1, scores, -scores)


def binary_hinge(scores, y):
    return np.maximum(0.0, 1.0 - margins(scores, y))


def class_hinge(scores, y):
    rows = np.arange(len(y))
    costly = scores + 1.0
    costly[rows, y] -= 1.0
    return costly.max(axis=1) - scores[rows, y]


def log_loss(scores, y):
    if scores.ndim == 1:
        return np.logaddexp(0.0, -margins(scores, y))
    return logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]


def svc(X, y, lam, tol, seed, **options):
    return LinearSVC(C=1.0 / lam, fit_intercept=False, tol=tol, max_iter=20_000, random_state=seed, **options).fit(X, y)


def sgd(X, y, lam, epochs, seed):
    model = SGDClassifier(alpha=lam / len(y), fit_intercept=False, max_iter=epochs, tol=None, random_state=seed)
    return model.fit(X, y)


def logistic(X, y, lam, tol, seed, **options):
    return LogisticRegression(C=1.0 / lam, tol=tol, max_iter=10_000, random_state=seed, **options).fit(X, y)


HINGE, CLASSES, LOG = (functools.partial(objective, loss) for loss in (binary_hinge, class_hinge, log_loss))
LOSSES = (
    Loss("Hinge, two classes", True, FORMS,
         lambda X, y, lam, tol: minimised(pb.risks.BinaryHinge(X, y), lam, tol), HINGE,
         (Peer("LinearSVC", TOLERANCES, functools.partial(svc, loss="hinge")), Peer("SGD", EPOCHS, sgd))),
    Loss("Hinge of Crammer and Singer, all classes", False, FORMS,
         lambda X, y, lam, tol: minimised(pb.risks.MulticlassHinge(X, y), lam, tol), CLASSES,
         (Peer("LinearSVC", TOLERANCES, functools.partial(svc, multi_class="crammer_singer")),)),
    Loss("Log-loss, two classes, no intercept", True, FORMS,
         lambda X, y, lam, tol: minimised(pb.risks.Logistic(X, y), lam, tol), LOG,
         (Peer("liblinear", TOLERANCES, functools.partial(logistic, fit_intercept=False, solver="liblinear")),
               Peer("lbfgs", TOLERANCES, functools.partial(logistic, fit_intercept=False)))),
    Loss("Log-loss, two classes, free intercept", True, FORMS, fitted, LOG, (Peer("lbfgs", TOLERANCES, logistic),)),
    Loss("Log-loss, all classes, free intercepts", False, FORMS[:1], fitted, LOG,
         (Peer("lbfgs", TOLERANCES, logistic),)),
)


# ---------------------------------------------------------------------- sets


def news20():
    def part(suffix):
        indptr = file["indptr_" + suffix].astype(np.int32)
        return sp.csr_matrix((file["counts_" + suffix].astype(np.float64), file["indices_" + suffix].astype(np.int32),
                              indptr), shape=(len(indptr) - 1, int(file["n_features"])))

    with np.load(data_file("news20", "news20.npz"), allow_pickle=False) as file:
        return Split(part("train"), file["y_train"].astype(int), part("test"), file["y_test"].astype(int))


def sentences():
    def read(part):
        with gzip.open(data_file("ud_english_ewt", f"en_ewt-ud-{part}.conllu.gz"), "rt", encoding="utf-8") as file:
            text = file.read()
        return (re.findall(r"^# text = (.*)$", text, re.M), re.findall(r"^# sent_id = ([a-z]+)", text, re.M))

    return counted(*read("train"), *read("test"))


def docstrings():
    """Every callable once, in the first subpackage that has it; each third one is held out."""
    texts, names, seen = [], [], set()
    for name in SUBPACKAGES:
        module = importlib.import_module(f"scipy.{name}")
        for public in sorted(module.__all__):
            value = getattr(module, public)
            text = inspect.getdoc(value)
            if callable(value) and text and text not in seen:
                seen.add(text)
                texts.append(text)
                names.append(name)
    held = np.arange(len(texts)) % 3 == 2
    chosen = [[list(np.compress(mask, column)) for column in (texts, names)] for mask in (~held, held)]
    return counted(*chosen[0], *chosen[1])


def counted(texts, names, texts_test, names_test):
    words = CountVectorizer(token_pattern=r"[a-z][a-z0-9']+", dtype=np.float64)
    classes = np.unique(names)
    return Split(csr(words.fit_transform(texts)), np.searchsorted(classes, names), csr(words.transform(texts_test)),
                 np.searchsorted(classes, names_test))


def csr(X):
    return sp.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), X.shape)


def two(y):
    """0 for the first half of the classes, 1 for the rest."""
    return (y >= (y.max() + 1) // 2).astype(int)


SETS = {"news20": news20, "sentences": sentences, "docstrings": docstrings}
HEAD = """# Sparse text

`asv_benchmarks/reproduce/sparse_text.py`, processor time of one thread, scikit-learn {sklearn}. Our seconds include the
risk or the estimator, its checks and the certificate. A peer's are those at the loosest tolerance, or at the fewest
epochs (SGD: SGDClassifier), at which two of three seeds reach an objective within the same gap of our lower bound; ">"
marks what did not reach it. Ratios are medians over turns: **below 1 the peer is faster**. Where we miss the gap
within {limit:.0f} s, the least objective of the peer stands for our bound, and "<" marks the ratio. A peer gets no more
time once three fits take {slow:.0f} s. Two classes are the first half of the classes against the rest. Other programs
on the machine make seconds longer, and move ratios, too.
"""

if __name__ == "__main__":
    main()
