"""Says whether the columns of flat data explain many passes: their sizes differ, or their means are far from 0."""

from __future__ import annotations

import numpy as np


def scaling(risk, uneven=100.0, large_entries=1000.0, shifted=10.0):
    """Return a sentence with the remedy; "" if the columns are well scaled or the risk has none.

    The size of a column is the root mean square of its entries other than 0, so that rare words and the borders of
    images, which cost no passes, are no small columns; of a dense column without zeros it is the standard deviation.
    Means count for dense data only: centred sparse data are dense.
    `uneven` limits the ratio of the largest size to the tenth percentile, `shifted` that of means to spread;
    `large_entries` admits bytes.
    """
    examples = _rows_of(risk)
    if examples is None:
        return ""
    counts, squares, about_means, means, spread = _moments(examples)
    used = about_means > 0.0
    if not used.any():
        return ""
    sizes, largest = np.sqrt(about_means[used] / counts[used]), np.sqrt(np.max(squares[used] / counts[used]))
    small, large = float(np.quantile(sizes, 0.1)), float(sizes.max())
    if means > shifted * spread > 0.0:
        found = f"have means {means / spread:.2g} times their spread"
    elif large > uneven * small:
        factors = np.abs(np.log(np.maximum(sizes, 1e-300) / np.median(sizes)))
        order = [k for k in np.argsort(-factors, kind="stable")[:3] if factors[k] > np.log(uneven) / 2.0]
        named = columns_in_words(risk, np.flatnonzero(used)[order])
        found = f"differ in size by {large / small:.2g} ({named})"
    elif largest * _largest(examples) * examples.scale > large_entries:
        found = f"have entries of {largest * _largest(examples) * examples.scale:.2g}"
    else:
        return ""
    scaler = "MaxAbsScaler" if examples.is_sparse else "StandardScaler"
    return f"the columns of X {found}: scale them ({scaler}, pybundle train --scale)"


def columns_in_words(risk, weights, most=3):
    """Return the names of the columns of some weights, or their numbers from 0 on, at most three."""
    columns, names = sorted({int(k) % _rows_of(risk).width for k in weights}), risk.column_names
    words = [str(k) if names is None or k >= len(names) else str(names[k]) for k in columns[:most]]
    return f"column{'s' * (len(columns) > 1)} {', '.join(words)}" + (" ..." if len(columns) > most else "")


def _rows_of(risk):
    return risk.user_rows if risk.linear_risk is None else risk.linear_risk.examples


def _largest(examples):
    """Return a bound on the entries of X; divided by it, they have finite squares."""
    return float(examples.norms.max()) / examples.scale or 1.0


def _moments(examples, most_rows=2000, few=100, numbers=20_000_000, at_once=1 << 12):
    """Return by columns the numbers of entries other than 0, the sums of their squares, and those sums about the means
    of dense columns without zeros; then the norms of means and spread, which are 0 for sparse data.

    The numbers come from a sample of the rows, which is smaller for long rows, and are in units of `_largest`. Few rows
    are read at once, because runs may have a memory limit.
    """
    X, d, unit = examples.X, examples.n_features, _largest(examples)
    n_rows = min(most_rows, max(few, numbers // d))
    rows = np.arange(0, examples.n_examples, -(-examples.n_examples // n_rows))
    counts, squares, sums, shifted = (np.zeros(d) for _ in range(4))
    if examples.is_sparse:
        size = max(few, d * X.shape[0] // max(X.nnz, 1))        # about d entries
        for start in range(0, len(rows), size):
            some = X[rows[start:start + size]]
            data = some.data / unit
            counts += np.bincount(some.indices[data != 0.0], minlength=d)
            squares += np.bincount(some.indices, data * data, d)
        return counts, squares, squares, 0.0, 0.0
    first = np.divide(X[0], unit, dtype=np.float64)
    for start in range(0, len(rows), max(1, at_once // d)):
        some = np.divide(X[rows[start:start + max(1, at_once // d)]], unit, dtype=np.float64)
        counts += np.count_nonzero(some, axis=0)
        squares += np.einsum("ij,ij->j", some, some)
        some -= first                       # variances of columns far from 0 would cancel
        sums += some.sum(axis=0)
        shifted += np.einsum("ij,ij->j", some, some)
    sums /= len(rows)
    variances = np.maximum(shifted / len(rows) - sums * sums, 0.0)
    about_means = np.where(counts == len(rows), len(rows) * variances, squares)
    return counts, squares, about_means, float(np.linalg.norm(sums + first)), float(np.sqrt(variances.sum()))
