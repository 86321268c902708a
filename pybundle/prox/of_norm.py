"""Penalties that are a function of one norm of w, with w_k >= 0 for k in a set N: a square, and a ball.

If k is in N and phi_k > 0, the minimum of the penalty plus a plane <phi, w> is at w_k = 0. So minimiser and conjugate
have closed forms, in which the positive part of such a phi_k is left out. `GroupNorms` of `mkl` is a third such
penalty.
"""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.plane import Plane
from ..core.rounding import UNIT, norm
from ..core.types import Array, Floats
from ..core.validation import check_number, check_vector
from .base import Penalty
from .checks import check_step
from .groups import euclidean
from .separable import Separable

ZERO = Separable()       # 0 everywhere


def minimiser(phi, lam, kappa=0.0, centre=None):
    """Return `argmin_w <phi, w> + lam/2 |w|^2 + kappa/2 |w - c|^2`, without constraints.

    If phi and c are images under a linear map, such as scores, the result is the image of the minimiser.

    >>> minimiser(np.array([1.0, -2.0]), 0.5, 0.5, np.array([2.0, 2.0]))
    array([0., 3.])
    """
    if not kappa:
        return -phi / lam
    w = kappa * centre
    w -= phi
    w /= lam + kappa
    return w


class OfNorm(Penalty):
    """Base class: a subclass adds `value`, `cost` and `point`.

    Attributes
    ----------
    nonneg : bool array, shape (d,), or None
        The set N.
    """

    def signed(self, nonneg: Array) -> Self:
        """Return this penalty with the set N."""
        other = copy.copy(self)
        other.nonneg = nonneg
        return other

    def cost(self, slope: Array, error: float) -> float:
        """Return an upper bound of `Omega*(-phi)` over all phi with `|phi - slope| <= error`."""
        raise NotImplementedError

    def least(self, phi: Array, error: float = 0.0) -> float:
        return -float(self.cost(phi, error)) * (1.0 + (len(phi) + 16.0) * UNIT)

    def bound(self, plane: Plane, floor: float, factor: float) -> float:
        """Return the bound by the plane without `floor`, for factor 1; `LowerBound` counts its rounding."""
        with np.errstate(over="ignore"):
            return float(plane.offset - plane.offset_error - self.cost(plane.slope, plane.slope_error))

    def point(self, phi: Array, lam: float) -> Floats:
        """Return the minimiser of the model; phi is the aggregate slope, and lam belongs to the master problem."""
        raise NotImplementedError

    def project(self, x: Array) -> Floats:
        is_inside = self.nonneg is None or not (self.nonneg & (x < 0.0)).any()
        return x if is_inside else np.where(self.nonneg, np.maximum(x, 0.0), x)

    def effective(self, phi: Array) -> Array:
        return phi if self.nonneg is None else np.where(self.nonneg, np.minimum(phi, 0.0), phi)

    def pushed_outside(self, phi: Array) -> Array:
        if self.nonneg is None:
            return super().pushed_outside(phi)
        return np.flatnonzero(self.nonneg & (phi > 1e-9 * norm(phi)))


class Square(OfNorm):
    """`lam/2 |w|^2`; the bound of a plane is `offset - |phi|^2 / (2 lam)`. Its factor is always 1."""

    is_separable = True
    is_provable = True

    def __init__(self, lam, nonneg=None):
        self.lam, self.nonneg = lam, nonneg

    @property
    def square(self):
        return self

    @property
    def moduli(self):
        return self.lam

    def modulus(self, factor: float) -> float:
        return self.lam

    def along(self, best: Array, x: Array, step: Array, factor: float) -> tuple[float, float]:
        return self.lam * float(best @ step), self.lam * float(step @ step)

    @property
    def entries(self):
        lower = -np.inf if self.nonneg is None else np.where(self.nonneg, 0.0, -np.inf)
        return ZERO.replaced(l2=self.lam, lower=lower)

    def value(self, w):
        with np.errstate(over="ignore"):
            return 0.5 * self.lam * float(w @ w)

    def cost(self, slope: Array, error: float) -> float:
        size = norm(self.effective(slope)) + error
        return size * size / (2.0 * self.lam)

    def minimiser(self, phi: Array, weight: float = 0.0, centre: Any = 0.0) -> Floats:
        return self.project((weight * centre - phi) / (self.lam + weight))

    def point(self, phi: Array, lam: float) -> Floats:
        return minimiser(self.effective(phi), lam)

    def point_error(self, phi: Array, lam: float) -> float:
        return 0.0


