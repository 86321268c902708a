"""
Parsing: trees whose arcs cross
===============================

Every word of a sentence hangs on another one, its head. In "a hearing is held on the law" the preposition belongs to
"hearing", across the verb: a parser of nested trees cannot say that. The best of all trees, crossing arcs included, is
a maximum arborescence.
"""

import numpy as np

import pybundle as pb
from pybundle.datasets import crossing_arcs

PREPOSITION = {"hearing": "on", "plan": "for", "cure": "against", "letter": "to", "road": "through", "talk": "about"}
VERBS, OTHERS = ["precedes", "follows", "replaces"], ["law", "town", "winter", "king", "war"]


def sentence(rng):
    """(word, tag) of every word and its head. Each noun asks for its preposition; those of the subject may move."""
    nouns = rng.choice(list(PREPOSITION), 2, replace=False)
    words = [("the", "D"), (str(nouns[0]), "N"), (str(rng.choice(VERBS)), "V"), ("a", "D"), (str(nouns[1]), "N")]
    heads = [2, 3, 0, 5, 3]
    for noun in rng.permutation([2, 5])[:rng.integers(1, 3)]:
        at = len(words) + 1                     # behind all, whichever noun it belongs to
        words += [(PREPOSITION[words[noun - 1][0]], "P"), ("the", "D"), (str(rng.choice(OTHERS)), "N")]
        heads += [int(noun), at + 2, at]
    return words, heads


rng = np.random.default_rng(0)
X, y = zip(*(sentence(rng) for _ in range(300)), strict=True)
parser = pb.DependencyParser(C=0.1, hash_bits=16, tol=1e-2).fit(X[:200], y[:200])
print(f"certified gap {parser.gap_:.1e}; {100 * parser.score(X[200:], y[200:]):.1f} % of the heads are right")

# %%
# How many of the arcs are found that cross another one?
crossing = np.concatenate([crossing_arcs([-1, *heads])[1:] for heads in y[200:]])
right = np.concatenate([found == heads for found, heads in zip(parser.predict(X[200:]), y[200:], strict=True)])
print(f"{100 * right[crossing].mean():.1f} % of {crossing.sum()} crossing arcs")

# %%
# A sentence with two prepositions, each one far from its noun, as the parser understands it: arrows run from heads to
# words, the one from above to the root.
k = next(k for k in range(200, 300) if len(X[k]) == 11 and y[k][5] == 2)
pb.plotting.ParseTreeDisplay.from_estimator(parser, X[k], truth=y[k])

# %%
# A parser that has seen five sentences only hangs prepositions on the wrong noun. Orange arcs are wrong, dashed ones
# those of the truth in their place.
beginner = pb.DependencyParser(C=0.1, hash_bits=16, tol=1e-2).fit(X[:5], y[:5])
worst = max(range(200, 300), key=lambda k: np.sum(beginner.predict([X[k]])[0] != y[k]))
pb.plotting.ParseTreeDisplay.from_estimator(beginner, X[worst], truth=y[worst])
