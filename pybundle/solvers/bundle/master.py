"""The master problem of a bundle: it minimises `lam/2 |w|^2 + alpha |w - c|^2` plus the cutting-plane model of R.

The dual problem is solved, a quadratic program over the multipliers beta of the planes:

    min_beta  1/2 beta' H beta / s - f' beta,   s = lam + 2 alpha,   f = b + (2 alpha / s) A c

The multipliers of each of the P parts form a simplex; if the risk of the part is never negative, their sum may also be
less than 1. H is the Gram matrix of the slopes, so that no cost of the QP depends on dim.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.kept import Kept
from ...core.plane import Plane
from ...prox.of_norm import minimiser
from ...qp._simplex_qp import SimplexQP
from ...runtime.lower_bound import aggregation_errors, feasible
from ._alpha_search import least_alpha


@dataclass(frozen=True)
class MasterSolution:
    """A solution of the master problem: multipliers and their product with the Gram matrix.

    Attributes
    ----------
    beta, h : ndarray, shape (n_planes,)
        Multipliers and `H beta`.
    alpha, lam : float
        Weight of the centre and regularisation constant that the QP was solved for.
    gap, tol : float
        Duality gap of the QP, in units of F, and the gap that was requested.
    """

    beta: np.ndarray
    h: np.ndarray
    alpha: float
    lam: float
    gap: float
    tol: float


def plane_of(bundle, slack, problem, beta, slope_errors, offset_errors):
    """Return the aggregate `Plane` of the multipliers `beta` of a bundle; its errors count all rounding.

    `slope_errors` and `offset_errors`, shape (P,), bound the rounding errors of the planes of each part.
    """
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
        True for parts whose risk is never negative.
    problem : Problem
        Its penalty is `lam/2 |w|^2`, possibly with sign constraints.
    """

    lightest = 0.0      # policies choose no smaller weight of the centre

    def __init__(self, bundle, slack, problem):
        self.bundle, self.slack, self.problem = bundle, slack, problem
        self._qp = SimplexQP()

    def first_alpha(self, fun):
        """Return the alpha with which a proximal policy starts at a point of value F(w) = fun."""
        return self.problem.square.lam

    def solve(self, tol, alpha=None):
        """Return a solution with a duality gap of at most `tol`; without alpha there is no proximal term."""
        return self._solve(self.problem.square.lam, tol, alpha or 0.0)

    # ------------------------------------------------------------------ the minimiser, in Gram space
    def products(self, solution):
        """Return `<a_j, w>` for every plane at the minimiser w of a solution; infinite or NaN if w overflows."""
        lam, alpha = solution.lam, solution.alpha
        with np.errstate(over="ignore", invalid="ignore"):
            return minimiser(solution.h, lam, 2.0 * alpha, self.bundle.products)

    def value(self, solution):
        """Return the cutting-plane model of F at the minimiser of a solution."""
        centre, lam, alpha, beta = self.bundle.centre, solution.lam, solution.alpha, solution.beta
        s = lam + 2.0 * alpha
        norm2 = 4.0 * alpha**2 * float(centre @ centre) - 4.0 * alpha * float(beta @ self.bundle.products)
        norm2 = (norm2 + float(beta @ solution.h)) / s**2
        return 0.5 * lam * norm2 + float(self.bundle.model(self.products(solution), self.slack).sum())

    def point(self, solution, phi):
        """Return `w = (2 alpha c - phi) / (lam + 2 alpha)` for the aggregate slope phi; w may be infeasible."""
        return minimiser(phi, self.problem.square.lam, 2.0 * solution.alpha, self.bundle.centre)

    def move_centre(self, w, solution=None):
        """Make w the centre c.

        If w is the minimiser of `solution`, the products `<a_j, c>` follow from it, and no plane is read.
        """
        self.bundle.move_centre(w, None if solution is None else self.products(solution))

    def least_alpha(self, solve, radius, start):
        """Return the least alpha whose step `|w - c|` is at most `radius`, as `_alpha_search.least_alpha` does."""
        centre = self.bundle.centre
        return least_alpha(solve, self.problem.square.lam, radius, start, self.bundle.products, float(centre @ centre))

    def candidates(self, search, tol):
        """Yield optimal multipliers for evidence, after all violated constraints w_k >= 0 were added to the bundle."""
        bundle = self.bundle
        for _ in range(30):
            beta = self.solve(tol).beta
            phi, _ = bundle.combine(np.where(bundle.parts >= 0, beta, 0.0))
            new = bundle.new_constraints(self.problem.penalty.pushed_outside(phi))
            if len(new) == 0:
                break
            bundle.append_signs(new)
        yield beta

    # ------------------------------------------------------------------ inside
    def _solve(self, lam, tol, alpha=0.0, beta=None):
        # the QP starts from `beta`, by default from the multipliers that the bundle stores
        bundle, s = self.bundle, lam + 2.0 * alpha
        f = bundle.offsets if alpha == 0.0 else bundle.offsets + (2.0 * alpha / s) * bundle.products
        x = np.array(bundle.beta if beta is None else beta)
        if len(x) == 0:             # the model has only the zero planes, which have no multiplier
            return MasterSolution(x, np.empty(0), alpha, lam, 0.0, tol)
        parts = np.maximum(bundle.parts, -1)        # -1: multipliers of constraints belong to no simplex
        record = self._qp.solve(bundle.H, np.ascontiguousarray(f), parts, self.slack, x, scale=1.0 / s, tol=tol,
                                max_steps=100_000)      # some thousand steps are usual; any beta proves a bound
        return MasterSolution(x, record.h, alpha, lam, record.gap, tol)


class BallMaster(Master):
    """The cutting-plane model of one bundle in a ball; lam is the multiplier of the constraint `|w| <= radius`.

    The solver searches the lam at which `|w(lam)| = |A' beta| / lam` is the radius; this norm falls in lam. If the
    model has a minimiser inside the ball, there is no such lam, and the smallest lam tried takes the place of 0.
    """

    max_trials = 60

    def solve(self, tol, alpha=None):
        """Return a solution with a duality gap of at most `tol`, by secant steps on log lam; alpha is not used."""
        radius = self.problem.ball.radius
        scale = float(np.sqrt(max(self.bundle.H.diagonal().max(initial=0.0), 1e-300))) / radius
        low, high = 1e-10 * scale, None       # |w(low)| is assumed to be above the radius, |w(high)| below
        lam, beta = scale, None
        for _ in range(self.max_trials):
            solution = self._solve(lam, 0.5 * tol, beta=beta)
            beta = solution.beta
            norm = float(np.sqrt(max(beta @ solution.h, 0.0))) / lam
            # the ball adds lam/2 |radius^2 - |w|^2| to the duality gap
            # norm 0 means that the slopes cancel, which they also do for every smaller lam
            if norm == 0.0 or abs(norm - radius) * lam * radius <= 0.5 * tol or (norm < radius and lam <= low * 1.01):
                break
            low, high = (lam, high) if norm > radius else (low, lam)
            step = lam * norm / radius         # |w(step)| is the radius if beta does not depend on lam
            if high is None:
                lam = max(2.0 * lam, step)
            else:
                lam = step if low < step < high else np.sqrt(low * high)
        return solution
