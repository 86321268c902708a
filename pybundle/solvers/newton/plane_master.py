"""`PlaneMaster` solves the n-slack master problem of all known planes by the augmented Lagrangian method."""

from __future__ import annotations

from operator import attrgetter

import numpy as np
from scipy.sparse import csr_array

from ...core.kept import Kept
from ...prox.of_norm import Square
from ...runtime.result import Status
from ...runtime.stopping import GapBelow
from ..problem.problem import Problem
from ..search import Search
from ..state import Known, Settings
from .alm import AugmentedLagrangian
from .known_planes import KnownPlanes, PlaneMultipliers

MOST_STEPS = 10     # maximum number of Newton steps in one call of `solve`, so that the caller can check its time limit
MOST_PRODUCTS = 150     # maximum number of products for one direction; on letter sequences 60 and 400 were slower


class PlaneMaster(Kept):
    """The problem `min lam/2 |w|^2 + sum_i max_q l_iq + <psi_iq, w>` over the planes of `Blocks`, and its solver.

    The run starts from the multipliers of the blocks. Weights that occur in no plane stay 0 and are left out; of
    millions of features, often a few per cent remain.

    Parameters
    ----------
    blocks : Blocks
        No plane may be added or dropped while this object is in use.
    lam : float
    w : ndarray, shape (dim,)
        Starting point, in general the best point, as the point of the multipliers may be far worse.
    sigma : float or None
        First step length of the proximal point method, from an earlier master; None as in `AugmentedLagrangian`.
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
            Search(self._risk, Problem(Square(lam)), Settings(GapBelow(0.0, 0.0))), PlaneMultipliers(self._risk),
            sigma, growth, largest_rank=0, max_products=MOST_PRODUCTS)
        w = w[self._columns]
        self._run.start(w, Known(w, np.inf, blocks=self._run.multipliers.complete(alpha)))

    @property
    def w(self):
        """The best point, shape (dim,)."""
        w = np.zeros(self._blocks.dim)
        w[self._columns] = self._run.search.w
        return w

    sigma = property(attrgetter("_run.sigma"))

    def solve(self, target):
        """Make some Newton steps, and store the multipliers in the blocks.

        Return True if the gap has reached `target`, or if the run has stalled.
        """
        run = self._run
        for _ in range(MOST_STEPS):
            if run.search.gap <= target or run.step() is Status.STALLED:
                break
        self._blocks.assign(run.best[1][self._risk.places])
        return run.search.gap <= target or run.is_stalled()
