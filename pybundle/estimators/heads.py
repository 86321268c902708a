"""Functions for heads as users write them: with or without the root in front, alone or with relations."""

from __future__ import annotations

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError
from ..core.validation import shown


def all_heads(y):
    """Return heads as arrays; the root stays in front if it was given."""
    return [heads_of(heads, i) for i, heads in enumerate(y)]


def heads_of(given, i):
    """Return the heads of sentence i as an int32 array."""
    heads = np.asarray(given)
    if heads.ndim != 1 or (heads.dtype.kind not in "iu" and len(heads)):
        remedy = "; pairs (head, relation) need relations=True" if heads.ndim == 2 else ""
        raise InputTypeError(f"y[{i}] must be a sequence of heads, integers, got {given!r:.60}{remedy}")
    if len(heads) and not -2**31 <= heads.min() <= heads.max() < 2**31:
        raise ParameterError(f"y[{i}] must hold heads: words 1..n, or 0 for the root, got {shown(heads)}")
    return heads.astype(np.int32)


def split_pairs(pairs, i):
    """Return the heads and the relations of a list of pairs."""
    try:
        heads, names = zip(*pairs, strict=True) if len(pairs) else ((), ())
    except (TypeError, ValueError):
        names = None
    if names is None or not all(isinstance(name, str) for name in names):
        raise InputTypeError(f"y[{i}] must hold pairs (head, relation) with relations=True, got {pairs!r:.60}"
                             "; a Sentence s has list(zip(s.heads[1:], s.relations))")
    return heads_of(heads, i), list(map(str, names))


def check_length(labels, n, i):
    if len(labels) != n:
        raise ParameterError(f"y[{i}] must have one head for each word of X[{i}], {n} in all, got {len(labels)}")


def have_root(rows):
    """Return whether all heads have the root, -1, in front."""
    return all(heads[0] == -1 for heads in rows if len(heads))


def rooted(rows, is_rooted):
    """Return heads with the root in front, which they have already if `is_rooted`."""
    return rows if is_rooted else [np.concatenate([[-1], heads]).astype(np.int32) for heads in rows]
