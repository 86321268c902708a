"""Schedules choose the order in which a block method does oracle passes, cached passes and evaluations of F.

A schedule has nine members; `BlockMethod` uses no others.

``is_proximal``         whether the centre moves
``extrapolates``        whether the centre is extrapolated; if not, its weight always follows from the gap
``every``               iterations between two values of F, for a weight of the centre that follows from the gap
``share``               once F has risen, F is evaluated at this share of the way from the best point to w
``patience``            iterations without progress after which the run has stalled
``actions(run)``        the actions of this iteration in order: "visit", "cached" or "value", see `BlockMethod`
``order(run)``          the examples of a sequential pass in order
``cached_passes(run)``  does the passes over stored planes
``describe()``          a few words for the user

A schedule uses these members of the run: `search`, `problem`, `core`, `trace.n_iter`, `risk.n_examples`, the generator
`rng`, and `last_gaps`, the sum of the block gaps in the last sequential pass. `Accelerated` and `Sequential` work with
any core (see `core.py`), `Plain` and `MultiPlane` with `CachedBlocks`, `Exact` with `NewtonBlocks`.
"""

from __future__ import annotations

import time

import numpy as np

from ...core.exceptions import ParameterError
from ...core.kept import Kept
from ...core.plane import Plane
from ..inexact_decoding import left_to_steps

MOST_VISITS = 12    # cached passes end after so many steps with all labels per example, on average


class Schedule(Kept):
    """Base class: random permutations, no proximal centre, no passes over stored planes."""

    is_proximal = False
    extrapolates = True
    every = 1
    share = 1.0
    patience = 300      # with a centre far from the minimiser, a hundred iterations may pass without progress

    def order(self, run):
        return run.rng.permutation(run.risk.n_examples)

    def cached_passes(self, run):
        pass


class Accelerated(Schedule):
    """The first iterations do a sequential pass, later iterations evaluate F, and all iterations do cached passes.

    A sequential pass makes more progress than an evaluation, which is a pass at a single point. But only the
    evaluation gives a value of F, which is worth more after `opening` iterations than the additional progress.

    Parameters
    ----------
    opening : int
        Number of iterations that begin with a sequential pass. F is first evaluated after the last of these passes, or
        after an earlier pass whose block gaps are so small that the value may end the run.
    fraction, fraction_before : float
        Cached passes end when their block gaps sum to `fraction` times the gap, or, before the first value, to
        `fraction_before` times the sum of the block gaps in the sequential pass.
    most_passes : int
        Maximum number of cached passes in an iteration.
    share : float
        See the module docstring.
    """

    kept = ("opening",)
    is_proximal = True

    def __init__(self, opening=1, fraction=0.1, fraction_before=0.03, most_passes=20, share=1.0):
        self.opening, self.fraction, self.share = opening, fraction, share
        self.fraction_before, self.most_passes = fraction_before, most_passes

    def actions(self, run):
        k = run.trace.n_iter
        lower = run.search.bound.value
        if 1 < k < self.opening and run.search.rule.holds(lower + run.last_gaps, lower, 3.0):
            self.opening = k - 1
        if k < self.opening:
            return "visit", "cached"
        return ("visit", "cached", "value") if k == self.opening else ("cached", "value")

    def cached_passes(self, run):
        gap = run.search.gap
        enough = self.fraction * gap if np.isfinite(gap) else self.fraction_before * run.last_gaps
        most_visits = run.core.visits + MOST_VISITS * run.core.n_examples
        run.core.cached_passes(run.rng, enough, self.most_passes, most_visits)

    def describe(self):
        return "accelerated proximal blocks"


class Sequential(Schedule):
    """Sequential passes with a moving centre, and a value of F after every third pass.

    One pass solves the proximal problem too inexactly for an extrapolated centre. Value and bound cost as much as two
    passes. In measurements the total time was least with one value in three passes.
    """

    is_proximal = True
    extrapolates = False
    every = 3
    patience = 180

    def actions(self, run):
        return ("visit",) if run.trace.n_iter % self.every else ("visit", "value")

    def describe(self):
        return "proximal blocks, one after another"


