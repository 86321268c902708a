"""The interior point method on a few of many rows, with a bound that holds for all rows [Portnoy & Koenker 1997].

First the problem of a random sample of rows is solved. Its solution predicts, for most rows, on which side of a corner
of the loss the residual lies. Only the rows closest to a corner keep variable multipliers. Each other multiplier is
fixed at the end of its interval that belongs to the predicted side. The multipliers of all rows together prove a bound,
even where a prediction is wrong. While the gap is too large, the number of variable rows doubles. When this number
would exceed half of the rows, all rows become variable.
"""

from __future__ import annotations

import numpy as np

FIRST = 1e-4        # gap at which a sample counts as solved, as a fraction of its loss
FEW = 4.0           # a sample is solved first if it has less than 1 / FEW of the rows
SIZE = 2.0          # size of the sample in units of n^(2/3) d^(1/3); predictions are uncertain for about as many rows
MOST = 40           # maximum number of Newton steps in one solve


def size_of_sample(n, d):
    """Return the size of the sample of n rows with d columns, or 0 if a sample would not be much smaller than n."""
    size = int(SIZE * n ** (2.0 / 3.0) * d ** (1.0 / 3.0)) + 1
    return size if size < n / FEW else 0


def of_sample(barrier, size):
    """Solve the problem of a random sample; return the weights, and the cost in steps on all rows."""
    index, share = np.sort(np.random.default_rng(0).choice(barrier.m, size, replace=False)), size / barrier.m
    point, n_steps = _solved(barrier.part(index, share), None, None)
    return point.w, share * n_steps


def near_corners(barrier, w, size, target):
    """Solve with variable multipliers for the `size` rows that are nearest to a corner at w.

    Returns the weights, the multipliers of all rows, and the cost in steps on all rows.
    """
    rows = barrier.rows
    r = rows.y - rows.product(w)
    near = np.sort(np.argpartition(np.abs(np.abs(r) - rows.flat), size - 1)[:size])
    a = np.where(r > rows.flat, rows.hi, np.where(r < -rows.flat, rows.lo, 0.0))
    a[near] = 0.0
    small = barrier.part(near, 1.0, rows.transposed(a))
    point, n_steps = _solved(small, w, target)
    a[near] = small.multipliers(point.a)
    return point.w, a, n_steps * size / barrier.m


def _solved(barrier, w, target):
    """Step until the gap is at most `target`, by default FIRST times the loss; return the point and number of steps."""
    point, n_steps = barrier.first(w), 0
    while n_steps < MOST:
        most = FIRST * barrier.loss(barrier.known(point)[0]) if target is None else target
        if barrier.gap(point) <= most:
            break
        try:
            point = barrier.step(point)
        except np.linalg.LinAlgError:       # rounding errors prevent a further step
            break
        n_steps += 1
    return point, n_steps
