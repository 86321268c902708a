"""The penalty of a certificate: its value, and the minimum of penalty plus plane, in floats or in fractions.

    Omega(w) = sum_k l2_k/2 (w_k - centre_k)^2 + l1_k |w_k| + sum_g rate_g |w_g| + constant,   lower <= w <= upper

A plane `offset + <phi, w> <= R(w)` and a lower bound c of R prove, for every t in [0, 1],

    min Omega + R >= t offset + (1 - t) c + min_w { Omega(w) + <t phi, w> }.

The minimum over one weight or one group has a closed form. It is minus infinity if `<phi, w>` falls faster than Omega
grows; then the largest t is taken for which it is finite. The formulas are independent of those of `pybundle.prox`,
which the solvers use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import numpy as np

from ..core.kept import check_array
from . import exact as ex
from .exact_penalty import least_of_groups, least_of_sum, norms_of_groups, roots
from .plane import UNIT

TINY = 1e-300       # exceeds any product that underflows
NUMBERS = ("constant", "rate_error", "constant_error")
ARRAYS = ("l2", "l1", "centre", "lower", "upper")


@dataclass(frozen=True, eq=False)
class ProvenPenalty:
    """A penalty that is a sum over weights, or over groups of them.

    Attributes
    ----------
    l2, l1, centre, lower, upper : ndarray, shape (dim,)
        Factors >= 0 of squares and absolute values, the centre of the squares, and bounds, which may be infinite.
    constant : float
        A number that is added to the sum.
    labels : intp array, shape (dim,), or None
        The group of each weight. With groups there are neither bounds nor a centre, and l2 is one number.
    rates : ndarray, shape (n_groups,)
        Factors of the norms of the groups; empty without groups.
    rate_error, centre_error, constant_error : float, ndarray (dim,) or None, float
        Errors of these numbers if they come from a rounded sum of penalties: the relative error of l2 and l1, the
        errors of the entries of the centre, and the error of the constant. A claim must hold for all penalties within
        the errors.
    """

    l2: np.ndarray
    l1: np.ndarray
    centre: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    constant: float = 0.0
    labels: Any = None
    rates: Any = None
    rate_error: float = 0.0
    centre_error: Any = None
    constant_error: float = 0.0

    def arrays(self) -> Any:
        """Return the named arrays for a file."""
        found = {name: value for name, value in vars(self).items() if value is not None}
        return {f"penalty_{name}": np.array(value) for name, value in found.items()}

    @classmethod
    def from_arrays(cls, arrays: Any) -> Any:
        """Make the object from the result of `arrays`."""
        names = [name for name in arrays if name.startswith("penalty_")]
        found = {name.removeprefix("penalty_"): arrays.pop(name) for name in names}
        numbers: Any = {name: float(found.pop(name).item()) for name in NUMBERS}
        return cls(**numbers, **found)

    def check(self, dim: int) -> None:
        """Raise ValueError if the arrays cannot be a penalty."""
        for name in ("l2", "l1"):
            check_array(name, getattr(self, name), (dim,), low=0.0)
        check_array("centre", self.centre, (dim,))
        check_array("constant and errors", np.array([getattr(self, name) for name in NUMBERS]), (3,), low=0.0)
        if self.centre_error is not None:
            check_array("centre_error", self.centre_error, (dim,), low=0.0)
        if self.rate_error > 1e-3:
            raise ValueError("rates must be known to three digits")
        for bound in (self.lower, self.upper):
            check_array("bounds", np.where(np.isinf(bound), 0.0, bound), (dim,))
        if not ((self.lower <= self.upper) & (self.lower < np.inf) & (self.upper > -np.inf)).all():
            raise ValueError("lower must be at most upper")
        sizes = [np.ravel(getattr(self, name)) for name in (*NUMBERS, *ARRAYS)] + [self.centre_errors]
        if max(np.abs(array[np.isfinite(array)]).max(initial=0.0) for array in sizes) > 1e120:
            raise ValueError("numbers of the penalty must be at most 1e120")
        if self.labels is None:
            return
        check_array("labels", self.labels, (dim,), np.intp, 0)
        check_array("rates", self.rates, (np.size(self.rates),), low=0.0)
        if self.labels.max(initial=0) >= len(self.rates) or self.rates.max(initial=0.0) > 1e120:
            raise ValueError("every label must have a rate")
        is_plain = not self.centre.any() and np.isinf(self.lower).all() and np.isinf(self.upper).all()
        if not is_plain or len(np.unique(self.l2)) > 1:
            raise ValueError("a penalty with groups must have one l2, no centre and no bounds")

    def __str__(self) -> str:
        words = [f"{name} {in_words(array)}" for name, array in (("l2", self.l2), ("l1", self.l1)) if array.any()]
        if self.centre.any():
            words.append(f"centre {in_words(self.centre)}")
        if self.labels is not None:
            words.append(f"norms of {len(self.rates)} groups {in_words(self.rates)}, labels {digest(self.labels)}")
        for name, bound, sign in (("lower", self.lower, -1.0), ("upper", self.upper, 1.0)):
            n_known = np.count_nonzero(bound != sign * np.inf)
            if n_known:
                words.append(f"{name} {in_words(bound)}" + (f" for {n_known} weights" if n_known < len(bound) else ""))
        if self.constant:
            words.append(f"constant {self.constant:.17g}")
        if self.rate_error or self.constant_error or self.centre_errors.any():
            words.append(f"a sum rounded by {self.rate_error:.2g} of its rates, {self.centre_errors.max():.2g} of its "
                         f"centre and {self.constant_error:.2g} of its constant")
        n_free = np.count_nonzero(self.free)
        return "penalty with " + (", ".join(words) or "nothing") + (f"; {n_free} free weights" if n_free else "")

    @property
    def centre_errors(self):
        return np.zeros(len(self.l2)) if self.centre_error is None else self.centre_error

    def lowered(self):
        """Return the least penalty within the errors, but for those of the centre, which `least` counts."""
        tiny = (self.l2 > 0.0) & (self.l2 < 2.0 * UNIT * self.l1) & (self.centre == 0.0)
        if tiny.any():
            return replace(self, l2=np.where(tiny, 0.0, self.l2)).lowered()
        if self.rate_error == 0.0 == self.constant_error:
            return self
        low = 1.0 - self.rate_error - 2.0 * UNIT
        constant = self.constant - self.constant_error - 4.0 * UNIT * (self.constant + self.constant_error)
        return replace(self, l2=low * self.l2, l1=low * self.l1, constant=constant, rate_error=0.0, constant_error=0.0)

    @property
    def free(self):
        """True for weights without penalty and unbounded on at least one side, shape (dim,)."""
        if self.labels is not None:
            return (self.l2 == 0.0) & (self.l1 == 0.0) & (self.rates[self.labels] == 0.0)
        return (self.l2 == 0.0) & (self.l1 == 0.0) & (np.isinf(self.lower) | np.isinf(self.upper))

    def within(self, places, sizes):
        """Return the penalty, which must have no groups, with the further bounds `|w_k| <= sizes` for k in `places`."""
        bounds = np.full(len(self.l2), np.inf)
        bounds[places] = sizes
        return replace(self, lower=np.minimum(np.maximum(self.lower, -bounds), self.upper),
                       upper=np.maximum(np.minimum(self.upper, bounds), self.lower))

    # ------------------------------------------------------------------ values
    def contains(self, w):
        """Return whether w lies within the bounds."""
        return bool(((w >= self.lower) & (w <= self.upper)).all())

    def value(self, w):
        """Return two fractions, below and above Omega(w), for floats w that lie within `lower` and `upper`."""
        both, e = ex.integers(np.stack([w, self.centre]))
        (l2, f), (l1, g), moved = ex.integers(self.l2), ex.integers(self.l1), both[0] - both[1]
        total = Fraction(self.constant) + sum((l2 * moved * moved).tolist()) * Fraction(2) ** (f + 2 * e) / 2
        total += sum((l1 * abs(both[0])).tolist()) * Fraction(2) ** (g + e)
        far, error = np.abs(w - self.centre), self.centre_errors
        lost = self.rate_error * (0.5 * self.l2 * far**2 + self.l1 * np.abs(w)) + self.l2 * error * (far + error)
        lost = Fraction(1.02 * float(lost.sum())) + Fraction(self.constant_error)
        if self.labels is None:
            return total - lost, total + lost
        squares = np.full(len(self.rates), 0, dtype=object)
        np.add.at(squares, self.labels, both[0] * both[0])
        norms = [roots(square * Fraction(4) ** e) for square in squares.tolist()]
        rates = [Fraction(rate) for rate in self.rates.tolist()]
        return tuple(total + (2 * k - 1) * lost + sum(rate * norm[k] for rate, norm in zip(rates, norms, strict=True))
                     for k in range(2))

    # ------------------------------------------------------------------ bounds
    def bounds(self, plane, floor, divisor):
        """Return fractions (low, high) around the lower bound of `Omega + R / divisor` that a plane of R proves.

        `low` is proven; without rounding errors at most `high` could be proven. `floor` is a lower bound of R or None.
        """
        if self.lowered() is not self:
            return self.lowered().bounds(plane, floor, divisor)
        offsets = [Fraction(plane.offset) - Fraction(error) for error in (plane.offset_error, -plane.offset_error)]
        if floor is None:
            return tuple(_sum(offset / divisor, least) for offset, least in zip(
                offsets, self.least(plane, 1, divisor), strict=True))
        low, high = self.shares(plane, divisor)
        found = [[_sum((t * offset + (1 - t) * floor) / divisor, least) for offset, least in zip(
            offsets, self.least(plane, t, divisor), strict=True)] for t in (low, high, Fraction(0))]
        return max(below for below, _ in found), max(above for _, above in found)

    def least(self, plane, t, divisor):
        """Return bounds of `min_w Omega(w) + <t phi / divisor, w>` from below and from above; -infinity if unbounded.

        At t = 0 the plane does not count, and the minimum is at least the constant.
        """
        if plane.phi.dtype == object:
            phi = [t * x / divisor for x in plane.phi.tolist()]
            return least_of_groups(self, phi) if self.labels is not None else (least_of_sum(self, phi),) * 2
        phi, error = self._scaled(plane, t, divisor)
        found = self._groups(phi, error) if self.labels is not None else self._sum(phi, error)
        constant = Fraction(self.constant)
        least = 0 if t == 0 else -math.inf
        return tuple(x if x == -math.inf else max(Fraction(x), least) + constant for x in found)

    def _scaled(self, plane, t, divisor):
        """Return `t phi / divisor` in floats, and error bounds for its entries, or for its norm if there are groups."""
        share = float(t) / divisor
        phi = share * plane.phi
        error = plane.errors if self.labels is None else plane.slope_error
        return phi, 1.01 * share * error + 4.0 * UNIT * float(np.linalg.norm(phi))

    def _sum(self, phi, error):
        """Return bounds of the minimum for a sum over weights, without the constant; phi is known up to `error`."""
        l1, lower, upper = self.l1, self.lower, self.upper
        flat = self.l2 == 0.0
        l2 = np.where(flat, 1.0, self.l2)
        # where l2 > 0, x is close to the minimiser, and convexity bounds how far the minimum lies below the value at x
        v = l2 * self.centre - phi
        x = np.clip(np.sign(v) * np.maximum(np.abs(v) - l1, 0.0) / l2, lower, upper)
        slope = l2 * (x - self.centre) + phi
        down = np.where(x <= lower, -np.inf, slope + np.where(x > 0.0, l1, -l1))       # ends of the subdifferential
        up = np.where(x >= upper, np.inf, slope + np.where(x < 0.0, -l1, l1))
        unsure = 16.0 * UNIT * (l2 * (np.abs(x) + np.abs(self.centre)) + np.abs(phi) + l1)
        miss = np.maximum(np.maximum(down, -up) + unsure, 0.0)
        # where l2 is 0, x is the best of 0 and the bounds
        ends = np.stack([np.clip(0.0, lower, upper), np.where(np.isinf(lower), 0.0, lower),
                         np.where(np.isinf(upper), 0.0, upper)])
        ends[1:] = np.where(np.isinf(np.stack([lower, upper])), ends[0], ends[1:])
        best = np.argmin(l1 * np.abs(ends) + phi * ends, axis=0)
        x = np.where(flat, np.take_along_axis(ends, best[None], axis=0)[0], x)
        terms = np.stack([np.where(flat, 0.0, 0.5 * l2 * (x - self.centre) ** 2), l1 * np.abs(x), phi * x])
        lost = 1.02 * l2 * self.centre_errors       # bounds changes of slopes by errors of centres
        drop = np.where(flat, 0.0, miss * miss / (2.0 * l2) + lost * (
            np.abs(x - self.centre) + miss / l2 + self.centre_errors))
        # as phi is known up to `wide`, several of `ends` may be best; if l1 > |phi| + wide, 0 alone may be best
        wide = 1.01 * error + 4.0 * UNIT * (np.abs(phi) + l1)
        # weights whose minimiser may move if phi changes within the errors; all other minimisers stay x
        moves = ~flat & (wide + unsure + miss + lost >= np.minimum(-down, up))
        reach = np.zeros(len(x))
        for end, may_be in zip(ends, (np.abs(phi) <= l1 + wide, phi + wide >= l1, wide - phi >= l1), strict=True):
            reach = np.maximum(reach, np.where(may_be, np.abs(end), 0.0))
        sizes = np.where(flat, (l1 + np.abs(phi)) * reach, np.abs(terms).sum(axis=0))
        rounding = 16.0 * UNIT * float(sizes.sum()) + len(x) * TINY
        reach = np.where(flat, reach, np.abs(x) + miss / l2)
        curved = self.l2[moves]
        bend = 1.01 * float(np.sum(error * error)) / (2.0 * float(curved.min())) if len(curved) else 0.0
        # the minimiser moves by at most error / l2, and not beyond bounds
        with np.errstate(over="ignore"):
            far = np.minimum(reach + 1.01 * error / l2, np.maximum(np.abs(lower), np.abs(upper)))
            far = np.where(flat, reach, far)
        spread, farther = (1.01 * (float(error @ size) if np.ndim(error) else error * float(np.linalg.norm(size)))
                           for size in (reach, far))
        value = math.fsum(terms.ravel().tolist())
        ahead, behind = flat & np.isinf(upper), flat & np.isinf(lower)
        safe = 1.0 + 8.0 * UNIT
        falls = (ahead & ((error - phi) * safe > l1)) | (behind & ((error + phi) * safe > l1))
        low = -math.inf if falls.any() else value - 1.01 * (float(drop.sum()) + rounding) - min(spread + bend, farther)
        return low, value + rounding + spread

    def _groups(self, phi, error):
        """Return the bounds of `_sum` for a sum over groups."""
        norms, rounding = self._norms(phi)
        l2 = float(self.l2.max(initial=0.0))
        if l2 == 0.0:
            return (0.0 if self._fit(phi, error, 1.0) else -math.inf), 0.0
        over = float(np.linalg.norm(np.maximum(norms - self.rates, 0.0)))
        miss = 1.01 * (float(np.linalg.norm(rounding)) + error + (len(norms) + 16.0) * UNIT * over)
        return -((over + miss) ** 2) / (2.0 * l2) * (1.0 + 8.0 * UNIT), -(max(over - miss, 0.0) ** 2) / (2.0 * l2)

    def _norms(self, phi):
        """Return the norms of the groups of phi after soft-thresholding by l1, and their rounding errors."""
        rest = np.maximum(np.abs(phi) - self.l1, 0.0)
        norms, thresholds = (np.sqrt(np.bincount(self.labels, x * x, len(self.rates))) for x in (rest, self.l1))
        return norms, (len(phi) + 16.0) * UNIT * (norms + thresholds) + TINY

    def _fit(self, phi, error, sign):
        norms, rounding = self._norms(phi)
        return bool((norms + sign * (rounding + error) <= self.rates).all())

    # ------------------------------------------------------------------ the share of the plane
    def shares(self, plane, divisor):
        """Return bounds, from below and from above, of the largest t in [0, 1] for which the minimum is finite."""
        if self.labels is None:
            return self._shares_of_sum(plane, divisor)
        if self.l2.any():
            return 1, 1
        return tuple(self._share_of_groups(plane, divisor, sign) for sign in (1.0, -1.0))

    def _share_of_groups(self, plane, divisor, sign):
        """Return the largest t at which norms plus (sign 1) or minus (sign -1) their errors are at most the rates."""
        def fits(t):
            if plane.phi.dtype == object:
                norms = norms_of_groups(self, [t * x / divisor for x in plane.phi.tolist()])
                return all(norm[1] <= Fraction(rate) for norm, rate in zip(norms, self.rates.tolist(), strict=True))
            return self._fit(*self._scaled(plane, t, divisor), sign)

        low, high = Fraction(0), Fraction(1)
        if fits(high):
            return high
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low if sign > 0.0 else high

    def _shares_of_sum(self, plane, divisor):
        flat = self.l2 == 0.0
        ahead, behind = flat & np.isinf(self.upper), flat & np.isinf(self.lower)
        if plane.phi.dtype == object:
            low = Fraction(1)
            for k in np.flatnonzero(ahead | behind).tolist():
                over = max(-plane.phi[k] if ahead[k] else 0, plane.phi[k] if behind[k] else 0) / divisor
                if over > Fraction(self.l1[k]):
                    low = min(low, Fraction(self.l1[k]) / over)
            return low, low
        phi, found = plane.phi / divisor, []
        error = 1.01 * plane.errors / divisor + 8.0 * UNIT * float(np.linalg.norm(phi))
        for e, safe in ((error, 1.0 - 32.0 * UNIT), (-error, 1.0 + 32.0 * UNIT)):
            over = np.maximum(np.where(ahead, e - phi, 0.0), np.where(behind, e + phi, 0.0))
            beyond = over > self.l1 * safe
            share = float(np.min(self.l1[beyond] / over[beyond])) * safe if beyond.any() else 1.0
            found.append(Fraction(min(share, 1.0)))
        return found[0], found[1]


def _sum(a, b):
    return -math.inf if b == -math.inf else a + b


def in_words(array):
    """Return the range of the finite numbers of an array in words, and a digest of the array if they differ."""
    finite = array[np.isfinite(array)]
    low, high = float(finite.min(initial=np.inf)), float(finite.max(initial=-np.inf))
    return f"{low:.17g}" if low == high and len(finite) == len(array) else f"{low:.10g} to {high:.10g} {digest(array)}"


def digest(array):
    """Return a short hash, by which readers of a report tell arrays apart."""
    array = np.ascontiguousarray(array)
    return f"[{blake2b(array.tobytes() + str((array.dtype, array.shape)).encode(), digest_size=8).hexdigest()}]"
