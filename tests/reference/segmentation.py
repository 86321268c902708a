"""All exact covers of a few columns, one after another."""

import numpy as np


def covers(n_columns, widths):
    """Tuples of labels whose widths sum to n_columns."""
    if n_columns == 0:
        yield ()
    for label, width in enumerate(widths):
        if width <= n_columns:
            for rest in covers(n_columns - width, widths):
                yield (label, *rest)


def score(cover, scores, widths, transition=None):
    """Sum over the segments from left to right; scores[a, k]."""
    total, column, before = 0.0, 0, None
    for label in cover:
        if before is not None and transition is not None:
            total += transition[before, label]
        total += scores[label, column]
        column += widths[label]
        before = label
    return total


def best_cover(scores, widths, transition=None):
    """The best cover and its score, (None, -inf) without any; ties as documented: compared from the right end."""
    best, value = None, -np.inf
    for cover in covers(scores.shape[1], widths):
        total = score(cover, scores, widths, transition)
        if total > value or (total == value > -np.inf and cover[::-1] < best[::-1]):
            best, value = cover, total
    return best, value
