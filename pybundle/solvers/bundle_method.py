"""The one bundle loop; what differs between the methods is a policy (`policies.py`).

    repeat
        1  master QP over the bundle: multipliers beta, candidate w
        2  lower bound from beta, whatever the stabilisation was
        3  stop if best value and best bound are close enough
        4  the policy evaluates the risk somewhere: new planes, perhaps a better point
        5  forget idle planes, store the new ones
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..bundle import Bundle, estimate_bytes, planes_within
from ..core.exceptions import NumericalError, ParameterError
from ..core.protocols import planes_of
from ..runtime.certificate import Certificate, LowerBound, aggregation_errors, certify
from ..runtime.clock import Clock
from ..runtime.history import History
from ..runtime.result import Result, Status, sentence
from ..runtime.stopping import GapBelow, Progress
from .contract import as_arrays, check_planes, lower_bounds_of, refuse_above
from .master import Master

STALLED_AFTER = 300     # published proximal steps may go on for T = 100 iterations without any


@dataclass(frozen=True)
class Settings:
    """Everything about a bundle run that is not the problem itself.

    Attributes
    ----------
    gap : GapBelow
    stop : {"certificate", "published"}
        Best point against best bound, or the rule of the method's paper.
    theta : float
        The master is solved to `theta` times the outer gap.
    max_idle : int or None
        Master solutions in a row with multiplier 0 after which a plane is dropped; None is 50 for one part, whose
        planes come back most often, and 8 for more.
    memory_limit : int or None
        Bytes for planes and Gram matrix.
    """

    gap: GapBelow
    stop: str = "certificate"
    theta: float = 0.05
    max_idle: int | None = None
    memory_limit: int | None = None


@dataclass
class State:
    """What a run needs to go on: planes do not depend on lam, so neither does this.

    Attributes
    ----------
    bundle : Bundle
    w : ndarray, shape (dim,)
        Best point.
    risk_value : float
        `R(w)`.
    scores : object or None
        Scores at w, where the risk has them.
    fingerprint : object or None
        Names risk and partition, where the risk can: planes of another risk prove nothing.
    """

    bundle: Bundle
    w: np.ndarray
    risk_value: float
    scores: object = None
    fingerprint: object = None


@dataclass
class Trace:
    """Counters of a run."""

    clock: Clock = field(default_factory=Clock)
    history: History = field(default_factory=History)
    n_iter: int = 0
    n_passes: float = 0.0
    max_planes: int = 0


class BundleMethod:
    """A run of one method on one risk: `start`, `step` until it gives a status, `finish`.

    Attributes
    ----------
    w, risk_value, fun : ndarray, float, float
        Best point, `R(w)`, `F(w)`.
    bound : LowerBound or None
        Best lower bound with its evidence.
    """

    def __init__(self, risk, objective, policy, settings):
        self.risk, self.objective, self.policy, self.settings = risk, objective, policy, settings
        self.trace = Trace()
        self.w, self.risk_value, self.fun, self.bound = None, np.inf, np.inf, None
        self.lower_bounds = lower_bounds_of(risk)
        self.slack = self.lower_bounds >= 0.0
        self._changing = False      # while planes are half stored
        none = np.zeros(risk.n_parts)
        self._errors = tuple(np.asarray(getattr(risk, name, none)) for name in ("slope_errors", "offset_errors"))
        self._certificate, self._margin = None, 1.0
        self.max_planes = None
        self._idle = 0              # iterations in a row without any progress
        self.max_idle = settings.max_idle or (50 if risk.n_parts == 1 else 8)

    # ------------------------------------------------------------------ start, step, finish
    def start(self, w0, state=None):
        """Evaluates the risk at `w0`, made feasible, or takes another run over without asking the risk."""
        risk = self.risk
        if state is not None:
            self._check_state(state)
        if state is not None and state.bundle.n_parts == risk.n_parts and state.bundle.dim == risk.dim:
            self.bundle = state.bundle.copy()
            self.bundle.drop_signs()            # those of another run may be none of this one's
            self._limit_memory()
            self.master = Master(self.bundle, self.slack)
            if self.objective.contains(state.w):
                self.observe(state.w, state.risk_value)
                self.policy.resume(self, state)
            else:
                self.append(self.policy.start(self, self.objective.project(state.w)))
            return
        self.bundle = Bundle(risk.dim, risk.n_parts)
        self.master = Master(self.bundle, self.slack)
        self._limit_memory()
        flat = np.isfinite(self.lower_bounds) & (self.lower_bounds != 0.0)
        self.append(self.policy.start(self, self.objective.project(state.w if state is not None else w0)))
        if flat.any():                        # a known bound c of a part is the plane c + <0, w>
            self.bundle.append_flat(np.where(flat, self.lower_bounds, -np.inf))

    def step(self):
        """One iteration; a Status when the method's own rule says stop, else None."""
        before = self.fun, -np.inf if self.bound is None else self.bound.value
        solution = self.policy.propose(self)                                              # 1
        phi = self.improve_bound(solution)                                                # 2
        self.trace.n_iter += 1
        if self.settings.stop == "certificate" and self.is_close():                       # 3
            self.record(self.fun)
            return Status.CONVERGED
        new, value, has_converged = self.policy.advance(self, solution, phi)              # 4
        self._changing = True
        self.bundle.prune(self.max_idle)                                                  # 5
        signs = self.bundle.new_signs(self._outside)
        if self.max_planes is not None:         # a part needs an aggregate, the newest plane and the one being added
            signs = signs[:self.max_planes - 3 * self.risk.n_parts]
        for planes in new:
            self.append(planes, len(signs))
        self.bundle.append_signs(signs)
        self.trace.max_planes = max(self.trace.max_planes, self.bundle.n_planes)
        self._changing = False
        self.record(value)
        if has_converged if self.settings.stop == "published" else self.is_close():
            return Status.CONVERGED
        self._idle = 0 if (self.fun, self.bound.value) != before else self._idle + 1
        return Status.STALLED if self._idle >= STALLED_AFTER else None

    def describe(self):
        """What is about to run and the memory it expects to need."""
        risk = self.risk
        planes = risk.n_parts * (self.max_idle + 2)
        size = estimate_bytes(risk.dim, planes) / 2**20
        limit = "" if self.max_planes is None else f", at most {self.max_planes} under the memory limit"
        return (f"{risk.n_examples} examples, dimension {risk.dim}, {risk.n_parts} parts: about {size:.0f} MB "
                f"for {planes} dense planes{limit}")

    def confirm(self):
        """Whether the float64 certificate meets the tolerance too; if not, the run goes on, in float64."""
        self._certify()
        certificate = self._certificate
        if self.settings.stop == "published" or self._margin < 0.1 or self.settings.gap.holds(
                certificate.fun + certificate.error, certificate.lower_bound):
            return True
        self._margin *= 0.5
        self.fun = certificate.fun
        self.risk_value = certificate.fun - self.objective.value(self.w)
        if getattr(self.risk, "precision", None) == "float32":
            self.risk = self.risk.derive(precision="float64")
        if self.policy.scores is not None:
            with self.trace.clock.phase("oracle"):
                self.policy.scores = self.risk.scores(self.w)
            self.trace.n_passes += 1
        return False

    def _certify(self):
        with self.trace.clock.phase("oracle"):
            self._certificate = certify(self.risk, self.objective, self.w, self.bound)
        self._certified = self.w, self.bound
        self.trace.n_passes += 1

    def _is_certified(self):
        return self._certificate is not None and self._certified[0] is self.w and self._certified[1] is self.bound

    def finish(self, status, ask_risk=True):
        """Certificate and result for the best point; a risk that failed is not asked again."""
        if ask_risk and self.bound is not None and not self._is_certified():
            try:
                self._certify()
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        certificate = self._certificate
        if not self._is_certified():
            lower = self._trivial_bound() if self.bound is None else self.bound.value
            certificate = Certificate(self.fun, lower, certified=False)
        fun, lower, certified, gap = certificate.fun, certificate.lower_bound, certificate.certified, certificate.gap
        success = certified and self.settings.gap.holds(fun + certificate.error, lower)
        if self.settings.stop == "published":
            success = certified and status is Status.CONVERGED
        elif status is Status.CONVERGED and not success:
            status = Status.STALLED
        state = State(self.bundle, self.w, self.risk_value, self.policy.scores, getattr(self.risk, "fingerprint", None))
        return Result(
            x=self.w.copy(), fun=fun, lower_bound=lower, gap=gap, certified=certified, success=success, status=status,
            message=sentence(status, gap, self.settings.gap.tol), nit=self.trace.n_iter,
            n_passes=self.trace.n_passes, n_cached_passes=0.0, n_planes=self.bundle.n_planes,
            max_planes=self.trace.max_planes, seconds=self.trace.clock.seconds(),
            history=self.trace.history.arrays(), state=None if self._changing else state)

    # ------------------------------------------------------------------ what policies use
    def master_tolerance(self):
        """`theta` times the outer gap, at most 1e-3 and at least 1e-12 of the best value.

        An iteration that moved neither value nor bound makes the next master up to a thousand times tighter: a
        solution within a loose tolerance may come back unchanged although its planes have been cut.
        """
        theta = self.settings.theta * 0.1 ** min(self._idle, 3)
        scale = max(abs(self.fun), 1e-300)
        gap = self.fun - self.bound.value if self.bound is not None else np.inf
        return float(np.clip(theta * gap, 1e-12 * scale, 1e-3 * scale))

    def evaluate(self, w):
        """Planes at w: one pass."""
        if not np.isfinite(w).all():
            raise NumericalError(f"w overflows for {self.objective}; use a larger lam, or scale the data")
        with self.trace.clock.phase("oracle"):
            planes = as_arrays(planes_of(self.risk, w))
        self.trace.n_passes += 1
        self.check(planes, w)
        return planes

    def check(self, planes, w):
        """Refuses planes of wrong shape, with NaN, or above the risk at the best point."""
        check_planes(planes, self.risk)
        if self.w is None or self.best_values is None:
            return
        products = planes.dot(self.w)
        above = planes.offsets + products - self.best_values
        scale = np.abs(planes.offsets) + np.abs(products) + np.abs(self.best_values) + np.abs(planes.values)
        refuse_above(above, scale, self.rounding, "the plane at the new point", "the best point so far")

    rounding = 1e-6    # of float32 scores, relative to the numbers compared

    def check_model(self, solution, w, values, centre_products=None):
        """Refuses a risk whose value at the candidate w lies below planes that it gave before."""
        def excess(products):
            return self.bundle.model(products, self.slack) - values

        largest, planes = np.zeros(len(values)), self.bundle.parts >= 0
        np.maximum.at(largest, self.bundle.parts[planes], np.abs(self.bundle.offsets[planes]))
        scale = largest + np.abs(values)
        if (excess(solution.products(centre_products)) <= self.rounding * scale).all():
            return
        # products in Gram space cancel at small lam: only those of the planes with w itself are evidence
        products = self.bundle.dot(w)
        np.maximum.at(largest, self.bundle.parts[planes], np.abs(products[planes]))
        refuse_above(excess(products), largest + np.abs(values), self.rounding, "a stored plane", "the new point")

    def observe(self, w, risk_value, values=None):
        """Takes w as best point if it is better; gives `F(w)`."""
        fun = self.objective.value(w) + risk_value
        if fun < self.fun and self.objective.contains(w):
            self.w, self.risk_value, self.fun = w, risk_value, fun
            self.best_values = values
        return fun

    best_values = None

    def improve_bound(self, solution, settle=True):
        """Lower bound from the multipliers; gives the aggregate slope.

        Multipliers of constraints are left out: the objective finds the best ones for phi itself.
        """
        beta = solution.beta
        phi, offset = self.bundle.combine(beta)
        self._outside = self.objective.pushed_outside(phi)
        norms = np.sqrt(self.bundle.H.diagonal())
        errors = aggregation_errors(beta, self.bundle.offsets, norms, self.bundle.parts, *self._errors)
        bound = LowerBound.from_aggregate(self.objective, offset, phi, *errors)
        if self.bound is None or bound.value > self.bound.value:
            self.bound = bound
        if settle:
            self.bundle.settle(beta)
        return phi

    def is_close(self):
        """Whether best value and best bound are within the tolerance."""
        return self.bound is not None and self.settings.gap.holds(self.fun, self.bound.value, self._margin)

    def append(self, planes, room=0):
        """Stores planes, under the memory limit, and leaves it room for some more."""
        if self.max_planes is not None:
            self.bundle.shrink_to(self.max_planes - self.risk.n_parts - room)
        self.bundle.append(planes, self.slack)
        if not np.isfinite(self.bundle.H.diagonal()).all():
            raise NumericalError("squares of the slopes overflow; scale the data or the risk down")
        self.trace.max_planes = max(self.trace.max_planes, self.bundle.n_planes)

    def record(self, value):
        """A row of the history."""
        bound = -np.inf if self.bound is None else self.bound.value
        self.trace.history.record(self.trace.clock.elapsed(), self.trace.n_passes, value, self.fun, bound)

    def progress(self):
        """Where the run stands, for stopping rules and callbacks."""
        bound = -np.inf if self.bound is None else self.bound.value
        return Progress(self.w, self.fun, bound, self.trace.n_iter, self.trace.n_passes, self.bundle.n_planes,
                        self.trace.clock.seconds())

    # ------------------------------------------------------------------ inside
    def _check_state(self, state):
        mine, theirs = getattr(self.risk, "fingerprint", None), state.fingerprint
        if state.w.shape != (self.risk.dim,) or (mine is not None and theirs is not None and mine != theirs):
            raise ParameterError("warm_start must be a run on the same risk (data, labels, weights, partition), got "
                                 "one on another; pass w0=result.x to start from its point only")

    def _limit_memory(self):
        limit, risk = self.settings.memory_limit, self.risk
        if limit is None:
            return
        self.max_planes = planes_within(limit, risk.dim)
        least = 3 * risk.n_parts                # per part: an aggregate, the newest plane, one being added
        if self.max_planes < least:
            needed = estimate_bytes(risk.dim, least)
            raise ParameterError(f"memory_limit must be at least {needed} bytes for {risk.n_parts} parts of dimension "
                                 f"{risk.dim}, got {limit}; raise it or lower n_parts")

    def _trivial_bound(self):
        return float(self.lower_bounds.sum())
