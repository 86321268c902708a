"""The dual of the hinge over tokens, climbed by blocks with cached labellings, in terms of coefficients of tokens."""

from __future__ import annotations

import numpy as np

from ..core.exceptions import NumericalError
from ..core.protocols import RiskBase
from ..runtime.stopping import GapBelow
from ..solvers.block.core import Core
from ..solvers.block.schedules import Accelerated
from ..solvers.run import Settings
from .certified import GroupBlocks, reweighed, solve
from .group_norms import GroupNorms

INNER = 5
"""Passes over cached labellings after one with the oracle, at most."""
MOST_STEPS = 10
"""Pairwise steps of one visit."""
CENTRE = 0.1
"""Weight of the centre, as a share of sqrt(lam Rbar^2): it holds back the norms that kernel weights follow."""
SHARE = 0.1
"""Inner passes end where the gaps they see are this share of the gap of the certificate."""


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
    groups = [group.state() for group in ascent.groups]
    labels = np.repeat(np.arange(len(groups)), [arrays[0].size for arrays in groups])
    objective, start = GroupNorms(lam, labels, len(groups)), np.zeros((max(map(len, groups)), len(labels)))
    run = GroupBlocks(_Mean(len(ascent.counts_array()), start.size), objective, Settings(GapBelow(tol)), TokenBlocks,
                      EachPass(share=SHARE, share_before=np.inf, most_passes=INNER), random_state=random_state,
                      options={"ascent": ascent, "objective": objective})
    try:
        found = solve(run, start, max_passes)
    except FloatingPointError:
        raise NumericalError("scores went beyond the range of float64; scale the features") from None
    run.core.restore(run.w)
    return found


class EachPass(Accelerated):
    """The value after each pass of the oracle: it costs little where labellings are decoded in compiled code."""

    def actions(self, run):
        return "visit", "refine", "value"


class _Mean(RiskBase):
    """The mean of the hinges of tokens, which the core alone looks at."""

    n_parts, lower_bounds = 1, 0.0

    def __init__(self, n_examples, dim):
        self.n_examples, self.dim = n_examples, dim


class TokenBlocks(Core):
    """`Ascent` as a core: `theta_k = s_k V_k`, `s_k = beta_k / (lam + kappa)`, `V_k = kappa c_k / beta_k - phi_k`.

    The groups hold V_k and s_k. Points are two rows as in `group_norms`, one row where no group is a kernel.
    """

    def __init__(self, risk, known, ascent, objective):
        self.n_examples, self.dim, self.visits = risk.n_examples, risk.dim, 0.0
        self._ascent, self._objective, p = ascent, objective, objective.n_groups
        self.beta, self._lam, self._kappa, self._heaviest = np.full(p, 1.0 / p), objective.lam, 0.0, 0.0
        self._parts = [slice(*ends) for ends in np.searchsorted(objective.labels, [[k, k + 1] for k in range(p)])]
        self._n_rows, self._centre = max(len(group.state()) for group in ascent.groups), None

    # ------------------------------------------------------------------ the point
    def _read(self):
        """V, shape (n_rows, N)."""
        V = np.empty((self._n_rows, len(self._objective.labels)))
        for group, part in zip(self._ascent.groups, self._parts, strict=True):
            arrays = group.state()
            V[0, part], V[-1, part] = arrays[0].ravel(), (arrays[1].T if len(arrays) > 1 else arrays[0]).ravel()
        return V

    def _write(self, V, scales):
        for group, part, scale in zip(self._ascent.groups, self._parts, scales, strict=True):
            arrays = group.state()
            for array, row in zip(arrays, (V[0], V[-1]), strict=False):
                (array if array is arrays[0] else array.T)[:] = row[part].reshape(arrays[0].shape)
            group.set_scale(scale)

    @property
    def w(self):
        return (self.beta / (self._lam + self._kappa))[self._objective.labels] * self._read()

    def phi(self):
        V = self._read()
        if not self._kappa:
            return -V
        return (self._kappa / self.beta)[self._objective.labels] * self._centre - V

    def place(self, lam, kappa, centre):
        phi = self.phi()
        self._lam, self._kappa, self._centre = lam, kappa, centre
        self._move(phi)

    def forget(self):
        """After an iteration: new kernel weights from the norms of the point; multipliers and centre stay."""
        phi, norms = self.phi(), self._objective.norms(self.w)
        self.beta = reweighed(self.beta, norms)
        self._move(phi)

    def _move(self, phi):
        V = -phi
        if self._kappa:
            V += (self._kappa / self.beta)[self._objective.labels] * self._centre
        self._write(V, self.beta / (self._lam + self._kappa))

    def restore(self, w):
        """The groups hold this point."""
        self._write(w, np.ones(len(self.beta)))
        for group in self._ascent.groups:
            group.square()

    def default_kappa(self, lam):
        """From the first pass on, with `sqrt(lam Rbar^2)` of the sum scale."""
        return self._heaviest

    def aggregate(self):
        """From running sums, whose rounding the bound of mixtures counts."""
        return self._ascent.offset(), self.phi(), 0.0, 0.0

    # ------------------------------------------------------------------ passes
    def exact_pass(self, order):
        gaps, squares = self._ascent.visit(order, True, MOST_STEPS)
        self.visits += len(order)
        if not self._heaviest:
            n, lam = self.n_examples, self._lam
            self._heaviest = CENTRE * float(np.sqrt(lam * squares * lam / n) / np.sqrt(n))
        return gaps

    def cached_pass(self, rng, target):
        return self._ascent.visit(rng.permutation(self.n_examples), False, MOST_STEPS)[0]

    def evaluate(self, run, w):
        return run.observe(w, float(np.maximum(self._ascent.decode()[1], 0.0).mean()))

    # ------------------------------------------------------------------ what is kept
    def known(self):
        return None

    def nbytes(self):
        return 0

    @classmethod
    def memory(cls, risk, **options):
        return {}
