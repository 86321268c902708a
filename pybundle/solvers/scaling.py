"""Says whether the columns of flat data explain many passes: their sizes differ, or their means are far from 0."""

from __future__ import annotations

import numpy as np

ROWS = 2000         # at most are looked at
UNEVEN = 100.0      # ratio of the largest to a small column (tenth percentile), of entries that are not 0
LARGE = 1000.0      # size of entries; bytes (0 to 255) are no reason
SHIFTED = 10.0      # ratio of the means of the columns to their spread


def scaling(risk):
    """A sentence with the remedy, "" where the columns are in order or the risk has none.

    The size of a column is the root mean square of its entries other than 0, so that rare words and the borders of
    images, which cost no passes, are no small columns. Spread counts for dense data only: sparse data stay so.
    """
    examples = getattr(risk, "examples", None)
    if examples is None:
        return ""
    scaler = "MaxAbsScaler" if examples.is_sparse else "StandardScaler"
    remedy = f"scale them ({scaler}, pybundle train --scale)"
    X = examples.X[::-(-examples.n_examples // ROWS)]
    largest = float(np.abs(X.data if examples.is_sparse else X).max(initial=0)) or 1.0
    X = X.astype(np.float64) / largest                      # squares stay finite
    square = X.multiply(X) if examples.is_sparse else X * X
    counts = (X != 0).sum(axis=0)
    used = np.flatnonzero(counts)
    sizes = np.sqrt(np.asarray(square.sum(axis=0)).ravel()[used] / np.asarray(counts).ravel()[used])
    if len(sizes) == 0:
        return ""
    small, large = np.quantile(sizes, 0.1), float(sizes.max())
    if not examples.is_sparse:
        means, spread = np.linalg.norm(X.mean(axis=0)), np.linalg.norm(X.std(axis=0))
        if means > SHIFTED * spread > 0.0:
            return f"the columns of X have means {means / spread:.2g} times their spread: {remedy}"
    if large > UNEVEN * small:
        return f"the columns of X differ in size by {large / small:.2g}: {remedy}"
    if large * largest * examples.scale > LARGE:
        return f"the columns of X have entries of {large * largest * examples.scale:.2g}: {remedy}"
    return ""
