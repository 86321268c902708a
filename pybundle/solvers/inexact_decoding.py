"""Inexact decoding: how accurate the decodings of the next pass should be, and whether they are what leaves the gap.

An oracle that decodes inexactly proves upper bounds of its maxima. Its values are these bounds; the *inference* of a
point is how far they lie above the values of the labellings found there.
"""

from __future__ import annotations

import math

from ..core.kept import Kept

AIM = 0.3
"""Share of the gap that the upper bounds of inexact decodings may leave."""
LEFT = 0.1
"""Largest share of the gap that steps could still close where inexact decoding is said to leave the gap."""
FALLING = 0.9
"""Inexact decodings that leave at most this share of what the ones before left are getting better."""


class InexactDecoding(Kept):
    """What a search has asked of inexact decodings, and how often in a row they were what left the gap."""

    kept = ("n_left", "_last")

    def __init__(self):
        self.n_left, self._asked, self._last = 0, math.inf, math.inf

    def aim(self, search):
        """Return how much of the gap the decodings of the next pass may leave; infinite while there is no gap."""
        self._asked = math.inf
        if search.gap < math.inf:
            rule = search.rule
            self._asked = AIM * max(search.gap, rule.tol * abs(search.fun), rule.atol)
        return self._asked

    def observe(self, search, inference):
        """Count the inference at a new point."""
        is_left = inference > self._asked and inference > FALLING * self._last
        is_left = is_left and left_to_steps(search) <= LEFT * search.gap < math.inf
        self.n_left, self._last = self.n_left + 1 if is_left else 0, inference

    def leaves_gap(self):
        """Return whether inexact decoding leaves nearly all of the gap, so that further steps do not help.

        It takes three values of F in a row, because a poor decoding may be followed by better ones. Those do not count
        whose decodings were as close as they should be, or clearly closer than those before.
        """
        return self.n_left >= 3


def left_to_steps(search):
    """Return the part of the gap that inexact decoding does not leave, but at least the share LEFT of the gap."""
    gap = search.gap
    return gap if search.inference == 0.0 else max(gap - search.inference, LEFT * gap)


def is_mostly_inference(search):
    """Return whether inexact decoding leaves more than half of the gap."""
    return search.inference > 0.5 * search.gap
