"""Method "lbfgs": limited-memory BFGS for smooth risks, with a lower bound from planes.

    repeat
        1  direction d = -B g from the last pairs (s, y) of steps and changes of the gradient g [Nocedal 1980]
        2  line search: evaluate a trial w + t d in one pass, which also finds a plane of the risk
        3  lower bound from the best convex combination of recent planes; stop if best value and bound are close
        4  if the trial meets the Wolfe conditions, it is the new iterate, and its step is a new pair

A step of the solver is one trial, that is one pass. The plane at w alone proves `F(w*) >= F(w) - |grad F(w)|^2 / (2
lam)`: with offset b = R(w) - <a, w> and g = a + lam w, `b - |a|^2 / (2 lam) = F(w) - |g|^2 / (2 lam)`.

A separable penalty adds its squares to the gradient. Its l1 norm is linear in the orthant of an iterate; trials are
clipped to that orthant and to the bounds, see `Orthants`. The planes then prove the bound of `penalised.py`,
`t offset + (1 - t) c - Omega*(-t phi)`, with the best multipliers that a few steps find, see `penalty_planes.py`.
"""

from __future__ import annotations

import numpy as np

from ...core.exceptions import NumericalError, ParameterError
from ...core.object_graph import check_float
from ...core.protocols import SMOOTH
from ...runtime.lower_bound import LowerBound
from ...runtime.result import Status
from ..evidence import of_points
from ..free_weights import FreeWeights
from ..method import WARM_START, Method, Option, integer, or_none
from ..penalised import Penalised
from ..run import Run, working_bytes
from ..state import State
from .penalty_planes import PenaltyPlanes
from .quasi_newton import Orthants, Pairs, QuasiNewtonSteps
from .recent_planes import RecentPlanes
from .wolfe import WolfeSearch

PAIRS, PLANES, FEWEST = 100, 20, 5
"""Pairs and planes kept, and the least number of each. At small lam, 100 pairs need half the passes of 10, and about 20
planes have a multiplier, of which 5 prove nearly all of the bound. Products with them cost little beside a pass."""
FLOATS = 1 << 26
"""Maximum number of floats in pairs and planes without `memory_limit` (512 MB); fewer are kept if needed."""
SINGLE, DOUBLE = 1e-6, 1e-12
"""Relative rounding errors of values of risks in float32 and float64."""


