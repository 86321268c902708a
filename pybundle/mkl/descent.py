"""Certified multiple kernel learning of smooth risks: quasi-Newton steps on functions and kernel weights together.

    lam/2 (sum_k |theta_k|)^2 = min lam/2 |u|^2 |v|^2   over all u, v with theta_k = v_k u_k,   v_k a number,

by Cauchy-Schwarz, so min F is the minimum of the smooth G(u, v) = lam/2 |u|^2 |v|^2 + R(v_1 u_1, ..., v_p u_p). G is
not convex, but if u is not 0, the gradient is 0 and the Hessian has no negative eigenvalue, theta is a minimum of F:
the gradient implies `|phi_k| = lam |u| |v|` for each group with v_k not 0, the Hessian `|phi_k| <= lam |u| |v|` for the
others, and these are the conditions of optimality. The bound does not depend on this: every pass finds a plane of R,
and `mixture_bound` proves it from any planes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..runtime.result import Status
from ..runtime.stopping import GapBelow
from ..solvers.search import Search
from ..solvers.smooth.lbfgs import FEWEST, FLOATS, QuasiNewton
from ..solvers.smooth.quasi_newton import Orthants
from ..solvers.state import Settings
from .certified import solve
from .mixture_bound import CLOSE, KeptPlanes

PLANES = 20
"""Maximum number of planes that are kept; there are fewer if a plane has more than 4e5 floats."""
LEAST = 1e-3
"""Least |v_k|^2 after balancing, relative to the largest: groups at the saddle (u_k, v_k) = (0, 0) would stay 0."""


def descend(risk, settings):
    """Minimise F until F - LB <= tol |F|; return a `Certified`, the best point (n_rows, N), and its bound, `Proven`.

    `risk` is a `MeanLoss` whose `plane(theta) -> (value, plane, source)` returns the loss at theta, its `Plane` there,
    and the evidence for the plane.
    """
    run = _Descent(Search(risk, risk.problem, Settings(GapBelow(settings.tol))))
    return solve(run, settings.max_iter), run.search.w, run.search.bound


class _Descent(QuasiNewton):
    """L-BFGS on x = (u, v); each row of x ends with v."""

    def __init__(self, search):
        super().__init__(search)
        norms = self.problem.penalty
        self.n, p = len(norms.labels), norms.n_groups
        self.planes = KeptPlanes(p, min(PLANES, max(FEWEST, FLOATS // (8 * self.risk.dim))), norms.products)
        self.close = min(CLOSE, 0.1 * self.settings.gap.tol)
        self.nu, self.weights, self.was_balanced = np.full(p, 1.0 / p), [], False

    def orthants(self):
        nonneg, p = self.problem.penalty.nonneg, self.problem.penalty.n_groups
        if nonneg is None:
            return None
        return Orthants(lower=np.where(np.concatenate([nonneg, np.ones(p, dtype=bool)]), 0.0, -np.inf))

    def start(self, w0):
        lam, p = self.problem.penalty.lam, self.problem.penalty.n_groups
        value, slope = self._pass(w0)
        # sum_k |theta_k| is max_k |phi_k| / lam at the minimum with this plane in place of R, and at most
        # sqrt(2 R(0) / lam) at the minimum of F
        total = min(self.problem.penalty.norms(slope).max() / lam, np.sqrt(2.0 * value / lam))
        x = np.concatenate([w0, np.full((len(w0), p), np.sqrt(total / p))], axis=1)
        self.steps.begin(x, *self._joint(x, value, slope))

    def iterate(self):
        status = super().iterate()
        return None if status is Status.STALLED and self._balance() else status

    def _first_step(self, slope):
        """Limit the first step to 1 / (lam |v|^2), which minimises over u if the risk is linear."""
        step, growth = super()._first_step(slope)
        if len(self.steps.pairs):
            return step, growth
        v = self.steps.x[0, self.n:]
        return min(step, 1.0 / (self.problem.penalty.lam * float(v @ v))), growth

    def _balance(self):
        """Make |u_k| = |v_k| at the same theta, and v_k > 0 for groups at 0; return False if this was done before."""
        norms = self.problem.penalty.norms(self.search.w)
        if self.was_balanced or not norms.any():
            return False
        self.was_balanced = True
        v = np.sqrt(np.maximum(norms, LEAST * norms.max()))
        self.steps.pairs.clear()
        u = self.search.w / v[self.problem.penalty.labels]
        self._begin_at(np.concatenate([u, np.tile(v, (len(self.search.w), 1))], axis=1))
        return True

    def _value_and_gradient(self, x):
        """Evaluate G and its gradient at x, in one pass."""
        return self._joint(x, *self._pass(x[:, :self.n] * x[0, self.n:][self.problem.penalty.labels]))

    def _joint(self, x, value, slope):
        """Return G(x) and its gradient from the value and the slope of R."""
        u, v, lam, products = x[:, :self.n], x[0, self.n:], self.problem.penalty.lam, self.problem.penalty.products
        square, v_square = float(np.maximum(products(u, u), 0.0).sum()), float(v @ v)
        gradient = np.empty_like(x)
        gradient[:, :self.n] = lam * v_square * u + v[self.problem.penalty.labels] * slope
        gradient[:, self.n:] = lam * square * v + products(u, slope)
        return 0.5 * lam * square * v_square + value, gradient

    def _pass(self, theta):
        """Evaluate R and its slope at theta; record the value of F and improve its bound."""
        loss, plane, source = self.risk.plane(theta)
        self.trace.n_passes += 1
        norms = self.problem.penalty.norms(theta)
        if norms.any():
            self.nu = np.maximum(norms / norms.sum(), 1e-9)
        value = self.search.observe(theta, loss)
        # `effective` drops the slopes that constraints theta_j >= 0 cancel
        self.planes.add(replace(plane, slope=self.problem.penalty.effective(plane.slope)), source)
        self.search.offer(self.planes.proven(self.problem.penalty.lam, self.nu, self.close))
        self.search.log(value)
        self.weights.append(self.nu)
        return loss, plane.slope
