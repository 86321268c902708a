"""`GraphLabelingOracle` binds a model to graphs and labels: batches of labellings or points, and their planes."""

from __future__ import annotations

from copy import copy

import numpy as np
import scipy.sparse as sp

from ...core.exceptions import NumericalError, ParameterError
from ...core.protocols import Decodings
from ...core.ragged import Ragged
from ...core.validation import check_indices
from ...features._rows import Rows, RowSums, sum_rows
from ...features.examples import Examples
from ...oracles.graph_labeling import graph_labeling_batch, search_bytes
from ...oracles.graph_relaxation import graph_relaxation_batch
from ..batch_oracle import BatchOracle
from ..graphs import read_features, read_graphs, read_labels, sums
from .pair_weights import require_memory_of
from .points import as_point, check_point, entries_off, of_labels

LARGEST = 1e90
LOOSEST = 1e300
"""A finite accuracy that stands for an infinite one, with which any point is accurate enough."""


class GraphLabelingOracle(BatchOracle):
    """`GraphLabeling` bound to graphs X and labels Y.

    The labellings of the relaxed risk are points of the local polytope, see `points.py`; those of the true risk are
    arrays of labels. Scores are relative to the truth, whose value is 0. For predictions Y is None: all labels are 0.
    """

    decodes_exactly = False

    def __init__(self, model, X, Y):
        self.model, self.dim, K = model, model.dim, model.n_labels
        nodes, edges, features = read_graphs(X, model.n_features, model.n_edge_features, nonneg=False)
        require_memory_of(model, int(edges.sizes.max()))
        n = int(nodes.offsets[-1])
        truth, weights = (Ragged(np.zeros(n, np.int64), nodes.offsets), np.ones(n)) if Y is None else read_labels(
            Y, nodes.offsets, K, unknown=True)
        known = truth.values >= 0
        if not known.any():
            raise ParameterError("Y must hold at least one label that is known, got -1 everywhere")
        if not known.all():
            nodes, edges, features = _induced(nodes, edges, features, known)
            truth, weights = Ragged(truth.values[known], nodes.offsets), weights[known]
        self.nodes, self._edges, self._edge_features, self._truth = nodes, edges, features, truth
        self.n_examples = len(nodes)
        self._costs = model.node_costs(truth.values, weights, nodes.offsets)
        self.loss_size = float(sums(self._costs, nodes.offsets).max())
        self._examples = read_features(nodes)
        self._rows = self._examples.rows(K)
        self._edge_identity, self._edge_rows, edge_norms = _edge_rows(features, K * K)
        a, b = edges.values.T + np.repeat(nodes.offsets[:-1], edges.sizes)
        self._true_pairs = truth.values[a] * K + truth.values[b]
        self.norms = 2.0 * (sums(self._examples.norms, nodes.offsets) + sums(edge_norms, edges.offsets))
        self.sizes = K * np.diff(nodes.offsets) + K * K * edges.sizes
        self.accuracies = np.full(self.n_examples, np.inf)
        self._messages = np.zeros((features.shape[0], 2, K))
        self.fingerprint = self._checksum()

    def _identity(self):
        model, fold = self.model, self.model.pair_weights.fold
        return (model.risk, model.n_labels, *(() if fold is None else (fold.indptr, fold.indices, fold.data)),
                self.nodes.offsets, self._edges.offsets, self._edges.values,
                self._edge_identity, self._truth.values, self._costs, self._examples)

    @property
    def kind(self):
        """The risk of the model, "relaxed" or "true"."""
        return self.model.risk

    @property
    def edge_counts(self):
        """Number of edges of each graph, whose messages are stored one graph after another."""
        return self._edges.sizes

    @property
    def dual_point(self):
        """See `BatchOracle`; None for two labels and the true risk, as graph cuts may decode them, without messages."""
        return None if self.model.risk == "true" and self.model.n_labels == 2 else self._messages

    def for_run(self):
        """Return a copy with its own messages and accuracies, which a run changes."""
        other = copy(self)
        other.accuracies, other._messages = np.full(self.n_examples, np.inf), np.zeros_like(self._messages)
        return other

    @property
    def memory(self):
        """See `BatchOracle`. Messages are held for all graphs; other memory is for the largest graph."""
        K, m = self.model.n_labels, int(self._edges.sizes.max())
        held, (search, soft) = self._messages.nbytes, search_bytes(K, int(self.nodes.sizes.max()), m)
        search += m * (16 * K * K + 16 * K + 32)        # bytes of tables, their copy, messages, ends of edges
        words = f"about {held / 2**20:.0f} MB of messages, and {search / 2**20:.0f} MB a thread to decode"
        if self.model.risk == "relaxed":
            words += f", {(search + soft) / 2**20:.0f} MB where the maximum is fractional"
        return words if held + search > 2**20 else ""

    def _prepare(self, w):
        head = self.model.n_labels * self.model.n_features
        tables = self.model.pair_weights.tables(w[head:])
        return self._rows.pack(w[:head]), tables.reshape(-1, self.model.n_edge_features).T.copy()

    def scores(self, rows, weights):
        """Return the arguments of decoders: unaries, edges, tables (M, K, K), and offsets of nodes and edges."""
        K, (packed, pair_weights) = self.model.n_labels, weights
        at_nodes, at_edges = self.nodes.rows(rows), self._edges.rows(rows)
        unaries = np.empty((len(at_nodes), K))
        self._rows.scores(packed, at_nodes, unaries)
        tables = (self._edge_features[at_edges] @ pair_weights).reshape(-1, K, K)
        ends, edge_ends = (np.concatenate([[0], np.cumsum(part.sizes[rows])]) for part in (self.nodes, self._edges))
        if not max(np.abs(unaries).max(initial=0.0), np.abs(tables).max(initial=0.0)) < LARGEST:
            raise NumericalError(f"scores of graphs must be below {LARGEST:g}; rescale the features")
        return unaries, self._edges.values.take(at_edges, axis=0), tables, ends, edge_ends

    def relative_scores(self, rows, weights, loss):
        """Return `scores` relative to the truth, with the costs of wrong labels if `loss`."""
        K, at_nodes = self.model.n_labels, self.nodes.rows(rows)
        unaries, edges, tables, *offsets = self.scores(rows, weights)
        truth, every = self._truth.values.take(at_nodes), np.arange(len(at_nodes))
        unaries -= unaries[every, truth][:, None]
        if loss:
            costs = self._costs.take(at_nodes)
            unaries += costs[:, None]
            unaries[every, truth] = 0.0
        flat = tables.reshape(-1, K * K)
        flat -= flat[np.arange(len(flat)), self._true_pairs.take(self._edges.rows(rows))][:, None]
        return unaries, edges, tables, *offsets

    def label(self, rows, weights, loss):
        """Return the result of `graph_labeling_batch` for the examples `rows`, which starts from messages 0."""
        return graph_labeling_batch(*self.relative_scores(rows, weights, loss), tol=0.0)

    def _decode(self, rows, weights, loss):
        if not loss:
            found = self.label(rows, weights, loss)
            return Decodings(Ragged(found.labels, self._ends(rows)), found.value, found.upper)
        scores, at_edges = self.relative_scores(rows, weights, loss), self._edges.rows(rows)
        how = {"tol": np.minimum(self.accuracies[rows], LOOSEST), "messages": self._messages[at_edges]}
        if self.model.risk == "true":
            found = graph_labeling_batch(*scores, **how)
            labellings = np.split(found.labels, scores[3][1:-1])
        else:
            found = graph_relaxation_batch(*scores, **how)
            labellings = [as_point(nodes, tables) for nodes, tables in zip(
                np.split(found.nodes, scores[3][1:-1]), np.split(found.edges, scores[4][1:-1]), strict=True)]
        self._messages[at_edges] = how["messages"]
        values = found.value
        for j in np.flatnonzero(values < 0.0):          # a labelling made from messages may be worse than the truth
            truth, edges = self._truth[rows[j]], self._edges[rows[j]]
            labellings[j] = truth if self.model.risk == "true" else of_labels(truth, edges, self.model.n_labels)
        return Decodings(labellings, np.maximum(values, 0.0), np.maximum(found.upper, 0.0))

    def _add_planes(self, rows, labellings, scales, slope):
        head = self.model.n_labels * self.model.n_features
        losses, (nodes, labels, shares, ends), (edges, pairs, parts, edge_ends) = self._changes(rows, labellings)
        self._rows.add(nodes, labels, shares * np.repeat(scales, np.diff(ends)), slope[:head])
        tables = np.zeros(self._edge_rows.n_weights)
        self._edge_rows.add(edges, pairs, parts * np.repeat(scales, np.diff(edge_ends)), tables)
        slope[head:] += self.model.pair_weights.folded(tables)
        return float(scales @ losses)

    def _planes(self, rows, labellings):
        head, fold = self.model.n_labels * self.model.n_features, self.model.pair_weights.fold
        losses, of_nodes, of_edges = self._changes(rows, labellings)
        first, second = (RowSums(features, at, label.astype(np.int32), shares, ends, start)
                         for features, (at, label, shares, ends), start in (
                             (self._rows, of_nodes, 0), (self._edge_rows, of_edges, head)))
        slopes = sum_rows(head + self._edge_rows.n_weights, first, second)
        return losses, slopes if fold is None else _folded(slopes, head, fold)

    def _changes(self, rows, labellings):
        """Return losses, and points minus truths: at nodes and at edges, each in the form that `_joined` returns."""
        K, losses, found = self.model.n_labels, np.empty(len(rows)), ([], [])
        for j, i in enumerate(rows.tolist()):
            point, truth, edges = labellings[j], self._truth[i], self._edges[i]
            if np.ndim(point) == 1:
                point = of_labels(self._checked(point, truth), edges, K)
            elif self.model.risk == "true":
                raise ParameterError("labellings of the true risk must be arrays of labels, got a point of the relaxed")
            else:
                point = check_point(point, len(truth), edges, K)
            of_nodes, of_edges = entries_off(point, truth, edges, K)
            at, label, shares = of_nodes
            wrong = label != truth[at]
            costs = self._costs[self.nodes.offsets[i]:self.nodes.offsets[i + 1]]
            losses[j] = costs[at[wrong]] @ shares[wrong]
            found[0].append((at + self.nodes.offsets[i], label, shares))
            found[1].append((of_edges[0] + self._edges.offsets[i], *of_edges[1:]))
        return losses, *map(_joined, found)

    def _losses(self, rows, labellings):
        return self._changes(rows, labellings)[0]

    def _checked(self, labels, truth):
        labels = check_indices("labellings", labels, self.model.n_labels)
        if len(labels) != len(truth):
            raise ParameterError(f"labellings must have one label for each node, {len(truth)} in all, got "
                                 f"{len(labels)}")
        return labels

    def _ends(self, rows):
        return np.concatenate([[0], np.cumsum(self.nodes.sizes[rows])])

    def feature_of(self, labels):
        """Return Psi of a labelling of the first graph."""
        K, features = self.model.n_labels, np.zeros(self._edge_rows.n_weights)
        labels = self._checked(labels, self._truth[0])
        slope, edges = np.zeros(K * self.model.n_features), self._edges.values
        self._rows.add(np.arange(len(labels)), labels, np.ones(len(labels)), slope)
        pairs = labels[edges[:, 0]] * K + labels[edges[:, 1]]
        self._edge_rows.add(np.arange(len(edges)), pairs, np.ones(len(edges)), features)
        return np.concatenate([slope, self.model.pair_weights.folded(features)])


