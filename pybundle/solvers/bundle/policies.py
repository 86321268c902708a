"""What distinguishes the bundle methods: where the master looks, and where the risk is evaluated next.

A policy has six members; the loop (`bundle_method.py`) calls nothing else.

``start(loop, w0)``        first planes
``resume(loop, state)``    instead of start, when the planes of another run are there
``propose(loop)``          a solution of the master
``advance(loop, solution, phi)``   evaluates the risk: list of new planes, F at the new point, and whether the
                           published stopping rule holds
``scores``                 scores at the best point, or None
``working_bytes(risk)``    memory that it needs
"""

from __future__ import annotations

import numpy as np

from ...core.validation import read_only
from ..objective import Ball
from ..plane_checks import check_planes
from ._alpha_search import least_alpha

PLAIN_EVERY = 5     # iterations after which a proximal method also asks for the bound without proximity
MODEST = 0.3        # share of the gap that a proximal step should promise at least


class Policy:
    """A policy without scores, whose first planes are those at w0."""

    scores = None

    def start(self, loop, w0):
        planes = loop.evaluate(w0)
        loop.observe(w0, float(planes.values.sum()), planes.values)
        self.resume(loop, None)
        return planes

    def resume(self, loop, state):
        pass

    def working_bytes(self, risk):
        """What the policy keeps beside the bundle."""
        return 0


class LastIterate(Policy):
    """BMRM and P-BMRM [Teo2010, Alg. 2; Uricar & Franc 2012], and CPA in a ball: evaluate at the minimiser.

    Published rule: `F(w_t) - F_t(w_t) <= eps |F(w_t)|` at the current iterate (for CPA the best one), where
    `F_t(w_t)` is taken from below by the master's dual value.
    """

    def propose(self, loop):
        with loop.trace.clock.phase("qp"):
            return loop.master.solve_objective(loop.objective, loop.master_tolerance())

    def advance(self, loop, solution, phi):
        w = loop.objective.point(phi, solution.lam)
        planes = loop.evaluate(w)
        in_ball = isinstance(loop.objective, Ball)
        if not in_ball:                     # in a ball w may have been scaled, and the model was not solved at w
            loop.check_model(solution, w, planes.values)
        fun = loop.observe(w, float(planes.values.sum()), planes.values)
        bound = loop.objective.lower_bound(float(solution.beta @ loop.bundle.offsets), phi)
        return [planes], fun, loop.rule.holds(loop.fun if in_ball else fun, bound)


class LineSearch:
    """Exact line search between best point and minimiser (method "oca") [Franc & Sonnenburg 2009].

    Needs scores that are affine in w. The planes are taken at `best + mu (w - best)` after the best point has moved
    to the minimum of F on the segment.
    """

    def __init__(self, mu=0.1):
        self.mu = mu
        self.scores = None

    def working_bytes(self, risk):
        """Scores of both ends of a segment, of the point between them and of that of the planes, and a difference."""
        return 5 * (4 if risk.precision == "float32" else 8) * risk.n_examples * risk.n_scores

    def start(self, loop, w0):
        with loop.trace.clock.phase("oracle"):
            self.scores = loop.risk.scores(read_only(w0))
            planes = loop.risk.planes_at(self.scores)
        loop.trace.n_passes += 1
        check_planes(planes, loop.risk)
        loop.observe(w0, float(planes.values.sum()))
        return loop.noted(planes, w0)

    def resume(self, loop, state):
        self.scores = state.scores
        if self.scores is None or len(self.scores) != loop.risk.n_examples:
            with loop.trace.clock.phase("oracle"):
                self.scores = loop.risk.scores(read_only(state.w))
            loop.trace.n_passes += 1

    def propose(self, loop):
        with loop.trace.clock.phase("qp"):
            return loop.master.solve_objective(loop.objective, loop.master_tolerance())

    def advance(self, loop, solution, phi):
        best, lam = loop.w, loop.objective.lam
        w = loop.objective.point(phi, solution.lam)
        step = w - best
        with loop.trace.clock.phase("oracle"):
            scores = loop.risk.scores(read_only(w))
            t, risk_value = loop.risk.line_search(
                self.scores, scores, lam * float(best @ step), lam * float(step @ step))
            moved = loop.risk.combine(self.scores, scores, t)
            planes = loop.risk.planes_at(loop.risk.combine(moved, scores, self.mu))
        loop.trace.n_passes += 1
        check_planes(planes, loop.risk)
        planes = loop.noted(planes, best + (t + self.mu * (1.0 - t)) * step)
        fun = loop.fun
        if t > 0.0:
            fun = loop.observe(loop.objective.project(best + t * step), risk_value)     # but for rounding no change
            self.scores = moved
        bound = loop.objective.lower_bound(float(solution.beta @ loop.bundle.offsets), phi)
        return [planes], fun, loop.rule.holds(fun, bound)


