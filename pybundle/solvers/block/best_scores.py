"""The scores at the best point of a search. They give the value of that point, and a line search starts from them."""

from __future__ import annotations

import numpy as np

from ...core.kept import Kept, check_array, check_float
from ...core.rounding import UNIT
from ...risks.partition import SHARD_ROWS


class BestScores(Kept):
    """Scores of all examples at the best point, which a line search after a batch pass moves; for `ExactBlocks`.

    Parameters
    ----------
    risk : LinearRisk
        It works in float64.
    dual : LabelDual
        It sums losses at scores, and marks the examples that the next passes should visit.

    Attributes
    ----------
    visits : float
        Number of examples that batch passes have scored.
    """

    kept = ("visits", "_scores", "_version", "_reach")

    def __init__(self, risk, dual):
        self._risk, self._dual, self.visits = risk, dual, 0.0
        self._scores = None
        self._version = None        # version of the best point that has `_scores`; None while the scores change
        self._spare = None          # an array that the next pass overwrites
        self._reach = 0.0           # the error of the scores of example i is at most reach |x_i|

    def restore(self, arrays):
        super().restore(arrays)
        if self._scores is not None:
            check_array("scores", self._scores, (self._risk.n_examples, self._risk.n_scores))
        check_float("the reach", self._reach, 0.0)

    def evaluate(self, search, w):
        """Do a batch pass at w and a line search between the best point and w; return `F(w)`."""
        scores = self._pass(w, self._spare)
        self._spare = None
        risk_value = self.mark(scores)
        reach = self._reach_of(w)
        if self._version == search.version:
            fun = search.problem.value(w) + risk_value
        else:
            fun = search.observe(w, risk_value)
            if search.w is w:
                self._scores, self._reach, self._version = scores, reach, search.version
                return fun
            # a warm start, the run in float32 or a probe has found the best point, so its scores need another pass
            self._scores, self._reach = self._pass(search.w), self._reach_of(search.w)
            self._version = search.version
        best = search.w
        step = w - best
        t, risk_value = self._risk.line_search(self._scores, scores, *search.problem.along(best, w, step))
        point = np.multiply(step, t, out=step)
        point += best
        # at t = 1 the point is exactly w; other points are projected, as rounding may have crossed bounds
        point = w if t == 1.0 else search.problem.project(point)
        if t > 0.0:
            search.observe(point, risk_value)
        if search.w is point:
            self._version = None
            self._reach = (1.0 - t) * self._reach + t * reach + 16.0 * UNIT * (self._largest(w) + self._largest(best))
            scores -= self._scores              # S0 + t (S1 - S0), in place
            scores *= t
            self._scores += scores
            self._version = search.version
        self._spare = scores
        return fun

    def _pass(self, w, out=None):
        scores = self._risk.scores(w, out)
        self.visits += self._risk.n_examples
        return scores

    def mark(self, scores):
        """Return R at the point with these scores; mark the examples that the next passes should visit."""
        def shard(first):
            return self._dual.mark(scores[first:first + SHARD_ROWS], first)

        return sum(self._risk.map_shards(shard, range(0, self._risk.n_examples, SHARD_ROWS)))

    def known_value(self, search):
        """Return R at the best point and a bound on its rounding error, or None if the scores belong to another point.

        A score, including the cost of its label, is off by at most `reach |x_i|`. A loss changes by the errors of two
        scores, times the steepest slope. The sum of n losses `c_i l_i` adds n + 8 roundings of its terms and targets.
        """
        if self._scores is None or self._version != search.version:
            return None
        value, weighted = self._dual.value(self._scores), self._risk.sample_weight @ self._risk.examples.norms
        error = 2.02 * self._dual.steepest * self._reach * float(weighted) + UNIT * (self._risk.n_examples + 8) * (
            value + self._dual.target_sum)
        return value, error

    def _largest(self, w):
        W = w.reshape(self._risk.n_scores, -1)
        return float(np.sqrt(np.einsum("kj,kj->k", W, W).max()))

    def _reach_of(self, w):
        return 1.02 * UNIT * self._dual.score_terms * self._largest(w)
