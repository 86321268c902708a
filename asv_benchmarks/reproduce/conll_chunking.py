"""Text chunking, CoNLL-2000: a chain SVM and python-crfsuite on the same features.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/conll_chunking.py [--time-limit 100] [--only methods]

Features of a token, as in the chunking template of CRF++: the words and the tags within two tokens, neighbouring pairs
of words, pairs and triples of tags, and a constant; those that occur at least twice in the training sentences. lam is
chosen by F1 on a tenth of the training sentences, held out; then all are trained on. F1 is that of chunks, as conlleval
counts them. python-crfsuite takes its default c2 = 1. Passes of the methods are compared at larger lam, where all of
them can end in a minute.

Writes results/conll_chunking.md and results/conll_chunking.png.
"""

import argparse
import tempfile
import time
import warnings
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from common import HEADER, METHODS, RESULTS, cells, data_file, solve, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
import scipy.sparse as sp

import pybundle as pb
from pybundle.core.ragged import Ragged

GRID = (100.0, 30.0, 10.0, 3.0, 1.0)
METHODS_GRID = (3000.0, 300.0)
AT_LEAST = 2


class Sentences(NamedTuple):
    attributes: list      # per sentence, per token: names of features
    tags: list            # per sentence: chunk tags


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=100.0, help="seconds for one solve (default 100)")
    parser.add_argument("--only", choices=("errors", "methods"), help="the other part of the results is kept")
    arguments = parser.parse_args()
    train, test = (read(data_file("conll2000", name)) for name in ("train.txt.gz", "test.txt.gz"))
    file = RESULTS / "conll_chunking.md"
    kept = file.read_text(encoding="utf-8").partition(METHODS_TITLE) if file.exists() else ("", "", "")
    first = kept[0] if arguments.only == "methods" else errors(train, test, arguments.time_limit)
    second = "".join(kept[1:]) if arguments.only == "errors" else methods(train, 0.6 * arguments.time_limit)
    file.write_text(f"{first.rstrip()}\n\n{second.strip()}\n", encoding="utf-8")


def methods(train, limit):
    """Passes and seconds of the methods from zero, at lam that are larger than the best one."""
    _, _, risk = bind(train)
    rows = []
    for lam in METHODS_GRID:
        for name, (method, n_parts) in METHODS.items():
            rows.append(cells(f"{lam:g}", name, solve(risk, lam, method, n_parts, time_limit=limit)))
            print(*rows[-1], sep=" | ", flush=True)
    return f"{METHODS_TITLE}\n\n" + METHODS_TEXT.format(limit=limit, table=table(HEADER, rows))


def errors(train, test, limit):
    """Held-out F1 over lam, and the test set at the best."""
    order = np.random.default_rng(0).permutation(len(train.tags))
    held = len(order) // 10
    fit, dev = pick(train, np.sort(order[held:])), pick(train, np.sort(order[:held]))
    curve = []
    for lam, predict, result in chains(fit, GRID, limit):
        curve.append((f"{lam:g}", *effort(result), f"{f1(dev.tags, predict(dev)):.2f}"))
        print(*curve[-1], sep=" | ", flush=True)
    best = float(max(curve, key=lambda row: float(row[-1]))[0])
    began = time.perf_counter()
    ((_, predict, result),) = chains(train, (best,), 2.0 * limit)
    rows = [(f"chain SVM, lam = {best:g}", *quality(test, predict), f"{time.perf_counter() - began:.0f}")]
    print(*rows[-1], *effort(result), sep=" | ", flush=True)
    try:
        began = time.perf_counter()
        predict = crfsuite(train)
        rows.append(("python-crfsuite, c2 = 1", *quality(test, predict), f"{time.perf_counter() - began:.0f}"))
    except ImportError:
        print("python-crfsuite is not installed: its row is left out")
    plot(curve, RESULTS / "conll_chunking.png")
    text = TEXT.format(
        version=version(), limit=limit, twice=2 * limit, features=len(vocabulary(train)), held=held,
        fit=len(fit.tags), gap=f"{result.gap:.2g}", passes=f"{result.n_passes:.0f}",
        fun=f"{result.fun:.0f}", bound=f"{result.lower_bound:.0f}",
        rows=table(("", "test F1", "test tags right, %", "seconds of training"), rows),
        curve=table(("lam", "gap", "passes", "seconds", "oracle", "QP", "held-out F1"), curve))
    print(text)
    return text


def effort(result):
    return (f"{result.gap:.2g}", f"{result.n_passes:.0f}", f"{result.seconds['total']:.0f}",
            f"{result.seconds['oracle']:.0f}", f"{result.seconds['qp']:.1f}")


def quality(test, predict):
    """F1 and share of right tags on the test sentences."""
    predicted = predict(test)
    right = [a == b for a, b in zip(chain(*test.tags), chain(*predicted), strict=True)]
    return f"{f1(test.tags, predicted):.2f}", f"{100 * np.mean(right):.2f}"


def read(path):
    sentences = pb.datasets.read_conll(path, n_columns=3)
    return Sentences([window([token[0] for token in s], [token[1] for token in s]) for s in sentences],
                     [[token[2] for token in s] for s in sentences])


