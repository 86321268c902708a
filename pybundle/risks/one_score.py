"""Risks with one score for each example and a loss of it: quantiles, absolute errors, Huber, squared hinge.

    R(w) = sum_i c_i l(s_i <w, x_i> - t_i),    l(u) = max over low <= beta <= high of beta u - h(beta),
    h(beta) = linear beta + square/2 beta^2 + flat |beta|

In regression s_i = 1 and t_i is the target; in classification s_i is the label and t_i = 0. A class sets five numbers,
its `curve`; values, planes, line search and error bounds follow from them.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.labels import example_weights, sign_labels
from ..core.plane import Planes
from ..core.rounding import UNIT
from ..core.types import Array, Data, Floats
from ..core.validation import check_number, check_vector
from .linear import Curve, LinearRisk, constant

CURVE = 3       # value of `Loss` in _engine.pxd


class OneScore(LinearRisk):
    """Base class of risks of one score; a subclass sets `curve` = (low, high, linear, square, flat) first.

    Attributes
    ----------
    curve : tuple of float
        Bounds of the multiplier beta, and the three coefficients of h.
    """

    curve: Curve
    is_regression = True
    oracle: Any = None
    _piecewise_linear = False
    _of_parts = (*LinearRisk._of_parts, "_norms_of_parts")
    _whole = None           # an excerpt keeps `_sizes_for_rounding` of the whole risk here

    def __init__(self, X: Data, y: ArrayLike, n_parts: int | None = None, *, sample_weight: ArrayLike | None = None,
                 scale: float = 1.0, fit_intercept: bool = False, partition: str = "strided", random_state: int = 0,
                 precision: str | None = None) -> None:
        if self.is_regression:
            labels, target = _ones, lambda n: np.array(check_vector("y", y, n))
        else:
            labels, target = lambda n: sign_labels(y, n, None), np.zeros
        self._assemble(X, labels, target, n_parts, sample_weight, scale, constant(fit_intercept), partition,
                       random_state, precision)

    def _assemble(self, X, labels, target, n_parts, sample_weight, scale, bias, partition, random_state, precision):
        self._build(X, lambda n: (labels(n), 1, None, CURVE), n_parts, sample_weight, scale, bias, partition,
                    random_state, precision, example_weights, self.curve, target)
        self.smooth: bool = self.curve[3] > 0.0
        self._free_last(bias is not None)

    @classmethod
    def _from_excerpt(cls, X, y, sample_weight, scale, bias, precision, curve, whole):
        risk = cls.__new__(cls)
        risk.curve, risk._whole = curve, whole
        labels, target = (_ones, lambda n: y) if cls.is_regression else (lambda n: y, np.zeros)
        risk._assemble(X, labels, target, None, sample_weight, scale, bias, "strided", 0, precision)
        risk.engine.offset_unit = whole[0]
        return risk

    @property
    def labels(self) -> Array:
        """Targets, float64, or labels -1/+1, int32; shape (n,)."""
        return self.engine.target_array if self.is_regression else self.engine.y_array

    @property
    def has_exact_blocks(self) -> bool:
        """True if the loss is not smooth: then block methods suit it, as the dual of an example has a closed form."""
        return not self.smooth

    @property
    def fingerprint(self) -> int:
        """A hash of what `LinearRisk` hashes, of the targets and of the curve."""
        return crc32(repr((super().fingerprint, self.curve)).encode(), crc32(self.engine.target_array))

    @property
    def _steepness(self):
        # if slopes beta have no fixed bound, R bounds them: `sum_i c_i beta_i^2 <= 2 R / square`
        total, steepest = float(self.sample_weight.sum()), float(max(np.abs(self.curve[:2])))
        return (total * steepest, 0.0) if np.isfinite(steepest) else (0.0, (2.0 * total / self.curve[3]) ** 0.5)

    # ------------------------------------------------------------------ rounding
    def planes(self, w: ArrayLike) -> Planes:
        w = check_vector("w", w, self.dim)
        return self._counted(super().planes(w), 1.01 * float(np.linalg.norm(w)) * self._sizes_for_rounding()[1])

    def planes_at(self, S: Array) -> Planes:
        S = self._check_scores("S", S)
        return self._counted(super().planes_at(S), float(np.abs(S).max(initial=0.0)))

    def _sizes_for_rounding(self):
        """Return offset unit, largest norm of a row and largest target; an excerpt returns those of the whole risk."""
        return self._whole or (self.engine.offset_unit, float(self.examples.norms.max()),
                               float(np.abs(self.engine.target_array).max(initial=0.0)))

    def _counted(self, planes, largest):
        """Return the planes with sharper slope errors if the loss is smooth; `largest` bounds the size of the scores.

        A loss is at least `square beta_i^2 / 2`, so `(sum_i c_i |beta_i x_i|)^2 <= 2 R / square sum_i c_i |x_i|^2`. The
        computed loss is wrong by at most 8 units of |beta_i u_i|, a unit being 2^-53. This error matters only if
        |beta_i| < 1000 units of u_i / square; `least` bounds such beta_i.
        """
        square, target = self.curve[3], self._sizes_for_rounding()[2]
        if square == 0.0:
            return planes
        least = 1e3 * UNIT * (largest + target + sum(np.abs(self.curve[2:]))) / square
        roots, sizes = self._norms_of_parts
        steepness = 1.01 * np.hypot(np.sqrt(2.1 / square * planes.values), roots * least) * sizes
        return planes._replace(slope_errors=self._errors_of(np.minimum(steepness, self._steepest)))

    @cached_property
    def _norms_of_parts(self):
        """Norms of `sqrt(c_i)` and of `sqrt(c_i)` times `_row_sizes` over each part, shape (P,) each."""
        roots, sizes = np.sqrt(self.sample_weight), self._row_sizes
        return (np.array([np.linalg.norm(roots[rows]) for rows in self._parts]),
                np.array([np.linalg.norm(roots[rows] * sizes[rows]) for rows in self._parts]))

    @property
    def _steepest(self):
        """Bound on `sum_i c_i |beta_i x_i|` of any plane of each part; infinite if the slopes beta_i are unbounded."""
        most = max(np.abs(self.curve[:2]))
        with np.errstate(over="ignore"):
            return most * self._sizes_of_parts if np.isfinite(most) else np.full(self.n_parts, np.inf)

    @property
    def slope_errors(self) -> Floats:
        return self._errors_of(self._steepest)

    def _errors_of(self, steepness):
        return 1.01 * self.engine.offset_unit * steepness * np.ones(self.n_parts)

    @property
    def slope_sizes(self) -> Floats | None:
        """Bound on the Euclidean norm of any slope of each part, shape (P,), or None if there is none."""
        return self._steepest if np.isfinite(self._steepest).all() else None

    @property
    def offset_errors(self) -> Floats:
        """Zeros, because each offset is lowered by its error when it is computed."""
        return np.zeros(self.n_parts)

    # ------------------------------------------------------------------ the loss
    def multipliers(self, scores: ArrayLike) -> Floats:
        """Return the slopes of the losses at scores `<w, x_i>`, shape (n,)."""
        return self._slopes(self.engine.y_array * check_vector("scores", scores, self.n_examples)
                            - self.engine.target_array)

    def _slopes(self, u):
        low, high, linear, square, flat = self.curve
        v = u - linear
        if square == 0.0:
            return np.where(v > flat, high, np.where(v < -flat, low, min(max(low, 0.0), high)))
        beta = np.sign(v) * np.maximum(np.abs(v) - flat, 0.0) / square
        return np.minimum(np.maximum(beta, low), high)

    def _losses(self, u):
        _, _, linear, square, flat = self.curve
        beta = self._slopes(u)
        return np.maximum(beta * u - (linear * beta + 0.5 * square * beta * beta + flat * np.abs(beta)), 0.0)

    def _on_line(self, S0, S1, a, b, upper):
        # The derivative rises and is piecewise linear. An example on the same piece at both ends of the bracket is on
        # it in between and leaves the search, which costs O(n) in all.
        S0, S1 = (S[:, 0].astype(np.float64) for S in (S0, S1))
        signs, c = self.engine.y_array, self.sample_weight
        u, step = signs * S0 - self.engine.target_array, signs * (S1 - S0)
        t = self._zero(u, step, c, a, b, upper)
        return t, float(c @ self._losses(u + t * step))

    def _zero(self, u, step, c, a, b, upper, max_trials=200):
        """Return the zero of the derivative along the segment, or an end of the segment if the derivative has none."""
        least, most, linear, square, flat = self.curve

        def pieces(slopes):
            if square == 0.0:       # each piece has a slope of its own
                return slopes
            inside = (slopes > least) & (slopes < most)
            return np.sign(slopes) * (1.0 + inside)

        at_low, at_high = self._slopes(u), self._slopes(u + upper * step)
        low, high = 0.0, upper
        first, last = a + (c * step) @ at_low, a + b * upper + (c * step) @ at_high
        if first >= 0.0 or upper == 0.0:
            return 0.0
        if last <= 0.0:
            return upper
        for trial in range(max_trials):
            if not high - low > 1e-200 * upper:     # in a shorter bracket `rise` below would overflow
                return low
            moves = pieces(at_low) != pieces(at_high)
            if not moves.all():
                # an example that stays on its piece has the slope s0 + (s1 - s0) (t - low) / (high - low) at t
                still, rise = ~moves, (at_high - at_low) / (high - low)
                weights = (c * step)[still]
                a += float(weights @ (at_low - rise * low)[still])
                b += float(weights @ rise[still])
                u, step, c, at_low, at_high = (array[moves] for array in (u, step, c, at_low, at_high))
            if len(u) == 0:
                return float(np.clip(-a / b, low, high)) if b > 0.0 else low
            middle, secant = 0.5 * (low + high), low - first * (high - low) / (last - first)
            trials = (middle if trial % 3 == 2 else secant,)
            if len(u) == 1 and square == 0.0:       # the zero is at a corner of this loss, up to rounding
                corners = [(linear + side - float(u[0])) / float(step[0]) for side in (-flat, flat)]
                trials = [corner + ulps * math.ulp(corner) for corner in corners for ulps in (-4.0, 4.0)]
            t = next((t for t in trials if low < t < high), middle)
            if not low < t < high:
                return high if abs(last) < abs(first) else low
            at_t = self._slopes(u + t * step)
            value = a + b * t + float((c * step) @ at_t)
            if value == 0.0:
                return t
            if value < 0.0:
                low, first, at_low = t, value, at_t
            else:
                high, last, at_high = t, value, at_t
        return low

    def _arguments(self, rows):
        return super()._arguments(rows) | {"curve": self.curve, "whole": self._sizes_for_rounding()}


class Pinball(OneScore):
    """Pinball risk: R(w) = sum_i c_i max(q u_i, (q - 1) u_i) with u_i = y_i - <w, x_i> and the quantile q.

    Its minimiser predicts the quantile q of y given x [Koenker & Bassett 1978].

    Parameters
    ----------
    X, n_parts, sample_weight, scale, partition, random_state, precision
        As in `MulticlassHinge`; w has shape (d,), or (d + 1,) with an intercept.
    y : array, shape (n,)
        Targets, finite.
    quantile : float in (0, 1), default 0.5
        Each quantile has weights of its own; `QuantileRegressor` takes several.
    fit_intercept : bool, default False
        Adds an intercept, the last weight, which `lam` and penalties leave free.

    Raises
    ------
    ParameterError, InputTypeError
        If X, y or weights are not finite or do not fit together, if weights are negative, or an option is out of its
        range.

    Notes
    -----
    A pass costs O(nnz(X)) and reads X once. This and the errors hold for the other losses of one score, too.

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.risks import Pinball
    >>> risk = Pinball(np.array([[2.0], [1.0]]), [1.0, -1.0], quantile=0.8)
    >>> risk.evaluate(np.array([1.0]))[0]
    array([0.6])
    """

    def __init__(self, X: Data, y: ArrayLike, quantile: float = 0.5, n_parts: int | None = None, *,
                 sample_weight: ArrayLike | None = None, scale: float = 1.0, fit_intercept: bool = False,
                 partition: str = "strided", random_state: int = 0, precision: str | None = None) -> None:
        if isinstance(quantile, (list, tuple, np.ndarray)) and getattr(quantile, "ndim", 1) > 0:
            raise ParameterError("quantile must be one number, as each quantile has weights of its own, got "
                                 f"{len(quantile)}; make a risk for each, or use pb.QuantileRegressor(quantile=[...])")
        self.quantile: float = check_number("quantile", quantile, low=0.0, strict=True, below=1.0)
        self.curve: Curve = -self.quantile, 1.0 - self.quantile, 0.0, 0.0, 0.0
        super().__init__(X, y, n_parts, sample_weight=sample_weight, scale=scale, fit_intercept=fit_intercept,
                         partition=partition, random_state=random_state, precision=precision)


class Absolute(OneScore):
    """Absolute errors: R(w) = sum_i c_i |<w, x_i> - y_i|.

    Parameters
    ----------
    X, y, n_parts, sample_weight, scale, fit_intercept, partition, random_state, precision
        As in `Pinball`.

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.risks import Absolute
    >>> Absolute(np.array([[2.0], [1.0]]), [1.0, -1.0]).evaluate(np.array([1.0]))[0]
    array([3.])
    """

    curve: Curve = -1.0, 1.0, 0.0, 0.0, 0.0


class EpsilonInsensitive(OneScore):
    """Risk of support vector regression: R(w) = sum_i c_i max(0, |<w, x_i> - y_i| - epsilon).

    Parameters
    ----------
    X, y, n_parts, sample_weight, scale, fit_intercept, partition, random_state, precision
        As in `Pinball`.
    epsilon : float >= 0, default 0.1
        Errors up to this are free.

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.risks import EpsilonInsensitive
    >>> risk = EpsilonInsensitive(np.array([[2.0], [1.0]]), [1.0, -1.0], 0.5)
    >>> risk.evaluate(np.array([1.0]))[0]
    array([2.])
    """

    def __init__(self, X: Data, y: ArrayLike, epsilon: float = 0.1, n_parts: int | None = None, *,
                 sample_weight: ArrayLike | None = None, scale: float = 1.0, fit_intercept: bool = False,
                 partition: str = "strided", random_state: int = 0, precision: str | None = None) -> None:
        self.epsilon: float = check_number("epsilon", epsilon, low=0.0)
        self.curve: Curve = -1.0, 1.0, 0.0, 0.0, self.epsilon
        super().__init__(X, y, n_parts, sample_weight=sample_weight, scale=scale, fit_intercept=fit_intercept,
                         partition=partition, random_state=random_state, precision=precision)


class Parabola(OneScore):
    """Base class of smooth losses: a parabola in the middle, lines outside."""

    def second_derivatives(self, scores: ArrayLike) -> Floats:
        """Return the second derivatives of the losses at scores `<w, x_i>`, shape (n,), 0 where they are linear."""
        beta = self.multipliers(scores)
        return np.where((beta > self.curve[0]) & (beta < self.curve[1]), self.sample_weight / self.curve[3], 0.0)

    def dual_point(self, beta: ArrayLike) -> tuple[Floats, float]:
        """Return multipliers (n,), made feasible, and the offset of their plane, less its rounding error.

        `R(w) >= offset + sum_i beta_i s_i <w, x_i>`; the offset sums `-beta_i t_i - c_i h(beta_i / c_i)`. For targets
        s_i = 1 and t_i = y_i, for labels s_i = y_i and t_i = 0; h is the conjugate of the loss at t_i = 0.
        """
        low, high, linear, square, flat = self.curve
        c = np.where(self.sample_weight > 0.0, self.sample_weight, 1.0)
        low, high = np.nextafter(c * low, 0.0), np.nextafter(c * high, 0.0)
        b = np.where(self.sample_weight > 0.0, np.clip(check_vector("beta", beta, self.n_examples), low, high), 0.0)
        terms = [(linear + self.engine.target_array) * b, 0.5 * square * b * (b / c)]
        terms = np.concatenate([*terms, flat * np.abs(b)] if flat else terms)
        return b, float(-np.sum(terms) - 128.0 * UNIT * np.sum(np.abs(terms)))


class Huber(Parabola):
    """Huber risk: R(w) = sum_i c_i l(<w, x_i> - y_i), l(u) = u^2/2 for |u| <= delta, else delta (|u| - delta/2).

    Smooth. Errors and costs are those of `Pinball`.

    Parameters
    ----------
    X, y, n_parts, sample_weight, scale, fit_intercept, partition, random_state, precision
        As in `Pinball`.
    delta : float > 0, default 1
        The error from which the loss is linear.

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.risks import Huber
    >>> Huber(np.array([[2.0], [1.0]]), [1.0, -1.0], delta=1.0).evaluate(np.array([1.0]))[0]
    array([2.])
    """

    def __init__(self, X: Data, y: ArrayLike, delta: float = 1.0, n_parts: int | None = None, *,
                 sample_weight: ArrayLike | None = None, scale: float = 1.0, fit_intercept: bool = False,
                 partition: str = "strided", random_state: int = 0, precision: str | None = None) -> None:
        self.delta: float = check_number("delta", delta, low=0.0, strict=True)
        self.curve: Curve = -self.delta, self.delta, 0.0, 1.0, 0.0
        super().__init__(X, y, n_parts, sample_weight=sample_weight, scale=scale, fit_intercept=fit_intercept,
                         partition=partition, random_state=random_state, precision=precision)


class SquaredHinge(Parabola):
    """Squared hinge risk: R(w) = sum_i c_i max(0, 1 - y_i <w, x_i>)^2 / 2. Smooth.

    Errors and costs are those of `Pinball`.

    Parameters
    ----------
    X, n_parts, sample_weight, scale, fit_intercept, partition, random_state, precision
        As in `Pinball`.
    y : array, shape (n,)
        -1/+1 or 0/1.

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.risks import SquaredHinge
    >>> SquaredHinge(np.array([[2.0], [1.0]]), [1, -1]).evaluate(np.array([0.25]))[0]
    array([0.90625])
    """

    curve: Curve = -np.inf, 0.0, 1.0, 1.0, 0.0
    is_regression = False


def _ones(n):
    return np.ones(n, dtype=np.int32)
