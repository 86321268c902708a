"""Certified multiple kernel learning of smooth risks: quasi-Newton steps on functions and kernel weights together.

    lam/2 (sum_k |theta_k|)^2 = min lam/2 |u|^2 |v|^2   over all u, v with theta_k = v_k u_k,   v_k a number,

by Cauchy-Schwarz, so F is the minimum of the smooth G(u, v) = lam/2 |u|^2 |v|^2 + R(v_1 u_1, ..., v_p u_p). G is not
convex, but a point other than u = 0 where its gradient is 0 and its Hessian has no negative eigenvalue is a minimum of
F: the gradient gives `|phi_k| = lam |u| |v|` for each group with v_k not 0, the Hessian `|phi_k| <= lam |u| |v|` for
the others, and that is optimality. No turns between weights and functions are needed, and nothing rests on all this:
every pass gives a plane of R, and the bound of mixtures of planes (`certificate`) holds wherever they come from.
"""

from __future__ import annotations

import numpy as np

from ..runtime.result import Status
from ..runtime.stopping import GapBelow
from ..solvers.run import Settings
from ..solvers.smooth.lbfgs import QuasiNewton
from .certificate import CLOSE, KeptPlanes
from .certified import solve

LEAST = 1e-3
"""Where no descent is left, v starts again with |v_k|^2 at least this share of the largest: (0, 0) is a saddle."""


def descend(risk, lam, tol, max_passes):
    """Passes until F - LB <= tol |F|.

    Parameters
    ----------
    risk : MeanLoss
        With `plane(theta) -> (value, offset, slope, error, source)`: the loss at theta and its plane there, a bound on
        the error of the slope in norm, and what proves the plane. They are not changed.
    lam, tol : float
        Mean scale; relative gap.
    max_passes : int

    Returns
    -------
    found : Certified
    theta : ndarray, shape (n_rows, N)
        The best point.
    bound : Proven
        The mixture of planes that proves the bound.
    """
    run = _Descent(risk, risk.objective(lam), Settings(GapBelow(tol)))
    return solve(run, max_passes), run.w, run.bound


class _Descent(QuasiNewton):
    """L-BFGS on x = (u, v), with v in the last columns of each row."""

    def __init__(self, risk, objective, settings):
        super().__init__(risk, objective, settings)
        self.n, p = len(risk.labels), objective.n_groups
        self.close = min(CLOSE, 0.1 * settings.gap.tol)
        self.nu, self.weights, self.was_balanced = np.full(p, 1.0 / p), [], False

    def signs(self):
        nonneg, p = self.objective.nonneg, self.objective.n_groups
        return None if nonneg is None else np.concatenate([nonneg, np.ones(p, dtype=bool)])

    def make_planes(self, room):
        return KeptPlanes(self.objective.n_groups, room, self.objective.products)

    def start(self, w0):
        lam, p = self.objective.lam, self.objective.n_groups
        value, slope = self._pass(w0)
        # sum_k |theta_k| <= max_k |phi_k| / lam at the minimum of this plane, and sqrt(2 R(0) / lam) at that of F
        total = min(self.objective.norms(slope).max() / lam, np.sqrt(2.0 * value / lam))
        x = np.concatenate([w0, np.full((len(w0), p), np.sqrt(total / p))], axis=1)
        self.steps.begin(x, *self._joint(x, value, slope))

    def iterate(self):
        status = super().iterate()
        return None if status is Status.STALLED and self._balance() else status

    def _first_step(self, slope):
        """No further than a risk without curvature would have it."""
        step, growth = super()._first_step(slope)
        if len(self.steps.pairs):
            return step, growth
        v = self.steps.x[0, self.n:]
        return min(step, 1.0 / (self.objective.lam * float(v @ v))), growth

    def _balance(self):
        """The same theta with |u_k| = |v_k|, groups at 0 a little beside it: once, and False after that."""
        norms = self.objective.norms(self.w)
        if self.was_balanced or not norms.any():
            return False
        self.was_balanced = True
        v = np.sqrt(np.maximum(norms, LEAST * norms.max()))
        self.steps.pairs.clear()
        self._begin_at(np.concatenate([self.w / v[self.risk.labels], np.tile(v, (len(self.w), 1))], axis=1))
        return True

    def _visit(self, x):
        """G and its gradient: one pass."""
        return self._joint(x, *self._pass(x[:, :self.n] * x[0, self.n:][self.risk.labels]))

    def _joint(self, x, value, slope):
        """G(x) and its gradient, from value and slope of R."""
        u, v, lam, products = x[:, :self.n], x[0, self.n:], self.objective.lam, self.objective.products
        square, v_square = float(np.maximum(products(u, u), 0.0).sum()), float(v @ v)
        gradient = np.empty_like(x)
        gradient[:, :self.n] = lam * v_square * u + v[self.risk.labels] * slope
        gradient[:, self.n:] = lam * square * v + products(u, slope)
        return 0.5 * lam * square * v_square + value, gradient

    def _pass(self, theta):
        """R and its slope at theta; value and bound of F are kept."""
        loss, offset, slope, error, source = self.risk.plane(theta)
        self.trace.n_passes += 1
        norms = self.objective.norms(theta)
        if norms.any():
            self.nu = np.maximum(norms / norms.sum(), 1e-9)
        value = self.observe(theta, loss)
        # what pushes towards a constraint is left out
        self.planes.add(offset, self.objective.effective(slope), source, error)
        self.offer(self.planes.proven(self.objective.lam, self.nu, self.close))
        self.log(value)
        self.weights.append(self.nu)
        return loss, slope
