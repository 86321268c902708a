"""Certified multiple kernel learning of any structured model: `pb.minimize` at fixed kernel weights, then new weights.

    min_theta lam/2 (sum_k |theta_k|)^2 + R(theta)  =  min_beta min_u lam/2 |u|^2 + R(s u),   s_j = sqrt beta_k, j in k

For fixed beta that is an ordinary problem with features scaled, and every solver of the package takes it, for any
convex R: the hinge, or the log-loss. Whatever the solver, its bound comes with an aggregate plane (B, s phi) of R(s u),
so (B, phi) is a plane of R, whatever beta was; mixtures of the last ones prove the bound of `certificate`. Then
beta_k = |theta_k| / sum_j |theta_j|, in the longer steps of `certified`.
"""

from __future__ import annotations

import time
import warnings

import numpy as np

from ..bundle._blocks import Blocks
from ..core.exceptions import ConvergenceWarning
from ..runtime.result import Status
from ..solvers.minimize import minimize
from ..solvers.run import State
from .certificate import best_bound, group_products
from .certified import FLOOR, KEPT, LONGER, Certified, relative_gap
from .scaled import ScaledRisk, scaled_rows

SHARE = 0.3
"""A run ends at this share of the gap so far, or of that of the run before where that one did not move."""
FIRST, LEAST = 0.3, 1e-12
"""Gaps of the first run, and of any."""
MOVED = 0.02
"""Share of the gap that the value falls by where a run moved."""


def alternate(risk, labels, n_groups, lam, tol, max_passes, random_state=None, executor=None):
    """Runs until F - LB <= tol |F|.

    Parameters
    ----------
    risk : Structured
        The *sum* of the losses of n examples.
    labels : int array, shape (dim,)
        Group of every weight.
    n_groups : int
    lam, tol : float
        Mean scale; relative gap.
    max_passes : int
        Runs begin as long as there were fewer.
    executor : object, optional
        Passes over the data run there; any number of threads gives the same bits.

    Returns
    -------
    found : Certified
    theta : ndarray, shape (dim,)
        The best point.
    """
    n, beta, inner = risk.n_examples, np.full(n_groups, 1.0 / n_groups), FIRST
    best, bound, n_passes, theta = np.inf, 0.0, 0.0, np.zeros(risk.dim)
    planes, history, state, began = [], [], None, time.perf_counter()
    while True:
        scaled = ScaledRisk(risk, np.sqrt(beta)[labels])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)      # of one run; the caller hears of the whole
            result = minimize(scaled, lam=n * lam, tol=inner, warm_start=state, random_state=random_state,
                              executor=executor, max_iter=max(int(max_passes - n_passes), 1))
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        n_passes += result.n_passes
        point = scaled.factors * result.x
        norms = np.sqrt(np.bincount(labels, point * point, n_groups))
        value = 0.5 * lam * float(norms.sum()) ** 2 + result.fun / n - 0.5 * lam * float(result.x @ result.x)
        has_moved = not history or value < best - MOVED * (best - bound)
        if value < best:
            best, theta, best_norms = value, point, norms
        evidence = result.state.bound
        planes = [*planes[1 - KEPT:], (_effective(evidence.phi / scaled.factors, risk.nonneg) / n, evidence.offset / n)]
        grams = group_products([phi for phi, _ in planes], labels, n_groups)
        bound = max(bound, best_bound(np.array([B for _, B in planes]), grams, lam, beta)[0])
        history.append((time.perf_counter() - began, value, bound, n_passes, beta))
        gap = relative_gap(best, bound)
        if gap <= tol or n_passes >= max_passes:
            break
        if norms.sum() > 0.0:
            beta = beta * (norms / (norms.sum() * beta)) ** LONGER
            beta = np.maximum(beta / beta.sum(), FLOOR)
            beta /= beta.sum()
        state = _moved(result.state, point, scaled.factors, np.sqrt(beta)[labels])
        # a run that starts as close as it has to be stays there, and the kernel weights would settle
        inner = max(SHARE * (min(gap, FIRST) if has_moved else inner), LEAST)
    return Certified(best, bound, best_norms, n_passes, history), theta


def _effective(phi, nonneg):
    """phi of a plane that is one on the feasible set: what pushes towards the constraints does not count."""
    return phi if nonneg is None else np.where(nonneg, np.minimum(phi, 0.0), phi)


def _moved(state, point, before, after):
    """The state of a run, for other factors: planes of examples are scaled, multipliers stay."""
    blocks = None
    if isinstance(state.blocks, Blocks):
        *arrays, slopes = state.blocks.arrays()
        blocks = Blocks.from_arrays(state.blocks.n_blocks, state.blocks.dim, *arrays,
                                    scaled_rows(slopes, after / before))
    return State(point / after, state.risk_value, blocks=blocks)
