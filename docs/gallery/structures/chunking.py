"""
Chunking: features by name, probabilities of tags
=================================================

A conditional random field labels sentences whose tokens are dictionaries of features,
as for CRFsuite. Many words in these data are nouns or verbs, depending on their
neighbours.
"""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import pybundle as pb

NOUNS, VERBS = (
    ["dog", "plan", "light", "run", "park", "show"],
    ["saw", "made", "plan", "light", "run", "show"],
)
RULES = {
    "NP": [["the", "a", ""], ["old", "red", ""], NOUNS],
    "VP": [["", "will"], VERBS],
    "PP": [["in", "near"]],
}


def sentence(rng: np.random.Generator) -> tuple[list[Any], list[Any]]:
    """Return words and tags: noun, verb, noun phrase, and prepositional phrases."""
    words: list[Any] = []
    tags: list[Any] = []
    for chunk in ["NP", "VP", "NP"] + ["PP", "NP"] * rng.integers(0, 3):
        drawn = [
            word for word in (rng.choice(choice) for choice in RULES[chunk]) if word
        ]
        words += drawn
        tags += [f"{'B' if k == 0 else 'I'}-{chunk}" for k in range(len(drawn))]
    return words, tags


def features(words: list[Any], t: int) -> dict[str, Any]:
    found: dict[str, Any] = {"word": words[t], "is_first": t == 0}
    if t > 0:
        found["-1"] = {"word": words[t - 1]}
    return found


rng = np.random.default_rng(0)
corpus = [sentence(rng) for _ in range(300)]
X = [[features(words, t) for t in range(len(words))] for words, _ in corpus]
y = [tags for _, tags in corpus]
crf = pb.ChainCRF(C=1.0).fit(X[:200], y[:200])
print(
    f"{100 * crf.score(X[200:], y[200:]):.1f} % of the held-out tags are right; "
    f"certified gap {crf.gap_:.1e}"
)

# %%
# Probabilities of the tags of one sentence. From their neighbours the model finds that
# "light" is a verb here and "show" a noun. Two nouns in a row, as at the end, did not
# occur in the training, and their tags remain uncertain.
words = "old plan light the red show near plan run".split()
table = crf.predict_proba([[features(words, t) for t in range(len(words))]])[0]
figure, axis = plt.subplots(figsize=(7.0, 3.0), layout="constrained")
picture = axis.imshow(table.T, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
axis.set_xticks(range(len(words)), words, rotation=45, ha="right")
axis.set_yticks(range(len(crf.classes_)), crf.classes_)
figure.colorbar(picture, label="probability")

# %%
# The weights of pairs describe chunks: I-NP follows B-NP and rarely any other tag.
pb.plotting.TransitionDisplay.from_estimator(crf)
