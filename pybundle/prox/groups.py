"""Groups of features for penalties, from slices, index arrays or labels: a partition, or groups that may overlap."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import NumericalError, ParameterError
from ..core.types import Array, Floats
from ..core.validation import check_count, check_shape
from ._groups import first_crossing, group_norms, group_scale, shrink_in_turn
from .membership import check_covered, members, offsets_of
from .shrinkage import quotient


class _Groups:
    """Base class of partitions and overlapping groups."""

    offsets: np.ndarray
    dim: int

    @classmethod
    def of(cls, groups: Any, dim: int) -> Self:
        """Return `groups` for vectors of `dim` entries, and build an instance of this class if needed."""
        if not isinstance(groups, cls):
            return cls(groups, dim)     # type: ignore[call-arg]
        if groups.dim != dim:
            raise ParameterError(f"groups have {groups.dim} features, but x has {dim}; build them with dim={dim}")
        return groups

    @property
    def n_groups(self) -> int:
        """Number of groups p."""
        return len(self.offsets) - 1


class Groups(_Groups):
    """A partition of the features 0..dim - 1 into groups 0..n_groups - 1.

    All three forms of a partition lead to the same arrays, and so to results with the same bits.

    Parameters
    ----------
    groups : int array, shape (dim,), or list of slices or of int arrays
        The label 0..n_groups - 1 of each feature, with every label used; or the features of each group, as any
        mixture of slices and arrays. Every feature is in exactly one group, and no group is empty.
    dim : int, optional
        Number of features; not needed with labels.

    Attributes
    ----------
    n_groups, dim : int
    offsets : ndarray of intp, shape (n_groups + 1,)
    order : ndarray of intp, shape (dim,), or None
        `order[offsets[g]:offsets[g + 1]]` are the features of group g, ascending; None if the features are in the
        order of the groups.

    Raises
    ------
    ParameterError, InputTypeError
        If groups overlap, miss a feature, are empty or contain a feature that does not exist.
    NumericalError
        From `norms`, if a norm overflows although x is finite.

    Notes
    -----
    Building costs O(dim) plus some microseconds for each slice or array; norms and scaling cost O(dim).

    Examples
    --------
    >>> from pybundle.prox import Groups
    >>> groups = Groups([0, 0, 1, 1])
    >>> groups.norms([3.0, 4.0, 0.0, -2.0])
    array([5., 2.])
    >>> groups.scale([3.0, 4.0, 0.0, -2.0], [2.0, 0.5])
    array([ 6.,  8.,  0., -1.])
    >>> Groups([slice(2), slice(2, 4)], dim=4).n_groups
    2
    """

    offsets: Array
    dim: int
    order: Array

    def __init__(self, groups: Any, dim: int | None = None) -> None:
        indices, sizes, dim = members(groups, dim)
        group_of = np.repeat(np.arange(len(sizes)), sizes)
        counts = np.bincount(indices, minlength=dim)
        if (counts > 1).any():
            feature = int(np.argmax(counts > 1))
            first, second = group_of[indices == feature][:2]
            place = f"twice in group {first}" if first == second else f"in the groups {first} and {second}"
            raise ParameterError(f"groups must not overlap, but feature {feature} is {place}; for groups that overlap "
                                 "use OverlappingGroups")
        check_covered(counts)
        labels = np.empty(dim, dtype=np.intp)
        labels[indices] = group_of
        self._set(labels, sizes)

    def _set(self, labels, sizes):
        self.offsets, self.dim = offsets_of(sizes), len(labels)
        self.order = None if (labels[1:] >= labels[:-1]).all() else np.argsort(labels, kind="stable")

    @classmethod
    def single(cls, dim: int) -> Groups:
        """Return all features as one group."""
        dim, groups = check_count("dim", dim, low=0), object.__new__(cls)
        groups._set(np.zeros(dim, dtype=np.intp), [dim])
        return groups

    def norms(self, x: ArrayLike) -> Floats:
        """Return Euclidean norms |x_g|, shape (n_groups,), without intermediate overflow or underflow."""
        x = check_shape("x", x, (self.dim,))
        return checked_norms(x if self.order is None else x[self.order], self.offsets)

    def scale(self, x: ArrayLike, factors: ArrayLike) -> Floats:
        """Return `x_g factors[g]` for every group, shape (dim,)."""
        x, factors = check_shape("x", x, (self.dim,)), check_shape("factors", factors, (self.n_groups,))
        out = np.empty(self.dim)
        if self.order is None:
            group_scale(x, self.offsets, factors, out)
        else:
            scaled = x[self.order]
            group_scale(scaled, self.offsets, factors, scaled)
            out[self.order] = scaled
        return out

    def directions(self, x: ArrayLike, norms: ArrayLike) -> Floats:
        """Return `x_g / norms[g]` for every group, 0 where x is 0."""
        return quotient(check_shape("x", x, (self.dim,)), self.spread(norms))

    def spread(self, values: ArrayLike) -> Floats:
        """Return for every feature the value of its group, shape (dim,)."""
        spread = np.repeat(check_shape("values", values, (self.n_groups,)), np.diff(self.offsets))
        if self.order is not None:
            spread[self.order] = spread.copy()
        return spread


class OverlappingGroups(_Groups):
    """Groups of the features 0..dim - 1 that may overlap and together hold every feature.

    Parameters
    ----------
    groups : list of slices or of int arrays, or int array of labels, shape (dim,)
        As in `Groups`.
    dim : int, optional
        Number of features; not needed with labels.

    Attributes
    ----------
    n_groups, dim : int
    is_tree : bool
        Whether the groups form a tree (or a forest), so that one group prox after another is the exact prox.
    indices, offsets : ndarray of intp
        Features of the groups, one group after another, from the smallest to the largest: children before parents.
    order : ndarray of intp, shape (n_groups,)
        Number of each of these groups in the given list.

    Examples
    --------
    >>> from pybundle.prox import OverlappingGroups
    >>> OverlappingGroups([[0], [0, 1], [2], [0, 1, 2]], dim=3).is_tree
    True
    >>> OverlappingGroups([[0, 1], [1, 2]], dim=3).is_tree
    False
    """

    def __init__(self, groups: Any, dim: int | None = None) -> None:
        indices, sizes, dim = members(groups, dim)
        self.dim: int = dim
        check_covered(np.bincount(indices, minlength=self.dim))
        offsets = offsets_of(sizes)
        self.order: Array = np.argsort(sizes, kind="stable")
        parts = [np.sort(indices[offsets[g]:offsets[g + 1]]) for g in self.order]
        for g, part in zip(self.order, parts, strict=True):
            twice = part[1:] == part[:-1]
            if twice.any():
                raise ParameterError(f"groups must hold a feature once, but feature {part[np.argmax(twice)]} is twice "
                                     f"in group {g}; pass np.unique(groups[{g}])")
        self.indices: Array = np.concatenate(parts)
        self.offsets: Array = offsets_of(sizes[self.order])
        self._crossing = first_crossing(self.indices, self.offsets, self.dim)

    @property
    def is_tree(self) -> bool:
        """Whether one of any two groups with a common feature holds the other."""
        return self._crossing == (-1, -1)

    def check_tree(self) -> None:
        """Raise an error with the numbers of two groups if the groups are no tree."""
        if not self.is_tree:
            first, second = sorted(int(self.order[g]) for g in self._crossing)
            raise ParameterError(f"groups must form a tree, but the groups {first} and {second} overlap and neither "
                                 "holds the other; use OverlappingGroupLasso for groups that overlap")

    def norms(self, x: Array) -> Floats:
        """Return Euclidean norms |x_g| in the order of `offsets`, shape (n_groups,)."""
        return checked_norms(x[self.indices], self.offsets)

    def add(self, v: ArrayLike) -> Floats:
        """Return the sum of the vectors v_g of all groups, given in the order of `indices`; shape (dim,)."""
        return np.bincount(self.indices, v, self.dim).astype(np.float64, copy=False)

    def shrink(self, x: ArrayLike, radii: Any, sweeps: int = 1) -> tuple[Floats, Floats]:
        """Apply one group prox after another in `sweeps` sweeps; return the result z, and v of shape (len(indices),).

        `z = x - add(v)` with `|v_g| <= radii[g]` holds for any groups and any number of sweeps.
        """
        z, radii = np.array(check_shape("x", x, (self.dim,))), check_shape("radii", radii, (self.n_groups,))
        v = np.zeros(len(self.indices))
        for _ in range(sweeps):
            shrink_in_turn(z, self.indices, self.offsets, radii, v)
        return z, v


def euclidean(x):
    """Return |x|_2 without intermediate overflow or underflow."""
    return float(checked_norms(x, np.array([0, len(x)], dtype=np.intp))[0])


def checked_norms(x, offsets):
    """Return the norms of consecutive pieces of x; raise NumericalError if one overflows."""
    norms = np.zeros(len(offsets) - 1)
    if len(x):
        group_norms(x, offsets, norms)
    if not np.isfinite(norms).all():
        g = int(np.argmin(np.isfinite(norms)))
        raise NumericalError(f"x must be finite and so must the norm of each group, got {norms[g]} for group {g}; "
                             "scale x down")
    return norms


def with_groups_built(penalty: Any, kind: type[_Groups], dim: int) -> Any:
    """Return a copy of a penalty with its groups built, since a run calls its prox often; itself without groups."""
    if penalty.groups is None:
        return penalty
    penalty = copy(penalty)
    penalty.groups = kind.of(penalty.groups, dim)
    return penalty
