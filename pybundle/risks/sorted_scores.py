"""Base class of risks that depend on the order of scores: rankings, and measures of the whole sample."""

from __future__ import annotations

from typing import Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from ..core.plane import Planes
from ..core.protocols import RiskBase
from ..core.rounding import UNIT
from ..core.types import Floats
from ..core.validation import check_integer, check_vector, read_only
from ..features.examples import Examples
from .partition import SHARD_ROWS, Partitioned, shards
from .reduction import SPARSE_DENSITY, reduce_planes

QUIET = np.errstate(over="ignore", invalid="ignore")
"""NumPy does not warn of overflow, because a run refuses infinite values with an error of its own."""


class ScoredRows(RiskBase):
    """The rows of a risk that needs all scores before it knows the share of each row in the slope."""

    dense_from = SPARSE_DENSITY

    def _take(self, X, bias=None):
        self.examples: Examples = Examples(X, bias=bias)
        self.user_rows: Examples = self.examples
        self.n_examples: int = self.examples.n_examples
        self.dim: int = self.examples.width
        self._rows = self.examples.rows(1)

    @property
    def _shards(self):
        return shards([np.arange(self.n_examples)])

    def _scores(self, w):
        w = check_vector("w", w, self.dim)
        packed, scores = self._rows.pack(w), np.empty(self.n_examples)

        def shard(item):
            found = np.empty((len(item[1]), 1))
            self._rows.scores(packed, item[1], found)
            scores[item[1]] = found[:, 0]

        for _ in self.map_shards(shard, self._shards):
            pass
        return scores

    def _summed(self, share, items):
        """Return planes with the slopes `sum_i share_i x_i` of the shards `items`, and zeros for values and offsets."""
        def add(rows, slope):
            some = rows[share[rows] != 0.0]
            self._rows.add(some, np.zeros(len(some), dtype=np.int32), share[some], slope)
            return 0.0, 0.0

        return reduce_planes(add, items, self.n_parts, self.dim, self.map_shards, self.examples.is_sparse,
                             self.dense_from)


class SortedScores(Partitioned, ScoredRows):
    """Base class of risks that give each row one score, and depend on the order of the scores in each group.

    A subclass has `_units`, the work items of threads: whole groups of a part, with `part` and `rows`. It defines

    * `_plane(unit, scores) -> (share, value, offset, size, error)`: the slope is the sum of `share_i x_i`, the offset
      is rounded down, `size` is the sum of `|share_i| |x_i|`, and `error` bounds the slope's error by rounded shares;
    * `_value(unit, scores, norm) -> (value, error)`: the value, and a bound on its error for a w of this norm;
    * `_identity -> (words, arrays)`: what R depends on besides X.
    """

    partition = "strided"
    precision = "float64"
    random_state: int = 0
    n_groups: int = 1
    _of_parts = (*Partitioned._of_parts, "_units", "slope_sizes")
    _units: Any
    _identity: Any

    def _take(self, X, bias=None):
        super()._take(X, bias)
        self.sample_weight: Floats = read_only(np.ones(self.n_examples))

    def _shards_of(self, parts):
        return shards(parts)

    def _regroup(self, n_parts):
        super()._regroup(min(check_integer("n_parts", n_parts, low=1), self.n_groups))

    def planes(self, w: ArrayLike) -> Planes:
        """Return one plane for each part, tight at w: one pass over X and a sort of each unit."""
        scores, share, sums = self._scores(w), np.zeros(self.n_examples), np.zeros((4, self.n_parts))

        @QUIET
        def work(unit):
            share[unit.rows], *numbers = self._plane(unit, scores)
            return numbers

        for unit, found in zip(self._units, self.map_shards(work, self._units), strict=True):
            sums[:, unit.part] += found

        planes = self._summed(share, self._shards)
        terms = np.array([min(len(rows), SHARD_ROWS) + len(rows) // SHARD_ROWS for rows in self._parts])
        # 1.01 covers the rounding of these bounds themselves
        errors = 1.01 * (sums[3] + UNIT * (terms + self._rows.score_terms + 8.0) * sums[2])
        return planes._replace(values=sums[0], offsets=sums[1], slope_errors=errors)

    def values(self, w: ArrayLike) -> tuple[Floats, Floats]:
        """Return values (P,) at w and bounds (P,) on their rounding errors: one pass over X."""
        scores, found, norm = self._scores(w), np.zeros((2, self.n_parts)), float(np.linalg.norm(w))

        @QUIET
        def work(unit):
            return self._value(unit, scores, norm)

        for unit, pair in zip(self._units, self.map_shards(work, self._units), strict=True):
            found[:, unit.part] += pair
        return found[0], 1.01 * found[1]

    @property
    def fingerprint(self) -> int:
        """A hash of data, grades or labels, weights and options."""
        words, arrays = self._identity
        mark = crc32(repr((type(self).__name__, *words, self.examples.fingerprint)).encode())
        for array in arrays:
            mark = crc32(np.ascontiguousarray(array), mark)         # type: ignore[arg-type]
        return mark

    def renewed(self, whole: bool = True) -> Self:
        """Return this risk, or a new one of the present data if they were changed in place."""
        if self.examples.is_current(whole):
            return self
        other = self.derive()
        other._take(self.examples.X, self.examples.bias)
        vars(other).pop("slope_sizes", None)
        return other
