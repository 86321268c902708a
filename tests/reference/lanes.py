"""Slow, obvious twin of exact steps in two lanes: dual values in full where the solver sums gains of steps."""

import numpy as np


def dual(beta, W, L, s):
    """D up to a constant of the centre: losses less s/2 |W|^2."""
    return float(np.sum(beta * L)) - 0.5 * s * float(np.sum(W * W))


def lane_steps(steps, beta, W, L, s, order, length, most, low, high):
    """Multipliers, point and length S after rounds of two lanes; `steps(beta, W, rows)` takes those of one lane.

    Every four rounds S is halved, where both lanes keep less than `low` of their gains together, or doubled; below 8
    what is left is one lane's, and the next eight passes.
    """
    at, rounds, gain, gains = 0, 0, 0.0, 0.0
    while at < len(order):
        size = min(length, (len(order) - at + 1) // 2) if length > 0 else len(order) - at
        rows = order[at:at + size], order[at + size:at + 2 * size]
        at += len(rows[0]) + len(rows[1])
        before = dual(beta, W, L, s)
        first_beta, first_W, _ = steps(beta, W, rows[0])
        second_beta, second_W, _ = steps(beta, W, rows[1])
        both_beta, both_W = first_beta + (second_beta - beta), first_W + (second_W - W)
        values = [dual(b, w, L, s) - before for b, w in (
            (first_beta, first_W), (second_beta, second_W), (both_beta, both_W))]
        if values[2] < values[0]:
            both_beta, both_W = first_beta, first_W
        beta, W = both_beta, both_W
        if len(rows[1]) == 0:
            continue
        gain, gains, rounds = gain + values[2], gains + values[0] + values[1], rounds + 1
        if rounds == 4:
            if gain < low * gains:
                length = length // 2 if length >= 16 else -8
            elif gain > high * gains:
                length = min(2 * length, most)
            gain, gains, rounds = 0.0, 0.0, 0
    return beta, W, length
