"""Intercepts of classes without penalty in block methods: steps penalise their distance from a centre, which moves.

All columns are centred implicitly, x - m. The column of the intercepts has the entries `sqrt(ratio)`, the root mean
square norm of centred rows, so that the same lam suits all weights in steps. The ratio is larger if lam exceeds the
weight of the smallest class, since their square would then slow the intercepts down. This square is no part of F: its
centre follows the present point, which costs hardly more passes than a fixed centre would.
"""

from __future__ import annotations

import numpy as np

from ...core.kept import Kept


class MovingIntercepts(Kept):
    """The moving centre of the intercepts of K classes, and the last column that rows have in steps.

    Attributes
    ----------
    origin : ndarray, shape (K,)
        Centre of the intercepts, in coordinates with the intercept at the mean m.
    ratio : float
        Square of the entries of the last column.
    products, squares : ndarray, shape (n,)
        `<m, x_i>`, and the squared norms of the centred rows with their last column.
    """

    kept = ("origin",)

    def __init__(self, problem, examples):
        self._objective, self.means = problem, problem.classes.means
        counts = problem.classes.counts
        least = problem.even / float(counts[counts > 0.0].min())
        self.ratio = float(np.clip(max(problem.classes.variances[:-1].sum(), least), 1e-8, 1e8))
        self.products = examples.scale * np.ascontiguousarray(examples.X @ self.means[:examples.n_features])
        excess = self.means @ self.means - 1.0 - 2.0 * self.products
        self.squares = np.maximum(examples.norms**2 + excess, 0.0) + self.ratio
        self.origin = np.zeros(len(problem.classes.rows))

    @classmethod
    def of(cls, problem, examples):
        """Return the intercepts if they have no penalty and all other weights have equal squares alone, else None."""
        return None if problem.classes is None or problem.even is None else cls(problem, examples)

    def move(self, centre):
        """Move the centre to the intercepts of a point; return this point for centred columns, with intercepts 0."""
        W = self._objective.coordinates.inner(centre).reshape(len(self.origin), -1)
        self.origin = W[:, -1].copy()
        W[:, -1] = 0.0
        return W.ravel()

    def point(self, w):
        """Return the weights in the coordinates of users, from w, a weighted sum of rows that are not centred."""
        W = w.reshape(len(self.origin), -1)
        found = W - np.outer(W[:, -1], self.means)
        found[:, -1] = self.origin + self.ratio * W[:, -1]
        return self._objective.coordinates.outer(found.ravel())
