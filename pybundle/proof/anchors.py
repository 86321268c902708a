"""Anchors are planes below R with known slopes at free intercepts; a mixture with them has slope 0 there.

A free intercept is unbounded, so that a plane of R proves no bound unless its slope r at the intercept is 0. Its
mixture with anchors has slope 0 there; the bound R >= 0 gets the remaining share:

    R >= t plane + sum_k s_k anchor_k,    s >= 0,    t + sum_k s_k <= 1.

At a minimum r = 0 and t = 1, so the bound stays sharp, however large the intercepts are. It needs no limits of
intercepts, no linear program and no pass over the data. Rounding is counted: t and the shares s_k are chosen for the
worst slopes within the errors, so that the slopes at the intercepts are exactly 0. Errors of the shares are counted as
errors of the offset and of the other slopes.

*Labels* that have an intercept each, of classes or of the tokens of chains. Anchor k belongs to the labelling in which
everything has label k. Its offset is at least 0. Its slope at the intercept of label j is `n [j = k] - n_j`, where n_j
is the weight of the examples or tokens of label j, and n the weight of all. Slopes of R at all intercepts sum to 0,
because R does not change if all intercepts move together. (With constraints on intercepts, sums of planes and
constraints have other slopes, and there are no anchors.) Hence `n s_k = (1 - t) n_k - t r_k` with
t = min_k n_k / (n_k + max(r_k, 0)). With a log-loss of classes, these shares are multipliers that are equal for all
examples, and add their entropy. The cost is O(dim).

If a class k has no weight, its intercept falls without limit, and no t repairs a slope r_k > 0. Then the multipliers of
label k are moved to the true labels of the examples. The amounts for single examples are unknown. So the move costs an
error of `r_k |x_i|` in slopes, of r_k at other intercepts, and in the offset of r_k times the largest cost, or of
`r_k (1 + log(n / r_k))` for entropies, which are concave. At a minimum r_k tends to 0.

*One score*: the anchors are two planes with slopes of opposite sign at the intercept. Their multipliers are the largest
that losses allow, but at most 1 in size. If losses grow on one side only, those of the rows of one label are taken,
else those of all rows. The anchor a whose slope r_a has the opposite sign of r gets the share `t |r| / |r_a|`, with
t = 1 / (1 + |r| / |r_a|). The cost is O(d).
"""

from __future__ import annotations

import numpy as np

from .multipliers import curve_of, plane
from .plane import UNIT, ProvenPlane


def anchors_of(risk, penalty, means=None, rows=None):
    """Return the anchors of a risk if only intercepts are free of penalty and constraints, else None.

    `penalty` has arrays l2, l1, centre, lower and upper; `means` are the means of the columns, see `Coordinates`.
    """
    is_bare = (penalty.l2 == 0.0) & (penalty.l1 == 0.0) & (np.isinf(penalty.lower) | np.isinf(penalty.upper))
    if not is_bare.any() or np.isfinite([penalty.lower[is_bare], penalty.upper[is_bare]]).any():
        return None
    return ScoreAnchors.of(risk, is_bare, means) or LabelAnchors.of(risk, penalty, is_bare, rows)


