"""The master problem of a bundle: multipliers of the cutting-plane model, with or without proximity.

    min_beta  1/2 beta' H beta / s - f' beta,   s = lam + 2 alpha,   f = b + (2 alpha / s) A c

over the product of P simplices (sum at most 1 if the risk is never negative). H is the Gram matrix of the bundle;
nothing here depends on dim.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.kept import Kept
from ...core.plane import Plane
from ...prox.of_norm import minimiser
from ...qp._simplex_qp import SimplexQP
from ...runtime.lower_bound import aggregation_errors, feasible

MAX_DOUBLINGS = 60      # of the weight of the centre


@dataclass(frozen=True)
class MasterSolution:
    """Multipliers and what follows from them in Gram space.

    Attributes
    ----------
    beta, h : ndarray, shape (n_planes,)
        Multipliers and `H beta`.
    alpha, lam : float
        Weight `alpha` of the centre and regularisation constant that the QP was solved for.
    gap, tol : float
        Duality gap of the QP, in units of the objective, and the requested one.
    """

    beta: np.ndarray
    h: np.ndarray
    alpha: float
    lam: float
    gap: float
    tol: float


def plane_of(bundle, slack, problem, beta, slope_errors, offset_errors):
    """Return the aggregate `Plane` of multipliers of a bundle, all rounding counted; errors have shape (P,)."""
    multipliers = feasible(beta, bundle.parts, slack)
    phi, offset = bundle.combine(multipliers)
    norms = problem.coordinates.norms(np.sqrt(bundle.H.diagonal()), bundle.last_entries)
    errors = aggregation_errors(multipliers, bundle.offsets, norms, bundle.parts, slope_errors, offset_errors)
    plane = Plane(offset, phi, *errors)
    return plane if problem.rows is None else problem.rows.relax(plane, bundle.parts, beta, problem.means)


class Master(Kept):
    """The cutting-plane model of one bundle: solves master problems and computes points, products and values.

    Attributes
    ----------
    bundle : Bundle
    slack : bool array, shape (P,)
        Parts that are never negative.
    problem : Problem
        Its penalty is a square or a ball.
    """

    lightest = 0.0      # least weight of the centre

    def __init__(self, bundle, slack, problem):
        self.bundle, self.slack, self.problem = bundle, slack, problem
        self._qp = SimplexQP()

    def first_alpha(self, fun):
        """Return the first weight of the centre, at a point with F(w) = fun."""
        return self.problem.lam

    def solve(self, tol, alpha=None):
        """Return the solution to duality gap `tol`; alpha is the weight of the centre, None without it or in a ball."""
        if alpha is None and self.problem.radius is not None:
            return self._solve_ball(self.problem.radius, tol)
        return self._solve(self.problem.lam, tol, alpha or 0.0)

    # ------------------------------------------------------------------ the minimiser, in Gram space
    def products(self, solution):
        """Return `<a_j, w>` for every plane at the minimiser w of a solution; infinite or NaN if it overflows."""
        lam, alpha = solution.lam, solution.alpha
        with np.errstate(over="ignore", invalid="ignore"):
            return minimiser(solution.h, lam, 2.0 * alpha, self.bundle.products)

    def value(self, solution):
        """Return the cutting-plane model of F at the minimiser."""
        centre, lam, alpha, beta = self.bundle.centre, solution.lam, solution.alpha, solution.beta
        s = lam + 2.0 * alpha
        norm2 = 4.0 * alpha**2 * float(centre @ centre) - 4.0 * alpha * float(beta @ self.bundle.products)
        norm2 = (norm2 + float(beta @ solution.h)) / s**2
        return 0.5 * lam * norm2 + float(self.bundle.model(self.products(solution), self.slack).sum())

    def point(self, solution, phi):
        """Return `w = (2 alpha c - phi) / (lam + 2 alpha)` for the aggregate slope phi; it may be infeasible."""
        return minimiser(phi, self.problem.lam, 2.0 * solution.alpha, self.bundle.centre)

    def move_centre(self, w, solution=None):
        """Make w the centre c; if w is the minimiser of a solution, products follow without reading the planes."""
        self.bundle.move_centre(w, None if solution is None else self.products(solution))

    def least_alpha(self, solve, radius, start):
        """Return the solution at the least alpha of 0, 1, 2, 4, ... with `|w - c| <= radius`, and the one at 0.

            |w - c|^2 = (lam^2 |c|^2 + 2 lam <beta, A c> + <beta, h>) / s^2      [Uricar, Franc, Hlavac 2013, eqs 10-13]

        `solve(alpha)` solves the master: each trial costs a small QP, and nothing of length dim. The distance falls in
        alpha, so that the search goes up or down from `start`, one of these numbers. The solution at 0 decides when the
        published method stops.
        """
        bundle, square = self.bundle, float(self.bundle.centre @ self.bundle.centre)

        def is_far(solution):
            lam, used = solution.lam, solution.beta != 0.0
            with np.errstate(over="ignore", invalid="ignore"):
                moved = solution.beta[used] @ (2.0 * lam * bundle.products[used] + solution.h[used])
                distance = np.sqrt(max(lam * lam * square + moved, 0.0)) / (lam + 2.0 * solution.alpha)
            return not distance <= radius

        plain = solve(0.0)
        if not is_far(plain):
            return plain, plain
        solution = solve(max(start, 1.0))
        if is_far(solution):
            for _ in range(MAX_DOUBLINGS):
                solution = solve(2.0 * solution.alpha)
                if not is_far(solution):
                    break
            return solution, plain
        while solution.alpha > 1.0:
            shorter = solve(0.5 * solution.alpha)
            if is_far(shorter):
                break
            solution = shorter
        return solution, plain

    # ------------------------------------------------------------------ inside
    def _solve(self, lam, tol, alpha=0.0, beta=None):
        # starts from `beta`, by default the multipliers of the bundle
        bundle, s = self.bundle, lam + 2.0 * alpha
        f = bundle.offsets if alpha == 0.0 else bundle.offsets + (2.0 * alpha / s) * bundle.products
        x = np.array(bundle.beta if beta is None else beta)
        if len(x) == 0:             # nothing but the zero planes, which need no multiplier
            return MasterSolution(x, np.empty(0), alpha, lam, 0.0, tol)
        parts = np.maximum(bundle.parts, -1)        # constraints have a sign but no sum
        record = self._qp.solve(bundle.H, np.ascontiguousarray(f), parts, self.slack, x, scale=1.0 / s, tol=tol,
                                max_steps=100_000)      # some thousand are usual; any multipliers prove a bound
        return MasterSolution(x, record.h, alpha, lam, record.gap, tol)

    def _solve_ball(self, radius, tol, max_trials=60):
        """Return the solution at the lam where `|w(lam)| = |A' beta| / lam` is the radius, by secant steps on log lam.

        `|w(lam)|` falls in lam. If the model has a minimiser inside the ball, no lam fits, and the smallest one
        tried stands for 0.
        """
        scale = float(np.sqrt(max(self.bundle.H.diagonal().max(initial=0.0), 1e-300))) / radius
        low, high = 1e-10 * scale, None       # |w(low)| is assumed to be above the radius, |w(high)| below
        lam, beta = scale, None
        for _ in range(max_trials):
            solution = self._solve(lam, 0.5 * tol, beta=beta)
            beta = solution.beta
            norm = float(np.sqrt(max(beta @ solution.h, 0.0))) / lam
            # the ball adds lam/2 (radius^2 - |w|^2) to the duality gap
            # where slopes cancel, they do so for smaller lam, too
            if norm == 0.0 or abs(norm - radius) * lam * radius <= 0.5 * tol or (norm < radius and lam <= low * 1.01):
                break
            low, high = (lam, high) if norm > radius else (low, lam)
            step = lam * norm / radius         # exact if beta does not change
            if high is None:
                lam = max(2.0 * lam, step)
            else:
                lam = step if low < step < high else np.sqrt(low * high)
        return solution
