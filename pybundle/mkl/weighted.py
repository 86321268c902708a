"""Certified multiple kernel learning of the hinge of any structured model: blocks of planes, reweighed as they go.

    min_theta lam/2 (sum_k |theta_k|)^2 + R(theta)  =  min_nu min_theta lam/2 sum_k |theta_k|^2 / nu_k + R(theta)

For fixed nu the method "prox-bcfw" of `pb.minimize` ascends the dual on the cached planes of every example, in the
inner product `sum_k nu_k <a_k, b_k>`. Planes and multipliers do not depend on nu: before every iteration nu
follows the norms of the last point, and only the Gram matrices of the blocks are made afresh. The bound is that of
`certificate`, from the multipliers of the last passes and mixtures of them, whatever nu was.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core.rounding import UNIT
from ..runtime.certificate import LowerBound
from ..runtime.result import Status
from ..runtime.stopping import GapBelow
from ..solvers.block.block_method import BlockMethod
from ..solvers.block.cached_blocks import CachedBlocks
from ..solvers.block.methods import accelerated, default_batch
from ..solvers.minimize import drive
from ..solvers.objective import Objective
from ..solvers.run import Settings
from .certificate import KeptPlanes, group_sums
from .certified import KEPT, Certified, reweighed

CENTRE = 0.05
"""Weight of the centre, as a share of that of "prox-bcfw" alone: it holds back the norms that nu follows."""


@dataclass(frozen=True)
class GroupNorms(Objective):
    """`lam/2 (sum_k |w_k|)^2`; bound `offset - max_k |phi_k|^2 / (2 lam)`.

    >>> import numpy as np
    >>> norms = GroupNorms(2.0, np.array([0, 0, 1]), 2)
    >>> norms.value(np.array([3.0, 4.0, 1.0])), norms.lower_bound(5.0, np.array([3.0, 4.0, 1.0]))
    (36.0, -1.25)
    """

    lam: float
    labels: np.ndarray
    n_groups: int
    nonneg: np.ndarray | None = None

    def norms(self, w):
        """|w_k|, shape (n_groups,)."""
        return np.sqrt(self.products(w, w))

    def products(self, a, b):
        """Inner products group by group."""
        return self._sums(a * b)

    @cached_property
    def _sums(self):
        return group_sums(self.labels, self.n_groups)

    def value(self, w):
        return 0.5 * self.lam * float(self.norms(w).sum()) ** 2

    def lower_bound(self, offset, phi, error=0.0):
        """`min_w lam/2 (sum_k |w_k|)^2 + <phi, w> + offset`, with phi known up to `error` in norm."""
        return float(offset - (self.norms(self.effective(phi)).max() + error) ** 2 / (2.0 * self.lam))

    def point(self, phi, lam):
        """One of the minimisers: the group of largest |phi_k| alone."""
        phi = self.effective(phi)
        return np.where(self.labels == int(np.argmax(self.norms(phi))), -phi / lam, 0.0)


def climb_weights(risk, labels, n_groups, lam, tol, max_passes, random_state=None, executor=None):
    """Passes until F - LB <= tol |F|.

    Parameters
    ----------
    risk : Structured
        The *sum* of the hinges of n examples.
    labels : int array, shape (dim,)
        Group of every weight.
    n_groups : int
    lam, tol : float
        Mean scale; relative gap.
    max_passes : int
    executor : object, optional
        Passes over the data run there; any number of threads gives the same bits.

    Returns
    -------
    found : Certified
    theta : ndarray, shape (dim,)
        The best point.
    """
    n = risk.n_examples
    objective = GroupNorms(n * lam, labels, n_groups, risk.nonneg)
    run = _WeightedRun(risk.derive(executor=executor), objective, Settings(GapBelow(tol)),
                       _WeightedBlocks, accelerated(), random_state=random_state or 0,
                       options={"objective": objective, "batch": default_batch(risk)})
    result = drive(run, np.zeros(risk.dim), None, [lambda progress: Status.ITERATION_LIMIT
                                                   if progress.n_passes >= max_passes else None])
    seconds, values, bounds, passes = (result.history[name] for name in ("time", "primal", "lower_bound", "n_passes"))
    # Ctrl-C may leave one of them out
    history = list(zip(seconds, values / n, bounds / n, passes, run.weights, strict=False))
    return Certified(result.fun / n, result.lower_bound / n, objective.norms(result.x), result.n_passes, history,
                     result.status is Status.INTERRUPTED), result.x


class _WeightedBlocks(CachedBlocks):
    """Cached planes in the inner product of the kernel weights nu."""

    def __init__(self, risk, objective, known=None, **settings):
        super().__init__(risk, objective, known, **settings)
        self._objective, self.nu = objective, np.full(objective.n_groups, 1.0 / objective.n_groups)
        self._weigh()

    def phi(self):
        x = self.blocks.unclipped() * -self.blocks.curvature
        if self.kappa:
            x += self.kappa * self.centre
        return x / self._metric

    def place(self, lam, kappa, centre):
        """New kernel weights from the norms of the point; multipliers stay."""
        phi, norms = self._phi if self._phi is not None else self.phi(), self._objective.norms(self.w)
        if norms.any():
            self.nu = reweighed(self.nu, norms)
            self._weigh()
        self._place(lam, kappa, centre, phi)

    def default_kappa(self, lam):
        return CENTRE * super().default_kappa(lam)

    def _weigh(self):
        self._metric = self.nu[self._objective.labels]
        self.blocks.weigh(self._metric)

    def _place(self, lam, kappa, centre, phi):
        super()._place(lam, kappa, centre, self._metric * phi)


class _WeightedRun(BlockMethod):
    """Block method whose bound is that of the best mixture of the planes of the last passes."""

    def __init__(self, risk, objective, *arguments, **options):
        super().__init__(risk, objective, *arguments, **options)
        self._kept, self._errors = KeptPlanes(objective.n_groups, KEPT, objective.products), np.zeros(2)
        self.weights = []

    def log(self, value):
        super().log(value)
        self.weights.append(self.core.nu)

    def _bound(self):
        objective, kept = self.objective, self._kept
        offset, phi, *errors = self.core.aggregate()
        self.offer(LowerBound.from_aggregate(objective, offset, phi, *errors))
        kept.add(objective.effective(phi), offset)
        kept.bound(objective.lam, self.core.nu)
        # rounding of any plane so far, and of the sum of few of them
        self._errors = np.maximum(self._errors, errors)
        sizes = np.sqrt(np.einsum("kee->e", kept.grams)), np.abs(kept.offsets)
        error, offset_error = (own + (2.0 * KEPT + 4.0) * UNIT * float(kept.weights @ size)
                               for own, size in zip(self._errors, sizes, strict=True))
        mixture = sum(a * slope for a, slope in zip(kept.weights, kept.slopes, strict=True))
        self.offer(LowerBound.from_aggregate(objective, float(kept.weights @ kept.offsets), mixture, error,
                                             offset_error))
