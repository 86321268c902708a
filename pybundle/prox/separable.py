"""Penalties that are a sum over entries: a square about a centre, an absolute value, and bounds.

    omega(x) = l2/2 (x - c)^2 + l1 |x| + [lower <= x <= upper]
    argmin_x omega(x) + phi x + weight/2 (x - d)^2 = clip( soft(v, l1) / s, lower, upper ),
        v = l2 c + weight d - phi,   s = l2 + weight,   soft(v, l1) = sign(v) max(|v| - l1, 0)

Sums of such penalties are such penalties. `Box` is the case of bounds alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import InputTypeError, ParameterError
from ..core.rounding import UNIT
from ..core.types import Array, Floats
from ..core.validation import check_vector, real_array
from .base import Regulariser
from .checks import check_rates, check_step, match_rates
from .groups import euclidean

UNDERFLOW = 1e-300      # more than any sum of numbers that underflow to 0


class Separable(Regulariser):
    """`Omega(x) = sum_k l2_k/2 (x_k - centre_k)^2 + l1_k |x_k|`, infinite unless `lower_k <= x_k <= upper_k`.

    Every argument is a number or an array of shape (d,). All methods cost O(d).

    Parameters
    ----------
    l2, l1 : float or array_like, default 0
        Nonnegative.
    centre : float or array_like, default 0
        Finite.
    lower, upper : float or array_like, default -inf and inf
        Bounds, which may be infinite.

    Raises
    ------
    ParameterError
        If bounds cross, or arrays differ in length.

    Examples
    --------
    >>> from pybundle.prox import Separable
    >>> Separable(l1=1.0, upper=2.0).prox([4.0, 1.5, -0.5])
    array([2. , 0.5, 0. ])
    """

    l2: Any
    l1: Any
    centre: Any
    lower: Any
    upper: Any
    is_separable = True

    def __init__(self, l2: float | ArrayLike = 0.0, l1: float | ArrayLike = 0.0, centre: float | ArrayLike = 0.0,
                 lower: float | ArrayLike = -np.inf, upper: float | ArrayLike = np.inf) -> None:
        self.l2, self.l1 = check_rates("l2", l2), check_rates("l1", l1)
        self.centre, self.lower, self.upper = check_centre(centre), _bounds("lower", lower), _bounds("upper", upper)
        named = {name: value for name, value in vars(self).items() if np.ndim(value)}
        for name, value in named.items():
            match_rates(name, value, len(next(iter(named.values()))))
        crossed = np.flatnonzero(np.atleast_1d(self.lower > self.upper))
        if len(crossed):
            low, high = (bound[crossed[0]] for bound in np.broadcast_arrays(*np.atleast_1d(self.lower, self.upper)))
            raise ParameterError(f"lower must be at most upper, got {low:g} > {high:g} at index {crossed[0]}; "
                                 "exchange them")
        self.constant = 0.0     # what sums of squares about different centres leave

    def value(self, x: ArrayLike) -> float:
        x = self._point_of("x", x)
        if ((x < self.lower) | (x > self.upper)).any():
            return np.inf
        with np.errstate(over="ignore", invalid="ignore"):      # infinite points of masters whose centre is too light
            return float(np.sum(0.5 * self.l2 * (x - self.centre)**2 + self.l1 * np.abs(x)) + self.constant)

    def prox(self, x: ArrayLike, t: float = 1.0) -> Floats:
        x, t = self._point_of("x", x), check_step(t)
        with np.errstate(over="ignore"):
            return self._clipped(x + t * self.l2 * self.centre, t * self.l1, 1.0 + t * self.l2)

    def minimiser(self, phi: Array, weight: Any = 0.0, centre: Any = 0.0) -> Floats:
        """Return `argmin_x Omega(x) + <phi, x> + weight/2 |x - centre|^2`; entries without a minimum are infinite.

        An array of weights has one for each entry.
        """
        v = self.l2 * self.centre - phi
        if np.any(weight):
            v += weight * centre
        return self._clipped(v, self.l1, self.l2 + weight)

    def _clipped(self, v, l1, s):
        v = np.copysign(np.maximum(np.abs(v) - l1, 0.0), v) + 0.0       # no negative zeros
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.clip(np.where(v == 0.0, 0.0, v / s), self.lower, self.upper)

    def conjugate(self, y: ArrayLike) -> float:
        y = self._point_of("y", y)
        x = self.minimiser(-y)
        if not np.isfinite(x).all():
            return np.inf
        with np.errstate(over="ignore"):
            return float(np.sum(y * x - 0.5 * self.l2 * (x - self.centre)**2 - self.l1 * np.abs(x)) - self.constant)

    def subgradient_distance(self, x: ArrayLike, g: ArrayLike) -> float:
        """Return the distance from g to the subdifferential of Omega at x; infinite outside of the bounds."""
        x = self._point_of("x", x)
        g = check_vector("g", g, len(x))
        if ((x < self.lower) | (x > self.upper)).any():
            return np.inf
        rest = g - self.l2 * (x - self.centre) - self.l1 * np.sign(x)
        slack = np.where(x == 0.0, self.l1, 0.0)
        low = np.where(x <= self.lower, np.inf, slack)      # how far below the derivative the subdifferential reaches
        high = np.where(x >= self.upper, np.inf, slack)
        return euclidean(np.maximum(np.maximum(rest - high, -rest - low), 0.0))

    # ------------------------------------------------------------------ for solvers
    def canonical(self, dim: int) -> Separable:
        """This penalty with arrays of shape (dim,)."""
        whole = Separable.__new__(Separable)
        for name in ("l2", "l1", "centre", "lower", "upper"):
            value = match_rates(name, getattr(self, name), dim)
            setattr(whole, name, np.array(np.broadcast_to(value, (dim,)), dtype=np.float64))
        whole.constant = self.constant
        return whole

    @property
    def moduli(self) -> Any:
        """`Omega - sum_k moduli_k/2 x_k^2` is convex."""
        return self.l2

    def support(self, x: Array) -> Array:
        """Entries of a minimiser x that move with phi: no threshold and no bound holds them."""
        held = ((x == 0.0) & (self.l1 > 0.0)) | (x <= self.lower) | (x >= self.upper)
        return ~held

    def project(self, x: Array) -> Floats:
        """Return the nearest point of finite Omega; x itself if it has one."""
        return x if ((x >= self.lower) & (x <= self.upper)).all() else np.clip(x, self.lower, self.upper)

    def least(self, phi: Array, error: float = 0.0) -> float:
        """Return a proven lower bound of `min_x Omega(x) + <phi + d, x>` for all |d| <= error.

        The minimum of entry k moves by at most |d_k| times the largest minimiser between phi_k - error and
        phi_k + error.
        """
        x = self.minimiser(phi)
        reach = np.maximum(np.abs(self.minimiser(phi - error)), np.abs(self.minimiser(phi + error)))
        if not (np.isfinite(reach).all() and np.isfinite(x).all()):
            return -np.inf
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            square, line, product = 0.5 * self.l2 * (x - self.centre)**2, self.l1 * np.abs(x), phi * x
            # of the sums, and of the computed minimiser, whose value lies above the minimum
            size = float(np.sum(square) + np.sum(line) + np.sum(np.abs(product)))
            shift = np.where(self.l2 > 0.0, (self.l2 * np.abs(self.centre) + np.abs(phi) + self.l1)**2 / self.l2, 0.0)
            moved = (self.l2 > 0.0) & ((self.centre != 0.0) | (x != 0.0) | (np.abs(phi) > self.l1))    # else exactly 0
            rounding = 1.01 * (len(x) + 16.0) * UNIT * size + 16.0 * UNIT**2 * float(np.sum(shift, where=moved))
            if moved.any():
                rounding += len(x) * UNDERFLOW
            found = float(np.sum(square + line + product)) - rounding - 1.01 * error * euclidean(reach) + self.constant
        return found if np.isfinite(found) else -np.inf

    def scaling(self, phi: Array, error: float = 0.0) -> float:
        """Return the largest t <= 1 for which `least(t phi, t error)` is finite, up to rounding."""
        flat = self.l2 == 0.0
        ahead = np.where(flat & (self.upper == np.inf), error - phi, 0.0)       # slopes of the linear part at infinity
        behind = np.where(flat & (self.lower == -np.inf), error + phi, 0.0)
        over = np.maximum(ahead, behind)
        beyond = over > self.l1
        if not beyond.any():
            return 1.0
        rates = np.broadcast_to(self.l1, over.shape)
        return float(np.min(rates[beyond] / over[beyond])) * (1.0 - 8.0 * UNIT)

    def plus(self, other: Separable) -> Separable:
        """The sum of two separable penalties."""
        lower, upper = np.maximum(self.lower, other.lower), np.minimum(self.upper, other.upper)
        l2 = np.add(self.l2, other.l2)
        with np.errstate(invalid="ignore", divide="ignore"):
            centre = np.where(l2 > 0.0, (self.l2 * self.centre + other.l2 * other.centre) / l2, 0.0)
            left = np.where(l2 > 0.0, 0.5 * self.l2 * other.l2 / l2 * np.subtract(self.centre, other.centre)**2, 0.0)
        total = Separable(l2, np.add(self.l1, other.l1), centre, lower, upper)
        total.constant = self.constant + other.constant + float(np.sum(left))
        return total

    def _point_of(self, name, x):
        x = check_vector(name, x)
        for key in ("l2", "l1", "centre", "lower", "upper"):
            match_rates(key, getattr(self, key), len(x))
        return x


class Box(Separable):
    """`Omega(x) = 0` if `lower_k <= x_k <= upper_k` for every k, else infinite.

    The prox clips. The conjugate is the support function `sum_k max(lower_k y_k, upper_k y_k)`.

    Parameters
    ----------
    lower, upper : float or array_like, shape (d,), default -inf and inf
        Bounds, which may be infinite; None is no bound.

    Raises
    ------
    ParameterError
        If bounds cross, or arrays differ in length.

    Examples
    --------
    >>> from pybundle.prox import Box
    >>> box = Box(lower=0.0, upper=[1.0, 2.0])
    >>> box.prox([-3.0, 5.0]), box.conjugate([3.0, -1.0])
    (array([0., 2.]), 3.0)
    """

    def __init__(self, lower: float | ArrayLike = -np.inf, upper: float | ArrayLike = np.inf) -> None:
        super().__init__(lower=lower, upper=upper)


def check_centre(centre):
    """Return a finite number or vector."""
    try:
        array = real_array(centre, copy=True)
    except TypeError as problem:
        raise InputTypeError(f"centre must be a number or a vector of numbers: {problem}") from problem
    if array.ndim > 1 or not np.isfinite(array).all():
        raise ParameterError("centre must be finite, a number or a vector, got "
                             + (f"shape {array.shape}" if array.ndim > 1 else "NaN or infinity"))
    return array if array.ndim else float(array)


def _bounds(name, value):
    """Return a bound, or a vector of them; None is no bound."""
    nothing = -np.inf if name == "lower" else np.inf
    try:
        if value is None or (isinstance(value, (list, tuple)) and any(one is None for one in value)):
            value = nothing if value is None else [nothing if one is None else one for one in value]
        array = real_array(value, copy=True)
    except TypeError as problem:
        raise InputTypeError(f"{name} must be a number or a vector of numbers: {problem}") from problem
    wrong = np.isnan(array) | (array == -nothing)
    if array.ndim > 1 or wrong.any():
        raise ParameterError(f"{name} must be a bound or a vector of them, got "
                             + (f"shape {array.shape}" if array.ndim > 1 else f"{array.ravel()[wrong.ravel()][0]}")
                             + ("; leave out bounds that do not exist" if array.ndim < 2 else ""))
    return array if array.ndim else float(array)
