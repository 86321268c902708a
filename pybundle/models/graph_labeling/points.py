"""Points of the local polytope of a graph as sparse arrays of whole numbers; a labelling is a special point."""

from __future__ import annotations

import numpy as np

from ...core.exceptions import ParameterError

UNIT = 2**30
"""The whole number that stands for the share 1; shares as whole numbers make checks of their sums exact."""


def as_point(nodes, tables):
    """Return a point as an array (nnz, 2) of int64: positions in `[nodes | tables]`, and shares times UNIT.

    Parameters
    ----------
    nodes : ndarray, shape (n, K)
        Shares of the labels: multiples of 1 / UNIT; each row sums to 1.
    tables : ndarray, shape (m, K, K)
        Shares of pairs of labels, whose row sums and column sums are the shares of the nodes.
    """
    shares = np.concatenate([nodes.ravel(), tables.ravel()])
    places = np.flatnonzero(shares)
    return np.stack([places, np.rint(shares[places] * UNIT).astype(np.int64)], axis=1)


def of_labels(labels, edges, n_labels):
    """Return the point of a labelling, whose shares are all UNIT."""
    n, K = len(labels), n_labels
    a, b = labels[edges[:, 0]], labels[edges[:, 1]]
    places = np.concatenate([np.arange(n) * K + labels, n * K + (np.arange(len(edges)) * K + a) * K + b])
    return np.stack([places, np.full(len(places), UNIT)], axis=1)


def check_point(point, n, edges, n_labels):
    """Return the point after an exact check that it lies in the local polytope of a graph with n nodes.

    Raises
    ------
    ParameterError
        If a share is negative, those of a node do not sum to UNIT, or those of an edge do not sum to its nodes' shares.
    """
    point, K, m = np.asarray(point), n_labels, len(edges)
    if point.dtype != np.int64 or point.ndim != 2 or point.shape[1] != 2:
        raise ParameterError(f"a point must be an int64 array of shape (nnz, 2), got {point.dtype} {point.shape}")
    places, shares = point.T
    if len(places) and not (0 <= places.min() and places.max() < n * K + m * K * K and shares.min() > 0
                            and shares.max() <= UNIT):
        raise ParameterError("a point must have positions in its graph and shares in 1..2^30, got others")
    of_edges = places >= n * K
    nodes = _sums(places[~of_edges], shares[~of_edges], n * K).reshape(n, K)
    at, pair = np.divmod(places[of_edges] - n * K, K * K)
    first, second = (_sums(at * K + label, shares[of_edges], m * K).reshape(m, K) for label in np.divmod(pair, K))
    if (nodes.sum(axis=1) != UNIT).any() or (first != nodes[edges[:, 0]]).any() or (second != nodes[edges[:, 1]]).any():
        raise ParameterError("a point must lie in the local polytope, where the shares of a node sum to 1 and those of "
                             "an edge to the shares of its ends; got other sums")
    return point


def _sums(places, shares, size):
    """Return sums of shares by position; they are exact, as float64 holds whole numbers below 2^53."""
    return np.bincount(places, shares, size).astype(np.int64)


def entries_off(point, truth, edges, n_labels):
    """Return the entries of the point minus the point of the truth, at nodes and at edges.

    Parameters
    ----------
    point : ndarray of int64, shape (nnz, 2)
    truth : ndarray of int64, shape (n,)
    edges : ndarray, shape (m, 2)
    n_labels : int

    Returns
    -------
    nodes, edges : tuples of three arrays
        Nodes or edges, labels (for an edge `k K + l`), and differences of shares, which sum to 0 at each node or edge.
    """
    K, n = n_labels, len(truth)
    places, shares = point[:, 0], point[:, 1] / UNIT
    of_edges = places >= n * K
    pairs = truth[edges[:, 0]] * K + truth[edges[:, 1]]
    return (_off(places[~of_edges], shares[~of_edges], truth, K),
            _off(places[of_edges] - n * K, shares[of_edges], pairs, K * K))


def _off(places, shares, truth, width):
    """Return entries of wrong labels, then entries of true labels: minus the sum of the wrong shares of a position."""
    at, label = places // width, places % width
    wrong = label != truth[at]
    at, label, shares = at[wrong], label[wrong], shares[wrong]
    lost = np.bincount(at, shares, len(truth)) if len(at) else np.zeros(len(truth))
    changed = np.flatnonzero(lost)
    return (np.concatenate([at, changed]), np.concatenate([label, truth[changed]]),
            np.concatenate([shares, -lost[changed]]))
