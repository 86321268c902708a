"""The minimum of a penalty plus a plane in fractions: the formulas of `penalty.py` without rounding."""

from __future__ import annotations

import math
from fractions import Fraction

DIGITS = 200        # square roots of fractions are computed to so many binary digits after the point


def least_of_sum(penalty, phi):
    """Return `min_w Omega(w) + <phi, w>` of a sum over weights; minus infinity if it is unbounded."""
    total = Fraction(penalty.constant)
    errors = [0.0] * len(phi) if penalty.centre_error is None else penalty.centre_error.tolist()
    for x, l2, l1, centre, lower, upper, error in zip(phi, *(array.tolist() for array in (
            penalty.l2, penalty.l1, penalty.centre, penalty.lower, penalty.upper)), errors, strict=True):
        curve, rate, c = Fraction(l2), Fraction(l1), Fraction(centre)
        if l2 == 0.0:
            if (upper == math.inf and -x > rate) or (lower == -math.inf and x > rate):
                return -math.inf
            points = [Fraction(min(max(0.0, lower), upper))]
            points += [Fraction(bound) for bound in (lower, upper) if math.isfinite(bound)]
            total += min(rate * abs(p) + x * p for p in points)
            continue
        v = curve * c - x
        size = max(abs(v) - rate, 0) / curve
        p = Fraction(min(max(size if v > 0 else -size, lower), upper))        # the comparisons are exact
        total += curve / 2 * (p - c) ** 2 + rate * abs(p) + x * p
        if error:           # the exact centre, within `error` of c, may lower the minimum
            total -= curve * Fraction(1.01) * Fraction(error) * (abs(p - c) + Fraction(error))
    return total


def least_of_groups(penalty, phi):
    """Return bounds of `min_w Omega(w) + <phi, w>` from below and from above, for a sum over groups."""
    norms = norms_of_groups(penalty, phi)
    l2, rates = Fraction(float(penalty.l2.max(initial=0.0))), [Fraction(rate) for rate in penalty.rates.tolist()]
    constant = Fraction(penalty.constant)
    if l2 == 0:
        fits = all(high <= rate for (_, high), rate in zip(norms, rates, strict=True))
        return (constant if fits else -math.inf), constant
    low, high = (sum(max(norm[k] - rate, 0) ** 2 for norm, rate in zip(norms, rates, strict=True)) for k in (1, 0))
    return constant - low / (2 * l2), constant - high / (2 * l2)


def norms_of_groups(penalty, phi):
    """Return bounds from below and from above of the norm of each group of phi, after soft-thresholding by l1."""
    squares = [Fraction(0)] * len(penalty.rates)
    for x, l1, g in zip(phi, penalty.l1.tolist(), penalty.labels.tolist(), strict=True):
        squares[g] += max(abs(x) - Fraction(l1), 0) ** 2
    return [roots(square) for square in squares]


def roots(square):
    """Return bounds of the square root of a fraction from below and from above."""
    root = math.isqrt(int(square * 4**DIGITS))
    return Fraction(root, 2**DIGITS), Fraction(root + (square > 0), 2**DIGITS)
