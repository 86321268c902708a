"""Values of graph labelings in the verifier: the dual bound of stored messages, written out in NumPy."""

from __future__ import annotations

import numpy as np

from ..core.ragged import cut
from .plane import UNIT

SCORES = 1 << 22
"""Maximum number of scores in memory at a time."""


def dual_values(oracle, w, messages):
    """Return upper bounds (n,) on the maxima of the examples at w that messages prove, and their errors (n,).

    With scores theta relative to the truth, and costs of wrong labels in those of nodes, it is weak duality, since the
    messages d cancel in the score of every labelling and of every point of the local polytope::

        max <= sum_s max_k [theta_s(k) + sum_{e at s} d_e,s(k)] + sum_e max_kl [theta_e(k, l) - d_e,a(k) - d_e,b(l)]

    where parallel edges are one.

    Parameters
    ----------
    oracle : GraphLabelingOracle
        It sums the features to scores.
    w : ndarray, shape (dim,)
    messages : ndarray, shape (m, 2, K)
        Any numbers prove a bound; good ones prove a close one.

    Returns
    -------
    values : ndarray, shape (n,)
        At least 0, the value of the truth.
    errors : ndarray, shape (n,)
        Bounds on the rounding of these sums; that of the scores is not counted.
    """
    weights, first_edges = oracle.prepare(w), np.concatenate([[0], np.cumsum(oracle.edge_counts)])
    found = [_of_some(oracle.relative_scores(np.arange(first, last), weights, loss=True),
                      messages[first_edges[first]:first_edges[last]]) for first, last in cut(oracle.sizes, SCORES)]
    values, errors = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return np.maximum(values, 0.0), errors


def _of_some(scores, d):
    unaries, edges, tables, node_ends, edge_ends = scores
    n_graphs, n = len(node_ends) - 1, len(unaries)
    graph_of_node, graph_of_edge = (np.repeat(np.arange(n_graphs), np.diff(ends)) for ends in (node_ends, edge_ends))
    ends, (totals, sizes) = edges + node_ends[graph_of_edge][:, None], (unaries.copy(), np.abs(unaries))
    for side in (0, 1):
        np.add.at(totals, ends[:, side], d[:, side])
        np.add.at(sizes, ends[:, side], np.abs(d[:, side]))
    rest = tables - d[:, 0, :, None] - d[:, 1, None, :]
    rest_sizes = np.abs(tables) + np.abs(d[:, 0, :, None]) + np.abs(d[:, 1, None, :])
    # tables of parallel edges are added up
    turned = ends[:, 0] > ends[:, 1]
    _, first, place = np.unique(ends.min(axis=1) * n + ends.max(axis=1), return_index=True, return_inverse=True)
    whole, whole_sizes = np.zeros((2, len(first), *tables.shape[1:]))
    for given, summed in ((rest, whole), (rest_sizes, whole_sizes)):
        np.add.at(summed, place, np.where(turned[:, None, None], given.swapaxes(1, 2), given))

    def sums(at_nodes, at_edges):
        return (np.bincount(graph_of_node, at_nodes.max(axis=1), n_graphs)
                + np.bincount(graph_of_edge[first], at_edges.max(axis=(1, 2), initial=-np.inf), n_graphs))

    degrees = np.bincount(ends.ravel(), minlength=n)
    additions = np.diff(node_ends) + np.diff(edge_ends) + 2.0 * degrees.max(initial=0) + 4.0
    return sums(totals, whole), 1.01 * additions * UNIT * sums(sizes, whole_sizes)
