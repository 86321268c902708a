"""The risk of ranking: in each group the scores of two rows should be in the order of their grades."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse

from ..core._pairs import pair_sums
from ..core.exceptions import ParameterError
from ..core.groups import group_codes, runs_of
from ..core.rounding import UNIT
from ..core.types import Array, Data, Floats
from ..core.validation import bool_array, check_choice, check_integer, check_vector, read_only, refuse_unknown
from .partition import SHARD_ROWS, part_of, partition
from .sorted_scores import SortedScores

REFUSED = {"fit_intercept": "an intercept changes no difference of scores, leave it out",
           "sample_weight": "single rows have no weight in pairs, use group_weight or pair_weight"}


class Ranking(SortedScores):
    """Risk of ranking: each pair of rows i, j of one group with grades `y_i > y_j` should have scores in this order.

        R(w) = sum over pairs of c_ij max(0, m_ij - <w, x_i - x_j>)          (form="hinge")
        R(w) = sum over pairs of c_ij max(0, m_ij - <w, x_i - x_j>)^2 / 2    (form="squared", smooth)

    The pairs are never listed: with n rows a plane costs O(nnz(X) + n log n), for any number of different grades.

    Parameters
    ----------
    X : ndarray (float32, float64 or uint8) or CSR, shape (n, d)
        Read as it is, never copied; w has shape (d,).
    y : array, shape (n,)
        Grades, where larger is better; or times >= 0 if there is an `event`.
    groups : array, shape (n,), optional
        Names of groups (queries), numbers or texts, in any order; only rows of one group are compared. None: one group.
    event : bool array, shape (n,), optional
        For censored times: whether the event was seen at y_i. A pair then needs `y_i > y_j` and an event at j, as in
        the concordance index of survival analysis; scores grow with the time.
    form : {"hinge", "squared"}
    margin : {"unit", "difference"}
        `m_ij = 1` or `m_ij = y_i - y_j`.
    pair_weight : {"difference"}, optional
        `c_ij = y_i - y_j` times the weight of the group; by default only that weight.
    group_weight : array, shape (number of groups,), optional
        Weights >= 0 in the order of `np.unique(groups)`, by default 1.
    n_parts : int, optional
        Parts consist of whole groups, so there are at most as many as groups.
    random_state : int
        Seed of the assignment of groups to parts.

    Attributes
    ----------
    n_groups, n_idle_groups, n_pairs : int
        Numbers of groups; of groups without a pair, such as groups of one grade, whose risk is 0; and of pairs.

    Raises
    ------
    ParameterError, InputTypeError
        If shapes differ, numbers are not finite, times are negative, or no group has a pair.

    Notes
    -----
    A plane lies below R whichever pairs it contains, so a pair misjudged by rounding only lowers it. Offsets are
    lowered by their rounding, which is 0 for a hinge with unit margins and whole weights. `values` bounds the error of
    scores, misjudged pairs included: it computes R again with all margins larger by twice the largest error of a score
    in the group. Sources: [Joachims 2005], [Chapelle and Keerthi 2010]; sums for any grades as in [Lee and Lin 2014].

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> X = np.array([[1.0], [3.0], [2.0], [0.0]])
    >>> risk = pb.risks.Ranking(X, [0, 2, 1, 1], groups=[7, 7, 7, 8])
    >>> risk.n_pairs, risk.n_idle_groups
    (3, 1)
    >>> risk.evaluate(np.array([0.25]))
    (array([2.]), array([[-4.]]))
    >>> pb.minimize(risk, lam=1.0, tol=1e-9).x.round(6)
    array([1.])
    """

    def __init__(self, X: Data, y: ArrayLike, groups: ArrayLike | None = None, event: ArrayLike | None = None,
                 form: str = "hinge", margin: str = "unit", pair_weight: str | None = None,
                 group_weight: ArrayLike | None = None, *, n_parts: int | None = None, random_state: int = 0,
                 **unknown: Any) -> None:
        refuse_unknown(unknown, ("X", "y", "groups", "event", "form", "margin", "pair_weight", "group_weight",
                                 "n_parts", "random_state"), REFUSED.get(min(unknown, default="")))
        self._build(X, y, groups, event, form, margin, pair_weight, group_weight, random_state)
        if self.n_pairs == 0:
            raise ParameterError("y must have different grades in a group, got no pair of rows to compare in "
                                 f"{self.n_groups} groups" + ("" if event is None else ", as censored times permit none"
                                                              ) + "; check y and groups")
        if n_parts is not None:
            self._group(n_parts)

    def _build(self, X, y, groups, event, form, margin, pair_weight, group_weight, random_state):
        self.form: str = check_choice("form", form, ("hinge", "squared"))
        self.margin: str = check_choice("margin", margin, ("unit", "difference"))
        if pair_weight is not None:
            check_choice("pair_weight", pair_weight, ("difference",))
        self.pair_weight: str | None = pair_weight
        self.smooth: bool = self.form == "squared"
        self._take(X)
        self.y: Floats = read_only(self._grades(y))
        if np.abs(self.y).max() > 1e100:
            raise ParameterError(f"y must hold numbers of at most 1e100, got {np.abs(self.y).max():g}; scale them")
        self.event: Array | None = None
        if event is not None:
            self.event = read_only(bool_array("event", event, (self.n_examples,)).copy())
            if self.y.min() < 0.0:
                raise ParameterError(f"y must hold times >= 0 if event is given, got {self.y.min():g} at index "
                                     f"{int(self.y.argmin())}")
        self.groups: Array
        self.n_groups: int
        self.groups, self.n_groups = group_codes(groups, self.n_examples)
        weights = np.ones(self.n_groups) if group_weight is None else check_vector(
            "group_weight", group_weight, self.n_groups).copy()
        if weights.min() < 0.0:
            raise ParameterError(f"group_weight must not be negative, got {weights.min():g}")
        self.group_weight: Floats = read_only(weights)
        self.random_state: int = check_integer("random_state", random_state, low=0)
        self._group(None)
        counts = []
        for unit in self._units:        # a row is the lower one in as many pairs as rows of its group follow its run
            rest = np.repeat(unit.starts + unit.sizes, unit.sizes) - np.repeat(unit.runs[1:], np.diff(unit.runs))
            counts.append(np.add.reduceat(rest if event is None else rest * unit.event, unit.starts))
        self.n_pairs: int = int(sum(map(np.sum, counts)))
        self.n_idle_groups: int = int(sum(np.count_nonzero(count == 0.0) for count in counts))

    def _grades(self, y):
        return check_vector("y", y, self.n_examples).copy()

    # ------------------------------------------------------------------ groups and parts
    @cached_property
    def _parts(self):
        groups = partition(self.n_groups, self.n_parts, self.partition, self.random_state)
        part = part_of(groups, self.n_groups)[self.groups]
        ends = np.cumsum(np.bincount(part, minlength=self.n_parts))
        return np.split(np.argsort(part, kind="stable"), ends[:-1])

    @cached_property
    def _units(self):
        """The work items of threads: the groups of a part that begin within the same SHARD_ROWS rows."""
        found = []
        for p, rows in enumerate(self._parts):
            rows = rows[np.lexsort((self.y[rows], self.groups[rows]))]
            codes = self.groups[rows]
            starts = np.flatnonzero(np.diff(codes, prepend=-1))
            firsts = starts[np.flatnonzero(np.diff(starts // SHARD_ROWS, prepend=-1))]
            # `most` bounds all sums over a part; sums of whole numbers are exact below 2^53
            weights, grades = self.group_weight[codes[starts]], self.y[rows]
            whole = (weights, grades) if self.pair_weight else (weights,)
            most = float(weights.max()) * len(rows) ** 2 * (np.ptp(grades) if self.pair_weight else 1.0)
            is_whole = not self.smooth and most < 2.0**53 and all((a == np.floor(a)).all() for a in whole)
            found += [Unit.of(p, some, self, is_whole) for some in np.split(rows, firsts[1:])]
        return found

    def _arguments(self, rows):
        codes, groups = np.unique(self.groups[rows], return_inverse=True)
        return {"X": self.examples.X[rows], "y": self.y[rows], "groups": groups,
                "event": None if self.event is None else self.event[rows], "form": self.form, "margin": self.margin,
                "pair_weight": self.pair_weight, "group_weight": self.group_weight[codes], "random_state": 0}

    @classmethod
    def _from_excerpt(cls, **arguments):
        made = cls.__new__(cls)         # not by __init__, which refuses rows without a pair
        made._build(**arguments)
        return made

    # ------------------------------------------------------------------ passes
    def _keys(self, unit, scores):
        """Return the scores of a unit less the mean of their group, and less the grades if margins are differences."""
        found = scores[unit.rows]
        found -= np.repeat(np.add.reduceat(found, unit.starts) / unit.sizes, unit.sizes)
        return found - unit.centred if self.margin == "difference" else found

    def _sums(self, unit, keys, shift, power):
        """Return the sums of `pair_sums` for each row as the better and as the worse row, and the values of groups."""
        up, down, values = np.empty(len(keys)), np.empty(len(keys)), np.empty(len(unit.sizes))
        pair_sums(keys, unit.grades, unit.event, unit.runs, unit.groups, np.full(len(values), shift),
                  self.pair_weight is not None, power, up, down, values)
        values[np.isnan(values)] = np.inf       # differences of squares that overflow
        if (unit.weights != 1.0).any():
            by_row = np.repeat(unit.weights, unit.sizes)
            return up * by_row, down * by_row, unit.weights * values / power
        return up, down, values / power

    def _plane(self, unit, scores):
        shift = float(self.margin == "unit")
        up, down, found = self._sums(unit, self._keys(unit, scores), shift, 1 + self.smooth)
        both, value, terms = up + down, float(found.sum()), len(up) + 64.0
        # the offset is the sum of q_ij m_ij with q_ij = c_ij h_ij^(power - 1); the squared form subtracts R
        total, size = (float(up.sum()),) * 2 if shift else (float((up - down) @ unit.centred),
                                                             float(both @ np.abs(unit.centred)))
        error = 0.0 if unit.sum_error == 0.0 and shift else (unit.sum_error + terms * UNIT) * size
        if self.smooth:
            total, error = total - value, error + (unit.value_error + terms * UNIT) * value
        size = float(both @ self.examples.norms[unit.rows])
        return down - up, value, total - 1.01 * error, size, unit.sum_error * size

    def _value(self, unit, scores, norm):
        # Margins larger by twice the error of scores give at least the true R. As R is convex in the margins, the
        # increase bounds the error in both directions.
        keys, shift = self._keys(unit, scores), float(self.margin == "unit")
        far = np.maximum.reduceat(np.abs(scores[unit.rows]) + np.abs(keys), unit.starts) + shift
        norms = np.maximum.reduceat(self.examples.norms[unit.rows], unit.starts)
        reach = 1.01 * UNIT * (self._rows.score_terms * norm * norms + 8.0 * (far + unit.largest))
        value, above = (float(self._sums(unit, keys, margins, 1 + self.smooth)[2].sum())
                        for margins in (shift, shift + 2.0 * reach))
        rounding = unit.value_error + (len(keys) + 64.0) * UNIT
        return value, max(above - value, 0.0) + 3.0 * rounding * max(above, value) if value < np.inf else np.inf

    def curvatures(self, w: ArrayLike) -> Floats:
        """Return approximate second derivatives of the squared form at w, shape (d, d), in O(n d^2).

        The sum of `c_ij (x_i - x_j) (x_i - x_j)'` over active pairs is replaced by that of `k_i (x_i - m) (x_i - m)'`
        over rows, where `k_i` is the weight of the active pairs of row i and m the mean of its group by these weights.
        Both are equal on average if the rows of a pair are independent.
        """
        scores, found = self._scores(w), np.zeros((self.dim, self.dim))
        for unit in self._units:
            up, down, _ = self._sums(unit, self._keys(unit, scores), float(self.margin == "unit"), 1)
            weights, codes = up + down, np.repeat(np.arange(len(unit.sizes)), unit.sizes)
            roots, sums = np.sqrt(weights), np.zeros((len(unit.sizes), self.dim))
            for first in range(0, len(codes), SHARD_ROWS):
                some = slice(first, first + SHARD_ROWS)
                part, shape = self.examples.X[unit.rows[some]], (len(sums), len(codes[some]))
                part = (part.toarray() if issparse(part) else part) * roots[some, None]
                found += part.T @ part
                sums += csr_array((roots[some], (codes[some], np.arange(shape[1]))), shape) @ part
            found -= (sums.T / np.maximum(np.add.reduceat(weights, unit.starts), 1e-300)) @ sums
        return found

    @cached_property
    def slope_sizes(self) -> Floats | None:
        """Bounds on the Euclidean norms of slopes, one for each part (P,); None for the squared form."""
        if self.smooth:
            return None
        found = np.zeros(self.n_parts)
        for unit in self._units:
            up, down, _ = self._sums(unit, np.zeros(len(unit.rows)), 1.0, 1)      # equal scores activate all pairs
            found[unit.part] += 1.01 * float((up + down) @ self.examples.norms[unit.rows])
        return found

    @property
    def _identity(self):
        return ((self.form, self.margin, self.pair_weight, self.random_state),
                (self.y, self.groups, self.group_weight, *(() if self.event is None else (self.event,))))


class Unit(NamedTuple):
    """Rows of some groups of a part, sorted by group, then by grade, as `pair_sums` takes them."""

    part: int
    rows: Array
    grades: Floats
    centred: Floats         # grades less their mean in the group
    largest: Floats         # of each group: largest |centred| if margins are differences of grades, else 0
    event: Array
    runs: Array
    groups: Array
    starts: Array           # first row of each group
    sizes: Array
    weights: Floats         # weight of each group
    sum_error: float        # relative error of the sums by row of `pair_sums`, times weights of groups
    value_error: float      # relative error of the values of `pair_sums`, times weights of groups

    @classmethod
    def of(cls, part, rows, risk, is_whole):
        grades, codes = risk.y[rows], risk.groups[rows]
        runs, groups, starts = runs_of(codes, grades)
        sizes = np.diff(starts, append=len(rows))
        centred = grades - np.repeat(np.add.reduceat(grades, starts) / sizes, sizes)
        largest = np.maximum.reduceat(np.abs(centred), starts) if risk.margin == "difference" else np.zeros(len(starts))
        event = np.empty(0, np.uint8) if risk.event is None else risk.event[rows].view(np.uint8)
        weights, n = risk.group_weight[codes[starts]], float(sizes.max())
        return cls(part, rows, grades, centred, largest, event, runs, groups, starts, sizes, weights,
                   0.0 if is_whole else 1.01 * UNIT * (2.0 * n + 72.0), 1.01 * UNIT * (4.0 * n + 96.0))
