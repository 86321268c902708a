"""The best lower bound from a few planes of the whole risk, for quasi-Newton methods.

    max_beta  sum_j beta_j b_j - |sum_j beta_j a_j|^2 / (2 lam),    beta >= 0,  sum beta = 1

This is the master problem of a bundle method with one part and a few planes, the newest and those with the largest
multipliers. Any beta proves a bound, so it matters little which planes are dropped.
"""

from __future__ import annotations

import numpy as np

from ...core.object_graph import check_array, check_float
from ...qp._simplex_qp import SimplexQP
from ...runtime.lower_bound import LowerBound, aggregation_errors, feasible

MAX_STEPS = 10_000      # a QP of twenty variables needs some dozens


class RecentPlanes:
    """At most `room` planes `offsets[j] + <slopes[j], w> <= R(w)`, with their multipliers and lower bound.

    Parameters
    ----------
    dim, room : int
    slack : bool
        Whether R is never negative: 0 is then a plane, too, and multipliers sum to at most 1.

    Attributes
    ----------
    n_planes : int
    slopes : ndarray, shape (n_planes, dim)
    offsets, beta : ndarray, shape (n_planes,)

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.solvers.objective import SquaredNorm
    >>> planes = RecentPlanes(dim=1, room=2, slack=False)
    >>> planes.add(0.0, np.array([1.0])), planes.add(0.0, np.array([-1.0]))
    (0, 1)
    >>> planes.bound(SquaredNorm(1.0), tol=1e-9).value > -1e-9       # max(w, -w) has its minimum at 0
    True
    """

    serialised = (SimplexQP,)

    def __init__(self, dim, room, slack):
        self._slopes, self._H = np.empty((room, dim)), np.empty((room, room))
        self._offsets, self._beta = np.empty(room), np.zeros(room)
        self._slack = np.array([slack])
        self._qp = SimplexQP()
        self.room, self.n_planes, self.origins = room, 0, []    # numbers of the recorded points of the planes

    def __getstate__(self):
        n = self.n_planes
        return {"room": self.room, "slack": self._slack, "slopes": self.slopes, "offsets": self.offsets,
                "beta": self.beta, "H": self._H[:n, :n], "origins": self.origins}

    def __setstate__(self, state):
        n, dim = state["slopes"].shape
        self.__init__(dim, state["room"], state["slack"].item())
        self.n_planes, self.origins = n, state["origins"]
        for name, shape, low in (("slopes", (n, dim), -np.inf), ("offsets", (n,), -np.inf), ("beta", (n,), 0.0),
                                 ("H", (n, n), -np.inf)):
            check_array(name, state[name], shape, low=low)
        self.slopes[:], self.offsets[:], self.beta[:], self._H[:n, :n] = (
            state[name] for name in ("slopes", "offsets", "beta", "H"))

    def check(self, dim, slack):
        """Raise ValueError if these are planes of another risk."""
        if self._slopes.shape[1] != dim or self._slack.tolist() != [slack]:
            raise ValueError("the planes belong to another risk")

    @property
    def slopes(self):
        return self._slopes[:self.n_planes]

    @property
    def offsets(self):
        return self._offsets[:self.n_planes]

    @property
    def beta(self):
        return self._beta[:self.n_planes]

    def add(self, offset, slope, w=None, origin=-1):
        """Store the plane of a point w and return its index; without room it replaces that of the smallest multiplier.
        """
        j = self.n_planes
        if j == self.room:
            j = int(np.argmin(self._beta))
        else:
            self.n_planes += 1
        self.origins[j:j + 1] = [origin]
        self._slopes[j], self._offsets[j], self._beta[j] = slope, offset, 0.0
        self._H[j, :self.n_planes] = self._H[:self.n_planes, j] = self.slopes @ slope
        return j

    def bound(self, objective, tol, slope_error=0.0):
        """Return the best lower bound to within `tol`, including rounding errors.

        Parameters
        ----------
        objective : SquaredNorm
        slope_error : float
            Bound on the rounding error of any slope in the Euclidean norm; offsets must not exceed the true ones.

        Notes
        -----
        O(n_planes dim) and a QP. With constraints w_k >= 0 only the negative part of phi_k counts. The set of k with
        phi_k > 0 is taken from the last multipliers, and the QP uses slopes without these coordinates. Once this set
        stays the same as w converges, the QP is exact.
        """
        n, H = self.n_planes, self._H[:self.n_planes, :self.n_planes]
        if objective.nonneg is not None:
            taken = objective.nonneg & (self.beta @ self.slopes > 0.0)
            if taken.any():
                part = self.slopes[:, taken]
                H = H - part @ part.T
        parts = np.zeros(n, dtype=np.int32)
        self._qp.solve(H, self.offsets, parts, self._slack, self.beta, scale=1.0 / np.max(objective.moduli), tol=tol,
                       max_steps=MAX_STEPS)
        beta = feasible(self.beta, parts, self._slack)
        norms = np.sqrt(self._H.diagonal()[:n])
        errors = aggregation_errors(beta, self.offsets, norms, parts, np.array([slope_error]), np.zeros(1))
        return LowerBound.from_aggregate(objective, float(beta @ self.offsets), beta @ self.slopes, *errors)


class NewestPlane:
    """The plane of the last point alone: near the minimum it proves nearly as much as a mixture.

    Members as in `RecentPlanes`.

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.solvers.objective import SquaredNorm
    >>> newest = NewestPlane()
    >>> newest.add(1.0, np.array([1.0]))
    0
    >>> 0.499 < newest.bound(SquaredNorm(1.0), tol=0.0).value <= 0.5
    True
    """

    room, n_planes = 1, 0

    def check(self, dim, slack):
        """Raise ValueError if the plane is one of another dimension."""
        if self.n_planes:
            check_array("slope", self._slope, (dim,))
            check_float("offset", self._offset)

    def add(self, offset, slope, w=None, origin=-1):
        self._offset, self._slope, self.n_planes, self.origins = offset, slope, 1, [origin]
        return 0

    def bound(self, objective, tol, slope_error=0.0):
        return LowerBound.from_aggregate(objective, self._offset, self._slope, slope_error)
