"""The risk of the one-class SVM: the sum of the smallest scores, for novelty detection."""

from __future__ import annotations

import copy
from typing import Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.labels import example_weights
from ..core.plane import Planes
from ..core.rounding import UNIT
from ..core.types import Data, Floats
from ..core.validation import check_number
from .partition import SHARD_ROWS, shards
from .sorted_scores import ScoredRows


class OneClass(ScoredRows):
    """Risk of the one-class SVM for novelty detection, whose threshold rho is eliminated.

        R(w) = min over rho of sum_i c_i max(0, rho - <w, x_i>) - nu C rho,   C = sum_i c_i
             = max over a of -sum_i a_i <w, x_i>   subject to 0 <= a_i <= c_i, sum_i a_i = nu C

    It is minus the sum of the smallest scores up to the weight nu C; the weight of the last of these examples is split.
    A new x is an outlier if `<w, x> < risk.threshold(w)`. R is a sum over examples and may be negative.

    Parameters
    ----------
    X : ndarray (float32, float64 or uint8) or CSR, shape (n, d)
        Read as it is, never copied; w has shape (d,).
    nu : float in (0, 1)
        Largest share of the examples, by weight, that lie below the threshold.
    sample_weight : array, shape (n,), optional
        Weights c_i >= 0, by default 1.

    Raises
    ------
    ParameterError, InputTypeError
        If X is not finite, nu is not between 0 and 1, or weights are negative or their sum is not finite.

    Notes
    -----
    With `lam = nu C` the objective is nu C times that of [Scholkopf et al. 2001] and `sklearn.svm.OneClassSVM`; the
    constants C and n agree without weights, so that `lam = nu` is the same with `scale="mean"`. The `coef_` of
    `OneClassSVM(kernel="linear")` is nu n times our w, its `offset_` nu n times our threshold. If a mean of examples
    with weights a_i is 0, as it often is for centred columns, the minimum is 0, at w = 0: no half-space holds the rest.

    The order of the scores couples the examples, so there is one part. A plane costs O(nnz(X) + n log n); its offset is
    0, its slope reads only the examples with a_i > 0. Scores, slopes and values are float64. `slope_errors` and
    `value_errors` count their rounding and that the computed a_i miss the sum nu C by up to `(n + 64) 2^-53 nu C`.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> risk = pb.risks.OneClass(np.array([[1.0], [2.0], [3.0], [4.0]]), nu=0.5)
    >>> risk.evaluate(np.array([1.0]))
    (array([-3.]), array([[-3.]]))
    >>> result = pb.minimize(risk, lam=0.5, scale="mean", tol=1e-9)
    >>> result.x.round(3), round(risk.threshold(result.x), 3)
    (array([1.5]), 3.0)
    """

    n_parts = 1
    sample_weight: Floats

    def __init__(self, X: Data, nu: float, sample_weight: ArrayLike | None = None) -> None:
        self.nu: float = check_number("nu", nu, low=0.0, strict=True, below=1.0)
        self._take(X)
        self.sample_weight = example_weights(sample_weight, self.n_examples)
        self.lower_bounds: Floats = np.full(1, -np.inf)
        with np.errstate(over="ignore"):
            self._mass = self.nu * float(self.sample_weight.sum())
            # `_size` bounds the sum of a_i |x_i|, `_miss` the error of the sum of a_i times the largest |x_i|
            self._size = 1.01 * float(self._share(-self.examples.norms)[0] @ self.examples.norms)
            self._miss = 1.01 * UNIT * (self.n_examples + 64.0) * self._mass * float(self.examples.norms.max())
        if not np.isfinite(self._mass + self._size + self._miss):
            raise ParameterError("sample_weight must have a finite sum, also times the norms of the rows of X, got "
                                 f"weights up to {self.sample_weight.max():g}; divide them by their mean")

    def _share(self, scores):
        """Return the maximiser a (n,), and the example at which the weights of the smallest scores sum to nu C."""
        c = self.sample_weight
        order = np.argsort(scores, kind="stable")
        sums = np.cumsum(c[order])
        k = min(int(np.searchsorted(sums, self._mass)), len(c) - 1)
        a, last = np.zeros(len(c)), order[k]
        a[order[:k]] = c[order[:k]]
        a[last] = min(self._mass - (sums[k - 1] if k else 0.0), c[last])
        return a, last

    def planes(self, w: ArrayLike) -> Planes:
        """Return the plane `<-X'a, v>` through the origin, tight at w: one pass over X, one sort."""
        scores = self._scores(w)
        a, _ = self._share(scores)
        rows = np.flatnonzero(a)
        return self._summed(-a, shards([rows]))._replace(values=_value(a[rows], scores[rows]))

    def evaluate(self, w: ArrayLike) -> tuple[Floats, Any]:
        """Return the value (1,) and a subgradient (1, dim) at w."""
        planes = self.planes(w)
        return planes.values, planes.slopes

    def values(self, w: ArrayLike) -> tuple[Floats, Floats]:
        """Return the value (1,) at w and a bound (1,) on its rounding error: one pass."""
        scores = self._scores(w)
        values = _value(self._share(scores)[0], scores)
        return values, self.value_errors(w, values)

    def value_errors(self, w: ArrayLike, values: ArrayLike) -> Floats:
        """Return a bound (1,) on the rounding error of the value that `evaluate` returned at w."""
        terms = self._rows.score_terms + np.log2(self.n_examples) + 28.0
        return np.array([1.01 * float(np.linalg.norm(w)) * (terms * UNIT * self._size + self._miss)])

    @property
    def slope_errors(self) -> Floats:
        """Bound on the rounding error of any slope in the Euclidean norm, shape (1,)."""
        terms = min(self.n_examples, SHARD_ROWS) + self.n_examples // SHARD_ROWS + 3.0
        return np.array([terms * UNIT * self._size + self._miss])

    @property
    def slope_sizes(self) -> Floats:
        """Bound on the Euclidean norm of any slope, shape (1,)."""
        return np.array([self._size])

    def threshold(self, w: ArrayLike) -> float:
        """Return rho, the score at which the weight nu C is reached: at most the share nu of the weight lies below it.

        The weight of scores up to rho, rho included, is at least nu C.
        """
        scores = self._scores(w)
        return float(scores[self._share(scores)[1]])

    @property
    def fingerprint(self) -> int:
        """A hash of data, weights and nu."""
        return crc32(repr((type(self).__name__, self.nu, self.examples.fingerprint)).encode(),
                     crc32(self.sample_weight.tobytes()))

    def renewed(self, whole: bool = True) -> Self:
        """Return this risk, or a new one over the present data if they were changed in place."""
        if self.examples.is_current(whole):
            return self
        return type(self)(self.examples.X, self.nu, self.sample_weight)

    def derive(self, n_parts: int | None = None, precision: str | None = None, executor: Any = None) -> Self:
        """Return the same risk with another executor; there is one part and one precision."""
        other: Any = copy.copy(super().derive(n_parts))
        if executor is not None:
            other.map_shards = executor.map
        return other


def _value(a, scores):
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array([-(a * scores).sum()])
