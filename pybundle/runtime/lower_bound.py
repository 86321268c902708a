"""Proven bounds in float64: an upper bound from an exact pass, a lower bound from feasible multipliers.

An aggregate plane of feasible multipliers becomes a bound of F in four steps, each of which counts its rounding:

1. `Plane`: the errors of the planes, and those of their sum (`aggregation_errors`);
2. `LowerBound.of`: the norm of the slope, and the last difference;
3. `Problem.lower_bound`: the coordinates and anchors of free intercepts;
4. `Penalty.bound`: the minimum of penalty and plane, for a square in `Square.cost`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..core.exceptions import ContradictionError
from ..core.plane import Plane
from ..core.protocols import completed
from ..core.rounding import UNIT, norm
from ..core.validation import read_only
from .result import CROSSING

LEAST = 1e-150      # least radius of a ball; the square of a smaller one would underflow
SMALLEST = 1.5e-154     # root of the least normal number, 2.2e-308
ROUGH = 1e-6        # relative rounding error of planes of a risk that works in float32
# a value this far below its declared lower bound, relative and absolute, is taken for a result of rounding
CLIPPED = 1e-9


@dataclass(frozen=True)
class LowerBound:
    """A lower bound of an objective, and the plane that proves it.

    Attributes
    ----------
    plane : Plane
        The aggregate plane of feasible multipliers, with its errors.
    value : float
        Lower bound of the objective that follows, all errors counted.
    """

    plane: Plane
    value: float

    @classmethod
    def of(cls, problem: Any, plane: Plane, limits: Any = None) -> Self:
        """Return the bound that a plane proves for the objective of `problem`; `limits` bound free weights.

        The bound counts the rounding of the norm of the slope and of the last difference, whose terms may cancel.
        Therefore `slope_error` and `offset_error` need not contain these. A penalty that counts the rounding of the
        difference, too, makes the bound a little weaker.
        """
        error = plane.slope_error if problem.penalty.takes_entries else norm(plane.slope_error)
        counted = Plane(plane.offset, plane.slope, _reach(plane.slope, error), plane.offset_error)
        value = problem.lower_bound(counted, limits)
        return cls(plane, value - 8.0 * UNIT * (abs(plane.offset) + abs(plane.offset - value)))

    @property
    def offset(self) -> float:
        """A lower bound of R(0), up to the error of the offset."""
        return self.plane.offset

    def slope(self, problem: Any) -> float:
        """Return the norm of the slope without the entries that sign constraints cancel, errors counted."""
        slope = self.plane.slope
        return norm(problem.penalty.effective(slope)) + _reach(
            slope, norm(self.plane.slope_error))


def _reach(slope, error):
    """Return the error of a slope plus the rounding error of its computed norm."""
    lost = SMALLEST * len(slope) ** 0.5 if slope.any() else 0.0     # squares of entries below SMALLEST underflow
    norms = norm(slope) + norm(error)
    return error + (0.5 * len(slope) + 4.0) * UNIT * norms + lost


def feasible(beta, parts, slack):
    """Return feasible multipliers: those of a master problem divided by their sums, which rounding moves away from 1.

    Parameters
    ----------
    beta : ndarray, shape (m,)
    parts : ndarray, shape (m,)
        Part of every plane; multipliers of constraints, part -1, are no part of a bound and become 0.
    slack : ndarray of bool, shape (P,)
        Whether the multipliers of a part may sum to less than 1.

    Returns
    -------
    ndarray, shape (m,)
        Sums of parts are 1, at most 1 with slack, up to `(m' + 1) 2^-53` for m' positive multipliers;
        `aggregation_errors` counts that.

    Examples
    --------
    >>> import numpy as np
    >>> feasible(np.array([0.5, 0.75, 0.25, 9.0]), np.array([0, 0, 1, -1]), np.array([True, True])).tolist()
    [0.4, 0.6, 0.25, 0.0]
    """
    beta, parts = np.where(parts >= 0, np.maximum(beta, 0.0), 0.0), np.maximum(parts, 0)
    sums = np.bincount(parts, beta, len(slack))
    sums[(sums == 0.0) | (slack & (sums < 1.0))] = 1.0
    return beta / sums[parts]


def aggregation_errors(beta, offsets, norms, parts, plane_errors, offset_errors):
    """Bound the rounding errors of `sum_j beta_j a_j` (in norm) and of `sum_j beta_j b_j`.

    Parameters
    ----------
    beta, offsets, norms, parts : ndarray, shape (m,)
        Multipliers as `feasible` returns them; `b_j`, Euclidean norm of the slope and part of every plane.
    plane_errors, offset_errors : ndarray, shape (P,)
        Error bound of any slope of a part, and relative error bound of any offset.

    Returns
    -------
    error, offset_error : float
        For multipliers as `feasible` returns them; both errors count how far their sums are from 1.
    """
    weights = beta * np.abs(offsets)
    terms = 2 * int(np.count_nonzero(beta)) + 4
    error = plane_errors.sum() + terms * UNIT * (beta @ norms)
    offset_error = terms * UNIT * weights.sum() + weights @ np.asarray(offset_errors)[np.maximum(parts, 0)]
    return 1.01 * float(error), 1.01 * float(offset_error)


@dataclass(frozen=True)
class Bracket:
    """Numbers of a finished run: `lower_bound <= min F <= F(w) <= fun + error`.

    Attributes
    ----------
    fun, lower_bound : float
        `F(w)` as computed, and the bound with all errors counted.
    certified : bool
        Both are finite and agree.
    error : float
        Bound on the rounding error of `fun`, plus a bound on the decrease of F by violated linear constraints.
    slope : float
        Norm of the slope of the aggregate plane behind the bound, errors counted.
    """

    fun: float
    lower_bound: float
    certified: bool
    error: float = 0.0
    slope: float = float("nan")

    @property
    def range(self):
        """An upper bound of F(w), and the lower bound of F."""
        return self.fun + self.error, self.lower_bound


def ball(problem, w, certificate, bound):
    """Return centre and radius of a ball that contains the minimiser of F.

    It is None if F is not strongly convex, or if squares overflow.

        lam/2 (|w* - w|^2 + |w* - v|^2) <= G = F(w) - D,   v = -phi/lam,   hence
        |w* - (w + v)/2| <= sqrt(G/lam - |w - v|^2/4)

    D is the bound by the aggregate plane, and v the minimiser of penalty plus plane under the constraints. F and this
    sum are lam-strongly convex, and the sum lies below F.

    The radius counts the error of the slope, which moves v by `error/lam`, and the rounding of G, of the norm and of
    the centre.
    """
    lam = problem.modulus
    if lam is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        plane = bound.plane
        v, error = problem.point(plane.slope, lam), norm(plane.slope_error)
        sizes = UNIT * (norm(w) + 4.0 * norm(v))
        shift = 1.01 * (error / lam + sizes + problem.penalty.point_error(plane.slope, lam)) + LEAST
        excess = max(certificate.fun + certificate.error - bound.value, 0.0)
        excess += 4.0 * UNIT * (abs(certificate.fun) + abs(bound.value))
        centre = w + v
        centre *= 0.5
        v -= w
        distance = max(norm(v) * (1.0 - (0.5 * len(w) + 8.0) * UNIT) - shift, 0.0)
        square = excess / lam * (1.0 + 8.0 * UNIT) - 0.25 * distance * distance * (1.0 - 8.0 * UNIT)
        radius = float((np.sqrt(max(square, 0.0)) + shift) * (1.0 + 8.0 * UNIT))
    return (centre, radius) if np.isfinite(radius) and np.isfinite(distance) else None


def certify(risk, problem, w, bound, known=None, limits=None):
    """Bracket the minimum in float64 by F(w), from an exact pass or from `known`, and by the bound of the plane.

    `known` is R(w) in float64, and a bound on its rounding error.

    A risk with a method `values` bounds the rounding errors of its values. A risk with several precisions is evaluated
    in float64. The numbers of other risks are taken as exact. A value just below the lower bound that the risk declares
    is replaced by that bound, and the difference counts as an error. A plane above R(w) makes `certified` False, and a
    bound above F(w), beyond rounding, is a ContradictionError.

    A point meets linear constraints up to rounding only, so F(w) may lie below the minimum under them. An aggregate
    plane that contains constraints then lies above R(w), by at most the multipliers times the violations; this counts
    as an error, too. Limits of free weights hold only where F is below a level, so the bound is at most that level.
    """
    w = read_only(w)
    exact = completed(risk).derive(precision="float64")
    if known is not None:
        values, errors = known
    elif exact.values is not None:
        values, errors = exact.values(w)
    else:
        values = exact.evaluate(w)[0]
        errors = 0.0 if exact.value_errors is None else exact.value_errors(w, values)
    least = np.asarray(risk.lower_bounds, dtype=np.float64)
    below = np.maximum((least if np.ndim(values) else np.sum(np.broadcast_to(least, risk.n_parts))) - values, 0.0)
    below = np.where(below <= CLIPPED * (1.0 + np.abs(values)), below, 0.0)     # more shows a wrong bound of the risk
    values, errors = values + below, errors + below
    penalty, total = problem.value(w), float(np.sum(values))
    fun = penalty + total
    error = float(1.01 * np.sum(errors) + UNIT * (
        (len(w) + 5) * abs(penalty) + np.size(values) * np.sum(np.abs(values)) + 4.0 * abs(fun))
        + problem.factor * problem.penalty.uncertainty(w))
    plane, lower = bound.plane, LowerBound.of(problem, bound.plane, limits).value
    if limits is not None:
        lower = min(lower, limits.level)
    product = float(plane.slope @ w)
    excess, scale = plane.offset + product - total, abs(plane.offset) + abs(product) + abs(total)
    fits = excess <= error + ROUGH * scale
    if problem.rows is not None:      # a plane that contains rows may lie above R(w) where w violates the rows
        error += max(float(excess), 0.0)
    if lower - fun > error + 1e-12 * (scale + abs(fun)):
        raise ContradictionError(f"{CROSSING} (fun {fun:.6g} < lower bound {lower:.6g})")
    agree = bool(np.isfinite(error) and lower - fun <= error + 1e-12 * abs(fun) and fits)
    return Bracket(fun, min(lower, fun) if agree else lower, agree, error, bound.slope(problem))
