"""What is added to the risk: `lam/2 |w|^2`, or the ball `|w| <= radius`; both with w_N >= 0.

An objective turns an aggregate plane `offset + <phi, w> <= R(w)` into a lower bound, by its conjugate, and into the
minimiser of the model. A constraint w_k >= 0 leaves of phi_k only its negative part: if phi_k > 0, the minimum lies at
w_k = 0, and phi_k does not count. Multiple kernel learning adds a third one, `GroupNorms` in `mkl/weighted.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

NONE = np.empty(0, dtype=np.intp)


class Objective(ABC):
    """Regulariser and constraints of a problem, seen from its solvers.

    Attributes
    ----------
    nonneg : bool array, shape (dim,), or None
        The set N of weights that must not be negative.
    modulus : float or None
        F is strongly convex with this constant.
    """

    modulus: float | None = None
    nonneg: np.ndarray | None

    @abstractmethod
    def value(self, w):
        """The regulariser at w, infinite where it overflows."""

    @abstractmethod
    def lower_bound(self, offset, phi, error=0.0):
        """The least value of regulariser plus `offset + <phi, w>`, with phi known up to `error` in norm."""

    @abstractmethod
    def point(self, phi, lam):
        """Minimiser of the model, phi the aggregate slope of its multipliers and lam that of the master."""

    def contains(self, w):
        """Whether w is feasible."""
        return self._has_signs(w)

    def project(self, w):
        """The feasible point nearest to w."""
        return self._clip(w)

    def effective(self, phi):
        """phi without what the constraints take up."""
        return phi if self.nonneg is None else np.where(self.nonneg, np.minimum(phi, 0.0), phi)

    def pushed_outside(self, phi):
        """Coordinates of N that phi alone would make negative: their constraints belong into the master."""
        if self.nonneg is None:
            return NONE
        return np.flatnonzero(self.nonneg & (phi > 1e-9 * np.linalg.norm(phi)))

    def _clip(self, w):
        return w if self.nonneg is None or not (w[self.nonneg] < 0.0).any() else np.where(
            self.nonneg, np.maximum(w, 0.0), w)

    def _has_signs(self, w):
        return self.nonneg is None or not (w[self.nonneg] < 0.0).any()


@dataclass(frozen=True)
class L2(Objective):
    """`F(w) = lam/2 |w|^2 + R(w)`; bound `offset - |phi|^2 / (2 lam)`.

    >>> import numpy as np
    >>> L2(2.0).lower_bound(5.0, np.array([3.0, 4.0]))
    -1.25
    """

    lam: float
    nonneg: np.ndarray | None = None

    @property
    def modulus(self):
        return self.lam

    def value(self, w):
        with np.errstate(over="ignore"):
            return 0.5 * self.lam * float(w @ w)

    def lower_bound(self, offset, phi, error=0.0):
        """`min_w lam/2 |w|^2 + <phi, w> + offset`, with phi known up to `error` in norm; -inf where that overflows."""
        with np.errstate(over="ignore"):
            return float(offset - (np.linalg.norm(self.effective(phi)) + error) ** 2 / (2.0 * self.lam))

    def point(self, phi, lam):
        return -self.effective(phi) / lam


@dataclass(frozen=True)
class Ball(Objective):
    """`R(w)` subject to `|w| <= radius`; bound `offset - radius |phi|`."""

    radius: float
    nonneg: np.ndarray | None = None

    def value(self, w):
        """No regulariser: 0."""
        return 0.0

    def lower_bound(self, offset, phi, error=0.0):
        """`min_{|w| <= radius} <phi, w> + offset`."""
        return float(offset - self.radius * (np.linalg.norm(self.effective(phi)) + error))

    def point(self, phi, lam):
        """Minimiser of the model in the ball; lam is the multiplier of the ball that the master found."""
        w = -self.effective(phi) / lam
        return w * min(1.0, self.radius / max(float(np.linalg.norm(w)), 1e-300))

    def contains(self, w):
        """Whether w lies in the ball, up to rounding, and has the right signs."""
        return self._has_signs(w) and float(np.linalg.norm(w)) <= self.radius * (1.0 + 1e-12)

    def project(self, w):
        w = self._clip(w)
        return w if self.contains(w) else w * (self.radius / float(np.linalg.norm(w)))
