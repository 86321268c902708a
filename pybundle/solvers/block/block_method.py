"""The loop of the block methods: passes over single examples, a moving proximal centre, certificates.

Each example has a block of multipliers of its labellings; all blocks together define the aggregate plane
`B + <phi, w> <= R(w)`. With a proximal centre c of weight kappa the point w is the minimiser of
`lam/2 |w|^2 + kappa/2 |w - c|^2 + <phi, w>`:

    repeat
        1  move the centre c (`centre.py`);  w = (kappa c - phi) / (lam + kappa)
        2  the schedule names the next actions:
               "visit"   for one example after another, call the oracle and step on the block
               "cached"  step on blocks with stored planes only, until their gaps sum to a fraction of the gap
               "value"   evaluate F by calls of the oracle for all examples, at w or between w and the best point
        3  lower bound B - |phi|^2 / (2 lam), valid for any centre; stop if best value and best bound are close enough

While there is no plane, kappa is 0, so that the first pass is at w = 0. No value of F is known before the first action
"value", which comes in the fifth iteration or earlier with cached planes. Without a proximal term (kappa = 0) the loop
is BCFW or one of its variants [Lacoste-Julien et al. 2013; Shah et al. 2015].

Some cores allow a separable penalty in place of `lam/2 |w|^2`; w, bound and centre then follow from that penalty.

A *core* stores the blocks (interface: `core.py`; examples: `cached_blocks.py`, `exact_blocks.py`). A *schedule* chooses
the actions (`schedules.py`).
"""

from __future__ import annotations

import numpy as np

from ...core.exceptions import NumericalError
from ...core.kept import Kept, check_array
from ...runtime.result import Status
from ..evidence.limits import with_limits
from ..run import Run
from .centre import Centre
from .mean_plane import MeanPlane

FLOAT32_PATIENCE = 25   # the run goes on in float64 if so many values of F lower the gap by less than LEAST_FALL of it
LEAST_FALL = 0.01