class LabelAnchors:
    """The anchors of labels: anchor k belongs to the labelling in which everything has label k.

    Attributes
    ----------
    classes : LabelSums or None
        The sums over labels if the intercepts of classes are free and the first is 0. Then the anchors are those of
        centred rows `x - m`.
    means : ndarray, shape (d,), or None
        The means m, if rows are centred.

    Examples
    --------
    >>> import pybundle as pb
    >>> from pybundle.prox import Separable
    >>> X, y = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]), [0, 0, 1]
    >>> risk = pb.risks.Structured(pb.models.Multiclass(2, 2), X, y, loss="logistic")
    >>> (offset,), (phi,) = risk.planes(np.zeros(4))[1:3]
    >>> found = anchors_of(risk, Separable(l2=[1.0, 0.0, 1.0, 0.0]).canonical(4))
    >>> phi[1::2], found.repaired(offset, phi, 0.0)[1][1::2]
    (array([-0.5,  0.5]), array([0., 0.]))
    """

    def __init__(self, sums, classes):
        self.sums, self.classes, self.means = sums, classes, None if classes is None else sums.means
        self.rows = np.array(sums.rows)
        if classes is not None:
            self.rows[:, :-1] -= np.outer(sums.counts, sums.means[:-1])
        self.total = self.rows.sum(axis=0)
        n, self.far = float(self.total[-1]), 0.0 if classes is None else float(np.linalg.norm(sums.means))
        # largest norm of an anchor's slope without intercepts, divided by n; slopes of pairs of labels are orthogonal
        self.steep = (float(np.linalg.norm(self.total[:-1])) + float(np.linalg.norm(sums.rest[:-1], axis=1).max())) / n

    @classmethod
    def of(cls, risk, penalty, is_bare, rows):
        """Return the anchors if the only free weights are intercepts of labels, else None."""
        sums = getattr(risk, "label_sums", None)
        if sums is None:
            return None
        K, d = sums.rows.shape
        if is_bare[K * d:].any() or is_bare[:K * d].reshape(K, d)[:, :-1].any():
            return None
        # slopes of R at all intercepts sum to 0, but slopes of constraints need not
        if rows is not None and rows.A[:, d - 1:K * d:d].count_nonzero():
            return None
        is_known = is_bare[2 * d - 1:K * d:d].all() and penalty.lower[d - 1] == penalty.upper[d - 1] == 0.0
        return cls(sums, sums if is_known and rows is None and len(penalty.l2) == K * d else None)

    def curvatures(self, moduli):
        """Return the second derivatives of F at equal multipliers 1/K, shape (K d,), in coordinates of rows x - m."""
        K = len(self.rows)
        return np.tile(float(self.total[-1]) * (K - 1.0) / K**2 * self.sums.variances, K) + moduli

    def repaired(self, offset, phi, error):
        """Return offset, slope and error of the mixture of a plane with anchors, in the coordinates of `means`.

        `error` bounds the norm of the error of the slope, in these coordinates and in those without means.
        """
        (K, d), n = self.rows.shape, float(self.total[-1])
        mixed, counts, error = np.array(phi), self.sums.counts, float(np.linalg.norm(error))
        P = mixed[:K * d].reshape(K, d)
        far = max(1.0, self.far)
        wrong, last_error = self.sums.error / far, error / far
        # r_k of a label without weight is the sum of its multipliers, so r_k = 0 only if all of them are 0
        away = (counts == 0.0) & (P[:, -1] != 0.0)
        if away.any() and not self.sums.rest.size:
            masses = np.minimum(1.01 * (np.abs(P[away, -1]) + last_error), n)
            P[away], mass = 0.0, 1.01 * float(masses.sum())
            error, last_error = error + mass * self.sums.radius, last_error + mass
            lost = masses * (1.0 + np.log(n) - np.log(masses) if self.sums.most is None else self.sums.most)
            offset -= 1.01 * float(lost.sum()) + 4.0 * UNIT * abs(offset)
        r = P[:, -1].copy()
        least = np.maximum(counts - wrong, 0.0)
        with np.errstate(invalid="ignore"):
            shares = least / np.maximum(least + np.maximum(r + last_error, 0.0), 1e-300)
            t = (1.0 - 8.0 * UNIT) * float(np.min(np.where((counts == 0.0) & (r == 0.0), 1.0, shares)))
            v = np.maximum((1.0 - t) * counts - t * r, 0.0)         # v_k = n s_k
            size = float(np.linalg.norm(mixed))
            mixed *= t
            P += np.outer(v, self.total / n) - (1.0 - t) * self.rows
            P[:, -1] = 0.0
            mixed[K * d:] += v @ (self.sums.rest[:-1] / n) - (1.0 - t) * self.sums.rest[-1]
        spread = t * last_error + (1.0 - t) * wrong + 4.0 * UNIT * float(np.abs(v).sum() + (1.0 - t) * n)
        error = 1.01 * (t * error + 5.0 * (1.0 - t) * self.sums.error + spread * self.steep + 4.0 * UNIT * t * size)
        gain = 0.0
        if self.sums.most is None and not self.sums.rest.size:      # add the entropy of anchors; v errs by `spread`
            whole = max((1.0 - t) * (n - wrong), 0.0) * (1.0 - 4.0 * UNIT)
            terms = np.maximum(v - spread, 0.0) * np.log(np.maximum(whole / (v + spread), 1.0))
            gain = float(terms.sum()) - 4.0 * UNIT * K * whole
        offset = t * offset
        return offset + gain - 4.0 * UNIT * (abs(offset) + abs(gain)), mixed, error

    def freed(self, plane):
        """Return the mixture of a `ProvenPlane` below R with anchors."""
        phi, offset, d = plane.phi.astype(np.float64), float(plane.offset), self.rows.shape[1]
        last_error = plane.slope_error if plane.last_error is None else min(plane.slope_error, plane.last_error)
        P = phi[:self.rows.size].reshape(-1, d)
        rounded = 4.0 * UNIT * (float(np.linalg.norm(phi)) + self.far * float(np.linalg.norm(P[:, -1])))
        if self.means is not None:
            P -= np.outer(P[:, -1], self.means)
        error = plane.slope_error + self.far * last_error + 1.01 * rounded
        repaired, phi, error = self.repaired(offset, phi, error)
        return ProvenPlane(repaired, phi, plane.offset_error + 2.0 * UNIT * abs(offset), error)


