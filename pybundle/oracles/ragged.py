"""Batches of decoders: items of unequal size in one array, cut into work units."""

from __future__ import annotations

import numpy as np

from ..core.exceptions import ParameterError
from ..core.validation import contiguous, integer_array

SHARD_WORK = 1 << 16
"""Work of a unit, in the rows or scores of a decoder; fixed, so that units depend on nothing but the data."""


def check_offsets(offsets, total, name="offsets"):
    """Starts and end of the items as an int64 array, shape (n + 1,): from 0 to `total`, never falling.

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


def cut(sizes, work=SHARD_WORK):
    """Ranges (first, last) of neighbouring items of about `work` in all; a larger item stands alone.

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


def run_shards(function, sizes, executor=None, work=SHARD_WORK):
    """Calls `function(first, last)` for ranges of items that cover all of them, in the threads of `executor`.

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
    for _ in mapping(lambda item: function(*item), cut(sizes, work)):
        pass
