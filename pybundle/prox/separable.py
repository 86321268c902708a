"""Penalties that are a sum over entries: a square about a centre, an absolute value, and bounds.

    omega(x) = l2/2 (x - c)^2 + l1 |x| + [lower <= x <= upper]
    argmin_x omega(x) + phi x + weight/2 (x - d)^2 = clip( soft(v, l1) / s, lower, upper ),
        v = l2 c + weight d - phi,   s = l2 + weight,   soft(v, l1) = sign(v) max(|v| - l1, 0)

A sum of such penalties has the same form, but its numbers are rounded. `rounding` bounds these errors, so that lower
bounds hold for the exact sum. `Box` has bounds alone.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.rounding import UNIT
from ..core.types import Array, Floats
from ..core.validation import check_vector, real_numbers
from .base import Penalty, Rounding
from .checks import check_rates, check_step, match_rates
from .groups import euclidean

UNDERFLOW = 1e-300      # exceeds any sum of numbers that underflow to 0
NOTHING = {"l2": 0.0, "l1": 0.0, "centre": 0.0, "lower": -np.inf, "upper": np.inf}
"""The numbers of a penalty that is 0 everywhere."""


class Separable(Penalty):
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

    is_separable = True
    is_provable = True
    takes_entries = True
    constant: float = 0.0      # a sum of squares about different centres has a constant term

    def __init__(self, l2: float | ArrayLike = 0.0, l1: float | ArrayLike = 0.0, centre: float | ArrayLike = 0.0,
                 lower: float | ArrayLike = -np.inf, upper: float | ArrayLike = np.inf) -> None:
        self.l2: float | Floats = check_rates("l2", l2)
        self.l1: float | Floats = check_rates("l1", l1)
        self.centre: float | Floats = check_centre(centre)
        self.lower: float | Floats = _bounds("lower", lower)
        self.upper: float | Floats = _bounds("upper", upper)
        named = {name: value for name, value in vars(self).items() if np.ndim(value)}
        for name, value in named.items():
            match_rates(name, value, len(next(iter(named.values()))))
        crossed = np.flatnonzero(np.atleast_1d(self.lower > self.upper))
        if len(crossed):
            low, high = (bound[crossed[0]] for bound in np.broadcast_arrays(*np.atleast_1d(self.lower, self.upper)))
            raise ParameterError(f"lower must be at most upper, got {low:g} > {high:g} at index {crossed[0]}; "
                                 "exchange them")

    def value(self, x: ArrayLike) -> float:
        x = self._point_of("x", x)
        if ((x < self.lower) | (x > self.upper)).any():
            return np.inf
        with np.errstate(over="ignore", invalid="ignore"):      # master problems may try infinite x
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
        if np.ndim(weight) or weight:       # `np.any` is slow with a number
            v += weight * centre
        return self._clipped(v, self.l1, self.l2 + weight)

    def _clipped(self, v, l1, s):
        size = np.abs(v)
        size -= l1
        v = np.copysign(np.maximum(size, 0.0, out=size), v, out=size)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            x = v / s
        x[v == 0.0] = 0.0           # no negative zeros, and no 0 / 0
        return np.minimum(np.maximum(x, self.lower, out=x), self.upper, out=x)

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
    @property
    def entries(self) -> Separable:
        return self

    def canonical(self, dim: int) -> Separable:
        """Return this penalty with arrays of shape (dim,)."""
        whole = Separable.__new__(Separable)
        for name in NOTHING:
            value = match_rates(name, getattr(self, name), dim)
            setattr(whole, name, np.array(np.broadcast_to(value, (dim,)), dtype=np.float64))
        whole.constant, whole.rounding = self.constant, self.rounding
        return whole

    def replaced(self, **changes: Any) -> Separable:
        """Return a copy in which some numbers are replaced."""
        other = copy.copy(self)
        vars(other).update(changes)
        return other

    def within(self, lower: Array, upper: Array) -> Separable:
        """Return this penalty with further bounds; where the bounds then cross, they are exchanged."""
        lower, upper = np.maximum(self.lower, lower), np.minimum(self.upper, upper)
        return self.replaced(lower=np.minimum(lower, upper), upper=np.maximum(lower, upper))

    def lowered(self) -> Separable:
        """Return a penalty that is at most the exact sum; errors of the centre stay in `rounding`, for `least`.

        Squares about 0 that are tiny relative to l1 are left out, since they prove next to nothing.
        """
        tiny = (self.l2 > 0.0) & (self.l2 < 2.0 * UNIT * self.l1) & (self.centre == 0.0)
        if np.any(tiny):
            return self.replaced(l2=np.where(tiny, 0.0, self.l2)).lowered()
        rates, _, constant = self.rounding
        if rates == 0.0 == constant:
            return self
        low = 1.0 - rates - 2.0 * UNIT
        rest = self.rounding._replace(rates=0.0, constant=0.0)
        return self.replaced(l2=low * self.l2, l1=low * self.l1, rounding=rest,
                             constant=self.constant - constant * (1.0 + 2.0 * UNIT) - 2.0 * UNIT * self.constant)

    def uncertainty(self, x: Array) -> float:
        """Return how far `value` can be from the exact sum at x, apart from its own rounding."""
        rates, centre, constant = self.rounding
        if rates == 0.0 == constant and not np.any(centre):
            return 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            far = np.abs(x - self.centre)
            sizes = rates * (0.5 * self.l2 * far**2 + self.l1 * np.abs(x)) + self.l2 * centre * (far + centre)
            return 1.01 * float(np.sum(sizes)) + constant

    @property
    def moduli(self) -> float | Floats:
        """`Omega - sum_k moduli_k/2 x_k^2` is convex."""
        return self.l2

    @property
    def is_of_squares(self) -> bool:
        """Whether it is a sum of squares about 0, known exactly, and of bounds."""
        return not (np.any(self.l1) or np.any(self.centre) or self.constant or self.rounding.rates)

    def support(self, x: Array) -> Array:
        """Return which entries of a minimiser x move with phi, because no threshold and no bound holds them."""
        return ((x != 0.0) | (self.l1 <= 0.0)) & (x > self.lower) & (x < self.upper)

    def project(self, x: Array) -> Floats:
        """Return the nearest point of finite Omega; x itself if it has one."""
        return x if ((x >= self.lower) & (x <= self.upper)).all() else np.clip(x, self.lower, self.upper)

    def least(self, phi: Array, error: Any = 0.0) -> float:
        """Return a proven lower bound of `min_x Omega(x) + <phi + d, x>` for all |d| <= error, a norm or an array.

        d changes the minimum of entry k by at most |d_k| times the largest |minimiser| between phi_k - error and
        phi_k + error; an error e of the centre c changes it by at most `l2 |e| (|x - c| + |e|)`, x the minimiser.
        """
        is_held = not np.any(self.l2) and np.all(np.abs(phi) + error <= self.l1)
        if is_held and np.all((self.lower <= 0.0) & (self.upper >= 0.0)):
            return self.constant        # the minimum is at 0 for all d
        x = self.minimiser(phi)
        reach = np.maximum(np.abs(self.minimiser(phi - error)), np.abs(self.minimiser(phi + error)))
        if not (np.isfinite(reach).all() and np.isfinite(x).all()):
            return -np.inf
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            sizes = np.abs(phi)
            square, line, product = 0.5 * self.l2 * (x - self.centre)**2, self.l1 * np.abs(x), phi * x
            # errors of the sums, and of the computed minimiser, whose value is above the minimum
            size = float(square.sum() + line.sum() + np.abs(product).sum())
            shift = (self.l2 * np.abs(self.centre) + sizes + self.l1)**2 / self.l2
            # the computed minimiser is exact in all other entries
            moved = (self.l2 > 0.0) & ((self.centre != 0.0) | (x != 0.0) | (sizes > self.l1))
            rounding = 1.01 * (len(x) + 16.0) * UNIT * size + 64.0 * UNIT**2 * float(np.sum(shift, where=moved))
            if moved.any():
                rounding += len(x) * UNDERFLOW
            if np.ndim(self.rounding.centre) or self.rounding.centre:
                moves = self.l2 * self.rounding.centre * (np.abs(x - self.centre) + self.rounding.centre)
                rounding += 1.01 * float(np.sum(moves))
            spread = float((error * reach).sum()) if np.ndim(error) else error * euclidean(reach)
            found = float((square + line + product).sum()) - rounding - 1.01 * spread + self.constant
        if not (phi.any() or np.any(error)):        # Omega is never below its constant
            found = max(found, self.constant)
        return found if np.isfinite(found) else -np.inf

    def scaling(self, phi: Array, error: Any = 0.0) -> float:
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

    def plus(self, *others: Any) -> Separable:
        """Return the sum of this canonical penalty and others; each number is rounded about once.

        With C the mean of the centres, weighted by the l2 of their terms, the squares are `l2/2 (x - C)^2` plus the
        constant `sum_t l2_t/2 (c_t - C)^2`, l2 the sum of all l2_t.
        """
        dim = np.size(self.l2)

        def terms():        # one term at a time: all together might not fit into memory
            yield self
            yield from (term.canonical(dim) for term in others)

        def shifts():       # centres relative to the first one, small even if all centres are far from 0
            return (np.where(term.l2 > 0.0, term.centre - first, 0.0) for term in terms())

        (l2, l2_rounded), (l1, l1_rounded) = (_sums(getattr(term, name) for term in terms()) for name in ("l2", "l1"))
        lower, upper, divisor = self.lower, self.upper, np.where(l2 > 0.0, l2, 1.0)
        first, errors, n_squares, rates = np.zeros(dim), np.zeros(dim), np.zeros(dim), 0.0
        for term in terms():
            lower, upper = np.maximum(lower, term.lower), np.minimum(upper, term.upper)
            first = np.where((n_squares == 0.0) & (term.l2 > 0.0), term.centre, first)
            errors = np.where(term.l2 > 0.0, np.maximum(errors, term.rounding.centre), errors)
            n_squares += term.l2 > 0.0
            rates = max(rates, term.rounding.rates)
        mean, _ = _sums(term.l2 / divisor * shift for term, shift in zip(terms(), shifts(), strict=True))
        size, _ = _sums(term.l2 / divisor * np.abs(shift) for term, shift in zip(terms(), shifts(), strict=True))
        rates = 1.01 * rates + 2.0 * UNIT * (l2_rounded or l1_rounded)
        found = Separable(l2, l1, first + mean, lower, upper).canonical(dim)
        moved = np.where(size > 0.0, UNIT * np.abs(found.centre) + (2.02 * rates + 16.0 * UNIT) * size, 0.0)
        centre, constant, rounding = 1.01 * (errors + moved), 0.0, 0.0
        for term, shift in zip(terms(), shifts(), strict=True):
            far = np.abs(shift - mean)
            error = centre + term.rounding.centre + 4.0 * UNIT * (far + np.abs(mean))
            constant += term.constant + float(np.sum(0.5 * term.l2 * far**2))
            rounding += term.rounding.constant + float(np.sum(term.l2 * error * (far + error), where=n_squares > 1.0))
        found.constant = constant
        rounding += ((dim + len(others) + 8.0) * UNIT + rates) * constant
        found.rounding = Rounding(rates, centre if centre.any() else 0.0, 1.01 * rounding)
        return found

    def _point_of(self, name, x):
        x = check_vector(name, x)
        for key in NOTHING:
            match_rates(key, getattr(self, key), len(x))
        return x


def _sums(arrays):
    """Return the sum of arrays by Neumaier's method, rounded about once, and whether it was rounded."""
    whole = rest = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for array in arrays:
            both = whole + array
            rest = rest + np.where(np.abs(whole) >= np.abs(array), (whole - both) + array, (array - both) + whole)
            whole = both
        return whole + rest, bool(np.any(rest))


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


