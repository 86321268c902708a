"""The proximal centre and the bound of a block method whose penalty may not be strongly convex.

A square `lam/2 |w|^2` tells how heavy the centre should be. With another penalty the gap tells. At the best point x it
has two halves, neither of which is negative, for the plane `offset + <phi, w> <= R(w)` of the multipliers:

    gap = [ R(x) - offset - <phi, x> ]  +  [ Omega(x) + <phi, x> - least value of that ]

A light centre leaves the first half large, because w jumps, a heavy one the second, because w moves slowly. On text and
a9a with an l1 norm, to 1e-3, the balance takes a half to a fifth of the passes of the weight `sqrt(lam Rbar^2)` with
lam = gap / |x|^2.
"""

from __future__ import annotations

import numpy as np

from ...core.object_graph import check_array, check_float
from ...core.rounding import UNIT
from ...runtime.lower_bound import LowerBound

FACTOR = 1.25           # of the weight of the centre, from one iteration to the next
LIGHTER, HEAVIER = 10.0, 2.0    # above and below these ratios of the second half to the first
FARTHEST = 1e6          # from the first weight
RECENT = 5.0            # the mean of k planes weighs the plane k by RECENT / (k + RECENT)


class Balance:
    """Weight of the proximal centre by the two halves of the gap, and the mean of the planes of all iterations.

    The slope of one plane lies off the subgradients of the penalty by kappa times the step of w. In a mean of planes
    these steps nearly cancel, so that the mean often proves a better bound than its newest plane.

    Attributes
    ----------
    kappa : float or None
        Weight of the centre; None before the first value.
    """

    def __init__(self):
        self.kappa = self._mean = None
        self._n_planes = 0

    def check(self, dim):
        """Raise ValueError if the state is not that of a run of this dimension."""
        if self.kappa is not None:
            check_float("kappa", self.kappa, 0.0)
            check_float("the first kappa", self._first, 0.0)
        if self._mean is not None:
            check_array("phi", self._mean[1], (dim,))

    def update(self, objective, x, risk_value, bound, plane, kappa):
        """Set the weight from the best point, its risk, the bound that the plane proves, and the present weight."""
        offset, phi = plane[:2]
        rest = risk_value - offset - float(phi @ x)
        of_penalty = objective.value(x) + risk_value - bound.value - rest
        if self.kappa is None:
            self.kappa = self._first = kappa
        if of_penalty > LIGHTER * rest:
            self.kappa = max(self.kappa / FACTOR, self._first / FARTHEST)
        elif of_penalty < HEAVIER * rest:
            self.kappa = min(self.kappa * FACTOR, self._first * FARTHEST)

    def mean_bound(self, objective, plane):
        """Return the bound from the mean of all planes (offset, phi, error, offset_error) so far, this one included."""
        share = RECENT / (self._n_planes + RECENT)
        self._n_planes += 1
        if self._mean is None:
            self._mean = plane
        offset, phi, error, offset_error = self._mean
        new_offset, new_phi, *new_errors = plane
        sizes = float(np.linalg.norm(phi)) + float(np.linalg.norm(new_phi))
        self._mean = (offset + share * (new_offset - offset), phi + share * (new_phi - phi),
                      max(error, new_errors[0]) + 4.0 * UNIT * sizes,
                      max(offset_error, new_errors[1]) + 4.0 * UNIT * (abs(offset) + abs(new_offset)))
        return LowerBound.from_aggregate(objective, *self._mean)
