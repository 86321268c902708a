"""Method "newton": Newton steps for smooth risks of one score, with a lower bound from planes.

The loop is that of `smooth_run.py`. A step minimises the quadratic model of R plus the penalty, about,

    z = argmin <a, z - w> + (z - w)' R''(w) (z - w) / 2 + Omega(z),

the more accurately the closer the iterate is to the minimum, and searches the segment from w to z [Lee, Sun, Saunders
2014]. With the scores of both ends a search costs O(n) and no pass, the penalty being replaced by a parabola above it.

With many columns coordinate descent minimises the model about, on the columns that are not held or nearly so. After a
short step second derivatives are raised: where most are 0 the model is flat, and its minimum far away. The multipliers
of the losses in the model, `beta_i + d_i <x_i, z - w>`, prove a bound, too, once clipped to where the conjugates are
finite, and scaled to where Omega* is.
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
LOOSE = 0.3         # a model is minimised until its gradient is that much smaller, at most
TINY = 1e-24        # relative descent along a step that is rounding
LONG_ROW = 128      # entries of a sparse row from which products of columns cost more than the passes that they save
DEAR, CHEAP = 4.0, 2.0      # passes that a step may cost to be made at once, with an l1 norm and without
NEAR = 0.1          # slopes that near l1, relatively, let a column move; twice the gap if that is less
SHARP = 0.1         # coordinate descent makes violations that much smaller
EAGER = 0.25        # `NewtonSteps.share` once sweeps have not been enough
FLAT, SHORT = 1e-12, 0.3     # least of `NewtonSteps.flat`, and a step that raises it


class Newton(SmoothRun):
    """A run of the method, with the steps of `NewtonSteps`."""

    patience = 20

    def __init__(self, search):
        super().__init__(search)
        self.steps = NewtonSteps(self.orthants() or Orthants(), self.risk.dim)
        self.steps.flat = 1.0 if self.risk.is_regression else FLAT       # most errors are large at first
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
        """Whether rounding of the newest plane, whose sums are long, hides much of the gap of a problem with l1 norms.
        """
        search = self.search
        return bool(np.any(self.problem.entries.l1)) and (
            search.bound_from(replace(self.newest, slope_error=0.0)).value - search.bound.value > 0.1 * search.gap)

    def describe(self):
        return f"about {bytes_of_models(self.risk.examples, self.risk.dim) / 2**20:.0f} MB for models"

    def _model(self, x):
        """Return the model at a point."""
        risk = self.risk
        with self.search.working("oracle"):
            self._scores = risk.scores(self.problem.coordinates.outer(x))
            weights = risk.second_derivatives(self._scores[:, 0])
            if risk.dim > FEW or risk.is_regression:
                weights = np.maximum(weights, self.steps.flat * risk.sample_weight)
            return self._data().on(weights)

    def _line_search(self, x, z, change):
        """Return where between x and z the sum of R and of a parabola above the penalty is least.

        Scores are formed here if their change is None.
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
        wider = replace(plane, slope_error=2.0 * WIDER * plane.slope_error,         # checks form longer sums
                        offset_error=64.0 * WIDER * UNIT * abs(plane.offset))
        bound = LowerBound.of(self.problem, wider, within)
        is_better = found is None or found.bound.value < bound.value
        return Proof(Multipliers(beta), bound, None, limits) if is_better else found

    def _offer_multipliers(self, scores, change):
        """Offer what the slopes of the losses at some scores prove, as multipliers, after a change of them."""
        search, risk = self.search, self.risk
        beta = risk.sample_weight * risk.multipliers(scores[:, 0]) + self._signs() * change
        beta, plane = self._plane(beta)
        self.trace.n_passes += 0.5
        t = self.problem.scaling(plane, search.limits)
        if t < 1.0:     # conjugates are convex: beta times t proves more than t times the plane
            beta, offset = risk.dual_point(t * beta)
            plane = replace(plane, offset=offset, slope=t * plane.slope)    # `pull` allows for both roundings
        if search.offer(search.bound_from(plane)) and self.settings.record is not None:
            self._beta = beta

    def _plane(self, beta):
        """Return feasible multipliers and their `Plane`."""
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
    """The iterate x, the minimum of its model, and the line search in progress; members as in `QuasiNewtonSteps`.

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
        Passes over the data for models since it was set to 0.
    flat : float
        Second derivatives of losses of weight 1 are at least this in models of many columns and in regression. Where
        all are 0, points would move a long way. With 1 a model is nowhere below the risk.
    share : float
        What sweeps may cost, as a share of a Newton step, before one follows; less after the first one.
    sweeps : Sweeps or None
        The last model, if coordinate descent has minimised it; the caller drops it.
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
        """Set the iterate x."""
        self.x, self.fun, self.gradient, self._direction, self._is_rejected = x, fun, gradient, None, False

    def trial(self, model_at, search, reach):
        """Return the next point to evaluate, or None if no descent is left.

        `model_at(x)` returns the model at x, and `search(x, z, change)` the best t between x and z with a
        given change of the scores. Coordinate descent moves columns whose slope is within `reach` of their l1 norms.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if self._direction is None and not self._aim(model_at, reach):
                return None
            if self.sweeps is not None or self._is_rejected:
                self._t = search(self.x, self.x + self._direction, None if self.sweeps is None else self.sweeps.u)
        return np.clip(self.x + self._t * self._direction, self.orthants.lower, self.orthants.upper)

    def update(self, x, fun, gradient):
        """Receive value and gradient at the trial x, which is the next iterate if F has fallen by enough.

        Return False if the search has failed.
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
        """Set the direction to the minimum of the model at x; return False if there is no descent."""
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
    """Return after how many slow passes of "lbfgs" the method should take over: 0 at once, None never.

    It follows from sizes alone. On few columns a step costs a product of columns, about `price` passes: with an l1 norm
    it is worth a few of them, without one "lbfgs" may be done before; it has the price of a step and five more passes
    to halve the gap. On many columns it needs an l1 norm that leaves few weights. Limits of free weights that have no
    closed form need planes of more points than the method takes.
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
