"""Method "newton": Newton steps for smooth risks of one score, with a lower bound from planes.

The loop is that of `smooth_run.py`. A step approximately minimises the quadratic model of R plus the penalty,

    z = argmin <a, z - w> + (z - w)' R''(w) (z - w) / 2 + Omega(z),

and searches the segment from w to z [Lee, Sun, Saunders 2014]. The accuracy of z increases near the minimum of F. The
search uses the scores of both ends and a parabola above the penalty, and so costs O(n) and no pass.

With many columns coordinate descent minimises the model; it leaves out columns that the l1 norm or a bound clearly
holds in place. After a short step the second derivatives d_i of the losses get a larger lower limit, since a model with
many d_i = 0 is flat and has its minimum far away. The derivatives of the losses in the model,
`beta_i + d_i <x_i, z - w>`, are multipliers that prove a bound, too: they are clipped to the domains of the conjugates
of the losses, and scaled into the domain of Omega*.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...core.kept import Kept, check_array, check_float
from ...core.plane import Plane
from ...core.protocols import HESSIAN
from ...core.rounding import UNIT
from ...proof import Multipliers
from ...runtime.lower_bound import LowerBound
from ..evidence.limits import with_limits
from ..evidence.proof import WIDER, Proof
from .quadratic import FEW, Hessians, Sweeps, bytes_of_models, minimise, unrest
from .quasi_newton import Orthants
from .smooth_run import SmoothRun

ARMIJO = 1e-4
LOOSE = 0.3         # a model is minimised until its gradient has fallen to this fraction, or to a smaller fraction
TINY = 1e-24        # predicted descent below this fraction of |F| is due to rounding
LONG_ROW = 128      # in sparse rows with more entries, products of columns cost more than the passes that steps save
DEAR, CHEAP = 4.0, 2.0      # the method starts at once if a step costs at most so many passes with / without l1 norm
NEAR = 0.1          # a weight 0 may move if |slope| >= (1 - reach) l1; reach is twice the relative gap, at most NEAR
SHARP = 0.1         # coordinate descent reduces the sum of the violations of optimality to this fraction
EAGER = 0.25        # value of `NewtonSteps.share` after the first model that sweeps alone have not minimised
FLAT, SHORT = 1e-12, 0.3     # minimum of `NewtonSteps.flat`; a step t < SHORT makes `flat` larger


class Newton(SmoothRun):
    """A run of the Newton method, with the steps of `NewtonSteps`."""

    patience = 20

    def __init__(self, search):
        super().__init__(search)
        self.steps = NewtonSteps(self.orthants() or Orthants(), self.risk.dim)
        self.steps.flat = 1.0 if self.risk.is_regression else FLAT       # as most residuals are large at first
        self._hessians = self._scores = self._beta = None

    def trial(self):
        """Return the next point to evaluate, or None if no descent is left."""
        gap = self.search.gap / max(abs(self.search.fun), 1e-300)
        x = self.steps.trial(self._model, self._line_search, min(2.0 * gap, NEAR))
        self.trace.n_passes += self.steps.work
        self.steps.work = 0.0
        swept, self.steps.sweeps = self.steps.sweeps, None
        if swept is not None:
            self._offer_multipliers(self._scores, swept.weights * swept.u)
        elif gap < NEAR and self._is_rounded():
            self._offer_multipliers(self.risk.scores(self.problem.coordinates.outer(self.steps.x)), 0.0)
        return x

    def _is_rounded(self):
        """Return whether there is an l1 norm, and rounding of the newest plane makes up over a tenth of the gap."""
        search = self.search
        return bool(np.any(self.problem.entries.l1)) and (
            search.bound_from(replace(self.newest, slope_error=0.0)).value - search.bound.value > 0.1 * search.gap)

    def describe(self):
        return f"about {bytes_of_models(self.risk.examples, self.risk.dim) / 2**20:.0f} MB for models"

    def _model(self, x):
        """Return the quadratic model of R at x: its Hessian with few columns, else `Sweeps` over columns."""
        risk = self.risk
        with self.search.working("oracle"):
            self._scores = risk.scores(self.problem.coordinates.outer(x))
            weights = risk.second_derivatives(self._scores[:, 0])
            if risk.dim > FEW or risk.is_regression:
                weights = np.maximum(weights, self.steps.flat * risk.sample_weight)
            return self._data().on(weights)

    def _line_search(self, x, z, change):
        """Return the t in [0, 1] that minimises R plus a parabola above the penalty at `x + t (z - x)`.

        `change` is the change of the scores from x to z. If it is None, the scores are computed, in one pass.
        """
        risk, problem = self.risk, self.problem
        v, w = problem.coordinates.outer(x), problem.coordinates.outer(z)
        if change is None:
            first, last = (risk.scores(point).astype(np.float64) for point in (v, w))
            self.steps.work += 1.0
        else:
            first = self._scores.astype(np.float64)
            last = first + change[:, None]
        square = float(np.sum(problem.moduli * (z - x) ** 2))
        return risk.line_search(first, last, problem.value(w) - problem.value(v) - 0.5 * square, square)[0]

    def evidence(self, risk):
        found = super().evidence(risk)
        if self._beta is None:
            return found
        within, limits = with_limits(self.search, risk)
        beta, plane = self._plane(self._beta)
        wider = replace(plane, slope_error=2.0 * WIDER * plane.slope_error,         # a verifier forms longer sums
                        offset_error=64.0 * WIDER * UNIT * abs(plane.offset))
        bound = LowerBound.of(self.problem, wider, within)
        is_better = found is None or found.bound.value < bound.value
        return Proof(Multipliers(beta), bound, None, limits) if is_better else found

    def _offer_multipliers(self, scores, change):
        """Offer the bound of multipliers, which are the derivatives of the losses at `scores` plus their `change`."""
        search, risk = self.search, self.risk
        beta = risk.sample_weight * risk.multipliers(scores[:, 0]) + self._signs() * change
        beta, plane = self._plane(beta)
        self.trace.n_passes += 0.5
        t = self.problem.scaling(plane, search.limits)
        if t < 1.0:     # as conjugates are convex, the multipliers t beta prove more than t times the plane of beta
            beta, offset = risk.dual_point(t * beta)
            plane = replace(plane, offset=offset, slope=t * plane.slope)    # errors of `pull` cover this rounding
        if search.offer(search.bound_from(plane)) and self.settings.record is not None:
            self._beta = beta

    def _plane(self, beta):
        """Return the multipliers beta, made feasible, and their `Plane`."""
        beta, offset = self.risk.dual_point(beta)
        phi, error, last = self._data().pull(self._signs() * beta)
        return beta, Plane(offset, phi, self.problem.coordinates.norms(error, lambda: last))

    def _signs(self):
        return 1.0 if self.risk.is_regression else self.risk.labels

    def _data(self):
        if self._hessians is None:
            moduli = np.broadcast_to(self.problem.moduli, (self.risk.dim,))
            self._hessians = Hessians(self.risk, self.problem.means, moduli)
        return self._hessians


class NewtonSteps(Kept):
    """The iterate x, the minimum of its model, and the line search in progress, with methods as in `QuasiNewtonSteps`.

    Parameters
    ----------
    orthants : Orthants
        Bounds and l1 norm of the objective.
    dim : int
    rounding : float
        Relative rounding error of values.

    Attributes
    ----------
    work : float
        Passes over the data that models have cost since the caller set this number to 0.
    flat : float
        Lower limit of the second derivatives of losses of weight 1, in models of many columns and in regression. Where
        all derivatives are 0, steps would be far too long. At 1 the model is an upper bound of the risk.
    share : float
        Sweeps may cost this fraction of a Newton step before such a step is made: 1 at first, later EAGER.
    sweeps : Sweeps or None
        The last model, if coordinate descent has minimised it; the caller sets it to None after use.
    """

    kept = ("x", "fun", "gradient", "rounding", "work", "flat", "share", "_direction", "_t", "_slope", "_first",
            "_n_models", "_is_rejected")

    def __init__(self, orthants, dim, rounding=1e-12):
        self.rounding, self.work, self.sweeps = rounding, 0.0, None
        self.orthants = Orthants(*(np.array(np.broadcast_to(array, (dim,)), dtype=np.float64) for array in orthants))
        l1, lower, upper = self.orthants
        self._has_kinks = bool(l1.any() or np.isfinite(lower).any() or np.isfinite(upper).any())
        self._direction, self._t, self._slope, self._first = None, 1.0, 0.0, 0.0
        self.flat, self.share, self._n_models, self._is_rejected = FLAT, 1.0, 0, False

    def begin(self, x, fun, gradient):
        """Make x the iterate, with its value and gradient."""
        self.x, self.fun, self.gradient, self._direction, self._is_rejected = x, fun, gradient, None, False

    def trial(self, model_at, search, reach):
        """Return the next point to evaluate, or None if no descent is left.

        `model_at(x)` returns the model at x. `search(x, z, change)` returns the best t for the point `x + t (z - x)`;
        `change` is the change of the scores. Coordinate descent may move a weight 0 if |slope| >= (1 - reach) l1.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if self._direction is None and not self._aim(model_at, reach):
                return None
            if self.sweeps is not None or self._is_rejected:
                self._t = search(self.x, self._within(1.0), None if self.sweeps is None else self.sweeps.u)
        return self._within(self._t)

    def _within(self, t):
        """Return x + t direction, clipped, as rounding may carry the point out of the bounds to infinite F."""
        return np.clip(self.x + t * self._direction, self.orthants.lower, self.orthants.upper)

    def update(self, x, fun, gradient):
        """Receive value and gradient at the trial x, which is the next iterate if F has fallen by enough.

        A first rejection leads to another trial by line search; after a second rejection the result is False.
        """
        if self._direction is None or fun <= self.fun + ARMIJO * self._t * self._slope + self.rounding * abs(self.fun):
            if self._t == 1.0:
                self.flat = max(0.1 * self.flat, FLAT)
            elif self._t < SHORT:
                self.flat = min(max(10.0 * self.flat, 1e-3), 1.0)
            self.begin(x, fun, gradient)
            return True
        is_first, self._is_rejected = not self._is_rejected, True
        return is_first

    def check(self, shape):
        """Raise ValueError if an array does not have this shape."""
        for name, vector in {"x": self.x, "gradient": self.gradient, "direction": self._direction}.items():
            if vector is not None:
                check_array(name, vector, shape)
        for name in ("fun", "_slope"):
            check_float(name, getattr(self, name))
        for name in ("rounding", "work", "_t", "_first", "flat", "share"):
            check_float(name, getattr(self, name), 0.0)

    def _aim(self, model_at, reach):
        """Set the direction from x to the minimum of the model; return False if F does not fall along it."""
        x, l1 = self.x, self.orthants.l1
        low, high, slopes = self.orthants.at(x, self.gradient)
        rest = unrest(x, self.gradient + slopes, low, high)
        norm = float(np.linalg.norm(rest))
        self._first = max(self._first, norm)
        if norm == 0.0:
            return False
        model, z = model_at(x), x.copy()
        if isinstance(model, Sweeps):
            self._n_models += 1
            near = (x > low) & (x < high) | (rest != 0.0) | (np.abs(self.gradient) >= (1.0 - reach) * l1)
            if model.descend(np.flatnonzero(near), z, self.gradient, self.orthants,
                             SHARP * float(np.abs(rest).sum()), self._n_models, self.share):
                self.share = EAGER
            self.sweeps, work = model, model.work
        else:
            minimise(model, z, self.gradient.copy(), self.orthants if self._has_kinks else None,
                     min(LOOSE, np.sqrt(norm / self._first)))
            work = 1.0
        self.work += work
        d = z - x
        self._t, self._slope = 1.0, float(self.gradient @ d) + float(l1 @ (np.abs(z) - np.abs(x)))
        if not -np.inf < self._slope < -TINY * abs(self.fun):
            return False
        self._direction = d
        return True


def patience_before(risk, problem):
    """Return after how many slow passes of "lbfgs" this method takes over; 0 means at once, None never.

    The answer follows from sizes alone. With few columns a step multiplies all pairs of columns, at the cost of `price`
    passes. With an l1 norm a step is worth a few passes. Without l1 norm "lbfgs" may end sooner, so it gets the price
    of a step and five more passes to halve the gap. With many columns the method pays off only if an l1 norm makes most
    weights 0. If limits of weights without penalty have no closed form, they need planes at more points than this
    method visits, and the answer is None.
    """
    if not HESSIAN.holds(risk):
        return None
    examples = risk.examples
    if problem.is_free.any() and problem.anchors is None and problem.score_limits is None:
        return None
    has_l1 = bool(np.any(problem.entries.l1))
    width = examples.X.nnz / risk.n_examples if examples.is_sparse else risk.dim
    if risk.dim <= FEW and width <= (LONG_ROW if examples.is_sparse else FEW):
        price = width / 8.0 if examples.is_sparse else width / 40.0
        return 0.0 if price <= (DEAR if has_l1 else CHEAP) else 5.0 + price
    return 0.0 if has_l1 and (examples.is_sparse or risk.n_examples <= FEW) else None
