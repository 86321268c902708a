"""Split examples into parts and shards. Every example is in exactly one part, for any n and P."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.protocols import RiskBase
from ..core.ragged import Ragged
from ..core.types import Array, Floats
from ..core.validation import check_choice, check_integer
from .reduction import SPARSE_DENSITY

SHARD_ROWS = 8192
"""Number of rows of a full shard; a constant, so that any number of threads adds the same numbers in the same order."""


def partition(n_examples, n_parts, kind="strided", random_state=0, labels=None):
    """Return the rows of every part, ascending inside a part (so that a pass reads memory forwards).

    Parameters
    ----------
    n_examples, n_parts : int
        If there are fewer examples than parts, some parts are empty.
    kind : {"strided", "contiguous", "stratified"}
        "strided": shuffle once, then part = position mod P. "contiguous": cut in order; only for data that is
        shuffled already. "stratified": as strided, but every label is spread evenly over the parts.
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
    n_parts = check_parts(n_examples, n_parts, kind)
    random_state = check_integer("random_state", random_state, low=0)
    if n_parts == 1:
        return [np.arange(n_examples, dtype=np.intp)]
    if kind == "contiguous":
        return np.array_split(np.arange(n_examples, dtype=np.intp), n_parts)
    order = np.random.default_rng(random_state).permutation(n_examples)
    if kind == "stratified":
        order = order[np.argsort(np.asarray(labels)[order], kind="stable")]
    return [np.sort(order[p::n_parts]).astype(np.intp, copy=False) for p in range(n_parts)]


def check_parts(n_examples, n_parts, kind):
    """Check the number of parts and the `kind` of the partition; return the number as an integer."""
    n_parts = check_integer("n_parts", n_parts, low=1)
    if n_parts > max(1000, n_examples):
        raise ParameterError(f"n_parts must be at most max(1000, n_examples) = {max(1000, n_examples)}, got {n_parts}; "
                             "parts without examples are useless")
    check_choice("partition", kind, ("strided", "contiguous", "stratified"))
    return n_parts


def part_of(parts, n):
    """Return the number of the part of each of n examples."""
    found = np.empty(n, dtype=np.intp)
    for p, rows in enumerate(parts):
        found[rows] = p
    return found


def shards(parts):
    """Return the shards `(part, rows)` of at most `SHARD_ROWS` rows each, part by part."""
    return [(p, rows[start:start + SHARD_ROWS])
            for p, rows in enumerate(parts) for start in range(0, len(rows), SHARD_ROWS)]


def take(sequence, rows):
    """Select `rows` of a sequence of examples: an array, a CSR matrix, a Ragged, a named tuple of these, or a list."""
    if isinstance(sequence, Ragged):
        return sequence.take(rows)
    if isinstance(sequence, np.ndarray) or sp.issparse(sequence):
        return sequence[rows]
    if isinstance(sequence, tuple) and hasattr(sequence, "_fields"):
        return type(sequence)(*(take(field, rows) for field in sequence))
    return [sequence[int(i)] for i in rows]


def example(sequence, i):
    """Return example i of a sequence as in `take`."""
    if isinstance(sequence, tuple) and hasattr(sequence, "_fields"):
        return type(sequence)(*(field[i] for field in sequence))
    return sequence[i]


@dataclass(frozen=True)
class Excerpt:
    """The data of some parts of a risk. A worker receives an excerpt and makes the risk of these parts from it.

    Attributes
    ----------
    kind : type
        Class of the risk.
    arguments : dict
        Arguments for `kind`, with the examples of these parts only.
    rows : list of ndarray
        For every part, the numbers that its examples have in the whole risk, in the order of `arguments`.
    """

    kind: type[Partitioned]
    arguments: dict[str, Any]
    rows: list[Any]

    def __call__(self) -> Partitioned | None:
        """Return the risk of these parts, with the planes of the whole risk, or None if the parts hold no example."""
        if not sum(map(len, self.rows)):
            return None
        risk = self.kind._from_excerpt(**self.arguments)
        ends = np.cumsum([len(rows) for rows in self.rows])
        risk._assign([np.arange(end - len(rows), end, dtype=np.intp)
                      for rows, end in zip(self.rows, ends, strict=True)])
        risk.n_parts_given = True
        return risk


