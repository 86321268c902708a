"""Method "lbfgs": limited-memory BFGS for smooth risks, with a lower bound from planes.

The loop is that of `smooth_run.py`. A line search has the direction `d = -B g`, where B approximates the inverse of the
Hessian from the last steps s and changes y of the gradient g [Nocedal 1980]. A trial that meets the Wolfe conditions is
the next iterate, and its step makes a new pair (s, y).

The gradient includes the squares of a separable penalty. The l1 norm is linear in the orthant of an iterate, so trials
are clipped to that orthant and to the bounds, see `Orthants`.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from scipy.sparse import issparse

from ...core.protocols import completed
from .quasi_newton import Pairs, QuasiNewtonSteps
from .smooth_run import FEWEST, SmoothRun

PAIRS = 100
"""Default number of pairs. At small lam a run with 100 pairs needs half the passes of a run with 10, and products with
pairs cost little compared to a pass."""
NARROW, RARELY, CHEAP, RIDGE = 1000, 10, 24, 1e-9
"""With d features and K classes, `curvatures` becomes a Cholesky factor (d, d) if d / density is at most NARROW,
computed again after max(RARELY, d / (K density)) iterations. The diagonal of its matrix is multiplied by 1 + RIDGE.
Risks with `curvatures` compute it once, after d / density / CHEAP iterations, which cost about as much."""
FLOATS = 1 << 26
"""Without `memory_limit`, all pairs together take at most this many floats (512 MB)."""


class QuasiNewton(SmoothRun):
    """A run of limited-memory BFGS on a smooth risk, with the steps of `quasi_newton.py`.

    Parameters
    ----------
    memory : int or None
        Number of pairs kept; None means 100, or as many as fit into the memory if these are fewer.
    """

    def __init__(self, search, memory=None):
        super().__init__(search)
        limit, problem = self.settings.memory_limit, self.problem
        pairs = room((FLOATS if limit is None else limit // 8) // self.risk.dim)
        curvatures = 1.0 if problem.classes is None else problem.anchors.curvatures(problem.moduli)
        pairs = Pairs(pairs if memory is None else memory, problem.moduli, curvatures)
        self.steps, self._is_first = QuasiNewtonSteps(pairs, self.orthants()), True

    def start(self, w0, state=None):
        """Evaluate the risk at `w0`, or at the point of `state`; the pairs of `state` are used, too."""
        if state is not None and state.pairs is not None:
            self.steps.pairs = state.pairs.moved(
                self.problem.moduli, self.steps.pairs.room, self.steps.pairs.curvatures)
        super().start(w0, state)

    def trial(self):
        """Return the next point to evaluate, or None if no descent is left."""
        if self.problem.is_linear and self.settings.memory_limit is None:
            self._renew()
        return self.steps.trial(self._first_step)

    def _renew(self):
        """Set `curvatures` to a factor of second derivatives, averaged over classes, where this costs few passes."""
        risk = completed(self.risk if self.risk.remote is None else self.risk.remote.home)
        classes, x, n_iter = self.problem.classes, self.steps.x, self.trace.n_iter
        if classes is None and (n_iter > 1 + NARROW // CHEAP or None in (risk.curvatures, risk.user_rows)):
            return
        X, (K, d) = risk.user_rows.X, (1, len(x)) if classes is None else classes.rows.shape
        d_by_density = d * d * X.shape[0] // (max(X.nnz, 1) if issparse(X) else X.size)
        if classes is None:
            is_due = n_iter == 1 + d_by_density // CHEAP
        else:
            is_due = n_iter % max(RARELY, d_by_density // K) == 0 or self._is_first
        self._is_first = False
        if d_by_density > NARROW or not is_due:
            return
        with self.search.working("oracle", passes=1):
            H = risk.curvatures(x) if classes is None else classes.curvatures(
                risk.user_rows, risk.sample_weight, x.reshape(K, d))
        # H is singular if columns are dependent, or if examples have a class of probability 1
        H[np.diag_indices(d)] *= 1.0 + RIDGE
        even = self.problem.even
        H[np.diag_indices(d)] += np.append(np.full(d - 1, even), even if classes is None else 1e-300)
        with suppress(np.linalg.LinAlgError):
            self.steps.pairs.curvatures = np.linalg.cholesky(H)

    def describe(self):
        pairs = self.steps.pairs.room
        size = 16 * self.risk.dim * pairs / 2**20
        return f"at most {size:.0f} MB for {pairs} pairs"

    def state(self):
        return self.search.state(pairs=self.steps.pairs)

    def restore(self, arrays):
        super().restore(arrays)
        self._is_first = np.ndim(self.steps.pairs.curvatures) < 2
        self.steps.pairs.check(self.risk.dim)

    def _first_step(self, slope):
        """Return the first step of a line search, and the largest factor between two trials.

        Without pairs the first step is the step that would reach the lower bound if F were linear.
        """
        if len(self.steps.pairs):
            return 1.0, 10.0
        gap = self.steps.fun - self.search.bound.value
        return (gap if np.isfinite(gap) else max(abs(self.steps.fun), 1e-300)) / -slope, 100.0


def room(vectors):
    """Return how many pairs fit into the memory of this many vectors."""
    return min(PAIRS, max(FEWEST, vectors // 2))
