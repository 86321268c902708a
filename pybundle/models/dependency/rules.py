"""Which relations an arc may have, by the tags of head and word and the direction."""

from __future__ import annotations

import numpy as np

from ...core.exceptions import ParameterError
from ...core.validation import integer_array
from .templates import ROOT

MOST_TAGS = 255


class RelationRules:
    """The relations that arcs may have; see `allowed` of `Dependency.hashed`.

    Parameters
    ----------
    n_relations : int
    column : int, or None
        Number of the attribute that is the tag; None if all words have the same tag.
    allowed : array of int, shape (n_rules, 4), or None
    """

    def __init__(self, n_relations, column=None, allowed=None):
        self._column, R = column, n_relations
        rules = np.zeros((0, 4), np.int64) if allowed is None else integer_array("allowed", allowed)
        if rules.ndim != 2 or rules.shape[1] != 4 or (allowed is not None and not len(rules)):
            raise ParameterError(f"allowed must have shape (n_rules, 4), with at least one rule, got {rules.shape}")
        is_left = (rules[:, 2] == 0) & (rules[:, 0] != ROOT)
        wrong = np.flatnonzero((rules[:, [0, 1, 3]] < [ROOT, 0, 0]).any(axis=1) | (rules[:, 3] >= R)
                               | ~(is_left | (rules[:, 2] == 1)))
        if len(wrong):
            raise ParameterError(f"allowed[{wrong[0]}] must be two tags, 0 or 1 (1 for the root), and a relation below "
                                 f"{R}, got {rules[wrong[0]].tolist()}")
        # without a column all tags are 0
        heads, words = (rules[:, :2] if column is not None else np.minimum(rules[:, :2], 0)).T
        self._tags = np.unique([*words, *heads[heads != ROOT]])
        if len(self._tags) > MOST_TAGS:
            raise ParameterError(f"allowed must hold at most {MOST_TAGS} tags, got {len(self._tags)}; take coarser "
                                 "ones, or join rare ones as DependencyParser does with min_count")
        K = len(self._tags) + 1         # kind K - 1 is a word whose tag has no rules, kind K is the root
        is_allowed = np.full((K + 1, K, 2, R), allowed is None)
        words = np.searchsorted(self._tags, words)
        heads = np.where(heads == ROOT, K, np.searchsorted(self._tags, heads))
        is_allowed[heads, words, rules[:, 2], rules[:, 3]] = True
        for under_root in (False, True) if allowed is not None else ():
            own = (heads == K) == under_root
            for word in range(K):
                # the rules are sorted by frequency, so argmax finds the most frequent one
                fitting = next(fits for fits in (own & (words == word), own, np.full(len(own), True)) if fits.any())
                table = is_allowed[K:, word] if under_root else is_allowed[:K, word]
                table[~table.any(axis=2), rules[fitting.argmax(), 3]] = True
        by_arc = np.zeros((K + 1, K + 1, 2, R), bool)       # column K is empty, as the root has no head
        by_arc[:, :K] = is_allowed
        counts = by_arc.sum(axis=3).ravel()
        self._first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._which = np.nonzero(by_arc.reshape(-1, R))[1].astype(np.int32)
        self._K = K

    def bind(self, values, starts):
        """Return `kinds`, `first` and `which` of `RelationArcs` for words with the attributes `values`."""
        kinds = np.full(starts[-1], self._K - 1, np.int32)
        if len(self._tags):
            tags = values[:, self._column] if self._column is not None else np.zeros(len(kinds), np.int64)
            places = np.searchsorted(self._tags, tags).clip(max=len(self._tags) - 1)
            kinds = np.where(self._tags[places] == tags, places, kinds).astype(np.int32)
        kinds[starts[:-1]] = self._K
        return kinds, self._first, self._which
