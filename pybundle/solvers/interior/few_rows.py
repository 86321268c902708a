"""The interior point method on few of many rows, with a bound that holds for all of them [Portnoy & Koenker 1997].

The solution of a sample tells on which side of their corners most losses are. Only rows near a corner stay variable;
all other multipliers are fixed at an end of their interval. Multipliers of both together prove a bound, whatever sides
were guessed. If the gap is not closed, twice as many rows become variable, and all of them once these would be half.
"""

from __future__ import annotations

import numpy as np

FIRST = 1e-4        # gap at which a sample counts as solved, as a fraction of its loss
FEW = 4.0           # a sample is solved first if it has less than 1 / FEW of the rows
SIZE = 2.0          # number of rows in units of n^(2/3) d^(1/3): about as many as the sample leaves undecided
MOST = 40           # most steps on few rows


def size_of_sample(n, d):
    """Return the size of the first sample of n rows, 0 if it is not small."""
    size = int(SIZE * n ** (2.0 / 3.0) * d ** (1.0 / 3.0)) + 1
    return size if size < n / FEW else 0


def of_sample(barrier, size):
    """Solve for a sample of rows; return its weights, and the number of steps on all rows that cost as much."""
    index, share = np.sort(np.random.default_rng(0).choice(barrier.m, size, replace=False)), size / barrier.m
    point, n_steps = _solved(barrier.part(index, share), None, None)
    return point.w, share * n_steps


def near_corners(barrier, w, size, target):
    """Solve for the `size` rows nearest to a corner at w; return weights, multipliers of all rows, number of steps."""
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
    """Return a point whose gap is at most `target`, by default a fraction of its loss, and the number of steps."""
    point, n_steps = barrier.first(w), 0
    while n_steps < MOST:
        most = FIRST * barrier.loss(barrier.known(point)[0]) if target is None else target
        if barrier.gap(point) <= most:
            break
        try:
            point = barrier.step(point)
        except np.linalg.LinAlgError:       # rounding allows no further step
            break
        n_steps += 1
    return point, n_steps
