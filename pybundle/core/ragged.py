"""Arrays of unequal length that are stored as one array, and shards: groups of such arrays for one thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.types import Array
from .exceptions import InputTypeError, ParameterError
from .sparse import check_sparse
from .validation import as_array, contiguous, integer_array, refuse_masked, whole_numbers

SHARD_WORK = 1 << 16
"""Work of a shard, in rows or in scores of a decoder; a constant, so that shards depend on the data alone."""
ENTRIES = "biufOSU"
"""Kinds of dtype that examples may have; code that needs numbers refuses texts later."""


class Ragged(Sequence[Any]):
    """A sequence whose item i is `values[offsets[i]:offsets[i + 1]]`, a view.

    Parameters
    ----------
    values : ndarray or CSR matrix, shape (total, ...)
        Not copied; other sparse formats are converted to CSR.
    offsets : int array, shape (n + 1,)
        From 0 to `total`, never falling.

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.core.ragged import Ragged
    >>> words = Ragged.of([np.array([1, 2]), np.array([3])])
    >>> len(words), words[0].tolist(), words.take([1, 0]).values.tolist()
    (2, [1, 2], [3, 1, 2])
    """

    offsets: Array

    def __init__(self, values: Any, offsets: Any) -> None:
        if not sp.issparse(values) and not isinstance(values, np.ndarray):
            raise InputTypeError(f"values must be an array or a CSR matrix, got {type(values).__name__}; "
                                 "Ragged.of joins a list of arrays")
        if sp.issparse(values):
            values = check_sparse("values", values).tocsr()
        offsets = check_offsets(offsets, values.shape[0])
        self.values: Any = values if sp.issparse(values) or values.flags.aligned else values.copy()
        self.offsets = offsets

    @classmethod
    def of(cls, items: Iterable[Any], name: str = "X", kinds: str = ENTRIES) -> Ragged:
        """Join a list of arrays (or CSR matrices) that agree in all but their length.

        Their dtype must have one of the `kinds`. If `kinds` is "iu" or "biu", an empty array may have any kind.
        """
        if isinstance(items, cls):
            return items
        items = [array_of(item, f"{name}[{i}]", kinds) for i, item in enumerate(check_items(items, name))]
        for i, item in enumerate(items):
            if item.ndim == 0:
                raise InputTypeError(f"{name}[{i}] must be an array of positions, got the single value {item[()]!r}")
            if sp.issparse(item) != sp.issparse(items[0]):
                raise InputTypeError(f"{name}[{i}] must be {'sparse' if sp.issparse(items[0]) else 'dense'} like "
                                     f"{name}[0]; convert one of them")
            if item.shape[1:] != items[0].shape[1:]:
                raise ParameterError(f"{name}[{i}] must have rows of shape {items[0].shape[1:]} like {name}[0], "
                                     f"got shape {item.shape}")
        offsets = np.concatenate([[0], np.cumsum([item.shape[0] for item in items])])
        if not sp.issparse(items[0]):
            return cls(np.concatenate(items), offsets)
        return cls(sp.vstack([_pruned(item) for item in items], format="csr"), offsets)

    @classmethod
    def unchecked(cls, values: Any, offsets: Any) -> Ragged:
        """Make a Ragged of valid values and int64 offsets; checks would take longer than the work on a small batch."""
        ragged = object.__new__(cls)
        ragged.values, ragged.offsets = values, offsets
        return ragged

    @property
    def sizes(self) -> Array:
        """Lengths of the items, shape (n,)."""
        return np.diff(self.offsets)

    def place(self, row: Any) -> tuple[int, int]:
        """Return the number of the item to which a row of `values` belongs, and the position of the row in it."""
        i = int(np.searchsorted(self.offsets, row, side="right")) - 1
        return i, int(row - self.offsets[i])

    def name_of(self, row: Any, name: str = "X", field: Any = "") -> str:
        """Return the name of a row of `values` in messages to users: `X[3][0]`."""
        i, position = self.place(row)
        return f"{name}[{i}]{field}[{position}]"

    def rows(self, items: Iterable[Any]) -> Array:
        """Return the row numbers of `values` of the given items, one item after another."""
        items = np.asarray(items, dtype=np.intp)
        starts, sizes = self.offsets[items], self.offsets[items + 1] - self.offsets[items]
        return (np.repeat(starts, sizes) + ranges(sizes)).astype(np.intp, copy=False)

    def take(self, items: Iterable[Any]) -> Ragged:
        """Return a Ragged with copies of the given items."""
        items = np.asarray(items, dtype=np.intp)
        sizes = self.offsets[items + 1] - self.offsets[items]
        return Ragged.unchecked(self.values[self.rows(items)], np.concatenate([[0], np.cumsum(sizes)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> Any:
        if isinstance(i, slice):
            return self.take(np.arange(len(self))[i])
        if not -len(self) <= i < len(self):
            raise IndexError(f"item {i} of {len(self)}")
        i %= len(self)
        return self.values[self.offsets[i]:self.offsets[i + 1]]


def _pruned(matrix):
    """Return a CSR matrix without stored entries behind its last row, which `vstack` would add to the next matrix."""
    matrix = matrix.tocsr()
    if len(matrix.data) > matrix.indptr[-1]:
        matrix = matrix.copy()
        matrix.prune()
    return matrix


def check_items(items, name="X"):
    """Return the examples as a list, which must not be empty."""
    if not isinstance(items, Iterable):
        raise InputTypeError(f"{name} must be a list with one entry for each example, got {type(items).__name__}")
    items = list(items)
    if not items:
        raise ParameterError(f"{name} must hold at least one example, got none")
    return items


def array_of(item, name, kinds=ENTRIES):
    """Return one example as an array whose dtype has one of the `kinds`; a sparse matrix is returned itself."""
    refuse_masked(name, item)
    is_sparse, wanted = sp.issparse(item), "real numbers" if "f" in kinds else "integers"
    array = item if is_sparse else as_array(f"{name} must be an array, got {type(item).__name__}", item)
    if wanted == "integers" and not is_sparse and array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in kinds:
        remedy = f"; {whole_numbers(name, array)}" if wanted == "integers" and not is_sparse else ""
        raise InputTypeError(f"{name} must hold {wanted}, got dtype {array.dtype}{remedy}")
    if array.dtype == np.uint64 and not is_sparse and wanted == "integers":     # uint64 joined with int64 is float64
        if array.size and array.max() > np.iinfo(np.int64).max:
            raise ParameterError(f"{name} must hold integers below 2^63, got {array.max()}")
        array = array.astype(np.int64)
    return check_sparse(name, array) if is_sparse else array


def check_offsets(offsets, total, name="offsets"):
    """Return the offsets of items as an int64 array, shape (n + 1,), after a check that they rise from 0 to `total`.

    >>> check_offsets([0, 2, 5], 5).tolist()
    [0, 2, 5]
    """
    offsets = integer_array(name, offsets)
    if offsets.ndim != 1 or len(offsets) == 0:
        raise ParameterError(f"{name} must have shape (n_items + 1,), got shape {offsets.shape}")
    offsets = contiguous(offsets, np.int64)
    if offsets[0] != 0 or offsets[-1] != total:
        raise ParameterError(f"{name} must run from 0 to the length of the data, {total}, "
                             f"got {offsets[0]}..{offsets[-1]}")
    falls = np.flatnonzero(offsets[1:] < offsets[:-1])
    if len(falls):
        i = int(falls[0])
        raise ParameterError(f"{name} must never fall, but item {i} runs from {offsets[i]} to {offsets[i + 1]}")
    return offsets


def ranges(sizes):
    """Return `0, ..., sizes[0] - 1, 0, ..., sizes[1] - 1, ...`.

    >>> ranges([2, 3]).tolist()
    [0, 1, 0, 1, 2]
    """
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)


def cut(sizes, work=SHARD_WORK):
    """Return ranges (first, last) of neighbouring items whose sizes sum to at most `work`, or of one larger item.

    >>> cut([3, 3, 3, 10, 1], work=6)
    [(0, 2), (2, 3), (3, 4), (4, 5)]
    """
    sizes = np.asarray(sizes, dtype=np.int64)
    ranges, first, held = [], 0, 0
    for i, size in enumerate(sizes.tolist()):
        if held and held + size > work:
            ranges.append((first, i))
            first, held = i, 0
        held += size
    if first < len(sizes):
        ranges.append((first, len(sizes)))
    return ranges


def blocks(offsets, size):
    """Yield ranges (first, last) of neighbouring items with at most `size` rows together, or of one larger item."""
    first = 0
    while first < len(offsets) - 1:
        last = max(int(np.searchsorted(offsets, offsets[first] + size, side="right")) - 1, first + 1)
        yield first, last
        first = last


def run_shards(function, sizes, executor=None):
    """Call `function(first, last)` for ranges that cover all items, in the threads of `executor`.

    Parameters
    ----------
    function : callable
        Writes its results into arrays of the caller; should release the GIL.
    sizes : array, shape (n,)
        Work of every item.
    executor : object with ``map(function, items)``, optional
        For instance a `concurrent.futures.ThreadPoolExecutor`; None runs in the calling thread.
    """
    mapping = map if executor is None else executor.map
    for _ in mapping(lambda item: function(*item), cut(sizes)):
        pass
