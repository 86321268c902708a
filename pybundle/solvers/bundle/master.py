"""The master problem of a bundle: multipliers of the cutting-plane model, with or without proximity.

    min_beta  1/2 beta' H beta / s - f' beta,   s = lam + 2 alpha,   f = b + (2 alpha / s) A c

over the product of P simplices (sum at most 1 where the risk is never negative). H is the bundle's; nothing here
depends on dim.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...qp._simplex_qp import SimplexQP
from ..objective import Ball

# A master takes some thousand steps. Any feasible multipliers are a bound, so an ill-conditioned one may stop early.
MAX_STEPS = 100_000


@dataclass(frozen=True)
class MasterSolution:
    """Multipliers and what follows from them in Gram space.

    Attributes
    ----------
    beta, h : ndarray, shape (n_planes,)
        Multipliers and `H beta`.
    alpha, lam : float
        Proximity weight and regularisation constant that the QP was solved for.
    gap : float
        Duality gap of the QP, in units of the objective.
    """

    beta: np.ndarray
    h: np.ndarray
    alpha: float
    lam: float
    gap: float

    def products(self, centre_products=None):
        """`<a_j, w>` for every plane, w the minimiser that belongs to beta; infinite or NaN where that overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.alpha == 0.0:
                return -self.h / self.lam
            return (2.0 * self.alpha * centre_products - self.h) / (self.lam + 2.0 * self.alpha)


class Master:
    """Solves master problems over one bundle, warm started from its multipliers."""

    def __init__(self, bundle, slack):
        self.bundle, self.slack = bundle, slack
        self._qp = SimplexQP()

    def solve(self, lam, tol, alpha=0.0, centre_products=None, beta=None):
        """Multipliers to duality gap `tol`, from `beta` (default: those of the bundle)."""
        bundle, s = self.bundle, lam + 2.0 * alpha
        f = bundle.offsets if alpha == 0.0 else bundle.offsets + (2.0 * alpha / s) * centre_products
        x = np.array(bundle.beta if beta is None else beta)
        if len(x) == 0:             # nothing but the zero planes, which need no multiplier
            return MasterSolution(x, np.empty(0), alpha, lam, 0.0)
        parts = np.maximum(bundle.parts, -1)        # constraints: a sign, no sum
        record = self._qp.solve(bundle.H, np.ascontiguousarray(f), parts, self.slack, x, scale=1.0 / s, tol=tol,
                                max_steps=MAX_STEPS)
        return MasterSolution(x, record.h, alpha, lam, record.gap)

    def solve_objective(self, objective, tol):
        """Master without proximity for either objective."""
        return self.solve_ball(objective.radius, tol) if isinstance(objective, Ball) else self.solve(objective.lam, tol)

    def solve_ball(self, radius, tol, max_trials=60):
        """The lam at which `|w(lam)| = |A' beta| / lam` equals the radius, by secant steps on log lam.

        `|w(lam)|` falls in lam. Where the model has a minimiser inside the ball no lam fits, and the smallest one
        tried stands for 0.
        """
        scale = float(np.sqrt(max(self.bundle.H.diagonal().max(initial=0.0), 1e-300))) / radius
        low, high = 1e-10 * scale, None       # |w(low)| is taken to be above the radius, |w(high)| below
        lam, beta = scale, None
        for _ in range(max_trials):
            solution = self.solve(lam, 0.5 * tol, beta=beta)
            beta = solution.beta
            norm = float(np.sqrt(max(beta @ solution.h, 0.0))) / lam
            # duality gap left in the ball problem: lam/2 (radius^2 - |w|^2) in Lagrangian terms
            # slopes that cancel do so for smaller lam, too
            if norm == 0.0 or abs(norm - radius) * lam * radius <= 0.5 * tol or (norm < radius and lam <= low * 1.01):
                break
            low, high = (lam, high) if norm > radius else (low, lam)
            step = lam * norm / radius         # exact where beta stays the same
            if high is None:
                lam = max(2.0 * lam, step)
            else:
                lam = step if low < step < high else np.sqrt(low * high)
        return solution
