"""Euclidean projections of vectors onto the simplex and onto balls."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.types import Floats
from ..core.validation import check_number, check_vector
from ._threshold import subtract_threshold
from .groups import Groups, euclidean
from .shrinkage import quotient


def project_simplex(x: ArrayLike, radius: float = 1.0) -> Floats:
    """Return the point of `{z >= 0, sum z = radius}` nearest to x.

    Parameters
    ----------
    x : array_like, shape (d,)
    radius : float >= 0, default 1

    Returns
    -------
    ndarray, shape (d,)
        max(x - tau, 0); its sum is `radius` up to rounding, even if that is tiny relative to x.

    Raises
    ------
    ParameterError, InputTypeError
        If the radius is negative or NaN, or x is empty or not finite.

    Notes
    -----
    Costs O(d) in practice, O(d log d) at worst; Duchi et al. 2008 with the sets of Michelot 1986.

    Examples
    --------
    >>> from pybundle.prox import project_simplex
    >>> project_simplex([0.5, 1.0, -3.0])
    array([0.25, 0.75, 0.  ])
    """
    x, radius = check_vector("x", x), check_number("radius", radius, low=0.0)
    if len(x) == 0:
        raise ParameterError("x must have at least one entry, got shape (0,): the simplex is empty")
    return _on_simplex(x, radius)


def project_l1_ball(x: ArrayLike, radius: float = 1.0, groups: Any = None) -> Floats:
    """Return the point of `{sum_k |z_k| <= radius}` nearest to x; with groups of the ball `{sum_g |z_g| <= radius}`.

    If x is outside, its absolute values or norms of groups are projected onto the simplex (Martins et al. 2011,
    Proposition 1). Parameters and cost are as in `project_simplex`.

    Examples
    --------
    >>> from pybundle.prox import project_l1_ball
    >>> project_l1_ball([0.5, -1.0, 0.0])
    array([ 0.25, -0.75,  0.  ])
    >>> project_l1_ball([3.0, 4.0, 1.0], 2.0, groups=[0, 0, 1])
    array([1.2, 1.6, 0. ])
    """
    x, radius = check_vector("x", x), check_number("radius", radius, low=0.0)
    if groups is not None:
        return project_l21_ball(x, radius, groups)
    sizes = np.abs(x)
    with np.errstate(over="ignore"):
        inside = np.sum(sizes) <= radius
    return x.copy() if inside else np.copysign(_on_simplex(sizes, radius), x) + 0.0


def project_l21_ball(x: ArrayLike, radius: float, groups: Any) -> Floats:
    """Return the point of `{sum_g |z_g| <= radius}` nearest to x, by projecting the norms onto the l1-ball.

    Examples
    --------
    >>> from pybundle.prox import project_l21_ball
    >>> project_l21_ball([3.0, 4.0, 1.0], 2.0, [slice(2), slice(2, 3)])
    array([1.2, 1.6, 0. ])
    """
    x = check_vector("x", x)
    groups = Groups.of(groups, len(x))
    norms = groups.norms(x)
    return groups.scale(x, quotient(project_l1_ball(norms, radius), norms))


def project_l2_ball(x: ArrayLike, radius: float = 1.0) -> Floats:
    """Return the point of `{|z|_2 <= radius}` nearest to x, min(1, radius / |x|) x.

    Examples
    --------
    >>> from pybundle.prox import project_l2_ball
    >>> project_l2_ball([3.0, 4.0])
    array([0.6, 0.8])
    """
    x, radius = check_vector("x", x), check_number("radius", radius, low=0.0)
    norm = euclidean(x)
    return x.copy() if norm <= radius else x * (radius / norm)


def _on_simplex(x, radius):
    out = np.empty(len(x))
    subtract_threshold(x, radius, 0.0, out)
    return out
