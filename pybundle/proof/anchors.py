"""Planes of a free intercept, repaired: their slope at the intercept becomes 0, and they prove a bound without limits.

Losses of one score have two planes whose slopes at the intercept have opposite signs: of the steepest multipliers, at
most 1 in size, of the rows of either label if losses rise on one side only, else of all rows. These are the anchors
`offset_a + <phi_a, w>`. With the slope r of another plane of R at the intercept, a the anchor of the other sign, and
r_a its slope there, as R >= 0,

    R >= t (plane + |r| / |r_a| anchor),    t (1 + |r| / |r_a|) <= 1.

At a minimum r = 0 and t = 1, so the bound stays sharp, however far out the intercept may be. An error e of r takes up
to e / |r_a| of either anchor. It is an error of offset and of the other slopes, and t allows for it. O(d), no pass.
"""

from __future__ import annotations

import numpy as np

from .multipliers import curve_of, plane
from .plane import UNIT, Plane


class Anchors:
    """The two anchors of one risk, `planes`, that with the positive slope first, in the coordinates of `means`.

    Examples
    --------
    >>> import pybundle as pb
    >>> from pybundle.prox import Separable
    >>> risk = pb.risks.Logistic(np.array([[0.0], [1.0], [3.0]]), [1, -1, -1], fit_intercept=True)
    >>> [anchor.phi for anchor in Anchors.of(risk, Separable(l1=[1.0, 0.0]).canonical(2), None).planes]
    [array([4., 2.]), array([ 0., -1.])]
    """

    def __init__(self, planes, means):
        self.planes, self.means = planes, means
        self.far = 1.0 if means is None else max(1.0, 0.5 * float(np.linalg.norm(means)))
        # least slopes at the intercept, in size
        self.rises = np.array([abs(float(plane.phi[-1])) - float(plane.errors[-1]) for plane in planes])

    @classmethod
    def of(cls, risk, penalty, means):
        """Return the anchors of a risk with a `curve` if its intercept, the last weight, alone is free; else None.

        `penalty` has arrays l2, l1, lower and upper.
        """
        low, high, *_ = curve_of(risk) or (0.0, 0.0)
        is_steep, examples = low < 0.0 < high, getattr(risk, "examples", None)
        is_bare = (penalty.l2 == 0.0) & (penalty.l1 == 0.0) & (np.isinf(penalty.lower) | np.isinf(penalty.upper))
        if not (examples is not None and (examples.bias or 0.0) > 0.0 and low < 0.0 <= high and (
                is_steep or not risk.is_regression) and np.flatnonzero(is_bare).tolist() == [risk.dim - 1]):
            return None
        c, steep = risk.sample_weight, max(low, -1.0)
        betas = (min(high, 1.0) * c, steep * c) if is_steep else [steep * c * (risk.labels == y) for y in (-1, 1)]
        with np.errstate(over="ignore", invalid="ignore"):
            found = cls([plane(risk, beta).moved(means) for beta in betas], means)
        numbers = np.concatenate([[one.offset, one.offset_error, *one.phi, *one.errors] for one in found.planes])
        is_known = all(rise > 1e3 * one.errors[-1] for rise, one in zip(found.rises, found.planes, strict=True))
        return found if is_known and np.isfinite(numbers).all() else None

    def repaired(self, offset, phi, error):
        """Return offset, slope and error of a repaired plane; `error` bounds the norm of its errors, or its entries."""
        k, last = int(phi[-1] > 0.0), float(error[-1]) if np.ndim(error) else error / self.far
        one = self.planes[k]
        with np.errstate(over="ignore", invalid="ignore"):
            r, unknown = abs(float(phi[-1])), last / self.rises         # of the shares of the anchors, less t
            t = (1.0 - 8.0 * UNIT) / (1.0 + r / self.rises[k] + unknown.sum())
            share = r / abs(one.phi[-1])
            unknown[k] += share * one.errors[-1] / self.rises[k]
            spread = share * one.errors + 8.0 * UNIT * (np.abs(phi) + share * np.abs(one.phi))
            lost = share * one.offset_error + 8.0 * UNIT * (abs(offset) + share * abs(one.offset))
            for part, anchor in zip(unknown, self.planes, strict=True):
                spread = spread + part * (np.abs(anchor.phi) + anchor.errors)
                lost += part * (abs(anchor.offset) + anchor.offset_error)
            mixed = t * (phi + share * one.phi)
            mixed[-1], error = 0.0, 1.01 * t * (error + (spread if np.ndim(error) else float(np.linalg.norm(spread))))
            offset = t * (offset + share * one.offset - 1.01 * lost)
        return offset if offset > -np.inf else -np.inf, mixed, error

    def freed(self, plane):
        """Return the repaired `Plane` of one of R."""
        plane = plane.moved(self.means)
        phi, error = plane.phi.astype(np.float64), plane.errors
        error = error + 2.0 * UNIT * (np.abs(phi) if np.ndim(error) else float(np.linalg.norm(phi)) + self.far * abs(
            phi[-1]))
        offset, phi, error = self.repaired(float(plane.offset), phi, error)
        offset_error = plane.offset_error + 2.0 * UNIT * (abs(offset) + abs(float(plane.offset)))
        return Plane(offset, phi, offset_error, float(np.linalg.norm(error)),
                     entry_errors=error if np.ndim(error) else None)