class Centred(Policy):
    """Common part of the proximal policies: a centre c, `<a_j, c>` kept in Gram space, a weight alpha."""

    refresh_every = 50     # moves after which the products are recomputed from the planes

    def __init__(self):
        self.alpha, self._moves, self._is_clipped = 0.0, 0, False

    def resume(self, loop, state):
        self.centre_fun = loop.fun
        loop.bundle.move_centre(loop.w)
        self.begin(loop)

    def begin(self, loop):
        """Constants of the policy that depend on the first point."""

    def solve(self, loop, alpha, tol):
        """Master at proximity weight alpha."""
        return loop.master.solve(loop.objective.lam, tol, alpha, loop.bundle.products)

    def point(self, loop, solution, phi):
        """`w = (2 alpha c - phi) / (lam + 2 alpha)`, made feasible."""
        lam, alpha = loop.objective.lam, solution.alpha
        w = -phi / lam if alpha == 0.0 else (2.0 * alpha * loop.bundle.centre - phi) / (lam + 2.0 * alpha)
        inside = loop.objective.project(w)
        # constraints that the master has not got yet: its own products are then those of another point
        with np.errstate(over="ignore"):
            self._is_clipped = inside is not w and float(np.linalg.norm(inside - w)) > 1e-12 * float(np.linalg.norm(w))
        return inside

    def evaluate(self, loop, solution, phi):
        """Risk at the candidate: w, planes, F(w)."""
        w = self.point(loop, solution, phi)
        planes = loop.evaluate(w)
        loop.check_model(solution, w, planes.values, loop.bundle.products)
        return w, planes, loop.observe(w, float(planes.values.sum()), planes.values)

    def move(self, loop, solution, w, fun):
        """Makes w the centre; the products follow without touching the planes."""
        self._moves += 1
        is_stale = self._is_clipped or self._moves % self.refresh_every == 0
        known = None if is_stale else solution.products(loop.bundle.products)
        loop.bundle.move_centre(w, known)
        self.centre_fun = fun


class PublishedProximity(Centred):
    """Prox-BMRM and Prox-P-BMRM [Uricar & Franc 2013, Alg. 2]: the centre is the last iterate.

    Parameters
    ----------
    K : float or "auto"
        Largest step. "auto" is 0.01 |w_1|, and 0.4 for w_1 = 0.
    T : int
        Number of iterations in which the present step length must reach the tolerance, else alpha is tuned anew.
    """

    def __init__(self, K="auto", T=100):
        super().__init__()
        self.K, self.T = K, T
        self.required = np.inf      # gamma of the paper: the decrease below which alpha is tuned

    def begin(self, loop):
        norm = float(np.linalg.norm(loop.w))
        self.radius = (0.01 * norm if norm > 0.0 else 0.4) if self.K == "auto" else self.K

    def propose(self, loop):
        with loop.trace.clock.phase("qp"):
            self._plain = None
            if np.isinf(self.required):
                return self._tune(loop)
            if loop.settings.stop == "certificate" and self.alpha > 0.0 and loop.trace.n_iter % PLAIN_EVERY == 0:
                loop.improve_bound(self.solve(loop, 0.0, loop.master_tolerance()), settle=False)
            return self.solve(loop, self.alpha, loop.master_tolerance())

    def _tune(self, loop):
        tol, centre = loop.master_tolerance(), loop.bundle.centre
        self.alpha, solution, self._plain = least_alpha(
            lambda alpha: self.solve(loop, alpha, tol), loop.objective.lam, self.radius, self.alpha,
            loop.bundle.products, float(centre @ centre))
        return solution

    def advance(self, loop, solution, phi):
        w, planes, fun = self.evaluate(loop, solution, phi)
        new = [planes]
        if self._plain is None and self.centre_fun - fun < self.required:       # a poor step: tune alpha
            with loop.trace.clock.phase("qp"):
                tuned = self._tune(loop)
            if tuned.alpha != solution.alpha:
                solution, new = tuned, [planes._replace(slopes=planes.slopes.copy())]   # in a buffer used again?
                w, planes, fun = self.evaluate(loop, tuned, loop.improve_bound(tuned))
                new.append(planes)
        has_converged = self._plain is not None and self._require(loop, fun)
        self.move(loop, solution, w, fun)
        return new, fun, has_converged

    def _require(self, loop, fun):
        """gamma (2.2) after tuning, and the published stop, tested only here."""
        phi = loop.improve_bound(self._plain, settle=False)
        bound = loop.objective.lower_bound(float(self._plain.beta @ loop.bundle.offsets), phi)
        self.required = (fun - bound / max(1.0 - loop.settings.gap.tol, 1e-12)) / self.T
        return loop.rule.holds(fun, bound)


