"""The master problem with a penalty: multipliers of the cutting-plane model of `Omega(w) + alpha |w - c|^2 + R(w)`.

    max_beta  D(beta) = b'beta + min_w { Omega(w) + <A'beta, w> + alpha |w - c|^2 }

The multipliers of each of the P parts form a simplex, as in `master.py`. D is concave and smooth, its gradient at beta
is b + A w(beta), and its Hessian is A J A', where J is the derivative of w(beta) in A'beta:

    repeat   solve the QP with that Hessian                            (a Newton step)
             search the maximum of D between beta and that solution
    until    sum_p max_j (b_j + <a_j, w>) - beta'(b + A w) <= tol              (the duality gap)

Multipliers of linear constraints are not negative and have no given sum. The gap also includes an estimate of what
such multipliers can still add to D.

If Omega is separable with squares l, J is diagonal. Its entries are -1 / (l_k + 2 alpha) for weights that no threshold
and no bound holds, and 0 for others. A step is short if J changes along it. Then the next step uses
-1 / (min_k l_k + 2 alpha) for all weights: no curvature is larger, so that D rises.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.kept import Kept
from ...core.plane import Plane
from ...qp._simplex_qp import SimplexQP
from ...runtime.lower_bound import feasible
from .master import BallMaster, Master

LIGHT = 1e-3        # a model without a minimum gets a centre, whose weight is this fraction of the last weight
ROUNDING = 1e-14    # relative rounding of the duality gap of a QP
MISSED = 1e-7       # a master whose gap is a larger fraction of F counts as not solved
PATIENCE = 6        # the solver stops after so many steps in a row that did not halve the smallest gap
DIFFERENCE = 1e-8   # relative step of finite differences, and relative error of these differences
SHORT = 0.1         # a step is short if the line search cuts it to less than this fraction
ROUNDS = 20         # maximum number of rounds, which solve and then add violated linear constraints
LIGHTER = 20        # weights of the centre that are tried for evidence, each a tenth of the weight before
RIDGE = 1e-9        # relative curvature added for multipliers of constraints, as no simplex bounds these multipliers


@dataclass(frozen=True)
class PenaltySolution:
    """A solution of the master problem: multipliers, the minimiser w of the model, and the value at w.

    Attributes
    ----------
    beta : ndarray, shape (n_planes,)
    w : ndarray, shape (dim,)
        Minimiser of the model for these multipliers.
    products : ndarray, shape (n_planes,)
        `<a_j, w>`.
    value : float
        Cutting-plane model of F at w.
    alpha : float
        Weight of the centre.
    gap, tol : float
        Duality gap, in units of F, and the gap that was requested.
    """

    beta: np.ndarray
    w: np.ndarray
    products: np.ndarray
    value: float
    alpha: float
    gap: float
    tol: float


class PenaltyMaster(Kept):
    """The cutting-plane model with any penalty and linear constraints, with all members of `Master` but `least_alpha`.

    Attributes
    ----------
    bundle : Bundle
    slack : bool array, shape (P,)
        True for parts whose risk is never negative.
    problem : Problem
    """

    kept = "centre", "lightest", "most_planes", "_alpha"
    max_rounds = 40
    max_moves = 10      # a centre that only keeps w bounded moves at most so many times
    most_planes = 2**31 - 1     # maximum number of planes and linear constraints together in the bundle

    def __init__(self, bundle, slack, problem):
        self.bundle, self.slack, self.problem = bundle, slack, problem
        self._qp, self.centre = SimplexQP(), None
        self._alpha = 1.0       # the last weight of the centre
        self.lightest = 0.0     # least weight of the centre: with less, w could grow without limit where Omega is flat

    def first_alpha(self, fun):
        """Return |a|^2 / (2 F) for the aggregate slope a: with this weight a step along -a takes the linear model to 0.

        If there are constraints and a is 0, as where all columns are, it is 1: a vanishing weight would hide their
        multipliers.
        If the risk may be negative, a lower bound of the model takes the place of 0.
        """
        beta = self._start()
        phi, size = self._combine(beta), abs(fun)
        slope = self.problem.coordinates.slope(phi)
        if not self.slack.all():
            least = self.problem.lower_bound(Plane(float(beta @ self.bundle.offsets), phi))
            size = max(size, fun - least) if np.isfinite(least) else size
        alpha = max(float(slope @ slope), 1e-100) / (2.0 * max(size, 1e-100))
        if self.problem.rows is not None and not slope.any():
            alpha = 1.0
        self.lightest = 1e-8 * alpha
        return alpha

    def solve(self, tol, alpha=None):
        """Return a solution with a duality gap of at most `tol`; alpha None or 0 means that there is no centre.

        If the penalty is not strongly convex, the model without a centre may have no minimum. So such a model gets a
        centre of small weight, which moves to the minimiser w at most `max_moves` times.
        """
        if alpha:
            self._alpha = alpha
        if alpha or self.problem.modulus is not None:
            return self._solve(tol, alpha or 0.0, self.centre, self._start())
        alpha = max(LIGHT * self._alpha, self.lightest)
        centre, beta = self.centre, self._start()
        for _ in range(self.max_moves):
            solution = self._solve(tol, alpha, centre, beta)
            step = solution.w - centre
            if 2.0 * alpha * float(np.linalg.norm(step)) * float(np.linalg.norm(solution.w)) <= 0.1 * tol:
                break
            centre, beta = solution.w, solution.beta
        return solution

    def _solve(self, tol, alpha, centre, beta):
        """Solve for planes and linear constraints; add the constraints that w violates to the bundle."""
        bundle, rows = self.bundle, self.problem.rows
        solution = self._climb(tol, alpha, centre, beta)
        for _ in range(ROUNDS if rows is not None else 0):
            new = bundle.new_constraints(rows.violated(solution.w))[:max(self.most_planes - bundle.n_planes, 0)]
            if len(new) == 0:
                break
            bundle.append(rows.planes(new, bundle.is_sparse), parts=-1 - new)
            solution = self._climb(tol, alpha, centre, np.append(solution.beta, np.zeros(len(new))))
        return solution

    def _climb(self, tol, alpha, centre, beta):
        bundle, is_short = self.bundle, False
        phi, is_row = self._combine(beta), bundle.parts < 0
        if is_row.any():
            squares = self.problem.rows.squares(self.problem.means)[-1 - bundle.parts[is_row]]
            curvatures = squares / np.min(self.problem.moduli + 2.0 * alpha)
        best, n_idle = None, 0
        for _ in range(self.max_rounds):
            w = self._minimiser(phi, alpha, centre)
            products = bundle.dot(w)
            gains = bundle.offsets + products
            model = float(bundle.model(products, self.slack).sum())
            gap = model - float(beta[~is_row] @ gains[~is_row])
            if is_row.any():
                gap += _gap_of_rows(beta[is_row], gains[is_row], curvatures)
            n_idle = 0 if best is None or gap < 0.5 * best.gap else n_idle + 1
            if best is None or gap < best.gap:
                best = PenaltySolution(beta, w, products, self.problem.value(w) + model, alpha, gap, tol)
            if gap <= tol or n_idle >= PATIENCE:        # rounding stops progress: a light centre makes H / alpha vast
                break
            if is_short:
                H = self._gram(np.full(bundle.dim, 1.0 / np.min(self.problem.moduli + 2.0 * alpha)))
            else:
                H = self._hessian(phi, w, alpha, centre)
            if is_row.any():
                H[is_row, is_row] += RIDGE * curvatures
            x, f = beta.copy(), gains + H @ beta
            rounding = ROUNDING * float(beta @ (np.abs(f) + H.diagonal()))
            self._qp.solve(H, f, np.maximum(bundle.parts, -1), self.slack, x, scale=1.0,
                           tol=max(min(0.1 * gap, tol), rounding), max_steps=100_000)
            step = self._feasible(x) - beta
            slope = self._combine(step)
            t = self._line_search(phi, slope, float(step @ bundle.offsets), alpha, centre)
            is_short = not is_short and t < SHORT
            if t == 0.0 and not is_short:
                break               # rounding errors leave no step that increases D
            beta, phi = beta + t * step, phi + t * slope
        if best.gap > max(tol, MISSED * abs(best.value)):       # with norms of groups D may be too curved for alpha
            self.lightest = max(self.lightest, 4.0 * alpha)
        return best

    def products(self, solution):
        """Return `<a_j, w>` for every plane at the minimiser."""
        is_current = len(solution.products) == self.bundle.n_planes     # False if constraints were added later
        return solution.products if is_current else self.bundle.dot(solution.w)

    def value(self, solution):
        """Return the cutting-plane model of F at the minimiser."""
        return solution.value

    def point(self, solution, phi):
        """Return the minimiser for the aggregate slope phi."""
        return self._minimiser(phi, solution.alpha, self.centre)

    def move_centre(self, w, solution=None):
        """Make w the centre c."""
        self.centre = w

    def candidates(self, search, tol):
        """Yield multipliers for evidence, from masters with ever smaller weights of a centre, at last without a centre.

        Without a centre the model may have no minimum, or a minimum that is hard to find.
        """
        self.move_centre(search.w)
        alpha, bundle = self.first_alpha(search.fun), self.bundle
        for k in range(LIGHTER):
            beta = self.solve(tol, 0.1**k * alpha).beta
            yield beta
            bundle.settle(np.append(beta, np.zeros(bundle.n_planes - len(beta))))
        yield self.solve(tol).beta

    # ------------------------------------------------------------------ inside
    def _start(self):
        """Return the multipliers of the bundle, made feasible; if a part has only zeros, its newest plane gets 1."""
        bundle = self.bundle
        beta = bundle.beta.copy()
        planes = np.flatnonzero(bundle.parts >= 0)
        # flat planes count as the oldest: if only they had multipliers, `first_alpha` would be 0
        planes = planes[np.argsort(bundle.H.diagonal()[planes] > 0.0, kind="stable")]
        has_none = np.bincount(bundle.parts[planes], beta[planes], len(self.slack)) <= 0.0
        newest = np.full(len(self.slack), -1)
        newest[bundle.parts[planes]] = planes
        beta[newest[has_none & (newest >= 0)]] = 1.0
        return self._feasible(beta)

    def _feasible(self, beta):
        """Return feasible multipliers of planes and linear constraints, from any beta."""
        bundle, rows = self.bundle, self.problem.rows
        found = feasible(beta, bundle.parts, self.slack)
        return found if rows is None else np.where(bundle.parts < 0, np.maximum(beta, 0.0), found)

    def _combine(self, beta):
        """Return `A'beta`, linear constraints included."""
        bundle, rows = self.bundle, self.problem.rows
        phi, _ = bundle.combine(beta)
        return phi if rows is None else phi + rows.pull(bundle.parts, beta)[0]

    def _minimiser(self, phi, alpha, centre):
        return self.problem.minimiser(phi) if alpha == 0.0 else self.problem.minimiser(phi, 2.0 * alpha, centre)

    def _hessian(self, phi, w, alpha, centre):
        """Return minus the Hessian of D, by finite differences of the minimiser if the penalty couples weights."""
        bundle, problem = self.bundle, self.problem
        support = problem.penalty.support(w)
        if support is not None:
            return self._gram(np.where(support, 1.0 / np.maximum(problem.moduli + 2.0 * alpha, 1e-300), 0.0))
        H, norms = np.zeros((bundle.n_planes, bundle.n_planes)), np.sqrt(bundle.H.diagonal())
        size = float(np.linalg.norm(phi)) + float(np.linalg.norm((self.problem.moduli + 2.0 * alpha) * w))
        size = size or 1.0
        for j in np.flatnonzero(norms):
            slope = self._combine((np.arange(bundle.n_planes) == j).astype(np.float64))
            h = DIFFERENCE * size / norms[j]
            step = self._minimiser(phi - h * slope, alpha, centre) - self._minimiser(phi + h * slope, alpha, centre)
            H[j] = bundle.dot(step) / (2.0 * h)
        H = 0.5 * (H + H.T)
        H[np.diag_indices(len(H))] += DIFFERENCE * norms**2 / np.min(self.problem.moduli + 2.0 * alpha)
        return H

    def _gram(self, weights):
        """Return `A diag(weights) A'` for the slopes in `Coordinates`, which are `a - a_b m`."""
        bundle, means = self.bundle, self.problem.means
        gram = bundle.weighted_gram(weights)
        if means is None:
            return gram
        for rows in np.arange(bundle.dim).reshape(-1, len(means)):      # the entries of one class
            of_last, of_means = np.zeros(bundle.dim), np.zeros(bundle.dim)
            of_last[rows[-1]], of_means[rows] = 1.0, weights[rows] * means
            last, cross = bundle.dot(of_last), bundle.dot(of_means)
            gram -= np.outer(cross, last) + np.outer(last, cross)
            gram += float(means @ of_means[rows]) * np.outer(last, last)
        return gram

    def _line_search(self, phi, slope, offset, alpha, centre, max_trials=30):
        """Return a t in [0, 1] at which D is nearly largest along a step; the derivative of D falls in t."""
        def derivative(t):
            return offset + float(slope @ self._minimiser(phi + t * slope, alpha, centre))

        first = derivative(0.0)
        if first <= 0.0:
            return 0.0
        low, high, at_low, at_high = 0.0, 1.0, first, derivative(1.0)
        if at_high >= -0.1 * first:
            return 1.0
        for _ in range(max_trials):
            t = low + (high - low) * min(max(at_low / (at_low - at_high), 0.05), 0.95)
            found = derivative(t)
            if abs(found) <= 0.1 * first:
                return t
            if found > 0.0:
                low, at_low = t, found
            else:
                high, at_high = t, found
        return low


def master_of(bundle, slack, problem):
    """Return the master problem of a bundle; with a square or a ball the master works in Gram space alone."""
    kind = BallMaster if problem.ball is not None else PenaltyMaster if problem.square is None else Master
    return kind(bundle, slack, problem)


def _gap_of_rows(y, excess, curvatures):
    """Estimate what linear constraints can add to D: rows with slack and y > 0, and rows that are violated."""
    gains = np.maximum(excess, 0.0)**2 / (2.0 * np.maximum(curvatures, 1e-300))
    return float(np.sum(np.maximum(np.abs(y * excess), gains)))
