"""Shared code of the certified runs of multiple kernel learning: kernel weights, bounds of mixtures, results.

    min_f lam/2 (sum_k |f_k|)^2 + R(f)  =  min_nu min_f  lam/2 sum_k |f_k|^2 / nu_k + R(f)   (nu on the simplex)

For fixed nu the right-hand side has one kernel, sum_k nu_k K_k. With the hinge, the block method "prox-bcfw" ascends
the dual in that inner product (`GroupBlocks`; its cores are `weighted` for vectors of weights and `token_blocks` for
kernels), then nu_k = |f_k| / sum_j |f_j|. With the log-loss, quasi-Newton steps move functions and kernel weights
together (`descent`). The bound of `mixture_bound` holds for any nu and multipliers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.plane import Plane
from ..core.protocols import RiskBase
from ..solvers.block.block_method import BlockMethod
from .mixture_bound import KeptPlanes

FLOOR = 1e-6
"""Smallest kernel weight; it stays above 0 so that it can grow again."""
EXPONENT = 1.7
"""Exponent of the update of kernel weights. With 1, which sets them to |theta_k| / sum_j |theta_j|, steps are short;
from 2 on the weights oscillate."""
KEPT = 10
"""Number of recent planes whose mixture proves the bound; one plane proves little, as |phi_k| differs among groups."""
LARGEST = 4 << 30
"""Maximum number of bytes of Gram matrices and points with which solver="auto" is "certified": half the memory of a
small computer, enough for some 10 000 rows of five kernels in float64. Online rounds need the same matrices, but fewer
points."""
POINTS = {"hinge": 20, "logistic": 28}
"""Measured number of points (coefficients and scores of all groups) that a run holds; a plane counts as a point. With
the log-loss small runs keep more pairs of L-BFGS, up to 512 MB."""


class Certified(NamedTuple):
    """Result of a run: value, bound, |theta_k|, rows of the history, and whether Ctrl-C ended it."""

    objective: float
    lower_bound: float
    norms: np.ndarray
    n_passes: float
    history: list
    is_interrupted: bool = False


class MeanLoss(RiskBase):
    """A mean of nonnegative losses; its points have shape (n_rows, N), see `group_norms`."""

    n_parts, lower_bounds = 1, 0.0

    def __init__(self, problem, n_rows, n_examples):
        self.problem, self.nonneg, self.n_rows, self.n_examples = problem, problem.penalty.nonneg, n_rows, n_examples
        self.dim = n_rows * len(problem.penalty.labels)


def solve(run, max_passes):
    """Step a run until its gap is small, it stalls, it has made `max_passes` passes, or Ctrl-C is pressed.

    The run appends the kernel weights of each row of its history to `weights`.
    """
    is_interrupted = False
    run.start(np.zeros((run.risk.n_rows, len(run.problem.penalty.labels))))
    try:
        while run.trace.n_passes < max_passes and run.step() is None:
            pass
    except KeyboardInterrupt:
        is_interrupted = True
    search, trace = run.search, run.trace
    return Certified(search.fun, search.bound.value, run.problem.penalty.norms(search.w), round(trace.n_passes),
                     rows(trace.history.columns(), run.weights), is_interrupted)


def rows(history, weights, n=1):
    """Return for each row of a history the seconds, value / n, bound / n, passes and kernel weights."""
    # after Ctrl-C some columns may lack the last row
    return list(zip(history["time"], history["primal"] / n, history["lower_bound"] / n, history["n_passes"], weights,
                    strict=False))


def reweighed(nu, norms):
    """Return new kernel weights from the norms |theta_k| of the point found with nu; nu itself if all norms are 0.

    >>> reweighed(np.array([0.5, 0.5]), np.array([1.0, 0.0])).round(3)
    array([1., 0.])
    """
    if not norms.sum() > 0.0:
        return nu
    nu = nu * (norms / (norms.sum() * nu)) ** EXPONENT
    nu = np.maximum(nu / nu.sum(), FLOOR)
    return nu / nu.sum()


class GroupBlocks(BlockMethod):
    """Block method that proves its bound by the best mixture of the planes of the last passes.

    Its core has kernel weights `nu`, and a method `source` that returns evidence for the plane `aggregate()`.
    """

    def __init__(self, search, *arguments, **options):
        super().__init__(search, *arguments, **options)
        norms = self.problem.penalty
        self.recent, self.weights = KeptPlanes(norms.n_groups, KEPT, norms.products), []

    def iterate(self):
        status = super().iterate()
        self.weights.append(self.core.nu)       # one vector for each row of the history
        return status

    def _bound(self):
        plane = self.core.aggregate()
        # errors are left out of these planes, since `offer_mixture` counts them
        self.recent.add(Plane(plane.offset, self.problem.penalty.effective(plane.slope)), self.core.source())
        self.offer_mixture(self.recent.proven(self.problem.penalty.lam, self.core.nu), plane)

    def offer_mixture(self, proven, plane):
        """Offer the bound of the best mixture of the recent planes, the last of which is `plane`."""
        self.search.offer(proven)
