"""The loop of the block methods: passes over single examples, a centre that runs ahead, certificates.

    repeat
        1  the centre moves:  x = w,  c = x + mom (x - x_old),  w = (kappa c - phi) / (lam + kappa)
        2  the schedule says what follows:
               "visit"   the oracle is asked for example after example, with a step on each block
               "value"   it is asked for all at one point, which gives F there
               "refine"  passes over planes already known, as far as they are worth while
        3  lower bound B - |phi|^2 / (2 lam) of the multipliers; stop if best value and best bound are close enough

A *core* keeps the blocks (`cached_blocks.py`, `exact_blocks.py`), a *schedule* says what is done when
(`schedules.py`). Without proximity (kappa = 0) this is BCFW and its relatives [Lacoste-Julien et al. 2013; Shah et al.
2015]; with it, an accelerated proximal point method whose subproblems are solved on the dual [Lin et al. 2015].
"""

from __future__ import annotations

import numpy as np

from ..runtime.certificate import LowerBound
from ..runtime.result import Status
from .run import Run, State

STALLED_AFTER = 300     # iterations that moved neither bound


class BlockMethod(Run):
    """A run of the loop with one core and one schedule.

    Parameters
    ----------
    core : CachedBlocks or ExactBlocks
    schedule : Schedule
    kappa : float or None
        Weight of the centre; None is `sqrt(lam Rbar^2)`, Rbar^2 the mean squared norm of the planes of the first pass.
    random_state : int or None
        Order of examples.
    """

    def __init__(self, risk, objective, settings, core, schedule, kappa=None, random_state=0):
        super().__init__(risk, objective, settings)
        self.core, self.schedule = core, schedule
        self.rng = np.random.default_rng(random_state)
        self.lam = objective.lam
        self._kappa, self.kappa = kappa, 0.0
        self._idle = self._rises = 0
        self._last_value = np.inf

    # ------------------------------------------------------------------ start, step
    def start(self, w0, state=None):
        """The truths alone, or the blocks of another run, at `w0`; a point other than 0 is evaluated."""
        if state is not None:
            self.check_state(state)
            w0 = state.w
        self.w = self.objective.project(w0)
        if state is not None and state.blocks is not None:
            self.core.restore(state.blocks, self.lam)
        else:
            self.core.place(self.lam, 0.0, None)
        self._offer()
        if state is not None and self.objective.contains(state.w):
            self.observe(state.w, state.risk_value)
        elif self.w.any():
            # c = (s / kappa) w0 puts the point of the truths to w0
            self.core.place(self.lam, self.lam, 2.0 * self.w)
            self._evaluate()
            self._count()
        if self.w.any() and self.schedule.is_proximal:
            self.kappa = self._default_kappa()
            if self.kappa > 0.0:
                self.core.place(self.lam, self.kappa, self.centre_for(self.w))
        self.centre = self.core.w.copy()
        self._old = self.centre
        self.record(self.fun)

    def step(self):
        """One iteration; a Status when it is over, else None."""
        before, value = (self.fun, self.bound.value), self.fun
        clock = self.trace.clock
        self.trace.n_iter += 1
        if self.schedule.is_proximal:
            self._move_centre()
        for action in self.schedule.actions(self):
            if action == "value":
                value = self._evaluate()
            elif action == "visit":
                with clock.phase("oracle"):
                    self.core.exact_pass(self.schedule.order(self))
            else:
                with clock.phase("qp"):
                    self.schedule.refine(self)
            self._count()
        self.core.forget()
        self._offer()
        self.record(value)
        if self.is_close():
            return Status.CONVERGED
        self._idle = 0 if (self.fun, self.bound.value) != before else self._idle + 1
        return Status.STALLED if self._idle >= STALLED_AFTER else None

    def describe(self):
        return (f"{self.risk.n_examples} examples, dimension {self.risk.dim}: {self.schedule.describe()}")

    # ------------------------------------------------------------------ what schedules use
    def gap(self):
        """Best value minus best bound; infinite before the first value."""
        return self.fun - self.bound.value

    def dual(self):
        """D of the multipliers at the running point, kappa = 0."""
        return self.objective.lower_bound(self.core.offset, self.core.phi())

    # ------------------------------------------------------------------ inside
    def _evaluate(self):
        with self.trace.clock.phase("oracle"):
            value = self.core.evaluate(self)
        self._rises = self._rises + 1 if value > self._last_value else 0
        self._last_value = value
        return value

    def _count(self):
        self.trace.n_passes = self.core.visits / self.risk.n_examples
        self.trace.n_cached_passes = self.core.cached_visits / self.risk.n_examples
        self.trace.max_planes = max(self.trace.max_planes, self.n_planes())

    def _offer(self):
        offset, phi, error, offset_error = self.core.aggregate()
        self.offer(LowerBound.from_aggregate(self.objective, offset, phi, error, offset_error))

    def _default_kappa(self):
        return np.sqrt(self.lam * self.core.radius2()) if self._kappa is None else self._kappa

    def centre_for(self, w):
        """The centre that puts the point of the multipliers to w."""
        return ((self.lam + self.kappa) * w + self.core.phi()) / self.kappa

    def _move_centre(self):
        """Extrapolation as in Catalyst; a start afresh where it leads uphill."""
        if self.kappa == 0.0:
            if self.trace.n_passes == 0.0:
                return
            self.kappa = self._default_kappa()
            if self.kappa == 0.0:
                return
        x = self.core.w.copy()
        root = np.sqrt(self.lam / (self.lam + self.kappa))
        momentum = (1.0 - root) / (1.0 + root)
        step = x - self._old
        if float((self.centre - x) @ step) > 0.0 or self._rises >= 2:
            momentum, self._rises = 0.0, 0
        self._old = x
        self.centre = x + momentum * step
        self.core.place(self.lam, self.kappa, self.centre)

    def n_planes(self):
        return self.core.n_planes()

    def state(self):
        return State(self.w, self.risk_value, self.fingerprint(), blocks=self.core)

    def refine(self):
        self.core.risk = self.risk

    def finish(self, status, ask_risk=True):
        if not np.isfinite(self.fun):           # no value was ever asked for: nothing better is known than this point
            self.w = self.objective.project(self.core.w.copy())
        return super().finish(status, ask_risk)
