"""The weight of the proximal centre of a block method, from the gap.

With exact steps the weight follows from a square `lam/2 |w|^2`, else from the gap. For the plane `offset + <phi, w>` of
the multipliers, which lies below R, the gap at the best point x has two halves, neither of which is negative:

    gap = [ R(x) - offset - <phi, x> ]  +  [ Omega(x) + <phi, x> - least value of that ]

With a light centre w jumps and the first half stays large; with a heavy one w is slow and the second does. On text and
a9a with an l1 norm, to 1e-3, the balance and the mean of all planes (`mean_plane.py`) take a half to a fifth of the
passes of the weight `sqrt(lam Rbar^2)` with lam = gap / |x|^2.
"""

from __future__ import annotations

from ...core.kept import Kept

FACTOR = 1.25           # change of the weight of the centre in one iteration
LIGHTER, HEAVIER = 10.0, 2.0    # the centre gets so above and below these ratios of the second half to the first
FARTHEST = 1e6          # largest factor between the weight and the first one


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
        """Return to the first weight, because the present one belongs to a point far from the best."""
        if self.kappa is not None:
            self.kappa = self._first

    def update(self, problem, x, risk_value, bound, plane, kappa, n_iter=1):
        """Set the weight from the best point, its risk, the bound that the plane proves, and the present weight.

        `n_iter` iterations have passed since the last update.
        """
        rest = risk_value - plane.offset - float(plane.slope @ x)
        of_penalty = problem.value(x) + risk_value - bound.value - rest
        if self.kappa is None:
            self.kappa = self._first = kappa
        if of_penalty > LIGHTER * rest:
            self.kappa = max(self.kappa / FACTOR**n_iter, self._first / FARTHEST)
        elif of_penalty < HEAVIER * rest:
            self.kappa = min(self.kappa * FACTOR**n_iter, self._first * FARTHEST)
