"""Proximity operators `argmin_z 1/2 |z - x|^2 + t Omega(z)` as functions, which call the penalties.

With `groups`, Omega is a function of the norms of groups instead of the absolute values of entries: `prox_l1` is then
the prox of the group lasso, `prox_squared_l1` that of the squared l2,1 norm.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from ..core.types import Floats
from .composed import OverlappingGroupLasso, SparseGroupLasso, TreeGroupLasso
from .penalties import L1, L2, ElasticNet, Lq, SquaredL1, SquaredL2, SquaredLq


def prox_l1(x: ArrayLike, t: float, groups: Any = None) -> Floats:
    """Return the prox of `t sum_k |x_k|`, sign(x) max(|x| - t, 0).

    With groups it is the prox of `t sum_g |x_g|`, x_g max(0, 1 - t / |x_g|).

    Parameters
    ----------
    x : array_like, shape (d,)
    t : float >= 0
        For a value for each entry or group use `L1(rate=...)`.
    groups : Groups or an argument of `Groups`, optional

    Returns
    -------
    ndarray, shape (d,)

    Raises
    ------
    ParameterError, InputTypeError
        If the step is negative or NaN, x is not finite, or groups are no partition.

    Examples
    --------
    >>> from pybundle.prox import prox_l1
    >>> prox_l1([3.0, -0.5, 0.0], 1.0)
    array([2., 0., 0.])
    >>> prox_l1([3.0, 4.0, 1.0], 2.0, groups=[slice(0, 2), slice(2, 3)])
    array([1.8, 2.4, 0. ])
    """
    return L1(groups=groups).prox(x, t)


def prox_l2(x: ArrayLike, t: float) -> Floats:
    """Return the prox of `t |x|_2`, x max(0, 1 - t / |x|). Parameters as in `prox_l1`.

    Examples
    --------
    >>> from pybundle.prox import prox_l2
    >>> prox_l2([3.0, 4.0], 2.5)
    array([1.5, 2. ])
    """
    return L2().prox(x, t)


def prox_squared_l2(x: ArrayLike, t: float) -> Floats:
    """Return the prox of `t/2 |x|_2^2`, x / (1 + t). Parameters as in `prox_l1`.

    Examples
    --------
    >>> from pybundle.prox import prox_squared_l2
    >>> prox_squared_l2([3.0, -4.0], 1.0)
    array([ 1.5, -2. ])
    """
    return SquaredL2().prox(x, t)


def prox_elastic_net(x: ArrayLike, l1: float, l2: float, groups: Any = None) -> Floats:
    """Return the prox of `l1 sum_k |x_k| + l2/2 |x|^2`: soft thresholding by l1, then division by 1 + l2.

    Parameters
    ----------
    x : array_like, shape (d,)
    l1, l2 : float >= 0
        Step times rate of the two terms.
    groups : Groups or an argument of `Groups`, optional

    Examples
    --------
    >>> from pybundle.prox import prox_elastic_net
    >>> prox_elastic_net([3.0, -0.5], 1.0, 1.0)
    array([1., 0.])
    """
    return ElasticNet(l1, l2, groups).prox(x)


def prox_squared_l1(x: ArrayLike, t: float, groups: Any = None) -> Floats:
    """Return the prox of `t/2 (sum_k |x_k|)^2`, with groups of `t/2 (sum_g |x_g|)^2`.

    It is sign(x) max(|x| - tau, 0), where tau is t times the sum of the absolute values of the result [Martins et al.
    2011, Algorithm 2].

    Parameters
    ----------
    x, t, groups
        As in `prox_l1`.

    Notes
    -----
    The paper sorts, O(p log p). Here Newton's method increases to tau and drops the numbers below its iterates, O(p) in
    practice; it sorts only after 48 rounds. The result keeps its relative accuracy as t grows, although |x| - tau would
    cancel.

    Examples
    --------
    >>> from pybundle.prox import prox_squared_l1
    >>> prox_squared_l1([3.0, -2.0, 0.5], 1.0)
    array([ 1.33333333, -0.33333333,  0.        ])
    """
    return SquaredL1(groups=groups).prox(x, t)


def prox_lq(x: ArrayLike, t: float, q: float, groups: Any = None) -> Floats:
    """Return the prox of `t sum_k |x_k|^q`, q > 1; with groups of `t sum_g |x_g|^q`.

    The absolute value or norm b in the result solves b + t q b^(q-1) = a, where a is that in x. Newton's method needs
    about five steps for each.

    Parameters
    ----------
    x, t, groups
        As in `prox_l1`.
    q : float > 1

    Examples
    --------
    >>> from pybundle.prox import prox_lq
    >>> prox_lq([4.0, -14.0], 1.0, q=3.0)
    array([ 1., -2.])
    """
    return Lq(q, groups=groups).prox(x, t)


def prox_squared_lq(x: ArrayLike, t: float, q: float, groups: Any = None) -> Floats:
    """Return the prox of `t/2 (sum_k |x_k|^q)^(2/q)`, q > 1; with groups of the squared l2,q norm.

    The absolute values b of the result solve b_k + t B^(2-q) b_k^(q-1) = |x_k|, B = |b|_q. Newton's method in log B,
    with that of `prox_lq` inside, needs about five passes over them.

    Parameters
    ----------
    x, t, groups
        As in `prox_l1`.
    q : float > 1

    Examples
    --------
    >>> from pybundle.prox import prox_squared_lq
    >>> prox_squared_lq([4.0, -2.0], 1.0, q=2.0)
    array([ 2., -1.])
    """
    return SquaredLq(q, groups=groups).prox(x, t)


def prox_sparse_group(x: ArrayLike, l1: float, l2: float, groups: Any) -> Floats:
    """Return the exact prox of `l1 sum_k |x_k| + l2 sum_g |x_g|`: soft thresholding, then the prox of the groups.

    Parameters
    ----------
    x : array_like, shape (d,)
    l1, l2 : float >= 0
        Step times rate; also arrays of shape (d,) and (n_groups,).
    groups : Groups or an argument of `Groups`

    Examples
    --------
    >>> from pybundle.prox import prox_sparse_group
    >>> prox_sparse_group([4.0, -5.0, 3.0], 1.0, 2.5, [0, 0, 1])
    array([ 1.5, -2. ,  0. ])
    """
    return SparseGroupLasso(groups, l1, l2).prox(x)


def prox_tree(x: ArrayLike, t: float, groups: Any) -> Floats:
    """Return the exact prox of `t sum_g |x_g|` over groups that form a tree: one group after another, children first.

    The step for a group is x_g <- x_g max(0, 1 - t / |x_g|). It is exact by Jenatton et al. (2011), section 3; the cost
    is the sum of the sizes of the groups.

    Parameters
    ----------
    x : array_like, shape (d,)
    t : float >= 0
        For a value for each group use `TreeGroupLasso(groups, rate)`.
    groups : OverlappingGroups or an argument of `OverlappingGroups`
        Of two groups with a common feature one holds the other; they may come in any order.

    Returns
    -------
    ndarray, shape (d,)

    Raises
    ------
    ParameterError, InputTypeError
        If t is negative, x is not finite, or the groups form no tree.

    Examples
    --------
    >>> from pybundle.prox import prox_tree
    >>> prox_tree([4.0, -5.0], 1.0, [[0], [0, 1]])
    array([ 2.48550424, -4.14250707])
    """
    return TreeGroupLasso(groups).prox(x, t)


def prox_overlapping(x: ArrayLike, t: float, groups: Any, sweeps: int = 1) -> Floats:
    """Return an inexact prox of `t sum_g |x_g|` over groups that may overlap: one group after another, `sweeps` times.

    `OverlappingGroupLasso.prox_with_gap` bounds the error.

    Parameters
    ----------
    x, t, groups
        As in `prox_tree`.
    sweeps : int >= 1

    Examples
    --------
    >>> from pybundle.prox import prox_overlapping
    >>> prox_overlapping([3.0, 4.0, 3.0], 1.0, [[0, 1], [1, 2]]).round(3)
    array([2.4  , 2.47 , 2.316])
    """
    return OverlappingGroupLasso(groups, sweeps=sweeps).prox(x, t)
