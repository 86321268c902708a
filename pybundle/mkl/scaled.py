"""A risk whose weights are multiplied by fixed factors, so that a solver for `lam/2 |u|^2` weighs groups differently.

With factors s, `R(s u)` is a convex function of u, and `lam/2 |u|^2` is `lam/2 sum_j theta_j^2 / s_j^2` at theta = s u.
"""

from __future__ import annotations

import copy

import scipy.sparse as sp

from ..core.plane import Planes


class ScaledRisk:
    """`R(factors * u)` as a risk of u, with the protocol of `pybundle.core.protocols.Risk`.

    Parameters
    ----------
    risk : Structured
    factors : ndarray, shape (dim,)
        Positive, at most 1: bounds on rounding errors of the risk hold here, too.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> risk = pb.risks.Structured(pb.models.Multiclass(2, 2), np.eye(2), [0, 1])
    >>> values, slopes = ScaledRisk(risk, np.array([1.0, 0.5, 1.0, 0.5])).evaluate(np.zeros(4))
    >>> values, slopes
    (array([2.]), array([[-1. ,  0.5,  1. , -0.5]]))
    """

    fingerprint = None          # planes of other factors are no planes here

    def __init__(self, risk, factors):
        self._risk, self.factors = risk, factors
        self.dim, self.n_examples, self.smooth, self.nonneg = risk.dim, risk.n_examples, risk.smooth, risk.nonneg
        self.n_parts_given, self.precision = risk.n_parts_given, "float64"

    n_parts = property(lambda self: self._risk.n_parts)
    parts = property(lambda self: self._risk.parts)
    lower_bounds = property(lambda self: self._risk.lower_bounds)
    slope_errors = property(lambda self: self._risk.slope_errors)
    offset_errors = property(lambda self: self._risk.offset_errors)
    _map = property(lambda self: self._risk._map)

    def derive(self, n_parts=None, precision=None, executor=None):
        """The same with other parts, precision or executor."""
        other = copy.copy(self)
        other._risk = self._risk.derive(n_parts, precision, executor)
        return other

    def evaluate(self, u):
        """Values (P,) and subgradients (P, dim) at u."""
        planes = self.planes(u)
        return planes.values, planes.slopes

    def planes(self, u):
        """One plane for each part, tight at u."""
        planes = self._risk.planes(self.factors * u)
        return Planes(planes.values, planes.offsets, scaled_rows(planes.slopes, self.factors))

    def values(self, u):
        """Values (P,), and bounds on their rounding errors."""
        return self._risk.values(self.factors * u)

    def value_errors(self, u, values):
        """Bounds (P,) on the rounding errors of values that `evaluate` gave at u."""
        return self._risk.value_errors(self.factors * u, values)

    def oracle(self):
        """Access to examples in batches."""
        return ScaledOracle(self._risk.oracle(), self.factors)


class ScaledOracle:
    """Batches of an oracle at `factors * u`; what does not depend on the point is the oracle's own."""

    def __init__(self, oracle, factors):
        self._oracle, self._factors = oracle, factors
        self.n_examples, self.dim, self.sizes, self.has_further = (oracle.n_examples, oracle.dim, oracle.sizes,
                                                                   oracle.has_further)
        self.solve_batch, self.best_batch, self.key, self.total = (oracle.solve_batch, oracle.best_batch, oracle.key,
                                                                   oracle.total)

    def prepare(self, u):
        """u for `solve_batch`."""
        return self._oracle.prepare(self._factors * u)

    def update(self, weights, u, indices):
        """`prepare(u)` where u differs from that of `weights` at `indices` only."""
        return self._oracle.update(weights, self._factors * u, indices)

    def planes(self, rows, labellings):
        """Losses (n,) and slopes, csr_array (n, dim), of one labelling for each of the examples `rows`."""
        losses, slopes = self._oracle.planes(rows, labellings)
        return losses, scaled_rows(slopes, self._factors)


def scaled_rows(slopes, factors):
    """The rows times `factors`, dense or CSR; new values, the same indices."""
    if not sp.issparse(slopes):
        return slopes * factors
    rows = copy.copy(slopes)            # a new one would check, and may convert, the indices
    rows.data = slopes.data * factors[slopes.indices]
    return rows
