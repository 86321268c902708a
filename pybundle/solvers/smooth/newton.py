"""Method "newton": Newton steps for smooth risks of one score, with a lower bound from planes.

The loop is that of `smooth_run.py`. A step minimises the quadratic model of R plus the penalty, about,

    z = argmin <a, z - w> + (z - w)' R''(w) (z - w) / 2 + Omega(z),

the more accurately the closer the iterate is to the minimum, and searches the segment from w to z by halving
[Lee, Sun, Saunders 2014]. If there are many columns, the model is restricted to a working set: all columns whose weight
no bound and no threshold holds, and about as many others, those of the steepest slopes.
"""

from __future__ import annotations

import numpy as np

from ...core.object_graph import check_array, check_float
from ...core.protocols import HESSIAN
from ..method import WARM_START, Method
from ..penalised import Penalised
from ..run import working_bytes
from ..state import State
from .quadratic import FEW, Hessians, bytes_of_models, minimise
from .quasi_newton import Orthants
from .recent_planes import NewestPlane
from .smooth_run import SmoothRun

ARMIJO = 1e-4
SHORTEST = 1e-10
LOOSE = 0.3         # a model is minimised until its gradient is that much smaller, at most
TINY = 1e-24        # relative descent along a step that is rounding
LONG_ROW = 128      # entries of a sparse row from which products of columns cost more than the passes that they save
DEAR, CHEAP = 4.0, 2.0      # passes that a step may cost to be made at once, with an l1 norm and without
LEAST = 200         # columns that a working set may always have, however few weights are not 0


class Newton(SmoothRun):
    """A run of the method, with the steps of `NewtonSteps`."""

    patience = 20       # steps without descent, in which limits of free weights may be proven

    def __init__(self, risk, objective, settings):
        super().__init__(risk, objective, settings, 1)
        self.steps = NewtonSteps(self.orthants() or Orthants(), risk.dim)
        self._hessians = None

    def __getstate__(self):
        return vars(self) | {"_hessians": None}        # a copy of the data

    def make_planes(self, room):
        return NewestPlane()

    def trial(self):
        """Return the next point to evaluate, or None if no descent is left."""
        x = self.steps.trial(self._model)
        self.trace.n_passes += self.steps.work
        self.steps.work = 0.0
        # the plane of the minimum proves more once the limits of free weights are known
        return self.steps.x if x is None and self.free is not None else x

    def probe(self):
        """Return a point whose plane may limit free weights: the other weights follow the free ones by the model."""
        w = super().probe()
        if w is None:
            return None
        x = self.steps.settled(self.objective.inner_point(w), self.free.free, self._model)
        self.trace.n_passes += self.steps.work
        self.steps.work = 0.0
        return self.objective.outer_point(x)

    def memory(self):
        risk = self.risk
        return {"planes": 8 * risk.dim, "points": working_bytes(risk, risk.n_parts),
                "models": bytes_of_models(risk.examples, risk.dim)}

    def describe(self):
        size = bytes_of_models(self.risk.examples, self.risk.dim) / 2**20
        return f"{self.risk.n_examples} examples, dimension {self.risk.dim}: about {size:.0f} MB for models"

    def state(self):
        return State(self.w, self.risk_value, self.fingerprint(), bound=self.bound)

    def check_state(self):
        super().check_state()
        if not self.steps.has_penalty(self.orthants() or Orthants(), self.risk.dim):
            raise ValueError("the steps belong to another penalty")

    def _model(self, x, columns, has_kinks):
        """Return the model at a point on some columns."""
        if self._hessians is None:
            means = self.objective.means if isinstance(self.objective, Penalised) else None
            self._hessians = Hessians(self.risk, means, np.broadcast_to(self.objective.moduli, (self.risk.dim,)))
        with self.trace.clock.phase("oracle"):
            return self._hessians.on(self.risk.second_derivatives(self.objective.outer_point(x)), columns, has_kinks)


