"""Convert labels, slices and index arrays into one list of the features of all groups."""

import numbers
from collections.abc import Iterable

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError
from ..core.validation import check_count, integer_array


def members(groups, dim):
    """Return the features of all groups one after another, the sizes of the groups, and the number of features."""
    if dim is not None:
        dim = check_count("dim", dim)
    if isinstance(groups, (str, bytes)) or not isinstance(groups, Iterable):
        raise InputTypeError(f"groups must be a vector of labels or a list of slices or index arrays, got "
                             f"{type(groups).__name__}")
    groups = groups if isinstance(groups, np.ndarray) else list(groups)
    if len(groups) == 0:
        raise ParameterError("groups must hold at least one group, got none; [slice(None)] holds all features")
    is_array = isinstance(groups, np.ndarray)
    if groups.ndim == 1 if is_array else all(isinstance(group, numbers.Real) for group in groups):
        return _from_labels(integer_array("groups", groups), dim)
    if dim is None:
        raise ParameterError("dim must be the number of features if groups are slices or index arrays, got None")
    parts = [_features(g, group, dim) for g, group in enumerate(groups)]
    sizes = np.array([len(part) for part in parts])
    if not sizes.all():
        raise ParameterError(f"groups[{int(np.argmin(sizes))}] must hold at least one feature, got none; leave it out")
    indices = np.concatenate(parts)
    beyond = np.flatnonzero((indices < 0) | (indices >= dim))
    if len(beyond):
        g = int(np.searchsorted(np.cumsum(sizes), beyond[0], side="right"))
        raise ParameterError(f"groups[{g}] must hold features 0..{dim - 1}, got {indices[beyond[0]]}")
    if len(indices) < dim:              # checked here before arrays of length dim are allocated
        known = np.unique(indices)
        gaps = np.flatnonzero(known != np.arange(len(known)))
        raise _uncovered(dim, dim - len(known), gaps[0] if len(gaps) else len(known))
    return indices.astype(np.intp, copy=False), sizes, dim


def _from_labels(labels, dim):
    if dim is not None and len(labels) != dim:
        raise ParameterError(f"groups must hold one label for each of the {dim} features, got {len(labels)}")
    if labels.min() < 0 or labels.max() >= len(labels):
        bad = labels[(labels < 0) | (labels >= len(labels))][0]
        raise ParameterError(f"groups must be labels 0..p-1, every one used, got {bad} among {len(labels)} labels; "
                             "number them with np.unique(groups, return_inverse=True)[1]")
    sizes = np.bincount(labels)
    if (sizes == 0).any():
        raise ParameterError(f"groups must be labels 0..p-1, every one used, but no feature has the label "
                             f"{int(np.argmin(sizes))}; number them with np.unique(groups, return_inverse=True)[1]")
    return np.argsort(labels, kind="stable"), sizes, len(labels)


def _features(g, group, dim):
    if isinstance(group, slice):
        try:
            features = np.arange(*group.indices(dim))
        except (TypeError, ValueError) as problem:
            raise InputTypeError(f"groups[{g}] must be a slice of integers, got {group}: {problem}") from problem
        for end in (group.start, group.stop):
            if end is not None and not -dim <= end <= dim:
                raise ParameterError(f"groups[{g}] must lie within the features 0..{dim - 1}, got {group}; shorten it "
                                     "or raise dim")
        return features
    features = integer_array(f"groups[{g}]", group)
    if features.ndim != 1:
        raise ParameterError(f"groups[{g}] must be a slice or a vector of features, got shape {features.shape}")
    return features


def check_covered(counts):
    """Raise an error unless every feature is in a group; `counts` holds the number of groups of each feature."""
    if not counts.all():
        missed = np.flatnonzero(counts == 0)
        raise _uncovered(len(counts), len(missed), missed[0])


def _uncovered(dim, n_missed, first):
    return ParameterError(f"groups must hold every feature 0..{dim - 1}, but {n_missed} of them, feature {first} "
                          "first, are in no group; add them to a group or as a new one")


def offsets_of(sizes):
    """Return the starts of consecutive pieces with these sizes, and the end of the last piece."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
