"""The best lower bound from a few planes of the whole risk with a penalty, for quasi-Newton methods.

The multipliers solve the master problem of a bundle method with one part and a few planes, by a few Newton steps. As
with `RecentPlanes` any multipliers prove a bound.

If some weights have no square in the penalty, or a tiny one, the master needs a centre, here the point of the newest
plane. The bound omits it. The best weight of the centre is not known: 1e-13 to 1e-5 of the weight at which a step along
the slope would reach 0 have all been best on some problem, so that every call tries the best one of the last call and
the next two of a list in turn.
"""

from __future__ import annotations

import numpy as np

from ...bundle import Bundle
from ...core.exceptions import NumericalError
from ...core.plane import Planes
from ...runtime.lower_bound import LowerBound
from ..bundle.master import bound_of
from ..bundle.penalty_master import PenaltyMaster
from ..mean_plane import MeanPlane

SHARES = 1e-9, 1e-11, 1e-7, 1e-13, 1e-5     # weights of the centre, in units of `first_alpha`
N_TRIED = 3
N_STEPS = 4         # Newton steps: more prove little more
RARELY = 4          # a master may cost more than a pass: it is solved again after 1/4 more passes


class PenaltyPlanes:
    """At most `room` planes, their multipliers and lower bound; members as in `RecentPlanes`.

    Parameters
    ----------
    dim, room : int
    slack : bool
        Whether R is never negative.
    objective : Penalised
    has_mean : bool
        Whether the mean of all planes may prove the bound, too.
    """

    serialised = (Bundle, PenaltyMaster, MeanPlane)

    def __init__(self, dim, room, slack, objective, has_mean=True):
        self.room, self._bundle = room, Bundle(dim, 1)
        self._master = PenaltyMaster(self._bundle, np.array([slack]), objective)
        self._master.max_rounds = N_STEPS
        self._weights, self._n_asked, self._next_due = [], 0, 1
        self._mean = MeanPlane(objective.means) if has_mean and objective.modulus is None else None

    @property
    def n_planes(self):
        return self._bundle.n_planes

    @property
    def beta(self):
        return self._bundle.beta

    @property
    def origins(self):
        """Numbers of the recorded points of the planes."""
        return self._bundle.origins.tolist()

    def check(self, dim, slack):
        """Raise ValueError if these are planes of another risk."""
        if self._bundle.dim != dim or self._master.slack.tolist() != [slack]:
            raise ValueError("the planes belong to another risk")
        if self._mean is not None:
            self._mean.check(dim)

    def add(self, offset, slope, w, origin=-1):
        """As in `RecentPlanes`."""
        if self.n_planes == self.room:
            self._bundle.drop(np.array([np.argmin(self._bundle.beta)]))
        self._bundle.append(Planes(np.zeros(1), np.array([offset]), slope[None, :], origin), self._master.slack)
        self._master.move_centre(w)
        if self._mean is not None:
            self._mean.add(offset, slope)
        return self.n_planes - 1

    def bound(self, objective, tol, slope_error=0.0):
        """As in `RecentPlanes`, mostly that of the newest plane alone or of the mean of all."""
        found = self._of_multipliers(tol, objective, slope_error)
        if self._mean is None:
            return found
        offset, phi, error, offset_error = self._mean.plane
        mean = LowerBound.from_aggregate(objective, offset, phi, error + slope_error, offset_error)
        return max(found, mean, key=lambda bound: bound.value)

    def _of_multipliers(self, tol, objective, slope_error):
        self._n_asked += 1
        if self._n_asked >= self._next_due:
            self._next_due += 1 + self._n_asked // RARELY
            try:
                return self._best(tol, objective, slope_error)
            except NumericalError:      # products of planes overflow, those of points far away
                pass
        n = self._bundle.n_planes
        return self._proven((np.arange(n) == n - 1).astype(np.float64), slope_error)

    def _best(self, tol, objective, slope_error):
        bundle = self._bundle
        if not self._weights and bundle.n_planes:
            first = self._master.first_alpha(objective.value(self._master.centre) + abs(float(bundle.offsets[0])))
            self._weights = [first * share for share in SHARES]
        if not self._weights or (objective.modulus or 0.0) > max(self._weights):
            beta = self._master.solve(tol).beta
            bundle.settle(beta)
            return self._proven(beta, slope_error)
        betas = [self._master.solve(tol, alpha).beta for alpha in self._weights[:N_TRIED]]
        bounds = [self._proven(beta, slope_error) for beta in betas]
        best = int(np.argmax([bound.value for bound in bounds]))
        bundle.settle(betas[best])
        tried, rest = self._weights[:N_TRIED], self._weights[N_TRIED:]
        self._weights = [tried.pop(best), *rest, *tried]
        return bounds[best]

    def _proven(self, beta, slope_error):
        master = self._master
        return bound_of(self._bundle, master.slack, master.objective, beta, np.array([slope_error]), np.zeros(1))
