"""The problem of all known planes, solved to high accuracy: the n-slack master by the augmented Lagrangian method."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from ...core.kept import Kept
from ...prox.of_norm import Square
from ...runtime.result import Status
from ...runtime.stopping import GapBelow
from ..problem.objective import Objective
from ..search import Search
from ..state import Settings, State
from .alm import AugmentedLagrangian
from .known_planes import KnownPlanes, PlaneMultipliers

MOST_STEPS = 10     # Newton steps in a row: the caller looks at the clock after them
MOST_PRODUCTS = 150     # of conjugate gradients: of 60, 150 and 400 the fastest on letter sequences


class PlaneMaster(Kept):
    """`min lam/2 |w|^2 + sum_i max_q l_iq + <psi_iq, w>` over the planes of `Blocks`, from their multipliers.

    Only weights that some plane needs take part, the others are 0: of millions of features that may be a few per cent.

    Parameters
    ----------
    blocks : Blocks
        No plane may be added or dropped while this object is in use.
    lam : float
    w : ndarray, shape (dim,)
        Starting point: the point of the multipliers alone may be far worse than the best one.
    sigma : float or None
        Step of the proximal point method to begin with, of an earlier master; None leaves it to the run.
    growth : float
        As in `AugmentedLagrangian`.
    """

    kept = ("_run",)

    def __init__(self, blocks, lam, w, sigma=None, growth=1.5):
        self._blocks = blocks
        rows, offsets, alpha, slopes = blocks.arrays()
        is_needed = np.zeros(blocks.dim, dtype=bool)
        is_needed[slopes.indices] = True
        self._columns, place = np.flatnonzero(is_needed), np.cumsum(is_needed, dtype=np.int32) - np.int32(1)
        slopes = csr_array((slopes.data, place[slopes.indices], slopes.indptr),
                           shape=(len(rows), len(self._columns)))
        self._risk = KnownPlanes(blocks.n_blocks, rows, offsets, slopes)
        self._run = AugmentedLagrangian(
            Search(self._risk, Objective(Square(lam)), Settings(GapBelow(0.0, 0.0))), PlaneMultipliers(self._risk),
            sigma, growth, largest_rank=0, max_products=MOST_PRODUCTS)
        w = w[self._columns]
        self._run.start(w, State(w, np.inf, blocks=self._run.multipliers.complete(alpha)))

    @property
    def w(self):
        """The best point."""
        w = np.zeros(self._blocks.dim)
        w[self._columns] = self._run.search.w
        return w

    @property
    def sigma(self):
        return self._run.sigma

    def solve(self, target):
        """Some Newton steps; the blocks get the multipliers. Whether the gap is below `target`, or will never be."""
        run = self._run
        for _ in range(MOST_STEPS):
            if run.search.gap <= target or run.step() is Status.STALLED:
                break
        self._blocks.assign(run.best[1][self._risk.places])
        return run.search.gap <= target or run.is_stalled()
