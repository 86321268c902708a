"""Text chunking, CoNLL-2000: a chain SVM and python-crfsuite on the same features.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/conll_chunking.py [--time-limit 240]

Features of a token, as in the chunking template of CRF++: the words and the tags within two tokens, neighbouring pairs
of words, pairs and triples of tags, and a constant; those that occur at least twice in the training sentences. lam (of
python-crfsuite: c2) is chosen by F1 on a tenth of the training sentences, held out; then all are trained on. F1 is
that of chunks, as conlleval counts them.

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

from common import METHODS, RESULTS, data_file, table  # sets threads: before NumPy

# isort: split
import numpy as np
import scipy.sparse as sp

import pybundle as pb
from pybundle.core.ragged import Ragged

GRID = (30.0, 10.0, 3.0)
CRF_GRID = (3.0, 1.0, 0.3)
AT_LEAST = 2


class Sentences(NamedTuple):
    attributes: list      # per sentence, per token: names of features
    tags: list            # per sentence: chunk tags


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=240.0, help="seconds for one solve (default 240)")
    limit = parser.parse_args().time_limit
    train, test = (read(data_file("conll2000", name)) for name in ("train.txt.gz", "test.txt.gz"))
    order = np.random.default_rng(0).permutation(len(train.tags))
    held = len(order) // 10
    fit, dev = pick(train, np.sort(order[held:])), pick(train, np.sort(order[:held]))
    rows, curves = [], {}
    for name, learner, grid in (("chain SVM", chains, GRID), ("python-crfsuite", crfsuite, CRF_GRID)):
        try:
            curves[name] = [(value, f1(dev.tags, predict(dev)), note) for value, predict, note in
                            learner(fit, grid, limit)]
        except ImportError as missing:
            print(f"{name} is left out: {missing}")
            continue
        for value, score, note in curves[name]:
            print(name, value, f"held-out F1 {score:.2f}", note, sep=" | ", flush=True)
        best = max(curves[name], key=lambda row: row[1])[0]
        began = time.perf_counter()
        (_, predict, note), = learner(train, (best,), limit)
        seconds = time.perf_counter() - began
        predicted = predict(test)
        right = [a == b for a, b in zip(chain(*test.tags), chain(*predicted), strict=True)]
        rows.append((name, f"{best:g}", f"{max(score for _, score, _ in curves[name]):.2f}",
                     f"{f1(test.tags, predicted):.2f}", f"{100 * np.mean(right):.2f}", f"{seconds:.0f}", note))
        print(*rows[-1], sep=" | ", flush=True)
    plot(curves, RESULTS / "conll_chunking.png")
    text = TEXT.format(
        version=pb.__version__, limit=limit, features=len(vocabulary(train)), held=held, fit=len(fit.tags),
        table=table(("", "lam or c2", "held-out F1", "test F1", "test tags right, %", "seconds", "stop"), rows),
        curve=table(("", "lam or c2", "held-out F1", "stop"),
                    [(name, f"{value:g}", f"{score:.2f}", note) for name, curve in curves.items()
                     for value, score, note in curve]))
    (RESULTS / "conll_chunking.md").write_text(text, encoding="utf-8")
    print(text)


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


def chains(sentences, grid, time_limit):
    """(lam, predictor, note) for each lam, largest first; planes of the larger lam are kept."""
    numbers = vocabulary(sentences)
    tags = sorted(set(chain.from_iterable(sentences.tags)))
    label = {tag: k for k, tag in enumerate(tags)}
    model = pb.models.Chain(len(tags), len(numbers))
    Y = Ragged.of([np.array([label[tag] for tag in s], dtype=np.int32) for s in sentences.tags])
    risk = pb.risks.Structured(model, matrix(sentences, numbers), Y)
    method, n_parts = METHODS["oca, P = 16"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        results = pb.path(risk, grid, method=method, n_parts=n_parts, tol=1e-2, time_limit=time_limit)

    def predictor(w):
        W, *scores = model.split(w)

        def predict(sentences):
            X = matrix(sentences, numbers)
            found = Ragged(pb.oracles.viterbi_batch(X.values @ W.T, X.offsets, *scores)[0], X.offsets)
            return [[tags[k] for k in y] for y in found]

        return predict

    return [(lam, predictor(result.x), f"gap {result.gap:.1e}, {result.n_passes:.0f} passes, "
             f"{result.seconds['oracle']:.0f} s oracle, {result.seconds['qp']:.0f} s QP, of "
             f"{result.seconds['total']:.0f} s")
            for lam, result in zip(grid, results, strict=True)]


def matrix(sentences, numbers):
    """Indicators of the known features, a row for each token."""
    known = [[numbers[name] for name in token if name in numbers] for s in sentences.attributes for token in s]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in known])])
    X = sp.csr_array((np.ones(indptr[-1], np.float32), np.fromiter(chain.from_iterable(known), np.int32), indptr),
                     shape=(len(known), len(numbers)))
    X.sort_indices()
    return Ragged(X, np.concatenate([[0], np.cumsum([len(s) for s in sentences.attributes])]))


def crfsuite(sentences, grid, time_limit):
    """The CRF of python-crfsuite (L-BFGS, its own stop), on the same features; for each value of c2."""
    import pycrfsuite

    numbers = vocabulary(sentences)

    def known(sentence):
        return pycrfsuite.ItemSequence([[name for name in token if name in numbers] for token in sentence])

    trainer = pycrfsuite.Trainer(verbose=False)
    for attributes, tags in zip(*sentences, strict=True):
        trainer.append(known(attributes), tags)
    for c2 in grid:
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "chunking.crfsuite")
            trainer.set_params({"c1": 0.0, "c2": c2, "max_iterations": 200, "feature.possible_transitions": True})
            began = time.perf_counter()
            trainer.train(file)
            seconds = time.perf_counter() - began
            tagger = pycrfsuite.Tagger()
            tagger.open(file)
            yield (c2, lambda sentences, tagger=tagger: [tagger.tag(known(s)) for s in sentences.attributes],
                   f"its own, at most 200 iterations, {seconds:.0f} s")


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


def plot(curves, path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for name, curve in curves.items():
        axes.semilogx([row[0] for row in curve], [row[1] for row in curve], marker="o", label=name)
    axes.set(xlabel="lam (python-crfsuite: c2)", ylabel="F1 on the held-out sentences, %", title="CoNLL-2000 chunking")
    axes.legend()
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)


TEXT = """\
# CoNLL-2000 chunking
"""


if __name__ == "__main__":
    main()
