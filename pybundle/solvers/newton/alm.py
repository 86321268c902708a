"""The augmented Lagrangian method with semismooth Newton steps, for hinge risks of enumerable labels or known planes.

It is the proximal point method on the dual. With multipliers alpha and a step length sigma, it repeats

    Phi(w) = lam/2 |w|^2 + max_a sum_i <a_i, u_i(w)> - |a_i - alpha_i|^2 / (2 sigma),   alpha <- a(w*),  w* = argmin Phi

Phi is once differentiable, and quadratic as long as no a_i changes its face. Damped Newton steps minimise Phi; only
examples on a face of two labels or more contribute to the Hessian [Li, Sun, Toh 2018]. Every step yields feasible
multipliers, which prove a lower bound, and scores, which allow an exact line search for F from the best point.
"""

from __future__ import annotations

import numpy as np

from ...core.exceptions import NumericalError
from ...core.kept import check_array
from ...runtime.result import Status
from ..evidence.proof import of_labels
from ..run import Run
from .directions import LARGEST_RANK, NewtonDirection

FRACTION = 0.1          # Phi is minimised until |grad|^2 / (2 lam) is this fraction of the gap
DECREASE = 1e-4         # Armijo's constant
SHORTEST = 1e-6         # a Newton step shorter than this fraction shows that rounding errors prevent a decrease of Phi
SAMPLE = 16384          # maximum number of examples in a Hessian; more examples on faces, as at first, are sampled
FIRST_SIGMA = 1e-9      # in units of lam / Rbar^2: the first step gives value and bound, and hardly moves multipliers
LARGEST_SIGMA = 1e7     # in units of lam / Rbar^2: with a larger sigma, rounding of scores would move the multipliers


