"""Proves from planes how large weights without penalty, such as an intercept, can be at the minimum.

Every plane of R, plus the least that the penalty can add to it over all other weights, is a cut on the free weights u:

    c_k + <g_k, u> <= F(w) <= level    for every w = (u, rest) that is as good as the best point.

A bound of the penalty on one side of a free weight is a cut, too. For weight j and sign s a linear program finds
multipliers mu >= 0 of the cuts with `sum_k mu_k g_k = s e_j + d` and d about 0, so `s u_j <= r_j + <|d|, |u|>` with
`r_j = sum_k mu_k (level - c_k)`. With the largest |d| of both signs in the rows of D

    (1 - D) |u| <= r,    hence  |u| <= B  for every B with  (1 - D) B >= r,  if rows of D sum to less than 1 (here 1/2).

An aggregate plane whose slope is not quite 0 at the free weights then costs `sum_j |phi_j| B_j` of the bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...core.kept import Kept, check_array, check_float

FAR = 10.0      # linear programs search within FAR (1 + |u|) of u, or ten times as far if no cut is missing that near
FARTHEST = 1e12     # beyond this factor the search ends, because points as good as the best point seem unbounded
MOST = 4        # maximum number of points at which a cut is asked for before linear programs search farther
MOST_FREE = 1000    # maximum number of free weights, since a linear program for n has two tables of n^2 numbers
NEAR = 0.1      # this factor takes the place of FAR if limits cost too much
COSTLY = 0.1    # limits cost too much if they take this fraction of the tolerance from a bound
INSIDE = 1e-3   # a point meets a cut if it exceeds the level by at most this fraction of the terms of the cut
SAFE = 1e-9     # relative allowance for the rounding of sums; it hardly weakens limits
LOWER = 0.5     # closed-form limits are computed again when the best value has fallen to this fraction of the level
MARGIN = 1e-2   # the level exceeds the best value by this fraction of it, because values have rounding errors


@dataclass
class LimitProof:
    """Multipliers that limit f free weights at all points with F <= level.

    Attributes
    ----------
    level : float
    constants, slopes, errors : ndarray, shapes (m,), (m, f), (m,)
        Cuts `constants + <slopes, u> <= level`; `errors` bound the errors of the slopes.
    multipliers : ndarray, shape (2, f, m)
        Multipliers of the cuts, for the sign + of each weight and then for -.
    bound_multipliers : ndarray, shape (2, f, f, 2)
        Multipliers of the lower and upper bounds of each weight.
    """

    level: float
    constants: np.ndarray
    slopes: np.ndarray
    errors: np.ndarray
    multipliers: np.ndarray
    bound_multipliers: np.ndarray

    def sizes(self, lower, upper):
        """Return the limits, shape (f,), that follow for free weights within bounds, or None if no limits follow."""
        f, bounds = len(lower), np.stack([-lower, upper], axis=-1)
        mu, nu, room = self.multipliers, self.bound_multipliers, self.level - self.constants
        if nu[..., np.isinf(bounds)].any():
            return None
        gains = nu * np.where(np.isinf(bounds), 0.0, bounds)
        directions = np.stack([np.eye(f), -np.eye(f)])
        rests = np.abs(mu @ self.slopes + nu @ [-1.0, 1.0] - directions) + (mu @ self.errors)[..., None]
        rests = (rests + SAFE * (mu @ np.abs(self.slopes) + nu.sum(axis=-1))).max(axis=0)
        rooms = mu @ room + gains.sum(axis=(2, 3))
        rooms = (rooms + SAFE * (mu @ np.abs(room) + np.abs(gains).sum(axis=(2, 3)))).max(axis=0)
        if not rests.sum(axis=1).max() < 0.5:
            return None
        limits = 1.1 * np.linalg.solve(np.eye(f) - rests, np.maximum(rooms, 0.0)) + SAFE
        return limits if (limits - rests @ limits >= rooms).all() else None

    def check(self):
        """Raise ValueError if arrays from a checkpoint are no such proof; `sizes` tells whether limits follow."""
        m, f = np.shape(self.slopes)
        check_float("level", self.level)
        for name, shape, low in (("constants", (m,), -np.inf), ("slopes", (m, f), -np.inf), ("errors", (m,), 0.0),
                                 ("multipliers", (2, f, m), 0.0), ("bound_multipliers", (2, f, f, 2), 0.0)):
            check_array(name, getattr(self, name), shape, low=low)


class ProvenLimits(Kept):
    """What a run has proven of the free weights of its objective.

    Parameters
    ----------
    problem : Problem
    lowered : Penalty, optional
        Omega with the bounds known at the start; by default `problem.lowered`.

    Attributes
    ----------
    penalty : Penalty
        `lowered`, but infinite beyond the proven limits.
    least : float
        A lower bound of `penalty`, if limits are proven.
    level : float
        The limits hold for points with F <= level; infinite without limits.
    proofs : list of LimitProof or ScoreLimits
        Proofs of the limits, in the order in which they were added.
    """

    kept = ("proofs",)
    least = 0.0

    def __init__(self, problem, lowered=None):
        self.problem, self._lowered = problem, problem.lowered if lowered is None else lowered
        self.forget()

    def forget(self):
        """Drop the limits."""
        self.level, self.penalty, self.proofs = np.inf, self._lowered, []

    def confine(self, proof):
        """Add the limits that a proof gives at all points with F <= its level; return whether it gives limits.

        Earlier limits belong to higher levels, and so hold at these points, too.
        """
        free = np.flatnonzero(self.problem.is_free)
        limits = proof.sizes(self.penalty.lower[free], self.penalty.upper[free])
        if limits is None:
            return False
        bounds = np.full(len(self.penalty.l2), np.inf)
        bounds[free] = limits
        self.level = min(float(proof.level), self.level)
        self.penalty = self.penalty.within(-bounds, bounds)
        self.least = self.penalty.least(np.zeros(len(bounds)))
        self.proofs = [*self.proofs, proof]
        return True

    @property
    def is_proven(self):
        """True if any limits have been proven."""
        return self.level < np.inf

    def hold(self, value, size):
        """Add limits in closed form, which hold at points with F up to a little above `value`; `size` is about F(0)."""
        if value < LOWER * self.level:
            self.confine(replace(self.problem.score_limits, level=value + MARGIN * max(value, MARGIN * size)))

    def restore(self, arrays):
        """Compute the limits again from the proofs in a checkpoint."""
        self.forget()
        for proof in arrays["proofs"]:
            if isinstance(proof, LimitProof):
                proof.check()
            else:
                proof = replace(self.problem.score_limits, level=proof.level)
            if not self.confine(proof):
                raise ValueError("limits of free weights are not what their planes prove")


class FreeWeights(Kept):
    """Cuts on the free weights of one objective.

    Parameters
    ----------
    limits : ProvenLimits
        Receives the limits that are found.

    Attributes
    ----------
    shares : list of float
        The factor t of the plane in each cut, in which the declared lower bound of R has the factor 1 - t.
    proof : LimitProof or None
        The last proof; `proof_cuts` are the numbers of its cuts.
    """

    kept = ("shares", "proof", "proof_cuts", "_constants", "_slopes", "_errors", "_wait", "_next", "_far", "_probed",
            "_n_probed", "_lean")
    proof: LimitProof | None = None
    proof_cuts: np.ndarray | None = None

    def __init__(self, limits):
        self.problem, self.limits = limits.problem, limits
        self.free = np.flatnonzero(self.problem.is_free)
        self._constants, self._slopes, self._errors, self.shares = [], [], [], []
        self._wait, self._next, self._far, self._probed, self._n_probed = 1, 1, FAR, None, 0
        self._lean = np.zeros(len(self.free))       # slope of the newest aggregate at the free weights

    @classmethod
    def of(cls, problem, limits):
        """Return an object without cuts, or None if no weights are free, too many are, or other proofs limit them."""
        is_needed = problem.is_free.any() and problem.anchors is None and problem.score_limits is None
        return cls(limits) if is_needed and np.count_nonzero(problem.is_free) <= MOST_FREE else None

    @property
    def are_limited(self):
        """True if limits of all free weights are proven."""
        return bool(np.isfinite(self.limits.penalty.upper[self.free]).all())

    def add(self, plane, is_aggregate=False):
        """Add the cut that a plane below R gives; `is_aggregate` tells that the plane proves bounds of F.

        The cut holds for the free weights in `Coordinates`, because limits are used in these coordinates.
        """
        plane = self.problem.coordinates.plane(plane)
        t, least = self.problem.least_over_rest(plane)
        offset = plane.offset - plane.offset_error
        slope = plane.slope[self.free]
        rest = 0.0 if t == 1.0 else (1.0 - t) * self.problem.floor
        if np.isfinite(least + rest):
            self._constants.append(t * offset + rest + least - SAFE * (abs(offset) + abs(rest) + abs(least)))
            self._slopes.append(t * slope)
            self.shares.append(t)
            self._errors.append(t * plane.slope_error + SAFE * float(np.linalg.norm(slope)))
            if is_aggregate:
                self._lean = self._slopes[-1]

    def probe(self, search):
        """Try to prove limits after 1, 3, 7, 15, ... iterations; return a point whose plane is still needed, or None.

        Until there are limits, every iteration asks for one pass at such a point.
        """
        if search.trace.n_iter < self._next:
            return None
        point = self.prove(search.w, search.fun, search.size.value)
        if point is None and self.are_limited and self.cost() > COSTLY * search.rule.tol * abs(search.fun):
            self.start_near()
        return point

    def start_near(self):
        """Let the next linear programs search near the best point only, which gives the narrowest limits."""
        self._far = NEAR

    def cost(self):
        """Estimate by how much the limits lower a bound: slope of the aggregate and largest error, times the limits."""
        limits = self.limits.penalty.upper[self.free]
        if not np.isfinite(limits).all():
            return np.inf
        return max(self._errors, default=0.0) * float(np.linalg.norm(limits)) + float(np.abs(self._lean) @ limits)

    def prove(self, w, fun, size):
        """Prove limits at all points with F <= F(w) = fun; return a point whose plane is needed for that, or None.

        `size` is about F(0); it gives the level a margin above `fun` if `fun` is about 0.
        """
        from scipy.optimize import linprog  # imported here: it takes longer to import than the rest of the package

        level, u = fun + MARGIN * max(abs(fun), MARGIN * size), self.problem.coordinates.inner(w)[self.free]
        slopes, room = np.array(self._slopes).reshape(-1, len(u)), level - np.array(self._constants)
        if self._probed is not None:        # the last point that was returned; it met all cuts known then
            excess, terms = slopes @ self._probed - room, np.abs(slopes) @ np.abs(self._probed) + np.abs(room)
            self._n_probed += 1
            if (excess <= INSIDE * terms).all() or self._n_probed > MOST:     # its cut does not exclude the point
                self._far, self._n_probed = 10.0 * self._far, 0
        self._probed = None
        far = self._far * (1.0 + np.abs(u))
        # in the linear programs, weights are differences from u in units of `far`; cuts that hold for all of these are
        # left out, and others are scaled to size 1
        bounds = np.column_stack([self.limits.penalty.lower, self.limits.penalty.upper])[self.free]
        ends = (bounds - u[:, None]) / far[:, None]
        is_near = np.abs(ends) <= 1.0
        with np.errstate(over="ignore"):
            rows, least = slopes * far, room - slopes @ u
        sizes = np.abs(rows).sum(axis=1)
        cuts = np.flatnonzero((least < sizes) & (sizes > 0.0) & np.isfinite(sizes) & np.isfinite(least))
        rows, least = rows[cuts] / sizes[cuts, None], np.maximum(least[cuts] / sizes[cuts], -2.0)
        multipliers, bound_multipliers = np.zeros((2, len(u), len(slopes))), np.zeros((2, len(u), len(u), 2))
        for j in range(len(u)):
            for k, sign in enumerate((1.0, -1.0)):
                direction = sign * (np.arange(len(u)) == j)
                found = linprog(-direction, A_ub=rows, b_ub=least, bounds=np.clip(ends, [-1.0, 0.0], [0.0, 1.0]))
                if found.x is None:
                    self._next += 1
                    return None         # infeasible: by rounding, the cuts exclude even the best point
                if (~is_near & (np.column_stack([-found.x, found.x]) >= 0.99)).any():
                    self._next += 1 if self._far <= FARTHEST else 1 << 40
                    self._probed = u + far * found.x
                    return self._moved(w, self._probed)
                multipliers[k, j, cuts] = np.maximum(-found.ineqlin.marginals, 0.0) * far[j] / sizes[cuts]
                nu = np.column_stack([found.lower.marginals, found.upper.marginals]) * (far[j] / far[:, None])
                bound_multipliers[k, j] = np.where(is_near, np.maximum(nu * [1.0, -1.0], 0.0), 0.0)
        self._wait *= 2
        self._next += self._wait
        used = np.flatnonzero(multipliers.any(axis=(0, 1)))
        proof = LimitProof(level, np.array(self._constants)[used], slopes[used], np.array(self._errors)[used],
                           np.ascontiguousarray(multipliers[..., used]), bound_multipliers)
        if self.limits.confine(proof):
            self.proof, self.proof_cuts = proof, used
        return None

    def _moved(self, w, u):
        point = np.array(self.problem.coordinates.inner(w))
        point[self.free] = u
        return self.problem.coordinates.outer(self.limits.penalty.project(point))