def spread(penalty, places):
    """Return a canonical penalty for the weights that the mask `places` selects; all others are free."""
    def whole(value, nothing=0.0):
        found = np.full(len(places), nothing)
        found[places] = value
        return found

    return penalty.replaced(**{name: whole(getattr(penalty, name), nothing) for name, nothing in NOTHING.items()},
                            rounding=penalty.rounding._replace(centre=whole(penalty.rounding.centre)))


def check_centre(centre):
    """Return a finite number or vector."""
    array = real_numbers("centre must be a number or a vector of numbers", centre, copy=True)
    if array.ndim > 1 or not np.isfinite(array).all():
        raise ParameterError("centre must be finite, a number or a vector, got "
                             + (f"shape {array.shape}" if array.ndim > 1 else "NaN or infinity"))
    return array if array.ndim else float(array)


def _bounds(name, value):
    """Return a bound, or a vector of bounds; None stands for an infinite bound."""
    nothing = -np.inf if name == "lower" else np.inf
    if value is None or (isinstance(value, (list, tuple)) and any(one is None for one in value)):
        value = nothing if value is None else [nothing if one is None else one for one in value]
    array = real_numbers(f"{name} must be a number or a vector of numbers", value, copy=True)
    wrong = np.isnan(array) | (array == -nothing)
    if array.ndim > 1 or wrong.any():
        raise ParameterError(f"{name} must be a bound or a vector of them, got "
                             + (f"shape {array.shape}" if array.ndim > 1 else f"{array.ravel()[wrong.ravel()][0]}")
                             + ("; leave out bounds that do not exist" if array.ndim < 2 else ""))
    return array if array.ndim else float(array)
