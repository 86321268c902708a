"""Coordinates in which a free intercept is measured at the mean of the columns; and inner products of points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.plane import Plane
from ...core.rounding import UNIT, norm

FAR = 0.8       # examples are far from 0 if |m|^2 exceeds this fraction of their mean squared norm


def inner(a, b):
    """Return the inner product of two points: vectors (dim,), or two rows (2, N) of coefficients and scores.

    The scores are the products of the coefficients with a Gram matrix, so `<a, b> = a[0] . b[1]`.

    >>> inner(np.array([1.0, 2.0]), np.array([3.0, 4.0])), inner(np.ones((2, 3)), 2.0 * np.ones((2, 3)))
    (11.0, 6.0)
    """
    return float(np.dot(a, b) if a.ndim == 1 else np.dot(a[0], b[-1]))


@dataclass(frozen=True)
class Coordinates:
    """Coordinates with `b + <m, w>`, the score at the mean m of the columns, in place of the intercept b.

    A shift of the columns changes the best intercept b, but not `b + <m, w>`. So methods that measure distances in
    these coordinates need no more passes for columns far from 0 than for centred ones. If several classes have
    intercepts, that of the first class is subtracted. Without means the coordinates are the weights.

    Attributes
    ----------
    means : ndarray, shape (dim,) or (dim / K,), or None
        Means m, with a 0 for the intercept, which is the last weight; all classes share m.
    are_of_classes : bool
    """

    means: np.ndarray | None = None
    are_of_classes: bool = False

    def inner(self, w):
        """Return a point in these coordinates."""
        return w if self.means is None else self._moved(w, 1.0)

    def outer(self, x):
        """Return the weights of a point that is given in these coordinates."""
        return x if self.means is None else self._moved(x, -1.0)

    def _moved(self, w, sign):
        W = np.array(w).reshape(-1, len(self.means))
        W[:, -1] += sign * (W @ self.means)
        if len(W) > 1:
            W[:, -1] -= W[0, -1]
        return W.ravel()

    def slope(self, phi):
        """Return a slope in these coordinates, `phi - m phi_b`: inner products with points stay the same."""
        if self.means is None:
            return phi
        P = phi.reshape(-1, len(self.means))
        return (P - P[:, -1:] * self.means).ravel()

    def plane(self, plane):
        """Return a plane in these coordinates; its `slope_error` also holds for the slope before the change."""
        phi = plane.slope
        if self.means is None or not np.isfinite(phi).all():
            return plane
        last = norm(phi[len(self.means) - 1::len(self.means)])
        rounded = 2.0 * UNIT * self.norms(norm(phi), lambda: last)
        return Plane(plane.offset, self.slope(phi), 1.01 * (plane.slope_error + rounded), plane.offset_error)

    def norms(self, norms, last):
        """Return bounds on norms of slopes in these coordinates, to which rounding errors are proportional.

        `norms` are the Euclidean norms of the slopes, and `last()` returns their last entries, those of an intercept.
        With several classes, a slope has many such entries, and the norm of the slope bounds them.
        """
        if self.means is None:
            return norms
        return norms + norm(self.means) * (norms if self.are_of_classes else np.abs(last()))

    def are_far(self, examples):
        """Return whether examples are so far from 0 that steps without these coordinates are slow."""
        if self.means is None:
            return False
        return float(self.means @ self.means) > FAR * float(np.mean(examples.norms**2))