class ScoreAnchors:
    """The two anchors of a risk of one score, in the coordinates of `means`: `planes`, the one with r_a > 0 first.

    Examples
    --------
    >>> import pybundle as pb
    >>> from pybundle.prox import Separable
    >>> risk = pb.risks.Logistic(np.array([[0.0], [1.0], [3.0]]), [1, -1, -1], fit_intercept=True)
    >>> [anchor.phi for anchor in anchors_of(risk, Separable(l1=[1.0, 0.0]).canonical(2)).planes]
    [array([4., 2.]), array([ 0., -1.])]
    """

    classes = None

    def __init__(self, planes, means):
        self.planes, self.means = planes, means
        self.far = 1.0 if means is None else max(1.0, 0.5 * float(np.linalg.norm(means)))
        # lower bounds on the absolute slopes at the intercept
        self.rises = np.array([abs(float(plane.phi[-1])) - float(plane.errors[-1]) for plane in planes])

    @classmethod
    def of(cls, risk, is_bare, means):
        """Return the anchors of a risk with a `curve` if its intercept, the last weight, alone is free; else None."""
        low, high, *_ = curve_of(risk) or (0.0, 0.0)
        is_steep = low < 0.0 < high
        if not (low < 0.0 <= high and (risk.examples.bias or 0.0) > 0.0 and (
                is_steep or not risk.is_regression) and np.flatnonzero(is_bare).tolist() == [risk.dim - 1]):
            return None
        c, steep = risk.sample_weight, max(low, -1.0)
        betas = (min(high, 1.0) * c, steep * c) if is_steep else [steep * c * (risk.labels == y) for y in (-1, 1)]
        with np.errstate(over="ignore", invalid="ignore"):
            found = cls([plane(risk, beta).moved(means) for beta in betas], means)
        numbers = [number for one in found.planes for number in (one.offset, one.offset_error, one.phi, one.errors)]
        is_known = all(rise > 1e3 * one.errors[-1] for rise, one in zip(found.rises, found.planes, strict=True))
        return found if is_known and all(np.isfinite(number).all() for number in numbers) else None

    def repaired(self, offset, phi, error):
        """Return offset, slope and error of the mixture of a plane with anchors.

        `error` bounds the norm of the error of the slope, or with shape (dim,) its entries.
        """
        k, last = int(phi[-1] > 0.0), float(error[-1]) if np.ndim(error) else error / self.far
        one = self.planes[k]
        with np.errstate(over="ignore", invalid="ignore"):
            r, unknown = abs(float(phi[-1])), last / self.rises         # errors of the shares of anchors, divided by t
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
        """Return the mixture of a `ProvenPlane` below R with anchors."""
        plane = plane.moved(self.means)
        phi, error = plane.phi.astype(np.float64), plane.errors
        error = error + 2.0 * UNIT * (np.abs(phi) if np.ndim(error) else float(np.linalg.norm(phi)) + self.far * abs(
            phi[-1]))
        offset, phi, error = self.repaired(float(plane.offset), phi, error)
        offset_error = plane.offset_error + 2.0 * UNIT * (abs(offset) + abs(float(plane.offset)))
        return ProvenPlane(offset, phi, offset_error, float(np.linalg.norm(error)),
                           entry_errors=error if np.ndim(error) else None)
