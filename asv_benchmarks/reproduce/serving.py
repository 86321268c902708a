"""One sentence at a time: time of `predict_single` by the number of names, memory of the map, CRFsuite's tagger.

    python asv_benchmarks/reproduce/serving.py [--names 1000 10000 100000]

Sentences of ten tokens with 18 features each, drawn from all names: texts, {"field 3": "value 7"}, or numbers,
{"name 7": 1.0}. The model has seen each name; its accuracy does not matter here. python-crfsuite gets the same
dictionaries; a column is empty where it is not installed. Writes results/serving.md.
"""

import argparse
import tracemalloc
import warnings
from tempfile import TemporaryDirectory

from common import RESULTS, in_turns, table, version

# isort: split
import numpy as np

import pybundle as pb

TOKENS, FEATURES, SENTENCES = 10, 18, 50


def corpus(rng, n_names, n_labels, values):
    """Sentences that hold each name at least once, and labels."""
    names = np.concatenate([rng.permutation(n_names), rng.integers(0, n_names, SENTENCES * TOKENS * FEATURES)])
    names = names[:len(names) // (TOKENS * FEATURES) * TOKENS * FEATURES].reshape(-1, TOKENS, FEATURES)
    if values == "texts":       # about as many names, since each field has its own
        X = [[{f"field {j}": f"value {k // FEATURES}" for j, k in enumerate(token)} for token in x] for x in names]
    else:
        X = [[{f"name {k}": 1.0 for k in token} for token in x] for x in names]
    return X, [[f"label {k}" for k in row] for row in rng.integers(0, n_labels, (len(X), TOKENS))]


def tagger_of(X, y):
    """python-crfsuite's tagger of the same dictionaries, or None."""
    try:
        import pycrfsuite
    except ImportError:
        return None
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"max_iterations": 3, "feature.possible_states": True, "feature.possible_transitions": True})
    for sentence, labels in zip(X, y, strict=True):
        trainer.append(sentence, labels)
    tagger = pycrfsuite.Tagger()
    with TemporaryDirectory() as folder:
        trainer.train(f"{folder}/model")
        tagger.open(f"{folder}/model")
    return tagger


def row(cls, weights, n_names, n_labels, values):
    """A row of the table."""
    X, y = corpus(np.random.default_rng(0), n_names, n_labels, values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        model = cls(token_weights=weights, tol=0.5, max_iter=3).fit(X, y)
    tracemalloc.start()
    model.predict_single(X[0])          # makes the map
    size = tracemalloc.get_traced_memory()[0] / len(model.vocabulary_)
    tracemalloc.stop()
    X, tagger = X[-SENTENCES:], tagger_of(X, y)
    calls = [lambda turn: [model.predict_single(x) for x in X], lambda turn: model.predict(X)]
    calls += [] if tagger is None else [lambda turn: [tagger.tag(x) for x in X]]
    seconds = np.median(in_turns(*calls), axis=0) / len(X)
    ratio = f"{seconds[2] * 1e3:.3f}", f"{seconds[0] / seconds[2]:.1f}"
    return (cls.__name__, values, weights, n_labels, len(model.vocabulary_), *(f"{s * 1e3:.3f}" for s in seconds[:2]),
            *(("", "") if tagger is None else ratio), f"{size:.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", type=int, nargs="+", default=[1000, 10_000, 100_000])
    names = parser.parse_args().names
    rows = [row(cls, weights, n, K, values) for values, cls in (("texts", pb.ChainCRF), ("texts", pb.ChainSVM),
                                                                ("numbers", pb.ChainCRF))
            for weights in ("all", "occurring") for K in (3, 20) for n in names]
    header = ("estimator", "values", "weights", "labels", "names", "ms, one sentence", "ms, one of 50 in a call",
              "ms, python-crfsuite", "ratio", "bytes for each name")
    page = RESULTS / "serving.md"
    head = (f"# One sentence at a time\n\n`asv_benchmarks/reproduce/serving.py`, pybundle {version()}. Sentences of "
            f"{TOKENS} tokens with {FEATURES} features each; processor time of one thread, medians of turns. "
            "Bytes are what the first prediction adds.\n\n")
    page.write_text(head + table(header, rows) + "\n", encoding="utf-8")
    print(f"wrote {page}")


if __name__ == "__main__":
    main()
