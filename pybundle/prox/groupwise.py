"""Base class of functions Omega(x) = h(|x_1|, ..., |x_p|) of absolute values or of norms of groups.

    prox_Omega(x)_k = prox_h(|x_1|, ..., |x_p|)_k  x_k / |x_k|                 (Martins et al. 2011, Proposition 1)

So a subclass only defines a function h of p nonnegative numbers, and all code for groups is here. The dual norm and
the conjugate of Omega are those of h at the norms of groups. A vector g is a subgradient at x if g_k is the partial
derivative of h times x_k / |x_k| for every x_k != 0, and every other |g_k| is at most the right derivative at 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.rounding import UNIT
from ..core.types import Array, Floats
from ..core.validation import check_vector
from .base import Penalty
from .checks import check_norms, check_step
from .groups import Groups, euclidean, with_groups_built
from .shrinkage import quotient, soft_threshold


class GroupwisePenalty(Penalty):
    """Base class of functions h of absolute values or norms of groups.

    A subclass implements `_value`, `_shrink`, `_slope`, `_dual_norm` and `_conjugate`.

    Parameters
    ----------
    groups : Groups or an argument of `Groups`, optional
        By default every entry is a group. Build a `Groups` once if the penalty is used often.
    """

    def __init__(self, groups: Any = None) -> None:
        self.groups = groups

    def value(self, x: ArrayLike) -> float:
        x = check_vector("x", x)
        with np.errstate(over="ignore"):
            return float(self._value(self._norms(x, self._partition(len(x)))))

    def prox(self, x: ArrayLike, t: float = 1.0) -> Floats:
        x, t = check_vector("x", x), check_step(t)
        groups = self._partition(len(x))
        norms = self._norms(x, groups)
        shrunk = self._checked_shrink(norms, t)
        if groups is None:
            return np.copysign(shrunk, x) + 0.0     # no negative zeros
        return groups.scale(x, quotient(shrunk, norms))

    def shrink(self, norms: ArrayLike, t: float = 1.0) -> Floats:
        """Return the prox of h, which is the norms of the groups after a prox, shape (p,).

        Parameters
        ----------
        norms : array_like, shape (p,)
            Nonnegative.
        t : float >= 0
        """
        return self._checked_shrink(check_norms(norms), check_step(t))

    def factors(self, norms: ArrayLike, t: float = 1.0) -> Floats:
        """Return the factors by which the prox multiplies the groups, in [0, 1], shape (p,); 0 for a group of norm 0.

        Costs O(p), in the worst case O(p log p) for a sort, however many features there are. If theta is stored as
        scales and vectors, `theta = s v` (lazy updates), only s changes.
        """
        norms = check_norms(norms)
        return quotient(self.shrink(norms, t), norms)

    def dual_norm(self, y: ArrayLike) -> float:
        y = check_vector("y", y)
        with np.errstate(over="ignore"):
            return float(self._dual_norm(self._norms(y, self._partition(len(y)))))

    def conjugate(self, y: ArrayLike) -> float:
        y = check_vector("y", y)
        with np.errstate(over="ignore"):
            return float(self._conjugate(self._norms(y, self._partition(len(y)))))

    def subgradient_distance(self, x: ArrayLike, g: ArrayLike) -> float:
        x = check_vector("x", x)
        g = check_vector("g", g, len(x))
        groups = self._partition(len(x))
        norms = self._norms(x, groups)
        with np.errstate(over="ignore"):
            slope = np.broadcast_to(self._slope(norms), norms.shape)
        gradient = np.sign(x) * slope if groups is None else groups.directions(x, norms) * groups.spread(slope)
        distances = self._norms(g - gradient, groups)       # where x_g is 0, gradient_g is 0, too
        return euclidean(np.where(norms > 0, distances, soft_threshold(distances, slope)))

    # ------------------------------------------------------------------ for solvers
    def canonical(self, dim: int) -> Penalty:
        return with_groups_built(super().canonical(dim), Groups, dim)

    def least(self, phi: Array, error: float = 0.0) -> float:
        """Bound as `Penalty.least` does: h* increases with the norms of groups, each by at most the error."""
        found = float(self._conjugate(self._largest_norms(phi, error)))
        return -found * (1.0 + (len(phi) + 16.0) * self._condition * UNIT)

    def scaling(self, phi: Array, error: float = 0.0) -> float:
        norms = self._largest_norms(phi, error)
        with np.errstate(over="ignore"):
            if self._conjugate(norms) < np.inf:
                return 1.0
            return float(1.0 / self._dual_norm(norms)) * (1.0 - (len(phi) + 16.0) * UNIT)

    _condition = 1.0
    """The relative error of h* is at most this number times the relative error of the norms."""

    def _largest_norms(self, phi, error):
        """Bound the norms of the groups of phi + d for all |d| <= error."""
        norms = self._norms(phi, self._partition(len(phi)))
        return norms * (1.0 + (len(phi) + 8.0) * UNIT) + error

    def _partition(self, dim):
        return None if self.groups is None else Groups.of(self.groups, dim)

    @staticmethod
    def _norms(x, groups):
        return np.abs(x) if groups is None else groups.norms(x)

    def _checked_shrink(self, norms, t):
        if t == 0.0 or len(norms) == 0:
            return norms.copy()
        with np.errstate(over="ignore"):
            return self._shrink(norms, t)

    def _value(self, norms):
        """Return h(norms)."""
        raise NotImplementedError

    def _shrink(self, norms, t):
        """Return the prox of t h, t > 0."""
        raise NotImplementedError

    def _slope(self, norms):
        """Return the partial derivatives of h, at 0 the right derivatives."""
        raise NotImplementedError

    def _dual_norm(self, norms):
        raise NotImplementedError

    def _conjugate(self, norms):
        """Return h* on nonnegative numbers."""
        raise NotImplementedError
