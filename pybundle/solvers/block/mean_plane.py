"""A weighted mean of planes of R, in which recent planes weigh most. Like each of its planes, the mean proves a bound.

While w moves, minus the slope of a plane is not yet a subgradient of the penalty. With an l1 norm the slope must then
be scaled until no entry exceeds l1, which costs most of the bound. In a mean the deviations of slopes nearly cancel.
"""

from __future__ import annotations

from ...core.kept import Kept
from ...core.plane import Plane
from ...core.rounding import UNIT, norm

RECENT = 5.0            # the newest of k planes has the weight RECENT / (k + RECENT - 1): measured, 5 to 10 is best


class MeanPlane(Kept):
    """Weighted mean of the planes added so far.

    With means m of the columns, slope errors also bound the errors of `phi - phi_b m`, where phi_b is the last entry.

    Attributes
    ----------
    plane : Plane or None
        The mean; None before the first plane.

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.core.plane import Plane
    >>> mean = MeanPlane()
    >>> for slope in (1.0, -1.0, 1.0, -1.0):
    ...     plane = mean.add(Plane(2.0, np.array([slope])))
    >>> plane.offset, plane.slope.round(2)
    (2.0, array([-0.43]))
    """

    kept = "_n_planes", "plane"

    def __init__(self, means=None):
        self._n_planes, self.plane = 0, None
        self._far = 0.0 if means is None else norm(means)

    def add(self, plane):
        """Add a plane and return the mean, whose errors include the roundings of the addition."""
        share, mean = RECENT / (self._n_planes + RECENT), self.plane or plane
        self._n_planes += 1
        sizes = sum(norm(one.slope) + self._far * abs(float(one.slope[-1])) for one in (mean, plane))
        self.plane = Plane(
            mean.offset + share * (plane.offset - mean.offset), mean.slope + share * (plane.slope - mean.slope),
            max(mean.slope_error, plane.slope_error) + 4.0 * UNIT * sizes,
            max(mean.offset_error, plane.offset_error) + 4.0 * UNIT * (abs(mean.offset) + abs(plane.offset)))
        return self.plane
