"""Blocks of examples whose labels can be enumerated: exact steps from scores, without stored planes."""

from __future__ import annotations

import numpy as np

from ...core.kept import check_array, check_float
from ...core.plane import Plane
from ...core.rounding import UNIT, norm
from ...prox.of_norm import minimiser
from ...risks.partition import SHARD_ROWS
from ..evidence.proof import of_labels
from ..problem.coordinates import inner
from ._label_blocks import set_capacity
from ._label_dual import LabelDual
from .centre_weight import CentreWeight
from .core import Core
from .intercepts import MovingIntercepts

VECTORS = 11    # vectors of length dim in a batch pass: measured
HELD = 12       # further vectors with a penalty: the point before threshold and bounds, and these
LEAST_ENTRIES = 1_000_000       # stored entries of X from which two threads sum the aggregate: a start takes 0.1 ms
SHRINKS = 0.9   # `shrink` scales only by factors below this: with nearly the same lam multipliers stay


class ExactBlocks(Core):
    """Core of `BlockMethod` for risks with exact blocks [Keerthi et al. 2008].

    The multipliers of example i live on `c_i` times the simplex of its labels; a step finds their exact maximiser from
    the scores of one row. The search works in the `search_precision` of the risk; certificates sum multipliers and
    compute scores in float64.

    A batch pass shows which examples the next passes should visit: those whose multipliers are no vertex, and those
    for which another label scores higher than the present one, or nearly so. After the opening passes of the schedule
    no other pass over all examples is needed. With many labels the passes in between look at the working set of labels
    of each example alone, see `_label_blocks.pyx`.

    Parameters
    ----------
    risk : LinearRisk
        With an `engine`, see `has_exact_blocks`.
    problem : Problem
        Its penalty has equal squares; intercepts of classes may be free.
    known : ndarray, shape (n, K), optional
        Multipliers of another run.

    Attributes
    ----------
    n_examples, dim : int
    visits, cached_visits : float
        Visits of examples with all their labels so far, and with those of their working sets.
    """

    kept = ("_evaluated", "_scores", "_scored", "_reach", "_lam", "_kappa", "_centre", "_pulled", "_centre_weight",
            "_intercepts")

    def __init__(self, risk, problem, known=None):
        self.risk, self._exact = risk, risk.derive(precision="float64")
        self.n_examples, self.dim = risk.n_examples, risk.dim
        self._intercepts, self._means = MovingIntercepts.of(problem, risk.examples), problem.means
        self._dual = LabelDual(risk.engine, risk.search_precision, known if isinstance(known, np.ndarray) else None)
        self._evaluated = 0.0
        self._aggregate = self._w = None        # valid until the next step
        self._scores = None         # scores at the best point of the search, whose version is `_scored`
        self._scored = None         # None while `_scores` change
        self._spare = None          # an array for the next scores
        self._reach = 0.0           # `_scores` are known up to reach |x_i|
        squares = risk.examples.norms**2 if self._intercepts is None else self._intercepts.squares
        self._centre_weight = CentreWeight(risk, np.sqrt(squares))
        self.first_lam = self._centre_weight.first_lam

    def arrays(self):
        return {"dual": self._dual.get_state(), **super().arrays()}

    def restore(self, arrays):
        """Become the core that `arrays` described; the aggregate is summed again on use."""
        known = arrays["dual"]
        super().restore({name: value for name, value in arrays.items() if name != "dual"})
        if self._scores is not None:
            check_array("scores", self._scores, (self.n_examples, self.risk.n_scores))
        for vector in (self._centre, self._pulled):
            check_array("the centre", vector, (self.dim,))
        check_float("the reach", self._reach, 0.0)
        self._set_steps()
        if known["alpha"].dtype == self._dual.alpha.dtype:
            self._dual.set_state(known)
        else:               # the risk now works in another precision: start anew from the multipliers
            self._dual.restore(known["alpha"])

    @staticmethod
    def bytes_needed(risk, problem):
        """Return the bytes of multipliers, of three arrays of scores and of points."""
        width = 4 if risk.search_precision == "float32" else 8
        each = (width + 24) * risk.n_scores + 4 * set_capacity(risk.engine) + 40
        vectors = VECTORS if problem.is_of_norm else VECTORS + HELD
        return risk.n_examples * each + 8 * vectors * risk.dim

    @property
    def visits(self):
        return self._dual.visits + self._evaluated

    @property
    def cached_visits(self):
        return self._dual.cached_visits

    @property
    def nbytes(self):
        return self._dual.alpha.nbytes

    def known(self):
        """Return the multipliers for another run, shape (n, K), with sums c_i; within [0, c_i] for one score."""
        return self._dual.alpha

    def default_kappa(self, lam):
        """Return the weight of `CentreWeight`."""
        return self._centre_weight.at(lam)

    # ------------------------------------------------------------------ the point
    @property
    def w(self):
        """The minimiser of the penalty, the centre and `<phi, w>`, shape (dim,), from sums in float64."""
        if self._w is None:
            self._w = self._minimiser(self.aggregate().slope)
        return self._w

    def _minimiser(self, phi):
        w = minimiser(phi, self._lam, self._kappa, self._pulled)
        return w if self._intercepts is None else self._intercepts.point(w)

    def shrink(self, lam):
        """Multiply the multipliers of a run with a larger lam by the best t <= 1.

        The dual value is at least `t B - t^2 |phi|^2 / (2 lam)`, which is largest at t = lam B / |phi|^2. Once no loss
        is left, the minimiser does not depend on lam, and t = lam / (lam before) leaves w where it is.
        """
        plane = self.aggregate()
        square, best = inner(plane.slope, plane.slope), lam * max(plane.offset, 0.0)
        if best < SHRINKS * square < np.inf:
            self._dual.restore(best / square * self._dual.alpha.astype(np.float64))
            self._aggregate = None

    def place(self, lam, kappa, centre):
        """Set lam, kappa and the centre; the multipliers stay."""
        self._lam, self._kappa, self._centre, self._w = lam, kappa, centre, None
        self._pulled = centre if self._intercepts is None else self._intercepts.move(centre)
        self._dual.set_point(minimiser(self.aggregate().slope, lam, kappa, self._pulled), lam + kappa)
        self._set_steps()

    def _set_steps(self):
        """Pass free intercepts on to the steps."""
        if self._intercepts is not None:
            self._dual.set_intercepts(self._intercepts)
            self._dual.examples["square"] = self._intercepts.squares

    # ------------------------------------------------------------------ passes
    def oracle_pass(self, order):
        """Do exact block steps at the rows of `order`; return the sum of the block gaps before."""
        self._aggregate = self._w = None
        return self._dual.visit(order)

    def cached_passes(self, rng, target, most, most_visits):
        """Do exact block steps at the active rows in random orders, on working sets of labels if labels are many.

        If they miss the target, a centre that is lighter than usual gets heavier.
        """
        self._aggregate = self._w = None
        state = int(rng.integers(1 << 63))
        if not self._dual.visit_active(state, target, most, most_visits - self._evaluated):
            self._centre_weight.raise_limit()

    def evaluate(self, search, w):
        """Do a batch pass at w and a line search between the best point and w; return `F(w)`."""
        scores = self._exact.scores(w, self._spare)
        self._spare = None
        self._evaluated += self.n_examples
        risk_value = self._mark(scores)
        reach = self._reach_of(w)
        if self._scored == search.version:
            fun = search.problem.value(w) + risk_value
        else:
            fun = search.observe(w, risk_value)
            if search.w is w:
                self._scores, self._reach, self._scored = scores, reach, search.version
                return fun
            # a warm start, the run in float32 or a probe found the best point: its scores take a pass
            self._scores, self._reach = self._exact.scores(search.w), self._reach_of(search.w)
            self._scored = search.version
            self._evaluated += self.n_examples
        best = search.w
        step = w - best
        t, risk_value = self._exact.line_search(self._scores, scores, *search.problem.along(best, w, step))
        point = np.multiply(step, t, out=step)
        point += best
        # exactly w at the end of the segment, else within bounds that rounding may have crossed
        point = w if t == 1.0 else search.problem.project(point)
        if t > 0.0:
            search.observe(point, risk_value)
        if search.w is point:
            self._scored = None
            self._reach = (1.0 - t) * self._reach + t * reach + 16.0 * UNIT * (self._largest(w) + self._largest(best))
            scores -= self._scores              # S0 + t (S1 - S0), in place
            scores *= t
            self._scores += scores
            self._scored = search.version
        self._spare = scores
        return fun

    def _mark(self, scores):
        """Return R at the point with these scores; mark the examples that the next passes should visit."""
        def shard(first):
            return self._dual.mark(scores[first:first + SHARD_ROWS], first)

        return sum(self._exact.map_shards(shard, range(0, self.n_examples, SHARD_ROWS)))

    # ------------------------------------------------------------------ evidence
    def aggregate(self):
        """Return the `Plane` of the multipliers, summed in float64."""
        if self._aggregate is None:
            first, *other = self._exact.map_shards(self._sum, self._ranges())
            slope = first.slope
            for more in other:
                slope += more.slope
            planes = [first, *other]
            self._aggregate = Plane(
                sum(plane.offset for plane in planes), self.risk.examples.unscale(slope, self.risk.n_scores),
                sum(plane.slope_error for plane in planes), sum(plane.offset_error for plane in planes))
        return self._aggregate

    def evidence(self, problem, risk, limits=None):
        """Return the `Proof` of the multipliers of labels."""
        if self.risk.oracle is None:        # a loss of one score has no labels
            return None
        return of_labels(risk, problem, self._dual.alpha, self.aggregate(), limits)

    def _ranges(self):
        """Return ranges of rows, one for each thread: two if X is much larger than a second slope, else one."""
        n, entries = self.n_examples, self.risk.examples.storage[0].size
        half = n // 2
        return [(0, half), (half, n)] if entries >= max(LEAST_ENTRIES, 4 * self.dim) else [(0, n)]

    def _sum(self, rows):
        return self._dual.aggregate(*rows, far=0.0 if self._means is None else norm(self._means))

    def known_value(self, search):
        """Return R at the best point and a bound on its rounding error from the scores at hand, or None without scores.

        A score with what the loss adds to it is off by at most `reach |x_i|`; a loss takes two of them, times the
        steepest slope. A sum of n losses `c_i l_i` is off by n + 8 roundings of its terms and of the targets.
        """
        if self._scores is None or self._scored != search.version:
            return None
        value, weighted = self._dual.value(self._scores), self.risk.sample_weight @ self.risk.examples.norms
        error = 2.02 * self._dual.steepest * self._reach * float(weighted) + UNIT * (self.n_examples + 8) * (
            value + self._dual.target_sum)
        return value, error

    def _largest(self, w):
        W = w.reshape(self.risk.n_scores, -1)
        return float(np.sqrt(np.einsum("kj,kj->k", W, W).max()))

    def _reach_of(self, w):
        return 1.02 * UNIT * self._dual.score_terms * self._largest(w)
