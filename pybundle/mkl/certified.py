"""Certified multiple kernel learning: block ascent at fixed kernel weights, new weights, and a bound that always holds.

    min_f lam/2 (sum_k |f_k|)^2 + R(f)  =  min_nu min_f  lam/2 sum_k |f_k|^2 / nu_k + R(f)   (nu on the simplex)

For fixed nu this is one kernel, sum_k nu_k K_k, and the dual is climbed by blocks with cached labellings and an
extrapolated proximal centre, as by the method "prox-bcfw" of `pb.minimize`, but in terms of the coefficients of tokens:
no features of a kernel are formed. Then nu_k = |f_k| / sum_j |f_j|. Whatever nu and multipliers are, the bound of
`certificate` holds.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from ..core.exceptions import NumericalError
from .certificate import KeptPlanes

FLOOR = 1e-6
"""Least kernel weight: a kernel that is wanted again comes back from here."""
INNER = 5
"""Passes over cached labellings after one with the oracle, at most."""
LONGER = 1.7
"""Exponent of the change of kernel weights: 1 is |theta_k| / sum itself, in short steps; from 2 on they swing."""
MOST_STEPS = 10
"""Pairwise steps of one visit."""
KEPT = 10
"""Planes of earlier passes whose best mixture gives the bound: |phi_k| of one pass alone are not level."""
CENTRE = 0.1
"""Weight of the centre, as a share of sqrt(lam Rbar^2): it holds back the norms that kernel weights follow."""
SHARE = 0.1
"""Inner passes end where the gaps they see are this share of the gap of the certificate."""


class Certified(NamedTuple):
    """Value, bound and |theta_k| after a run; whether Ctrl-C ended it."""

    objective: float
    lower_bound: float
    norms: np.ndarray
    n_passes: float
    history: list
    is_interrupted: bool = False


def relative_gap(objective, lower_bound):
    """(F - LB) / |F|, 0 where both are equal."""
    return 0.0 if objective <= lower_bound else (objective - lower_bound) / abs(objective)


def reweighed(nu, norms):
    """Kernel weights from norms |theta_k| of the point found with weights nu; as they are where all norms are 0.

    >>> reweighed(np.array([0.5, 0.5]), np.array([1.0, 0.0])).round(3)
    array([1., 0.])
    """
    if not norms.sum() > 0.0:
        return nu
    nu = nu * (norms / (norms.sum() * nu)) ** LONGER
    nu = np.maximum(nu / nu.sum(), FLOOR)
    return nu / nu.sum()


def climb(ascent, lam, tol, max_passes, random_state=None):
    """Passes until F - LB <= tol |F|; the groups hold the best point afterwards, with scale 1.

    Parameters
    ----------
    ascent : Ascent
        Fresh: all examples at their truths, all groups 0.
    lam : float
        Mean scale.
    tol : float
        Relative gap.
    max_passes : int
        Of the oracle.

    Returns
    -------
    Certified
        Value, bound and norms from running sums; the caller makes them afresh. Those of the passes so far after Ctrl-C.
    """
    run, is_interrupted = _Climb(ascent, lam, np.random.default_rng(random_state)), False
    try:
        while True:
            run.iterate(tol)
            if relative_gap(run.best, run.bound) <= tol or run.n_passes >= max_passes:
                break
    except FloatingPointError:
        raise NumericalError("scores went beyond the range of float64; scale the features") from None
    except KeyboardInterrupt:
        is_interrupted = True
    run.restore()
    return Certified(run.best, run.bound, run.norms, run.n_passes, run.history, is_interrupted)


class _Climb:
    """The state of a run. Points and centres are lists of the linear arrays of every group."""

    def __init__(self, ascent, lam, rng):
        self.ascent, self.lam, self.rng, self.groups = ascent, lam, rng, ascent.groups
        self.n = len(ascent.counts_array())
        self.nu, self.kappa = np.full(len(self.groups), 1.0 / len(self.groups)), 0.0
        self.best, self.bound, self.n_passes, self.history = np.inf, 0.0, 0, []
        self.point, self.centre, self.before, self.norms = None, None, None, np.zeros(len(self.groups))
        self.planes = KeptPlanes(len(self.groups), KEPT, _products)
        self.began = time.perf_counter()
        self._scale()

    def iterate(self, tol):
        """A pass with the oracle, passes over the caches, the certificate, new kernel weights."""
        self._move_centre()
        _, squares = self.ascent.visit(self.rng.permutation(self.n), True, MOST_STEPS)
        self.n_passes += 1
        for _ in range(INNER):
            gaps, _ = self.ascent.visit(self.rng.permutation(self.n), False, MOST_STEPS)
            if gaps <= SHARE * max(self.best - self.bound, tol * abs(self.best)):
                break
        norms = self._certify()
        if self.kappa == 0.0 and squares > 0.0:
            # with sqrt(lam Rbar^2) of the sum scale
            self.kappa = CENTRE * float(np.sqrt(self.lam * squares * self.lam / self.n) / np.sqrt(self.n))
        self._weigh(norms)

    def _move_centre(self):
        """c = x + mom (x - x_old)."""
        if self.kappa == 0.0:
            return
        scales = self.nu / (self.lam + self.kappa)
        x = [[s * array for array in group.state()] for s, group in zip(scales, self.groups, strict=True)]
        if self.centre is None:
            # the first centre leaves the point where it is, up to the new scale
            self.before = self.centre = [[np.zeros_like(array) for array in arrays] for arrays in x]
        q = self.lam / (self.lam + self.kappa)
        mom = (1.0 - np.sqrt(q)) / (1.0 + np.sqrt(q))
        moved = [[a - b for a, b in zip(u, v, strict=True)] for u, v in zip(x, self.before, strict=True)]
        ahead = sum(_inner([c - a for c, a in zip(u, v, strict=True)], m) / b
                    for u, v, m, b in zip(self.centre, x, moved, self.nu, strict=True))
        if ahead > 0.0:
            mom = 0.0
        centre = [[a + mom * d for a, d in zip(u, m, strict=True)] for u, m in zip(x, moved, strict=True)]
        for group, new, old, b in zip(self.groups, centre, self.centre, self.nu, strict=True):
            for array, a, c in zip(group.state(), new, old, strict=True):
                array += (self.kappa / b) * (a - c)
        self.centre, self.before = centre, x

    def _certify(self):
        """Value at the present point, bound from the planes of the last passes; gives |theta_k|."""
        lam, kappa = self.lam, self.kappa
        scales = self.nu / (lam + kappa)
        states = [group.state() for group in self.groups]
        norms = [s * np.sqrt(max(_inner(V, V), 0.0)) for s, V in zip(scales, states, strict=True)]
        hinge = float(np.maximum(self.ascent.decode()[1], 0.0).mean())
        value = 0.5 * lam * float(np.sum(norms)) ** 2 + hinge
        if self.centre is None:
            phi = [[array.copy() for array in V] for V in states]
        else:
            phi = [[a - (kappa / b) * c for a, c in zip(V, centre, strict=True)]
                   for V, centre, b in zip(states, self.centre, self.nu, strict=True)]
        self.planes.add(phi, self.ascent.offset())           # its sign does not matter to inner products
        self.bound = max(self.bound, self.planes.bound(lam, self.nu))
        if value < self.best:
            self.best, self.norms = value, np.array(norms)
            self.point = [[s * array for array in V] for s, V in zip(scales, states, strict=True)]
        self.history.append((time.perf_counter() - self.began, value, self.bound, self.n_passes, self.nu.copy()))
        return np.array(norms)

    def _weigh(self, norms):
        """nu_k from |theta_k| / sum, and the point that belongs to it."""
        nu = reweighed(self.nu, norms)
        if self.centre is not None:
            for group, c, new, old in zip(self.groups, self.centre, nu, self.nu, strict=True):
                for array, a in zip(group.state(), c, strict=True):
                    array += self.kappa * (1.0 / new - 1.0 / old) * a
        self.nu = nu
        self._scale()

    def _scale(self):
        for group, b in zip(self.groups, self.nu, strict=True):
            group.set_scale(b / (self.lam + self.kappa))

    def restore(self):
        """The groups hold the best point."""
        for k, group in enumerate(self.groups):
            group.set_scale(1.0)
            for j, array in enumerate(group.state()):
                array[:] = 0.0 if self.point is None else self.point[k][j]
            group.square()


def _products(x, y):
    """Inner products of two points group by group."""
    return [_inner(a, b) for a, b in zip(x, y, strict=True)]


def _inner(a, b):
    """<a, b> of two vectors of a group: coefficients with scores, or weights with weights."""
    if len(a) == 1:
        return float(np.vdot(a[0], b[0]))
    return float(np.vdot(a[0], b[1].T))
