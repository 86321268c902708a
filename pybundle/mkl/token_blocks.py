"""Certified multiple kernel learning with the hinge over tokens: dual block steps on cached labellings."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import NumericalError
from ..core.plane import Plane
from ..prox.of_norm import minimiser
from ..runtime.stopping import GapBelow
from ..solvers.block.core import Core
from ..solvers.block.schedules import Accelerated
from ..solvers.problem.problem import Problem
from ..solvers.search import Search
from ..solvers.state import Settings
from .certified import GroupBlocks, MeanLoss, reweighed, solve
from .group_norms import GroupNorms

INNER = 5
"""Maximum number of cached passes after a pass with the oracle."""
MOST_STEPS = 10
"""Maximum number of pairwise steps in a visit of an example."""
CENTRE = 0.1
"""Weight of the proximal centre, relative to sqrt(lam Rbar^2); the centre slows changes of norms and kernel weights."""
FRACTION = 0.1
"""Cached passes end when their block gaps sum to this fraction of the gap."""


def climb(ascent, settings, n_examples):
    """Ascend until F - LB <= tol |F|; afterwards the groups hold the best point, with scale 1.

    A new `ascent` is expected, with the multipliers of all examples at the truth and all groups 0. Returns a
    `Certified` from running sums, which the caller recomputes, and the plane that proves the bound, summed from
    multipliers: coefficients of tokens and of links, and the offset. After Ctrl-C these are the best so far.
    """
    arrays = [group.state() for group in ascent.groups]
    labels = np.repeat(np.arange(len(arrays)), [v[0].size for v in arrays])
    problem = Problem(GroupNorms(settings.lam, labels, len(arrays)))
    search = Search(MeanLoss(problem, max(map(len, arrays)), n_examples), problem,
                    Settings(GapBelow(settings.tol), random_state=settings.random_state))
    schedule = EachPass(fraction=FRACTION, fraction_before=np.inf, most_passes=INNER)
    run = GroupBlocks(search, TokenBlocks, schedule, ascent=ascent)
    try:
        found = solve(run, settings.max_iter)
    except FloatingPointError:
        raise NumericalError("scores went beyond the range of float64; scale the features") from None
    run.core.go_back(search.w)
    return found, search.bound.plane()


class EachPass(Accelerated):
    """Schedule that computes the value after each pass of the oracle, which is cheap with a compiled decoder."""

    def actions(self, run):
        return "visit", "cached", "value"


class TokenBlocks(Core):
    """`Ascent` as the core of a block method.

    The groups hold `theta_k = s_k V_k = (kappa c_k - nu_k phi_k) / (lam + kappa)`. A step changes V_k and -phi_k by the
    same vector, so `s_k = nu_k / (lam + kappa)`.
    """

    def __init__(self, risk, problem, known, ascent):
        self.n_examples, self.dim, self.visits = risk.n_examples, risk.dim, 0.0
        omega = problem.penalty
        self._ascent, self._shape, self._labels = ascent, (risk.n_rows, len(omega.labels)), omega.labels
        self._norms, self._default_kappa, p = omega.norms, 0.0, omega.n_groups
        self._parts = [slice(*ends) for ends in np.searchsorted(self._labels, [[k, k + 1] for k in range(p)])]
        self.nu, self._lam, self._kappa, self._centre = np.full(p, 1.0 / p), omega.lam, 0.0, None

    # ------------------------------------------------------------------ the point
    @property
    def w(self):
        """The point with the rows of `group_norms`; if there are kernels, weights of features are in both rows."""
        theta, s = np.empty(self._shape), self.nu / (self._lam + self._kappa)
        for group, part, scale in zip(self._ascent.groups, self._parts, s, strict=True):
            first, *second = group.state()
            theta[-1, part] = scale * (second[0].T if second else first).ravel()
            theta[0, part] = scale * first.ravel()
        return theta

    def go_back(self, theta, scales=None):
        """Write a point into the groups, with scales s_k, by default 1."""
        scales = np.ones(len(self.nu)) if scales is None else scales
        for group, part, scale in zip(self._ascent.groups, self._parts, scales, strict=True):
            first, *second = group.state()
            first[:] = theta[0, part].reshape(first.shape) / scale
            for scores in second:
                scores[:] = theta[-1, part].reshape(first.shape).T / scale
            group.set_scale(scale)

    def phi(self):
        theta = -(self._lam + self._kappa) * self.w
        if self._kappa:
            theta += self._kappa * self._centre
        return theta / self.nu[self._labels]

    def place(self, lam, kappa, centre):
        self._move(self.nu, lam, kappa, centre)

    def forget(self):
        """Set new kernel weights from the norms of the point; multipliers and centre stay."""
        self._move(reweighed(self.nu, self._norms(self.w)), self._lam, self._kappa, self._centre)

    def _move(self, nu, lam, kappa, centre):
        theta = minimiser(nu[self._labels] * self.phi(), lam, kappa, centre)
        self.nu, self._lam, self._kappa, self._centre = nu, lam, kappa, centre
        self.go_back(theta, nu / (lam + kappa))

    def default_kappa(self, lam):
        """Return CENTRE times `sqrt(lam Rbar^2)`, estimated in the first pass; 0 before it."""
        return self._default_kappa

    def aggregate(self):
        """Return the plane from running sums, which drift by rounding; `source` sums it from multipliers."""
        return Plane(self._ascent.offset(), self.phi())

    def source(self):
        """Return the plane of the multipliers: coefficients of tokens (CSR) and of links, and its offset."""
        coefs, links, offset = self._ascent.planes()
        return sp.csr_array(coefs), links, offset

    # ------------------------------------------------------------------ passes
    def oracle_pass(self, order):
        gaps, squares = self._ascent.visit(order, True, MOST_STEPS)
        self.visits += len(order)
        if not self._default_kappa:
            self._default_kappa = CENTRE * self._lam * float(np.sqrt(squares)) / self.n_examples
        return gaps

    def cached_pass(self, rng, target):
        return self._ascent.visit(rng.permutation(self.n_examples), False, MOST_STEPS)[0]

    def evaluate(self, search, w):
        return search.observe(w, self._ascent.hinge())
