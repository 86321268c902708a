"""
Parsing: trees whose arcs cross, with relations
===============================================

In a dependency tree every word has a head, which is another word or the root, and a
relation to it, such as ``nsubj`` for subjects. In "a hearing is held on the law" the
preposition belongs to "hearing", across the verb. A parser of nested trees cannot
represent this. The best of all trees, crossing arcs included, is a maximum
arborescence, in which every arc takes its best relation.
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
    """Words as (word, tag), and (head, relation) of every word.

    A preposition may stand far from its noun.
    """
    nouns = rng.choice(list(PREPOSITION), 2, replace=False)
    words = [
        ("the", "D"),
        (str(nouns[0]), "N"),
        (str(rng.choice(VERBS)), "V"),
        ("a", "D"),
        (str(nouns[1]), "N"),
    ]
    tree = [(2, "det"), (3, "nsubj"), (0, "root"), (5, "det"), (3, "obj")]
    for noun in rng.permutation([2, 5])[: rng.integers(1, 3)]:
        at = len(words) + 1  # at the end, for either noun
        words += [
            (PREPOSITION[words[noun - 1][0]], "P"),
            ("the", "D"),
            (str(rng.choice(OTHERS)), "N"),
        ]
        tree += [(int(noun), "prep"), (at + 2, "det"), (at, "pobj")]
    return words, tree


rng = np.random.default_rng(0)
X, y = zip(*(sentence(rng) for _ in range(300)), strict=True)
options: dict[str, Any] = {"C": 0.1, "hash_bits": 16, "tol": 1e-2, "relations": True}
parser = pb.DependencyParser(**options).fit(X[:200], y[:200])
found = parser.predict(X[200:])
scores = pb.metrics.attachment_scores(y[200:], found)
print(
    f"certified gap {parser.gap_:.1e}; {100 * scores.uas:.1f} % of the heads "
    f"are right, {100 * scores.las:.1f} % with their relations"
)

# %%
# How many of the crossing arcs are found? An arc crosses another if a word between its
# ends has its head outside them.


def crossing_arcs(tree: Any) -> list[bool]:
    """Whether each word hangs on a crossing arc."""
    ends = [sorted((head, m)) for m, (head, _) in enumerate(tree, 1)]
    return [
        any(not low <= tree[k - 1][0] <= high for k in range(low + 1, high))
        for low, high in ends
    ]


crossing = [crossing_arcs(tree) for tree in y[200:]]
on_crossing = pb.metrics.attachment_scores(y[200:], found, counted=crossing)
print(f"{100 * on_crossing.uas:.1f} % of {on_crossing.n_words} crossing arcs")

# %%
# The predicted tree of a sentence in which two prepositions are far from their nouns.
# Arrows lead from heads to words; the arrow from above leads to the root.
k = next(k for k in range(200, 300) if len(X[k]) == 11 and y[k][5][0] == 2)
pb.plotting.ParseTreeDisplay.from_estimator(parser, X[k], truth=y[k])

# %%
# A parser trained on only five sentences attaches prepositions to the wrong noun.
# Orange arcs are wrong; dashed arcs are the true ones.
beginner = pb.DependencyParser(**options).fit(X[:5], y[:5])
short = [k for k in range(200, 300) if len(X[k]) == 8]
worst = min(short, key=lambda k: beginner.score([X[k]], [y[k]]))
_, axis = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
display = pb.plotting.ParseTreeDisplay.from_estimator(
    beginner, X[worst], truth=y[worst], ax=axis
)
for arc in display.arcs_ + display.missed_:
    arc.set_linewidth(3.0)
