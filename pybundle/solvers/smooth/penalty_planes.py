"""The best lower bound from a few planes of the whole risk with a penalty, for quasi-Newton methods.

The multipliers solve the master problem of a bundle method with one part and a few planes, by a few Newton steps. As
with `RecentPlanes` any multipliers prove a bound.
"""

from __future__ import annotations

import numpy as np

from ...bundle import Bundle
from ...core.plane import Planes
from ...runtime.lower_bound import LowerBound, aggregation_errors, feasible
from ..bundle.penalty_master import PenaltyMaster

SHARES = 1e-9, 1e-11, 1e-7, 1e-13, 1e-5     # of the weight at which a step along the slope would reach 0
WIDE, SELDOM = 100_000, 4           # beyond so many weights a bound is due after a quarter more passes
ROUNDS = 4          # of Newton steps: more prove little more


class PenaltyPlanes:
    """At most `room` planes, their multipliers and lower bound; members as in `RecentPlanes`.

    Parameters
    ----------
    dim, room : int
    slack : bool
        Whether R is never negative.
    objective : Penalised
    """

    serialised = (Bundle, PenaltyMaster)

    def __init__(self, dim, room, slack, objective):
        self.room, self._bundle = room, Bundle(dim, 1)
        self._master = PenaltyMaster(self._bundle, np.array([slack]), objective)
        self._master.max_rounds = ROUNDS
        self._weights, self._n_asked, self._next = [], 0, 1

    @property
    def n_planes(self):
        return self._bundle.n_planes

    def check(self, dim, slack):
        """Raise ValueError if these are planes of another risk."""
        if self._bundle.dim != dim or self._master.slack.tolist() != [slack]:
            raise ValueError("the planes belong to another risk")

    def add(self, offset, slope):
        """Store a plane and return its index; if there is no room, that of the smallest multiplier leaves."""
        if self.n_planes == self.room:
            self._bundle.drop(np.array([np.argmin(self._bundle.beta)]))
        self._bundle.append(Planes(np.zeros(1), np.array([offset]), slope[None, :]), self._master.slack)
        return self.n_planes - 1

    def bound(self, objective, tol, slope_error=0.0, at=None):
        """Return the best lower bound found; arguments as in `RecentPlanes`, and the point of the newest plane.

        None if it is not due: with many weights a master costs more than a pass, and is solved ever more rarely.

        If the squares do not hold all entries, a light centre at that point does. The bound leaves it out, and is best
        at a weight that is not known before: every call tries some.
        """
        bundle = self._bundle
        if bundle.n_planes == 0:
            return LowerBound.from_aggregate(objective, 0.0, np.zeros(bundle.dim))
        self._n_asked += 1
        if self._n_asked < self._next:
            return None
        self._next += 1 + (self._n_asked // SELDOM if bundle.dim > WIDE else 0)
        self._master.move_centre(at)
        if objective.modulus is not None:
            best, beta = self._at_weight(objective, None, tol, slope_error)
        else:
            if not self._weights:
                first = self._master.first_alpha(objective.value(at) + abs(float(bundle.offsets[0])))
                self._weights = [first * share for share in SHARES]
            tried = [(*self._at_weight(objective, alpha, tol, slope_error), alpha) for alpha in self._weights[:3]]
            best, beta, alpha = max(tried, key=lambda item: item[0].value)
            # the best one is tried again, with the next in turn
            self._weights = [alpha, *self._weights[3:], *(other for other in self._weights[:3] if other != alpha)]
        bundle.settle(beta)
        return best

    def _at_weight(self, objective, alpha, tol, slope_error):
        """Return the bound, and its multipliers, from the master at this weight of the centre."""
        bundle, master = self._bundle, self._master
        beta = feasible(master.solve(tol, alpha).beta, bundle.parts, master.slack)
        phi, offset = bundle.combine(beta)
        norms = objective.sizes(np.sqrt(bundle.H.diagonal()),
                                lambda: bundle.dot(np.append(np.zeros(bundle.dim - 1), 1.0)))
        errors = aggregation_errors(beta, bundle.offsets, norms, bundle.parts, np.array([slope_error]), np.zeros(1))
        return LowerBound.from_aggregate(objective, offset, phi, *errors), beta
