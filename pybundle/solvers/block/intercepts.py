"""Free intercepts of classes in block methods: centred columns, a last one of their size, and a centre that moves.

All columns are centred implicitly, x - m. The column of the intercepts is scaled to `sqrt(ratio)`, the root mean square
norm of centred rows, so that one rate suits all weights; it is larger where the rate exceeds the weight of the smallest
class, since the square would then slow intercepts down. This square is no part of F: its centre follows the present
point, which costs hardly more passes than intercepts with a penalty of that rate.
"""

from __future__ import annotations

import numpy as np

from ...core.kept import Kept


class MovingIntercepts(Kept):
    """Intercepts of one objective, in units of a last column of 1.

    Attributes
    ----------
    origin : ndarray, shape (K,)
        Centre of the intercepts, in the coordinates of the mean.
    ratio : float
        Square of the entries of the last column.
    products, squares : ndarray, shape (n,)
        `<m, x_i>` of the rows, and squared norms of the rows with these columns.
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
        """Return the intercepts if they are free and equal squares are all of the penalty, else None."""
        return None if problem.classes is None or problem.even is None else cls(problem, examples)

    def move(self, centre):
        """Make the intercepts of a point their centre; return the point without them, about the means."""
        W = self._objective.coordinates.inner(centre).reshape(len(self.origin), -1)
        self.origin = W[:, -1].copy()
        W[:, -1] = 0.0
        return W.ravel()

    def point(self, w):
        """Return the weights of users from w, a sum of rows that are not centred."""
        W = w.reshape(len(self.origin), -1)
        found = W - np.outer(W[:, -1], self.means)
        found[:, -1] = self.origin + self.ratio * W[:, -1]
        return self._objective.coordinates.outer(found.ravel())
