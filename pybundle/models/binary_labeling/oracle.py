"""Graphs bound to their labels: batches of minimum cuts and their planes."""

from __future__ import annotations

import numpy as np

from ...core.exceptions import ParameterError
from ...core.protocols import Decodings
from ...core.ragged import Ragged
from ...core.validation import check_indices
from ...features._rows import Rows, RowSums, sum_rows
from ...oracles.graphcut import min_cut_batch
from ..batch_oracle import BatchOracle
from ..graphs import read_features, read_graphs, read_labels, sums


class BinaryLabelingOracle(BatchOracle):
    """`BinaryLabeling` bound to graphs X and labels Y."""

    def __init__(self, model, X, Y):
        self.model, self.dim = model, model.dim
        self.nodes, self._edges, self._edge_features = read_graphs(X, model.n_features, model.n_edge_features)
        self._truth, weights = read_labels(Y, self.nodes.offsets)
        self.n_examples = len(self.nodes)
        offsets = self.nodes.offsets
        self._costs = model.node_costs(self._truth.values, weights, offsets)
        self.loss_size = float(sums(self._costs, offsets).max())
        examples = read_features(self.nodes)
        self._rows = examples.rows(1)
        self._edge_rows = Rows((self._edge_features,), np.zeros(len(self._edge_features)), model.n_edge_features, 1)
        self._gain_factors = 2.0 - 4.0 * self._truth.values          # gain of the other label over <w_U, f>
        a, b = self._edges.values.T + np.repeat(offsets[:-1], self._edges.sizes)
        self._is_cut = self._truth.values[a] != self._truth.values[b]
        edge_norms = np.sqrt(np.einsum("ep,ep->e", self._edge_features, self._edge_features))
        self.norms = 2.0 * sums(examples.norms, offsets) + sums(edge_norms, self._edges.offsets)
        self.sizes = np.diff(offsets) + 2 * self._edges.sizes
        self._examples = examples
        self.fingerprint = self._checksum()

    def _identity(self):
        return (self.nodes.offsets, self._edges.offsets, self._edges.values, self._edge_features, self._truth.values,
                self._costs, self._examples)

    def _prepare(self, w):
        d = self.model.n_features
        if (w[d:] < 0.0).any():
            k = d + int(np.argmax(w[d:] < 0.0))
            raise ParameterError(f"w[{k}], the weight of edge feature {k - d}, must be >= 0, got {w[k]:g}: the cut is "
                                 "exact only then; give your risk nonneg=model.nonneg, or clip it at 0")
        return self._rows.pack(w[:d]), w[d:].copy()

    def _decode(self, rows, weights, loss):
        packed, w_pairs = weights
        at_nodes, at_edges = self.nodes.rows(rows), self._edges.rows(rows)
        scores = np.empty((len(at_nodes), 1))
        self._rows.scores(packed, at_nodes, scores)
        # scores relative to the truth: the true label has score 0, the other label the gain of the change
        change = scores[:, 0] * self._gain_factors.take(at_nodes)
        if loss:
            change += self._costs.take(at_nodes)
        unary = np.zeros((len(at_nodes), 2))
        unary.reshape(-1)[np.arange(1, 2 * len(at_nodes), 2) - self._truth.values.take(at_nodes)] = change
        pairs = np.einsum("ep,p->e", self._edge_features.take(at_edges, axis=0), w_pairs)
        ends = np.concatenate([[0], np.cumsum(self.nodes.sizes[rows])])
        edge_ends = np.concatenate([[0], np.cumsum(self._edges.sizes[rows])])
        labels, values, uppers = min_cut_batch(unary, self._edges.values.take(at_edges, axis=0), pairs, ends, edge_ends)
        paid = sums(pairs * self._is_cut.take(at_edges), edge_ends)
        rounding = 2.0**-52 * (np.diff(edge_ends) + 4.0) * (paid + np.abs(uppers))
        return Decodings(Ragged(labels, ends), values + paid, np.maximum(uppers + paid + rounding, values + paid))

    def _add_planes(self, rows, labellings, scales, slope):
        changed, nodes, node_ends, moved, edges, _ = self._changes(rows, labellings)
        d = self.model.n_features
        per_node, per_edge = (np.repeat(scales, part.sizes[rows]) for part in (self.nodes, self._edges))
        self._rows.add(nodes, np.zeros(len(nodes), np.int64), changed * per_node, slope[:d])
        kept = np.flatnonzero(moved)
        slope[d:] += np.einsum("e,ep->p", (moved * per_edge)[kept], self._edge_features.take(edges[kept], axis=0))
        return float(scales @ self._node_losses(changed != 0.0, nodes, node_ends))

    def _planes(self, rows, labellings):
        changed, nodes, node_ends, moved, edges, edge_ends = self._changes(rows, labellings)
        d = self.model.n_features
        parts = (RowSums(features, *_nonzero(coefs, places, ends), first) for features, coefs, places, ends, first in (
            (self._rows, changed, nodes, node_ends, 0), (self._edge_rows, moved, edges, edge_ends, d)))
        return self._node_losses(changed != 0.0, nodes, node_ends), sum_rows(self.dim, *parts)

    def _changes(self, rows, labellings):
        """Return coefficients, nodes and ends of the node features of the examples `rows`, then of edge features."""
        nodes, edges = self.nodes.rows(rows), self._edges.rows(rows)
        labels = self._node_labels(rows, labellings)
        node_ends, edge_ends = (np.concatenate([[0], np.cumsum(part.sizes[rows])])
                                for part in (self.nodes, self._edges))
        a, b = self._edges.values.take(edges, axis=0).T + np.repeat(node_ends[:-1], self._edges.sizes[rows])
        changed = 2.0 * (labels - self._truth.values.take(nodes))
        moved = self._is_cut.take(edges).astype(np.float64) - (labels.take(a) != labels.take(b))
        return changed, nodes, node_ends, moved, edges, edge_ends

    def _losses(self, rows, labellings):
        at_nodes = self.nodes.rows(rows)
        wrong = self._node_labels(rows, labellings) != self._truth.values[at_nodes]
        return self._node_losses(wrong, at_nodes, np.concatenate([[0], np.cumsum(self.nodes.sizes[rows])]))

    def _node_losses(self, wrong, at_nodes, ends):
        return sums(np.where(wrong, self._costs[at_nodes], 0.0), ends)

    def _node_labels(self, rows, labellings):
        """Return the labels of all nodes of the examples `rows`, one after another."""
        if isinstance(labellings, Ragged):
            labels, sizes = labellings.values, labellings.sizes
        else:
            labels, sizes = np.concatenate(labellings), [len(labelling) for labelling in labellings]
        if not np.array_equal(sizes, self.nodes.sizes[rows]):
            raise ParameterError("labellings must have one label for each node of their examples")
        return check_indices("labellings", labels, 2)


def _nonzero(coefs, places, ends):
    """Return rows, labels, nonzero coefficients and starts, the arguments of `RowSums`."""
    kept = np.flatnonzero(coefs)
    return places[kept], np.zeros(len(kept), np.int32), coefs[kept], np.searchsorted(kept, ends)
