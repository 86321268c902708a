"""Examples into parts and shards: every example is in exactly one part, whatever n and P."""

from __future__ import annotations

import numpy as np

from ..core.exceptions import ParameterError
from ..core.validation import check_choice, check_integer

SHARD_ROWS = 8192
"""Rows of a work unit; fixed, so that any number of threads adds the same numbers in the same order."""


def partition(n_examples, n_parts, kind="strided", random_state=0, labels=None):
    """Rows of every part, ascending inside a part (so that the pass reads memory forwards).

    Parameters
    ----------
    n_examples, n_parts : int
        With fewer examples than parts some parts are empty.
    kind : {"strided", "contiguous", "stratified"}
        "strided": shuffle once, then part = position mod P. "contiguous": cut in order; only for data that is
        shuffled already. "stratified": as strided, but every label is dealt out evenly.
    random_state : int
        Seed of the shuffle.
    labels : ndarray, shape (n,)
        Needed for "stratified".

    Returns
    -------
    parts : list of P intp arrays

    Examples
    --------
    >>> from pybundle.risks.partition import partition
    >>> [part.tolist() for part in partition(5, 2, "contiguous")]
    [[0, 1, 2], [3, 4]]
    """
    n_parts = check_integer("n_parts", n_parts, low=1)
    if n_parts > max(1000, n_examples):
        raise ParameterError(f"n_parts must be at most max(1000, n_examples) = {max(1000, n_examples)}, got {n_parts}; "
                             "more parts than examples are empty")
    check_choice("partition", kind, ("strided", "contiguous", "stratified"))
    random_state = check_integer("random_state", random_state, low=0)
    if kind == "contiguous" or n_parts == 1:
        return np.array_split(np.arange(n_examples, dtype=np.intp), n_parts)
    order = np.random.default_rng(random_state).permutation(n_examples)
    if kind == "stratified":
        order = order[np.argsort(np.asarray(labels)[order], kind="stable")]
    return [np.sort(order[p::n_parts]).astype(np.intp, copy=False) for p in range(n_parts)]


def shards(parts):
    """Work units `(part, rows)` of at most `SHARD_ROWS` rows, part by part."""
    return [(p, rows[start:start + SHARD_ROWS])
            for p, rows in enumerate(parts) for start in range(0, len(rows), SHARD_ROWS)]
