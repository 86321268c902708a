"""Certified multiple kernel learning of smooth risks: quasi-Newton steps on functions and kernel weights together.

    lam/2 (sum_k |theta_k|)^2 = min lam/2 |u|^2 |v|^2   over all u, v with theta_k = v_k u_k,   v_k a number,

by Cauchy-Schwarz, so F is the minimum of the smooth G(u, v) = lam/2 |u|^2 |v|^2 + R(v_1 u_1, ..., v_p u_p). G is not
convex, but a point other than u = 0 where its gradient is 0 and its Hessian has no negative eigenvalue is a minimum of
F: the gradient gives `|phi_k| = lam |u| |v|` for each group with v_k not 0, the Hessian `|phi_k| <= lam |u| |v|` for
the others, and that is optimality. No turns between weights and functions are needed, and nothing rests on all this:
every pass gives a plane of R, and the bound of mixtures of planes (`certificate`) holds wherever they come from.

A vector is an array (n_rows, N): one row of weights, or two rows for kernels, the coefficients of tokens and their
scores, that is the coefficients times the Gram matrix. `<a, b> = a[0] . b[-1]` either way, all steps are linear, and
no features of a kernel are formed.
"""

from __future__ import annotations

import time

import numpy as np

from ..solvers.smooth.lbfgs import FLOATS, rooms
from ..solvers.smooth.quasi_newton import Pairs, QuasiNewtonSteps
from .certificate import CLOSE, KeptPlanes, group_sums
from .certified import Certified, relative_gap

LEAST = 1e-3
"""Where no descent is left, v starts again with |v_k|^2 at least this share of the largest: (0, 0) is a saddle."""


def descend(risk, lam, tol, max_passes):
    """Passes until F - LB <= tol |F|.

    Parameters
    ----------
    risk : object
        `labels` (N,), the groups of all coordinates; `n_groups`; `n_rows`; `nonneg`, bool (N,) or None; and
        `plane(theta) -> (value, offset, slope)`, the *mean* loss at theta and its plane there. Arrays that it gives are
        not changed.
    lam, tol : float
        Mean scale; relative gap.
    max_passes : int

    Returns
    -------
    found : Certified
    theta : ndarray, shape (n_rows, N)
        The best point.
    """
    run, is_interrupted = _Descent(risk, lam, tol), False
    try:
        while relative_gap(run.best, run.bound) > tol and run.n_passes < max_passes:
            if not run.step():
                break
    except KeyboardInterrupt:
        is_interrupted = True
    return Certified(run.best, run.bound, run.norms, run.n_passes, run.history, is_interrupted), run.theta


class _Descent:
    """The state of a run; x = (u, v), with v in the last columns of each row."""

    def __init__(self, risk, lam, tol):
        self.risk, self.lam, self.n, p = risk, lam, len(risk.labels), risk.n_groups
        self.close, self._sums = min(CLOSE, 0.1 * tol), group_sums(risk.labels, p)
        self.began, self.n_passes, self.history = time.perf_counter(), 0, []
        self.best, self.bound = np.inf, 0.0
        pairs, planes = rooms(FLOATS // max(risk.n_rows * self.n, 1))
        nonneg = None if risk.nonneg is None else np.concatenate([risk.nonneg, np.ones(p, dtype=bool)])
        self.steps = QuasiNewtonSteps(RowPairs(pairs, lam), nonneg)
        self.planes = KeptPlanes(p, planes, self._products)
        self.nu, self.was_balanced = np.full(p, 1.0 / p), False
        x = np.zeros((risk.n_rows, self.n + p))
        value, slope = self._pass(x[:, :self.n], np.zeros(p))
        # sum_k |theta_k| <= max_k |phi_k| / lam at the minimum of this plane, and sqrt(2 R(0) / lam) at that of F
        largest = np.sqrt(max(self._products(slope, slope).max(), 0.0))
        x[:, self.n:] = np.sqrt(min(largest / lam, np.sqrt(2.0 * value / lam)) / p)
        self.steps.begin(x, *self._joint(x, value, slope))

    def step(self):
        """One pass, a trial of a line search; False where no descent is left."""
        x = self.steps.trial(self._first_step)
        if x is None or not self.steps.tell(x, *self._visit(x)):
            return self._balance()
        return True

    def _first_step(self, slope):
        """Without pairs to the bound, if G were linear, but no further than a risk without curvature would have it."""
        if len(self.steps.pairs):
            return 1.0, 100.0
        v = self.steps.x[0, self.n:]
        return min((self.steps.fun - self.bound) / -slope, 1.0 / (self.lam * float(v @ v))), 10.0

    def _balance(self):
        """The same theta with |u_k| = |v_k|, groups at 0 a little beside it: once, and False after that."""
        if self.was_balanced or not self.norms.any():
            return False
        self.was_balanced = True
        v = np.sqrt(np.maximum(self.norms, LEAST * self.norms.max()))
        x = np.concatenate([self.theta / v[self.risk.labels], np.tile(v, (self.risk.n_rows, 1))], axis=1)
        self.steps.pairs.clear()
        self.steps.begin(x, *self._visit(x))
        return True

    def _visit(self, x):
        """G and its gradient: one pass."""
        u, v = x[:, :self.n], x[0, self.n:]
        norms = np.abs(v) * np.sqrt(np.maximum(self._products(u, u), 0.0))
        return self._joint(x, *self._pass(u * v[self.risk.labels], norms))

    def _joint(self, x, value, slope):
        """G(x) and its gradient, from value and slope of R."""
        u, v = x[:, :self.n], x[0, self.n:]
        squares, v_square = np.maximum(self._products(u, u), 0.0), float(v @ v)
        gradient = np.empty_like(x)
        gradient[:, :self.n] = self.lam * v_square * u + v[self.risk.labels] * slope
        gradient[:, self.n:] = self.lam * float(squares.sum()) * v + self._products(u, slope)
        return 0.5 * self.lam * float(squares.sum()) * v_square + value, gradient

    def _pass(self, theta, norms):
        """R and its slope at theta, whose groups have these norms; value and bound of F are kept."""
        loss, offset, slope = self.risk.plane(theta)
        self.n_passes += 1
        value = 0.5 * self.lam * float(norms.sum()) ** 2 + loss
        if value < self.best:
            self.best, self.theta, self.norms = value, theta, norms
        nonneg = self.risk.nonneg       # what pushes towards a constraint does not count
        self.planes.add(slope if nonneg is None else np.where(nonneg, np.minimum(slope, 0.0), slope), offset)
        if norms.any():
            self.nu = np.maximum(norms / norms.sum(), 1e-9)
        self.bound = max(self.bound, self.planes.bound(self.lam, self.nu, self.close))
        self.history.append((time.perf_counter() - self.began, value, self.bound, self.n_passes, self.nu))
        return loss, slope

    def _products(self, a, b):
        """Inner products of two vectors group by group."""
        return self._sums(a[0] * b[-1])


class RowPairs(Pairs):
    """Pairs of vectors of one or two rows."""

    @staticmethod
    def inner(a, b):
        """`<a, b> = a[0] . b[-1]`."""
        return float(a[0] @ b[-1])
