"""
Entities: from a file to a tagger in a service
==============================================

Names of towns may mean a place or a team, and their endings also occur in names of
persons. A conditional random field learns from a file to find such names. It keeps to
the scheme of the labels, BIO: ``B-PER`` begins a person, ``I-PER`` goes on with it.
"""

import tempfile
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import pybundle as pb

SENTENCES = """PER of ORG lives in LOC . | Shares of ORG rose in LOC . | LOC was wet .
TEAM beat TEAM 3 - 1 . | TEAM lost to TEAM at home . | PER beat PER in LOC .
ORG named PER as its head . | The mayor of LOC met PER . | TEAM sold PER ."""
ENDS = {
    "PER": ["ton", "son", " Larson", " Minton"],
    "LOC": ["ton", "burg", " Bay"],
    "TEAM": ["ton", "burg", " Bay"],
    "ORG": [" Ltd", "son Bank", "ton & Co"],
}


def lines(rng: np.random.Generator) -> str:
    """Return a sentence as in a file: on each line a word and its label."""
    found = ""
    for word in rng.choice(SENTENCES.replace("\n", " | ").split(" | ")).split():
        stem = "".join(rng.choice(["bar", "kel", "lor", "mi", "no", "ven"], 2)).title()
        name = stem + rng.choice(ENDS[word]) if word in ENDS else word
        kind = "ORG" if word == "TEAM" else word
        for k, part in enumerate(name.split()):
            found += f"{part} {'BI'[k > 0]}-{kind}\n" if word in ENDS else f"{part} O\n"
    return found + "\n"


rng = np.random.default_rng(0)
folder = Path(tempfile.mkdtemp())
for file, n in (("train.conll", 60), ("test.conll", 300)):
    (folder / file).write_text("".join(lines(rng) for _ in range(n)))


# %%
# A token is a tuple of the columns without the label, here of a word alone, and
# templates make its features. The search takes the C with the best F1 in three folds.
def read(file: str) -> tuple[list[Any], list[list[str]]]:
    rows = pb.datasets.read_conll(folder / file)
    X = [[token[:-1] for token in row] for row in rows]
    return X, [[token[-1] for token in row] for row in rows]


def f1(tagger: Any, X: Any, y: Any) -> float:
    return pb.metrics.chunk_scores(y, tagger.predict(X)).total.f1


X, y = read("train.conll")
options: dict[str, Any] = {"scheme": "BIO", "templates": pb.templates.words()}
search = pb.ChainCRFCV([0.01, 0.1, 1.0, 10.0, 100.0], cv=3, scoring=f1, **options)
search.fit(X, y)
print(f"C = {search.C_:g}; F1 {search.scores_.mean(axis=0).round(3)}")

# %%
# The scores on the other file, by type, also for other values of C:
X_test, y_test = read("test.conll")
print(pb.metrics.chunk_scores(y_test, search.predict(X_test)))
figure, axis = plt.subplots(figsize=(5.0, 3.5), layout="constrained")
found = [pb.ChainCRF(C, **options).fit(X, y).predict(X_test) for C in search.Cs_]
types = [pb.metrics.chunk_scores(y_test, labels).types for labels in found]
for kind in ("LOC", "ORG", "PER"):
    axis.semilogx(search.Cs_, [100 * of[kind].f1 for of in types], "o-", label=kind)
axis.axvline(search.C_, color="black", linestyle=":", label="chosen C")
axis.set(xlabel="C", ylabel="F1 of held-out names, %")
axis.legend()

# %%
# The saved model includes the templates. It holds no code, so that ``scoring`` is taken
# out first. A service loads it once and labels one sentence at a time.
search.set_params(scoring=None).save(folder / "tagger.npz")
tagger = pb.load(folder / "tagger.npz")
for sentence in (
    "Kelbarton lost to Venlorton at home .",
    "The mayor of Kelbarton met Kelbarton .",
):
    print(tagger.predict_single(sentence.split()))
