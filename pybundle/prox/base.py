"""The contract of a regulariser, and regularisers R(x) = phi(|x_1|, ..., |x_p|) of entries or of norms of groups.

    prox_R(x)_k = prox_phi(|x_1|, ..., |x_p|)_k  x_k / |x_k|                 (Martins et al. 2011, Proposition 1)

So such a regulariser is a function phi of p nonnegative numbers, and everything about groups is said here, once. The
dual norm and the conjugate lift in the same way. And g is a subgradient at x where g_k is the partial derivative of phi
along x_k / |x_k| for every x_k != 0, and every other |g_k| at most the derivative to the right at 0.
"""

from __future__ import annotations

import numpy as np

from ..core.validation import check_vector
from .checks import check_norms, check_step
from .groups import Groups, euclidean
from .shrinkage import quotient, soft_threshold


class Regulariser:
    """What every regulariser offers. N is the norm that its class names; R(0) = 0 <= R(x) = R(-x)."""

    def value(self, x):
        """R(x); infinite where it is beyond the range of float64."""
        raise NotImplementedError

    def prox(self, x, t=1.0):
        """`argmin_z 1/2 |z - x|^2 + t R(z)`, shape (d,).

        Parameters
        ----------
        x : array_like, shape (d,)
        t : float >= 0
            Step; a rate of the regulariser itself multiplies it.
        """
        raise NotImplementedError

    def dual_norm(self, y):
        """`max <x, y>` over N(x) <= 1, so that <x, y> <= N(x) dual_norm(y)."""
        raise NotImplementedError

    def conjugate(self, y):
        """`R*(y) = max_x <x, y> - R(x)`: for every x, R(x) >= <x, y> - conjugate(y).

        Where R is a norm this is 0 for dual_norm(y) <= 1 and infinite else, by the last bit: there divide y by its dual
        norm first.
        """
        raise NotImplementedError

    def subgradient_distance(self, x, g):
        """Euclidean distance from g to the subdifferential of R at x; 0 for `g = (v - x) / t`, x = prox(v, t).

        A minimiser of L + R has distance 0 from -L'(x).
        """
        raise NotImplementedError


class GroupwiseRegulariser(Regulariser):
    """Base of the functions phi of sizes; a subclass gives `_value`, `_shrink`, `_slope`, `_dual_norm`, `_conjugate`.

    Parameters
    ----------
    groups : Groups, or what `Groups` takes, optional
        Build `Groups` once where the regulariser is used often. Without, every entry is a group.
    """

    def __init__(self, groups=None):
        self.groups = groups

    def value(self, x):
        x = check_vector("x", x)
        with np.errstate(over="ignore"):
            return float(self._value(self._norms(x, self._partition(len(x)))))

    def prox(self, x, t=1.0):
        x, t = check_vector("x", x), check_step(t)
        groups = self._partition(len(x))
        norms = self._norms(x, groups)
        shrunk = self._checked_shrink(norms, t)
        if groups is None:
            return np.copysign(shrunk, x) + 0.0     # no negative zeros
        return groups.scale(x, quotient(shrunk, norms))

    def shrink(self, norms, t=1.0):
        """The prox of phi: what the norms of the groups become, shape (p,), without a look at the features.

        Parameters
        ----------
        norms : array_like, shape (p,)
            Nonnegative.
        t : float >= 0
        """
        return self._checked_shrink(check_norms(norms), check_step(t))

    def factors(self, norms, t=1.0):
        """What the prox multiplies every group by, in [0, 1], shape (p,); 0 for a group of norm 0.

        O(p), with a sort's O(p log p) in the worst case, however many features there are: with `theta = s v` held as
        scales and vectors (lazy updates), only s changes.
        """
        norms = check_norms(norms)
        return quotient(self.shrink(norms, t), norms)

    def dual_norm(self, y):
        y = check_vector("y", y)
        with np.errstate(over="ignore"):
            return float(self._dual_norm(self._norms(y, self._partition(len(y)))))

    def conjugate(self, y):
        y = check_vector("y", y)
        with np.errstate(over="ignore"):
            return float(self._conjugate(self._norms(y, self._partition(len(y)))))

    def subgradient_distance(self, x, g):
        x = check_vector("x", x)
        g = check_vector("g", g, len(x))
        groups = self._partition(len(x))
        norms = self._norms(x, groups)
        with np.errstate(over="ignore"):
            slope = np.broadcast_to(self._slope(norms), norms.shape)
        gradient = np.sign(x) * slope if groups is None else groups.directions(x, norms) * groups.spread(slope)
        distances = self._norms(g - gradient, groups)       # where x_g is 0, so is its part of the gradient
        return euclidean(np.where(norms > 0, distances, soft_threshold(distances, slope)))

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
        """phi."""
        raise NotImplementedError

    def _shrink(self, norms, t):
        """prox of t phi, t > 0."""
        raise NotImplementedError

    def _slope(self, norms):
        """Partial derivatives of phi, at 0 those to the right."""
        raise NotImplementedError

    def _dual_norm(self, norms):
        raise NotImplementedError

    def _conjugate(self, norms):
        """phi* on nonnegative numbers."""
        raise NotImplementedError