class AugmentedLagrangian(Run):
    """The augmented Lagrangian method on the risk of some `Multipliers`.

    Parameters
    ----------
    search : Search
        Its penalty is a square without constraints on signs.
    multipliers : LabelMultipliers or PlaneMultipliers
    sigma : float or None
        First step length of the proximal point method; None means `lam / Rbar^2 / sqrt(gap)`, where Rbar^2 is the mean
        of |psi|^2, and gap the relative gap at the start, at most 1. Runs from the truths have about such a sigma when
        they reach this gap.
    growth : float
        Factor of sigma after each proximal step.
    largest_rank, max_products : int
        The arguments `largest_rank` and `max_iter` of `NewtonDirection`.
    """

    kept = "alpha", "best", "sigma", "_point", "_scores", "_best_scores", "_first_norm", "_newton"
    patience = 50

    def __init__(self, search, multipliers, sigma=None, growth=1.5, largest_rank=LARGEST_RANK, max_products=60):
        super().__init__(search)
        self.multipliers, self.lam, self.growth = multipliers, self.problem.square.lam, growth
        # if X is 0, any unit serves, but LARGEST_SIGMA times the unit must be finite
        self._unit = self.lam / max(self.multipliers.squared_radius, 1e-280 * max(self.lam, 1.0))
        self.sigma, self._given_sigma = sigma or self._unit, sigma
        limit = self.settings.memory_limit
        if limit is not None:
            largest_rank = min(largest_rank, int(np.sqrt(limit / 8.0)))
        self._newton = NewtonDirection(self.lam, self.multipliers.row_size, largest_rank, max_products)
        self._point = self._scores = self._best_scores = self._step = self._gradient = None
        self._first_norm = 0.0
        self.best = -np.inf, None           # largest bound found, and its multipliers

    def restore(self, arrays):
        super().restore(arrays)
        self.multipliers.risk = self.risk       # the risk in the precision of the search
        shape = self.multipliers.truth().shape
        check_array("the point", self._point, (self.risk.dim,))
        check_array("multipliers", self.alpha, shape, low=0.0)
        for scores in (self._scores, self._best_scores):
            check_array("scores", scores, shape)
        self._propose()                 # recomputes step, gradient and bound from the restored arrays

    # ------------------------------------------------------------------ start, step
    def start(self, w0, state=None):
        """Start at w0 from the truths, or at the best point of another run from its multipliers, if any."""
        w0, blocks = self.search.take(w0, state), None if state is None else state.blocks
        known = isinstance(blocks, np.ndarray)
        self.alpha = self.multipliers.check(blocks) if known else self.multipliers.truth()
        self._point, self._scores = w0, self._score(w0)
        self._take(self.multipliers.step(self.alpha, self._scores, FIRST_SIGMA * self._unit))
        value = self._observe()
        self.sigma = min(self.sigma, LARGEST_SIGMA * self._unit)        # another run may have left a larger sigma
        if self._given_sigma is None:
            gap = min(max(self.search.gap / max(self.search.fun, 1e-300), 1e-12), 1.0)
            self.sigma = self._unit / np.sqrt(gap)
        self._advance()
        self.search.log(value)

    def iterate(self):
        """Do a Newton step, and a proximal step if Phi is near its minimum; return a Status if the run is over."""
        search = self.search
        self.trace.n_iter += 1
        with search.working("qp"):
            faces = self.multipliers.faces(self._step, SAMPLE)
            norm = float(np.linalg.norm(self._gradient))
            tol = min(0.1, 0.3 * np.sqrt(norm / max(self._first_norm, 1e-300)))
            direction, n_products = self._newton(faces, self._gradient, self.sigma, tol)
        self.trace.n_passes += n_products * faces.n_rows / self.risk.n_examples
        length = self._line_search(direction)
        search.log(self._observe())
        if search.is_close():
            return Status.CONVERGED
        excess = float(self._gradient @ self._gradient) / (2.0 * self.lam)
        if excess <= FRACTION * search.gap or length < SHORTEST:
            self.sigma = min(self.growth * self.sigma, max(self.sigma, LARGEST_SIGMA * self._unit))
            self.alpha = self._step.alpha
            self._advance()
        return None

    def describe(self):
        return f"augmented Lagrangian from sigma = {self.sigma:.3g}"

    def state(self):
        return self.search.state(blocks=self._step.alpha)

    def evidence(self, risk):
        if not risk.has_exact_blocks:
            return None
        alpha = self.best[1] if self.best[1] is not None else self.alpha
        support = np.count_nonzero(alpha > 0.0, axis=1).astype(np.int32)
        return of_labels(risk, self.problem, alpha, self.multipliers.aggregate(alpha, support))

    def to_float64(self):
        """Compute scores in float64 from now on."""
        self.multipliers.risk = self.risk
        self._scores, self._best_scores = self._score(self._point), self._score(self.search.w)
        self._propose()

    # ------------------------------------------------------------------ inside
    def _score(self, w):
        if not np.isfinite(w).all():
            raise NumericalError(f"w overflows for {self.problem.penalty}; use a larger lam, or scale the data")
        with self.search.working("oracle", passes=1):
            return self.risk.scores(w).astype(np.float64, copy=False)

    def _advance(self):
        # begins to minimise Phi for new multipliers alpha
        self._propose()
        self._newton.restart()
        self._first_norm = float(np.linalg.norm(self._gradient))

    def _propose(self):
        # computes a(w), the gradient of Phi and a lower bound at the current point
        self._take(self.multipliers.step(self.alpha, self._scores, self.sigma))

    def _take(self, step):
        self._step = step
        plane = self.multipliers.aggregate(step.alpha, step.support)
        self._gradient = self.lam * self._point + plane.slope
        bound = self.search.bound_from(plane)
        if bound.value > self.best[0]:
            self.best = bound.value, step.alpha
        self.search.offer(bound)

    def _line_search(self, direction):
        # halves the step until Phi falls by a fraction of the predicted decrease; all trials need one pass together,
        # as scores are affine
        change = self._score(direction)
        slope, t = float(self._gradient @ direction), 1.0
        value = self.problem.value(self._point) + self._step.smooth
        while True:
            point, scores = self._point + t * direction, self._scores + t * change
            step = self.multipliers.step(self.alpha, scores, self.sigma)
            reached = self.problem.value(point) + step.smooth
            if reached <= value + DECREASE * t * slope + 1e-13 * abs(value) or t < SHORTEST:
                break
            t *= 0.5
        self._point, self._scores = point, scores
        self._take(step)
        return t

    def _observe(self):
        # reports the best point of the segment from the best point so far to the current point
        search, value = self.search, self.problem.value(self._point) + self._step.risk
        if value < search.fun:
            search.observe(self._point, self._step.risk)
            self._best_scores = self._scores
            return value
        move = self._point - search.w
        t, risk_value = self.risk.line_search(self._best_scores, self._scores,
                                              *self.problem.along(search.w, self._point, move))
        if t > 0.0:
            scores = self._best_scores + t * (self._scores - self._best_scores)
            point = search.w + t * move
            if self.problem.value(point) + risk_value < search.fun:
                search.observe(point, risk_value)
                self._best_scores = scores
        return value
