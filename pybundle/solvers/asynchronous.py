"""The proximal bundle method around the best point with planes of parts as they come.

The parts live with workers, some of which may be slow. Any plane of any part keeps the lower bound valid; only the
value at a point, hence the upper bound, needs all parts. So one point at a time, the anchor, is asked of all parts. The
master is solved with what has come, and parts that have answered get its candidates meanwhile, until the anchor is
complete: it is then treated as the candidate of a step.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from .policies import BestPoint

STALENESS = 8
"""Masters solved while the slowest part is at the anchor."""
PATIENCE = 1.0
"""The parts asked in a step that are slower than half of them are waited for as long again as that half took."""


@dataclass
class Anchor:
    """A point that all parts are asked at, what the model promised there, and the values so far (NaN: none)."""

    w: np.ndarray
    round: int
    model: float
    tol: float
    gap: float
    values: np.ndarray
    n_masters: int = 0

    def is_complete(self):
        return not np.isnan(self.values).any()


class Asynchronous(BestPoint):
    """`BestPoint` for a risk with `submit` and `collect`; the clock decides, so that no two runs are alike.

    Parameters
    ----------
    staleness : int
        Masters solved before the anchor is waited for, however long it takes.
    """

    def __init__(self, staleness=STALENESS):
        super().__init__()
        self.staleness = staleness
        self._anchor = None

    def begin(self, loop):
        super().begin(loop)
        self._open = np.zeros(len(loop.risk.groups), dtype=int)       # questions that each group has not answered
        self._group_of = {int(group[0]): g for g, group in enumerate(loop.risk.groups)}

    def advance(self, loop, solution, phi):
        w, risk = self.point(loop, solution, phi), loop.risk
        if self._anchor is None:
            asked = np.arange(len(self._open))
            self._anchor = Anchor(w, risk.submit(w), self._model, solution.gap, loop.fun - loop.bound.value,
                                  np.full(risk.n_parts, np.nan))
        else:
            asked = np.flatnonzero(self._open == 0)
            if len(asked):
                risk.submit(w, asked)
            self._anchor.n_masters += 1
        self._open[asked] += 1
        with loop.trace.clock.phase("oracle"):
            arrivals = self._collect(risk, len(asked))
        for arrival in arrivals:
            loop.check(arrival.planes, arrival.parts)
            loop.trace.n_passes += float(risk.part_sizes[arrival.parts].sum()) / risk.n_examples
        value, has_converged = loop.fun, False
        if self._anchor.is_complete():
            value = self._settle(loop)
            bound = loop.objective.lower_bound(float(solution.beta @ loop.bundle.offsets), phi)
            has_converged = loop.settings.gap.holds(value, bound)
        return arrivals, value, has_converged

    def _collect(self, risk, n_asked):
        """What comes until the anchor is complete, or until those that answer now would have to be waited for."""
        arrivals, began, half = [], time.perf_counter(), None
        while not self._anchor.is_complete():
            timeout = None
            if half is not None and self._anchor.n_masters < self.staleness:
                timeout = began + (1.0 + PATIENCE) * half - time.perf_counter()
                if timeout <= 0.0 or (self._open == 0).sum() >= n_asked > 0:
                    break
            for arrival in risk.collect(timeout):
                g = self._group_of[int(arrival.parts[0])]
                self._open[g] -= 1
                arrivals.append(arrival)
                if arrival.round == self._anchor.round:
                    self._anchor.values[arrival.parts] = arrival.planes.values
            if half is None and 2 * len(arrivals) >= n_asked:
                half = time.perf_counter() - began
        return arrivals

    def _settle(self, loop):
        """The step to the anchor, all of whose values are known; gives F there."""
        anchor, before = self._anchor, loop.fun
        self._anchor = None
        fun = loop.observe(anchor.w, float(anchor.values.sum()), anchor.values)
        predicted, gained = before - anchor.model, before - fun
        self.adapt(before, predicted, gained, anchor.tol, anchor.gap)
        if gained > 0.0 and gained >= 0.1 * predicted:
            loop.bundle.move_centre(anchor.w)
            self.centre_fun = fun
        return fun
