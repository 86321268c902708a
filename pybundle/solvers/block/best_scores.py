"""The scores at the best point of a search, from which a line search and the value of that point follow."""

from __future__ import annotations

import numpy as np

from ...core.kept import Kept, check_array, check_float
from ...core.rounding import UNIT
from ...risks.partition import SHARD_ROWS


class BestScores(Kept):
    """Scores of all examples at the best point, which batch passes move, for `ExactBlocks`.

    Parameters
    ----------
    risk : LinearRisk
        Works in float64.
    dual : LabelDual
        Sums losses at scores, and marks examples.

    Attributes
    ----------
    visits : float
        Examples visited by passes at a point.
    """

    kept = ("visits", "_scores", "_version", "_reach")

    def __init__(self, risk, dual):
        self._risk, self._dual, self.visits = risk, dual, 0.0
        self._scores = None
        self._version = None        # of the best point that they belong to; None while they change
        self._spare = None          # an array for the next scores
        self._reach = 0.0           # scores are known up to reach |x_i|

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
            # a warm start, the run in float32 or a probe found the best point: its scores take a pass
            self._scores, self._reach = self._pass(search.w), self._reach_of(search.w)
            self._version = search.version
        best = search.w
        step = w - best
        t, risk_value = self._risk.line_search(self._scores, scores, *search.problem.along(best, w, step))
        point = np.multiply(step, t, out=step)
        point += best
        # exactly w at the end of the segment, else within bounds that rounding may have crossed
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
        """Return R at the best point and a bound on its rounding error from the scores at hand, or None without scores.

        A score with what the loss adds to it is off by at most `reach |x_i|`; a loss takes two of them, times the
        steepest slope. A sum of n losses `c_i l_i` is off by n + 8 roundings of its terms and of the targets.
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
