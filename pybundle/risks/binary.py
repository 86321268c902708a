"""Risks of binary labels with one score for each example: hinge and logistic loss."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from ..core.exceptions import ParameterError
from ..core.labels import example_weights, sign_labels
from ..core.protocols import Constant
from ..core.rounding import UNIT
from ..core.types import Data, Floats
from ..core.validation import check_vector, integer_array, real_numbers
from .linear import Curve, LinearRisk, constant
from .partition import SHARD_ROWS


class _Binary(LinearRisk):
    """Base class of risks with one score for each example and labels -1/+1; `_loss` is a `Loss` of the engine."""

    _loss: int | None = None
    n_classes = 2

    def __init__(self, X: Data, y: ArrayLike, n_parts: int | None = None, *, sample_weight: ArrayLike | None = None,
                 scale: float = 1.0, bias: float | None = None, partition: str = "strided", random_state: int = 0,
                 precision: str | None = None, n_classes: int | None = None, fit_intercept: bool = False) -> None:
        one = constant(fit_intercept)
        if one is not None and bias is not None:
            raise ParameterError(f"bias must be None with fit_intercept=True, got {bias!r}; a bias is penalised")
        self._build(X, lambda n: (sign_labels(y, n, n_classes), 1, None, self._loss), n_parts, sample_weight, scale,
                    bias if one is None else one, partition, random_state, precision, example_weights)
        self._free_last(fit_intercept)

    @classmethod
    def _from_excerpt(cls, X, y, sample_weight, scale, bias, precision, fit_intercept):
        # checks of whole data are skipped: labels are -1/+1 already, and one of them may be absent here
        risk = cls.__new__(cls)
        risk._build(X, lambda n: (y, 1, None, cls._loss), None, sample_weight, scale, bias, "strided", 0, precision,
                    example_weights)
        risk._free_last(fit_intercept)
        return risk

    def _arguments(self, rows):
        return super()._arguments(rows) | {"fit_intercept": self.free is not None}


class BinaryHinge(_Binary):
    """Binary hinge risk: R(w) = sum_i c_i max(0, 1 - y_i <w, x_i>).

    Parameters
    ----------
    X, n_parts, sample_weight, scale, bias, partition, random_state, precision
        As in `MulticlassHinge`; w has shape (d,), or (d + 1,) with `bias`.
    y : array, shape (n,)
        -1/+1 or 0/1.
    n_classes : int, optional
        2 if one class may be absent from y, for example because X, y are only some of the data.
    fit_intercept : bool, default False
        Adds an intercept, the last weight, which `lam` and penalties leave free; `bias` adds one that is penalised.

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.risks import BinaryHinge
    >>> BinaryHinge(np.array([[2.0], [1.0]]), [1, -1]).evaluate(np.array([0.25]))[0]
    array([1.75])
    """

    _loss = 1
    curve: Curve = -1.0, 0.0, 1.0, 0.0, 0.0

    @cached_property
    def constant(self) -> Constant:
        """See `RiskBase`; the best constant score is the label of larger weight, at which each other loss is 2."""
        y, c = self.labels, self.sample_weight
        above, below = float(c[y > 0].sum()), float(c[y < 0].sum())
        return Constant(float(np.sign(above - below)), 2.0 * min(above, below), *self._steepness)

    def _decode(self, y, scores):
        margin = y * scores[:, 0]
        return (margin < 1.0).astype(np.int64), np.maximum(1.0 - margin, 0.0)

    def _labellings(self, label, coef):
        """Return labellings from the labels and coefficients of the engine."""
        return (coef != 0.0).astype(np.int64)

    def _linearise(self, y, labellings):
        active = self._checked(np.asarray(labellings)).astype(np.float64)
        return active, np.zeros((len(y), 1), np.int32), (-active * y)[:, None]

    def _checked(self, labellings):
        labels = integer_array("labelling", labellings)
        if ((labels < 0) | (labels > 1)).any():
            raise ParameterError("labelling must be 1 (the loss counts) or 0 (it does not), got "
                                 f"{labels[(labels < 0) | (labels > 1)][0]}")
        return labels.astype(np.int64, copy=False)


class Logistic(_Binary):
    """Logistic risk: R(w) = sum_i c_i log(1 + exp(-y_i <w, x_i>)), smooth and positive.

    Offsets are sums of `r_i - r_i' <w, x_i>` = c_i times the entropy of the predicted label, in a form
    without cancellation. In float32, values and planes belong to the rounded scores: the planes are valid,
    the values have the rounding error of float32.

    Parameters
    ----------
    X, y, n_parts, sample_weight, scale, bias, partition, random_state, precision, n_classes, \
