"""The objective `F(w) = Omega(w) + R(w)`: a penalty, linear constraints, and the coordinates of a free intercept.

An aggregate plane `offset + <phi, w> <= R(w)` proves `min F >= offset - Omega*(-phi)` (Fenchel). Where Omega grows too
slowly for phi, as the l1 norm does, that is minus infinity. Then the plane is mixed with the declared bound c <= R:

    min F >= t offset + (1 - t) c - Omega*(-t phi),    t <= 1 the largest for which this is finite.

A penalty of one norm, such as a square, has this bound in closed form, with t = 1. These formulas have factor 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.rounding import UNIT, norm
from ...prox import Box, Penalty
from .coordinates import Coordinates


@dataclass
class Problem:
    """`F(w) = factor Omega(w) + R(w)`.

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
    lowered : Penalty
        Omega less the rounding of its numbers, and infinite beyond the bounds that linear constraints imply.
    coordinates : Coordinates
        Coordinates in which distances between points are measured.
    is_of_norm, lam, radius, nonneg
        Whether Omega is a function of one norm, and what `OfNorm` says of it; None for other penalties.
    takes_entries : bool
        The error of a slope may be an array, of its entries.
    even : float or None
        lam; or the rate of the squares, if the penalty has equal squares only, and only intercepts of classes are
        free.
    centre : float or ndarray, shape (dim,)
        Where the penalty is least without constraints.
    moduli : float or ndarray, shape (dim,)
        `F - sum_k moduli_k/2 w_k^2` is convex.
    is_free : bool array, shape (dim,), or (1,) where no weight is
        Weights without penalty that are unbounded on at least one side.
    least_modulus : float
        The least of the moduli of all weights that are neither free nor fixed.
    classes : LabelSums or None
        Sums over labels, if intercepts of classes are free.

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
    lowered: Any = None
    coordinates: Coordinates = field(init=False)
    is_of_norm: bool = field(default=False, init=False)
    lam: float | None = field(default=None, init=False)
    radius: float | None = field(default=None, init=False)
    nonneg: np.ndarray | None = field(default=None, init=False)
    takes_entries: bool = field(default=False, init=False)
    even: float | None = field(default=None, init=False)
    centre: Any = field(init=False)
    moduli: Any = field(init=False)
    is_free: np.ndarray = field(init=False)
    least_modulus: float = field(init=False)
    classes: Any = field(init=False)

    def __post_init__(self):
        omega: Any = self.penalty
        self.classes = None if self.anchors is None else self.anchors.classes
        self.coordinates = Coordinates(self.means, self.classes is not None)
        if self.lowered is None:
            self.lowered = omega.lowered()
        self.is_of_norm, self.centre, self.moduli = omega.is_of_norm, omega.centre, self.factor * omega.moduli
        if self.is_of_norm:
            self.lam, self.radius, self.nonneg, self.even = omega.lam, omega.radius, omega.nonneg, omega.lam
            self.is_free, self.least_modulus = np.zeros(1, dtype=bool), omega.lam
            return
        entries, self.takes_entries = omega.entries, omega.entries is not None
        self.is_free = np.zeros(1, dtype=bool) if entries is None else (entries.l2 == 0.0) & (entries.l1 == 0.0) & (
            (entries.lower == -np.inf) | (entries.upper == np.inf))
        moduli = 0.0 if entries is None else self.moduli[~self.is_free & (entries.lower < entries.upper)]
        self.least_modulus = float(np.min(moduli)) if np.size(moduli) else 0.0
        if self.classes is not None and not (
                omega.l1.any() or omega.centre.any() or omega.constant or omega.rounding.rates):
            held = ~self.is_free & ((omega.lower != 0.0) | (omega.upper != 0.0))
            is_open = (np.abs([omega.lower[held], omega.upper[held]]) == np.inf).all()
            rates = self.moduli[held]
            self.even = float(rates[0]) if is_open and len(np.unique(rates)) == 1 else None

    def __str__(self):
        return repr(self.penalty) if self.is_of_norm else "this penalty"

    # ------------------------------------------------------------------ the form of the penalty
    @property
    def entries(self):
        """Omega by entries, as `Separable`, or None."""
        return self.penalty.entries

    @property
    def is_linear(self):
        """Whether the minimiser of a model is linear in the slope, apart from intercepts."""
        return self.even is not None and self.nonneg is None

    # ------------------------------------------------------------------ values and slopes
    @property
    def modulus(self):
        """Constant of strong convexity of F, or None."""
        if self.is_of_norm:
            return self.penalty.modulus
        least = self.factor * float(np.min(self.lowered.moduli, initial=np.inf)) * (1.0 - 2.0 * UNIT)
        return least if 0.0 < least < np.inf else None

    def value(self, w):
        """Return the penalty at w; infinite if it overflows."""
        return self.factor * float((self.dependence or self).penalty.value(w))

    def along(self, best, w, step):
        """Return a and b: the penalty rises by at most `a t + b t^2/2` from best to best + t step; w = best + step.

        Without one norm b follows from the moduli of strong convexity, and a from the values at both ends.
        """
        if self.is_of_norm:
            return self.lam * float(best @ step), self.lam * float(step @ step)
        square = float(np.sum(self.moduli * step**2))
        return self.value(w) - self.value(best) - 0.5 * square, square

    # ------------------------------------------------------------------ bounds
    def lower_bound(self, plane, limits=None):
        """Return a lower bound of F from a plane, whose errors are counted, within `ProvenLimits`.

        It counts its own rounding, too; for penalties of one norm `LowerBound` does so.
        """
        if self.is_of_norm:
            with np.errstate(over="ignore"):
                return float(plane.offset - plane.offset_error - self.penalty.cost(plane.slope, plane.slope_error))
        plane = self.coordinates.plane(plane)
        offset, phi, error = plane.offset - plane.offset_error, plane.slope, plane.slope_error
        if self.anchors is not None and np.isfinite(error).all():
            offset, phi, error = self.anchors.repaired(offset, phi, error)
            error = 1.03 * error        # a verifier counts up to 3 % more
        if self.even is not None:
            square = (norm(phi) + error) ** 2 / (2.0 * self.even)
            return max(self.floor, float(offset - square - 8.0 * UNIT * (abs(offset) + square)))
        t, least = self._least(self._within(limits), phi, error)
        rest = 0.0 if t == 1.0 else (1.0 - t) * self.floor
        found = float(t * offset + rest + least - 4.0 * UNIT * (abs(t * offset) + abs(rest) + abs(least)))
        if limits is None or limits.level == np.inf:
            return found
        # without limits of the free weights t may have been 0; limits never lower a bound
        least = self.factor * limits.penalty.least(np.zeros(len(phi)))
        return max(found, self.floor + least - 4.0 * UNIT * (abs(self.floor) + abs(least)))

    def scaling(self, plane, limits=None):
        """Return the t <= 1 of the module for a plane."""
        if self.is_of_norm:
            return 1.0
        inner = self.coordinates.plane(plane)
        return self._least(self._within(limits), inner.slope, inner.slope_error)[0]

    def _within(self, limits):
        """Return the penalty within limits; anchors hold free weights at 0."""
        if self.anchors is not None:
            return self._without(self.is_free)
        return self.lowered if limits is None else limits.penalty

    def least_over_rest(self, plane):
        """Return t, and the least value of the penalty plus `<t phi, w>` over all weights but the free ones at 0.

        Plane and weights are those of `coordinates`.
        """
        free = self.is_free
        return self._least(self._without(free), np.where(free, 0.0, plane.slope), plane.slope_error)

    def _without(self, free):
        omega = self.penalty.lowered()
        return omega.replaced(lower=np.where(free, 0.0, omega.lower), upper=np.where(free, 0.0, omega.upper))

    def _least(self, penalty, phi, error):
        """Return the t of the module and a proven lower bound of `factor Omega(w) + <t phi, w>`."""
        if not (np.isfinite(phi).all() and np.isfinite(error).all()):
            return 1.0, -np.inf
        phi, error = phi / self.factor, error / self.factor
        error = error + 4.0 * UNIT * norm(phi)     # of that division, and of t phi
        t = penalty.scaling(phi, error)
        return t, self.factor * penalty.least(t * phi, t * error)

    # ------------------------------------------------------------------ points
    def minimiser(self, phi, weight=0.0, centre=0.0):
        """Return the minimiser of the penalty plus `<phi, w> + weight/2 |w - centre|^2`, the norm in `coordinates`."""
        if self.means is not None and np.any(weight):
            centre = self.coordinates.inner(centre)
        phi = self.coordinates.slope(phi) / self.factor
        return self.coordinates.outer(self.penalty.minimiser(phi, weight / self.factor, centre))

    def point(self, phi, lam):
        """Return the minimiser of the model with aggregate slope phi; a ball takes the lam of the master problem."""
        return self.penalty.point(phi, lam) if self.is_of_norm else self.minimiser(phi)

    def point_error(self, phi, lam):
        """Return how far `point` may be from the minimiser because a far centre or a threshold cancels in it."""
        if self.is_of_norm:
            return 0.0
        lost = self.penalty.rounding
        sizes = norm(phi) / lam + norm(self.centre)
        return norm(lost.centre) + (16.0 * UNIT + 2.0 * lost.rates) * sizes

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
