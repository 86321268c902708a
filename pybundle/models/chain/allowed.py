"""Which labels may follow each other in a chain, and which may be first and last."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.exceptions import InputTypeError, ParameterError
from ...core.types import Array, Floats


class Allowed(NamedTuple):
    """Labellings `y` with `pairs[y_{t-1}, y_t]` for all t > 1, `first[y_1]` and `last[y_T]`.

    Attributes
    ----------
    pairs : bool array, shape (K, K)
    first, last : bool arrays, shape (K,)
    """

    pairs: Array
    first: Array
    last: Array

    @classmethod
    def of(cls, given: Any, n_labels: int) -> Allowed:
        """Make it from the argument `allowed` of `Chain`: a matrix, or matrix and two rows, None for what is free."""
        parts = given if isinstance(given, (tuple, list)) and len(given) == 3 and np.ndim(given[1]) < 2 else (
            given, None, None)
        K, made = n_labels, []
        for name, part, shape in (("transitions", parts[0], (K, K)), ("first labels", parts[1], (K,)),
                                  ("last labels", parts[2], (K,))):
            array = np.ones(shape, dtype=bool) if part is None else np.array(part)
            if array.dtype != np.bool_:
                raise InputTypeError(f"allowed must hold True and False, got dtype {array.dtype} for the {name}")
            if array.shape != shape:
                raise ParameterError(f"allowed must have shape {shape} for the {name}, got {array.shape}; it is a "
                                     "matrix (K, K), or (transitions, first, last)")
            made.append(array)
        found = cls(*made)
        if not (found.first.any() and found.last.any()):
            raise ParameterError("allowed must leave a first and a last label, got none")
        return found

    def masks(self) -> tuple[Floats, Floats, Floats]:
        """Return scores of pairs, first and last labels: 0, or -inf where they are forbidden."""
        pairs, first, last = (np.where(part, 0.0, -np.inf) for part in self)
        return pairs, first, last

    def check(self, labels: Any, name: str) -> None:
        """Raise ParameterError if a labelling of a `Ragged` is not allowed; name the first place."""
        y, offsets = labels.values, labels.offsets
        starts, ends = offsets[:-1][labels.sizes > 0], offsets[1:][labels.sizes > 0] - 1
        good = np.ones(len(y), dtype=bool)
        good[1:] = self.pairs[y[:-1], y[1:]]
        good[starts] = self.first[y[starts]]
        open_ends = ends[~self.last[y[ends]]]
        bad = np.flatnonzero(~good)
        if not len(bad) + len(open_ends):
            return
        at = min(bad[:1].tolist() + open_ends[:1].tolist())
        i, t = labels.place(at)
        why = f"{y[at]} as last label" if at not in bad[:1] else f"{y[at]} as first label" if t == 0 else (
            f"{y[at]} after {y[at - 1]}")
        raise ParameterError(f"{name}[{i}][{t}] must follow the labels that `allowed` admits, got {why}")
