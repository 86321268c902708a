"""A conditional random field with an l1 norm, CoNLL-2000: pybundle and python-crfsuite (OWL-QN) on the same objective.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/sparse_crf.py [--l1 1 3]

Features as in conll_chunking.py; weights for every pair of feature and tag and for all transitions in both packages
(`feature.possible_states`), none for the ends of a sentence. Both minimise `c1 |w|_1 - sum_i log p(y_i | x_i)`.
python-crfsuite reports its objective after every iteration; its seconds are those of its first iteration within 1 % of
the best value known, measured by a run of that many iterations. Processor time, one thread. Writes
results/sparse_crf.md.
"""

import argparse
import tempfile
import time
import warnings
from pathlib import Path

from common import RESULTS, data_file, table, version  # sets threads: before NumPy

# isort: split
import conll_chunking as chunking
import numpy as np

import pybundle as pb

WITHIN = 1e-2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--l1", type=float, nargs="+", default=[1.0, 3.0], help="rates of the l1 norm")
    arguments = parser.parse_args()
    train, test = (chunking.read(data_file("conll2000", name)) for name in ("train.txt.gz", "test.txt.gz"))
    rows = [row for l1 in arguments.l1 for row in compare(train, test, l1)]
    head = ("c1", "", "seconds", "passes", "objective", "certified gap", "test F1", "weights not 0")
    text = TEXT.format(version=version(), table=table(head, rows))
    (RESULTS / "sparse_crf.md").write_text(text, encoding="utf-8")
    print(text)


def compare(train, test, l1):
    """Rows: ours to a certified 1e-2 and 1e-3, python-crfsuite within 1 % of the best value."""
    numbers = chunking.vocabulary(train)
    tags = sorted({tag for sentence in train.tags for tag in sentence})
    label = {tag: k for k, tag in enumerate(tags)}
    model = pb.models.Chain(len(tags), len(numbers), start=False, end=False)
    Y = pb.core.ragged.Ragged.of([np.array([label[tag] for tag in s], dtype=np.int32) for s in train.tags])
    risk = pb.risks.Structured(model, chunking.matrix(train, numbers), Y, loss="logistic")
    X_test = chunking.matrix(test, numbers)
    rows, best = [], np.inf
    for tol in (WITHIN, 1e-3):
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pb.ConvergenceWarning)
            result = pb.minimize(risk, penalty=pb.prox.L1(l1), tol=tol, time_limit=300)
        seconds, best = time.process_time() - start, min(best, result.fun)
        W, transition, *_ = model.split(result.x)
        found = pb.core.ragged.Ragged(
            pb.oracles.viterbi_batch(X_test.values @ W.T, X_test.offsets, transition)[0], X_test.offsets)
        f1 = chunking.f1(test.tags, [[tags[k] for k in y] for y in found])
        rows.append((f"{l1:g}", f"pybundle, tol {tol:g}", f"{seconds:.1f}", f"{result.n_passes:.0f}",
                     f"{result.fun:.1f}", f"{result.gap:.1e}", f"{f1:.2f}", f"{np.count_nonzero(result.x):,}"))
        print(*rows[-1], sep=" | ", flush=True)
    rows.append((f"{l1:g}", *crfsuite(train, test, l1, best)))
    print(*rows[-1], sep=" | ", flush=True)
    return rows


def crfsuite(train, test, l1, best):
    """The row of python-crfsuite's first iteration within 1 % of `best`."""
    import pycrfsuite

    numbers = chunking.vocabulary(train)

    def known(sentence):
        return pycrfsuite.ItemSequence([[name for name in token if name in numbers] for token in sentence])

    class Recorded(pycrfsuite.Trainer):
        def message(self, line):
            if "Loss:" in line or ("loss:" in line.lower() and "feature" not in line.lower()):
                losses.append(float(line.split(":")[1].split()[0]))

    def run(max_iterations):
        losses.clear()
        trainer = Recorded(verbose=True)
        for attributes, labels in zip(*train, strict=True):
            trainer.append(known(attributes), labels)
        trainer.set_params({"c1": l1, "c2": 0.0, "feature.possible_transitions": True,
                            "feature.possible_states": True, "max_iterations": max_iterations})
        start = time.process_time()
        trainer.train(file)
        return time.process_time() - start

    losses = []
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "chunking.crfsuite")
        run(400)
        within = [k for k, loss in enumerate(losses, 1) if loss <= (1.0 + WITHIN) * best]
        if not within:
            return ("python-crfsuite, never within 1 %", "-", f"{len(losses)}", f"{min(losses):.1f}", "-", "-", "-")
        seconds = run(within[0])
        tagger = pycrfsuite.Tagger()
        tagger.open(file)
        f1 = chunking.f1(test.tags, [tagger.tag(known(s)) for s in test.attributes])
        n_weights = len(tagger.info().state_features) + len(tagger.info().transitions)
    return ("python-crfsuite, to 1 %", f"{seconds:.1f}", f"{within[0]}", f"{losses[-1]:.1f}", "none", f"{f1:.2f}",
            f"{n_weights:,}")


TEXT = """# Conditional random fields with an l1 norm, CoNLL-2000

`python asv_benchmarks/reproduce/sparse_crf.py` with pybundle {version}, one thread, processor time; the
same objective `c1 |w|_1 - sum_i log p(y_i | x_i)` for both packages. pybundle's seconds include the certificate. Passes
of python-crfsuite are iterations.

{table}
"""

if __name__ == "__main__":
    main()
