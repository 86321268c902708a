"""
Parsing: trees whose arcs cross
===============================

In a dependency tree every word has a head, which is another word or the root. In "a
hearing is held on the law" the preposition belongs to "hearing", across the verb. A
parser of nested trees cannot represent this. The best of all trees, crossing arcs
included, is a maximum arborescence.
"""

# sphinx_gallery_thumbnail_number = 2
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import pybundle as pb

PREPOSITION = {
    "hearing": "on",
    "plan": "for",
    "cure": "against",
    "letter": "to",
    "road": "through",
    "talk": "about",
}
VERBS, OTHERS = (
    ["precedes", "follows", "replaces"],
    ["law", "town", "winter", "king", "war"],
)


def sentence(rng: np.random.Generator) -> Any:
    """(word, tag) and head of every word. A preposition may stand far from its noun."""
    nouns = rng.choice(list(PREPOSITION), 2, replace=False)
    words = [
        ("the", "D"),
        (str(nouns[0]), "N"),
        (str(rng.choice(VERBS)), "V"),
        ("a", "D"),
        (str(nouns[1]), "N"),
    ]
    heads = [2, 3, 0, 5, 3]
    for noun in rng.permutation([2, 5])[: rng.integers(1, 3)]:
        at = len(words) + 1  # at the end, for either noun
        words += [
            (PREPOSITION[words[noun - 1][0]], "P"),
            ("the", "D"),
            (str(rng.choice(OTHERS)), "N"),
        ]
        heads += [int(noun), at + 2, at]
    return words, heads


rng = np.random.default_rng(0)
X, y = zip(*(sentence(rng) for _ in range(300)), strict=True)
parser = pb.DependencyParser(C=0.1, hash_bits=16, tol=1e-2).fit(X[:200], y[:200])
print(
    f"certified gap {parser.gap_:.1e}; "
    f"{100 * parser.score(X[200:], y[200:]):.1f} % of the heads are right"
)

# %%
# How many of the crossing arcs are found? An arc crosses another if a word between its
# ends has its head outside them.


def crossing_arcs(heads: Any) -> list[bool]:
    """Whether each word hangs on a crossing arc; `heads` count words from 1."""
    ends = [sorted((head, m)) for m, head in enumerate(heads, 1)]
    return [
        any(not low <= heads[k - 1] <= high for k in range(low + 1, high))
        for low, high in ends
    ]


crossing = np.concatenate([crossing_arcs(heads) for heads in y[200:]])
right = np.concatenate(
    [
        found == heads
        for found, heads in zip(
            parser.predict(X[200:], output="array"), y[200:], strict=True
        )
    ]
)
print(f"{100 * right[crossing].mean():.1f} % of {crossing.sum()} crossing arcs")

# %%
# The predicted tree of a sentence in which two prepositions are far from their nouns.
# Arrows lead from heads to words; the arrow from above leads to the root.
k = next(k for k in range(200, 300) if len(X[k]) == 11 and y[k][5] == 2)
pb.plotting.ParseTreeDisplay.from_estimator(parser, X[k], truth=y[k])

# %%
# A parser trained on only five sentences attaches prepositions to the wrong noun.
# Orange arcs are wrong; dashed arcs are the true ones.
beginner = pb.DependencyParser(C=0.1, hash_bits=16, tol=1e-2).fit(X[:5], y[:5])
short = [k for k in range(200, 300) if len(X[k]) == 8]
worst = min(short, key=lambda k: beginner.score([X[k]], [y[k]]))
_, axis = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
display = pb.plotting.ParseTreeDisplay.from_estimator(
    beginner, X[worst], truth=y[worst], ax=axis
)
for arc in display.arcs_ + display.missed_:
    arc.set_linewidth(3.0)