fit_intercept
        As in `BinaryHinge`.

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.risks import Logistic
    >>> Logistic(np.array([[2.0], [1.0]]), [1, -1]).evaluate(np.zeros(1))[0].round(4)
    array([1.3863])
    """

    _loss = 2
    _piecewise_linear = False
    smooth = log_loss = True

    def value_errors(self, w: ArrayLike, values: Floats) -> Floats:
        """Bound the rounding errors (P,) of `values`, returned by `evaluate` at w in float64.

        A loss changes by no more than its score, and is computed from it with a few roundings.
        """
        reach, shift = self._score_errors(np.asarray(w))
        weighted = (reach * self.examples.norms + shift) * self.sample_weight
        terms = [min(len(rows), SHARD_ROWS) + len(rows) // SHARD_ROWS + 10 for rows in self._parts]
        scores = np.array([weighted[rows].sum() for rows in self._parts])
        return 1.01 * scores + UNIT * np.array(terms) * values

    def multipliers(self, scores: ArrayLike) -> Floats:
        """Return the slopes of the losses by `y_i <w, x_i>` at scores `<w, x_i>`, shape (n,)."""
        return -expit(-self.labels * check_vector("scores", scores, self.n_examples))

    def second_derivatives(self, scores: ArrayLike) -> Floats:
        """Return the second derivatives of the losses at scores `<w, x_i>`, shape (n,)."""
        p = expit(-np.abs(check_vector("scores", scores, self.n_examples)))     # probability of the less likely label
        return self.sample_weight * p * (1.0 - p)

    def dual_point(self, beta: ArrayLike) -> tuple[Floats, float]:
        """Return multipliers (n,), made feasible, and the offset of their plane, less its rounding error.

        `R(w) >= offset + sum_i beta_i y_i <w, x_i>` for `-c_i <= beta_i <= 0`; the offset is c_i times an entropy.
        """
        c = self.sample_weight
        b = np.minimum(np.maximum(-check_vector("beta", beta, self.n_examples), 0.0), c)
        inside = (b > 0.0) & (b < c)
        p, q = b[inside], (c - b)[inside]
        # q / p may be infinite for a tiny p; a smaller quotient only lowers the offset
        with np.errstate(over="ignore"):
            offset = float(np.sum(p * np.log1p(np.minimum(q / p, 1e300)) + q * np.log1p(p / q)))
        return -b, offset * (1.0 - 128.0 * UNIT)

    def _decode(self, y, scores):
        return scores[:, 0], np.logaddexp(0.0, -y * scores[:, 0])

    def _linearise(self, y, labellings):
        margin = y * self._checked(np.asarray(labellings))
        tail = np.exp(-np.abs(margin))
        # equals value + margin p, in a form without cancellation
        offsets = np.log1p(tail) + np.abs(margin) * tail / (1.0 + tail)
        return offsets, np.zeros((len(y), 1), np.int32), (-y * expit(-margin))[:, None]

    def _checked(self, labellings):
        scores = real_numbers("labelling must be a score <w, x_i>", labellings)
        if not np.isfinite(scores).all():
            raise ParameterError(f"labelling must be a finite number, got {scores[~np.isfinite(scores)][0]}")
        return scores

    def _on_line(self, S0, S1, a, b, upper):
        # finds the zero of the monotone derivative by Newton steps, or by bisection if a step leaves the bracket
        S0, S1 = (S[:, 0].astype(np.float64) for S in (S0, S1))
        margin, step, c = self.labels * S0, self.labels * (S1 - S0), self.sample_weight

        def derivatives(t):
            p = expit(-(margin + t * step))
            # if the curvature is infinite, the Newton step is 0 and the bracket is halved
            with np.errstate(over="ignore"):
                return a + b * t - (c * step) @ p, b + (c * step) @ (step * (p * (1.0 - p)))

        low, high, t = 0.0, upper, 0.0
        if derivatives(0.0)[0] < 0.0:
            t = upper
            if derivatives(upper)[0] > 0.0:
                t = 0.0
                for _ in range(100):
                    first, second = derivatives(t)
                    low, high = (t, high) if first < 0.0 else (low, t)
                    newton = t - first / second if second > 0.0 else low
                    following = newton if low < newton < high else 0.5 * (low + high)
                    if abs(following - t) <= 1e-15 * upper or first == 0.0:
                        break
                    t = following
        return t, float(c @ np.logaddexp(0.0, -(margin + t * step)))