class Partitioned(RiskBase):
    """Base class of all risks of examples: parts, shards, and an executor for the work on them.

    A subclass has `partition` (kind), `random_state` and `n_examples`. Its `_shards_of` cuts parts into shards, and
    `_arguments(rows)` returns the arguments that make the same risk of some examples only.
    """

    lower_bounds: Array
    _arguments: Any

    dense_from = SPARSE_DENSITY     # fraction of non-zeros from which slopes are returned dense
    _stratify = None            # labels that the kind "stratified" spreads over the parts
    _of_parts: tuple = ("_parts", "_shards")    # cached attributes that depend on the parts; subclasses add theirs

    @cached_property
    def _parts(self):
        return partition(self.n_examples, self.n_parts, self.partition, self.random_state, self._stratify)

    @cached_property
    def _shards(self):
        return self._shards_of(self._parts)

    def _group(self, n_parts):
        """Split into `n_parts` parts and draw them now, so that copies share them; None means one part."""
        self.n_parts_given: bool = n_parts is not None
        self._regroup(1 if n_parts is None else n_parts)
        if self.n_parts_given:
            self._assign(self._parts)

    def _regroup(self, n_parts):
        """Split into `n_parts` parts, which are drawn on first use, since methods on examples need no parts."""
        self._split(check_parts(self.n_examples, n_parts, self.partition))

    def _assign(self, parts):
        self._split(len(parts))
        self._parts = parts

    def _split(self, n_parts):
        self.n_parts: int = n_parts
        self.lower_bounds: Floats = np.zeros(n_parts)
        for name in self._of_parts:
            vars(self).pop(name, None)

    @property
    def parts(self) -> list[Array]:
        """List with the row numbers of the examples of every part."""
        return self._parts

    def evaluate(self, w: ArrayLike) -> tuple[Floats, Any]:
        """Return values (P,) and subgradients (P, dim) at w: sums over the examples of each part."""
        planes = self.planes(w)
        return planes.values, planes.slopes

    def _sums(self, work):
        """Return the sums, over the shards of each part, of the two numbers that `work(rows)` returns, shape (2, P)."""
        sums = np.zeros((2, self.n_parts))
        found = self.map_shards(lambda shard: work(shard[1]), self._shards)
        for (p, _), numbers in zip(self._shards, found, strict=True):
            sums[:, p] += numbers
        return sums

    def derive(self, n_parts: int | None = None, precision: str | None = None, executor: Any = None) -> Self:
        """Return the same risk over the same data with other parts, precision or executor; nothing large is copied.

        Parameters
        ----------
        n_parts : int, optional
            None keeps the parts.
        precision : {"float32", "float64"}, optional
            None keeps it; a risk with only one precision ignores it.
        executor : object with ``map(fn, items)``, optional
            Runs the shards and returns results in order; any executor leads to bit-identical numbers. None keeps it.
        """
        other: Any = copy.copy(self)
        if "map_shards" in vars(self):        # `__getstate__` drops `map_shards`, as copies may go to another process
            other.map_shards = self.map_shards
        if n_parts is not None and n_parts != self.n_parts:
            other._regroup(n_parts)
        if precision is not None:
            other._set_precision(precision)
        if executor is not None:
            other.map_shards = executor.map
        return other

    def excerpt(self, numbers: Sequence[int]) -> Excerpt:
        """Return the parts `numbers` as an `Excerpt`, from which another process makes their risk."""
        rows = [self._parts[p] for p in numbers]
        return Excerpt(type(self), self._arguments(np.concatenate(rows)), rows)

    @classmethod
    def _from_excerpt(cls, **arguments):
        """Make the risk of an excerpt; a class overrides this if its constructor refuses the data of some parts."""
        return cls(**arguments)

    def _set_precision(self, precision):
        check_choice("precision", precision, ("float32", "float64"))
        self.precision = "float64"

    def __getstate__(self) -> Any:
        # an executor belongs to its process, and a centred copy would be large; `vars` is copied because another thread
        # may be drawing the parts
        state = vars(self).copy()
        for name in ("map_shards", "_centred"):
            state.pop(name, None)
        return state
