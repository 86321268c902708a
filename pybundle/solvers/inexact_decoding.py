"""Inexact decoding: how accurate the next decodings should be, and whether their errors are what keeps a gap open.

An oracle that decodes inexactly proves upper bounds on its maxima, and F is computed from them. The *inference* of a
point is the difference between the F of these bounds and the F of the labellings found there.
"""

from __future__ import annotations

import math

from ..core.kept import Kept

AIM = 0.3
"""The inference of the next pass should be at most this share of the gap."""
LEFT = 0.1
"""If steps could close at most this share of the gap, inexact decoding is what keeps the gap open."""
FALLING = 0.9
"""Decodings get better if the inference is at most this share of the inference before."""


class InexactDecoding(Kept):
    """The accuracy asked of inexact decodings, and the number of points in a row whose inference kept the gap open."""

    kept = ("n_left", "_last")      # `aim` sets `_asked` before each pass

    def __init__(self):
        self.n_left, self._asked, self._last = 0, math.inf, math.inf

    def aim(self, search):
        """Return the largest inference that the next pass should have, which is infinite before there is a gap."""
        self._asked = math.inf
        if search.gap < math.inf:
            rule = search.rule
            self._asked = AIM * max(search.gap, rule.tol * abs(search.fun), rule.atol)
        return self._asked

    def observe(self, search, inference):
        """Count a new point if its inference keeps the gap open, else start counting from 0."""
        is_left = inference > self._asked and inference > FALLING * self._last
        is_left = is_left and left_to_steps(search) <= LEFT * search.gap < math.inf
        self.n_left, self._last = self.n_left + 1 if is_left else 0, inference

    def leaves_gap(self):
        """Return whether inexact decoding keeps nearly all of the gap open, so that further steps do not help.

        Three points in a row must count, because better decodings may follow a poor one. A point does not count if its
        inference was as small as asked, or clearly smaller than that of the point before.
        """
        return self.n_left >= 3


def left_to_steps(search):
    """Return the part of the gap that steps can close: the gap minus the inference, but at least LEFT times the gap."""
    gap = search.gap
    return gap if search.inference == 0.0 else max(gap - search.inference, LEFT * gap)


def is_mostly_inference(search):
    """Return whether the inference is more than half of the gap."""
    return search.inference > 0.5 * search.gap
