"""From sklearn-crfsuite to pybundle: same features, same objective, with a certificate.

    PYBUNDLE_DATA=/path/to/data python examples/from_sklearn_crfsuite.py

Uses the chunks of CoNLL-2000 if PYBUNDLE_DATA has conll2000, otherwise 2000 generated
sentences. The part `before` is skipped if sklearn-crfsuite is not installed. CRFsuite
minimises `c2 |w|^2 - log-likelihood`, so that `C = 1 / (2 c2)`.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pybundle as pb

C2 = 0.5


def before(X: Any, y: Any, X_test: Any) -> Any:
    import sklearn_crfsuite

    crf = sklearn_crfsuite.CRF(algorithm="lbfgs", c1=0.0, c2=C2, max_iterations=1000,
                               all_possible_transitions=True)
    crf.fit(X, y)
    return crf.predict(X_test)


def after(X: Any, y: Any, X_test: Any) -> Any:
    crf = pb.ChainCRF(C=1.0 / (2.0 * C2), token_weights="occurring", tol=1e-3).fit(X, y)
    print(f"pybundle: objective within {crf.gap_:.1e} of the optimum, certified: "
          f"{crf.certified_}, {crf.n_passes_:.0f} passes, {crf.coef_.size} weights")
    return crf.predict(X_test)


def features(words: Sequence[str], tags: Sequence[str], t: int) -> dict[str, Any]:
    found = {"bias": 1.0, "word": words[t].lower(), "suffix": words[t][-3:],
             "is_title": words[t].istitle(), "is_digit": words[t].isdigit(),
             "tag": tags[t], "is_first": t == 0, "is_last": t == len(words) - 1}
    for shift in (-1, 1):
        if 0 <= t + shift < len(words):
            found[f"{shift:+d}"] = {"word": words[t + shift].lower(),
                                    "tag": tags[t + shift]}
    return found


def generated(n: int) -> list[list[tuple[str, str, str]]]:
    """Tags follow a Markov chain; some share a spelling, so that the context matters."""
    rng = np.random.default_rng(0)
    odds = np.exp(2.0 * rng.standard_normal((8, 8)))
    odds /= odds.sum(axis=1, keepdims=True)
    sentences = []
    for _ in range(n):
        tags = [int(rng.integers(8))]
        for _ in range(rng.poisson(11)):
            tags.append(int(rng.choice(8, p=odds[tags[-1]])))
        sentences.append([(f"word{(tag + 8 * rng.integers(25)) % 180}", "x", f"tag{tag}")
                          for tag in tags])
    return sentences


def load() -> Any:
    """Features and labels for training and test."""
    folder = Path(os.environ.get("PYBUNDLE_DATA", ""), "conll2000")
    if not folder.is_dir():
        sentences = generated(2500)
        parts = sentences[:2000], sentences[2000:]
    else:
        parts = [pb.datasets.read_conll(folder / name)
                 for name in ("train.txt.gz", "test.txt.gz")]
    out = []
    for part in parts:
        columns = [list(zip(*sentence, strict=True)) for sentence in part]
        out.append([[features(words, tags, t) for t in range(len(words))]
                    for words, tags, _ in columns])
        out.append([list(labels) for _, _, labels in columns])
    return out


def main() -> None:
    X, y, X_test, y_test = load()
    truth = [label for labels in y_test for label in labels]
    for name, run in (("sklearn-crfsuite", before), ("pybundle", after)):
        started = time.process_time()
        try:
            found = run(X, y, X_test)
        except ImportError as problem:
            print(f"{name}: skipped, {problem}")
            continue
        labels = (label for labels in found for label in labels)
        right = sum(a == b for a, b in zip(labels, truth, strict=True))
        print(f"{name}: {100 * right / len(truth):.2f} % of {len(truth)} tokens, "
              f"{time.process_time() - started:.1f} s of processor time")


if __name__ == "__main__":
    main()
