"""The loop that all bundle methods share; a policy (`policies.py`) takes the decisions in which they differ.

    repeat
        1  solve the master QP over the bundle: multipliers beta, candidate w
        2  compute the lower bound from beta, which holds with and without a proximal term
        3  stop if best value and best bound are close enough
        4  the policy evaluates the risk at points of its choice, which gives new planes and perhaps a better point
        5  drop idle planes, store the new planes
"""

from __future__ import annotations

import numpy as np

from ...bundle import ENTRY, PAIR, SPARSE_BELOW, Bundle, estimate_bytes, planes_within
from ...core.exceptions import NumericalError, ParameterError
from ...core.kept import Held, check_array
from ...core.plane import Plane
from ...core.validation import read_only
from ...risks.partition import SHARD_ROWS
from ...risks.reduction import WAVE
from ...runtime.result import Status
from ..plane_checks import ROUNDING, refuse_above
from ..run import Run
from .evidence_of_points import of_points
from .master import plane_of
from .part_planes import part_planes
from .penalty_master import master_of

MANY_PARTS = 64
"""With so many parts or more, idle planes are dropped early, because inner products of planes take most of the time."""


def working_bytes(risk, n_parts):
    """Return the bytes that a pass needs.

    A pass stores the slopes of `n_parts` parts and of the shards that are computed together, 8 more vectors of length
    dim, and 4 numbers for each example.
    """
    vectors = n_parts + 8 + min(WAVE, -(-risk.n_examples // SHARD_ROWS))
    return 8 * (vectors * risk.dim + 4 * risk.n_examples)


def parts_within(risk, limit, n_parts):
    """Return the largest number of parts, at most `n_parts`, that a memory limit in bytes allows.

    Each part needs three planes with their rows of the Gram matrix, and one more plane during a pass.
    """
    room, slopes, pairs = max(limit - working_bytes(risk, 0), 0), 32.0 * risk.dim, 9.0 * PAIR
    return max(1, min(n_parts, int((np.sqrt(slopes**2 + 4.0 * pairs * room) - slopes) / (2.0 * pairs))))


class BundleMethod(Run):
    """A run of the bundle loop with one policy on one risk.

    With `zero_plane=False` the model has the planes of passes alone, without the flat planes of declared lower bounds.

    Parameters
    ----------
    method : PartPlanes
        Its options.
    """

    kept = "master", "policy", "_errors", "max_planes"
    patience = 300      # published proximal steps may continue for T = 100 iterations without any progress

    def __init__(self, search, policy, method, zero_plane=True):
        super().__init__(search)
        self.options, self.is_published = method, method.stop == "published"
        n_parts, self.policy, self._declared = self.risk.n_parts, policy, search.lower_bounds
        if not zero_plane:
            self._declared = np.full(n_parts, -np.inf)
        self.slack = self._declared >= 0.0
        self._changing = False      # True while planes are being stored, when the bundle is inconsistent
        self._errors = np.zeros(n_parts), np.zeros(n_parts)
        self.max_planes = None
        self.max_idle = method.max_idle or (50 if n_parts == 1 else 8 if n_parts < MANY_PARTS else 2)

    # ------------------------------------------------------------------ start, step, finish
    def start(self, w0, state=None):
        """Evaluate the risk at `w0`, made feasible, or take over the planes and the best point of another run.

        In the second case the risk is evaluated only if that point is infeasible in this run, or a part lacks a plane.
        """
        risk, w = self.risk, self.search.take(w0, state)
        kept = None if state is None else state.bundle
        if kept is not None and (kept.n_parts, kept.dim) == (risk.n_parts, risk.dim):
            self.bundle = kept.copy()
            self._errors = state.errors
            self.bundle.drop_constraints()      # linear constraints of another run may not hold in this run
            if state.record is not self.settings.record:
                self.bundle.origins[:] = -1     # origins are indices in the record of another run
            self._limit_memory()
            self.master = self._make_master()
            planes = self.bundle.parts[self.bundle.parts >= 0]
            lacks = ~self.slack & (np.bincount(planes, minlength=risk.n_parts) == 0)    # a zero plane was enough before
            if self.problem.contains(state.w) and not lacks.any():
                self.search.observe(state.w, state.risk_value, inference=state.inference)
                self.policy.resume(self, state)
            else:
                self.append(self._named(self.policy.start(self, w), w))
            return
        self.bundle = Bundle(risk.dim, risk.n_parts)
        self.master = self._make_master()
        self._limit_memory()
        flat = np.isfinite(self._declared) & (self._declared != 0.0)
        self.append(self._named(self.policy.start(self, w), w))
        known = None if state is None else part_planes(risk, state.blocks)
        if known is not None:
            self.append(known)
        if flat.any():                        # a declared lower bound c of a part is the plane c + <0, w>
            self.bundle.append_flat(np.where(flat, self._declared, -np.inf))

    def iterate(self):
        """Do one iteration; return a Status if the stopping rule holds, else None."""
        search = self.search
        solution = self.policy.propose(self, self.trace.n_iter)                           # 1
        aggregate = self.improve_bound(solution)                                          # 2
        self.trace.n_iter += 1
        if not self.is_published and search.is_close():                     # 3
            search.log(search.fun)
            return Status.CONVERGED
        found = self.policy.advance(self, solution, aggregate)                            # 4
        probe = search.probe()
        if probe is not None:       # copies, because the pass at `probe` may overwrite the buffer of these slopes
            found = found._replace(planes=[planes._replace(slopes=planes.slopes.copy()) for planes in found.planes])
            found.planes.append(self.visit(probe)[0])
        self._changing = True
        self.bundle.prune(self.max_idle)                                                  # 5
        signs = self.bundle.new_constraints(self._outside)
        if self.max_planes is not None:         # leaves room for aggregate, newest plane and new plane of each part
            signs = signs[:self.max_planes - 3 * self.risk.n_parts]
        for planes in found.planes:
            self.append(self._named(planes, found.at), len(signs))
        if len(signs):
            self.bundle.append_signs(signs)
        if self.settings.record is not None:
            self.settings.record.keep(self.bundle.origins.tolist())
        self.trace.max_planes = max(self.trace.max_planes, self.bundle.n_planes)
        self._changing = False
        search.log(found.value)
        is_over = found.has_converged if self.is_published else search.is_close()
        return Status.CONVERGED if is_over else None

    def describe(self):
        n_parts = self.risk.n_parts
        planes = n_parts * (self.max_idle + 2)
        size = estimate_bytes(self.risk.dim, planes) / 2**20
        limit = "" if self.max_planes is None else f", at most {self.max_planes} under the memory limit"
        parts = "1 part" if n_parts == 1 else f"{n_parts} parts"
        return f"{parts}, about {size:.0f} MB for {planes} dense planes{limit}"

    def n_planes(self):
        return self.bundle.n_planes

    def state(self):
        if self._changing:
            return None
        kept = {} if self.problem.rows is None else {"bound": None}     # the bound needs these constraints
        return self.search.state(bundle=self.bundle, scores=self.policy.scores, errors=self._errors, **kept)

    def evidence(self, risk):
        record = self.settings.record
        if record is None or self.search.bound is None:
            return None
        used = np.unique(self.bundle.origins[(self.bundle.beta > 0.0) & (self.bundle.origins >= 0)])
        points = [record.points[k] for k in used.tolist()]
        return of_points(self.search, risk, [*points, self.search.w])

    # ------------------------------------------------------------------ checkpoints
    @property
    def kind(self):
        return type(self.policy).__name__

    def arrays(self):
        return super().arrays() | {"bundle": self.bundle.__getstate__()}

    def restore(self, arrays):
        n_parts, self.bundle = self.risk.n_parts, Bundle(self.risk.dim, self.risk.n_parts)
        self.bundle.__setstate__(arrays["bundle"])
        if (self.bundle.dim, self.bundle.n_parts) != (self.risk.dim, n_parts):
            raise ValueError("the bundle belongs to another risk")
        self.master = self._make_master()
        self._limit_memory()
        if arrays["kind"] != self.kind:         # another policy starts anew from the planes of the checkpoint
            arrays = arrays | {"policy": Held(self.policy.arrays())}
        super().restore(arrays)
        for errors in self._errors:
            check_array("errors", errors, (n_parts,), low=0.0)

    def to_float64(self):
        if self.policy.scores is not None:
            with self.search.working("oracle", passes=1):
                self.policy.scores = self.risk.scores(read_only(self.search.w))

    # ------------------------------------------------------------------ what policies use
    def solve(self, alpha=None, tol=None):
        """Return the solution of the master, without a centre if alpha is None; `tol` defaults to `_tolerance`."""
        with self.search.working("qp"):
            return self.master.solve(self._tolerance() if tol is None else tol, alpha)

    def visit(self, w, solution=None):
        """Evaluate the risk at w in one pass; return its planes and F(w).

        If w is the minimiser of `solution`, a value below the cutting-plane model raises an error: R is not convex.
        """
        if solution is None:
            return self.search.visit(w)
        planes = self.search.planes(w)
        self.check_model(solution, w, planes.values)
        return planes, self.search.observe_planes(w, planes)

    def improve_bound(self, solution, settle=True):
        """Offer the lower bound that a solution proves to the search; return its aggregate `Plane` without errors.

        With `settle` the bundle stores the multipliers. Multipliers of sign constraints do not enter the plane, because
        the penalty itself finds the best of them for a slope.
        """
        beta = np.zeros(self.bundle.n_planes)
        beta[:len(solution.beta)] = solution.beta       # 0 for constraints that were stored after this solution
        search, plane = self.search, plane_of(self.bundle, self.slack, self.problem, beta, *self._errors)
        self._outside = self.problem.penalty.pushed_outside(plane.slope)
        search.offer(search.bound_from(plane))
        if settle:
            self.bundle.settle(beta)
        return Plane(float(beta @ self.bundle.offsets), plane.slope)

    def dual(self, plane):
        """Return the lower bound of F by an aggregate, without rounding errors; published stopping rules use it."""
        return self.problem.lower_bound(plane, self.search.limits)

    def has_converged(self, fun, plane):
        """Return whether the published stopping rule is in use, and holds for a value of F and an aggregate."""
        return self.is_published and self.search.rule.holds(fun, self.dual(plane))

    # ------------------------------------------------------------------ inside
    def _make_master(self):
        master = master_of(self.bundle, self.slack, self.problem)
        if self.max_planes is not None:
            master.most_planes = self.max_planes
        return master

    def _named(self, planes, w):
        """Return the planes with the index of w in the record, if there is a record and they have no index yet."""
        record = self.settings.record
        if w is None or record is None or planes.origin >= 0:
            return planes
        return planes._replace(origin=record.point(w))

    def _tolerance(self):
        """Return `theta` times the gap of the run, at most 1e-3 and at least 1e-12 of the best value.

        Before the first bound, the declared lower bound takes its place in the gap. If the last k iterations moved
        neither value nor bound, the tolerance is divided by 10^min(k, 3), because with a loose tolerance the master may
        return its last solution although a new plane cuts off that solution.
        """
        search, theta = self.search, self.options.theta * 0.1 ** min(self.search.idle, 3)
        scale, gap = max(abs(search.fun), 1e-300), min(search.gap, search.fun - float(search.lower_bounds.sum()))
        return float(min(max(theta * gap, 1e-12 * scale), 1e-3 * scale))

    def check_model(self, solution, w, values):
        """Refuse a risk if one of its `values` (P,) at w, the minimiser of a solution, lies below a stored plane."""
        allowed = self.search.checks.allowance(self.risk, w, self._errors[0])

        def excess(products):
            return self.bundle.model(products, self.slack) - values - allowed

        largest, planes = np.zeros(len(values)), self.bundle.parts >= 0
        np.maximum.at(largest, self.bundle.parts[planes], np.abs(self.bundle.offsets[planes]))
        scale = largest + np.abs(values)
        if (excess(self.master.products(solution)) <= ROUNDING * scale).all():
            return
        # products from Gram space lose digits at small lam, so the test is repeated with `<a_j, w>` itself
        products = self.bundle.dot(w)
        np.maximum.at(largest, self.bundle.parts[planes], np.abs(products[planes]))
        refuse_above(excess(products), largest + np.abs(values),
                     lambda: self.search.checks.rounding(self.risk, w, values), "a stored plane", "the new point")

    def is_short_of_memory(self):
        return self.max_planes is not None and self.trace.max_planes >= self.max_planes - 2 * self.risk.n_parts

    def append(self, planes, room=0):
        """Store planes; under a memory limit first make place for them and for `room` further planes."""
        if self.max_planes is not None:
            if self.bundle.is_sparse or (self.bundle.n_planes == 0 and planes.density() < SPARSE_BELOW):
                self._count_sparse(planes)
            grown = self.bundle.shrink_to(self.max_planes - self.risk.n_parts - room)
            self._errors = self._errors[0] + self.problem.coordinates.norms(grown, lambda: grown), self._errors[1]
        self._errors = tuple(map(np.maximum, self._errors, (planes.slope_errors, planes.offset_errors)))
        self.bundle.append(planes, self.slack)
        overflown = (~np.isfinite(self.bundle.H.diagonal())).nonzero()[0]
        if len(overflown):
            self.bundle.drop(overflown)
            self._changing = False              # the bundle is consistent again
            raise NumericalError("squares of the slopes overflow; scale the data or the risk down")
        self.trace.max_planes = max(self.trace.max_planes, self.bundle.n_planes)

    def _limit_memory(self):
        limit, risk = self.settings.memory_limit, self.risk
        if limit is None:
            return
        least = 3 * risk.n_parts                # for each part an aggregate, the newest plane, and a plane to add
        needed = estimate_bytes(risk.dim, least)
        if limit < needed:
            raise ParameterError(f"memory_limit must be at least {needed} bytes for {risk.n_parts} parts of dimension "
                                 f"{risk.dim}, got {limit}; raise it or lower n_parts")
        # planes get at least half of a limit below 2 MiB, where Python's own objects take as much as vectors
        beside = working_bytes(risk, risk.n_parts) + self.policy.working_bytes(risk)
        self._for_planes = max(limit - beside, min(limit // 2, 1 << 20), needed)
        self.max_planes = planes_within(self._for_planes, risk.dim)
        self.bundle.reserve(self.max_planes)

    def _count_sparse(self, planes):
        """Set `max_planes` from the mean number of entries of a slope.

        Entries count twice, because a store that grows is copied.
        """
        entries = self.bundle.slope_bytes / ENTRY + planes.density() * self.risk.n_parts * self.risk.dim
        size = 2.0 * ENTRY * entries / (self.bundle.n_planes + self.risk.n_parts)
        within = int((-size + np.sqrt(size**2 + 4.0 * PAIR * self._for_planes)) / (2.0 * PAIR))
        self.max_planes = max(3 * self.risk.n_parts, within)
