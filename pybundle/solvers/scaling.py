"""Tells whether the columns of flat data explain many passes: their sizes differ, or their means are far from 0."""

from __future__ import annotations

import numpy as np


def scaling(risk, uneven=100.0, large_entries=1000.0, shifted=10.0):
    """Return a sentence with the remedy; "" if the columns are well scaled or the risk has no columns.

    The size of a column is the root mean square of its entries other than 0. Columns with few entries, such as rare
    words and the borders of images, are thus not small; they cost no passes. The size of a dense column without zeros
    is its standard deviation. Means are examined for dense data only, because to centre sparse data makes them dense.

    The sentence is returned if the largest size is more than `uneven` times the tenth percentile of sizes, if the norm
    of the means is more than `shifted` times the spread, or if an entry exceeds `large_entries`.
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
    """Return a bound on the entries of X; entries divided by this number have finite squares."""
    return float(examples.norms.max()) / examples.scale or 1.0


def _moments(examples, most_rows=2000, few=100, numbers=20_000_000, at_once=1 << 12):
    """Return moments of a sample of the rows, which is smaller if rows are long; entries are divided by `_largest`.

    Three arrays have an entry for each column: the number of entries other than 0, the sum of their squares, and for a
    dense column without zeros the sum of squares about its mean, else again the sum of squares. Two numbers follow: the
    norm of the means and the spread, both 0 for sparse data. Few rows are read at once, because runs may have a memory
    limit.
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
        some -= first                       # without this subtraction, variances of columns far from 0 would cancel
        sums += some.sum(axis=0)
        shifted += np.einsum("ij,ij->j", some, some)
    sums /= len(rows)
    variances = np.maximum(shifted / len(rows) - sums * sums, 0.0)
    about_means = np.where(counts == len(rows), len(rows) * variances, squares)
    return counts, squares, about_means, float(np.linalg.norm(sums + first)), float(np.sqrt(variances.sum()))
