"""The problem `F(w) = factor Omega(w) + R(w)`: a penalty, linear constraints, and the coordinates of free intercepts.

A plane of R gives a lower bound of F by the formula in `Penalty.bound`, which takes the plane in `coordinates`. Where
intercepts are free, planes with known slopes at these (`anchors`) are mixed in, so that the slope at them is 0; for
other free weights the bound uses limits within which the minimiser lies (`ProvenLimits`, `free_weights.py`).
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
from .coordinates import Coordinates


@dataclass(frozen=True, eq=False)
class Problem:
    """`F(w) = factor Omega(w) + R(w)`; it never changes.

    Attributes
    ----------
    penalty : Penalty
        Omega, as its method `canonical` returns it. In the mean scale a square is multiplied by the number of examples,
        and `factor` is 1.
    floor : float
        A lower bound of R that the risk declares; -inf if none.
    factor : float
        Number of examples for other penalties in the mean scale, else 1.
    means : ndarray, shape (dim,) or (dim / K,), or None
        Means of the columns for `coordinates`, if an intercept is free.
    rows : Rows or None
        Linear constraints, see `constraints.py`.
    dependence : Dependence or None
        Weights that `penalty` holds at 0, because other weights give the same scores; and the penalty of the user.
    score_limits : ScoreLimits or None
        Limits of the free weights in closed form; `ProvenLimits.hold` sets their level.
    anchors : ScoreAnchors or LabelAnchors or None
        They exist if only intercepts are free, and change a plane so that its slope at the intercepts is 0.

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
        """Omega as `Square`, which is `lam/2 |w|^2` with sign constraints if any, or None."""
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
        """Return `factor Omega` by entries, arrays (dim,), for steps only: their rounding errors are not counted."""
        omega = self.entries
        if self.factor != 1.0:
            omega = omega.replaced(l2=self.factor * omega.l2, l1=self.factor * omega.l1)
        return omega.canonical(dim)

    @cached_property
    def even(self):
        """The common rate of squares in a penalty that consists of squares, or None.

        The rate is lam for `Square`. If intercepts of classes are free, a `Separable` has such a rate, too, provided
        that all other weights have equal squares and no bounds, or are fixed at 0.
        """
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
        """True if the minimiser of a model is linear in its slope, apart from intercepts."""
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
        """True for weights without penalty and unbounded on a side; shape (dim,), or (1,) if no weight is free."""
        omega = self.entries
        return np.zeros(1, dtype=bool) if omega is None else np.atleast_1d((omega.l2 == 0.0) & (omega.l1 == 0.0) & (
            (omega.lower == -np.inf) | (omega.upper == np.inf)))

    @cached_property
    def moduli(self):
        """Rates for which `F - sum_k moduli_k/2 w_k^2` is convex; a number or shape (dim,)."""
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
        """Return the penalty at w, which is infinite if it overflows."""
        return self.factor * float((self.dependence or self).penalty.value(w))

    def along(self, best, w, step):
        """Return a, b: the penalty grows by at most `a t + b t^2/2` from best to best + t step; w is best + step."""
        return self.penalty.along(best, w, step, self.factor)

    # ------------------------------------------------------------------ bounds
    @cached_property
    def lowered(self):
        """A penalty that is at most Omega despite rounding; it is infinite beyond bounds that follow from `rows`."""
        omega, entries = self.penalty.lowered(), self.entries
        if self.rows is None or entries is None:
            return omega
        lower, upper = self.rows.implied(entries.lower, entries.upper)
        if self.means is not None:      # the last entry is `b + <m, w>`, for which bounds of b do not hold
            lower[-1], upper[-1] = -np.inf, np.inf
        return omega.within(lower, upper)

    @cached_property
    def _held(self):
        """Omega, lowered for rounding, with the free weights fixed at 0."""
        omega, free = self.penalty.lowered(), self.is_free
        return omega.replaced(lower=np.where(free, 0.0, omega.lower), upper=np.where(free, 0.0, omega.upper))

    def _within(self, limits):
        """Return the penalty with the limits as bounds; if there are anchors, free weights are fixed at 0."""
        if self.anchors is not None:
            return self._held if self.even is None else SquareOfClasses(self.even)
        return self.lowered if limits is None else limits.penalty

    def lower_bound(self, plane, limits=None):
        """Return a lower bound of F from a plane, its errors counted; free weights stay within `ProvenLimits`.

        Some penalties do not count the rounding of the final difference of terms, which `LowerBound.of` does.
        """
        plane = self.coordinates.plane(plane)
        if self.anchors is not None and np.isfinite(plane.slope_error).all():
            plane = Plane(*self.anchors.repaired(plane.offset - plane.offset_error, plane.slope, plane.slope_error))
            # a verifier may compute an error that is up to 3 % larger
            plane = replace(plane, slope_error=1.03 * plane.slope_error)
        found = self._within(limits).bound(plane, self.floor, self.factor)
        if limits is None or limits.level == np.inf:
            return found
        # t = 0 in `Penalty.bound` gives the floor plus the least penalty; with limits the bound must not be lower
        least = self.factor * limits.least
        return max(found, self.floor + least - 4.0 * UNIT * (abs(self.floor) + abs(least)))

    def scaling(self, plane, limits=None):
        """Return the t <= 1 of `Penalty.bound` for a plane."""
        plane = self.coordinates.plane(plane)
        return self._within(limits).scaled_least(plane.slope, plane.slope_error, self.factor)[0]

    def least_over_rest(self, plane):
        """Return t, and the least value of the penalty plus `<t phi, w>` over w with the free weights at 0.

        Plane and weights are in `coordinates`.
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