class QuasiNewton(Run):
    """A run of limited-memory BFGS on a smooth risk, with the steps of `quasi_newton.py`.

    Parameters
    ----------
    memory : int or None
        Number of pairs kept; None is 100, or as many as fit into the memory.
    """

    patience = 60

    def __init__(self, risk, objective, settings, memory=None):
        super().__init__(risk, objective, settings)
        limit = settings.memory_limit
        rows = (FLOATS if limit is None else limit // 8) // risk.dim       # two for a pair, one for a plane
        if limit is not None and rows < 3 * FEWEST:
            raise ParameterError(f"memory_limit must be at least {24 * FEWEST * risk.dim} bytes for dimension "
                                 f"{risk.dim}, got {limit}; raise it")
        pairs, planes = rooms(rows)
        pairs = Pairs(pairs if memory is None else memory, objective.moduli)
        self.steps = QuasiNewtonSteps(pairs, self.orthants())
        self.planes = self.make_planes(planes)
        self.free = FreeWeights.of(objective)
        self._slope_error = 0.0         # largest error of a slope so far
        self._origins = []      # numbers of the recorded points of the planes, if evidence is kept

    # ------------------------------------------------------------------ start, step
    def start(self, w0, state=None):
        """Evaluate the risk at `w0`, or at the point of `state`, whose pairs are kept."""
        if state is not None:
            self.take(state)
            w0 = state.w
            if state.pairs is not None:
                self.steps.pairs = state.pairs.moved(self.objective.moduli, self.steps.pairs.room)
        known = float(self.lower_bounds.sum())
        if np.isfinite(known):
            self.offer(LowerBound.from_aggregate(self.objective, known, np.zeros(self.risk.dim)))
        self._begin_at(self.objective.project(w0))

    def iterate(self):
        """Make one trial of the line search; return a Status if the run is over, else None."""
        if self.is_close():
            return Status.CONVERGED
        self.trace.n_iter += 1
        x = self.steps.trial(self._first_step)
        if x is None:
            return Status.STALLED
        fun, gradient = self._value_and_gradient(self.objective.outer_point(x))
        probe = None if self.free is None else self.free.probe(self)
        if probe is not None:
            self._value_and_gradient(probe)
        if self.is_close():
            return Status.CONVERGED
        return None if self.steps.update(x, fun, gradient) else Status.STALLED

    def orthants(self):
        """Return bounds and l1 norm of the objective, or None."""
        objective = self.objective
        if isinstance(objective, Penalised):
            penalty = objective.penalty
            return Orthants(penalty.lower, penalty.upper, objective.factor * penalty.l1)
        return None if objective.nonneg is None else Orthants(np.where(objective.nonneg, 0.0, -np.inf))

    def make_planes(self, room):
        """Return the store of at most `room` planes that proves the bound."""
        slack = bool((self.lower_bounds >= 0.0).all())
        if isinstance(self.objective, Penalised):
            return PenaltyPlanes(self.risk.dim, room, slack, self.objective)
        return RecentPlanes(self.risk.dim, room, slack)

    def memory(self):
        rows = 2 * self.steps.pairs.room + self.planes.room + self.risk.n_parts
        return {"planes": 8 * self.risk.dim * rows, "points": working_bytes(self.risk, self.risk.n_parts)}

    def describe(self):
        pairs = self.steps.pairs.room
        size = 8 * self.risk.dim * (2 * pairs + self.planes.room) / 2**20
        return (f"{self.risk.n_examples} examples, dimension {self.risk.dim}: at most {size:.0f} MB for "
                f"{pairs} pairs and {self.planes.room} planes")

    def n_planes(self):
        return self.planes.n_planes

    def state(self):
        return State(self.w, self.risk_value, self.fingerprint(), pairs=self.steps.pairs, bound=self.bound)

    def evidence(self, risk):
        if self.settings.record is None or self.bound is None:
            return None
        return of_points(self, risk, [self.settings.record.points[k] for k in self._origins if k >= 0])

    def to_float64(self):
        self.fun, self.best_values = np.inf, None       # the next pass replaces the float32 values
        self._begin_at(self.w)

    def known_value(self):
        """Return the values of the pass at the best point, if the risk bounds their rounding errors."""
        return self.evaluated_value(self.risk)

    def check_state(self):
        super().check_state()
        if self.w is not None:
            self.steps.check((self.risk.dim,))
        self.planes.check(self.risk.dim, bool((self.lower_bounds >= 0.0).all()))
        self.steps.pairs.check(self.risk.dim)
        check_float("an error", self._slope_error, 0.0)

    # ------------------------------------------------------------------ inside
    def _begin_at(self, w):
        self.steps.rounding = SINGLE if self.risk.precision == "float32" else DOUBLE
        self.steps.begin(self.objective.inner_point(w), *self._value_and_gradient(w))

    def _value_and_gradient(self, w):
        """Evaluate F and its gradient at w in one pass, and improve the bound with the plane at w."""
        planes = self.evaluate(w)
        fun = self.observe(w, float(planes.values.sum()), planes.values)
        offset, slope, error = self.summed(planes)
        self._slope_error = max(self._slope_error, error)
        with np.errstate(over="ignore"):
            if not np.isfinite(slope @ slope):
                raise NumericalError("squares of the slopes overflow; scale the data or the risk down")
        with self.trace.clock.phase("qp"):
            if self.free is not None:
                self.free.add(offset, slope, error)
            j = self.planes.add(offset, slope, w)
            if self.settings.record is not None:
                self._origins[j:j + 1] = [planes.origin]
                self.settings.record.keep(self._origins)
            self.offer(self.planes.bound(self.objective, self._tolerance(), self._slope_error))
        self.trace.max_planes = max(self.trace.max_planes, self.planes.n_planes)
        self.log(fun)
        return fun, self.objective.gradient(w, slope)

    def _tolerance(self):
        """Return the tolerance of the bound: a hundredth of the gap, but between 1e-14 and 1e-3 of the best value."""
        scale, gap = max(abs(self.fun), 1e-300), np.inf if self.bound is None else self.fun - self.bound.value
        return float(np.clip(0.01 * gap, 1e-14 * scale, 1e-3 * scale))

    def _first_step(self, slope):
        """Return first step and growth; without pairs the step that would reach the bound if F were linear."""
        if len(self.steps.pairs):
            return 1.0, 10.0
        gap = self.steps.fun - self.bound.value
        return (gap if np.isfinite(gap) else max(abs(self.steps.fun), 1e-300)) / -slope, 100.0


def lbfgs(problem, memory):
    return QuasiNewton(problem.risk, problem.objective, problem.settings, memory)


def rooms(rows):
    """Return how many pairs and planes fit into `rows` vectors, two for a pair and one for a plane."""
    planes = min(PLANES, max(FEWEST, rows // 8))
    return min(PAIRS, max(FEWEST, (rows - planes) // 2)), planes


LBFGS = Method(lbfgs, {"memory": Option(None, or_none(integer())), **WARM_START}, needs=(SMOOTH,),
               remedy="use method 'oca', or a log-loss (pb.risks.Logistic, loss='logistic')",
               serialised=(QuasiNewton, QuasiNewtonSteps, Orthants, Pairs, RecentPlanes, PenaltyPlanes, FreeWeights,
                           WolfeSearch), penalties="separable")
