"""The weight of the proximal centre of a block method, from the gap.

With exact steps and the penalty `lam/2 |w|^2` the weight follows from lam; in other runs it follows from the gap. For
the plane `offset + <phi, w>` of the multipliers, which lies below R, the gap at the best point x has two parts >= 0:

    gap = [ R(x) - offset - <phi, x> ]  +  [ Omega(x) + <phi, x> - min_v (Omega(v) + <phi, v>) ]

If the weight is too small, w jumps and the first part stays large. With too large a weight w moves slowly, and the
second part stays large. On text and a9a with an l1 norm, this weight and the mean of all planes (`mean_plane.py`)
reach a gap of 1e-3 in a fifth to half of the passes that the weight `sqrt(lam Rbar^2)`, lam = gap / |x|^2, takes.
"""

from __future__ import annotations

from ...core.kept import Kept

FACTOR = 1.25           # factor by which the weight changes in one iteration
LIGHTER, HEAVIER = 10.0, 2.0    # the weight falls if r = second part / first part > LIGHTER, and grows if r < HEAVIER
FARTHEST = 1e6          # largest factor between the weight and the first weight


class Balance(Kept):
    """Weight of the proximal centre, which follows from the two parts of the gap.

    Attributes
    ----------
    kappa : float or None
        The weight; None before the first value.
    """

    kept = "kappa", "_first"

    def __init__(self):
        self.kappa = self._first = None

    def restart(self):
        """Return to the first weight, because the present weight was found at points far from the best point."""
        if self.kappa is not None:
            self.kappa = self._first

    def update(self, problem, x, risk_value, bound, plane, kappa, n_iter=1):
        """Set the weight from the best point x, its risk, and a plane with the bound that it proves.

        `n_iter` iterations have passed since the last update. The first update starts from the weight `kappa`.
        """
        rest = risk_value - plane.offset - float(plane.slope @ x)
        of_penalty = problem.value(x) + risk_value - bound.value - rest
        if self.kappa is None:
            self.kappa = self._first = kappa
        if of_penalty > LIGHTER * rest:
            self.kappa = max(self.kappa / FACTOR**n_iter, self._first / FARTHEST)
        elif of_penalty < HEAVIER * rest:
            self.kappa = min(self.kappa * FACTOR**n_iter, self._first * FARTHEST)
