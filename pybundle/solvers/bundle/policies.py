"""Policies of the bundle methods: a policy decides how the master is solved and where the risk is evaluated next.

A policy has six members; the loop (`bundle_method.py`) calls nothing else.

``start(loop, w0)``        returns the first planes
``resume(loop, state)``    is called in place of start if the planes of another run are taken over
``propose(loop, k)``       returns a solution of the master in iteration k
``advance(loop, solution, aggregate)``     evaluates the risk and returns a `StepOutcome`; `aggregate` is the
                           aggregate `Plane` of the solution
``scores``                 are the scores at the best point, or None
``working_bytes(risk)``    returns the bytes that the policy needs

A policy uses eight members of the loop:

``search``                 is the `Search`: best point, its value, stopping rule; it counts passes
``risk``                   is needed for scores and other members that only some risks have
``master``                 is the cutting-plane model, a `Master` with the objective and the proximal centre
``solve(alpha, tol)``      solves the master; its tolerance follows the gap of the run
``improve_bound(solution, settle)``        offers the lower bound that the solution proves to the search
``dual(aggregate)``        returns the lower bound of F by an aggregate, for published rules
``has_converged(fun, aggregate)``          tells whether the published rule is in use, and holds
``visit(w, solution)``     makes a pass and returns planes and F(w)

The policy in `sgd.py` also uses `settings`, and `append` for the planes of its epochs.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...core.kept import Kept
from ...core.validation import read_only
from ..plane_checks import check_planes

SERIOUS = 0.1       # fraction of the predicted decrease that a step must achieve to move the centre
PLAIN_EVERY = 5     # a proximal method solves the master without proximal term once in so many iterations


class StepOutcome(NamedTuple):
    """What `advance` returns: new planes, F at the new point, and whether the run has converged.

    Attributes
    ----------
    planes : list of Planes
    value : float
        F at the new point.
    has_converged : bool
        Whether the published stopping rule holds.
    at : ndarray, shape (dim,), or None
        Point of the planes if they were computed without `visit`, which records the point itself.
    """

    planes: list
    value: float
    has_converged: bool
    at: Any = None


class Policy(Kept):
    """Base class of policies: no scores, and the first planes are those at w0."""

    scores = None

    def start(self, loop, w0):
        planes, _ = loop.visit(w0)
        self.resume(loop, None)
        return planes

    def resume(self, loop, state):
        pass

    def propose(self, loop, k):
        return loop.solve()

    def working_bytes(self, risk):
        """Return the bytes that the policy keeps beside the bundle."""
        return 0


class LastIterate(Policy):
    """BMRM and P-BMRM [Teo2010, Alg. 2; Uricar & Franc 2012], and CPA in a ball.

    The risk is evaluated at the minimiser w_t of the model F_t. The published rule stops if
    `F(w_t) - F_t(w_t) <= eps |F(w_t)|`. Here the dual value of the master, which is at most `F_t(w_t)`, is used in
    its place. For CPA, F of the best point is used in place of `F(w_t)`.
    """

    def advance(self, loop, solution, aggregate):
        problem = loop.master.problem
        in_ball = problem.ball is not None      # w may have been scaled into the ball, and then is no minimiser
        planes, fun = loop.visit(problem.point(aggregate.slope, solution.lam), None if in_ball else solution)
        return StepOutcome([planes], fun, loop.has_converged(loop.search.fun if in_ball else fun, aggregate))


class LineSearch(Policy):
    """Exact line search between best point and minimiser (method "oca") [Franc & Sonnenburg 2009].

    Scores must be affine in w. First the best point moves to the minimum of F on the segment between the best point and
    the minimiser w of the model. Then the planes are computed at `best + mu (w - best)`.
    """

    kept = ("scores",)

    def __init__(self, mu=0.1):
        self.mu = mu

    def working_bytes(self, risk):
        """Return the bytes of five arrays of scores.

        These are for both ends of the segment, for the new best point, for the point of the planes, and a difference.
        """
        n_scores = 1 if risk.linear_risk is None else risk.linear_risk.n_scores
        return 5 * (4 if risk.precision == "float32" else 8) * risk.n_examples * n_scores

    def start(self, loop, w0):
        with loop.search.working("oracle", passes=1):
            self.scores = loop.risk.scores(read_only(w0))
            planes = loop.risk.planes_at(self.scores)
        planes = check_planes(planes, loop.risk)
        loop.search.observe(w0, float(planes.values.sum()))
        return planes

    def resume(self, loop, state):
        self.scores = state.scores
        if self.scores is None or len(self.scores) != loop.risk.n_examples:
            with loop.search.working("oracle", passes=1):
                self.scores = loop.risk.scores(read_only(state.w))

    def advance(self, loop, solution, aggregate):
        search, risk, problem = loop.search, loop.risk, loop.master.problem
        best, fun = search.w, search.fun
        w = problem.point(aggregate.slope, solution.lam)
        step = w - best
        with search.working("oracle", passes=1):
            scores = risk.scores(read_only(w))
            t, risk_value = risk.line_search(self.scores, scores, *problem.along(best, w, step))
            moved = _between(self.scores, scores, t)
            planes = risk.planes_at(_between(moved, scores, self.mu))
        planes = check_planes(planes, risk)
        if t > 0.0:
            before = search.version
            fun = search.observe(problem.project(best + t * step), risk_value)      # rounding may violate bounds
            self.scores = self.scores if search.version == before else moved
        at = best + (t + self.mu * (1.0 - t)) * step
        return StepOutcome([planes], fun, loop.has_converged(fun, aggregate), at)


def _between(S0, S1, t):
    """Return `S0 + t (S1 - S0)` in the precision of the scores."""
    return S0 + S0.dtype.type(t) * (S1 - S0)


class Centred(Policy):
    """Base class of the proximal policies: they add `alpha |w - c|^2` to the model, with a centre c.

    When c moves, the products `<a_j, c>` follow from the products of the master, without reading the planes.
    """

    kept: ClassVar[tuple[str, ...]] = ("alpha", "centre_fun", "_moves", "_is_clipped")
    refresh_every = 50     # moves after which the products are recomputed from the planes, because of rounding

    def __init__(self):
        self.alpha, self.centre_fun, self._moves, self._is_clipped = 0.0, None, 0, False

    def resume(self, loop, state):
        self.centre_fun = loop.search.fun
        loop.master.move_centre(loop.search.w)
        self.begin(loop)

    def begin(self, loop):
        """Set the parameters that depend on the first point."""

    def point(self, loop, solution, phi):
        """Return the minimiser of a solution, made feasible."""
        w = loop.master.point(solution, phi)
        inside = loop.master.problem.project(w)
        # if the projection moves w, the products of the solution belong to another point
        with np.errstate(over="ignore"):
            self._is_clipped = inside is not w and float(np.linalg.norm(inside - w)) > 1e-12 * float(np.linalg.norm(w))
        return inside

    def move(self, loop, solution, w, fun):
        """Make w the centre; `<a_j, w>` follow from the solution unless w was clipped, or a recomputation is due."""
        self._moves += 1
        is_stale = self._is_clipped or self._moves % self.refresh_every == 0
        loop.master.move_centre(w, None if is_stale else solution)
        self.centre_fun = fun


class PublishedProximity(Centred):
    """Prox-BMRM and Prox-P-BMRM [Uricar & Franc 2013, Alg. 2]; the last iterate is the centre.

    Parameters
    ----------
    K : float or "auto"
        Largest length of a step. "auto" stands for 0.01 |w_1| with the first point w_1, or for 0.4 if w_1 is 0.
    T : int
        Number of steps. If T more decreases of F like the last one do not reach the tolerance, alpha is tuned again.
    """

    kept = *Centred.kept, "radius", "required"

    def __init__(self, K="auto", T=100, is_published=False):
        super().__init__()
        self.K, self.T, self._is_published = K, T, is_published
        self.required = np.inf      # gamma of the paper: the decrease below which alpha is tuned

    def begin(self, loop):
        norm = float(np.linalg.norm(loop.search.w))
        self.radius = (0.01 * norm if norm > 0.0 else 0.4) if self.K == "auto" else self.K

    def propose(self, loop, k):
        self._plain = None
        if np.isinf(self.required):
            return self._tune(loop)
        if not self._is_published and self.alpha > 0.0 and k % PLAIN_EVERY == 0:
            loop.improve_bound(loop.solve(0.0), settle=False)
        return loop.solve(self.alpha)

    def _tune(self, loop):
        self.alpha, solution, self._plain = loop.master.least_alpha(loop.solve, self.radius, self.alpha)
        return solution

    def advance(self, loop, solution, aggregate):
        w = self.point(loop, solution, aggregate.slope)
        planes, fun = loop.visit(w, solution)
        new = [planes]
        if self._plain is None and self.centre_fun - fun < self.required:       # a poor step: tune alpha
            tuned = self._tune(loop)
            if tuned.alpha != solution.alpha:
                solution, new = tuned, [planes._replace(slopes=planes.slopes.copy())]   # a pass overwrites old slopes
                w = self.point(loop, tuned, loop.improve_bound(tuned).slope)
                planes, fun = loop.visit(w, tuned)
                new.append(planes)
        has_converged = self._plain is not None and self._require(loop, fun)
        self.move(loop, solution, w, fun)
        return StepOutcome(new, fun, has_converged)

    def _require(self, loop, fun):
        """Set gamma, equation (2.2) of the paper; return whether the published rule holds.

        The rule is tested only after alpha was tuned.
        """
        bound, rule = loop.dual(loop.improve_bound(self._plain, settle=False)), loop.search.rule
        self.required = (fun - bound / max(1.0 - rule.tol, 1e-12)) / self.T
        return rule.holds(fun, bound)


class BestPoint(Centred):
    """Proximal bundle around the best point, for risks without scores (method "oca").

    alpha starts at lam (`first_alpha`) and halves after a step that achieved more than half of the predicted decrease.
    After other steps alpha falls by a fifth if the predicted decrease was less than 30 % of the gap. Without that rule
    alpha stays so large that steps are small, and P = 1 needs four times the passes. If the predicted decrease was
    larger, and the step achieved less than a tenth of this decrease, alpha rises by a quarter.

    The master is solved until its gap is a small fraction of the predicted decrease. If the predicted decrease is 0,
    the centre is the minimiser of the proximal model, and alpha falls to a tenth. Every fifth master is also solved
    without proximal term, which gives the tightest bound.
    """

    def begin(self, loop):
        self.alpha = 0.0        # `propose` chooses alpha, because `first_alpha` may need planes

    def propose(self, loop, k):
        search = loop.search
        self.alpha = max(self.alpha or loop.master.first_alpha(search.fun), loop.master.lightest)
        solution = loop.solve(self.alpha)
        self._model = loop.master.value(solution)
        floor = 1e-14 * max(abs(search.fun), 1e-300)
        # a master that missed its tolerance has reached the precision of float64, and is not solved again
        while solution.tol >= solution.gap > 0.1 * (search.fun - self._model) and solution.tol > floor:
            solution = loop.solve(self.alpha, max(0.01 * solution.tol, floor))
            self._model = loop.master.value(solution)
        if search.rule.holds(search.fun, self._model, 0.5) or k % PLAIN_EVERY == 0:
            loop.improve_bound(loop.solve(0.0, solution.tol), settle=False)
        return solution

    def advance(self, loop, solution, aggregate):
        before, gap, w = loop.search.fun, loop.search.gap, self.point(loop, solution, aggregate.slope)
        planes, fun = loop.visit(w, solution)
        predicted = before - self._model
        self.adapt(before, predicted, before - fun, solution.gap, gap)
        if before - fun > 0.0 and before - fun >= SERIOUS * predicted:
            self.move(loop, solution, w, fun)
        return StepOutcome([planes], fun, loop.has_converged(fun, aggregate))

    def adapt(self, before, predicted, gained, tol, gap):
        """Change alpha after a step that decreased F from `before` by `gained`; `tol` is the gap of the master."""
        if predicted <= max(tol, 1e-13 * abs(before)):
            self.alpha *= 0.1
        elif gained > 0.5 * predicted:
            self.alpha *= 0.5
        elif predicted < 0.3 * gap:
            self.alpha *= 0.8
        elif gained < SERIOUS * predicted:
            self.alpha *= 1.25
