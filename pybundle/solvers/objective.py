"""The two regularised problems: `lam/2 |w|^2 + R(w)`, and `R(w)` in the ball `|w| <= radius`.

Both turn an aggregate plane `offset + <phi, w> <= R(w)` into a lower bound and a minimiser of the model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class L2:
    """`F(w) = lam/2 |w|^2 + R(w)`; bound `offset - |phi|^2 / (2 lam)`.

    >>> import numpy as np
    >>> L2(2.0).lower_bound(5.0, np.array([3.0, 4.0]))
    -1.25
    """

    lam: float

    def value(self, w):
        """The regulariser at w."""
        return 0.5 * self.lam * float(w @ w)

    def lower_bound(self, offset, phi, error=0.0):
        """`min_w lam/2 |w|^2 + <phi, w> + offset`, with phi known up to `error` in norm."""
        return float(offset - (np.linalg.norm(phi) + error) ** 2 / (2.0 * self.lam))

    def point(self, phi, lam):
        """Minimiser of the model, phi the aggregate slope of its multipliers and lam that of the master."""
        return -phi / lam

    def contains(self, w):
        """Every w is feasible."""
        return True

    def project(self, w):
        """w itself."""
        return w


@dataclass(frozen=True)
class Ball:
    """`R(w)` subject to `|w| <= radius`; bound `offset - radius |phi|`."""

    radius: float

    def value(self, w):
        """No regulariser: 0."""
        return 0.0

    def lower_bound(self, offset, phi, error=0.0):
        """`min_{|w| <= radius} <phi, w> + offset`."""
        return float(offset - self.radius * (np.linalg.norm(phi) + error))

    def point(self, phi, lam):
        """Minimiser of the model in the ball; lam is the multiplier of the ball that the master found."""
        w = -phi / lam
        return w * min(1.0, self.radius / max(float(np.linalg.norm(w)), 1e-300))

    def contains(self, w):
        """Whether w lies in the ball, up to rounding."""
        return float(np.linalg.norm(w)) <= self.radius * (1.0 + 1e-12)

    def project(self, w):
        """The point of the ball nearest to w."""
        return w if self.contains(w) else w * (self.radius / float(np.linalg.norm(w)))
