"""The accelerated proximal block method (method "prox-bcfw"): one loop around a core that holds blocks.

    repeat
        1  where the schedule says so, one exact block step after another over all examples
        2  cheap passes, until their block gaps are a small part of the gap
        3  lower bound of the multipliers, whatever the centre is
        4  where the schedule says so, a batch pass at w: upper bound, and what the cheap passes should look at
        5  stop if best value and best bound are close enough
        6  x = w, then the centre goes beyond it: c = x + m (x - x_before), m = (1 - sqrt q) / (1 + sqrt q)

with `q = lam / (lam + kappa)`, and `w = (kappa c - phi) / (lam + kappa)` the point of multipliers of aggregate slope
phi. The extrapolation is that of accelerated proximal point methods [Lin, Mairal, Harchaoui 2015]; it is left out once
where the last centre pulled w back, or where F rose twice [O'Donoghue & Candes 2015].
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ..core.exceptions import NumericalError
from ..runtime.certificate import LowerBound
from ..runtime.result import Status
from .run import Run, State

STALLED_AFTER = 300     # steps that moved neither value nor bound; a far centre may need a hundred to come back


@dataclass(frozen=True)
class Schedule:
    """When a core visits all examples one after another, when it certifies, and how long it works in between.

    Attributes
    ----------
    opening : int
        First steps, each with a sequential pass; the last of them ends with the first batch pass.
    alternate : bool
        Later steps: every other one has a sequential and a batch pass (True), or all end with a batch pass, which
        tells the next step where to look (False).
    share, share_before : float
        Cheap passes end when their block gaps sum to `share` times the gap, before the first certificate to
        `share_before` times the gaps that the sequential pass met.
    most_passes : int
        The most cheap passes in a step.
    """

    opening: int = 1
    alternate: bool = False
    share: float = 0.1
    share_before: float = 0.03
    most_passes: int = 12

    def is_sequential(self, t):
        """Whether step t begins with exact steps at all examples."""
        return t < self.opening or (self.alternate and (t - self.opening) % 2 == 1)

    def is_batch(self, t):
        """Whether step t ends with a batch pass."""
        return t >= self.opening - 1 and (not self.alternate or (t - self.opening) % 2 == 1)


class BlockMethod(Run):
    """A run of the loop with one core and its schedule.

    Parameters
    ----------
    risk, objective, settings
        As in `Run`; the objective is `L2`.
    make_core : callable
        `make_core(risk, multipliers)`, the multipliers those of another run or None.
    schedule : Schedule
    kappa : float or None
        Weight of the proximal term; None is `sqrt(lam mean |psi_i|^2)`.
    random_state : int
        Seed of the orders in which examples are visited.
    """

    def __init__(self, risk, objective, make_core, schedule, settings, kappa=None, random_state=0):
        super().__init__(risk, objective, settings)
        self.make_core, self.schedule, self.kappa = make_core, schedule, kappa
        self._rng = np.random.default_rng(random_state)
        self._steps, self._idle, self._rises, self._last = 0, 0, 0, np.inf

    # ------------------------------------------------------------------ start, step, finish
    def start(self, w0, state=None):
        """Centre at `w0`, or at the best point of another run, whose multipliers are kept whatever its lam was."""
        multipliers = None
        if state is not None:
            self.check_state(state)
            multipliers, w0 = state.blocks, state.w
        self.core = self.make_core(self.risk, multipliers)
        self._centre = self._before = np.array(w0)
        if state is not None and self.objective.contains(state.w):
            self.observe(state.w, state.risk_value)
        self._bound()
        self._place()
        if state is None and w0.any():
            self._evaluate(w0)

    def step(self):
        """Works until a batch pass has told where the run stands."""
        if self._steps == 0 and self.w is not None and self.is_close():      # as good as the run before
            self.record(self.fun)
            return Status.CONVERGED
        before = self.fun, -np.inf if self.bound is None else self.bound.value
        while True:
            t = self._steps
            self._steps += 1
            self._work(t)
            self._bound()
            value = None
            if self.schedule.is_batch(t):
                value = self._evaluate(self.core.w)
                self.trace.n_iter += 1
                self.record(value)
                if self.is_close():
                    return Status.CONVERGED
            self._move_centre(value)
            if value is not None:
                break
        self._idle = 0 if (self.fun, self.bound.value) != before else self._idle + 1
        return Status.STALLED if self._idle >= STALLED_AFTER else None

    def describe(self):
        """What is about to run."""
        risk = self.risk
        return f"{risk.n_examples} examples, dimension {risk.dim}: blocks of single examples, kappa {self.kappa:.3g}"

    def state(self):
        return State(self.w, self.risk_value, self.fingerprint(), blocks=self.core.multipliers)

    def refine(self):
        self.core = self.make_core(self.risk, self.core.multipliers)
        self._bound()
        self._place()

    def known_value(self):
        return self.core.known_value()

    # ------------------------------------------------------------------ inside
    def _work(self, t):
        """Steps 1 and 2."""
        core, schedule = self.core, self.schedule
        with self._counted("oracle"):
            if schedule.is_sequential(t):
                met = core.exact_pass(self._rng.permutation(core.n_examples))
                self._enough = schedule.share_before * met
        with self._counted("qp"):
            enough = self._enough if not self._is_bounded() else schedule.share * (self.fun - self.bound.value)
            for _ in range(schedule.most_passes):
                if core.cached_pass(self._rng) <= enough:
                    break

    def _is_bounded(self):
        return self.bound is not None and np.isfinite(self.fun)

    def _bound(self):
        """Step 3."""
        offset, phi, error, offset_error = self.core.aggregate()
        if not np.isfinite(phi).all():
            raise NumericalError(f"w overflows for {self.objective}; use a larger lam, or scale the data")
        self.offer(LowerBound.from_aggregate(self.objective, offset, phi, error, offset_error))

    def _evaluate(self, w):
        """Step 4."""
        with self._counted("oracle"):
            return self.core.evaluate(self, w)

    def _move_centre(self, value):
        """Step 6. The test must see w before the centre moves: afterwards it never fires."""
        lam, x = self.objective.lam, self.core.w
        if value is not None:
            self._rises = self._rises + 1 if value > self._last else 0
            self._last = value
        root = np.sqrt(lam / (lam + self.kappa))
        momentum = (1.0 - root) / (1.0 + root)
        if float((self._centre - x) @ (x - self._before)) > 0.0 or self._rises >= 2:
            momentum, self._rises = 0.0, 0
        self._centre, self._before = x + momentum * (x - self._before), x
        self._place()

    def _place(self):
        if self.kappa is None:
            self.kappa = float(np.sqrt(self.objective.lam * self.core.radius2()))
        self.core.place(self.objective.lam, self.kappa, self._centre)

    @contextmanager
    def _counted(self, phase):
        """Charges the time to a phase, and visits to the passes, also where an interrupt ends them."""
        core, trace = self.core, self.trace
        visits, cached = core.visits, core.cached_visits
        try:
            with trace.clock.phase(phase):
                yield
        finally:
            trace.n_passes += (core.visits - visits) / core.n_examples
            trace.n_cached_passes += (core.cached_visits - cached) / core.n_examples
