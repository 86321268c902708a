"""Penalties of entries or of norms of groups; each class defines a function h of nonnegative numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.types import Floats
from ..core.validation import check_number, check_vector
from .base import Penalty, PlusSquaredL2
from .checks import check_norms, check_rates, match_rates
from .groups import Groups, euclidean
from .groupwise import GroupwisePenalty
from .separable import Separable, check_centre
from .shrinkage import mixed_norm, quotient, shrink_power, shrink_squared_l1, shrink_squared_mixed, soft_threshold


class L1(GroupwisePenalty):
    """`Omega(x) = sum_k rate_k |x_k|`; with groups the group lasso, `sum_g rate_g |x_g|_2`. N = Omega.

    Parameters
    ----------
    rate : float or array_like, shape (d,) or (n_groups,), default 1
        Nonnegative.
    groups : Groups or an argument of `Groups`, optional

    Examples
    --------
    >>> from pybundle.prox import L1
    >>> lasso = L1(groups=[0, 0, 1])
    >>> lasso.value([3.0, 4.0, -1.0])
    6.0
    >>> lasso.prox([3.0, 4.0, -1.0], t=2.0)
    array([1.8, 2.4, 0. ])
    >>> lasso.factors([5.0, 1.0], t=2.0)
    array([0.6, 0. ])
    """

    is_provable = True

    def __init__(self, rate: float | ArrayLike = 1.0, groups: Any = None) -> None:
        super().__init__(groups)
        self.rate: float | Floats = check_rates("rate", rate)

    def _value(self, norms):
        return np.sum(self._rates(norms) * norms)

    def _shrink(self, norms, t):
        return soft_threshold(norms, t * self._rates(norms))

    def _dual_norm(self, norms):
        return np.max(quotient(norms, self._rates(norms)), initial=0.0)

    def _conjugate(self, norms):
        return 0.0 if self._dual_norm(norms) <= 1.0 else np.inf

    def _rates(self, norms):
        return match_rates("rate", self.rate, len(norms))

    _slope = _rates

    @property
    def is_separable(self) -> bool:
        return self.groups is None

    def canonical(self, dim: int) -> Penalty:
        if self.is_separable:
            return Separable(l1=match_rates("rate", self.rate, dim)).canonical(dim)
        return super().canonical(dim)


class L2(L1):
    """`Omega(x) = rate |x|_2`: the group lasso of a single group. N = Omega.

    Examples
    --------
    >>> from pybundle.prox import L2
    >>> L2().prox([3.0, 4.0], t=2.5)
    array([1.5, 2. ])
    """

    is_separable = False

    def __init__(self, rate: float | ArrayLike = 1.0) -> None:
        super().__init__(check_number("rate", rate, low=0.0))

    def shrink(self, norms: ArrayLike, t: float = 1.0) -> Floats:
        return self.prox(check_norms(norms), t)

    def _partition(self, dim):
        return Groups.single(dim)


class ElasticNet(GroupwisePenalty):
    """`Omega(x) = l1 sum_k |x_k| + l2/2 |x|^2`; with groups of their norms. N is the first term.

    0 minimises Omega - <y, .> if and only if dual_norm(y) <= 1.

    Parameters
    ----------
    l1, l2 : float >= 0, default 1
    groups : Groups or an argument of `Groups`, optional

    Examples
    --------
    >>> from pybundle.prox import ElasticNet
    >>> ElasticNet(l1=1.0, l2=0.5).prox([4.0, -0.5])
    array([2., 0.])
    """

    def __init__(self, l1: float = 1.0, l2: float = 1.0, groups: Any = None) -> None:
        super().__init__(groups)
        self.l1: float = check_number("l1", l1, low=0.0)
        self.l2: float = check_number("l2", l2, low=0.0)

    def _value(self, norms):
        return np.sum(norms * (self.l1 + 0.5 * self.l2 * norms))

    def _shrink(self, norms, t):
        return soft_threshold(norms, t * self.l1) / (1.0 + t * self.l2)

    def _slope(self, norms):
        return self.l1 + self.l2 * norms

    def _dual_norm(self, norms):
        return quotient(np.max(norms, initial=0.0), self.l1)

    def _conjugate(self, norms):
        over = soft_threshold(norms, self.l1)
        return 0.5 * np.sum(quotient(over, self.l2) * over)

    @property
    def is_separable(self) -> bool:
        return self.groups is None

    def canonical(self, dim: int) -> Penalty:
        if self.is_separable:
            return Separable(self.l2, self.l1).canonical(dim)
        norms = L1(self.l1, self.groups).canonical(dim)
        return PlusSquaredL2(norms, self.l2) if self.l2 > 0.0 else norms


class _Rated(GroupwisePenalty):
    """Base class of penalties with one positive rate."""

    def __init__(self, rate: float | ArrayLike = 1.0, groups: Any = None) -> None:
        super().__init__(groups)
        self.rate: float = check_number("rate", rate, low=0.0, strict=True)


class SquaredL2(GroupwisePenalty):
    """`Omega(x) = sum_k rate_k/2 (x_k - centre_k)^2`, by default rate/2 |x|^2. N = |x|_2 for one rate and centre 0.

    Parameters
    ----------
    rate : float or array_like, shape (d,), default 1
        Nonnegative; 0 leaves an entry free. With groups an array has one rate for each group.
    groups : Groups or an argument of `Groups`, optional
    centre : float or array_like, shape (d,), optional
        The point without penalty, such as a prior; default 0.

    Examples
    --------
    >>> from pybundle.prox import SquaredL2
    >>> SquaredL2(rate=3.0).prox([4.0, -2.0])
    array([ 1. , -0.5])
    >>> SquaredL2(rate=[0.0, 3.0], centre=1.0).prox([4.0, 5.0])
    array([4., 2.])
    """

    centre: Any
    is_separable = True

    def __init__(self, rate: float | ArrayLike = 1.0, groups: Any = None, centre: ArrayLike | None = None) -> None:
        super().__init__(groups)
        self.rate: float | Floats = check_rates("rate", rate)
        self.centre = None if centre is None else check_centre(centre)

    def value(self, x: ArrayLike) -> float:
        return super().value(self._moved(x))

    def prox(self, x: ArrayLike, t: float = 1.0) -> Floats:
        found = super().prox(self._moved(x), t)
        return found if self.centre is None else found + self.centre

    def conjugate(self, y: ArrayLike) -> float:
        shift = 0.0 if self.centre is None else float(np.sum(check_vector("y", y) * self.centre))
        return super().conjugate(y) + shift

    def dual_norm(self, y: ArrayLike) -> float:
        if self.centre is not None or np.ndim(self.rate):
            raise ParameterError("SquaredL2 has a norm for one rate and without centre only; use conjugate")
        return super().dual_norm(y)

    def subgradient_distance(self, x: ArrayLike, g: ArrayLike) -> float:
        return super().subgradient_distance(self._moved(x), g)

    def canonical(self, dim: int) -> Penalty:
        groups = self._partition(dim)
        rate = match_rates("rate", self.rate, dim if groups is None else groups.n_groups)
        if groups is not None and np.ndim(rate):
            rate = groups.spread(rate)
        centre = 0.0 if self.centre is None else match_rates("centre", self.centre, dim)
        return Separable(rate, centre=centre).canonical(dim)

    def _moved(self, x):
        x = check_vector("x", x)
        return x if self.centre is None else x - match_rates("centre", self.centre, len(x))

    _rates = L1._rates

    def _value(self, norms):
        return 0.5 * np.sum(self._rates(norms) * norms * norms)

    def _shrink(self, norms, t):
        return norms / (1.0 + t * self._rates(norms))

    def _slope(self, norms):
        return self._rates(norms) * norms

    def _dual_norm(self, norms):
        return euclidean(norms)

    def _conjugate(self, norms):
        return 0.5 * np.sum(norms * quotient(norms, self._rates(norms)))


class SquaredL1(_Rated):
    """`Omega(x) = rate/2 (sum_k |x_k|)^2`; with groups the square of the l2,1 norm, as in multiple kernel learning.

    N = sum_k |x_k|. The prox is Algorithm 2 of Martins et al. 2011, see `prox_squared_l1`.

    Examples
    --------
    >>> from pybundle.prox import SquaredL1
    >>> mkl = SquaredL1(groups=[0, 0, 1])
    >>> mkl.prox([3.0, 4.0, -1.0])
    array([1.5, 2. , 0. ])
    >>> mkl.factors([5.0, 1.0])
    array([0.5, 0. ])
    """

    def _value(self, norms):
        total = np.sum(norms)
        return 0.5 * self.rate * total * total

    def _shrink(self, norms, t):
        return shrink_squared_l1(norms, t * self.rate)

    def _slope(self, norms):
        return self.rate * np.sum(norms)

    def _dual_norm(self, norms):
        return np.max(norms, initial=0.0)

    def _conjugate(self, norms):
        largest = np.max(norms, initial=0.0)
        return 0.5 * largest * (largest / self.rate)


class _Power(_Rated):
    """Base class of penalties with a rate and an exponent."""

    def __init__(self, q: float, rate: float = 1.0, groups: Any = None) -> None:
        super().__init__(rate, groups)
        self.q: float = check_number("q", q, low=1.0, strict=True)

    @property
    def _condition(self):
        return 4.0 + 4.0 / (self.q - 1.0)

    def _dual_norm(self, norms):
        return mixed_norm(norms, self.q / (self.q - 1.0))


class Lq(_Power):
    """`Omega(x) = rate sum_k |x_k|^q`, q > 1; with groups of their norms. N = |x|_q.

    For q < 2 the prox of a small number may underflow to 0.

    Parameters
    ----------
    q : float > 1
    rate : float > 0, default 1
    groups : Groups or an argument of `Groups`, optional

    Raises
    ------
    ParameterError, InputTypeError
        If q or rate is no number of its range, or groups are no partition.

    Examples
    --------
    >>> from pybundle.prox import Lq
    >>> Lq(q=3.0).prox([4.0, -14.0, 0.0])
    array([ 1., -2.,  0.])
    """

    def _value(self, norms):
        return self.rate * np.sum(norms**self.q)

    def _shrink(self, norms, t):
        return shrink_power(norms, t * self.rate, self.q)

    def _slope(self, norms):
        return self.rate * self.q * norms ** (self.q - 1.0)

    def _conjugate(self, norms):
        best = (norms / (self.rate * self.q)) ** (1.0 / (self.q - 1.0))
        return (1.0 - 1.0 / self.q) * np.sum(norms * best)


class SquaredLq(_Power):
    """`Omega(x) = rate/2 (sum_k |x_k|^q)^(2/q)`, q > 1; with groups the square of the l2,q norm. N = |x|_q.

    Parameters and errors are those of `Lq`.

    Examples
    --------
    >>> from pybundle.prox import SquaredLq
    >>> SquaredLq(q=2.0).prox([4.0, -2.0])
    array([ 2., -1.])
    """

    def _value(self, norms):
        norm = mixed_norm(norms, self.q)
        return 0.5 * self.rate * norm * norm

    def _shrink(self, norms, t):
        return shrink_squared_mixed(norms, t * self.rate, self.q)

    def _slope(self, norms):
        norm = mixed_norm(norms, self.q)
        return self.rate * norm * quotient(norms, norm) ** (self.q - 1.0)

    def _conjugate(self, norms):
        norm = self._dual_norm(norms)
        return 0.5 * norm * (norm / self.rate)
