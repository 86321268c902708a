"""The objective `F(w) = Omega(w) + R(w)` with any penalty of `pybundle.prox`: value, bound, minimiser, constraints.

An aggregate plane `offset + <phi, w> <= R(w)` proves `min F >= offset - Omega*(-phi)` (Fenchel). Where Omega grows too
slowly for phi, as the l1 norm does, that is minus infinity. Then the plane is mixed with the declared bound c <= R:

    min F >= t offset + (1 - t) c - Omega*(-t phi),    t <= 1 the largest for which this is finite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.plane import Plane
from ...core.rounding import UNIT
from ...prox import Box, Regulariser, Separable
from ...prox.separable import Rounding
from .objective import Objective

FAR = 0.8       # the mean of the examples by their root mean square: squares of both


@dataclass
class Penalised(Objective):
    """`F(w) = factor Omega(w) + R(w)`.

    Attributes
    ----------
    penalty : Regulariser
        Omega, as its method `canonical` returns it.
    floor : float
        A lower bound of R that the risk declares; -inf if none.
    factor : float
        Number of examples in the mean scale, else 1.
    means : ndarray, shape (dim,) or (dim / K,), or None
        Means m of the columns, 0 for the intercept, which is the last weight; all classes share m. See `inner_point`.
    rows : Rows or None
        Linear constraints.
    score_limits : ScoreLimits or None
        Limits of the free weights in closed form, at level 0.
    anchors : ScoreAnchors or LabelAnchors or None
        Repair planes if the free weights are intercepts.
    even : float or None
        The rate of the squares, if they are equal and with free intercepts of classes all of the penalty.
    lowered : Regulariser
        Omega, less what its numbers may have lost, and infinite beyond what the linear constraints imply.

    >>> import numpy as np
    >>> from pybundle.core.plane import Plane
    >>> from pybundle.prox import L1
    >>> Penalised(L1(1.0).canonical(2), floor=0.0).lower_bound(Plane(4.0, np.array([0.5, 2.0]))) > 1.999999
    True
    """

    penalty: Regulariser
    floor: float
    factor: float = 1.0
    nonneg: None = None
    means: np.ndarray | None = None
    rows: Any = None
    dependence: Any = None
    score_limits: Any = None
    anchors: Any = None
    lowered: Any = None

    def __post_init__(self):
        omega = self.penalty
        if self.lowered is None:
            self.lowered = omega.lowered()
        if self.classes is not None and not (
                omega.l1.any() or omega.centre.any() or omega.constant or omega.rounding.rates):
            held = ~self.is_free & ((omega.lower != 0.0) | (omega.upper != 0.0))
            is_open = (np.abs([omega.lower[held], omega.upper[held]]) == np.inf).all()
            rates = self.moduli[held]
            self.even = float(rates[0]) if is_open and len(np.unique(rates)) == 1 else None

    def __str__(self):
        return "this penalty"

    @property
    def classes(self):  # type: ignore[override]
        return None if self.anchors is None else self.anchors.classes

    # ------------------------------------------------------------------ the intercept at the mean of the columns
    def inner_point(self, w):
        """Return w with the intercept at the mean of the columns, `b + <m, w>`.

        A free intercept takes up every shift of the columns. Distances between points are measured with this one, so
        that columns far from 0 cost no more passes than centred ones. Intercepts of classes are relative to the first.
        """
        return w if self.means is None else self._moved(w, 1.0)

    def outer_point(self, w):
        """Inverse of `inner_point`."""
        return w if self.means is None else self._moved(w, -1.0)

    def _moved(self, w, sign):
        W = np.array(w).reshape(-1, len(self.means))
        W[:, -1] += sign * (W @ self.means)
        if len(W) > 1:
            W[:, -1] -= W[0, -1]
        return W.ravel()

    def inner_slope(self, phi):
        """Return the slope by these coordinates, `phi - m phi_b`; so that inner products stay the same."""
        if self.means is None:
            return phi
        P = phi.reshape(-1, len(self.means))
        return (P - P[:, -1:] * self.means).ravel()

    def columns_are_far(self, risk):
        """Whether examples lie so far from 0 that steps without these coordinates are slow."""
        if self.means is None:
            return False
        return float(self.means @ self.means) > FAR * float(np.mean(risk.examples.norms**2))

    # ------------------------------------------------------------------ the penalty

    @property
    def is_free(self):  # type: ignore[override]
        omega = self.penalty
        if not isinstance(omega, Separable):
            return np.zeros(1, dtype=bool)
        return (omega.l2 == 0.0) & (omega.l1 == 0.0) & ((omega.lower == -np.inf) | (omega.upper == np.inf))

    @property
    def takes_entries(self):  # type: ignore[override]
        return isinstance(self.penalty, Separable)

    @property
    def moduli(self):
        """Constants of strong convexity of the regulariser, by entries; a number or shape (dim,)."""
        return self.factor * self.penalty.moduli

    def gradient(self, w, slope):
        """Return the gradient of F without l1 norm and bounds, in the coordinates of `inner_point`."""
        return self.moduli * (w - self.penalty.centre) + self.inner_slope(slope)

    @property
    def centre(self):  # type: ignore[override]
        return getattr(self.penalty, "centre", 0.0)

    @property
    def modulus(self):
        least = self.factor * float(np.min(self.lowered.moduli, initial=np.inf)) * (1.0 - 2.0 * UNIT)
        return least if 0.0 < least < np.inf else None

    def value(self, w):
        return self.factor * (self.dependence or self).penalty.value(w)

    def value_error(self, w):
        return self.factor * self.penalty.uncertainty(w)

    def lower_bound(self, plane, limits=None):
        """Return a lower bound of F within `ProvenLimits`; rounding of this computation is counted, too."""
        plane = self.inner_plane(plane)
        offset, phi, error = plane.offset - plane.offset_error, plane.slope, plane.slope_error
        if self.anchors is not None and np.isfinite(error).all():
            offset, phi, error = self.anchors.repaired(offset, phi, error)
            error = 1.03 * error        # a verifier counts up to 3 % more
        if self.even is not None:
            square = (float(np.linalg.norm(phi)) + error) ** 2 / (2.0 * self.even)
            return max(self.floor, float(offset - square - 8.0 * UNIT * (abs(offset) + square)))
        t, least = self._least(self._within(limits), phi, error)
        rest = 0.0 if t == 1.0 else (1.0 - t) * self.floor
        found = float(t * offset + rest + least - 4.0 * UNIT * (abs(t * offset) + abs(rest) + abs(least)))
        if limits is None or limits.level == np.inf:
            return found
        # without limits of the free weights t may have been 0, and limits make no bound less
        least = self.factor * limits.penalty.least(np.zeros(len(phi)))
        return max(found, self.floor + least - 4.0 * UNIT * (abs(self.floor) + abs(least)))

    def scaling(self, plane, limits=None):
        """Return the t <= 1 of the module for a plane."""
        inner = self.inner_plane(plane)
        return self._least(self._within(limits), inner.slope, inner.slope_error)[0]

    def _within(self, limits):
        """Return the penalty within limits; anchors hold free weights at 0."""
        if self.anchors is not None:
            return self._without(self.is_free)
        return self.lowered if limits is None else limits.penalty

    def least_over_rest(self, plane):
        """Return t, and the least value of regulariser plus `<t phi, w>` over all weights but the free ones at 0.

        The plane is an `inner_plane`, the weights are those of `inner_point`.
        """
        free = self.is_free
        return self._least(self._without(free), np.where(free, 0.0, plane.slope), plane.slope_error)

    def _without(self, free):
        omega = self.penalty.lowered()
        return omega.replaced(lower=np.where(free, 0.0, omega.lower), upper=np.where(free, 0.0, omega.upper))

    def inner_plane(self, plane):
        """Return the plane by the coordinates of `inner_point`; `slope_error` bounds that of either slope."""
        phi = plane.slope
        if self.means is None or not np.isfinite(phi).all():
            return plane
        last = float(np.linalg.norm(phi[len(self.means) - 1::len(self.means)]))
        rounded = 2.0 * UNIT * self.rounding_norms(float(np.linalg.norm(phi)), lambda: last)
        return Plane(plane.offset, self.inner_slope(phi), 1.01 * (plane.slope_error + rounded), plane.offset_error)

    def rounding_norms(self, norms, last):
        """As in `Objective`: norms plus |m| times the last entries, which of classes are at most the norms."""
        if self.means is None:
            return norms
        return norms + float(np.linalg.norm(self.means)) * (np.abs(last()) if self.classes is None else norms)

    def _least(self, penalty, phi, error):
        """Return the t of the module and a proven lower bound of `factor Omega(w) + <t phi, w>`."""
        if not (np.isfinite(phi).all() and np.isfinite(error).all()):
            return 1.0, -np.inf
        phi, error = phi / self.factor, error / self.factor
        error = error + 4.0 * UNIT * float(np.linalg.norm(phi))     # of that division, and of t phi
        t = penalty.scaling(phi, error)
        return t, self.factor * penalty.least(t * phi, t * error)

    def minimiser(self, phi, weight=0.0, centre=0.0):
        """Return the minimiser of regulariser plus `<phi, w> + weight/2 |w - centre|^2`, the norm by `inner_point`."""
        if self.means is not None and np.any(weight):
            centre = self.inner_point(centre)
        phi = self.inner_slope(phi) / self.factor
        return self.outer_point(self.penalty.minimiser(phi, weight / self.factor, centre))

    def stiffness(self, w, weight):
        """Return `-dw_k / dphi_k` of the minimiser w of slopes phi, or None if entries are coupled."""
        if not isinstance(self.penalty, Separable):
            return None
        return np.where(self.penalty.support(w), 1.0 / np.maximum(self.moduli + weight, 1e-300), 0.0)

    def point(self, phi, lam):
        return self.minimiser(phi)

    def point_error(self, phi, lam):
        centre, lost = getattr(self.penalty, "centre", 0.0), getattr(self.penalty, "rounding", Rounding())
        sizes = float(np.linalg.norm(phi)) / lam + float(np.linalg.norm(centre))
        return float(np.linalg.norm(lost.centre)) + (16.0 * UNIT + 2.0 * lost.rates) * sizes

    @property
    def box(self):
        """Bounds of the weights, two arrays of shape (dim,)."""
        omega, dim = self.penalty, self.rows.A.shape[1]
        if isinstance(omega, Separable):
            return omega.lower, omega.upper
        return np.full(dim, -np.inf), np.full(dim, np.inf)

    def contains(self, w):
        return self.penalty.project(w) is w and (self.rows is None or self.rows.contains(w))

    def project(self, w):
        inside = self.penalty.project(w)
        if self.rows is None or len(self.rows.violated(inside)) == 0:
            return inside
        box = Box(*self.box).canonical(len(w))
        return self.rows.nearest(Penalised(box, 0.0, means=self.means, rows=self.rows), w)
