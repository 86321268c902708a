"""Groups of rows, such as the results of one query."""

from __future__ import annotations

import numpy as np

from .exceptions import InputTypeError, ParameterError
from .validation import refuse_masked


def group_codes(groups, n_rows, name="groups"):
    """Return codes 0..G-1 (n,) of the groups, in the order of `np.unique`, and G; without groups all rows are one.

    >>> group_codes(["b", "a", "b"], 3)
    (array([1, 0, 1]), 2)
    """
    if groups is None:
        return np.zeros(n_rows, dtype=np.intp), 1
    refuse_masked(name, groups)
    try:
        array = np.asarray(groups)
        if array.dtype.kind in "USf" and not hasattr(groups, "dtype"):      # keep mixed types, which NumPy converts
            array = np.asarray(groups, dtype=object)
        bad = array != array
        if array.dtype.kind == "O":
            bad |= np.equal(array, None)
        names, codes = np.unique(array[~bad], return_inverse=True)
    except (TypeError, ValueError) as problem:
        raise InputTypeError(f"{name} must hold numbers or texts, of one type, got {type(groups).__name__}: "
                             f"{problem!s:.80}") from problem
    if array.dtype.kind in "cV":
        raise InputTypeError(f"{name} must hold numbers or texts, got dtype {array.dtype}")
    if array.shape != (n_rows,):
        raise ParameterError(f"{name} must hold one name of a group for each row of X, shape ({n_rows},), got shape "
                             f"{array.shape}; repeat the names by np.repeat if you have sizes of groups")
    if bad.any():
        raise ParameterError(f"{name} must not be missing, got {array[bad][0]} at index {int(np.argmax(bad))}")
    return codes.astype(np.intp, copy=False), len(names)


def runs_of(codes, grades):
    """Return `runs` and `groups` as `_pairs.pair_sums` takes them, and the first row of each group.

    Rows must be sorted by group, then by grade; a run is all rows of one grade in a group.
    """
    is_first = np.diff(codes, prepend=-1) != 0
    runs = np.flatnonzero(is_first | (np.diff(grades, prepend=np.nan) != 0.0))
    starts = np.flatnonzero(is_first)
    groups = np.append(np.searchsorted(runs, starts), len(runs))
    return np.append(runs, len(codes)).astype(np.int32), groups.astype(np.int32), starts
