"""A generated treebank: words, tags and trees, with a tunable share of crossing arcs and a planted model."""

from typing import NamedTuple

import numpy as np


class Treebank(NamedTuple):
    """Sentences with their trees, and where they come from.

    Attributes
    ----------
    X : list of int32 arrays, shape (n, 2)
        Word and tag of every word.
    Y : list of int32 arrays, shape (n + 1,)
        Heads; `Y[i][0] = -1`.
    attributes : tuple of str
        Names of the columns of X, ("word", "pos").
    affinity : ndarray, shape (n_tags + 1, n_tags, 2)
        The planted score of an arc by tag of the head (the last row is the root), tag of the word, and side (0 where
        the head stands left of the word or is the root).
    """

    X: list
    Y: list
    attributes: tuple
    affinity: np.ndarray


def make_treebank(n_sentences, share_crossing=0.05, random_state=0, *, mean_length=12, n_tags=8, n_words=200,
                  noise=0.1):
    """Draws sentences whose trees follow a planted model of tags.

    A tree grows from its root: every word takes dependents on both sides, so that trees are projective; tags of
    dependents are drawn with odds `exp(affinity)`, a share `noise` of them from all tags alike. Then words are moved
    across the arc of their head until about `share_crossing` of all arcs cross another. Lengths are 1 plus a Poisson
    number of mean `mean_length - 1`; a tag owns `n_words // n_tags` words or one more.
    """
    rng = np.random.default_rng(random_state)
    affinity = 2.0 * rng.standard_normal((n_tags + 1, n_tags, 2))
    odds = np.exp(affinity)
    odds /= odds.sum(1, keepdims=True)
    sentences = [_projective(1 + rng.poisson(mean_length - 1), odds, noise, rng) for _ in range(n_sentences)]
    X, Y = [], []
    n_arcs = n_crossing = 0
    for tags, heads in sentences:
        # the share is steered over the whole treebank: short sentences have no room for crossings
        tries = 0
        crossing = crossing_arcs(heads).sum()
        while n_crossing + crossing < share_crossing * (n_arcs + len(tags)) and tries < 4 * len(tags):
            moved = _move(tags, heads, rng)
            now = crossing_arcs(moved[1]).sum()
            if now > crossing:
                (tags, heads), crossing = moved, now
            tries += 1
        n_arcs, n_crossing = n_arcs + len(tags), n_crossing + crossing
        words = tags + n_tags * rng.integers(0, (n_words - tags - 1) // n_tags + 1)
        X.append(np.stack([words, tags], axis=1).astype(np.int32))
        Y.append(heads)
    return Treebank(X, Y, ("word", "pos"), affinity)


def crossing_arcs(heads):
    """Which words hang on a non-projective arc: a word between it and its head does not descend from the head."""
    n = len(heads)
    above = np.zeros((n, n), dtype=bool)
    for m in range(n):
        k = m
        while k >= 0:
            above[k, m] = True
            k = heads[k]
    crossing = np.zeros(n, dtype=bool)
    for m in range(1, n):
        low, high = sorted((int(heads[m]), m))
        crossing[m] = not above[heads[m], low + 1:high].all()
    return crossing


def _projective(length, odds, noise, rng):
    """Tags (n,) and heads (n + 1,) of a tree that grows from its root."""
    n_tags = odds.shape[1]
    order = [0, 1]                # nodes from left to right, 0 the root; words by birth
    tags, heads = [n_tags, int(rng.choice(n_tags, p=odds[n_tags, :, 0]))], [-1, 0]
    for m in range(2, length + 1):
        h = int(rng.integers(max(1, m - 6), m))
        side = int(rng.integers(2))
        tags.append(int(rng.choice(n_tags, p=odds[tags[h], :, side]) if rng.random() >= noise
                        else rng.integers(n_tags)))
        heads.append(h)
        # next to the head, inside of its other dependents: no arc can cross
        order.insert(order.index(h) + 1 - side, m)
    place = np.empty(length + 1, dtype=int)
    place[order] = np.arange(length + 1)
    moved = np.full(length + 1, -1, np.int32)
    moved[place[1:]] = place[np.array(heads[1:], dtype=int)]
    return np.array(tags)[order][1:], moved


def _move(tags, heads, rng):
    """The sentence with one word put elsewhere."""
    n = len(tags)
    old, new = rng.integers(1, n + 1, 2)
    order = np.delete(np.arange(n + 1), old)
    order = np.insert(order, new, old)
    place = np.empty(n + 1, dtype=int)
    place[order] = np.arange(n + 1)
    moved = np.full(n + 1, -1, np.int32)
    moved[place[1:]] = place[heads[1:]]
    return tags[order[1:] - 1], moved
