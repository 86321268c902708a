"""Newton steps of the primal-dual interior point method on some rows [Portnoy & Koenker 1997, Mehrotra 1992].

    min  sum_i max(lo_i r_i, hi_i r_i) + sum_j l2_j/2 (w_j - centre_j)^2 - <fixed, w>,      r = y - A w

Every row i has a residual r_i and a multiplier a_i in [lo_i, hi_i]. A penalty term `l1_j |w_j|` is one more row, with
the residual -w_j and the interval [-l1_j, l1_j]. A loss that is 0 on an interval about 0 needs two rows, one for each
side. With p = hi - a, m = a - lo and residuals split into u - v = r, a point of the central path solves

    u p = mu,     v m = mu,     u - v = y - A w,     A'a + fixed = l2 (w - centre).

A Newton step for these equations is

    (L2 + A'QA) dw = A'a + fixed - l2 (w - centre) + A'Qt,   da = Q (t - A dw),   Q = 1 / (u/p + v/m),
    t = r - mu/p + mu/m.

The predictor solves these equations with mu = 0. Its step shows how far mu can fall, and the size of the products of
two steps, which the linear equations neglect. The corrector uses this mu and these products, with the same matrix.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from .woodbury import wide_solver

INSIDE = 1e-3           # `thresholded` sets w_j to 0 if |multiplier of its l1 term| is below (1 - INSIDE) l1_j
SHARE = 0.9995          # a step goes this fraction of the way to the boundary of the feasible set
LEAST = 1e-15           # smaller distances hi - a and a - lo are raised to this fraction of hi - lo before divisions
BLOCK = 1 << 17         # A'QA is summed over blocks of rows with this many entries, which fit into the cache
RIDGES = 1e-14, 1e-11, 1e-8     # relative increases of the diagonal, tried in turn until the Cholesky factor exists


class Point(NamedTuple):
    """An iterate: weights w (d,), and for all N rows multipliers a, and u > 0 and v > 0 with u - v = r, shape (N,)."""

    w: np.ndarray
    a: np.ndarray
    u: np.ndarray
    v: np.ndarray


class Barrier:
    """The problem of the module docstring for some `Rows`; l1, l2, centre (dim,) describe the penalty.

    `held` (dim,) contains the values of weights that the penalty fixes, and NaN for all other weights. `fixed` (dim,)
    is the sum `A'a` over rows outside of this problem, whose multipliers stay constant.
    """

    def __init__(self, rows, l1, l2, centre, held, fixed=0.0):
        self.rows, self.l1, self.l2, self.centre, self.held, self.fixed = rows, l1, l2, centre, held, fixed
        self.columns, m = np.flatnonzero(np.isnan(held)), len(rows.y)
        self.sharp = self.columns[l1[self.columns] > 0.0]
        self._A = rows.A if len(self.columns) == rows.A.shape[1] else np.ascontiguousarray(rows.A[:, self.columns])
        sides = [(rows.y, rows.lo, rows.hi)] if rows.flat == 0.0 else [
            (rows.y - rows.flat, np.zeros(m), rows.hi), (rows.y + rows.flat, rows.lo, np.zeros(m))]
        sides.append((np.zeros(len(self.sharp)), -l1[self.sharp], l1[self.sharp]))
        self.y, self.lo, self.hi = (np.concatenate(parts) for parts in zip(*sides, strict=True))
        self.m, self.n_sides, self._known = m, len(sides) - 1, (None, None)

    def part(self, index, share, fixed=0.0):
        """Return the problem of the rows in `index`, with l1 and l2 multiplied by `share`."""
        return Barrier(self.rows.some(index), share * self.l1, share * self.l2, self.centre, self.held, fixed)

    def first(self, w=None):
        """Return the first iterate. Its weights are w or, if w is None, a least-squares solution."""
        if w is None:
            w = np.where(np.isnan(self.held), self.centre, self.held)
            ridge = 1e-3 * np.einsum("ij,ij->j", self._A, self._A) if len(self.columns) > self.m else 0.0
            with suppress(np.linalg.LinAlgError):
                solve = self._solver(np.ones(self.m), self.l2[self.columns] + ridge)
                w[self.columns] += solve(self.rows.transposed(self.rows.y - self.rows.product(w))[self.columns])
        r = self.residuals(w)
        e = 0.5 * float(np.abs(r).sum()) / max(len(r), 1) or 1.0
        a = np.where((self.lo < 0.0) & (self.hi > 0.0), 0.0, 0.5 * (self.lo + self.hi))
        return Point(w, a, np.maximum(r, 0.0) + e, np.maximum(-r, 0.0) + e)

    def _spread(self, w):
        # returns A w for all N rows, those of l1 terms included
        scores = self.rows.product(w)
        if self.n_sides == 1 and len(self.sharp) == 0:
            return scores
        return np.concatenate([*[scores] * self.n_sides, w[self.sharp]])

    def residuals(self, w):
        """Return the residuals r of all rows, shape (N,)."""
        return self.y - self._spread(w)

    def multipliers(self, a):
        """Return one multiplier for each example, shape (m,): the sum over the one or two rows of its loss."""
        return a[:self.m] if self.n_sides == 1 else a[:2 * self.m].reshape(2, self.m).sum(axis=0)

    def loss(self, r):
        """Return the sum of the losses of the examples at residuals r (N,)."""
        k = self.m * self.n_sides
        return float(np.maximum(self.lo[:k] * r[:k], self.hi[:k] * r[:k]).sum())

    def thresholded(self, point):
        """Return the weights, with w_j = 0 where the multiplier of `l1_j |w_j|` is well inside its interval.

        At the optimum such a weight is 0 by complementary slackness.
        """
        a, l1, w = point.a[self.m * self.n_sides:], self.hi[self.m * self.n_sides:], np.array(point.w)
        w[self.sharp[np.abs(a) < (1.0 - INSIDE) * l1]] = 0.0
        return w

    def known(self, point):
        """Return the residuals (N,), and `A'a` (dim,) summed over the examples; both are computed once for a point."""
        if self._known[0] is not point:
            self._known = point, (self.residuals(point.w), self.rows.transposed(self.multipliers(point.a)))
        return self._known[1]

    def gap(self, point):
        """Return the sum of all products u p and v m; it is the duality gap if the two linear equations hold."""
        return float(point.u @ (self.hi - point.a) + point.v @ (point.a - self.lo))

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def step(self, point):
        """Return the next iterate; raise LinAlgError if rounding errors prevent a step.

        If Q is large, rounding errors of r leave a residual in `A'a + fixed = l2 (w - centre)` after the step. One more
        solve removes the residual after a long step, but would move multipliers too close to limits after a short step.
        """
        (w, a, u, v), (r, slope), gap = point, self.known(point), self.gap(point)
        if not 0.0 < gap < np.inf:
            raise np.linalg.LinAlgError("no product is left to shrink")
        least, free = LEAST * (self.hi - self.lo), self.columns
        p, m = 1.0 / np.maximum(self.hi - a, least), 1.0 / np.maximum(a - self.lo, least)
        Q, D = 1.0 / (u * p + v * m), np.array(self.l2)
        D[self.sharp] += Q[self.m * self.n_sides:]
        solve, rest = self._solver(self.multipliers(Q), D[free]), self._rest(w, a, slope)
        dw, first, second, mu = np.zeros(len(w)), 0.0, 0.0, 0.0     # `first`, `second`: goals for u p and v m
        for is_last in (False, True):
            first, second = mu + first, mu + second
            t = r - first * p + second * m
            dw[free] = solve((rest + self._transposed(Q * t))[free])
            da = Q * (t - self._spread(dw))
            du, dv = (first + u * da) * p - u, (second - v * da) * m - v
            dual = 1.0 / max(1.0, (da * p).max(), -(da * m).min())
            primal = 1.0 / max(1.0, -(du / u).min(), -(dv / v).min())
            if not is_last:
                left = self.gap(Point(w, a + dual * da, u + primal * du, v + primal * dv)) / gap
                mu = min(max(left, 0.0), 1.0) ** 3 * gap / (2 * len(a))
                first, second = da * du, -da * dv
        dual, primal = (min(1.0, SHARE * x) for x in (dual, primal))
        if self.l2.any():       # with l2 the equation of the slopes contains w and a, so both need the same step length
            dual = primal = min(dual, primal)
        moved = w + primal * dw
        a = np.minimum(np.maximum(a + dual * da, self.lo), self.hi)
        if min(dual, primal) > 0.5:
            dw[free] = solve(self._rest(moved, a)[free])
            low, high = self.lo + 0.1 * (a - self.lo), self.hi - 0.1 * (self.hi - a)
            a = np.minimum(np.maximum(a - Q * self._spread(dw), low), high)
        u, v = (np.maximum(x + primal * dx, 1e-300) for x, dx in ((u, du), (v, dv)))
        if not all(np.isfinite(x).all() for x in (moved, a, u, v)):
            raise np.linalg.LinAlgError("the step is not finite")
        return Point(moved, a, u, v)

    def _transposed(self, a, slope=None):
        # returns A'a of all N rows; `slope`, if given, is the sum over the rows of examples
        slope = self.rows.transposed(self.multipliers(a)) if slope is None else np.array(slope)
        slope[self.sharp] += a[self.m * self.n_sides:]
        return slope

    def _rest(self, w, a, slope=None):
        # returns the residual of A'a + fixed = l2 (w - centre)
        return self._transposed(a, slope) + self.fixed - self.l2 * (w - self.centre)

    def _solver(self, Q, D):
        """Return a function that solves `(D + A'QA) x = b`."""
        d = self._A.shape[1]
        if d == 0:
            return lambda b: b
        if d > self.m > 0:
            return wide_solver(self._A, Q, D)
        M, root, size = np.zeros((d, d)), np.sqrt(Q)[:, None], max(256, BLOCK // max(d, 1))
        for first in range(0, self.m, size):
            x = root[first:first + size] * self._A[first:first + size]
            M += x.T @ x
        M[np.diag_indices(d)] += D + ((D == 0.0) & (np.diag(M) == 0.0))     # columns of zeros get a 1
        for ridge in RIDGES:
            factor, failed = dpotrf(M + np.diag(ridge * np.diag(M)), clean=False)
            if not failed:
                return lambda b: dpotrs(factor, b)[0]
        raise np.linalg.LinAlgError("the Newton system is singular")
