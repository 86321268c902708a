"""The interface of penalties, and the sums `a + b` whose prox and conjugate are known."""

from __future__ import annotations

import inspect
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import BundleError, ParameterError
from ..core.plane import Plane
from ..core.rounding import UNIT, norm
from ..core.types import Array, Floats
from ..core.validation import check_vector
from .checks import check_step
from .groups import euclidean

SAFE = 1e-9
"""Relative error that `Penalty.least` assumes for the values of a user's own penalty."""


class Rounding(NamedTuple):
    """Bounds on the rounding errors of the numbers of a sum of penalties.

    Attributes
    ----------
    rates : float
        Relative error of every entry of l2 and l1.
    centre : float or ndarray, shape (d,)
        Errors of the entries of the centre.
    constant : float
        Error of the constant.
    """

    rates: float = 0.0
    centre: Any = 0.0
    constant: float = 0.0


class Penalty:
    """Base class of penalties: closed convex functions Omega of vectors, for `minimize` and for online learning.

    Most have `Omega(0) = 0 <= Omega(x) = Omega(-x)` and name a norm N. `a + b` is the sum, see `Sum`.
    """

    def __repr__(self) -> str:
        """Return the call that makes it, without defaults; arrays are shown by their shapes."""
        words = []
        for name, parameter in inspect.signature(type(self).__init__).parameters.items():
            value = getattr(self, name, parameter.default)
            if isinstance(value, np.ndarray):
                words.append(f"{name}=array of shape {value.shape}")
            elif isinstance(value, (int, float, list)) and value != parameter.default:
                words.append(f"{name}={value!r:.60}")
            elif not isinstance(value, (int, float, list)) and value is not parameter.default:
                words.append(f"{name}={type(value).__name__}")
        return f"{type(self).__name__}({', '.join(words)})"

    is_separable = False
    """Whether Omega is a sum over entries that `canonical` writes as `Separable`."""
    is_provable = False
    """Whether a certificate can store Omega."""
    square: Any = None
    """Omega as the `Square` that methods for a single number lam need; None if Omega is no such square."""
    ball: Any = None
    """The canonical penalty as `Ball`; None if it is no ball."""
    entries: Any = None
    """The canonical penalty by entries, as `Separable`; None if the entries are coupled."""
    takes_entries = False
    """Whether the error of a slope in `least` and `bound` may be an array with the error of each entry."""
    nonneg: Any = None
    """The set N of `OfNorm`; None if N is empty, or if `entries` holds the bounds."""
    centre: Any = 0.0
    rounding: Rounding = Rounding()

    def value(self, x: ArrayLike) -> float:
        """Return Omega(x); infinite if it overflows float64, or outside of bounds."""
        raise NotImplementedError(f"{type(self).__name__} must have value(x)")

    def prox(self, x: ArrayLike, t: float = 1.0) -> Floats:
        """Return `argmin_z 1/2 |z - x|^2 + t Omega(z)`, shape (d,).

        Parameters
        ----------
        x : array_like, shape (d,)
        t : float >= 0
            Step; it multiplies the rate of the penalty.

        A subclass has this or `minimiser`; each is made from the other, but for minimisers of weight 0.
        """
        if type(self).minimiser is Penalty.minimiser:
            raise NotImplementedError(f"{type(self).__name__} must have minimiser(phi, weight, centre) or prox(x, t)")
        x, t = check_vector("x", x), check_step(t)
        return self.minimiser(np.zeros(len(x)), 1.0 / t, x) if t > 0.0 else np.array(self.project(x))

    def dual_norm(self, y: ArrayLike) -> float:
        """Return `max <x, y>` over N(x) <= 1, so that <x, y> <= N(x) dual_norm(y); only where there is a norm N."""
        raise ParameterError(f"{type(self).__name__} has no norm; use conjugate")

    def conjugate(self, y: ArrayLike) -> float:
        """Return `Omega*(y) = max_x <x, y> - Omega(x)`: for every x, Omega(x) >= <x, y> - conjugate(y).

        If Omega is a norm, this is 0 for dual_norm(y) <= 1, else infinite; against rounding, divide y by its dual norm.
        """
        raise NotImplementedError

    def subgradient_distance(self, x: ArrayLike, g: ArrayLike) -> float:
        """Return the Euclidean distance from g to the subdifferential of Omega at x.

        It is 0 for `g = (v - x) / t` at x = prox(v, t).

        A minimiser of L + Omega has distance 0 from -L'(x).
        """
        raise NotImplementedError

    def __add__(self, other: Any) -> Any:
        return Sum(self, other) if isinstance(other, Penalty) else NotImplemented

    # ------------------------------------------------------------------ for solvers
    def canonical(self, dim: int) -> Penalty:
        """Return the same penalty of vectors of `dim` entries in the form that solvers use; checks the length."""
        for name, value in vars(self).items():
            if callable(getattr(Penalty, name, None)) and not callable(value):
                raise ParameterError(f"penalty {type(self).__name__} must have no attribute {name!r}, which hides a "
                                     "method that solvers call; rename it")
        try:
            self.value(np.zeros(dim))
        except ValueError as problem:           # raised by a user's own penalty
            if isinstance(problem, BundleError):
                raise
            raise ParameterError(f"penalty {type(self).__name__} must take vectors of {dim} entries, its value raised "
                                 f"{problem!r}") from problem
        return self

    def has_exact_prox(self, dim: int) -> bool:
        """Return whether `prox` of vectors of `dim` entries is exact up to rounding, as the bundle master needs."""
        return True

    def has_bound(self) -> bool:
        """Return whether it proves bounds: by its own `minimiser` if `moduli` are positive, else by its own `least`."""
        kind = type(self)
        return kind.minimiser is not Penalty.minimiser if np.min(self.moduli) > 0.0 else (
            kind.least is not Penalty.least)

    def lowered(self) -> Penalty:
        """Return a penalty that is at most Omega, for lower bounds: rounding may have raised the numbers of a sum."""
        return self

    def uncertainty(self, x: Array) -> float:
        """Return how far `value` can be from Omega(x) because numbers of a sum were rounded."""
        return 0.0

    @property
    def moduli(self) -> float | Floats:
        """`Omega - sum_k moduli_k/2 x_k^2` is convex; a number or shape (d,)."""
        return 0.0

    def modulus(self, factor: float) -> float | None:
        """Return a constant of strong convexity of `factor Omega`, or None; rounding is counted."""
        least = factor * float(np.min(self.moduli, initial=np.inf)) * (1.0 - 2.0 * UNIT)
        return least if 0.0 < least < np.inf else None

    def along(self, best: Array, x: Array, step: Array, factor: float) -> tuple[float, float]:
        """Return a, b: `factor Omega` rises by at most `a t + b t^2/2` from best to best + t step; x = best + step.

        b follows from `moduli`, and a from the values at both ends.
        """
        square = float(np.sum(factor * self.moduli * step**2))
        return factor * float(self.value(x)) - factor * float(self.value(best)) - 0.5 * square, square

    def minimiser(self, phi: Array, weight: float = 0.0, centre: Any = 0.0) -> Floats:
        """Return `argmin_x Omega(x) + <phi, x> + weight/2 |x - centre|^2`, weight > 0, or 0 with positive `moduli`."""
        return self.prox(centre - phi / weight, 1.0 / weight)

    def point(self, phi: Array, lam: float) -> Floats:
        """Return the minimiser of the model with aggregate slope phi; lam is that of a master problem with one norm."""
        return self.minimiser(phi)

    def point_error(self, phi: Array, lam: float) -> float:
        """Return how far `point` may be off because a far centre or a threshold cancels in it; lam is `modulus`."""
        sizes = norm(phi) / lam + norm(self.centre)
        return norm(self.rounding.centre) + (16.0 * UNIT + 2.0 * self.rounding.rates) * sizes

    def support(self, x: Array) -> Array | None:
        """Return which entries of a minimiser x move with phi; None if weights are coupled."""
        return None

    def project(self, x: Array) -> Floats:
        """Return the nearest point of finite Omega; x itself if it has one."""
        return x

    def effective(self, phi: Array) -> Array:
        """Return phi without the positive entries that the constraints w_k >= 0 of `OfNorm` cancel."""
        return phi

    def pushed_outside(self, phi: Array) -> Array:
        """Return the entries that phi would make negative against the constraints of `OfNorm`, for masters."""
        return np.empty(0, dtype=np.intp)

    def least(self, phi: Array, error: float = 0.0) -> float:
        """Return a proven lower bound of `min_x Omega(x) + <phi + d, x>` for all |d| <= error; rounding is counted.

        This one takes the value at the minimiser x for phi; d changes the minimum by at most
        `error |x| + error^2 / (2 m)`, m the least of `moduli`. It trusts that this value is exact up to a fraction SAFE
        of its terms. Solvers refuse a penalty that has no `least` of its own, and not both m > 0 and a `minimiser`.
        """
        x, modulus = self.minimiser(phi), float(np.min(self.moduli))
        found = self.value(x) + float(phi @ x)
        lost = error * euclidean(x) + error * error / (2.0 * modulus)
        lost += SAFE * (lost + abs(found) + euclidean(phi) * euclidean(x))
        return float(found - lost) if np.isfinite(lost) else -np.inf

    def scaling(self, phi: Array, error: float = 0.0) -> float:
        """Return the largest t <= 1 for which `least(t phi, t error)` is finite, up to rounding."""
        return 1.0

    def scaled_least(self, phi: Array, error: Any, factor: float) -> tuple[float, float]:
        """Return the t of `scaling`, and a proven lower bound of the minimum of `factor Omega(x) + <t phi, x>`."""
        if not (np.isfinite(phi).all() and np.isfinite(error).all()):
            return 1.0, -np.inf
        phi, error = phi / factor, error / factor
        error = error + 4.0 * UNIT * norm(phi)     # for the rounding of this division, and of t phi below
        t = self.scaling(phi, error)
        return t, factor * self.least(t * phi, t * error)

    def bound(self, plane: Plane, floor: float, factor: float) -> float:
        """Return a lower bound of `factor Omega + R` from a plane of R, its errors counted, and a lower bound of R.

        An aggregate plane `offset + <phi, x> <= R(x)` proves `min >= offset - Omega*(-phi)` (Fenchel). Where Omega
        grows too slowly for phi, as the l1 norm does, that is minus infinity. Then the plane is mixed with the floor:

            min >= t offset + (1 - t) floor - Omega*(-t phi),    t <= 1 the largest for which this is finite.
        """
        offset = plane.offset - plane.offset_error
        t, least = self.scaled_least(plane.slope, plane.slope_error, factor)
        rest = 0.0 if t == 1.0 else (1.0 - t) * floor
        return float(t * offset + rest + least - 4.0 * UNIT * (abs(t * offset) + abs(rest) + abs(least)))