class SquareOfClasses(Square):
    """The square of all weights but the free intercepts of classes, where the slopes of planes are 0."""

    def bound(self, plane: Plane, floor: float, factor: float) -> float:
        offset = plane.offset - plane.offset_error
        square = (norm(plane.slope) + plane.slope_error) ** 2 / (2.0 * self.lam)
        return max(floor, float(offset - square - 8.0 * UNIT * (abs(offset) + square)))


class Ball(OfNorm):
    """`Omega(w) = 0` if `|w| <= radius`, else infinite; all weights count, free intercepts among them.

    `Ball(radius) + Box(lower=0.0)` adds signs. Methods "auto" and "bmrm", also named "cutting-plane", take it.

    Parameters
    ----------
    radius : float > 0

    Examples
    --------
    >>> from pybundle.prox import Ball, Box
    >>> ball = Ball(5.0)
    >>> ball.prox([6.0, 8.0]), (ball + Box(lower=0.0)).prox([-6.0, 8.0])
    (array([3., 4.]), array([0., 5.]))
    >>> ball.conjugate([3.0, 4.0])
    25.0
    """

    is_provable = True

    def __init__(self, radius: float) -> None:
        self.radius: float = check_number("radius", radius, low=0.0, strict=True)

    @property
    def ball(self) -> Ball:
        return self

    def value(self, x: ArrayLike) -> float:
        return 0.0 if self.contains(check_vector("x", x)) else np.inf

    def prox(self, x: ArrayLike, t: float = 1.0) -> Floats:
        """Return the nearest point of the ball."""
        check_step(t)
        return np.array(self.project(check_vector("x", x)))

    def conjugate(self, y: ArrayLike) -> float:
        """Return `radius |y|`."""
        return float(self.radius * euclidean(self.effective(-check_vector("y", y))))

    def subgradient_distance(self, x: ArrayLike, g: ArrayLike) -> float:
        x, g = check_vector("x", x), check_vector("g", g)
        if not self.contains(x):
            return np.inf
        rest = g if self.nonneg is None else np.where(self.nonneg & (x == 0.0), np.maximum(g, 0.0), g)
        square = float(x @ x)
        if square >= self.radius**2 * (1.0 - 1e-12):
            rest = rest - max(float(rest @ x), 0.0) / square * x
        return euclidean(rest)

    def cost(self, slope: Array, error: float) -> float:
        return self.radius * (norm(self.effective(slope)) + error)

    def point(self, phi: Array, lam: float) -> Floats:
        """Return the minimiser of the model in the ball; lam is the multiplier of the ball in the master problem."""
        w = minimiser(self.effective(phi), lam)
        return w * min(1.0, self.radius / max(norm(w), 1e-300))

    def contains(self, w: Array) -> bool:
        """Return whether w lies in the ball, up to rounding, and has the right signs."""
        return super().project(w) is w and norm(w) <= self.radius * (1.0 + 1e-12)

    def project(self, x: Array) -> Floats:
        x = super().project(x)
        return x if self.contains(x) else x * (self.radius / norm(x))

    def within(self, rest: Any) -> Ball:
        """Return this ball with the signs of a separable penalty, which must be nothing else."""
        signs = rest.lower == 0.0
        if rest.l2.any() or rest.l1.any() or not (signs | (rest.lower == -np.inf)).all() or np.isfinite(
                rest.upper).any():
            raise ParameterError("Ball can be added to Box(lower=0.0) or to lower bounds 0 of some weights only; leave "
                                 "out the other terms")
        if self.nonneg is not None:
            signs = signs | self.nonneg
        return self.signed(signs) if signs.any() else self