class NewtonSteps:
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
    """

    def __init__(self, orthants, dim, rounding=1e-12):
        self.rounding, self.work = rounding, 0.0
        self._penalty = _arrays(orthants, dim)
        l1, lower, upper = self._penalty
        self._has_kinks = bool(l1.any() or np.isfinite(lower).any() or np.isfinite(upper).any())
        self._direction, self._t, self._slope, self._first = None, 1.0, 0.0, 0.0

    def begin(self, x, fun, gradient):
        """Set the iterate x."""
        self.x, self.fun, self.gradient, self._direction = x, fun, gradient, None

    def trial(self, model_at):
        """Return the next point to evaluate, or None if no descent is left.

        `model_at(x, columns, has_kinks)` returns the model at x on some columns, None for all.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if self._direction is None and not self._aim(model_at):
                return None
        x = self.x + self._t * self._direction
        return np.clip(x, *self._penalty[1:]) if self._has_kinks else x

    def update(self, x, fun, gradient):
        """Receive value and gradient at the trial x, which is the next iterate if F has fallen by enough.

        Return False if the search has failed.
        """
        if self._direction is None or fun <= self.fun + ARMIJO * self._t * self._slope + self.rounding * abs(self.fun):
            self.begin(x, fun, gradient)
        else:
            self._t *= 0.5
        return self._t >= SHORTEST

    def settled(self, point, free, model_at):
        """Return the minimum of the model at x where the weights `free` have the values of a point close to x.

        Their plane rises along the free weights alone. The point itself is returned if it is far from x, or if there
        are many columns.
        """
        x, d = self.x, point[free] - self.x[free]
        if len(x) > FEW or (np.abs(d) > 1.0 + np.abs(x[free])).any():
            return point
        model, z = model_at(x, None, True), x.copy()
        z[free] = point[free]
        l1, lower, upper = (part.copy() for part in self._penalty)
        lower[free] = upper[free] = z[free]
        minimise(model, z, self.gradient + model.product(free, d), (l1, lower, upper), LOOSE)
        self.work += model.work
        return z

    def check(self, shape):
        """Raise ValueError if an array does not have this shape."""
        for name, vector in {"x": self.x, "gradient": self.gradient, "direction": self._direction}.items():
            if vector is not None:
                check_array(name, vector, shape)
        for name in ("fun", "_slope"):
            check_float(name, getattr(self, name))
        for name in ("rounding", "work", "_t", "_first"):
            check_float(name, getattr(self, name), 0.0)

    def has_penalty(self, orthants, dim):
        """Return whether these are steps for a penalty with such bounds and such an l1 norm."""
        return all(map(np.array_equal, self._penalty, _arrays(orthants, dim)))

    def _aim(self, model_at):
        """Set the direction to the minimum of the model at x; return False if there is no descent."""
        x, l1 = self.x, self._penalty[0]
        columns, rest = self._columns()
        norm = float(np.linalg.norm(rest))
        self._first = max(self._first, norm)
        if norm == 0.0:
            return False
        model = model_at(x, columns, self._has_kinks)
        chosen = slice(None) if columns is None else columns
        z, before = x[chosen].copy(), x[chosen]
        minimise(model, z, self.gradient[chosen].copy(),
                 tuple(part[chosen] for part in self._penalty) if self._has_kinks else None,
                 min(LOOSE, np.sqrt(norm / self._first)))
        self.work += model.work
        direction, d = np.zeros_like(x), z - before
        direction[chosen] = d
        norms = l1[chosen] @ (np.abs(z) - np.abs(before))
        self._t, self._slope = 1.0, float(self.gradient[chosen] @ d) + float(norms)
        if not -np.inf < self._slope < -TINY * abs(self.fun):
            return False
        self._direction = direction
        return True

    def _columns(self):
        """Return the columns of the model, None for all, and the gradient without entries that bounds hold."""
        x, (l1, lower, upper) = self.x, self._penalty
        if not self._has_kinks:
            return None, self.gradient
        low, high, slopes = Orthants(lower, upper, l1).at(x, self.gradient)
        whole, at_low, at_high = self.gradient + slopes, x <= low, x >= high
        rest = np.where((at_low & (whole >= 0.0)) | (at_high & (whole <= 0.0)), 0.0, whole)
        if len(x) <= FEW:
            return None, rest
        inside = ~(at_low | at_high)
        moving = np.flatnonzero(inside | (rest != 0.0))
        most = max(LEAST, 2 * int(inside.sum()))
        if len(moving) > most:
            sizes = np.where(inside[moving], np.inf, np.abs(rest[moving]))
            moving = np.sort(moving[np.argpartition(-sizes, most - 1)[:most]])
        return moving, rest


def _arrays(orthants, dim):
    """Return l1, lower and upper, arrays of shape (dim,)."""
    return tuple(np.array(np.broadcast_to(bound, (dim,)), dtype=np.float64)
                 for bound in (orthants.l1, orthants.lower, orthants.upper))


def patience_before(risk, objective):
    """Return after how many slow passes of "lbfgs" the method should take over: 0 at once, None never.

    It follows from sizes alone. On few columns a step costs a product of columns, about `price` passes: with an l1 norm
    it is worth a few of them, without one "lbfgs" may be done before; it has the price of a step and five more passes
    to halve the gap. On many columns it needs an l1 norm that leaves few weights. If columns are far from 0, the limits
    of a free intercept need planes of more points than the method takes.
    """
    if not HESSIAN.holds(risk):
        return None
    examples, is_penalised = risk.examples, isinstance(objective, Penalised)
    if is_penalised and objective.columns_are_far(risk):
        return None
    has_l1 = is_penalised and bool(np.any(objective.penalty.l1))
    width = examples.X.nnz / risk.n_examples if examples.is_sparse else risk.dim
    if risk.dim <= FEW and width <= (LONG_ROW if examples.is_sparse else FEW):
        price = width / 8.0 if examples.is_sparse else width / 40.0
        return 0.0 if price <= (DEAR if has_l1 else CHEAP) else 5.0 + price
    return 0.0 if has_l1 and (examples.is_sparse or risk.n_examples <= FEW) else None


def newton(problem):
    return Newton(problem.risk, problem.objective, problem.settings)


NEWTON = Method(newton, dict(WARM_START), needs=(HESSIAN,), remedy="use method 'lbfgs' or 'oca'",
                serialised=(Newton, NewtonSteps, NewestPlane), penalties="separable")
