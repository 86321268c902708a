"""The numbers of a separable penalty for steps whose point follows by thresholds and bounds, see `_shrinkage.pyx`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Limits(NamedTuple):
    """The numbers of a separable penalty, arrays (dim,): `l2 centre`, l2, l1 and bounds."""

    pull: np.ndarray
    l2: np.ndarray
    l1: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def limits_of(problem, dim):
    """Return the `Limits` of an objective; None if the point is linear in the steps, as with equal squares."""
    if problem.is_linear:
        return None
    omega, factor = problem.entries, problem.factor
    found = factor * omega.l2 * omega.centre, factor * omega.l2, factor * omega.l1, omega.lower, omega.upper
    return Limits(*(np.broadcast_to(values, (dim,)) for values in found))
