"""Base class of the risks with linear scores: parts, shards, passes over the data, line search."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Self, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.plane import Planes
from ..core.protocols import Constant
from ..core.rounding import UNIT
from ..core.types import Array, Floats
from ..core.validation import check_choice, check_flag, check_integer, check_number, check_vector, contiguous, read_only
from ..features.examples import Examples
from ..features.shift import Shift, locate
from ..models.batch_oracle import BatchOracle
from ._engine import Engine
from ._line_search import line_search
from .linear_oracle import LinearOracle
from .partition import SHARD_ROWS, Partitioned, shards
from .reduction import reduce_planes

Curve: TypeAlias = tuple[float, float, float, float, float]


def constant(fit_intercept):
    """Return the value of the constant feature of an intercept, or None."""
    check_flag("fit_intercept", fit_intercept)
    return 1.0 if fit_intercept else None


class LinearRisk(Partitioned):
    """Base class of risks R(w) = sum_i r_i(W x_i), in which r_i depends on the K scores of example i.

    Subclasses validate their arguments and call `_build`; they add only the loss, which is computed in
    `_engine.pyx`. Objects share data and are cheap to `derive`. They do not change after construction, so that
    two threads may use one risk at the same time.

    Attributes
    ----------
    dim : int
        K * n_features, or K * (n_features + 1) with a bias.
    n_examples, n_features, n_parts, n_scores : int
    lower_bounds : ndarray, shape (P,)
        Zeros, because no loss is negative.
    n_parts_given : bool
        True if the caller passed `n_parts`; solvers then keep this number.
    precision : {"float32", "float64"}
        Working precision of scores.
    search_precision : {"float32", "float64"}
        Precision of steps that enter no certificate: float32 also for float64 data in CSR, unless float64 was chosen.
    smooth : bool
        Whether the loss is differentiable.
    free : bool array, shape (dim,), or None
        True for weights that `lam` and penalties leave out: the last one, the intercept, if `fit_intercept` is true.
    loss : ndarray, shape (K, K), or None
        Costs of labels; None if every wrong label costs 1.
    examples : Examples
        The data, for solvers that work on single examples.
    curve : tuple of float or None
        (low, high, linear, square, flat) of a piecewise linear or quadratic loss of one score, see `OneScore`.
    second_derivatives : ``second_derivatives(scores) -> (n_examples,)`` or None
        Second derivatives of a smooth loss by the only score of an example: the Hessian of R is `sum_i d_i x_i x_i'`.
        A risk with this method also has `dual_point`.
    label_sums : LabelSums or None
        Sums for classes whose rows have a last column of ones; intercepts may then be free.
    is_regression : bool
        `labels` are targets, which an intercept shifts.
    """

    n_examples: int
    n_features: int
    n_scores: int
    dim: int
    partition: str
    random_state: int

    loss = None
    curve: Curve | None = None
    second_derivatives: Any = None
    label_sums: Any = None
    is_regression = False

    @property
    def linear_risk(self) -> Self:
        """See `RiskBase`."""
        return self

    def _build(self, X, encode, n_parts, sample_weight, scale, bias, kind, random_state, precision, weigh,
               curve=None, target=None):
        self.examples: Examples = Examples(X, scale, bias)
        self.user_rows: Examples = self.examples
        self.n_examples = self.examples.n_examples
        self.n_features = self.examples.n_features
        y, self.n_scores, cost, loss = encode(self.n_examples)
        self.dim = self.n_scores * self.examples.width
        self.engine: Engine = Engine(
            self.examples.storage, y, weigh(sample_weight, self.n_examples), cost, self.examples.norms, self.n_features,
            self.n_scores, loss, self.examples.scale, self.examples.bias, curve,
            None if target is None else target(self.n_examples))
        self._single = self.examples.storage[0].dtype != np.float64
        self.partition, self.random_state = kind, check_integer("random_state", random_state, low=0)
        self._set_precision("float32" if precision is None else precision)
        self._group(n_parts)

    def _set_precision(self, precision):
        self.search_precision: str = check_choice("precision", precision, ("float32", "float64"))
        self.precision: str = precision if self._single else "float64"

    def _free_last(self, has_intercept):
        self.free: Array | None = np.arange(self.dim) == self.dim - 1 if has_intercept else None

    @property
    def means(self) -> Floats | None:
        """Weighted means of the columns and 0 for the intercept, shape (dim,); None without a free intercept."""
        if self.free is None:
            return None
        c, X, n = self.sample_weight, self.examples.X, self.n_examples
        step = SHARD_ROWS       # if rows are not float64, a product copies them; blocks keep the copy small
        sums = sum(X[k:k + step].T @ c[k:k + step] for k in range(0, n, step))
        return np.append(self.examples.scale * sums / max(float(c.sum()), 1e-300), 0.0)

    _of_parts = (*Partitioned._of_parts, "_sizes_of_parts", "slope_errors", "offset_errors", "_centred", "constant")

    def _shards_of(self, parts):
        return shards(parts)

    def _arguments(self, rows):
        return {"X": self.examples.X[rows], "y": self.labels[rows], "sample_weight": self.sample_weight[rows],
                "scale": self.examples.scale, "bias": self.examples.bias, "precision": self.search_precision}

    @property
    def _stratify(self):
        return self.engine.y_array

    @property
    def fingerprint(self) -> int:
        """A hash of data, labels, weights, loss and partition: equal for equal risks, also in another process."""
        engine, data = self.engine, self.examples
        arrays = (engine.y_array, engine.weight_array, engine.cost_array)
        words = (type(self).__name__, self.dim, data.fingerprint, self.partition, self.random_state)
        mark = 0
        for array in arrays:                # one by one: a joint copy would take most of the memory of a small run
            block: Any = np.ascontiguousarray(array)
            mark = crc32(block, mark)
        return crc32(repr(words).encode(), mark)

    def renewed(self, whole: bool = True) -> Self:
        """Return this risk, or a new one over the present data if they were changed in place.

        If not `whole`, only a sample of the rows is compared.
        """
        return self if self.examples.is_current(whole) else self._over(self.examples.X)

    def _over(self, X, shift=None):
        """Return the same risk over other rows X, with targets moved by a shift."""
        other, arguments = self.derive(), list(self.engine.__reduce__()[1])
        other.examples = Examples(X, self.examples.scale, self.examples.bias)
        arguments[0], arguments[4] = other.examples.storage, other.examples.norms
        if shift is not None and shift.target:
            arguments[-1] = arguments[-1] - shift.target
        other.engine, other.shift = Engine(*arguments), shift
        other.user_rows = other.examples if shift is None else self.examples
        vars(other).pop("label_sums", None)
        other._assign(other._parts)         # drops cached numbers of the old rows
        return other

    def centred(self) -> Self:
        """Return this risk in the coordinates of a `Shift` found from the data; unchanged if no intercept is free."""
        return self if self.free is None or self.shift is not None else self._centred

    @cached_property
    def _centred(self):
        can_copy = self.examples.scale == 1.0 and not self.is_mapped        # a mapped file is not read into memory
        # `locate` finds no column far from 0 if it gets no rows
        X = self.examples.X if can_copy else np.empty((0, self.n_features), np.uint8)
        shift = Shift.of([locate(X, self.labels if self.is_regression else None, self.sample_weight)])
        return self if shift is None else self.moved(shift)

    @cached_property
    def constant(self) -> Constant:
        """See `RiskBase`."""
        y, c = np.asarray(self.labels), self.sample_weight
        if self.n_scores > 1 or not c.any():
            return Constant()
        above, below = float(c[y > 0].sum()), float(c[y < 0].sum())
        far = 1.0 + (abs(float(np.log(above) - np.log(below))) if above > 0.0 and below > 0.0 else 0.0)
        low, high = (float(y[c > 0.0].min()), float(y[c > 0.0].max())) if self.is_regression else (-far, far)
        t, value = self.line_search(np.full((len(y), 1), low), np.full((len(y), 1), high), 0.0, 0.0)
        return Constant(low + t * (high - low), value, *self._steepness)

    def moved(self, shift: Any) -> Self:
        """Return this risk in the coordinates of a `Shift`; X is copied if columns of it are far from 0."""
        return self._over(shift.data(self.examples.X), shift)

    @cached_property
    def slope_errors(self) -> Floats:
        """Bound on the rounding error of any slope of each part in the Euclidean norm, shape (P,).

        A slope adds at most two rows for each example: first the rows of a shard are added, then the shards. Therefore
        `|error| <= gamma sqrt(2) sum_i c_i |x_i|` with `gamma = terms 2^-53`. The same bound holds for the slope
        `a - m a_b` of centred columns, with column means m and the entry a_b of the intercept.
        """
        terms = [min(len(rows), SHARD_ROWS) + len(rows) // SHARD_ROWS + 4 for rows in self._parts]
        return read_only(UNIT * np.array(terms) * self.slope_sizes)

    @property
    def slope_sizes(self) -> Floats:
        """Bound on the Euclidean norm of any slope a of each part, shape (P,), and of the centred slope `a - m a_b`.

        The bound is `sqrt(2) sum_i c_i |x_i|`, for classes or a free intercept `sqrt(2) sum_i c_i (|x_i| + |m|)`.
        """
        return np.sqrt(2.0) * self._sizes_of_parts

    @cached_property
    def _sizes_of_parts(self):
        """Sums of `c_i` times `_row_sizes` over each part, shape (P,)."""
        weighted = self.sample_weight * self._row_sizes
        return np.array([weighted[rows].sum() for rows in self._parts])

    @property
    def _row_sizes(self):
        """Bounds on |x_i|, or on |x_i| + |m| if intercepts may be free, since slopes are then centred to `a - m a_b`.

        The mean of |x_i| bounds |m|, the norm of the means of the columns.
        """
        sizes, c = self.examples.norms, self.sample_weight
        if self.free is None and self.label_sums is None:
            return sizes
        return sizes + float(sizes @ c) / max(float(c.sum()), 1e-300)

    @cached_property
    def offset_errors(self) -> Floats:
        """Bound on the relative rounding error of any offset of each part, shape (P,).

        Offsets are sums of losses >= 0 and therefore accurate to `terms 2^-53`; sums of integers have no error.
        """
        cost, c = self.loss, self.sample_weight
        is_whole = np.array_equal(c, np.floor(c)) and (cost is None or np.array_equal(cost, np.floor(cost)))
        if self._piecewise_linear and is_whole and (
                1.0 if cost is None else float(cost.max())) * float(c.sum()) < 2.0**53:
            return read_only(np.zeros(self.n_parts))
        terms = [min(len(rows), SHARD_ROWS) + len(rows) // SHARD_ROWS + 10 for rows in self._parts]
        return read_only(UNIT * np.array(terms))


    @property
    def is_mapped(self) -> bool:
        """Whether the data are a memory-mapped file, which is read fastest in the order of the rows."""
        return self.examples.is_mapped

    @property
    def labels(self) -> Array:
        """int32 labels, shape (n,): 0..K-1, or -1/+1 for binary risks."""
        return read_only(self.engine.y_array)

    @property
    def sample_weight(self) -> Floats:
        """Weights c_i, shape (n,)."""
        return self.engine.weight_array

    @property
    def has_exact_blocks(self) -> bool:
        """Whether the dual of one example can be maximised over all its labels; True for hinge losses."""
        return self._piecewise_linear

    def oracle(self) -> BatchOracle:
        """Return the `LinearOracle` of single examples: `solve`, `plane`."""
        return LinearOracle(self)

    # passes -----------------------------------------------------------------------------------------------

    def planes(self, w: ArrayLike) -> Planes:
        """Return one plane for each part, tight at w: O(nnz(X) K) flops, X is read once.

        In either precision, labels are those of float64 scores, and offsets and slopes are summed in float64. For
        piecewise linear losses the values are `offset + <slope, w>`, so that precisions and storages differ in
        speed only. A logistic risk in float32 is as accurate as its scores.
        """
        w = check_vector("w", w, self.dim)
        # all labels tie at w = 0, so float32 would score every row twice
        packed = self.engine.pack(w, self.precision if w.any() else "float64")
        engine = self.engine
        planes = self.sum_planes(lambda rows, slope: engine.planes(packed, rows, slope))
        if self._piecewise_linear:
            values = np.maximum(planes.offsets + planes.dot(w), 0.0)
            return planes._replace(values=values)
        return planes

    def values(self, w: ArrayLike) -> tuple[Floats, Floats]:
        """Return values (P,) as float64 sums of the losses, and a bound (P,) on the rounding error of each.

        `planes` returns `offset + <slope, w>`, which cancels if the risk is small against R(0), but a certificate
        needs a known error. A score sums d products in q lanes; barring underflow its error is at most about
        `1.02 (d / q + q + 9) 2^-53 |x_i| |w_k|`. Examples whose loss is 0 despite this error add no error.

        Returns
        -------
        values, errors : ndarray, shape (P,)
        """
        w = check_vector("w", w, self.dim)
        engine = self.engine
        packed = engine.pack(w, "float64")
        reach, shift = (error if self.n_scores == 1 else 2.0 * error for error in self._score_errors(w))
        values, errors = self._sums(lambda rows: engine.losses(packed, rows, reach, shift))
        terms = [min(len(rows), 65 + SHARD_ROWS // 64) + len(rows) // SHARD_ROWS + 4 for rows in self._parts]
        return values, 1.01 * errors + UNIT * np.array(terms) * values

    def _score_errors(self, w):
        """Return (reach, shift): a float64 score of x_i is wrong by at most `reach |x_i| + shift`.

        The weight of the constant feature has a term of its own, since it is large where columns are far from 0.
        """
        W, bias, unit = w.reshape(self.n_scores, -1), self.examples.bias, 1.02 * self.engine.score_terms * UNIT
        shift = 0.0
        if bias is not None:
            shift, W = unit * abs(bias) * float(np.abs(W[:, -1]).max()), W[:, :-1]
        return unit * float(np.sqrt(np.einsum("kj,kj->k", W, W).max())), shift

    def scores(self, w: ArrayLike, out: Array | None = None) -> Array:
        """Return S (n, K) with S[i] = W x_i, rows in the order of X, in the working precision float32 or float64.

        `out`, an array that an earlier call returned, is overwritten and returned.
        """
        w = check_vector("w", w, self.dim)
        packed = self.engine.pack(w, self.precision)
        S = out
        if S is None or S.dtype != packed.precision or S.shape != (self.n_examples, self.n_scores):
            S = np.empty((self.n_examples, self.n_scores), dtype=packed.precision)
        starts = range(0, self.n_examples, SHARD_ROWS)

        def shard(start):
            rows = np.arange(start, min(start + SHARD_ROWS, self.n_examples), dtype=np.intp)
            self.engine.scores(packed, rows, S[start:start + SHARD_ROWS])

        for _ in self.map_shards(shard, starts):
            pass
        return S

    def planes_at(self, S: Array) -> Planes:
        """Return planes at the point with scores S (any combination of `scores`); reads only rows with a loss.

        Labels and values are computed from S. Offsets and slopes belong to these labels, so that the planes are
        valid for any S.
        """
        S = self._check_scores("S", S)
        return self.sum_planes(lambda rows, slope: self.engine.planes_at(S, rows, slope))

    def line_search(self, S0: Array, S1: Array, a: float, b: float, upper: float = 1.0) -> tuple[float, float]:
        """Return the exact minimiser of `a t + b t^2 / 2 + R(S0 + t (S1 - S0))` over 0 <= t <= upper.

        Parameters
        ----------
        S0, S1 : ndarray, shape (n, K)
            Scores of both ends.
        a, b : float
            For F on the segment from w0 to w1: `a = lam <w0, w1 - w0>`, `b = lam |w1 - w0|^2 >= 0`.

        Returns
        -------
        t : float
            0 if the right derivative at 0 is not negative (a null step).
        value : float
            R at t, in float64.

        Notes
        -----
        With hinge losses a safeguarded secant method finds the zero of the monotone derivative. An example with the
        same label at both ends of the bracket is linear between them and leaves the search, so the cost is O(n K) in
        all, without a pass over X. The last pieces are searched from breakpoint to breakpoint. With other losses of one
        score t is the minimiser up to rounding, found in O(n) or, with the log-loss, by Newton steps.
        """
        S0, S1 = self._check_scores("S0", S0), self._check_scores("S1", S1)
        return self._on_line(S0, S1, check_number("a", a), check_number("b", b, low=0.0),
                             check_number("upper", upper, low=0.0))

    def _on_line(self, S0, S1, a, b, upper):
        if S0.dtype != S1.dtype:
            S0, S1 = S0.astype(np.float64), S1.astype(np.float64)
        return line_search(self.engine, S0, S1, a, b, upper, self.map_shards)

    # helpers ----------------------------------------------------------------------------------------------

    _piecewise_linear = True

    @property
    def _steepness(self):
        """Fields `linear` and `root` of `Constant`: a loss changes by at most t if its scores change by t."""
        return float(self.sample_weight.sum()), 0.0

    def _check_scores(self, name, S):
        S = np.asarray(S)
        if S.dtype != np.float32:
            S = np.asarray(S, dtype=np.float64)
        if S.shape != (self.n_examples, self.n_scores):
            raise ParameterError(f"{name} must have shape (n_examples, n_scores) = "
                                 f"({self.n_examples}, {self.n_scores}), got {S.shape}")
        if not np.isfinite(S).all():
            raise ParameterError(f"{name} must be finite, got NaN or infinity; leave out such examples")
        return contiguous(S)

    def sum_planes(self, work: Callable[..., Any]) -> Planes:
        """Return planes: the sums of `work(rows, slope) -> (value, offset)` over the shards, in their order."""
        planes = reduce_planes(work, self._shards, self.n_parts, self.dim, self.map_shards, self.examples.is_sparse,
                               self.dense_from)
        return planes._replace(slopes=self.examples.unscale(planes.slopes, self.n_scores))
