"""Blocks of cached planes, one block for each example, fed by an oracle with access to single examples.

The core of the block methods for structured risks: `BlockMethod` decides when to call the oracle, when stored planes
are enough, and where the centre lies.
"""

from __future__ import annotations

import math

import numpy as np

from ...core.exceptions import NumericalError, ParameterError
from ...core.kept import check_array
from ...core.protocols import errors_of
from ...core.rounding import norm
from ...core.validation import read_only
from ...models.batch_oracle import batched
from ...prox.of_norm import minimiser
from ..evidence.proof import of_blocks
from ..newton.plane_master import PlaneMaster
from ._bcfw import Blocks
from .core import Core
from .oracle_pass import OraclePass

CAP = 100           # most planes kept of an example
SHARD = 256         # examples that a thread decodes at a time
WAVE = 16           # shards whose planes wait to be stored
HOLES = 1.15        # heap that growing and shrinking blocks take, relative to what they hold: measured, 1.1 to 1.3
BLOCK = 400         # bytes of a block beside its slopes


class CachedBlocks(Core):
    """Core with the planes found so far and their multipliers, for all examples of a risk.

    Parameters
    ----------
    risk : Structured or LinearRisk
        Its `oracle()` decodes examples in batches.
    problem : Problem
        Its penalty is a square.
    batch : int
        Examples decoded at one point in an exact pass; 1 is fully sequential.
    step, max_steps, cap
        As in `Blocks`.
    average : bool
        Whether values are evaluated at averages of the points.
    n_best : int
        Labellings added per call of the oracle, if it returns more than the best.
    memory_limit : int or None
        Bytes for planes, multipliers, Gram matrices and points; beyond, idle planes are dropped and others merged.
    sigma, growth
        Arguments of `AugmentedLagrangian`, for the Newton steps in `solve`.
    record : Record or None
        Stores the labellings of planes as evidence.

    Attributes
    ----------
    w, offset
        Point and B of the multipliers.
    visits, cached_visits : float
        Examples visited by the oracle, and blocks visited over stored planes alone.
    """

    kept = ("visits", "cached_visits", "lam", "kappa", "centre", "_phi", "_value", "_turn", "_gap", "_used_gap",
            "_sigma", "_master")

    def __init__(self, risk, problem, known=None, *, batch=64, step="exact", max_steps=7, cap=CAP,
                 average=False, n_best=1, memory_limit=None, sigma=None, growth=1.5, record=None):
        self.risk = risk
        self.oracle, self.record = batched(risk.oracle()), record
        self.n_examples, self.dim = risk.n_examples, risk.dim
        settings = problem.nonneg, step, max_steps, cap if record is None else 1 << 20    # evidence allows no merging
        if not isinstance(known, Blocks):       # multipliers of labels have no planes
            known = None
        self.blocks = Blocks(risk.n_examples, risk.dim, *settings) if known is None else known.copy(*settings)
        self.batch, self.n_best, self.towards = batch, n_best, step == "frank-wolfe"
        self.visits = self.cached_visits = 0.0
        self.lam, self.kappa, self.centre = problem.lam, 0.0, None
        self._phi = None if known is None else self.blocks.aggregate().slope
        self._errors = _rounding_of(risk)
        self._value = None              # (version, R, bound on its rounding error) of the best point
        if average:
            self.blocks.start_averages()
        self._turn, self._gap, self._used_gap = -1, np.inf, np.inf
        self._limit, self._for_blocks, self._pass = memory_limit, np.inf, self._make_pass()
        if memory_limit is not None:
            self._for_blocks = max(memory_limit - self.working_bytes(), memory_limit // 2) / HOLES
            self._pass.most_bytes = self._for_blocks
            self._keep_within()
        self._master, self._sigma, self._growth = None, sigma, growth

    def _make_pass(self):
        batch = min(self.batch, self.n_examples)
        return OraclePass(self.blocks, self.oracle, batch, self.n_best, self.risk.map_shards, self.record)

    def arrays(self):
        return {"blocks": self.blocks.__reduce__()[1], **super().arrays()}

    def restore(self, arrays):
        self.blocks = Blocks.from_state(*arrays["blocks"])
        if (self.blocks.n_blocks, self.blocks.dim) != (self.n_examples, self.dim):
            raise ValueError("the blocks belong to another risk")
        self._pass = self._make_pass()
        self._pass.most_bytes = self._for_blocks
        self.lam, self._sigma = arrays["lam"], arrays["_sigma"]
        if arrays["_master"] is not None:
            self._master = PlaneMaster(self.blocks, self.lam, np.zeros(self.dim), self._sigma, self._growth)
        super().restore({name: value for name, value in arrays.items() if name != "blocks"})
        for vector in (self.centre, self._phi):
            if vector is not None:
                check_array("a vector", vector, (self.dim,))

    @property
    def w(self):
        return self.blocks.w

    @property
    def offset(self):
        return self.blocks.offset

    # ------------------------------------------------------------------ the point
    def phi(self):
        """Return phi of the multipliers, from the running point."""
        x = self.blocks.unclipped()
        x *= -self.blocks.curvature
        if self.kappa:
            x += self.kappa * self.centre
        return x

    def place(self, lam, kappa, centre):
        """Set lam, kappa and the centre c, and so w; the multipliers stay."""
        self._place(lam, kappa, centre, self._phi if self._phi is not None else self.phi())

    def _place(self, lam, kappa, centre, phi):
        x = minimiser(phi, lam, kappa, centre)
        if not np.isfinite(x).all():
            raise NumericalError("squares of the planes or the point overflow; scale the data or the risk down")
        self.lam, self.kappa, self.centre = lam, kappa, centre
        self.blocks.set_point(x, lam + kappa)

    # ------------------------------------------------------------------ passes
    def oracle_pass(self, order):
        """Ask the oracle for the examples of `order`, a batch at a time, and step on their blocks."""
        total, done, self._phi = 0.0, 0, None
        while done < len(order):
            before = self.blocks.visits
            try:
                total += self._pass.visit(order[done:], self.towards)
            finally:
                self.visits += self.blocks.visits - before
            done += self.blocks.visits - before
            self._keep_within()
        self._turn = -1
        return total

    def working_bytes(self, vectors=11, numbers=4):
        """Return the bytes needed beside the blocks, for vectors of length dim and numbers of each example."""
        return 8 * (vectors * self.dim + numbers * self.n_examples) + self._pass.working_bytes()

    def _keep_within(self, shrink=0.95, merged=1.5):
        """Merge planes if the blocks exceed their memory, to `shrink` times the limit so that this is rare.

        Merged planes have more entries than others; the error message assumes `merged` times as many.
        """
        if self.blocks.bytes <= self._for_blocks:
            return
        if not self.blocks.shrink(shrink * self._for_blocks) and self.blocks.bytes > self._for_blocks:
            blocks = HOLES * max(self.blocks.bytes, self.n_examples * (BLOCK + self.plane_bytes()))
            least = math.ceil(merged * (blocks + min(blocks, self.working_bytes())))
            raise ParameterError(f"memory_limit must hold a plane of each of {self.n_examples} examples, some {least} "
                                 f"bytes in all, more where many are merged, got {self._limit}; raise it or use method "
                                 "'oca', which keeps planes of parts")

    def plane_bytes(self, sample=64):
        """Return the mean bytes of a slope, from some examples at w = 0."""
        rows = np.unique(np.linspace(0, self.n_examples - 1, sample).astype(np.intp))
        found = self.oracle.solve_batch(rows, self.oracle.prepare(np.zeros(self.dim)))
        slopes = self.oracle.planes(rows, found.labellings)[1]
        is_dense = slopes.nnz * 3 >= 2 * len(rows) * self.dim
        return 8.0 * self.dim if is_dense else 12.0 * slopes.nnz / len(rows)

    def cached_pass(self, rng, target, full=10, used=0.3):
        """Step on many blocks over stored planes; return an estimate of the sum of all gaps.

        A pass over all planes computes the gaps and activates planes. Fewer than `full` cheap passes follow, over the
        planes in use of blocks that use several, as long as the gaps between these exceed `used` times the target.
        """
        self._turn, self._phi = self._turn + 1, None
        if self._turn % full and self._used_gap > used * target:
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

    def solve(self, w, target):
        """Do Newton steps from w on the problem of all planes; return whether its gap is at `target`, or stuck.

        The next call continues where this one ended, until there are new planes.
        """
        if self._master is None:
            self._master = PlaneMaster(self.blocks, self.lam, w, self._sigma, self._growth)
        is_solved = self._master.solve(target)
        self._sigma, self._phi = self._master.sigma, None       # `aggregate` sums the multipliers and sets w
        return is_solved

    def measure(self):
        """Recompute the gaps of all stored planes at the present point."""
        self.blocks.measure()

    def gaps(self):
        """Return the last known gap of every block."""
        return self.blocks.gaps()

    def forget(self, idle=4, idle_of_many=2):
        """Drop planes that have been idle for some iterations, unless `solve` works on them.

        They go earlier if each call of the oracle adds several planes, most of which are never used.
        """
        if self._master is None and self.record is None:        # merged planes have no labelling
            self.blocks.forget(idle if self.n_best == 1 else idle_of_many)

    def known(self):
        """Return the blocks, from which another run can start."""
        return self.blocks

    def nbytes(self):
        """Return the bytes of planes, multipliers and Gram matrices."""
        return self.blocks.bytes

    @property
    def n_merged(self):
        """Planes that lost their own multipliers to the memory limit."""
        return self.blocks.n_merged

    def n_planes(self):
        return self.blocks.n_planes

    def average(self):
        """Return the best combination, by D, of the averages over oracle and over cached steps; None before any.

        On the segment between both, D is `D0 + t (B1 - B0 - lam <w0, w1 - w0>) - t^2 lam/2 |w1 - w0|^2`.
        """
        first, second = self.blocks.average(0), self.blocks.average(1)
        if second is None or first is None:
            return None if first is None else first[0]
        step, lam = second[0] - first[0], self.lam
        slope, curve = second[1] - first[1] - lam * float(first[0] @ step), lam * float(step @ step)
        return first[0] + min(max(slope / curve, 0.0), 1.0) * step if curve > 0.0 else first[0]

    def evaluate(self, search, w):
        """Return F at w, or at the best point of the master or the average if there is one; store the planes found."""
        better = self.average() if self._master is None else self._master.w
        w = w if better is None else better
        self._master = None
        weights, far = self.oracle.prepare(read_only(w)), norm(w)

        def look(rows):
            found, planes = self._pass.ask(rows, weights)
            return self.oracle.total(rows, found.uppers, far), planes

        value, error = 0.0, 0.0
        size, wave = (SHARD, WAVE) if self._limit is None else (64, 1)      # a memory limit is checked after each wave
        shards = np.array_split(np.arange(self.n_examples), -(-self.n_examples // size))
        for first in range(0, len(shards), wave):
            for (part, part_error), planes in self.risk.map_shards(look, shards[first:first + wave]):
                value, error = value + part, error + part_error
                for each in planes:
                    self.blocks.add(*each)
                self.visits += len(planes[-1][0])
            self._keep_within()
        self._turn = -1
        fun = search.observe(w, value)
        if search.w is w and np.isfinite(error):
            self._value = search.version, value, error
        return fun

    def known_value(self, search):
        """Return R at the best point and a bound on its rounding error, from the pass that found it, or None."""
        return None if self._value is None or self._value[0] != search.version else self._value[1:]

    def aggregate(self):
        """Return the `Plane` of the multipliers, summed afresh; the point is set from it, which removes its drift."""
        plane = self.blocks.aggregate(*self._errors)
        if self._phi is None:
            self._place(self.lam, self.kappa, self.centre, plane.slope)
        self._phi = plane.slope
        return plane

    def evidence(self, problem, risk, limits=None):
        """Return the `Proof` of the multipliers if their labellings were kept, else None."""
        return None if self.record is None else of_blocks(
            self.blocks, self.record, problem, risk.sample_weight, *self._errors)

    def default_kappa(self, lam):
        """Return the weight of the centre, `sqrt(lam Rbar^2)` with Rbar^2 the mean |psi|^2 of the planes known now.

        Planes near the optimum are much shorter than the first ones.
        """
        return np.sqrt(lam) * np.sqrt(self.blocks.mean_squared_norm())


def _rounding_of(risk):
    """Return bounds on rounding errors: of the slope of all examples together, and of offsets (relative)."""
    slope_errors, offset_errors = errors_of(risk)
    return float(slope_errors.sum()), float(offset_errors.max())
