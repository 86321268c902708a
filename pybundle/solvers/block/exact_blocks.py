"""Blocks of examples whose labels can be enumerated: exact steps from scores, without stored planes."""

from __future__ import annotations

from operator import attrgetter

import numpy as np

from ...core.kept import check_array
from ...core.plane import Plane
from ...core.rounding import norm
from ...prox.of_norm import minimiser
from ..evidence.proof import of_labels
from ..problem.coordinates import inner
from ._label_blocks import set_capacity
from ._label_dual import LabelDual
from .best_scores import BestScores
from .centre_weight import CentreWeight
from .core import Core
from .intercepts import MovingIntercepts

VECTORS = 11    # number of vectors of length dim that a batch pass needs: measured
HELD = 12       # number of further vectors with a penalty: for V, thresholds and bounds of `PackedPoint`
LEAST_ENTRIES = 1_000_000       # with more stored entries of X, two threads sum the aggregate; they start in 0.1 ms
SHRINKS = 0.9   # `shrink` does nothing if its factor exceeds SHRINKS, that is if both lam hardly differ


class ExactBlocks(Core):
    """Core of `BlockMethod` for risks with exact blocks [Keerthi et al. 2008].

    The multipliers of example i lie in `c_i` times the simplex over its labels. A step sets them to the exact maximiser
    of the dual, from the scores of one row. The search works in the `search_precision` of the risk; certificates sum
    multipliers and compute scores in float64.

    A batch pass scores all examples at one point, and marks the active ones, which the next passes visit. Active are
    examples with several positive multipliers, and examples where another label scores higher than the label with the
    multiplier, or nearly as high. After the opening passes of the schedule, only batch passes look at all examples.
    With many labels the passes in between look at the working set of labels of an example, see `_label_blocks.pyx`.

    Parameters
    ----------
    risk : LinearRisk
        With an `engine`, see `has_exact_blocks`.
    problem : Problem
        Its penalty has equal squares; intercepts of classes may have no penalty.
    known : ndarray, shape (n, K), optional
        Multipliers of another run.

    Attributes
    ----------
    scores : BestScores
    visits, cached_visits : float
        Number of steps so far that looked at all labels, and that looked at working sets.
    """

    kept = ("scores", "_lam", "_kappa", "_centre", "_pulled", "_centre_weight", "_intercepts")

    def __init__(self, risk, problem, known=None):
        self.risk, self.n_examples, self.dim = risk, risk.n_examples, risk.dim
        self._intercepts = MovingIntercepts.of(problem, risk.examples)
        self._far = 0.0 if problem.means is None else norm(problem.means)
        self._dual = LabelDual(risk.engine, risk.search_precision, known if isinstance(known, np.ndarray) else None)
        self._aggregate = self._w = None        # computed when read; None again after a step
        self.scores = BestScores(risk.derive(precision="float64"), self._dual)
        squares = risk.examples.norms**2 if self._intercepts is None else self._intercepts.squares
        self._centre_weight = CentreWeight(risk, np.sqrt(squares))
        self.first_lam = self._centre_weight.first_lam

    def arrays(self):
        return {"dual": self._dual.get_state(), **super().arrays()}

    def restore(self, arrays):
        """Become the core that `arrays` described; the aggregate is summed again when it is needed."""
        known = arrays["dual"]
        super().restore({name: value for name, value in arrays.items() if name != "dual"})
        for vector in (self._centre, self._pulled):
            check_array("the centre", vector, (self.dim,))
        self._set_steps()
        if known["alpha"].dtype == self._dual.alpha.dtype:
            self._dual.set_state(known)
        else:               # the risk now works in another precision: start anew from the multipliers
            self._dual.restore(known["alpha"])

    @staticmethod
    def bytes_needed(risk, problem):
        """Return the number of bytes of multipliers, three arrays of scores, and points."""
        width = 4 if risk.search_precision == "float32" else 8
        each = (width + 24) * risk.n_scores + 4 * set_capacity(risk.engine) + 40
        vectors = VECTORS + HELD if problem.square is None else VECTORS
        return risk.n_examples * each + 8 * vectors * risk.dim

    @property
    def visits(self):
        return self._dual.visits + self.scores.visits

    cached_visits, nbytes = property(attrgetter("_dual.cached_visits")), property(attrgetter("_dual.alpha.nbytes"))

    def known(self):
        """Return the multipliers for another run, shape (n, K). Row i sums to c_i or, for one score, is in [0, c_i]."""
        return self._dual.alpha

    def default_kappa(self, lam):
        """Return the weight of `CentreWeight`."""
        return self._centre_weight.at(lam)

    # ------------------------------------------------------------------ the point
    @property
    def w(self):
        """The minimiser of penalty, proximal term and `<phi, w>`, shape (dim,), from sums in float64."""
        if self._w is None:
            self._w = self._minimiser(self.aggregate().slope)
        return self._w

    def _minimiser(self, phi):
        w = minimiser(phi, self._lam, self._kappa, self._pulled)
        return w if self._intercepts is None else self._intercepts.point(w)

    def shrink(self, lam):
        """Multiply the multipliers of a run with a larger lam by the best t <= 1.

        The dual value is at least `t B - t^2 |phi|^2 / (2 lam)`, which is largest at t = lam B / |phi|^2. If R is 0 at
        the minimiser, this point does not depend on lam, and t = lam / (lam before) leaves w where it is.
        """
        plane = self.aggregate()
        square, best = inner(plane.slope, plane.slope), lam * max(plane.offset, 0.0)
        if best < SHRINKS * square < np.inf:
            self._dual.restore(best / square * self._dual.alpha.astype(np.float64))
            self._aggregate = None

    def place(self, lam, kappa, centre):
        """Set lam, kappa and the centre; the multipliers do not change."""
        self._lam, self._kappa, self._centre, self._w = lam, kappa, centre, None
        self._pulled = centre if self._intercepts is None else self._intercepts.move(centre)
        self._dual.set_point(minimiser(self.aggregate().slope, lam, kappa, self._pulled), lam + kappa)
        self._set_steps()

    def _set_steps(self):
        """Pass intercepts without penalty on to the compiled steps."""
        if self._intercepts is not None:
            self._dual.set_intercepts(self._intercepts)
            self._dual.examples["square"] = self._intercepts.squares

    # ------------------------------------------------------------------ passes
    def oracle_pass(self, order):
        """Do exact block steps at the rows of `order`; return the sum of the block gaps before the steps."""
        self._aggregate = self._w = None
        return self._dual.visit(order)

    def cached_passes(self, rng, target, most, most_visits):
        """Do exact block steps at the active rows in random orders, on working sets of labels if labels are many.

        If these passes miss the target, the limit of `CentreWeight` is raised.
        """
        self._aggregate = self._w = None
        state = int(rng.integers(1 << 63))
        if not self._dual.visit_active(state, target, most, most_visits - self.scores.visits):
            self._centre_weight.raise_limit()

    def evaluate(self, search, w):
        """Do a batch pass at w and a line search between the best point and w; return `F(w)`."""
        return self.scores.evaluate(search, w)

    # ------------------------------------------------------------------ evidence
    def aggregate(self):
        """Return the `Plane` of the multipliers, summed in float64."""
        if self._aggregate is None:
            self._aggregate = summed(self._dual, self.risk, self._far)
        return self._aggregate

    def evidence(self, problem, risk, limits=None):
        """Return the `Proof` of the multipliers of labels."""
        if self.risk.oracle is None:        # a loss of one score has no labels
            return None
        return of_labels(risk, problem, self._dual.alpha, self.aggregate(), limits)

    def known_value(self, search):
        return self.scores.known_value(search)


def summed(dual, risk, far):
    """Return the `Plane` of the multipliers of a `LabelDual`; `far` is an argument of its method `aggregate`.

    If X is much larger than a slope, two threads sum, each into a slope of its own.
    """
    n, entries = risk.n_examples, risk.examples.storage[0].size
    half = n // 2
    ranges = [(0, half), (half, n)] if entries >= max(LEAST_ENTRIES, 4 * risk.dim) else [(0, n)]
    planes = list(risk.map_shards(lambda rows: dual.aggregate(*rows, far=far), ranges))
    slope = planes[0].slope
    for plane in planes[1:]:
        slope += plane.slope
    return Plane(sum(plane.offset for plane in planes), risk.examples.unscale(slope, risk.n_scores),
                 sum(plane.slope_error for plane in planes), sum(plane.offset_error for plane in planes))
