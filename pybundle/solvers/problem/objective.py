"""Objectives of solvers: `lam/2 |w|^2` or the ball `|w| <= radius`, both optionally with w_k >= 0 for k in a set N.

An objective turns an aggregate plane `offset + <phi, w> <= R(w)` into a lower bound, by its conjugate, and into the
minimiser of the model. With a constraint w_k >= 0 only the negative part of phi_k counts: if phi_k > 0, the minimum is
at w_k = 0. Multiple kernel learning adds a third objective, `GroupNorms` in `mkl/group_norms.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

NONE = np.empty(0, dtype=np.intp)


def inner(a, b):
    """Return the inner product of two points: vectors (dim,), or two rows (2, N) of coefficients and scores.

    The scores are the products of the coefficients with a Gram matrix, so `<a, b> = a[0] . b[1]`.

    >>> inner(np.array([1.0, 2.0]), np.array([3.0, 4.0])), inner(np.ones((2, 3)), 2.0 * np.ones((2, 3)))
    (11.0, 6.0)
    """
    return float(np.dot(a, b) if a.ndim == 1 else np.dot(a[0], b[-1]))


def minimiser(phi, lam, kappa=0.0, centre=None):
    """Return `argmin_w <phi, w> + lam/2 |w|^2 + kappa/2 |w - c|^2`, without constraints.

    If phi and c are images under a linear map, such as scores, so is the result.

    >>> minimiser(np.array([1.0, -2.0]), 0.5, 0.5, np.array([2.0, 2.0]))
    array([0., 3.])
    """
    if not kappa:
        return -phi / lam
    w = kappa * centre
    w -= phi
    w /= lam + kappa
    return w


class Objective(ABC):
    """Regulariser and constraints of a problem, the interface for solvers.

    Attributes
    ----------
    nonneg : bool array, shape (dim,), or None
        The set N of weights that must not be negative.
    modulus : float or None
        Constant of strong convexity of F.
    moduli : float or ndarray, shape (dim,)
        `F - sum_k moduli_k/2 w_k^2` is convex.
    is_free : bool array
        Weights without penalty that are unbounded on at least one side.
    rows : Rows or None
        Linear constraints, see `constraints.py`.
    dependence : Dependence or None
        The weights that the penalty holds at 0 because others make up for them, and the penalty of the user.
    classes : LabelSums or None
        Sums over labels, if intercepts of classes are free; `inner_point` has rows `x - m` then.
    even, score_limits, anchors : float or None, ScoreLimits or None, ScoreAnchors or LabelAnchors or None
        See `Penalised`.
    takes_entries : bool
        The error of a slope may be an array, of its entries.
    centre : ndarray, shape (dim,), or float
        Where the regulariser is least without constraints.
    """

    modulus: float | None = None
    moduli: Any = 0.0
    is_free = np.zeros(1, dtype=bool)
    rows: Any = None
    dependence: Any = None
    takes_entries = False
    centre: Any = 0.0
    classes: Any = None
    even: Any = None
    score_limits: Any = None
    anchors: Any = None
    nonneg: np.ndarray | None

    @abstractmethod
    def value(self, w):
        """Return the regulariser at w; infinite if it overflows."""

    def value_error(self, w):
        """Return a bound on the error of `value` at w that comes from numbers of the regulariser that were rounded."""
        return 0.0

    @abstractmethod
    def lower_bound(self, plane, limits=None):
        """Return a lower bound of regulariser plus plane, whose errors are counted, within `ProvenLimits`."""

    @abstractmethod
    def point(self, phi, lam):
        """Return the minimiser of the model from the aggregate slope phi, and from lam of the master problem."""

    def point_error(self, phi, lam):
        """Return how far `point` may be from the minimiser because a far centre or a threshold cancels in it."""
        return 0.0

    def rounding_norms(self, norms, last):
        """Return the norms to which rounding errors of slopes are proportional, from the Euclidean norms.

        `last()` returns the last entries of the slopes, those of an intercept.
        """
        return norms

    def contains(self, w):
        """Return whether w is feasible, that is whether its signs are right."""
        return self.nonneg is None or not (self.nonneg & (w < 0.0)).any()

    def project(self, w):
        """Return the feasible point nearest to w; w itself if its signs are right."""
        return w if Objective.contains(self, w) else np.where(self.nonneg, np.maximum(w, 0.0), w)

    def inner_point(self, w):
        """Return w in the coordinates in which steps are measured; see `Penalised`."""
        return w

    def outer_point(self, x):
        """Inverse of `inner_point`."""
        return x

    def effective(self, phi):
        """Return phi without its positive parts in N, which the constraints cancel."""
        return phi if self.nonneg is None else np.where(self.nonneg, np.minimum(phi, 0.0), phi)

    def pushed_outside(self, phi):
        """Return the coordinates in N that phi alone would make negative: the master needs their constraints."""
        if self.nonneg is None:
            return NONE
        return np.flatnonzero(self.nonneg & (phi > 1e-9 * np.linalg.norm(phi)))


@dataclass(frozen=True)
class SquaredNorm(Objective):
    """`F(w) = lam/2 |w|^2 + R(w)`; bound `offset - |phi|^2 / (2 lam)`.

    >>> import numpy as np
    >>> from pybundle.core.plane import Plane
    >>> SquaredNorm(2.0).lower_bound(Plane(5.0, np.array([3.0, 4.0])))
    -1.25
    """

    lam: float
    nonneg: np.ndarray | None = None

    @property
    def modulus(self):
        return self.lam

    @property
    def moduli(self):  # type: ignore[override]
        return self.lam

    def gradient(self, w, slope):
        """Return the gradient of regulariser plus risk, from the slope of the risk at w."""
        return self.lam * w + slope

    def value(self, w):
        with np.errstate(over="ignore"):
            return 0.5 * self.lam * float(w @ w)

    def lower_bound(self, plane, limits=None):
        """Return `min_w lam/2 |w|^2 + <phi, w> + offset`, less errors; -inf if it overflows."""
        with np.errstate(over="ignore"):
            size = np.linalg.norm(self.effective(plane.slope)) + plane.slope_error
            return float(plane.offset - plane.offset_error - size**2 / (2.0 * self.lam))

    def point(self, phi, lam):
        return minimiser(self.effective(phi), lam)


@dataclass(frozen=True)
class Ball(Objective):
    """`R(w)` subject to `|w| <= radius`; bound `offset - radius |phi|`."""

    radius: float
    nonneg: np.ndarray | None = None

    def value(self, w):
        """Return 0: there is no regulariser."""
        return 0.0

    def lower_bound(self, plane, limits=None):
        """Return `min_{|w| <= radius} <phi, w> + offset`, less errors."""
        size = np.linalg.norm(self.effective(plane.slope)) + plane.slope_error
        return float(plane.offset - plane.offset_error - self.radius * size)

    def point(self, phi, lam):
        """Return the minimiser of the model in the ball; lam is the multiplier of the ball in the master problem."""
        w = minimiser(self.effective(phi), lam)
        return w * min(1.0, self.radius / max(float(np.linalg.norm(w)), 1e-300))

    def contains(self, w):
        """Return whether w lies in the ball, up to rounding, and has the right signs."""
        return super().contains(w) and float(np.linalg.norm(w)) <= self.radius * (1.0 + 1e-12)

    def project(self, w):
        w = super().project(w)
        return w if self.contains(w) else w * (self.radius / float(np.linalg.norm(w)))