class Sum(Penalty):
    """The sum of penalties, written `a + b`.

    Any number of separable terms (`L1` and `ElasticNet` without groups, `SquaredL2`, `Box`, `Separable`) is allowed;
    or a `Ball` with lower bounds 0; or one other penalty with `SquaredL2` of one rate, centred at 0. The prox and the
    conjugate of other sums are not known.

    Parameters
    ----------
    *terms : Penalty

    Raises
    ------
    ParameterError
        If the sum is none of these.

    Examples
    --------
    >>> from pybundle.prox import L1, Box
    >>> (L1(1.0) + Box(lower=0.0)).prox([3.0, -3.0, 0.5])
    array([2., 0., 0.])
    """

    def __init__(self, *terms: Penalty) -> None:
        self.terms: tuple[Any, ...] = tuple(part for term in terms for part in getattr(term, "terms", [term]))
        others = [term for term in self.terms if not term.is_separable]
        if len(others) > 1:
            raise ParameterError(f"penalties must be separable but for one, got {names_of(*others)}; for L1 and the "
                                 "group lasso there is SparseGroupLasso")
        rests: list[Any] = [term for term in self.terms if term.is_separable]
        if others and others[0].ball is None and not all(
                getattr(term, "centre", 0.0) is None and np.ndim(term.rate) == 0 for term in rests):
            raise ParameterError(f"{names_of(*others)} can be added to SquaredL2(rate) of one rate without centre "
                                 f"only, got {names_of(*rests)}; for L1 and norms of groups there is SparseGroupLasso")

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))

    def value(self, x: ArrayLike) -> float:
        return self._canonical("x", x).value(x)

    def prox(self, x: ArrayLike, t: float = 1.0) -> Floats:
        return self._canonical("x", x).prox(x, t)

    def conjugate(self, y: ArrayLike) -> float:
        return self._canonical("y", y).conjugate(y)

    def subgradient_distance(self, x: ArrayLike, g: ArrayLike) -> float:
        return self._canonical("x", x).subgradient_distance(x, g)

    def canonical(self, dim: int) -> Penalty:
        others: list[Any] = [term.canonical(dim) for term in self.terms if not term.is_separable]
        rests: list[Any] = [term for term in self.terms if term.is_separable]
        inner: Any = others[0] if others else None
        if inner is None or inner.ball is not None:
            first = rests[0].canonical(dim)
            rest = first.plus(*rests[1:]) if len(rests) > 1 else first
            return rest if inner is None else inner.within(rest)
        rates = [float(term.rate) for term in rests]
        if isinstance(inner, PlusSquaredL2):
            inner, rates = inner.inner, [*rates, inner.rate]
        rate = math.fsum(rates)
        return PlusSquaredL2(inner, rate, UNIT * (len(rates) > 1)) if rate > 0.0 else inner

    @property
    def is_separable(self) -> bool:
        return all(term.is_separable for term in self.terms)

    def _canonical(self, name, x):
        return self.canonical(len(check_vector(name, x)))


