"""Limited-memory BFGS for smooth risks, with a bound from planes.

    repeat
        1  direction d = -B g from the last pairs (s, y) of steps and changes of the gradient g [Nocedal 1980]
        2  line search: a trial w + t d, which costs a pass and gives a plane of the risk
        3  lower bound from the best convex combination of recent planes; stop if best value and bound are close
        4  where the trial meets the Wolfe conditions, it is the new iterate and gives a pair

A step of the solver is one trial, that is one pass. The plane at w alone proves `F(w*) >= F(w) - |grad F(w)|^2 / (2
lam)`: with offset b = R(w) - <a, w> and g = a + lam w, `b - |a|^2 / (2 lam) = F(w) - |g|^2 / (2 lam)`.
"""

from __future__ import annotations

import math

import numpy as np

from ...core.exceptions import ParameterError
from ...core.object_graph import check_array, check_float
from ...core.protocols import SMOOTH
from ...runtime.certificate import LowerBound
from ...runtime.result import Status
from ..evidence import of_points
from ..method import WARM_START, Method, Option, integer, or_none
from ..objective import inner
from ..run import Run, State, working_bytes
from .recent_planes import RecentPlanes
from .wolfe import WolfeSearch

PAIRS, PLANES, FEWEST = 100, 20, 5
"""Pairs and planes kept. At small lam a hundred pairs need half the passes of ten, and about twenty planes have a
multiplier, of which five give nearly all; the products with them cost little beside a pass."""
FLOATS = 1 << 26
"""Numbers in pairs and planes, at most, where `memory_limit` does not say otherwise (512 MB): fewer are kept then."""
SINGLE, DOUBLE = 1e-6, 1e-12
"""Relative rounding errors of values."""


