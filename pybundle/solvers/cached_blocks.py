"""Blocks of cached planes, one block for each example, fed by an oracle with access to single examples.

The core of the block methods for structured risks: `BlockMethod` says when the oracle is asked, when stored planes
are enough, and where the centre lies.
"""

from __future__ import annotations

import numpy as np

from ..bundle._blocks import Blocks
from ..runtime.certificate import UNIT

REFRESH = 10        # iterations after which running sums are made afresh
IDLE = 10           # iterations without activity after which a plane is forgotten
FULL = 5            # cached passes of which one visits every block


class CachedBlocks:
    """Planes met so far and their multipliers, for all examples of a risk.

    Parameters
    ----------
    risk : Structured or LinearRisk
        Its `oracle()` is asked in batches.
    objective : L2
    batch : int
        Examples decoded at one point in an exact pass; 1 is fully sequential.
    step, max_steps, cap
        As in `Blocks`.

    Attributes
    ----------
    w, offset
        Point and B of the multipliers.
    visits, cached_visits : float
        Examples visited by the oracle, and blocks visited over stored planes alone.
    """

    def __init__(self, risk, objective, *, batch=64, step="exact", max_steps=10, cap=100):
        self.risk, self.objective = risk, objective
        self.oracle = risk.oracle()
        self.n_examples, self.dim = risk.n_examples, risk.dim
        self._settings = objective.nonneg, step, max_steps, cap
        self.blocks = Blocks(risk.n_examples, risk.dim, *self._settings)
        self.batch, self.towards = batch, step == "frank-wolfe"
        self.visits = self.cached_visits = 0.0
        self.kappa, self.centre = 0.0, None
        self._turn = self._age = 0

    @property
    def w(self):
        return self.blocks.w

    @property
    def offset(self):
        return self.blocks.offset

    # ------------------------------------------------------------------ the point
    def phi(self):
        """phi of the multipliers, from the running point."""
        x = self.blocks.unclipped()
        x *= -self.blocks.scale
        if self.kappa:
            x += self.kappa * self.centre
        return x

    def place(self, lam, kappa, centre, phi=None):
        """w = (kappa c - phi) / (lam + kappa); multipliers stay."""
        x = -(self.phi() if phi is None else phi)
        if kappa:
            x += kappa * centre
        x /= lam + kappa
        self.kappa, self.centre = kappa, centre
        self.blocks.place(x, lam + kappa)

    def restore(self, other, lam):
        """Planes and multipliers of another run, at the point they have for this lam without a centre."""
        self.blocks = other.blocks.copy(*self._settings)
        self.place(lam, 0.0, None, self.blocks.aggregate()[1])

    # ------------------------------------------------------------------ passes
    def exact_pass(self, order):
        """Asks the oracle for each example of `order`, a batch at a time, and takes a step on its block."""
        total = 0.0
        for first in range(0, len(order), self.batch):
            rows = order[first:first + self.batch]
            found = self.oracle.solve_batch(rows, self.oracle.prepare(self.w))
            losses, slopes = self.oracle.planes(rows, found.labellings)
            total += self.blocks.visit(rows, losses, slopes, self.towards)
        self.visits += len(order)
        return total

    def cached_pass(self, rng, target):
        """A step on blocks that know more than the truth; an estimate of the sum of all gaps.

        Blocks whose last gap was below a tenth of their share of `target` rest, but for every fifth pass.
        """
        rows, resting = np.flatnonzero(self.blocks.sizes() > 1), 0.0
        self._turn += 1
        if target > 0.0 and self._turn % FULL:
            gaps = self.blocks.gaps()[rows]
            active = gaps > 0.1 * target / self.n_examples
            rows, resting = rows[active], float(gaps[~active].sum())
        rng.shuffle(rows)
        self.cached_visits += len(rows)
        return self.blocks.sweep(rows) + resting

    def gaps(self):
        """The last gap known of every block."""
        return self.blocks.gaps()

    def forget(self):
        """After an iteration: planes idle for some time go, now and then running sums are made afresh."""
        self._age += 1
        self.blocks.forget(IDLE)
        if self._age % REFRESH == 0:
            self.place(self.blocks.scale - self.kappa, self.kappa, self.centre, self.blocks.aggregate()[1])

    def n_planes(self):
        return self.blocks.n_planes

    def evaluate(self, run):
        """The risk at w; the planes found there are stored."""
        w = self.w.copy()
        weights, values = self.oracle.prepare(w), np.empty(self.n_examples)
        for rows in np.array_split(np.arange(self.n_examples), max(1, self.n_examples // 2048)):
            found = self.oracle.solve_batch(rows, weights)
            values[rows] = np.maximum(found.uppers, 0.0)
            self.blocks.learn(rows, *self.oracle.planes(rows, found.labellings))
        self.visits += self.n_examples
        return run.observe(w, float(values.sum()))

    def aggregate(self):
        """B, phi and bounds on their rounding errors, summed afresh."""
        offset, phi, size = self.blocks.aggregate()
        terms = self.n_examples + self.blocks.n_planes + 4.0
        return offset, phi, terms * UNIT * size, terms * UNIT * abs(offset)

    def radius2(self):
        """Mean |psi|^2 of the stored planes."""
        return self.blocks.mean_squared_norm()