class BlockMethod(Run):
    """A run of the loop with one core and one schedule.

    Parameters
    ----------
    search : Search
        Its penalty is a square, or another penalty that the core allows.
    core : type
        `core(risk, problem, known, **options)` builds the core from the blocks `known` of another run, or from None.
    schedule : Schedule
    kappa : float or None
        Weight of the proximal centre; None leaves the choice to `Centre`.
    **options
        Options of the core.

    Attributes
    ----------
    core : Core
    centre : Centre
    last_gaps : float
        Sum of the block gaps before the steps of the last sequential pass.
    """

    kept = ("core", "schedule", "centre", "rng", "last_gaps", "_n_flat", "_flat_gap", "_mean", "_has_risen")
    core = None         # made by `start`
    _proof = None       # `Proof` of the best bound, if the bound needs no limits of free weights

    def __init__(self, search, core, schedule, kappa=None, **options):
        super().__init__(search)
        problem = self.problem
        self._kind, self._options, self.schedule = core, options, schedule
        self.rng = np.random.default_rng(self.settings.random_state)
        self.centre = Centre(problem, schedule, kappa)
        self._n_flat, self._flat_gap = 0, np.inf        # values of F since the gap last fell, and the gap then
        self._has_risen = False         # whether a value of F was above the best value
        self._mean = MeanPlane(problem.means) if problem.even is None and problem.classes is None else None
        self.last_gaps = 0.0

    # ------------------------------------------------------------------ start, step, finish
    def start(self, w0, state=None):
        """Start with the centre at `w0`, or from the best point and the blocks of another run, whose lam may differ."""
        search, w = self.search, self.search.take(w0, state)
        blocks, w0 = (None, w0) if state is None else (state.blocks, state.w)
        self.core = self._made(blocks)
        if blocks is not None and self.problem.square is not None:
            with search.working("oracle", visitor=self.core):
                self.core.shrink(self.problem.least_modulus)
        search.w = w if search.w is None else search.w          # the result, until a value of F is known
        if state is not None and self.problem.contains(state.w):
            search.observe(state.w, state.risk_value, inference=state.inference)
        with search.working("oracle", visitor=self.core):
            self.centre.start(w0, self.core, search)
        self._bound()
        if state is None and (w0.any() or self.core.bound_takes_pass):      # the default of atol needs a value
            self._evaluate(w)

    def iterate(self):
        """Do one iteration; return a Status if the stopping rule of the method holds, else None."""
        search = self.search
        if self.trace.n_iter == 0 and search.is_close():        # the state of an earlier run meets the tolerance
            search.log(search.fun)
            return Status.CONVERGED
        value = None
        self.trace.n_iter += 1
        if self.schedule.is_proximal and self.trace.n_iter > 1:
            self.centre.move(self.core, search)
        for action in self.schedule.actions(self):
            if action == "visit":
                with search.working("oracle", visitor=self.core):
                    self.last_gaps = self.core.oracle_pass(self.schedule.order(self))
            elif action == "cached":
                with search.working("qp", visitor=self.core):
                    self.schedule.cached_passes(self)
            else:
                value = self._evaluate(self._next_point())
        self.core.forget()
        if value is not None or not self.core.bound_takes_pass:
            self._bound()
        self.trace.max_planes = max(self.trace.max_planes, self.n_planes())
        if value is not None:
            self.centre.note(value, self.core, search)
            self._has_risen |= bool(value > search.fun)
            self._n_flat += 1
            if search.gap <= (1.0 - LEAST_FALL) * self._flat_gap:
                self._n_flat, self._flat_gap = 0, search.gap
        search.log(search.fun if value is None else value)
        probe = search.probe()
        if probe is not None:
            search.visit(probe)
        return Status.CONVERGED if search.is_close() else None

    @property
    def patience(self):
        return self.schedule.patience

    def is_stalled(self):
        """Return whether best value and best bound have not moved for long or, in float32, have moved very little."""
        return super().is_stalled() or (self._n_flat >= FLOAT32_PATIENCE and self.risk.search_precision == "float32")

    def stalled(self):
        if self.risk.search_precision == "float64":
            return Status.STALLED
        self.search.risk, self.search.idle = self.risk.derive(precision="float64"), 0       # float32 is too coarse
        self.to_float64()
        return None

    def describe(self):
        core = self._made(None) if self.core is None else self.core
        return f"{self.schedule.describe()}, {core.nbytes / 2**20:.0f} MB of multipliers to begin with"

    def n_planes(self):
        return self.core.n_planes

    def restore(self, arrays):
        self.search.restore(arrays["search"])
        self.core = self._made(None)        # the core works in the precision of the restored search
        Kept.restore(self, {name: arrays[name] for name in self.kept})
        for point in (self.centre.c, self.centre.before):
            check_array("the centre", point, (self.risk.dim,))

    def state(self):
        return self.search.state(blocks=self.core.known())

    def evidence(self, risk):
        keeps = self.settings.record is not None
        if self.problem.is_free.any() and not keeps:      # limits of free weights would take passes
            return None
        within = limits = None
        if self.problem.classes is None:
            within, limits = with_limits(self.search, risk) if keeps else (self.search.limits, None)
        found = self.core.evidence(self.problem, risk, within)
        found = None if found is None else found._replace(limits=limits)
        return max(filter(None, [self._proof, found]), key=lambda proof: proof.bound.value, default=None)

    def to_float64(self):
        # the new core chooses the weight of the centre anew, since the old weight took up to a fifth more passes
        self.core = self._made(self.core.known())
        self.centre.place(self.core)
        self._bound()

    def known_value(self):
        return self.core.known_value(self.search)

    # ------------------------------------------------------------------ inside
    def _made(self, known):
        return self._kind(self.risk, self.problem, known, **self._options)

    def _next_point(self):
        w, share = self.core.w.copy(), self.schedule.share
        return w if share == 1.0 or not self._has_risen else (1.0 - share) * self.search.w + share * w

    def _evaluate(self, w):
        with self.search.working("oracle", visitor=self.core):
            return self.core.evaluate(self.search, w)

    def _bound(self):
        search = self.search
        with search.working("oracle", visitor=self.core):
            plane = self.core.aggregate()
        if not np.isfinite(plane.slope).all():
            raise NumericalError(f"w overflows for {self.problem.penalty}; use a larger lam, or scale the data")
        if search.free is not None:
            search.free.add(plane, is_aggregate=True)
        is_best = search.offer(search.bound_from(plane))
        needs_limits = self.problem.classes is None and self.problem.is_free.any()
        if is_best and self.settings.record is not None and not needs_limits:
            self._proof = self.core.evidence(self.problem, self.risk)     # later multipliers may prove less
        if self._mean is not None and self.settings.record is None:      # a mean has no evidence
            search.offer(search.bound_from(self._mean.add(plane)))

    def is_short_of_memory(self):
        return self.core.n_merged > 0

    def settle(self):
        search = self.search
        if not np.isfinite(search.fun) and self.trace.n_iter:       # without values of F no point is better than w
            search.w = self.problem.project(self.core.w.copy())
            search.version += 1