class BestPoint(Centred):
    """Proximal bundle around the best point, for risks without scores (method "oca").

    alpha starts at lam, halves after a step that kept more than half of the predicted decrease, doubles when the
    model was badly off. In between it falls by a fifth while the step promises less than 30 % of the certified gap:
    without that rule alpha stays where many small steps are kept, and P = 1 needs four times the passes.

    The master is solved until its gap is a small part of the predicted decrease; where none is left, the centre is the
    minimiser of the proximal model and only a smaller alpha leads on. Every fifth master is also solved without
    proximity, where the bound is tightest.
    """

    def begin(self, loop):
        self.alpha = loop.objective.lam

    def propose(self, loop):
        with loop.trace.clock.phase("qp"):
            tol = loop.master_tolerance()
            solution = self.solve(loop, self.alpha, tol)
            self._model = self._model_value(loop, solution)
            floor = 1e-14 * max(abs(loop.fun), 1e-300)
            while solution.gap > 0.1 * (loop.fun - self._model) and tol > floor:
                tol = max(0.01 * tol, floor)
                solution = self.solve(loop, self.alpha, tol)
                self._model = self._model_value(loop, solution)
            is_near = loop.rule.holds(loop.fun, self._model, 0.5)
            if is_near or loop.trace.n_iter % PLAIN_EVERY == 0:
                loop.improve_bound(self.solve(loop, 0.0, tol), settle=False)
        return solution

    def _model_value(self, loop, solution):
        """Cutting-plane model of F at the candidate, in Gram space."""
        centre, products, lam, alpha = loop.bundle.centre, loop.bundle.products, solution.lam, solution.alpha
        beta, s = solution.beta, lam + 2.0 * alpha
        norm2 = 4.0 * alpha**2 * float(centre @ centre) - 4.0 * alpha * float(beta @ products)
        norm2 = (norm2 + float(beta @ solution.h)) / s**2
        return 0.5 * lam * norm2 + float(loop.bundle.model(solution.products(products), loop.slack).sum())

    def advance(self, loop, solution, phi):
        before, gap = loop.fun, loop.fun - loop.bound.value
        w, planes, fun = self.evaluate(loop, solution, phi)
        predicted = before - self._model
        self.adapt(before, predicted, before - fun, solution.gap, gap)
        if before - fun > 0.0 and before - fun >= 0.1 * predicted:
            self.move(loop, solution, w, fun)
        bound = loop.objective.lower_bound(float(solution.beta @ loop.bundle.offsets), phi)
        return [planes], fun, loop.rule.holds(fun, bound)

    def adapt(self, before, predicted, gained, tol, gap):
        """alpha after a step from the value `before`, with a master solved to `tol`."""
        if predicted <= max(tol, 1e-13 * abs(before)):
            self.alpha *= 0.1
        elif gained > 0.5 * predicted:
            self.alpha *= 0.5
        elif gained < -0.5 * predicted:
            self.alpha *= 2.0
        elif predicted < MODEST * gap:
            self.alpha *= 0.8
