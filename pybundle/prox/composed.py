"""Sums of group norms that share features: sparse group lasso, trees of groups, overlapping groups.

    Omega(x) = sum_g rate_g |x_g|_2

The prox applies the prox of one term after another. This is exact if children come first and the groups form a tree:
one of any two groups with a common feature holds the other (Jenatton et al. 2011). Otherwise `OverlappingGroupLasso`
bounds the error. All of these are norms, so N = Omega in the notation of `Penalty`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.rounding import UNIT
from ..core.types import Array, Floats
from ..core.validation import check_integer, check_vector
from .base import Penalty
from .checks import check_rates, check_step, match_rates
from .groups import Groups, OverlappingGroups, euclidean, with_groups_built
from .shrinkage import quotient, soft_threshold


class _Norm(Penalty):
    """Base class of norms: subclasses define `value`, `prox`, `subgradient_distance` and `_least_rate`."""

    def __init__(self, groups: Any) -> None:
        self.groups = groups

    def dual_norm(self, y: ArrayLike) -> float:
        """Return `max <x, y>` over Omega(x) <= 1.

        This is the smallest step t at which the prox of y is 0, found by bisection to the last bit and rounded upwards,
        with about 60 calls of `prox`. With an inexact prox the result is an upper bound, because y is then a sum of
        vectors v_g with |v_g| <= rate_g t.
        """
        y = check_vector("y", y)
        if not y.any():
            return 0.0
        low, high = 0.0, euclidean(y)
        while self.prox(y, high).any():
            low, high = high, 4.0 * high
            if high == np.inf:
                return high         # y is nonzero at a feature without a rate, where x is free
        while low == 0.0 < 0.25 * high:
            if self.prox(y, 0.25 * high).any():
                low = 0.25 * high
            else:
                high *= 0.25
        while low < 0.5 * (low + high) < high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.prox(y, middle).any() else (low, middle)
        return high

    def conjugate(self, y: ArrayLike) -> float:
        return 0.0 if self.dual_norm(y) <= 1.0 else np.inf

    # ------------------------------------------------------------------ for solvers
    def least(self, phi: Array, error: float = 0.0) -> float:
        """Return the bound of `Penalty.least`: 0 if the dual norm is at most 1, errors counted, else -infinity."""
        return 0.0 if self._largest_dual_norm(phi, error) <= 1.0 else -np.inf

    def scaling(self, phi: Array, error: float = 0.0) -> float:
        largest = self._largest_dual_norm(phi, error)
        return 1.0 if largest <= 1.0 else float(1.0 / largest) * (1.0 - 8.0 * UNIT)

    def _largest_dual_norm(self, phi, error):
        """Bound the dual norm of phi + d for all |d| <= error, by Omega(x) >= least_rate |x|."""
        largest = self.dual_norm(phi + 0.0) * (1.0 + (2.0 * len(phi) + 64.0) * UNIT)
        if error > 0.0:
            largest += error / self._least_rate(len(phi))
        return largest

    def _least_rate(self, dim):
        """Return a number c with Omega(x) >= c |x|."""
        raise NotImplementedError


class SparseGroupLasso(_Norm):
    """`Omega(x) = l1 sum_k |x_k| + l2 sum_g |x_g|_2` over a partition; the prox is exact, O(d).

    Parameters
    ----------
    groups : Groups or an argument of `Groups`
    l1 : float or array_like, shape (d,), default 1
        Nonnegative.
    l2 : float or array_like, shape (n_groups,), default 1
        Nonnegative.

    Examples
    --------
    >>> from pybundle.prox import SparseGroupLasso
    >>> SparseGroupLasso([0, 0, 1], l1=1.0, l2=2.5).prox([4.0, -5.0, 3.0])
    array([ 1.5, -2. ,  0. ])
    """

    is_provable = True

    def __init__(self, groups: Any, l1: Any = 1.0, l2: Any = 1.0) -> None:
        super().__init__(groups)
        self.l1: float | Floats = check_rates("l1", l1)
        self.l2: float | Floats = check_rates("l2", l2)

    def value(self, x: ArrayLike) -> float:
        x = check_vector("x", x)
        groups, l1, l2 = self._parts(len(x))
        with np.errstate(over="ignore"):
            return float(np.sum(l1 * np.abs(x)) + np.sum(l2 * groups.norms(x)))

    def prox(self, x: ArrayLike, t: float = 1.0) -> Floats:
        x, t = check_vector("x", x), check_step(t)
        groups, l1, l2 = self._parts(len(x))
        with np.errstate(over="ignore"):
            z = np.copysign(soft_threshold(np.abs(x), t * l1), x) + 0.0
            norms = groups.norms(z)
            return groups.scale(z, quotient(soft_threshold(norms, t * l2), norms))

    def subgradient_distance(self, x: ArrayLike, g: ArrayLike) -> float:
        x = check_vector("x", x)
        g = check_vector("g", g, len(x))
        groups, l1, l2 = self._parts(len(x))
        norms = groups.norms(x)
        l2 = np.broadcast_to(l2, norms.shape)
        rest = g - np.sign(x) * l1 - groups.directions(x, norms) * groups.spread(l2)
        # where x_k = 0, a subgradient takes up to l1 of rest_k; where x_g = 0, it then takes up to l2 of |rest_g|
        rest = np.where(x == 0.0, np.copysign(soft_threshold(np.abs(rest), l1), rest), rest)
        left = groups.norms(rest)
        return euclidean(np.where(norms > 0, left, soft_threshold(left, l2)))

    def canonical(self, dim: int) -> Penalty:
        return with_groups_built(super().canonical(dim), Groups, dim)

    def _least_rate(self, dim):
        groups, l1, l2 = self._parts(dim)
        return np.float64(np.min(l1 + groups.spread(np.broadcast_to(l2, (groups.n_groups,)))))

    def _parts(self, dim):
        """Return groups and rates for vectors of `dim` entries."""
        groups = Groups.of(self.groups, dim)
        return groups, match_rates("l1", self.l1, dim), match_rates("l2", self.l2, groups.n_groups)


class OverlappingGroupLasso(_Norm):
    """`Omega(x) = sum_g rate_g |x_g|_2` over groups that may overlap.

    Parameters
    ----------
    groups : OverlappingGroups or an argument of `OverlappingGroups`
        Build an `OverlappingGroups` once if the penalty is used often.
    rate : float or array_like, shape (n_groups,), default 1
        Nonnegative, in the order of the groups as given.
    sweeps : int, default 1
        Sweeps over the groups in a prox. One sweep applies the prox of one group after another, smaller groups first;
        more are block coordinate ascent in the dual, which converges to the exact prox.

    Notes
    -----
    **Inexactness.** The z computed has v with `z = x - sum_g v_g` and |v_g| <= t rate_g, so its error is

        |z - prox(x)|^2 <= 2 gap,    gap = sum_g (t rate_g |z_g| - <v_g, z_g>) >= 0,

    and `prox_with_gap` returns the gap. It is 0 up to rounding if the groups form a tree. Every sweep costs
    O(sum of sizes). `dual_norm` and `subgradient_distance` are upper bounds if the prox is inexact.

    Examples
    --------
    >>> from pybundle.prox import OverlappingGroupLasso
    >>> chain = OverlappingGroupLasso([[0, 1], [1, 2]])
    >>> z, gap = chain.prox_with_gap([3.0, 4.0, 3.0])
    >>> z.round(3), round(gap, 3)
    (array([2.4  , 2.47 , 2.316]), 0.028)
    >>> penalty = OverlappingGroupLasso([[0, 1], [1, 2]], sweeps=20)
    >>> penalty.prox_with_gap([3.0, 4.0, 3.0])[1] < 1e-12
    True
    """

    def __init__(self, groups: Any, rate: float | ArrayLike = 1.0, sweeps: int = 1) -> None:
        super().__init__(groups)
        self.rate: float | Floats = check_rates("rate", rate)
        self.sweeps: int = check_integer("sweeps", sweeps, low=1)

    def value(self, x: ArrayLike) -> float:
        x = check_vector("x", x)
        groups, rates = self._parts(len(x))
        with np.errstate(over="ignore"):
            return float(np.sum(rates * groups.norms(x)))

    def prox(self, x: ArrayLike, t: float = 1.0) -> Floats:
        return self._solve(x, t)[0]

    def has_exact_prox(self, dim: int) -> bool:
        """Return whether the groups form a tree, or there are several sweeps, whose number is the user's choice."""
        return self.sweeps > 1 or OverlappingGroups.of(self.groups, dim).is_tree

    def prox_with_gap(self, x: ArrayLike, t: float = 1.0) -> tuple[Floats, float]:
        """Return the prox, shape (d,), and its duality gap, half the square of the largest error possible."""
        z, v, radii, groups = self._solve(x, t)
        aligned = np.add.reduceat(v * z[groups.indices], groups.offsets[:-1])
        return z, max(float(np.sum(radii * groups.norms(z) - aligned)), 0.0)

    def subgradient_distance(self, x: ArrayLike, g: ArrayLike) -> float:
        x = check_vector("x", x)
        g = check_vector("g", g, len(x))
        groups, rates = self._parts(len(x))
        norms = groups.norms(x)
        sizes = np.diff(groups.offsets)
        directions = quotient(x[groups.indices], np.repeat(norms, sizes))
        rest = g - groups.add(directions * np.repeat(rates, sizes))
        # where x_g is 0, every vector of length <= rate_g is a subgradient: `shrink` subtracts the nearest such vectors
        return euclidean(groups.shrink(rest, np.where(norms > 0, 0.0, rates), self.sweeps)[0])

    def _solve(self, x, t):
        x, t = check_vector("x", x), check_step(t)
        groups, rates = self._parts(len(x))
        with np.errstate(over="ignore"):
            radii = t * rates
        return *groups.shrink(x, radii, self.sweeps), radii, groups

    def canonical(self, dim: int) -> Penalty:
        return with_groups_built(super().canonical(dim), OverlappingGroups, dim)

    def _least_rate(self, dim):
        groups, rates = self._parts(dim)
        most = np.zeros(dim)        # the largest rate of the groups of each feature
        np.maximum.at(most, groups.indices, np.repeat(rates, np.diff(groups.offsets)))
        return most.min()

    def _parts(self, dim):
        """Return groups, from the smallest to the largest, and their rates, for vectors of `dim` entries."""
        groups = OverlappingGroups.of(self.groups, dim)
        rates = match_rates("rate", self.rate, groups.n_groups)
        return groups, rates[groups.order] if np.ndim(rates) else np.full(groups.n_groups, rates)


class TreeGroupLasso(OverlappingGroupLasso):
    """`OverlappingGroupLasso` of groups that form a tree: of two groups with a common feature, one holds the other.

    One sweep is the exact prox (Jenatton et al. 2011, Theorem of section 3). Other groups raise ParameterError.

    Examples
    --------
    >>> from pybundle.prox import TreeGroupLasso
    >>> TreeGroupLasso([[0], [1], [0, 1]], rate=[1.0, 1.0, 2.5]).prox([4.0, -5.0])
    array([ 1.5, -2. ])
    """

    def __init__(self, groups: Any, rate: float | ArrayLike = 1.0) -> None:
        super().__init__(groups, rate)

    def _parts(self, dim):
        groups, rates = super()._parts(dim)
        groups.check_tree()
        return groups, rates
