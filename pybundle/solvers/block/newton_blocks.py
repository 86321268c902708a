"""Blocks of cached planes with Newton steps on the master problem of all planes, for the schedule `Exact`."""

from __future__ import annotations

import numpy as np

from ...core.kept import Held
from ..newton.plane_master import PlaneMaster
from .cached_blocks import CachedBlocks


class NewtonBlocks(CachedBlocks):
    """`CachedBlocks` that can solve the master problem of all planes at once.

    Parameters
    ----------
    sigma, growth
        Arguments of `AugmentedLagrangian`.
    """

    kept = (*CachedBlocks.kept, "_sigma")

    def __init__(self, risk, problem, known=None, *, sigma=None, growth=1.5, **options):
        super().__init__(risk, problem, known, **options)
        self._master, self._sigma, self._growth = None, sigma, growth

    def arrays(self):
        return {"_master": None if self._master is None else Held(self._master.arrays()), **super().arrays()}

    def restore(self, arrays):
        """Become the core that `arrays` described; Newton steps continue where that core had ended."""
        super().restore({name: value for name, value in arrays.items() if name != "_master"})
        if arrays["_master"] is not None:
            self._master = self._begun(np.zeros(self.dim))
            self._master.restore(arrays["_master"])

    def _begun(self, w):
        return PlaneMaster(self.blocks, self.lam, w, self._sigma, self._growth)

    def solve(self, w, target):
        """Do Newton steps from w on the master problem; return whether its gap is at most `target`, or stalls.

        The next call continues where this call ended, unless planes were added in between.
        """
        if self._master is None:
            self._master = self._begun(w)
        is_solved = self._master.solve(target)
        self._sigma, self._phi = self._master.sigma, None       # phi is unknown until `aggregate`
        return is_solved

    def evaluate(self, search, w):
        """Return F at the best point of the Newton steps, or at w if there were no such steps."""
        if self._master is not None:
            w, self._master = self._master.w, None
        return super().evaluate(search, w)

    def forget(self):
        if self._master is None:        # otherwise the master problem needs all planes
            super().forget()
