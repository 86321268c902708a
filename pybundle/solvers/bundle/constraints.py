"""Linear constraints `A w <= u`, the argument `constraints` of `minimize`.

The master problem finds their multipliers. Any multipliers y >= 0 prove a bound (weak duality): for all w that meet the
constraints

    R(w) >= offset + <phi, w> >= (offset - y'u) + <phi + A'y, w>

so that the right-hand side is one more aggregate plane. After a point has violated row i, the bundle stores the row
like a plane, with slope a_i and offset -u_i.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np
import scipy.sparse as sp

from ...bundle import Bundle
from ...core.constraints import read_constraints
from ...core.exceptions import ParameterError
from ...core.plane import Plane, Planes
from ...core.rounding import UNIT
from .penalty_master import PenaltyMaster

MEETS = 1e-10       # a point meets a row if `a_i w - u_i` is at most this fraction of the terms of the row
VIOLATES = 1e-13    # a point that violates a row by more than this fraction is corrected
SWEEPS = 3          # sweeps over the rows that derive bounds of single weights
VAST = 1e100        # derived bounds beyond this count as infinite
SAFE = 1e-9         # relative allowance for the rounding of sums; it hardly weakens bounds
TINY = 1e-300       # exceeds any product that underflows
EXACT = 1e-10       # the smallest tolerance that HiGHS accepts
ROUNDS = 10         # a projection is corrected for its rounding at most so many times


class Rows:
    """The constraints `A w <= upper`; a lower bound is a row with the opposite sign, an equality is two rows.

    Parameters
    ----------
    A : csr_array, shape (m, dim)
    upper : ndarray, shape (m,)

    Attributes
    ----------
    m : int
    inside : ndarray, shape (dim,), or None
        A point that meets all rows and the bounds of the problem, if `check_feasible` has found one.
    """

    inside: np.ndarray | None = None

    def __init__(self, A, upper):
        self.A, self.upper, self.m = A, upper, len(upper)
        self._absolute = abs(A)
        self._norms = np.sqrt(np.asarray(A.multiply(A).sum(axis=1)).ravel())

    def __repr__(self):
        arrays = self.A.data, self.A.indices, self.A.indptr, self.upper
        words = b"".join(np.ascontiguousarray(array) for array in arrays)
        return f"{self.m} rows of check sum {crc32(words)}"         # a checkpoint compares this text

    def excess(self, w):
        """Return `A w - upper`, an entry divided by the sum of absolute terms of its row; > 0 if w violates the row."""
        sizes = self._absolute @ np.abs(w) + np.abs(self.upper)
        return (self.A @ w - self.upper) / np.maximum(sizes, 1e-300)

    def contains(self, w):
        """Return whether w meets all rows, up to `MEETS`."""
        return bool((self.excess(w) <= MEETS).all())

    def violated(self, w):
        """Return the numbers of the rows that w violates."""
        return np.flatnonzero(self.excess(w) > VIOLATES)

    def implied(self, lower, upper):
        """Return bounds of the weights that follow from the rows and from the bounds `lower` and `upper`.

        A row `a w_k + other terms <= u` gives `a w_k <= u - s` if the sum of the other terms is at least s.
        """
        entries = self.A.tocoo()
        row, k, a = entries.row, entries.col, entries.data
        lower, upper = lower.copy(), upper.copy()
        for _ in range(SWEEPS):
            terms = np.where(a == 0.0, 0.0, a * np.where(a > 0.0, lower[k], upper[k]))     # least value of each term
            is_open = np.isinf(terms)
            known = np.where(is_open, 0.0, terms)
            sums, sizes, n_open = (np.bincount(row, values, self.m) for values in (known, np.abs(known), is_open))
            usable = (a != 0.0) & (n_open[row] - is_open == 0)      # all other terms of the row are bounded below
            r, j, slope = row[usable], k[usable], a[usable]
            rest = self.upper[r] - (sums[r] - known[usable]) + SAFE * (sizes[r] + np.abs(self.upper[r]))
            rises = slope > 0.0
            with np.errstate(over="ignore"):
                bounds = rest / slope
            np.minimum.at(upper, j[rises], bounds[rises])
            np.maximum.at(lower, j[~rises], bounds[~rises])
        return np.where(lower < -VAST, -np.inf, lower), np.where(upper > VAST, np.inf, upper)

    def squares(self, means):
        """Return the squared norms of the rows in `Coordinates`."""
        squares = self._norms**2
        if means is None:
            return squares
        last = self._last()
        inner = squares - 2.0 * last * (self.A @ means) + last**2 * float(means @ means)
        return np.maximum(inner, UNIT * squares)        # rounding may make the difference negative

    @staticmethod
    def box(problem):
        """Return the bounds of the weights, two arrays of shape (dim,)."""
        omega, dim = problem.entries, problem.rows.A.shape[1]
        return (np.full(dim, -np.inf), np.full(dim, np.inf)) if omega is None else (omega.lower, omega.upper)

    def _last(self):
        return self.A[:, [-1]].toarray().ravel()

    def planes(self, numbers, is_sparse):
        """Return the rows with these numbers as planes; the bundle gives row i the part -1 - i."""
        slopes = self.A[numbers]
        return Planes(np.zeros(len(numbers)), -self.upper[numbers], slopes if is_sparse else slopes.toarray())

    def pull(self, parts, beta):
        """Return `A'y`, and y: the multipliers of the rows, shape (m,), from the multipliers beta of a bundle."""
        y, is_row = np.zeros(self.m), parts < 0
        y[-1 - parts[is_row]] = beta[is_row]
        return self.A.T @ y, y

    def relax(self, plane, parts, beta, means=None, safety=1.0):
        """Return the plane `(offset - y'u) + <phi + A'y, w>` for an aggregate plane and multipliers y of the rows.

        Its errors count the rounding of both sums `safety` times. The error of the slope holds in `Coordinates`, too.
        """
        slope, y = self.pull(parts, np.maximum(beta, 0.0))
        terms = 1.01 * (2 * np.count_nonzero(y) + 4) * UNIT
        products = y * np.abs(self.upper)
        norms = self._norms if means is None else self._norms + float(np.linalg.norm(means)) * np.abs(self._last())
        return Plane(plane.offset - float(y @ self.upper), plane.slope + slope,
                     plane.slope_error + safety * (terms * float(y @ norms)),
                     plane.offset_error + safety * (terms * (float(products.sum()) + abs(plane.offset))))

    def nearest(self, problem, v):
        """Return the point nearest to v, in `Coordinates`, that meets the rows, up to rounding, and the bounds.

        The problem must have no other penalty than bounds. If the rows are so ill-conditioned that no such point is
        found, the result is a copy of `inside`.
        """
        bundle = Bundle(len(v), 1)
        master = PenaltyMaster(bundle, np.array([True]), problem)
        master.move_centre(v)
        solution = master.solve(1e-14 * max(float(v @ v), 1e-100), 0.5)
        w = self._corrected(solution.w, -1 - bundle.parts[solution.beta > 0.0], *self.box(problem))
        return w if self.inside is None or self.contains(w) else self.inside.copy()

    def _corrected(self, w, active, lower, upper):
        """Return w after steps that turn active and violated rows into equalities.

        Each step is the shortest step in the weights that are not at their bounds.
        """
        for _ in range(ROUNDS):
            outside = self.violated(w)
            if len(outside) == 0:
                break
            active = np.union1d(active, outside)
            rows = self.A[active]
            columns = np.unique(rows.indices)
            columns = columns[(w[columns] > lower[columns]) & (w[columns] < upper[columns])]
            step = np.linalg.lstsq(rows[:, columns].toarray(), rows @ w - self.upper[active])[0]
            moved = w.copy()
            moved[columns] = np.clip(w[columns] - step, lower[columns], upper[columns])
            w = moved
        return w

    def least_violated(self, lower, upper):
        """Return the point within bounds whose largest violation of a row is least, and the multipliers of the rows.

        The point is None if the solver fails. The linear program is scaled such that the largest |upper| is 1.
        """
        from scipy.optimize import linprog  # imported here: it takes longer to import than the rest of the package

        dim = self.A.shape[1]
        unit = np.abs(self.upper).max(initial=0.0) or 1.0
        bounds = np.column_stack([np.append(lower / unit, 0.0), np.append(upper / unit, np.inf)])
        rows = sp.hstack([self.A, sp.csr_array(-np.ones((self.m, 1)))])
        found = linprog(np.append(np.zeros(dim), 1.0), A_ub=rows, b_ub=self.upper / unit, bounds=bounds,
                        options={"primal_feasibility_tolerance": EXACT, "dual_feasibility_tolerance": EXACT})
        if found.x is None:
            return None, np.zeros(self.m)
        y = np.maximum(-found.ineqlin.marginals, 0.0)
        w = np.clip(unit * found.x[:-1], lower, upper)
        return self._corrected(w, np.flatnonzero(y), lower, upper), y

    def excluded(self, y, lower, upper):
        """Return the largest B for which multipliers y >= 0 prove that no point with |w_k| <= B meets the rows.

        B is infinite if y excludes all points, and not positive if y proves nothing. All points within bounds that
        meet the rows have `<A'y, w> <= y'u` (Farkas).
        """
        slope, sizes = self.A.T @ y, self._absolute.T @ y
        errors = 1.01 * (np.count_nonzero(y) + 4.0) * UNIT * sizes
        errors += np.where(self._absolute.T @ (y > 0.0) > 0.0, TINY, 0.0)
        ends = np.where(slope > 0.0, lower, upper)              # the bound at which the term of a weight is least
        is_open, is_bounded = np.isinf(ends), np.isfinite(lower) & np.isfinite(upper)
        terms = np.append(np.where(is_open, 0.0, slope * np.where(is_open, 0.0, ends)), -y * self.upper)
        margin = float(terms.sum()) - 1.01 * len(terms) * UNIT * float(np.abs(terms).sum())
        margin -= 1.01 * float(errors[is_bounded] @ np.maximum(np.abs(lower), np.abs(upper))[is_bounded])
        rate = 1.01 * float(np.abs(slope[is_open]).sum() + errors[~is_bounded].sum())
        return 0.0 if not margin > 0.0 else margin / rate if rate > 0.0 else np.inf


def as_rows(constraints, dim):
    """Return the argument `constraints` as `Rows`."""
    return Rows(*read_constraints(constraints, dim))


def check_feasible(problem):
    """Set `rows.inside` to a point that meets rows and bounds of a problem; raise ParameterError if none is found.

    The projection of 0 is tried first. If it fails, as with ill-conditioned rows, a linear program finds the point
    whose largest violation is least. Its multipliers tell how far from 0 all points that meet the rows must be.
    """
    rows, dim = problem.rows, problem.rows.A.shape[1]
    w = problem.project(np.zeros(dim))
    if problem.contains(w):
        rows.inside = w
        return
    w, y = rows.least_violated(*rows.box(problem))
    if w is not None and problem.contains(w):
        rows.inside = w
        return
    reach = rows.excluded(y, *rows.box(problem))
    if reach > 0.0:
        within = "" if reach == np.inf else f" of entries up to {0.95 * reach:.1e}"
        raise ParameterError("constraints must have a common point within the bounds of the weights, but a linear "
                             f"program proves that there is none{within}; relax them")
    raise ParameterError(f"constraints must have a point that meets them up to {MEETS:g} of their terms, but none was "
                         "found and none is excluded; scale weights or rows")
