"""Weights of pairs of labels, as tables of the edge features, some of which may be symmetric or antisymmetric."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ...core.exceptions import ParameterError
from ...core.memory import require_memory
from ...core.validation import integer_array


class PairWeights:
    """Maps the weights of pairs to the tables (K, K) of all p edge features.

    Parameters
    ----------
    n_labels, n_edge_features : int
    symmetric, antisymmetric : array_like of int
        Numbers of the edge features with `t(k, l) = t(l, k)`, and of those with `t(k, l) = -t(l, k)`.

    Attributes
    ----------
    size : int
        Number of weights: K^2 for a feature, K (K + 1) / 2 if it is symmetric, K (K - 1) / 2 if antisymmetric.
    fold : csr_array, shape (K^2 p, size), or None
        Maps weights to entries of tables, number `(k K + l) p + c` for feature c; a row has at most one entry, 1 or -1.
        None stands for the unit matrix, if no table is symmetric or antisymmetric.
    """

    def __init__(self, n_labels, n_edge_features, symmetric, antisymmetric):
        K, p = n_labels, n_edge_features
        even, odd = (_columns(name, given, p) for name, given in (
            ("symmetric", symmetric), ("antisymmetric", antisymmetric)))
        both = np.intersect1d(even, odd)
        if len(both):
            raise ParameterError(f"symmetric and antisymmetric must not share features, got {both[0]} in both")
        self.size, self.fold = K * K * p, None
        if not len(even) + len(odd):
            return
        k, l = (ends.ravel() for ends in np.indices((K, K)))
        low, high = np.minimum(k, l), np.maximum(k, l)
        number, signs = np.full((K * K, p), -1), np.ones((K * K, p))
        self.size = 0
        for c in range(p):
            pairs = low * K + high if c in even or c in odd else k * K + l
            taken = low < high if c in odd else np.ones(K * K, dtype=bool)
            kept, place = np.unique(pairs[taken], return_inverse=True)
            number[taken, c] = self.size + place
            if c in odd:
                signs[k > l, c] = -1.0
            self.size += len(kept)
        rows = np.flatnonzero(number.ravel() >= 0)
        self.fold = sp.csr_array((signs.ravel()[rows], (rows, number.ravel()[rows])), shape=(K * K * p, self.size))

    def tables(self, weights):
        """Return the entries of all tables, shape (K^2 p,)."""
        return weights if self.fold is None else self.fold @ weights

    def folded(self, entries):
        """Return the transposed map, which takes slopes in entries of tables to slopes in weights."""
        return entries if self.fold is None else self.fold.T @ entries


def require_memory_of(model, n_edges=0):
    """Raise ParameterError if w, a plane and the tables of a graph of `n_edges` edges do not fit into memory."""
    K, n_weights = model.n_labels, model.n_labels * (model.n_features + model.n_labels * model.n_edge_features)
    require_memory(f"n_labels = {K}: {n_weights} weights" + (f" and tables of {n_edges} edges" if n_edges else ""),
                   16 * n_weights + 24 * n_edges * K * K, "take fewer labels")


def _columns(name, given, p):
    columns = integer_array(name, given)
    if columns.size == 0:
        return np.empty(0, np.int64)
    if columns.ndim != 1 or len(np.unique(columns)) < len(columns) or not 0 <= columns.min() <= columns.max() < p:
        raise ParameterError(f"{name} must list different edge features 0..{p - 1}, got {columns.tolist()}")
    return columns
