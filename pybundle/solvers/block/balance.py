"""The weight of the proximal centre of a block method, from the gap.

With exact steps a square `lam/2 |w|^2` tells how heavy the centre should be. With another penalty, or with steps that
are not exact, the gap tells. At the best point x it has two halves, neither of which is negative, for the plane
`offset + <phi, w> <= R(w)` of the multipliers:

    gap = [ R(x) - offset - <phi, x> ]  +  [ Omega(x) + <phi, x> - least value of that ]

A light centre leaves the first half large, because w jumps, a heavy one the second, because w moves slowly. On text and
a9a with an l1 norm, to 1e-3, the balance and the mean of all planes (`mean_plane.py`) take a half to a fifth of the
passes of the weight `sqrt(lam Rbar^2)` with lam = gap / |x|^2.
"""

from __future__ import annotations

from ...core.kept import Kept

FACTOR = 1.25           # of the weight of the centre, from one iteration to the next
LIGHTER, HEAVIER = 10.0, 2.0    # above and below these ratios of the second half to the first
FARTHEST = 1e6          # from the first weight


class Balance(Kept):
    """Weight of the proximal centre by the two halves of the gap.

    Attributes
    ----------
    kappa : float or None
        The weight; None before the first value.
    """

    kept = "kappa", "_first"

    def __init__(self):
        self.kappa = self._first = None

    def restart(self):
        """Go back to the first weight: that of now belongs to a point far from the best one."""
        if self.kappa is not None:
            self.kappa = self._first

    def update(self, objective, x, risk_value, bound, plane, kappa, n_iter=1):
        """Set the weight from the best point, its risk, the bound that the plane proves, and the present weight.

        `n_iter` iterations have passed since the last time.
        """
        rest = risk_value - plane.offset - float(plane.slope @ x)
        of_penalty = objective.value(x) + risk_value - bound.value - rest
        if self.kappa is None:
            self.kappa = self._first = kappa
        if of_penalty > LIGHTER * rest:
            self.kappa = max(self.kappa / FACTOR**n_iter, self._first / FARTHEST)
        elif of_penalty < HEAVIER * rest:
            self.kappa = min(self.kappa * FACTOR**n_iter, self._first * FARTHEST)
