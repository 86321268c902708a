"""The problem `F(w) = factor Omega(w) + R(w)`: a penalty, linear constraints, and the coordinates of free intercepts.

A lower bound of F follows from a plane of R, which `Penalty.bound` explains. Before that the plane is moved to
`coordinates`, and repaired by `anchors`; `ProvenLimits` of free weights narrow the penalty.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...core.plane import Plane
from ...core.rounding import UNIT
from ...prox import Box, Penalty
from ...prox.of_norm import SquareOfClasses
from ...prox.separable import NOTHING
from .coordinates import Coordinates


@dataclass(frozen=True, eq=False)
class Problem:
    """`F(w) = factor Omega(w) + R(w)`; it never changes.

    Attributes
    ----------
    penalty : Penalty
        Omega, as its method `canonical` returns it; a square is multiplied by the number of examples, with factor 1.
    floor : float
        A lower bound of R that the risk declares; -inf if none.
    factor : float
        Number of examples in the mean scale, else 1.
    means : ndarray, shape (dim,) or (dim / K,), or None
        Means of the columns for `coordinates`, if an intercept is free.
    rows : Rows or None
        Linear constraints, see `constraints.py`.
    dependence : Dependence or None
        The weights that the penalty holds at 0 because others make up for them, and the penalty of the user.
    score_limits : ScoreLimits or None
        Limits of the free weights in closed form; `ProvenLimits.hold` sets their level.
    anchors : ScoreAnchors or LabelAnchors or None
        They make slopes of free intercepts 0, if only intercepts are free.

    >>> import numpy as np
    >>> from pybundle.core.plane import Plane
    >>> from pybundle.prox import L1
    >>> from pybundle.prox.of_norm import Square
    >>> Problem(L1(1.0).canonical(2), floor=0.0).lower_bound(Plane(4.0, np.array([0.5, 2.0]))) > 1.999999
    True
    >>> Problem(Square(2.0)).lower_bound(Plane(5.0, np.array([3.0, 4.0])))
    -1.25
    """

    penalty: Penalty
    floor: float = -np.inf
    factor: float = 1.0
    means: np.ndarray | None = None
    rows: Any = None
    dependence: Any = None
    score_limits: Any = None
    anchors: Any = None

    # ------------------------------------------------------------------ the form of the penalty
    @cached_property
    def square(self):
        """The `Square` that methods for one number lam take, or None."""
        return self.penalty.square

    @cached_property
    def ball(self):
        """Omega as `Ball`, or None."""
        return self.penalty.ball

    @cached_property
    def entries(self):
        """Omega by entries, as `Separable`, or None."""
        return self.penalty.entries

    def scaled_entries(self, dim):
        """Return `factor Omega` by entries, arrays (dim,), for steps: the rounding of these products is not counted."""
        omega = self.entries
        if self.factor != 1.0:
            omega = omega.replaced(l2=self.factor * omega.l2, l1=self.factor * omega.l1)
        return omega.replaced(**{name: np.broadcast_to(getattr(omega, name), (dim,)) for name in NOTHING})

    @cached_property
    def even(self):
        """lam; or the rate of the squares, if equal ones are all of the penalty and of classes intercepts are free."""
        if self.square is not None:
            return self.square.lam
        omega: Any = self.penalty
        if self.classes is None or not omega.is_of_squares:
            return None
        held = ~self.is_free & ((omega.lower != 0.0) | (omega.upper != 0.0))
        is_open = (np.abs([omega.lower[held], omega.upper[held]]) == np.inf).all()
        rates = self.moduli[held]
        return float(rates[0]) if is_open and len(np.unique(rates)) == 1 else None

    @property
    def is_linear(self):
        """Whether the minimiser of a model is linear in the slope, apart from intercepts."""
        return self.even is not None and self.penalty.nonneg is None

    @property
    def classes(self):
        """The `LabelSums` of the risk if intercepts of classes are free, else None."""
        return None if self.anchors is None else self.anchors.classes

    @cached_property
    def coordinates(self):
        """Coordinates in which distances between points are measured."""
        return Coordinates(self.means, self.classes is not None)

    @cached_property
    def is_free(self):
        """Weights without penalty that are unbounded on at least one side, shape (dim,), or (1,) where no weight is."""
        omega = self.entries
        return np.zeros(1, dtype=bool) if omega is None else np.atleast_1d((omega.l2 == 0.0) & (omega.l1 == 0.0) & (
            (omega.lower == -np.inf) | (omega.upper == np.inf)))

    @cached_property
    def moduli(self):
        """`F - sum_k moduli_k/2 w_k^2` is convex; a number or shape (dim,)."""
        return self.factor * self.penalty.moduli

    @property
    def modulus(self):
        """Constant of strong convexity of F, or None."""
        return self.lowered.modulus(self.factor)

    @cached_property
    def least_modulus(self):
        """The least of the moduli of all weights that are neither free nor fixed."""
        if self.even is not None:
            return self.even
        omega = self.entries
        moduli = [] if omega is None else self.moduli[~self.is_free & (omega.lower < omega.upper)]
        return float(np.min(moduli)) if len(moduli) else 0.0

    # ------------------------------------------------------------------ values and slopes
    def value(self, w):
        """Return the penalty at w; infinite if it overflows."""
        return self.factor * float((self.dependence or self).penalty.value(w))

    def along(self, best, w, step):
        """Return a and b: the penalty rises by at most `a t + b t^2/2` from best to best + t step; w = best + step."""
        return self.penalty.along(best, w, step, self.factor)

    # ------------------------------------------------------------------ bounds
    @cached_property
    def lowered(self):
        """Omega less the rounding of its numbers, and infinite beyond the bounds that linear constraints imply."""
        omega, entries = self.penalty.lowered(), self.entries
        if self.rows is None or entries is None:
            return omega
        lower, upper = self.rows.implied(entries.lower, entries.upper)
        if self.means is not None:      # the penalty is on the intercept at the means
            lower[-1], upper[-1] = -np.inf, np.inf
        return omega.within(lower, upper)

    @cached_property
    def _held(self):
        """Omega, lowered, with the free weights at 0."""
        omega, free = self.penalty.lowered(), self.is_free
        return omega.replaced(lower=np.where(free, 0.0, omega.lower), upper=np.where(free, 0.0, omega.upper))

    def _within(self, limits):
        """Return the penalty within limits; anchors hold free weights at 0."""
        if self.anchors is not None:
            return self._held if self.even is None else SquareOfClasses(self.even)
        return self.lowered if limits is None else limits.penalty

    def lower_bound(self, plane, limits=None):
        """Return a lower bound of F from a plane, whose errors are counted, within `ProvenLimits`.

        Penalties of one norm leave the rounding of the last difference to `LowerBound`.
        """
        plane = self.coordinates.plane(plane)
        if self.anchors is not None and np.isfinite(plane.slope_error).all():
            plane = Plane(*self.anchors.repaired(plane.offset - plane.offset_error, plane.slope, plane.slope_error))
            plane = replace(plane, slope_error=1.03 * plane.slope_error)        # a verifier counts up to 3 % more
        found = self._within(limits).bound(plane, self.floor, self.factor)
        if limits is None or limits.level == np.inf:
            return found
        # without limits of the free weights t may have been 0; limits never lower a bound
        least = self.factor * limits.penalty.least(np.zeros(len(plane.slope)))
        return max(found, self.floor + least - 4.0 * UNIT * (abs(self.floor) + abs(least)))

    def scaling(self, plane, limits=None):
        """Return the t <= 1 of `Penalty.bound` for a plane."""
        plane = self.coordinates.plane(plane)
        return self._within(limits).scaled_least(plane.slope, plane.slope_error, self.factor)[0]

    def least_over_rest(self, plane):
        """Return t, and the least value of the penalty plus `<t phi, w>` over all weights but the free ones at 0.

        Plane and weights are those of `coordinates`.
        """
        return self._held.scaled_least(np.where(self.is_free, 0.0, plane.slope), plane.slope_error, self.factor)

    # ------------------------------------------------------------------ points
    def minimiser(self, phi, weight=0.0, centre=0.0):
        """Return the minimiser of the penalty plus `<phi, w> + weight/2 |w - centre|^2`, the norm in `coordinates`."""
        if self.means is not None and np.any(weight):
            centre = self.coordinates.inner(centre)
        phi = self.coordinates.slope(phi) / self.factor
        return self.coordinates.outer(self.penalty.minimiser(phi, weight / self.factor, centre))

    def point(self, phi, lam):
        """Return the minimiser of the model with aggregate slope phi; a ball takes the lam of the master problem."""
        return self.coordinates.outer(self.penalty.point(self.coordinates.slope(phi) / self.factor, lam))

    def contains(self, w):
        """Return whether w is feasible, up to rounding."""
        return self.penalty.project(w) is w and (self.rows is None or self.rows.contains(w))

    def project(self, w):
        """Return the feasible point nearest to w; w itself if it is feasible."""
        inside = self.penalty.project(w)
        if self.rows is None or len(self.rows.violated(inside)) == 0:
            return inside
        box = Box(*self.rows.box(self)).canonical(len(w))
        return self.rows.nearest(Problem(box, 0.0, means=self.means, rows=self.rows), w)
