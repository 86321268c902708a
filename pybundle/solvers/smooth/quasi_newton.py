"""Quasi-Newton steps on any smooth function: pairs of steps and changes of the gradient, directions, line searches.

The callers, `lbfgs.py` and `mkl/descent.py`, evaluate the function themselves, one trial at a time. Bounds are met by
projection [Bertsekas 1982]: coordinates that the gradient pushes against their bound are fixed, pairs restricted to the
other coordinates give the direction of these, and trials are projected. With an l1 norm, trials stay in the orthant of
the iterate, where the norm is linear [Andrew & Gao 2007]. Unlike that paper, the code uses a Wolfe search, and does not
align the signs of directions with the gradient.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from ...core.kept import Kept, check_array, check_float
from ..problem.coordinates import inner
from .wolfe import WolfeSearch


class Orthants(NamedTuple):
    """Bounds and an l1 norm `sum_k l1_k |x_k|`; `at` returns the box around a point in which the norm is linear.

    Attributes
    ----------
    l1, lower, upper : float or ndarray, broadcast to the shape of x

    Examples
    --------
    >>> import numpy as np
    >>> orthants = Orthants(l1=1.0)
    >>> orthants.at(np.array([2.0, 0.0, 0.0]), np.array([0.0, 3.0, 0.5]))      # lower, upper, slopes of the norm
    (array([  0., -inf,   0.]), array([inf,  0.,  0.]), array([ 1., -1.,  0.]))
    """

    l1: Any = 0.0
    lower: Any = -np.inf
    upper: Any = np.inf

    def at(self, x, gradient):
        """Return the limits (lower, upper) of the box of x, and the slopes of the l1 norm in that box.

        `gradient` is that of the smooth part. The box of a coordinate 0 lies on the side on which F decreases; if F
        decreases on neither side, the coordinate is fixed at 0.
        """
        if not np.any(self.l1):
            return self.lower, self.upper, 0.0
        leaving = np.where(gradient + self.l1 < 0.0, 1.0, np.where(gradient - self.l1 > 0.0, -1.0, 0.0))
        sign = np.where(x == 0.0, leaving, np.sign(x))
        has_no_l1 = np.equal(self.l1, 0.0)
        lower = np.where(has_no_l1 | (sign < 0.0), self.lower, np.maximum(self.lower, 0.0))
        upper = np.where(has_no_l1 | (sign > 0.0), self.upper, np.minimum(self.upper, 0.0))
        return lower, upper, self.l1 * sign


class QuasiNewtonSteps(Kept):
    """The iterate x of limited-memory BFGS, its pairs, and the line search in progress.

    Parameters
    ----------
    pairs : Pairs
    orthants : Orthants or None
        Bounds and l1 norm of the objective, if there are any.
    rounding : float
        Relative rounding error of values.

    Attributes
    ----------
    x, fun, gradient : ndarray, float, ndarray
        The iterate, its value, and the gradient of the smooth part.

    Examples
    --------
    >>> import numpy as np
    >>> steps = QuasiNewtonSteps(Pairs(room=3, lam=1.0))
    >>> steps.begin(np.zeros(2), 4.5, np.array([-1.0, -4.0]))       # (x_0 - 1)^2 / 2 + (x_1 - 2)^2
    >>> while (x := steps.trial(lambda slope: (1.0, 10.0))) is not None:
    ...     fun, gradient = 0.5 * (x[0] - 1.0) ** 2 + (x[1] - 2.0) ** 2, np.array([x[0] - 1.0, 2.0 * (x[1] - 2.0)])
    ...     if not steps.update(x, fun, gradient):
    ...         break
    >>> steps.x.round(6)
    array([1., 2.])
    """

    kept = ("pairs", "rounding", "x", "fun", "gradient", "_line_search", "_direction", "_moving", "_lower", "_upper",
            "_l1_slopes")

    def __init__(self, pairs, orthants=None, rounding=1e-12):
        self.pairs, self.orthants, self.rounding = pairs, orthants, rounding
        self._line_search, self._lower, self._upper, self._l1_slopes = None, -np.inf, np.inf, 0.0
        self._direction = self._moving = None

    def begin(self, x, fun, gradient):
        """Make x the iterate, with its value and gradient; the pairs are kept."""
        self.x, self.fun, self.gradient, self._line_search = x, fun, gradient, None

    def trial(self, first):
        """Return the next point to evaluate, or None if no descent is left.

        `first(slope)` returns the first step along a direction with the derivative `slope`, and the largest factor
        between two trials.
        """
        if self._line_search is None and not self._aim(first):
            return None
        x = self.x + self._line_search.step * self._direction
        self._moving = self._direction
        if self.orthants is not None:
            clipped = np.minimum(np.maximum(x, self._lower), self._upper)
            self._moving, x = np.where(x == clipped, self._direction, 0.0), clipped
        return x

    def update(self, x, fun, gradient):
        """Receive value and gradient at the trial x, which is the next iterate if it meets the Wolfe conditions.

        If the search fails, the pairs are removed. Return False if it fails without pairs, along steepest descent.
        """
        whole = gradient if self.orthants is None else gradient + self._l1_slopes
        if self._line_search.update(fun, inner(whole, self._moving)):
            self.pairs.add(x - self.x, gradient - self.gradient)
            self.begin(x, fun, gradient)
        elif self._line_search.has_failed:
            self._line_search = None
            if len(self.pairs) == 0:
                return False
            self.pairs.clear()
        return True

    def restore(self, arrays):
        if arrays["_line_search"] is not None:
            self._line_search = WolfeSearch(0.0, -1.0, 1.0)
        super().restore(arrays)

    def check(self, shape):
        """Raise ValueError if an array does not have this shape."""
        vectors = {"x": self.x, "gradient": self.gradient}
        if self._line_search is not None:
            vectors |= {"direction": self._direction, "moving": self._moving}
        for name, vector in vectors.items():
            check_array(name, vector, shape)

    def _aim(self, first):
        """Set direction and line search from x; return False if there is no direction of descent."""
        gradient, resting = self.gradient, None
        if self.orthants is not None:
            self._lower, self._upper, self._l1_slopes = self.orthants.at(self.x, gradient)
            gradient = gradient + self._l1_slopes
            at_lower, at_upper = self.x <= self._lower, self.x >= self._upper
            resting = (at_lower & (gradient >= 0.0)) | (at_upper & (gradient <= 0.0))
        while True:
            self._direction = self._moving = self.pairs.direction(gradient, resting)
            if resting is not None:
                self._direction[(at_lower & (self._direction < 0.0)) | (at_upper & (self._direction > 0.0))] = 0.0
            slope = inner(gradient, self._direction)
            if slope < 0.0:
                break
            if len(self.pairs) == 0:
                return False
            self.pairs.clear()          # rounding errors have spoiled the pairs
        self._line_search = WolfeSearch(self.fun, slope, *first(slope), self.rounding)
        return True


class Pairs(Kept):
    """The last steps s and changes y of the gradient of F, at most `room` pairs, which define directions.

    As y = a' - a + lam s for slopes a, a' of the risk, pairs for one lam can be converted to any other lam.

    Parameters
    ----------
    room : int
    lam : float or ndarray, shape (dim,)
        Coefficients of `w_j^2 / 2` in F.
    curvatures : float or ndarray, shape (dim,) or (d, d)
        Approximate second derivatives of F, if they differ much between coordinates; only their ratios matter. A matrix
        is a Cholesky factor L; `L L'` approximates the Hessian of each class, that is of each d entries of a point.

    Notes
    -----
    Points and gradients are vectors, or have two rows as `inner` of `solvers.problem` explains.

    Examples
    --------
    >>> import numpy as np
    >>> pairs = Pairs(room=3, lam=1.0)
    >>> for s in np.eye(2):                         # F(w) = 2 |w|^2
    ...     pairs.add(s, 4.0 * s)
    >>> pairs.direction(np.array([4.0, -8.0]))
    array([-1.,  2.])
    """

    kept = "_pairs", "curvatures"

    def __init__(self, room, lam, curvatures=1.0):
        self.room, self.lam, self.curvatures, self._pairs = room, lam, curvatures, []

    def __len__(self) -> int:
        return len(self._pairs)

    def check(self, dim):
        """Raise ValueError if a pair does not have this dimension."""
        scales = self.curvatures
        if np.ndim(scales) == 2:
            check_array("curvatures", scales, (math.gcd(dim, len(scales)),) * 2)
            scales = np.tile(np.diag(scales), dim // len(scales))
        check_array("curvatures", np.broadcast_to(scales, (dim,)), (dim,), low=1e-300)
        for s, y, product in self._pairs:
            check_array("a step", s, (dim,))
            check_array("a change", y, (dim,))
            check_float("a product", product, 0.0)

    def add(self, s, y):
        """Add a pair, which replaces the oldest if there is no room; a pair with negligible `<s, y>` is ignored."""
        product = inner(s, y)
        square = abs(inner(y, y))
        if square > 0.0 and product > 1e-14 * math.sqrt(abs(inner(s, s))) * math.sqrt(square):
            self._pairs = [*self._pairs, (s, y, product)][-self.room:]

    def clear(self):
        """Remove all pairs."""
        self._pairs = []

    def moved(self, lam, room, curvatures=1.0):
        """Return these pairs, converted to another lam."""
        other = type(self)(room, lam, curvatures)
        for s, y, _ in self._pairs:
            other.add(s, y if np.array_equal(lam, self.lam) else y + (lam - self.lam) * s)
        return other

    def direction(self, gradient, resting=None):
        """Return `-B gradient` by two loops over the pairs, O(len(self) dim) [Nocedal 1980].

        `resting` (bool (dim,), or None) marks fixed coordinates, which get 0; pairs are restricted to all others.
        """
        if resting is not None and resting.any():
            moves, whole = np.flatnonzero(~np.atleast_2d(resting)[0]), np.zeros_like(gradient)
            pairs = ((s[..., moves], y[..., moves]) for s, y, _ in self._pairs)
            pairs = [(s, y, product) for s, y in pairs if (product := inner(s, y)) > 0.0]
            curvatures = self.curvatures if np.ndim(self.curvatures) == 0 else self.curvatures[moves]
            whole[..., moves] = self._recursion(pairs, -gradient[..., moves], curvatures)
            return whole
        return self._recursion(self._pairs, -gradient, self.curvatures)

    @staticmethod
    def _recursion(pairs, d, curvatures):
        weights, scratch = [], np.empty_like(d)         # one array for all products, as new arrays double the cost
        for s, y, product in reversed(pairs):
            weights.append(inner(s, d) / product)
            d -= np.multiply(y, weights[-1], out=scratch)
        if pairs:
            _, y, product = pairs[-1]
            d *= product / max(inner(y, _divided(y, curvatures)), 1e-300)       # squares may underflow
        d = _divided(d, curvatures)
        for (s, y, product), weight in zip(pairs, reversed(weights), strict=True):
            d += np.multiply(s, weight - inner(y, d) / product, out=scratch)
        return d


def _divided(v, curvatures):
    if np.ndim(curvatures) < 2:
        return v / curvatures
    return cho_solve((curvatures, True), v.reshape(-1, len(curvatures)).T, check_finite=False).T.ravel()
