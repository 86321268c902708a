"""Planes of classes with free intercepts, repaired: their slopes at the intercepts become 0, and they prove a bound.

A plane `offset + <phi, w> <= R(w)` of multipliers p_i has the slope `r_k = sum_i c_i p_ik - n_k` at the intercept of
class k, n_k being the weight of the class. Nothing holds intercepts back, so a bound needs r = 0. The multipliers q,
equal for all examples, give the plane `n H(q) + sum_k <q_k total - total_k, w_k>`, total_k being the sum of the rows of
class k; for hinge losses `sum_k q_k l_k`, the losses of K constant labellings, stands in place of n H(q). Mixed with it
the slope at the intercepts is 0:

    t plane + (1 - t) plane of q,   t <= min_k n_k / (n_k + max(r_k, 0)),   n (1 - t) q_k = (1 - t) n_k - t r_k >= 0

At a minimum r = 0 and t = 1, so the bound stays sharp. As r and n_k are known up to rounding, t is so much smaller that
such q exist whatever they are; the slopes are then 0 without error, and the error of q is one of the other slopes.
O(K d), no pass.

No t < 1 makes up for r_k > 0 at a class k without weight, whose intercept falls without end. There the examples give
their multipliers p_ik to their own labels instead. How much of r_k each gives is unknown, so that this costs an error
of `r_k |x_i|` in slopes, r_k at other intercepts, and in the offset r_k times the largest cost, or for a log-loss what
entropies lose at most, `r_k (1 + log(n / r_k))`, as they are concave. At a minimum r_k tends to 0.
"""

from __future__ import annotations

import numpy as np

from .plane import UNIT, Plane


class EqualMix:
    """Equal multipliers of the classes of one risk.

    `steep` is |m|: errors of slopes bound `|e| + |m| |e_b|`, e_b being their part at the intercepts.

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

    @classmethod
    def of(cls, risk, penalty):
        """Return the mix if the free weights of a penalty are intercepts of classes, the first one being 0; else None.

        `penalty` has arrays l2, l1, centre, lower and upper.
        """
        low, high, is_bare = np.isinf(penalty.lower), np.isinf(penalty.upper), (penalty.l2 == 0.0) & (penalty.l1 == 0.0)
        sums = risk.class_sums if is_bare.any() else None
        if sums is None:
            return None
        last = len(sums.means) - 1
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
        sums, P, n = self.sums, phi.reshape(self.sums.rows.shape), float(self.total[-1])
        counts, wrong = sums.counts, sums.error / max(1.0, self.steep)
        last_error = error / max(1.0, self.steep) if last_error is None else last_error
        # r is a sum of numbers >= 0 for a class without weight, and 0 only if no example has a multiplier there
        away = (counts == 0.0) & (P[:, -1] != 0.0)
        if away.any():
            masses = np.minimum(1.01 * (np.abs(P[away, -1]) + last_error), n)
            P, mass = np.where(away[:, None], 0.0, P), 1.01 * float(masses.sum())
            error, last_error = error + mass * sums.radius, last_error + mass
            lost = masses * (sums.most if sums.losses is not None else 1.0 + np.log(n) - np.log(masses))
            offset -= 1.01 * float(lost.sum()) + 4.0 * UNIT * abs(offset)
        r = P[:, -1]
        least = np.maximum(counts - wrong, 0.0)
        shares = least / np.maximum(least + np.maximum(r + last_error, 0.0), 1e-300)
        t = (1.0 - 8.0 * UNIT) * float(np.min(np.where((counts == 0.0) & (r == 0.0), 1.0, shares)))
        v = np.maximum((1.0 - t) * counts - t * r, 0.0)         # n (1 - t) q
        mixed = t * P + np.outer(v, self.total / n) - (1.0 - t) * sums.rows
        mixed[:, -1] = 0.0
        size = float(np.linalg.norm(P)) + self.steep * float(np.linalg.norm(r))
        error = 1.01 * (t * error + 5.0 * (1.0 - t) * sums.error + 4.0 * UNIT * t * size)
        # of each term `v log(n (1 - t) / v)`, or `v l / n`, the least for all v that are possible
        spread = t * last_error + (1.0 - t) * wrong + 4.0 * UNIT * ((1.0 - t) * counts + t * np.abs(r))
        whole, losses = max((1.0 - t) * (n - wrong), 0.0) * (1.0 - 4.0 * UNIT), sums.losses
        if losses is None:
            factors = np.log(np.maximum(whole / (v + spread), 1.0))
        else:       # counts err by `wrong` in all
            factors = losses / n - 2.0 * (wrong / n + 4.0 * UNIT * len(v)) * sums.most
        terms = np.maximum(v - spread, 0.0) * np.maximum(factors, 0.0)
        offset, gain = t * offset, float(terms.sum())
        gain -= 4.0 * UNIT * len(v) * (whole if losses is None else gain)
        return offset + gain - 4.0 * UNIT * (abs(offset) + abs(gain)), mixed.ravel(), error

    def freed(self, plane):
        """Return the repaired `Plane` of one of R, of floats."""
        if plane.phi.dtype == object:
            phi, offset = plane.phi.astype(np.float64), float(plane.offset)
            plane = Plane(offset, phi, 2.0 * UNIT * abs(offset), 2.0 * UNIT * float(np.linalg.norm(phi)),
                          2.0 * UNIT * float(np.linalg.norm(phi.reshape(self.sums.rows.shape)[:, -1])))
        last_error = plane.slope_error if plane.last_error is None else min(plane.slope_error, plane.last_error)
        error = plane.slope_error + self.steep * last_error
        offset, phi, error = self.repaired(plane.offset, plane.phi, error, last_error)
        return Plane(offset, phi, plane.offset_error, error)
