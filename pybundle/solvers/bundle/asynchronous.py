"""The proximal bundle method with planes of parts in the order in which workers return them.

The parts live with workers, some of which may be slow. Any plane of any part keeps the lower bound valid; only the
value at a point, hence the upper bound, needs all parts. So all parts evaluate one point at a time, the anchor.
If a part is late, the master is solved with the planes so far, and parts that have answered get its candidates. A
complete anchor is treated as the candidate of a step. With more than two groups of parts for each worker a second
anchor is sent while the workers evaluate the last groups of the first: none of them waits for the master, at the price
of some more passes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from ...core.plane import PartialPlanes
from .policies import BestPoint, StepOutcome

PATIENCE = 1.0
"""A step waits for slow parts at most as long again as the faster half took."""


@dataclass
class Anchor:
    """A point that all parts evaluate, the predicted decrease there, and the values so far (NaN: none)."""

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

    def __init__(self, staleness=8):
        super().__init__()
        self.staleness = staleness
        self._anchors = []              # the oldest first

    def begin(self, loop):
        super().begin(loop)
        groups, n_workers = loop.risk.groups, loop.risk.n_workers
        self._open = np.zeros(len(groups), dtype=int)       # questions that each group has not answered
        self._group_of = {int(group[0]): g for g, group in enumerate(groups)}
        # what workers may be at while the master is solved; with fewer groups too many planes would be missing
        self._rest = n_workers if len(groups) > 2 * n_workers else 0

    def advance(self, loop, solution, aggregate):
        w, risk = self.point(loop, solution, aggregate.phi), loop.risk
        for anchor in self._anchors:
            anchor.n_masters += 1
        if len(self._anchors) < (2 if self._rest else 1) and not self._is_late():
            asked = np.arange(len(self._open))
            self._anchors.append(Anchor(w, risk.submit(w), self._model, solution.gap, aggregate.gap,
                                        np.full(risk.n_parts, np.nan)))
        else:
            asked = np.flatnonzero(self._open == 0)
            if len(asked):
                risk.submit(w, asked)
        self._open[asked] += 1
        loop.bundle.prepare(risk.n_parts)
        with loop.counted():
            arrivals = self._collect(risk, len(asked))
        for arrival in arrivals:
            loop.check(arrival.planes, arrival.parts)
            loop.trace.n_passes += float(risk.part_sizes[arrival.parts].sum()) / risk.n_examples
        value, has_converged = loop.fun, False
        while self._anchors and self._anchors[0].is_complete():
            value = self._settle(loop, self._anchors.pop(0))
            has_converged = loop.rule.holds(value, aggregate.dual)
        return StepOutcome(PartialPlanes.joined(arrivals, risk.n_parts), value, has_converged)

    def _is_late(self):
        """Whether some part has more than one point to evaluate already: another anchor would only queue there."""
        return bool((self._open > 1).any()) or (bool(self._anchors) and self._anchors[0].n_masters > 1)

    def _collect(self, risk, n_asked):
        """Collect answers until workers run out of work, or until waiting for the next ones would take too long."""
        arrivals, began, half = [], time.perf_counter(), None
        oldest = self._anchors[0]
        while not oldest.is_complete():
            timeout = None
            if oldest.n_masters < self.staleness and arrivals:
                if 0 < self._open.sum() <= self._rest:
                    break
                if half is not None:
                    timeout = began + (1.0 + PATIENCE) * half - time.perf_counter()
                    if timeout <= 0.0:
                        break
            for arrival in risk.collect(timeout):
                self._open[self._group_of[int(arrival.parts[0])]] -= 1
                arrivals.append(arrival)
                for anchor in self._anchors:
                    if arrival.round == anchor.round:
                        anchor.values[arrival.parts] = arrival.planes.values
            if half is None and 2 * len(arrivals) >= n_asked:
                half = time.perf_counter() - began
        return arrivals

    def _settle(self, loop, anchor):
        """Step to an anchor that all parts have evaluated; return F there."""
        before = loop.fun
        fun = loop.observe(anchor.w, float(anchor.values.sum()), anchor.values)
        predicted, gained = before - anchor.model, before - fun
        self.adapt(before, predicted, gained, anchor.tol, anchor.gap)
        if gained > 0.0 and gained >= 0.1 * predicted:
            loop.master.move_centre(anchor.w)
            self.centre_fun = fun
        return fun
