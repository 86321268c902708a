"""Planes of classes with free intercepts, repaired: their slopes at the intercepts become 0, and they prove a bound.

A plane `offset + <phi, w> <= R(w)` of multipliers p_i has the slope `r_k = sum_i c_i p_ik - n_k` at the intercept of
class k, n_k being the weight of the class. Nothing holds intercepts back, so a bound needs r = 0. The multipliers q,
equal for all examples, give the plane `n H(q) + sum_k <q_k total - total_k, w_k>`, total_k being the sum of the rows of
class k. Mixed with it the slope at the intercepts is 0:

    t plane + (1 - t) plane of q,   t = min(1, min_k n_k / (n_k + r_k)),
    q_k = (n_k - t (n_k + r_k)) / (n (1 - t)) >= 0

At a minimum r = 0 and t = 1, so the bound stays sharp. What rounding leaves of r costs its product with the limits of
`proof.class_limits`. O(K d), no pass.
"""

from __future__ import annotations

import numpy as np

from ..core.rounding import UNIT
from ..proof.class_limits import class_limits

UNEVEN, MANY = 100.0, 100.0     # ratio of the largest curvature of a column to the median; examples for each column


class EqualMix:
    """Equal multipliers of the classes of one risk.

    `steep` is |m|: errors of slopes bound `|e| + |m| |e_b|`, e_b being their part at the intercepts.

    Examples
    --------
    >>> import pybundle as pb
    >>> X, y = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]), [0, 0, 1]
    >>> risk = pb.risks.Structured(pb.models.Multiclass(2, 2), X, y, loss="logistic")
    >>> (offset,), (phi,) = risk.planes(np.zeros(4))[1:3]
    >>> phi[1::2], EqualMix(risk.class_sums).repaired(offset, phi, 0.0)[1][1::2].round(12) + 0.0
    (array([-0.5,  0.5]), array([0., 0.]))
    """

    def __init__(self, sums):
        self.sums, self.total, self.steep = sums, sums.rows.sum(axis=0), float(np.linalg.norm(sums.means))

    @classmethod
    def of(cls, risk, penalty, factor):
        """Return the mix if the free weights of a penalty are intercepts of classes, else None."""
        is_free = (penalty.l2 == 0.0) & (penalty.l1 == 0.0) & (penalty.lower == -np.inf)
        sums = risk.class_sums if is_free.any() else None
        return None if sums is None or class_limits(sums, penalty, 1.0, factor) is None else cls(sums)

    def curvatures(self, moduli):
        """Return the second derivatives of F at equal multipliers 1/K, shape (K d,), in the centred coordinates."""
        K = len(self.sums.rows)
        return np.tile(float(self.total[-1]) * (K - 1.0) / K**2 * self.sums.variances, K) + moduli

    def suits_blocks(self, moduli, n_examples):
        """Return whether steps on examples need less time than L-BFGS, which scales columns: measured.

        Seconds to 1e-3 were 0.029 : 0.118 on 1797 x 64 pixels, 0.29 : 0.13 on 20000 x 50, never : 0.99 if sizes differ.
        """
        sizes, d = self.curvatures(moduli).reshape(self.sums.rows.shape)[1, :-1], len(self.sums.means)
        is_even = sizes.max(initial=0.0) <= UNEVEN * np.median(sizes) if len(sizes) else True
        return n_examples <= MANY * d and (is_even or n_examples <= d)

    def repaired(self, offset, phi, error):
        """Return the repaired plane and the bound on its errors; offset, phi and error are those of a plane of R."""
        P = phi.reshape(self.sums.rows.shape)
        t, q = self._shares(np.maximum(P[:, -1] + self.sums.counts, 0.0))
        if t == 1.0:
            return offset, phi, error
        n = float(self.total[-1])
        rest = (1.0 - t) * (1.0 - 2.0 * UNIT)       # R is not negative
        entropy = -float(q[q > 0.0] @ np.log(q[q > 0.0]))
        entropy -= (self.sums.error / self.sums.size + 2.0 * UNIT * len(q)) * (entropy + 1.0)
        equal = np.outer(q, self.total) - self.sums.rows
        mixed = t * P + rest * equal
        sizes = t * self._norm(P) + rest * self._norm(equal)
        error = t * error + 1.01 * (4.0 * rest * self.sums.error + 4.0 * UNIT * sizes)
        offset, gain = t * offset, rest * n * entropy
        return offset + gain - 4.0 * UNIT * (abs(offset) + abs(gain)), mixed.ravel(), error

    def mixed(self, P, weights):
        """Return distributions (n, K) of examples with these weights mixed with q, so that r is 0 for them."""
        t, q = self._shares(weights @ P)
        return t * P + (1.0 - t) * q

    def _shares(self, col):
        """Return t and q (K,) for the sums of the multipliers of the classes."""
        counts = self.sums.counts
        t = float(np.min(counts / np.maximum(col, counts)))
        q = np.maximum(counts - t * col, 0.0)
        return (t, q / q.sum()) if q.any() else (1.0, counts)

    def _norm(self, P):
        return float(np.linalg.norm(P)) + self.steep * float(np.linalg.norm(P[:, -1]))
