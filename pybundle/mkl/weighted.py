"""Certified multiple kernel learning of hinges of structured models: a block method that changes kernel weights.

    min_theta lam/2 (sum_k |theta_k|)^2 + R(theta)  =  min_nu min_theta lam/2 sum_k |theta_k|^2 / nu_k + R(theta)

For fixed nu the method "prox-bcfw" of `pb.minimize` ascends the dual on the cached planes of every example, in the
inner product `sum_k nu_k <a_k, b_k>`. Before every iteration nu is set from the norms of the last point. Planes and
multipliers do not depend on nu, so only the Gram matrices of the blocks are recomputed. `mixture_bound` proves the
bound from planes of the last passes, whatever nu is.
"""

from __future__ import annotations

import numpy as np

from ..core.plane import Plane
from ..core.rounding import UNIT
from ..runtime.lower_bound import LowerBound
from ..runtime.result import Status
from ..runtime.stopping import GapBelow
from ..solvers.block.cached_blocks import CachedBlocks
from ..solvers.block.methods import accelerated, default_batch
from ..solvers.driver import Driver
from ..solvers.problem.problem import Problem
from ..solvers.search import Search
from ..solvers.state import Settings
from .certified import KEPT, Certified, GroupBlocks, reweighed, rows
from .group_norms import GroupNorms

CENTRE = 0.05
"""Weight of the centre, as a fraction of that in plain "prox-bcfw"; the centre slows changes of norms and of nu."""


def climb_weights(risk, labels, n_groups, settings, executor=None):
    """Ascend until F - LB <= tol |F|; return a `Certified` and the best point, shape (dim,).

    `risk` is the *sum* of the hinges of all examples, `labels` holds the group of every weight, and lam of `settings`
    is in the mean scale. The result does not depend on the number of threads of `executor`, bit for bit.
    """
    n = risk.n_examples
    problem = Problem(GroupNorms(n * settings.lam, labels, n_groups, risk.nonneg))
    search = Search(risk.derive(executor=executor), problem,
                    Settings(GapBelow(settings.tol), random_state=settings.random_state or 0))
    run = _WeightedRun(search, _WeightedBlocks, accelerated(), batch=default_batch(risk))
    result = Driver(run, np.zeros(risk.dim), rules=[
        lambda progress: Status.ITERATION_LIMIT if progress.n_passes >= settings.max_iter else None]).complete()
    return Certified(result.fun / n, result.lower_bound / n, problem.penalty.norms(result.x), result.n_passes,
                     rows(result.history, run.weights, n), result.status is Status.INTERRUPTED), result.x


class _WeightedBlocks(CachedBlocks):
    """Cached planes in the inner product `sum_k nu_k <a_k, b_k>`."""

    def __init__(self, risk, problem, known=None, **settings):
        super().__init__(risk, problem, known, **settings)
        self._norms, self.nu = problem.penalty, np.full(problem.penalty.n_groups, 1.0 / problem.penalty.n_groups)
        self._weigh()

    def phi(self):
        return super().phi() / self._metric

    def place(self, lam, kappa, centre):
        """Set new kernel weights from the norms of the point; multipliers do not change."""
        phi, norms = self._phi if self._phi is not None else self.phi(), self._norms.norms(self.w)
        if norms.any():
            self.nu = reweighed(self.nu, norms)
            self._weigh()
        self._place(lam, kappa, centre, phi)

    def source(self):
        """Return None, because the slope of a plane is a sum over the multipliers already."""
        return

    def default_kappa(self, lam):
        return CENTRE * super().default_kappa(lam)

    def _weigh(self):
        self._metric = self.nu[self._norms.labels]
        self.blocks.weigh(self._metric)

    def _place(self, lam, kappa, centre, phi):
        super()._place(lam, kappa, centre, self._metric * phi)


class _WeightedRun(GroupBlocks):
    """A run over vectors of weights (dim,), whose bounds count the rounding errors of planes and of their mixture."""

    _errors = np.zeros(2)

    def offer_mixture(self, proven, plane):
        problem, kept = self.problem, self.recent
        self.search.offer(LowerBound.of(problem, plane))
        # the largest errors of a plane so far; below, the rounding of a sum of at most KEPT planes is added
        self._errors = np.maximum(self._errors, (plane.slope_error, plane.offset_error))
        sizes = np.sqrt(np.einsum("kee->e", kept.grams)), np.abs(kept.offsets)
        error, offset_error = (own + (2.0 * KEPT + 4.0) * UNIT * float(kept.weights @ size)
                               for own, size in zip(self._errors, sizes, strict=True))
        mixture = sum(a * slope for a, slope in zip(kept.weights, kept.slopes, strict=True))
        plane = Plane(float(kept.weights @ kept.offsets), mixture, error, offset_error)
        self.search.offer(LowerBound.of(problem, plane))
