"""Planes of classes with free intercepts, repaired: their slopes at the intercepts become 0, and they prove a bound.

A plane `offset + <phi, w> <= R(w)` of multipliers p_i has the slope `r_k = sum_i c_i p_ik - n_k` at the intercept of
class k, n_k being the weight of the class. Nothing holds intercepts back, so a bound needs r = 0. The multipliers q,
equal for all examples, give the plane `n H(q) + sum_k <q_k total - total_k, w_k>`, total_k being the sum of the rows of
class k. Mixed with it the slope at the intercepts is 0:

    t plane + (1 - t) plane of q,   t <= min_k n_k / (n_k + max(r_k, 0)),   n (1 - t) q_k = (1 - t) n_k - t r_k >= 0

At a minimum r = 0 and t = 1, so the bound stays sharp. As r and n_k are known up to rounding, t is so much smaller that
such q exist whatever they are; the slopes are then 0 without error, and the error of q is one of the other slopes.
O(K d), no pass.
"""

from __future__ import annotations

import numpy as np

from .plane import UNIT, Plane


class EqualMix:
    """Equal multipliers of the classes of one risk.

    `steep` is |m|: errors of slopes bound `|e| + |m| |e_b|`, e_b being their part at the intercepts. `spread` is the
    mean square of centred rows: with a last column of this size one rate would suit all weights.

    Examples
    --------
    >>> import pybundle as pb
    >>> X, y = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]), [0, 0, 1]
    >>> risk = pb.risks.Structured(pb.models.Multiclass(2, 2), X, y, loss="logistic")
    >>> (offset,), (phi,) = risk.planes(np.zeros(4))[1:3]
    >>> phi[1::2], EqualMix(risk.class_sums).repaired(offset, phi, 0.0)[1][1::2]
    (array([-0.5,  0.5]), array([0., 0.]))
    """

    def __init__(self, sums):
        self.sums, self.total, self.steep = sums, sums.rows.sum(axis=0), float(np.linalg.norm(sums.means))
        self.spread = float(np.clip(sums.variances[:-1].sum(), 1e-8, 1e8))

    @classmethod
    def of(cls, risk, penalty):
        """Return the mix if the free weights of a penalty are intercepts of classes, the first one being 0; else None.

        `penalty` has arrays l2, l1, centre, lower and upper.
        """
        sums, low, high = risk.class_sums, np.isinf(penalty.lower), np.isinf(penalty.upper)
        if sums is None:
            return None
        is_bare, last = (penalty.l2 == 0.0) & (penalty.l1 == 0.0), len(sums.means) - 1
        others = np.delete((is_bare & (low | high)).reshape(sums.rows.shape), last, axis=1)
        are_free = (is_bare & low & high)[last::last + 1][1:].all()
        is_known = penalty.lower[last] == penalty.upper[last] == 0.0 and not np.any(penalty.centre)
        return cls(sums) if are_free and is_known and not others.any() else None

    def curvatures(self, moduli):
        """Return the second derivatives of F at equal multipliers 1/K, shape (K d,), in the centred coordinates."""
        K = len(self.sums.rows)
        return np.tile(float(self.total[-1]) * (K - 1.0) / K**2 * self.sums.variances, K) + moduli

    def repaired(self, offset, phi, error, last_error=None):
        """Return the repaired plane and the bound on its errors; offset, phi and error are those of a plane of R.

        `last_error` bounds the errors of its slopes at the intercepts, at most `error / max(1, |m|)`.
        """
        P, counts, n = phi.reshape(self.sums.rows.shape), self.sums.counts, float(self.total[-1])
        r, wrong = P[:, -1], self.sums.error / max(1.0, self.steep)
        last_error = error / max(1.0, self.steep) if last_error is None else last_error
        least = np.maximum(counts - wrong, 0.0)
        t = (1.0 - 8.0 * UNIT) * float(np.min(least / np.maximum(least + np.maximum(r + last_error, 0.0), 1e-300)))
        v = np.maximum((1.0 - t) * counts - t * r, 0.0)         # n (1 - t) q
        mixed = t * P + np.outer(v, self.total / n) - (1.0 - t) * self.sums.rows
        mixed[:, -1] = 0.0
        size = float(np.linalg.norm(P)) + self.steep * float(np.linalg.norm(r))
        error = 1.01 * (t * error + 5.0 * (1.0 - t) * self.sums.error + 4.0 * UNIT * t * size)
        # of each term `v log(n (1 - t) / v)` the least for all v that are possible
        spread = t * last_error + (1.0 - t) * wrong + 4.0 * UNIT * ((1.0 - t) * counts + t * np.abs(r))
        whole = max((1.0 - t) * (n - wrong), 0.0) * (1.0 - 4.0 * UNIT)
        terms = np.maximum(v - spread, 0.0) * np.log(np.maximum(whole / (v + spread), 1.0))
        offset, gain = t * offset, float(terms.sum()) - 4.0 * UNIT * len(v) * whole
        return offset + gain - 4.0 * UNIT * (abs(offset) + abs(gain)), mixed.ravel(), error

    def freed(self, plane):
        """Return the repaired `Plane` of one of R."""
        last_error = min(plane.slope_error, plane.last_error)
        error = plane.slope_error + self.steep * last_error
        offset, phi, error = self.repaired(plane.offset, plane.phi, error, last_error)
        return Plane(offset, phi, plane.offset_error, error)