class QuasiNewton(Run):
    """A run of limited-memory BFGS on a smooth risk.

    Constraints w_k >= 0 are met by projection [Bertsekas 1982]: coordinates that are 0 and whose gradient is positive
    rest, the others follow the quasi-Newton direction of the pairs restricted to them, and trials are projected.

    Parameters
    ----------
    memory : int or None
        Pairs kept; None is 100, or what fits into the memory.
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
        self.pairs = Pairs(pairs if memory is None else memory, objective.lam)
        self.planes = self.make_planes(planes)
        self._slope_error = 0.0         # of any plane so far
        self._search = None
        self._origins = []      # of the points of the planes, where evidence is kept

    # ------------------------------------------------------------------ start, step
    def start(self, w0, state=None):
        """Evaluates the risk at `w0`, or where another run ended, whose pairs are kept."""
        if state is not None:
            self.take(state)
            w0 = state.w
            if state.pairs is not None:
                self.pairs = state.pairs.moved(self.objective.lam, self.pairs.room)
        known = float(self.lower_bounds.sum())
        if np.isfinite(known):
            self.offer(LowerBound.from_aggregate(self.objective, known, np.zeros(self.risk.dim)))
        self._begin_at(self.objective.project(w0))

    def iterate(self):
        """One trial of the line search; a Status when it is over, else None."""
        if self.is_close():
            return Status.CONVERGED
        self.trace.n_iter += 1
        if self._search is None and not self._aim():
            return Status.STALLED
        trial = self._point + self._search.step * self._direction
        w = self.signs.project(trial)
        fun, gradient = self._visit(w)
        if self.is_close():
            return Status.CONVERGED
        moving = self._direction if w is trial else np.where(w == trial, self._direction, 0.0)
        if self._search.tell(fun, inner(gradient, moving)):
            self.pairs.add(w - self._point, gradient - self._gradient)
            self._point, self._fun, self._gradient = w, fun, gradient
            self._search = None
        elif self._search.has_failed:
            if len(self.pairs) == 0:
                return Status.STALLED
            self.pairs.clear()
            self._search = None
        return None

    @property
    def signs(self):
        """Which of its variables must not be negative."""
        return self.objective

    def make_planes(self, room):
        """The store of planes that gives the bound."""
        return RecentPlanes(self.risk.dim, room, bool((self.lower_bounds >= 0.0).all()))

    def memory(self):
        rows = 2 * self.pairs.room + self.planes.room + self.risk.n_parts
        return {"planes": 8 * self.risk.dim * rows, "points": working_bytes(self.risk, self.risk.n_parts)}

    def describe(self):
        size = 8 * self.risk.dim * (2 * self.pairs.room + self.planes.room) / 2**20
        return (f"{self.risk.n_examples} examples, dimension {self.risk.dim}: at most {size:.0f} MB for "
                f"{self.pairs.room} pairs and {self.planes.room} planes")

    def n_planes(self):
        return self.planes.n_planes

    def state(self):
        return State(self.w, self.risk_value, self.fingerprint(), pairs=self.pairs, bound=self.bound)

    def evidence(self, risk):
        if self.settings.record is None or self.bound is None:
            return None
        return of_points(risk, self.objective, [self.settings.record.points[k] for k in self._origins if k >= 0],
                         self.fun - self.bound.value)

    def refine(self):
        self.fun, self.best_values = np.inf, None       # those of the next pass replace coarser ones
        self._begin_at(self.w)

    def known_value(self):
        """Values of the pass at the best point, where the risk knows their rounding error."""
        return self.evaluated_value(self.risk)

    def check_state(self):
        super().check_state()
        if "_point" in vars(self):
            vectors = {"point": self._point, "gradient": self._gradient}
            if self._search is not None:
                vectors["direction"] = self._direction
            for name, vector in vectors.items():
                check_array(name, vector, (self.risk.dim,))
        self.planes.check(self.risk.dim, bool((self.lower_bounds >= 0.0).all()))
        self.pairs.check(self.risk.dim)
        check_float("an error", self._slope_error, 0.0)

    # ------------------------------------------------------------------ inside
    def _begin_at(self, w):
        self._point = w
        self._fun, self._gradient = self._visit(w)
        self._search = None

    def _visit(self, w):
        """F and its gradient at w, and the bound that its plane improves: one pass."""
        planes = self.evaluate(w)
        fun = self.observe(w, float(planes.values.sum()), planes.values)
        offset, slope, error = self.summed(planes)
        self._slope_error = max(self._slope_error, error)
        with self.trace.clock.phase("qp"):
            j = self.planes.add(offset, slope)
            if self.settings.record is not None:
                self._origins[j:j + 1] = [planes.origin]
                self.settings.record.keep(self._origins)
            self.offer(self.planes.bound(self.objective, self._tolerance(), self._slope_error))
        self.trace.max_planes = max(self.trace.max_planes, self.planes.n_planes)
        self.record(fun)
        return fun, self.objective.lam * w + slope

    def _tolerance(self):
        """A hundredth of the outer gap, for the bound: at most 1e-3 of the best value and at least 1e-14."""
        scale, gap = max(abs(self.fun), 1e-300), np.inf if self.bound is None else self.fun - self.bound.value
        return float(np.clip(0.01 * gap, 1e-14 * scale, 1e-3 * scale))

    def _aim(self):
        """Direction and line search from the present iterate; False where there is no descent left."""
        gradient, resting = self._gradient, None
        if self.signs.nonneg is not None:
            at_zero = self.signs.nonneg & (self._point <= 0.0)
            resting = at_zero & (gradient >= 0.0)
        for retry in (False, True):
            if retry:
                self.pairs.clear()
            direction = self.pairs.direction(gradient, resting)
            if resting is not None:
                direction[at_zero & (direction < 0.0)] = 0.0
            slope = inner(gradient, direction)
            if slope < 0.0:
                break
        else:
            return False
        # without pairs nothing is known of the scale
        step, growth = (1.0, 10.0) if len(self.pairs) else (self._first_step(slope), 100.0)
        rounding = SINGLE if self.risk.precision == "float32" else DOUBLE
        self._direction = direction
        self._search = WolfeSearch(self._fun, slope, step, growth, rounding)
        return True

    def _first_step(self, slope):
        """To the bound, if F were linear."""
        return (self._fun - self.bound.value) / -slope


def lbfgs(problem, memory):
    return QuasiNewton(problem.risk, problem.objective, problem.settings, memory)


def rooms(rows):
    """Pairs and planes to keep where there is memory for so many vectors, two for a pair and one for a plane."""
    planes = min(PLANES, max(FEWEST, rows // 8))
    return min(PAIRS, max(FEWEST, (rows - planes) // 2)), planes


class Pairs:
    """The last steps s and changes y of the gradient of F, at most `room`, and directions from them.

    y = a' - a + lam s for slopes a, a' of the risk: so pairs of one lam are pairs of any other.

    Parameters
    ----------
    room : int
    lam : float

    Notes
    -----
    Points and gradients are vectors, or two rows each, see `inner` of `solvers.objective`.

    Examples
    --------
    >>> import numpy as np
    >>> pairs = Pairs(room=3, lam=1.0)
    >>> for s in np.eye(2):                         # F(w) = 2 |w|^2
    ...     pairs.add(s, 4.0 * s)
    >>> pairs.direction(np.array([4.0, -8.0]))
    array([-1.,  2.])
    """

    def __init__(self, room, lam):
        self.room, self.lam, self._pairs = room, lam, []

    def __len__(self):
        return len(self._pairs)

    def check(self, dim):
        """Raises ValueError where a pair is none of this dimension."""
        for s, y, product in self._pairs:
            check_array("a step", s, (dim,))
            check_array("a change", y, (dim,))
            check_float("a product", product, 0.0)

    def add(self, s, y):
        """Takes a pair, in the place of the oldest; one without curvature to speak of is left out."""
        product = inner(s, y)
        square = abs(inner(y, y))
        if square > 0.0 and product > 1e-14 * math.sqrt(abs(inner(s, s))) * math.sqrt(square):
            self._pairs = [*self._pairs, (s, y, product)][-self.room:]

    def clear(self):
        """Forgets all pairs."""
        self._pairs = []

    def moved(self, lam, room):
        """The pairs for another lam."""
        other = type(self)(room, lam)
        for s, y, _ in self._pairs:
            other.add(s, y if lam == self.lam else y + (lam - self.lam) * s)
        return other

    def direction(self, gradient, resting=None):
        """`-B gradient` in two loops over the pairs, O(len(self) dim) [Nocedal 1980].

        `resting` (bool (dim,), or None) marks coordinates that do not take part: the pairs are restricted to the rest.
        """
        pairs, d = self._pairs, -gradient
        if resting is not None and resting.any():
            moves = ~resting
            pairs = [(s * moves, y * moves) for s, y, _ in pairs]
            pairs = [(s, y, product) for s, y in pairs if (product := inner(s, y)) > 0.0]
            d *= moves
        weights, scratch = [], np.empty_like(d)         # a vector made anew for each product costs as much again
        for s, y, product in reversed(pairs):
            weights.append(inner(s, d) / product)
            d -= np.multiply(y, weights[-1], out=scratch)
        if pairs:
            _, y, product = pairs[-1]
            d *= product / max(inner(y, y), 1e-300)       # squares may underflow
        for (s, y, product), weight in zip(pairs, reversed(weights), strict=True):
            d += np.multiply(s, weight - inner(y, d) / product, out=scratch)
        return d


LBFGS = Method(lbfgs, {"memory": Option(None, or_none(integer())), **WARM_START}, needs=(SMOOTH,),
               remedy="use method 'oca', or a log-loss (pb.risks.Logistic, loss='logistic')",
               serialised=(QuasiNewton, Pairs, RecentPlanes, WolfeSearch))
