"""`Allowed` says which labels may follow each other in a chain, and which may be first and last."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from ...core.exceptions import ParameterError
from ...core.types import Array, Floats
from ...core.validation import bool_array


class Allowed(NamedTuple):
    """The labellings `y` with `pairs[y_{t-1}, y_t]` for all t > 1, `first[y_1]` and `last[y_T]` are allowed.

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
        """Read the argument `allowed` of `Chain`: pairs, or (pairs, first, last), with None where all is allowed."""
        K, is_matrix = n_labels, False
        with suppress(ValueError):      # np.shape fails if the parts differ in shape
            is_matrix = np.shape(given) == (K, K)
        is_triple = isinstance(given, (tuple, list)) and len(given) == 3 and not is_matrix
        found = cls(*(np.ones(shape, dtype=bool) if part is None else np.array(bool_array(
            f"allowed, for {name},", part, shape, "pass a matrix (K, K), or (transitions, first, last)"))
            for name, part, shape in zip(("transitions", "first labels", "last labels"),
                                         given if is_triple else (given, None, None), ((K, K), (K,), (K,)),
                                         strict=True)))
        if not (found.first.any() and found.last.any()):
            raise ParameterError("allowed must leave a first and a last label, got none")
        return found

    def masks(self) -> tuple[Floats, Floats, Floats]:
        """Return scores of pairs, first and last labels: 0, or -inf where they are forbidden."""
        pairs, first, last = (np.where(part, 0.0, -np.inf) for part in self)
        return pairs, first, last

    def check(self, labels: Any, name: str) -> None:
        """Raise ParameterError if a labelling of the `Ragged` is not allowed; the error names the first place."""
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


def refuse_impossible(values: Floats, what: str) -> None:
    """Raise ParameterError if a best score is -inf: no labelling is allowed. `what` is a format for its number."""
    bad = np.flatnonzero(np.isneginf(values))
    if len(bad):
        raise ParameterError(f"{what.format(bad[0])} must have a labelling that `allowed` admits, got none; leave the "
                             "sequence out, or allow more")