class Exact(Schedule):
    """The n-slack cutting-plane method: one sequential pass, then each iteration minimises the model of all known
    planes and evaluates F at the minimiser.

    Parameters
    ----------
    fraction : float
        The master problem of the known planes is solved until its gap is this fraction of the gap of the run.
    """

    kept = ("_is_solved",)
    patience = 30       # an iteration solves the master problem, or takes ten Newton steps on it

    def __init__(self, fraction=0.3):
        self.fraction, self._is_solved = fraction, False

    def actions(self, run):
        """Yield "value" only after the master problem of the known planes is solved."""
        if run.core.n_planes == 0:
            yield "visit"
        elif np.isfinite(run.search.gap):
            yield "cached"
            if not self._is_solved:
                return
        yield "value"

    def cached_passes(self, run):
        self._is_solved = run.core.solve(run.search.w, self.fraction * left_to_steps(run.search))

    def describe(self):
        return "augmented Lagrangian on the planes of labellings found"


class Plain(Schedule):
    """BCFW: sequential passes with an evaluation of F now and then [Lacoste-Julien et al. 2013; Osokin et al. 2016].

    Parameters
    ----------
    gap_check : int
        Number of passes between two evaluations of F.
    gap_sampling : bool
        Whether examples are drawn in proportion to the last known block gaps, instead of permutations.
    """

    def __init__(self, gap_check=10, gap_sampling=False):
        self.gap_check, self.gap_sampling = gap_check, gap_sampling

    def actions(self, run):
        return ("value",) if run.trace.n_iter % (self.gap_check + 1) == 0 else ("visit",)

    def order(self, run):
        n, k = run.risk.n_examples, run.trace.n_iter
        if not self.gap_sampling or k == 1:
            return super().order(run)
        if k % (self.gap_check + 1) == 1:       # gaps are measured after an evaluation, as gaps of 0 may be out of date
            run.core.blocks.measure()
        gaps = run.core.blocks.gaps()
        total = gaps.sum()
        if not total > 0.0:
            return super().order(run)
        return run.rng.choice(n, n, p=gaps / total)

    def describe(self):
        return "block-coordinate Frank-Wolfe"


class MultiPlane(Plain):
    """MP-BCFW [Shah, Kolmogorov, Lampert 2015]: cached passes follow each sequential pass as long as they pay off.

    Cached passes stop when a pass has raised the dual less per unit of time than the iteration before that pass.

    Parameters
    ----------
    gap_check, gap_sampling
        As in `Plain`.
    cost : float or "clock"
        An oracle step counts as the time of this many cached steps; "clock" measures time instead.
    max_cached : int
        Maximum number of cached passes in an iteration.
    """

    def __init__(self, gap_check=5, gap_sampling=False, cost=20.0, max_cached=1000):
        super().__init__(gap_check, gap_sampling)
        self.cost, self.max_cached = cost, max_cached

    def arrays(self):
        if self.cost == "clock":
            raise ParameterError("cost must be a number in runs with a checkpoint, got 'clock', which measures time: a "
                                 "resumed run would not have the same bits")
        return super().arrays()

    def actions(self, run):
        first = super().actions(run)
        return first if first == ("value",) else ("visit", "cached")

    def order(self, run):
        self._start = self._time(run), self._dual(run)
        return super().order(run)

    def _time(self, run):
        if self.cost == "clock":
            return time.perf_counter()
        return self.cost * run.core.visits + run.core.cached_visits

    def _dual(self, run):
        """Return D of the present multipliers, for kappa = 0."""
        return run.problem.lower_bound(Plane(run.core.blocks.offset, run.core.phi()))

    def cached_passes(self, run):
        (t0, d0), t1, d1 = self._start, self._time(run), self._dual(run)
        for _ in range(self.max_cached):
            run.core.cached_pass(run.rng, 0.0)
            t, d = self._time(run), self._dual(run)
            if not d > d1 or (d - d1) * (t1 - t0) < (d1 - d0) * (t - t1):
                break
            t1, d1 = t, d

    def describe(self):
        return "multi-plane block-coordinate Frank-Wolfe"