def window(words, tags):
    """Names of the features of every token of a sentence."""
    w, p = (["<<", "<", *column, ">", ">>"] for column in (words, tags))
    return [["bias",
             *(f"w{k}={w[t + k]}" for k in range(-2, 3)), *(f"p{k}={p[t + k]}" for k in range(-2, 3)),
             *(f"w{k}{k + 1}={w[t + k]} {w[t + k + 1]}" for k in (-1, 0)),
             *(f"p{k}{k + 1}={p[t + k]} {p[t + k + 1]}" for k in range(-2, 2)),
             *(f"p{k}{k + 1}{k + 2}={p[t + k]} {p[t + k + 1]} {p[t + k + 2]}" for k in range(-2, 1))]
            for t in range(2, len(words) + 2)]


def pick(sentences, rows):
    return Sentences(*([column[i] for i in rows] for column in sentences))


def vocabulary(sentences):
    """Number of every feature that occurs at least twice."""
    counts = Counter(chain.from_iterable(chain.from_iterable(sentences.attributes)))
    return {name: k for k, name in enumerate(name for name, count in counts.items() if count >= AT_LEAST)}


def bind(sentences):
    """Numbers of the features, tags, and the risk of all sentences."""
    numbers = vocabulary(sentences)
    tags = sorted(set(chain.from_iterable(sentences.tags)))
    label = {tag: k for k, tag in enumerate(tags)}
    model = pb.models.Chain(len(tags), len(numbers))
    Y = Ragged.of([np.array([label[tag] for tag in s], dtype=np.int32) for s in sentences.tags])
    return numbers, tags, pb.risks.Structured(model, matrix(sentences, numbers), Y)


def chains(sentences, grid, time_limit):
    """(lam, predictor, result) for each lam, largest first; planes of examples go on from lam to lam."""
    numbers, tags, risk = bind(sentences)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        results = pb.path(risk, grid, tol=1e-2, time_limit=time_limit)

    def predictor(w):
        W, *scores = risk.model.split(w)

        def predict(sentences):
            X = matrix(sentences, numbers)
            found = Ragged(pb.oracles.viterbi_batch(X.values @ W.T, X.offsets, *scores)[0], X.offsets)
            return [[tags[k] for k in y] for y in found]

        return predict

    return [(lam, predictor(result.x), result) for lam, result in zip(grid, results, strict=True)]


def matrix(sentences, numbers):
    """Indicators of the known features, a row for each token."""
    known = [[numbers[name] for name in token if name in numbers] for s in sentences.attributes for token in s]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in known])])
    X = sp.csr_array((np.ones(indptr[-1], np.float32), np.fromiter(chain.from_iterable(known), np.int32), indptr),
                     shape=(len(known), len(numbers)))
    X.sort_indices()
    return Ragged(X, np.concatenate([[0], np.cumsum([len(s) for s in sentences.attributes])]))


def crfsuite(sentences):
    """The CRF of python-crfsuite (L-BFGS, its own stop and its default c2 = 1), on the same features."""
    import pycrfsuite

    numbers = vocabulary(sentences)

    def known(sentence):
        return pycrfsuite.ItemSequence([[name for name in token if name in numbers] for token in sentence])

    trainer = pycrfsuite.Trainer(verbose=False)
    for attributes, tags in zip(*sentences, strict=True):
        trainer.append(known(attributes), tags)
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "chunking.crfsuite")
        trainer.set_params({"c1": 0.0, "c2": 1.0, "feature.possible_transitions": True})
        trainer.train(file)
        tagger = pycrfsuite.Tagger()
        tagger.open(file)
    return lambda sentences: [tagger.tag(known(s)) for s in sentences.attributes]


def chunks(tags):
    """(kind, first, last) of the chunks that conlleval sees: a chunk also begins where the kind changes after I."""
    found, kind, first = set(), None, 0
    for t, tag in enumerate([*tags, "O"]):
        new = None if tag == "O" else tag[2:]
        if kind is not None and (new != kind or tag[0] == "B"):
            found.add((kind, first, t))
            kind = None
        if kind is None and new is not None:
            kind, first = new, t
    return found


def f1(truth, predicted):
    """Chunk F1 in percent."""
    right = given = wanted = 0
    for y, y_hat in zip(truth, predicted, strict=True):
        a, b = chunks(y), chunks(y_hat)
        right, wanted, given = right + len(a & b), wanted + len(a), given + len(b)
    return 200.0 * right / (wanted + given)


def plot(curve, path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.semilogx([float(row[0]) for row in curve], [float(row[-1]) for row in curve], marker="o")
    axes.set(xlabel="lam", ylabel="F1 on the held-out sentences, %", title="CoNLL-2000 chunking, chain SVM")
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)


METHODS_TITLE = "## Passes to a gap of 1e-2"
METHODS_TEXT = """\
All training sentences. Every solve starts at zero and ends after {limit:g} seconds at the latest; "seconds" are wall
clock.

{table}"""
TEXT = """\
# CoNLL-2000 chunking

A chain SVM over 22 chunk tags and {features} features (words and tags within two tokens, pairs of words, pairs and
triples of tags, those that occur twice), and python-crfsuite on the same features; one thread. Written by
`asv_benchmarks/reproduce/conll_chunking.py` with pybundle {version}. F1 of chunks as conlleval counts them.

## Test set

{rows}

lam is the best of the next table. The chain SVM is trained by `method="auto"` to a certified
relative gap of 1e-2 or for {twice:g} seconds; it ended at a gap of {gap} after {passes} passes, F = {fun}, lower bound
{bound}. Seconds are wall clock and include the construction of the data.

## Error over lam

{fit} training sentences, {held} others held out. `method="auto"` from the largest lam down, planes kept from lam to
lam, at most {limit:g} seconds each.

{curve}

![held-out F1 over lam](conll_chunking.png)
"""


if __name__ == "__main__":
    main()
