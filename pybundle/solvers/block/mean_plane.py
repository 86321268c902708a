"""The mean of many planes of R, the recent ones weighted most, which proves a bound as each of them does.

The slope of the plane at a point x, or of the multipliers near it, lies off the subgradients of the penalty as long as
x moves. Under an l1 norm it is then scaled down until its largest entry fits, which costs most of the bound. In a mean
these errors nearly cancel.
"""

from __future__ import annotations

import numpy as np

from ...core.object_graph import check_array
from ...core.rounding import UNIT

RECENT = 5.0            # the mean of k planes weighs the newest by RECENT / (k + RECENT - 1): measured, 5 to 10 is best


class MeanPlane:
    """Mean of the planes (offset, phi, error, offset_error) added so far; errors are bounds, of phi in norm.

    With `means` m, those of the columns, errors of phi also bound those of `phi - phi_b m`, phi_b being the last entry.

    Attributes
    ----------
    plane : tuple
        The mean; None before the first plane.

    Examples
    --------
    >>> import numpy as np
    >>> mean = MeanPlane()
    >>> for slope in (1.0, -1.0, 1.0, -1.0):
    ...     offset, phi, *errors = mean.add(2.0, np.array([slope]))
    >>> offset, phi.round(2)
    (2.0, array([-0.43]))
    """

    def __init__(self, means=None):
        self._n_planes, self.plane = 0, None
        self._far = 0.0 if means is None else float(np.linalg.norm(means))

    def check(self, dim):
        """Raise ValueError if its planes have another dimension."""
        if self.plane is not None:
            check_array("phi", self.plane[1], (dim,))

    def add(self, offset, phi, error=0.0, offset_error=0.0):
        """Add a plane and return the mean; rounding is counted in its errors."""
        share = RECENT / (self._n_planes + RECENT)
        self._n_planes += 1
        if self.plane is None:
            self.plane = offset, phi.copy(), error, offset_error
        old_offset, mean, old_error, old_offset_error = self.plane
        sizes = sum(float(np.linalg.norm(one)) + self._far * abs(float(one[-1])) for one in (mean, phi))
        self.plane = (old_offset + share * (offset - old_offset), mean + share * (phi - mean),
                      max(old_error, error) + 4.0 * UNIT * sizes,
                      max(old_offset_error, offset_error) + 4.0 * UNIT * (abs(old_offset) + abs(offset)))
        return self.plane
