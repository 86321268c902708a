"""Classes of the labels: how often each occurs, and whether they look like classes at all."""

from __future__ import annotations

import numpy as np

from ..core import measurements

MOST = 8
"""Classes that a summary names."""


def class_counts(data):
    """How often every class occurs, a dictionary, the most frequent first; None for heads of words."""
    if data.shape == "sentence":
        return None
    labels, counts = np.unique(np.concatenate([np.asarray(y) for y in data.y]) if data.shape == "sequence" else data.y,
                               return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return dict(zip(labels[order].tolist(), counts[order].tolist(), strict=True))


def describe_counts(counts):
    """One line of text: `3: b 30, a 20, c 10`."""
    named = [f"{label!s:.20} {count}" for label, count in list(counts.items())[:MOST]]
    return f"{len(counts)}: {', '.join(named)}{', ...' if len(counts) > MOST else ''}"


def warn_of_measurements(y):
    """As the estimators do, also of numbers in texts, which the labels of a table are."""
    y = np.asarray(y)
    if y.dtype.kind == "U":
        try:
            y = y.astype(np.float64)
        except ValueError:
            return
    measurements.warn_of_measurements(y)
