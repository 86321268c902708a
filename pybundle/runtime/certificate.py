"""The promise: an upper bound from an exact pass and a lower bound from feasible multipliers, in float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .stopping import relative_gap

UNIT = 2.0**-53


@dataclass(frozen=True)
class LowerBound:
    """Evidence for a lower bound: `R(v) >= offset + <phi, v>` for all v, up to `error |v|`.

    Attributes
    ----------
    offset : float
        `sum_j beta_j b_j` for feasible multipliers beta.
    phi : ndarray, shape (dim,)
        `sum_j beta_j a_j`, accumulated in float64.
    error : float
        Bound on the rounding error of `phi` in the Euclidean norm.
    value : float
        Lower bound of the objective that follows, error counted.
    """

    offset: float
    phi: np.ndarray
    error: float
    value: float

    @classmethod
    def from_aggregate(cls, objective, offset, phi, error=0.0):
        """Bound for an objective (`L2` or `Ball`) from an aggregate plane."""
        return cls(offset, phi, error, objective.lower_bound(offset, phi, error))


def aggregation_error(beta, norms, plane_errors):
    """Rounding error of `sum_j beta_j a_j`: that of the planes plus that of the sum itself.

    Parameters
    ----------
    beta, norms : ndarray, shape (m,)
        Multipliers and Euclidean norms of the slopes.
    plane_errors : ndarray, shape (P,)
        Error bound of any slope of a part; multipliers of a part sum to at most 1.
    """
    support = int(np.count_nonzero(beta))
    return float(plane_errors.sum() + support * UNIT * (beta @ norms))


@dataclass(frozen=True)
class Certificate:
    """Numbers of a finished run: `lower_bound <= min F <= fun = F(w)`."""

    fun: float
    lower_bound: float
    certified: bool

    @property
    def gap(self):
        """Relative gap."""
        return relative_gap(self.fun, self.lower_bound)


def certify(risk, objective, w, bound):
    """Recomputes both sides in float64: one exact pass at w, one norm of phi.

    A risk that can work in several precisions is asked for float64; others are taken at their word.
    """
    exact = risk.derive(precision="float64") if hasattr(risk, "derive") else risk
    values, _ = exact.evaluate(w)
    fun = objective.value(w) + float(np.sum(values))
    lower = objective.lower_bound(bound.offset, bound.phi, bound.error)
    rounding = 1e-12 * abs(fun)
    return Certificate(fun, min(lower, fun) if lower - fun <= rounding else lower, lower - fun <= rounding)
