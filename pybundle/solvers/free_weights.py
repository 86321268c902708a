"""Weights without penalty, such as an intercept: proves how large they can be at the minimum, from planes.

Every plane of R, with the least that the penalty adds to it over all other weights, is a cut on the free weights u:

    c_k + <g_k, u> <= F(w) <= level    for every w = (u, rest) that is as good as the best point.

For weight j and sign s a linear program finds multipliers mu >= 0 of the cuts with `sum_k mu_k g_k = s e_j + d` and d
about 0, so `s u_j <= r_j + <|d|, |u|>` with `r_j = sum_k mu_k (level - c_k)`. With the largest |d| of both signs in the
rows of D

    (1 - D) |u| <= r,    hence  |u| <= B  for every B with  (1 - D) B >= r,  if the rows of D sum to less than 1.

An aggregate plane whose slope is not quite 0 at the free weights then costs `sum_j |phi_j| B_j` of the bound.
"""

from __future__ import annotations

import numpy as np

FAR = 10.0      # the linear programs stop at that many times 1 + |u|, ten times as many after each point that they miss
FARTHEST = 1e12     # nothing limits a weight that no cut limits there, as that of a column of zeros
NEAR = 0.1      # where they start the next time if limits are too wide
COSTLY = 0.1   # they are if they cost that fraction of the tolerance
SAFE = 1e-9     # relative allowance for the rounding of sums; nothing is lost by it
MARGIN = 1e-2   # the level lies so much above the best value, of which it is a fraction: values are rounded, too


class FreeWeights:
    """Cuts on the free weights of one objective.

    Parameters
    ----------
    objective : Penalised
        `proven` of it is replaced when limits are known.
    """

    def __init__(self, objective):
        self.objective, self.free = objective, np.flatnonzero(objective.is_free)
        self._constants, self._slopes, self._errors = [], [], []
        self._wait, self._next, self._far = 1, 1, FAR
        self._lean = np.zeros(len(self.free))       # slope of the newest aggregate, 0 at the minimum

    @classmethod
    def of(cls, objective):
        """Return the cuts of an objective, without any yet; None if it has no free weights."""
        return cls(objective) if objective.is_free.any() else None

    def add(self, offset, phi, error, is_aggregate=False):
        """Take the plane `offset + <phi, w> <= R(w)`, phi known up to `error` in norm; an aggregate proves bounds.

        The cut is on the free weights of `inner_point`, which is where their limits are used.
        """
        phi, error = self.objective.inner_plane(phi, error)
        t, least = self.objective.least_over_rest(phi, error)
        rest = 0.0 if t == 1.0 else (1.0 - t) * self.objective.floor
        if np.isfinite(least + rest):
            self._constants.append(t * offset + rest + least - SAFE * (abs(offset) + abs(rest) + abs(least)))
            self._slopes.append(t * phi[self.free])
            self._errors.append(t * error + SAFE * float(np.linalg.norm(phi[self.free])))
            if is_aggregate:
                self._lean = self._slopes[-1]

    def probe(self, run):
        """After 1, 2, 4, 8, ... iterations try to prove limits; return a point whose plane that needs, or None.

        Until there are limits one pass at such a point is asked for after every iteration.
        """
        if run.trace.n_iter < self._next:
            return None
        point = self._prove(run.w, run.fun, run.trace.size)
        if point is None and self._cost() > COSTLY * run.rule.tol * abs(run.fun):
            self._far = NEAR
        return point

    def _cost(self):
        """Return about what the limits cost a bound: slopes and the largest error of one, times their size."""
        limits = self.objective.proven.upper[self.free]
        if not np.isfinite(limits).all():
            return np.inf
        return max(self._errors, default=0.0) * float(np.linalg.norm(limits)) + float(np.abs(self._lean) @ limits)

    def _prove(self, w, fun, size):
        """Limit the free weights at all points with F <= F(w) = fun; return a point where a cut is missing, or None.

        `size` is about F(0), for values of about 0.
        """
        from scipy.optimize import linprog  # which takes longer to import than all else

        level, u = fun + MARGIN * max(abs(fun), MARGIN * size), self.objective.inner_point(w)[self.free]
        far = self._far * (1.0 + np.abs(u))
        slopes, room = np.array(self._slopes).reshape(-1, len(u)), level - np.array(self._constants)
        # for the solver in units of `far` from u: of rows of size 1, without those that hold everywhere
        with np.errstate(over="ignore"):
            rows, least = slopes * far, room - slopes @ u
        sizes = np.abs(rows).sum(axis=1)
        cuts = np.flatnonzero((least < sizes) & (sizes > 0.0) & np.isfinite(sizes) & np.isfinite(least))
        rows, least = rows[cuts] / sizes[cuts, None], np.maximum(least[cuts] / sizes[cuts], -2.0)
        errors, rests, rooms = np.array(self._errors), np.zeros((len(u), len(u))), np.zeros(len(u))
        for j in range(len(u)):
            for sign in (1.0, -1.0):
                direction = sign * (np.arange(len(u)) == j)
                found = linprog(-direction, A_ub=rows, b_ub=least, bounds=(-1.0, 1.0))
                if found.x is None:
                    self._next += 1
                    return None         # the best point itself is cut off: by rounding
                if np.any(np.abs(found.x) >= 0.99):
                    if self._far >= FARTHEST:
                        self._wait *= 2
                        self._next += self._wait
                        return None
                    self._next += 1
                    self._far *= 10.0
                    return self._moved(w, u + far * found.x)
                mu = np.zeros(len(slopes))
                mu[cuts] = np.maximum(-found.ineqlin.marginals, 0.0) * far[j] / sizes[cuts]
                rest = np.abs(mu @ slopes - direction) + mu @ errors + SAFE * (mu @ np.abs(slopes))
                rests[j] = np.maximum(rests[j], rest)
                rooms[j] = max(rooms[j], float(mu @ room) + SAFE * float(mu @ np.abs(room)))
        self._wait *= 2
        self._next += self._wait
        if rests.sum(axis=1).max() < 0.5:
            limits = 1.1 * np.linalg.solve(np.eye(len(u)) - rests, rooms) + SAFE
            if (limits - rests @ limits >= rooms).all():
                self.objective.confine(self.free, limits, level)
        return None

    def _moved(self, w, u):
        point = np.array(self.objective.inner_point(w))
        point[self.free] = u
        return self.objective.outer_point(point)
