"""Classes of the labels: how often each occurs, and whether they look like classes at all."""

from __future__ import annotations

import warnings

import numpy as np

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
    """Warns where numeric labels are fractions, or all differ: measurements, not classes."""
    y = np.asarray(y)
    if y.dtype.kind == "U":
        try:
            y = y.astype(np.float64)
        except ValueError:
            return
    if y.dtype.kind not in "iuf" or len(y) < 3:
        return
    if y.dtype.kind == "f" and (y != np.rint(y)).any():
        what = f"are fractions, like {y[y != np.rint(y)][0]:g}"
    elif len(np.unique(y)) == len(y):
        what = "all differ"
    else:
        return
    warnings.warn(f"the labels {what}, and every value is a class of its own; is another column that of the labels? "
                  "--label COLUMN names it", UserWarning, stacklevel=2)
