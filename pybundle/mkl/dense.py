"""Online proximal learning with theta as a plain vector, for any regularisers; `OnlineProximal` uses it."""

from __future__ import annotations

import numpy as np

from ..prox import project_l2_ball
from .vectors import VectorSession, check_finite


class DenseLearner:
    """theta as a plain vector, and the sum of all points if averages are wanted."""

    def __init__(self, model, average):
        self.model, self.average, self.n_ticks = model, average, 0
        self.theta = np.zeros(model.dim)
        self.total = np.zeros(model.dim if average else 0)

    def bind(self, X, Y):
        """Return the oracle of the model for X and Y."""
        return self.model.oracle(X, Y)

    def saved(self):
        """Return what `restore` needs."""
        return self.theta, self.total.copy(), self.n_ticks

    def restore(self, saved):
        """Restore what `saved` returned."""
        self.theta, self.total, self.n_ticks = saved

    def weights(self):
        """Return the weights for predictions, shape (dim,)."""
        return self.total / self.n_ticks if self.average and self.n_ticks else self.theta.copy()


class DenseSession(VectorSession):
    """Rounds with any regularisers, O(dim) each."""

    def run(self, order, etas):
        s, learner, total = self.settings, self.learner, 0.0
        for r, eta in enumerate(etas):
            loss, indices, data = self._gradient(order[r * s.batch:(r + 1) * s.batch])
            total += loss + float(sum(R.value(learner.theta) for R in s.regularisers))
            check_finite(total)
            theta = learner.theta.copy()
            theta[indices] -= eta * data
            for R in s.regularisers:
                theta = R.prox(theta, float(eta))
            learner.theta = project_l2_ball(theta, s.radius) if np.isfinite(s.radius) else theta
            learner.n_ticks += 1
            if learner.average:
                learner.total += learner.theta
        return total

    def restart(self):
        learner = self.learner
        learner.theta, learner.n_ticks = np.zeros_like(learner.theta), 0
        learner.total[:] = 0.0

    def finish(self):
        """Do nothing: there are no scales to fold."""

    def _decode(self, rows):
        return self.oracle.solve_batch(rows, self._prepared())

    def _prepared(self):
        return self.oracle.prepare(self.learner.theta)
