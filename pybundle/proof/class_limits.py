"""Limits of free weights that follow from data, labels and a value of F alone, without planes.

Classes with a log-loss: every loss is at least `s_l - s_y` for each class l and at least 0. Hence the mean over class
k of weight n_k gives, where `F <= level`,

    b_l - b_k + <m, w_l - w_k>  <=  level / n_k + |w_l - w_k| |mean_k - m|,   |w_l - w_k| <= sqrt(2) |W|,

with `|W| <= sqrt(2 level / l2)` for squares of rate l2, or `|w_l - w_k| <= |W|_1 <= level / l1`. m is any point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.object_graph import check_float
from .plane import UNIT, Plane


@dataclass(frozen=True)
class ClassLimits:
    """Limits of the intercepts `b_k - b_0` at m where F <= level, from at least 1/n_k and |mean_k - m|, shape (K,)."""

    level: float
    shares: np.ndarray
    spreads: np.ndarray
    l2: float
    l1: float
    means: np.ndarray

    def sizes(self, lower, upper):
        """Return the limits, shape (K - 1,); None if there are none."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            step = np.fmin(np.sqrt(np.divide(4.0 * self.level, self.l2)), np.divide(self.level, self.l1))
            ends = self.level * self.shares + step * self.spreads
        return 1.01 * np.maximum(ends[0], ends[1:]) + 1e-300 if np.isfinite(ends).all() else None

    def freed(self, plane):
        """Return a plane centred at m, less what its slopes at the intercepts can cost; None if they have no limits."""
        P, size, limits = plane.phi.reshape(-1, len(self.means)), float(np.linalg.norm(self.means)), self.sizes(0, 0)
        if limits is None:
            return None
        phi = P - P[:, -1:] * self.means
        phi[:, -1] = 0.0
        cost = plane.offset_error + 1.01 * float((np.abs(P[1:, -1]) + plane.last_error) @ limits)
        error = plane.slope_error + size * plane.last_error + 4.0 * UNIT * (1.0 + size) * float(np.linalg.norm(P))
        return Plane(plane.offset, phi.ravel(), 1.01 * cost, 1.01 * error)

    def check_state(self):
        """Refuse what a checkpoint should not hold; limits are computed again from its level."""
        check_float("level", self.level, 0.0)


def class_limits(sums, penalty, level, factor=1.0):
    """Return `ClassLimits` for `F = factor Omega + R <= level`; None if free weights are not intercepts of classes.

    `penalty` has arrays l2, l1, centre, lower and upper; the first intercept must be fixed at 0, the others free.
    """
    dim = np.size(sums.rows)
    l2, l1, centre, lower, upper = (np.broadcast_to(getattr(penalty, name), (dim,)).reshape(sums.rows.shape)
                                    for name in ("l2", "l1", "centre", "lower", "upper"))
    is_fixed = (lower == 0.0) & (upper == 0.0)
    is_bare = (l2[:, -1] == 0.0) & (l1[:, -1] == 0.0) & (lower[:, -1] == -np.inf) & (upper[:, -1] == np.inf)
    held = ~is_fixed[:, :-1]
    l2, l1 = (0.999 * factor * float(rates[:, :-1].min(where=held, initial=1e300)) for rates in (l2, l1))
    if not is_fixed[0, -1] or not is_bare[1:].all() or centre.any() or l2 == l1 == 0.0:
        return None
    counts, size = sums.counts, np.linalg.norm(sums.means)
    found = sums.rows[:, :-1] / counts[:, None] - sums.means[:-1]
    spreads = np.linalg.norm(found, axis=1) + 4.0 * sums.error / counts + 1e-15 * size
    return ClassLimits(float(level), 1.01 / counts, 1.01 * spreads, l2, l1, sums.means)
