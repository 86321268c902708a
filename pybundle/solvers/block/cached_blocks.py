"""Blocks of cached planes, one block for each example; an oracle for single examples finds the planes.

The blocks are the core of block methods for structured risks. `BlockMethod` decides when to call the oracle, when
stored planes are enough, and where the centre lies.
"""

from __future__ import annotations

from operator import attrgetter
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from ...core.exceptions import NumericalError
from ...core.kept import check_array
from ...core.protocols import errors_of
from ...core.rounding import norm
from ...prox.of_norm import minimiser
from ..evidence.proof import of_blocks
from ._bcfw import Blocks
from .core import Core
from .oracle_pass import OraclePass

CAP = 100           # maximum number of planes in a block
FULL, USED = 10, 0.3        # see `CachedBlocks.cached_pass`
IDLE, IDLE_OF_MANY = 4, 2   # values of `max_idle` for oracle calls that add one plane, and for calls that add several


class CachedBlocks(Core):
    """The core that stores the planes found so far, with their multipliers, for all examples of a risk.

    Parameters
    ----------
    risk : Structured or LinearRisk
        Its `oracle()` decodes examples in batches.
    problem : Problem
        Its penalty is a square.
    batch : int
        Number of examples that a sequential pass decodes at one point; with 1 the point moves after each example.
    step, max_steps, cap
        As in `Blocks`.
    visit : {"used", "all"}
        With "used" most cached passes visit only planes in use, of blocks that have several. With "all" each visits the
        working sets of [Shah2015] of all blocks: evaluations of F add no planes to the sets, and idle planes leave
        the sets whatever their multipliers are.
    max_idle : int or None
        Iterations after which idle planes are dropped or leave their working set; None chooses IDLE or IDLE_OF_MANY.
    average : bool
        Whether F is evaluated at averages of the points.
    n_best : int
        Number of labellings that a call of the oracle returns, and whose planes are added.
    memory_limit : int or None
        Bytes for planes, multipliers, Gram matrices and points. To keep the limit, planes are dropped or merged.
    record : Record or None
        It stores the labellings of planes as evidence.

    Attributes
    ----------
    blocks : Blocks
    passes : OraclePass
    """

    kept: ClassVar[tuple[str, ...]] = (
        "passes", "cached_visits", "lam", "kappa", "centre", "_phi", "_value", "_turn", "_gap", "_used_gap", "_unit")

    def __init__(self, risk, problem, known=None, *, batch=64, step="exact", max_steps=7, cap=CAP,
                 visit="used", max_idle=None, average=False, n_best=1, memory_limit=None, record=None):
        self.n_examples, self.dim, self.record = risk.n_examples, risk.dim, record
        self._visits_all, self._project = visit == "all", problem.project
        self._max_idle = max_idle or (IDLE if n_best == 1 else IDLE_OF_MANY)
        cap = cap if record is None or self._visits_all else 1 << 20        # no limit, as merged planes are no evidence
        settings = problem.penalty.nonneg, step, max_steps, cap, self._max_idle if self._visits_all else 0
        if not isinstance(known, Blocks):       # for instance, multipliers of labels have no planes
            known = None
        self.blocks = Blocks(risk.n_examples, risk.dim, *settings) if known is None else known.copy(*settings)
        self.blocks.merges &= record is None
        self.lam, self.kappa, self.centre = problem.square.lam, 0.0, None
        self._phi = None if known is None else self.blocks.aggregate().slope
        slope_errors, offset_errors = errors_of(risk)
        self._errors = float(slope_errors.sum()), float(offset_errors.max())
        if average:
            self.blocks.start_averages()
        self._turn, self._gap, self._used_gap, self._unit = -1, np.inf, np.inf, 0.0
        self._towards = step == "frank-wolfe"
        self.passes = OraclePass(self.blocks, risk, batch, n_best, record, memory_limit)

    def arrays(self):
        return {"blocks": self.blocks.__reduce__()[1], **super().arrays()}

    def restore(self, arrays):
        self.blocks = self.passes.blocks = Blocks.from_state(*arrays["blocks"])
        if (self.blocks.n_blocks, self.blocks.dim) != (self.n_examples, self.dim):
            raise ValueError("the blocks belong to another risk")
        super().restore({name: value for name, value in arrays.items() if name != "blocks"})
        for vector in (self.centre, self._phi):
            if vector is not None:
                check_array("a vector", vector, (self.dim,))

    visits, w = property(attrgetter("passes.visits")), property(attrgetter("blocks.w"))
    nbytes, n_planes, n_merged = (property(attrgetter(f"blocks.{name}")) for name in ("bytes", "n_planes", "n_merged"))

    def known(self):
        """Return the blocks, from which another run can start."""
        return self.blocks

    # ------------------------------------------------------------------ the point
    def phi(self):
        """Return the slope phi of the multipliers, computed from the present point."""
        x = self.blocks.unclipped()
        x *= -self.blocks.curvature
        if self.kappa:
            x += self.kappa * self.centre
        return x

    def place(self, lam, kappa, centre):
        """Set lam, kappa and the centre c, and compute w; the multipliers do not change."""
        self._place(lam, kappa, centre, self._phi if self._phi is not None else self.phi())

    def _place(self, lam, kappa, centre, phi):
        x = minimiser(phi, lam, kappa, centre)
        if not np.isfinite(x).all():
            raise NumericalError("squares of the planes or the point overflow; scale the data or the risk down")
        self.lam, self.kappa, self.centre = lam, kappa, centre
        self.blocks.set_point(x, lam + kappa)

    def default_kappa(self, lam):
        """Return the weight of the centre, `sqrt(lam Rbar^2 / u)`.

        Rbar^2 is the mean |psi|^2 of the stored planes, which falls during a run, since planes near the optimum are
        much shorter than the first planes. The unit u is the largest offset, which is a loss, of a plane so far. The
        division by u keeps the points the same if F is multiplied by a power of 2. On graphs whose loss is the number
        of wrong nodes, runs without this division took twice the passes.
        """
        square, offset = self.blocks.extent()
        self._unit = max(self._unit, offset)
        return np.sqrt(lam) * np.sqrt(square / (self._unit if self._unit > 1e-300 else 1.0))

    # ------------------------------------------------------------------ passes
    def oracle_pass(self, order):
        """Call the oracle for the examples of `order`, a batch at a time, and step on their blocks."""
        self._phi = None
        total = self.passes.visit(order, self._towards)
        self._turn = -1
        return total

    def cached_pass(self, rng, target):
        """Step on many blocks over stored planes; return an estimate of the sum of all gaps.

        A full pass goes over all planes of every block that has several, and computes the block gaps. At most FULL - 1
        cheap passes follow, over the blocks with several planes in use and over those planes alone; they end once the
        gaps that they see sum to USED times the target or less. With visit="all" every pass goes over all blocks.
        """
        self._turn, self._phi = self._turn + 1, None
        if self._visits_all:
            rows = rng.permutation(self.n_examples)
            self._gap = self.blocks.sweep(rows)
        elif self._turn % FULL and self._used_gap > USED * target:
            rows = np.flatnonzero(self.blocks.sizes(True) > 1)
            rng.shuffle(rows)
            self._used_gap = self.blocks.sweep(rows, True)
        else:
            self._turn = 0
            rows = np.flatnonzero(self.blocks.sizes() > 1)
            rng.shuffle(rows)
            self._gap = self.blocks.sweep(rows)
            self._used_gap = np.inf
        self.cached_visits += len(rows)
        return self._gap

    def evaluate(self, search, w):
        """Return F at w, or at the average of points if there is one; store the planes found if visit="used"."""
        average = best_average(self.blocks, self.lam, self._project)
        w = w if average is None else average
        found = self.passes.value(w, stores=not self._visits_all)
        self._turn = -1
        return self.observe(search, w, *found)

    def forget(self):
        """Drop idle planes, or let them leave their working sets."""
        if self._visits_all and self._phi is not None:      # without a pass this is no iteration of [Shah2015]
            return
        self.blocks.forget(self._max_idle)      # planes with multipliers stay apart if evidence is kept, see `merges`

    # ------------------------------------------------------------------ evidence
    def known_value(self, search):
        known = super().known_value(search)
        return None if known is None else (known[0], known[1] + self.passes.oracle.later_rounding(norm(search.w)))

    def aggregate(self):
        """Return the `Plane` of the multipliers as a new sum; set w from this sum, without rounding errors of steps."""
        plane = self.blocks.aggregate(*self._errors)
        if self._phi is None:
            self._place(self.lam, self.kappa, self.centre, plane.slope)
        self._phi = plane.slope
        return plane

    def evidence(self, problem, risk, limits=None):
        """Return the `Proof` of the multipliers if their labellings were kept, else None."""
        return None if self.record is None else of_blocks(
            self.blocks, self.record, problem, risk.sample_weight, *self._errors)


def best_average(blocks, lam, project):
    """Return the w of the combination with the largest D of the averages over oracle steps and over cached steps.

    Before the first step w is None. An average of multipliers has B and x = -phi / lam, w is the projection of x, and
    D = B - lam/2 |w|^2. On the segment of t between both averages D is concave, with the derivative
    B1 - B0 - lam <w(t), x1 - x0>, which is linear in t if there are no sign constraints.
    """
    first, second = blocks.average(0), blocks.average(1)
    if second is None or first is None:
        return None if first is None else project(first[0])
    step, gain = second[0] - first[0], second[1] - first[1]

    def derivative(t):
        return gain - lam * float(project(first[0] + t * step) @ step)

    low, high = derivative(0.0), derivative(1.0)
    t = brentq(derivative, 0.0, 1.0, disp=False) if low > 0.0 > high else float(high >= 0.0)
    return project(first[0] + t * step)
