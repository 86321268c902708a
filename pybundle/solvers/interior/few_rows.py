"""The interior point method on few of many rows, the others fixed: proven on all of them [Portnoy & Koenker 1997].

A sample of the rows gives a first point. The rows near the corners of their losses there are solved with all others at
the ends of their boxes. Multipliers of both together prove a bound, whatever sides were guessed; if the gap is not
closed, twice as many rows come near, and all of them once these would be half.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.object_graph import check_array
from ...runtime.result import Status
from .barrier import Barrier
from .interior_point import LATE, PASSES, InteriorPoint

FIRST = 1e-4        # gap on the sample
FRACTION = 0.3      # of the tolerance, on the rows near the corners
SIZE = 2.0          # number of rows in units of n^(2/3) d^(1/3): about as many as the sample leaves undecided


def size_of_sample(n, d):
    """Return how many of n rows are solved at a time."""
    return int(SIZE * n ** (2.0 / 3.0) * d ** (1.0 / 3.0)) + 1


class Part(NamedTuple):
    """Rows by their numbers (k,), ascending, and multipliers of all rows (m,), 0 for these; None for a sample."""

    chosen: np.ndarray
    fixed: np.ndarray | None


class FewRows(InteriorPoint):
    """As `InteriorPoint`, on a part of the rows until that is known to be all or half of them."""

    serialised: tuple = (Part,)
    patience = 40

    def __init__(self, risk, objective, settings):
        super().__init__(risk, objective, settings)
        self.part = self._small = None

    def __getstate__(self):
        return super().__getstate__() | {"_small": None}

    def check_state(self):
        if self.part is not None:
            check_array("rows", self.part.chosen, (len(self.part.chosen),), np.intp, 0)
        super().check_state()

    @property
    def present(self):
        if self.part is None:
            return self.barrier
        if self._small is None:
            whole, (index, fixed) = self.barrier, self.part
            share = len(index) / whole.m if fixed is None else 1.0
            slope = np.zeros(self.risk.dim) if fixed is None else whole.rows.transposed(fixed)
            self._small = Barrier(whole.rows.some(index), share * whole.l1, share * whole.l2, whole.centre, whole.held,
                                  slope)
        return self._small

    def _open(self, w0):
        m, size = self.barrier.m, size_of_sample(self.barrier.m, self.risk.dim)
        self._enter(Part(np.sort(np.random.default_rng(0).choice(m, size, replace=False)), None), None)

    def _enter(self, part, w):
        self.part, self._small = part, None
        self.point = self.present.first(w)

    def iterate(self):
        if self.part is None:
            return super().iterate()
        self.trace.n_iter += 1
        if not self.is_close():
            small, k = self.present, len(self.part.chosen)
            try:
                is_sample = self.part.fixed is None
                target = FIRST * small.loss(self._known()[0]) if is_sample else FRACTION * self._most()
                with self.trace.clock.phase("qp"):
                    self.point = small.step(self.point, *self._known(), small.gap(self.point) <= LATE * target)
                self.trace.n_passes += PASSES * k / self.barrier.m
                is_done = small.gap(self.point) <= target
            except np.linalg.LinAlgError:
                is_done = True
            if is_done:
                self._join()
        self.log(self.fun)
        return Status.CONVERGED if self.is_close() else None

    def stalled(self):
        if self.part is None:
            return super().stalled()
        self._enter(None, self.w)
        self._idle = 0
        return None

    def _join(self):
        # value and bound on all rows, and the next part
        whole, (index, fixed), w = self.barrier, self.part, self.point.w
        r, flat = whole.rows.y - whole.rows.product(w), whole.rows.flat
        self.trace.n_passes += 1.0
        if fixed is not None:
            a = np.clip(fixed, whole.rows.lo, whole.rows.hi)       # a checkpoint may say anything
            a[index] = self.present.multipliers(self.point.a)
            self._prove(a, whole.rows.transposed(a))
        self.observe(np.array(w), whole.loss(whole.residuals(w)))
        self._confine()
        if self.is_close():
            return
        size = len(index) * (1 if fixed is None else 2)
        if 2 * size > whole.m:
            self._enter(None, self.w)
            return
        near = np.sort(np.argpartition(np.abs(np.abs(r) - flat), size - 1)[:size])
        fixed = np.where(r > flat, whole.rows.hi, np.where(r < -flat, whole.rows.lo, 0.0))
        fixed[near] = 0.0
        self._enter(Part(near, fixed), w)