class PlusSquaredL2(Penalty):
    """`Omega(x) + rate/2 |x|^2`, the form in which `Sum` adds a square to a penalty that is not separable.

    `prox_t(x) = prox of Omega at x / (1 + t rate), with step t / (1 + t rate)`.
    """

    def __init__(self, inner: Penalty, rate: float, rate_error: float = 0.0) -> None:
        self.inner, self.rate, self.rate_error = inner, rate, rate_error       # relative error of a rounded rate

    @property
    def is_provable(self) -> bool:
        return self.inner.is_provable

    def has_exact_prox(self, dim: int) -> bool:
        return self.inner.has_exact_prox(dim)

    def has_bound(self) -> bool:
        return True

    def project(self, x: Array) -> Floats:
        return self.inner.project(x)

    def value(self, x: ArrayLike) -> float:
        x = check_vector("x", x)
        with np.errstate(over="ignore"):
            return self.inner.value(x) + 0.5 * self.rate * float(x @ x)

    def prox(self, x: ArrayLike, t: float = 1.0) -> Floats:
        x, t = check_vector("x", x), check_step(t)
        return self.inner.prox(x / (1.0 + t * self.rate), t / (1.0 + t * self.rate))

    def conjugate(self, y: ArrayLike) -> float:
        y = check_vector("y", y)
        if self.rate == 0.0:
            return self.inner.conjugate(y)
        x = self.minimiser(-y)
        return float(y @ x) - self.value(x)

    def subgradient_distance(self, x: ArrayLike, g: ArrayLike) -> float:
        x = check_vector("x", x)
        return self.inner.subgradient_distance(x, check_vector("g", g, len(x)) - self.rate * x)

    # ------------------------------------------------------------------ for solvers
    def lowered(self) -> Penalty:
        low = 1.0 - self.rate_error - 2.0 * UNIT
        return PlusSquaredL2(self.inner, low * self.rate) if self.rate_error > 0.0 else self

    def uncertainty(self, x: Array) -> float:
        with np.errstate(over="ignore"):
            return self.rate_error * self.rate * float(x @ x)

    @property
    def moduli(self) -> float | Floats:
        return self.rate

    def minimiser(self, phi: Array, weight: float = 0.0, centre: Any = 0.0) -> Floats:
        s = self.rate + weight
        return self.inner.prox((weight * centre - phi) / s, 1.0 / s)

    def least(self, phi: Array, error: float = 0.0) -> float:
        """Bound as `Penalty.least` does, by Fenchel's inequality: -phi is split between the two terms.

            min >= -Omega*(y) - |phi + y|^2 / (2 rate)   for any y; the computed minimiser yields a good y
        """
        if self.rate == 0.0:
            return self.inner.least(phi, error)
        if not self.inner.has_bound():
            return super().least(phi, error)
        slope = phi + self.rate * self.minimiser(phi)
        slope *= self.inner.scaling(slope)
        rest = phi - slope
        size = euclidean(rest) * (1.0 + (len(phi) + 4.0) * UNIT) + error + UNIT * (euclidean(phi) + euclidean(slope))
        with np.errstate(over="ignore"):
            found = self.inner.least(slope) - size * size / (2.0 * self.rate) * (1.0 + 8.0 * UNIT)
        return float(found) if np.isfinite(found) else -np.inf


def names_of(*penalties: Any) -> str:
    """Return the names of the classes of penalties and of the terms of sums, for an error."""
    terms = [getattr(term, "inner", term) for penalty in penalties for term in getattr(penalty, "terms", [penalty])]
    return " and ".join(type(term).__name__ + ("" if getattr(term, "groups", None) is None else " with groups")
                        for term in terms)
