"""Proximity operators of nonnegative numbers, absolute values or norms of groups, which `penalties` checks."""

import numpy as np

from ._power import mixed_norm_root, power_roots
from ._threshold import subtract_threshold


def soft_threshold(b, t):
    """Return `max(b - t, 0)`."""
    return np.maximum(b - t, 0.0)


def shrink_squared_l1(b, t):
    """Return the prox of t/2 (sum b)^2, t > 0."""
    if 1.0 / t == np.inf:       # t is subnormal: the threshold is negligible
        return b.copy()
    out = np.empty(len(b))
    subtract_threshold(b, 0.0, 1.0 / t, out)
    return out


def shrink_power(b, t, q):
    """Return the prox of t sum b^q."""
    out = np.empty(len(b))
    power_roots(b, np.atleast_1d(t * q), q, out)
    return out


def shrink_squared_mixed(b, t, q):
    """Return the prox of t/2 (sum b^q)^(2/q)."""
    norm = mixed_norm(b, q)
    if norm == 0.0:
        return np.zeros(len(b))
    out = np.empty(len(b))
    # the tolerance for B is rounding; for q near 1 it is larger, because powers of beta are less accurate
    mixed_norm_root(quotient(b, norm), t, q, 4.5e-16 * max(1.0, 1.0 / (q - 1.0)), out)
    return norm * out


def mixed_norm(b, q):
    """Compute `(sum b^q)^(1/q)` in units of the largest number, so that no power overflows."""
    largest = np.max(b, initial=0.0)
    return largest * np.sum(quotient(b, largest) ** q) ** (1.0 / q)


def quotient(a, b):
    """Return `a / b`, and 0 where a is 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(a == 0.0, 0.0, np.divide(a, b))