def _edge_rows(features, n_scores):
    """Return edge features in a form for the fingerprint, then as `Rows`, and their norms."""
    n, p = features.shape
    if sp.issparse(features) and n:
        examples = Examples(features)
        return examples, examples.rows(n_scores), examples.norms
    features = features.toarray() if sp.issparse(features) else features
    return features, Rows((features,), np.zeros(n), p, n_scores), np.sqrt(np.einsum("ep,ep->e", features, features))


def _induced(nodes, edges, features, known):
    """Return nodes, edges and edge features of the subgraphs of the `known` nodes."""
    offsets = np.concatenate([[0], np.cumsum(known)])[nodes.offsets]
    starts = np.repeat(nodes.offsets[:-1], edges.sizes)
    a, b = edges.values.T + starts
    kept = known[a] & known[b]
    number = np.cumsum(known) - 1 - np.repeat(offsets[:-1], nodes.sizes)        # the new number of a node in its graph
    ends = np.ascontiguousarray(np.stack([number[a], number[b]], axis=1)[kept], dtype=np.int32)
    edge_offsets = np.concatenate([[0], np.cumsum(kept)])[edges.offsets]
    return Ragged(nodes.values[known], offsets), Ragged(ends, edge_offsets), features[kept]


def _joined(parts):
    """Return positions, labels and shares of several planes, and the offsets (m + 1,) of the planes in them."""
    at, label, shares = (np.concatenate([part[k] for part in parts]) if parts else np.empty(0) for k in range(3))
    ends = np.concatenate([[0], np.cumsum([len(part[0]) for part in parts])]).astype(np.int64)
    return at.astype(np.intp), label.astype(np.int64), shares.astype(np.float64), ends


def _folded(slopes, head, fold):
    """Return slopes for w from slopes for `[U | entries of tables]`; rows have sorted, distinct indices, no zeros."""
    parts = sp.csr_array(slopes[:, :head]), sp.csr_array(slopes[:, head:] @ fold)
    made = sp.csr_array(sp.hstack(parts, format="csr"))
    made.sum_duplicates()
    made.eliminate_zeros()
    made.indices, made.indptr = made.indices.astype(np.int32), made.indptr.astype(np.int32)
    return made
