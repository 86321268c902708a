"""Two labels for the nodes of a graph, neighbours alike: image segmentation by an exact minimum cut.

    <w, Psi(x, y)> = sum_j <w_U, f_j> (2 y_j - 1) - sum_{e = (a, b)} <w_P, f_e> [y_a != y_b],    w = [w_U | w_P],
    f_e >= 0, w_P >= 0
"""

from __future__ import annotations

from zlib import crc32

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import InputTypeError, ParameterError
from ..core.graph import WeightedLabels
from ..core.protocols import Decodings
from ..core.ragged import Ragged
from ..core.validation import check_choice, check_count, check_indices, check_rows, check_vector, integer_array
from ..features._rows import Rows, RowSums, sum_rows
from ..oracles.graphcut import min_cut_batch
from .base import StructuredModel
from .batch_oracle import BatchOracle, check_sums
from .graphs import labels_of, read_features, read_graphs, read_labels, sums

LOSSES = ("mean", "hamming", "balanced")


class BinaryLabeling(StructuredModel):
    """Binary labels of the nodes of graphs, with weights >= 0 on features >= 0 of the edges.

    Parameters
    ----------
    n_features : int
        Features d of a node; append a constant one for a bias.
    n_edge_features : int
        Features p >= 1 of an edge, all nonnegative.
    loss : {"mean", "hamming", "balanced"}
        With c_j the weight of node j (1 without weights) and a sum over the wrong nodes: `sum c_j`, "hamming";
        `sum c_j / sum of all c`, "mean"; `sum c_j / (2 sum of the c of its true class)`, "balanced": the mean of the
        error rates of both classes of the image.
    class_weights : pair of float, optional
        Factors of c_j for true labels 0 and 1, for instance `total / (2 class total)` of a training set.

    Notes
    -----
    X is a sequence of `Graph` (or of tuples like it), or one `Graph` of three `Ragged`, which is not copied. Y is a
    sequence of arrays of labels 0 and 1, or of `WeightedLabels`; or a `Ragged`, or a `WeightedLabels` of two.
    `nonneg` marks w_P; with a negative weight the cut is not exact, and decoding refuses. Upper bounds are those of
    the flow. A pass costs one product with the node features, one cut an example, and one sum of features.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> images = pb.datasets.contrast_images(20, shape=(6, 6))
    >>> model = pb.models.BinaryLabeling(images.X[0].nodes.shape[1], images.X[0].edge_features.shape[1])
    >>> result = pb.minimize(pb.risks.Structured(model, images.X, images.y), lam=1.0)
    >>> result.success, bool((result.x[model.nonneg] >= 0.0).all())
    (True, True)
    >>> model.decode(result.x, images.X[0]).shape
    (36,)
    """

    def __init__(self, n_features, n_edge_features, loss="mean", class_weights=None):
        self.n_features = check_count("n_features", n_features)
        self.n_edge_features = check_count("n_edge_features", n_edge_features)
        self.loss_name = check_choice("loss", loss, LOSSES)
        weights = check_vector("class_weights", (1.0, 1.0) if class_weights is None else class_weights, 2)
        if (weights < 0.0).any():
            raise ParameterError(f"class_weights must be >= 0, got {weights.tolist()}")
        self.class_weights = weights
        self.dim = self.n_features + self.n_edge_features
        self.nonneg = np.arange(self.dim) >= self.n_features

    def joint_feature(self, x, y):
        oracle, rows = self._bind(x, np.zeros(integer_array("y", labels_of(y)).shape, np.int64)), np.zeros(1, np.intp)
        feature = np.zeros(self.dim)
        oracle.add_planes(rows, [labels_of(y)], np.ones(1), feature)       # relative to all zeros,
        nodes = oracle.nodes.values                                         # which score minus the sum of features
        feature[:self.n_features] -= np.asarray(nodes.sum(axis=0, dtype=np.float64)).ravel()
        return feature

    def loss(self, y, y_hat):
        labels, found = (check_indices(name, labels_of(z), 2) for name, z in (("y", y), ("y_hat", y_hat)))
        if labels.shape != found.shape:
            raise ParameterError(f"y_hat must have {len(labels)} labels like y, got {len(found)}")
        weights = check_vector("weights of y", y.weights, len(labels)) if isinstance(y, WeightedLabels) else np.ones(
            len(labels))
        costs = self.node_costs(labels, weights, np.array([0, len(labels)]))
        return float(costs[labels != found].sum())

    def node_costs(self, labels, weights, offsets):
        """What a wrong label costs at each node of graphs `offsets[i]:offsets[i + 1]`."""
        costs = weights * self.class_weights[labels]
        if self.loss_name == "hamming":
            return costs
        item = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        if self.loss_name == "balanced":
            item = 2 * item + labels
        # a class of weight 0 has only nodes of weight 0: any divisor does
        totals = np.bincount(item, weights, 2 * len(offsets))[item]
        return costs / (np.where(totals > 0.0, totals, 1.0) * (2.0 if self.loss_name == "balanced" else 1.0))

    def decode(self, w, x):
        try:
            n = x[0].shape[0] if sp.issparse(x[0]) else len(x[0])
            np.shape(x[1]), np.shape(x[2])          # ValueError where rows differ in length
        except (TypeError, ValueError, LookupError) as problem:
            raise InputTypeError(f"x must be a Graph, got {type(x).__name__}") from problem
        return self._solve(w, x, np.zeros(n, np.int64), loss=False)

    def loss_augmented_decode(self, w, x, y):
        return self._solve(w, x, y, loss=True)

    def oracle(self, X, Y):
        return BinaryLabelingOracle(self, X, Y)

    def _bind(self, x, y):
        return BinaryLabelingOracle(self, [x], [y])

    def _solve(self, w, x, y, loss):
        oracle = self._bind(x, y)
        weights = oracle.prepare(check_vector("w", w, self.dim))
        return oracle.solve_batch(np.zeros(1, np.intp), weights, loss).labellings[0]


class BinaryLabelingOracle(BatchOracle):
    """`BinaryLabeling` bound to graphs X and labels Y."""

    def __init__(self, model, X, Y):
        self.model, self.dim = model, model.dim
        self.nodes, self._edges, self._edge_features = read_graphs(X, model.n_features, model.n_edge_features)
        self._truth, weights = read_labels(Y, self.nodes.offsets)
        self.n_examples = len(self.nodes)
        offsets = self.nodes.offsets
        self._costs = model.node_costs(self._truth.values, weights, offsets)
        examples = read_features(self.nodes)
        self._rows = examples.rows(1)
        self._edge_rows = Rows((self._edge_features,), np.zeros(len(self._edge_features)), model.n_edge_features, 1)
        self._turns = 2.0 - 4.0 * self._truth.values          # what <w_U, f> gains by the other label
        a, b = self._edges.values.T + np.repeat(offsets[:-1], self._edges.sizes)
        self._is_cut = self._truth.values[a] != self._truth.values[b]
        edge_norms = np.sqrt(np.einsum("ep,ep->e", self._edge_features, self._edge_features))
        self.norms = 2.0 * sums(examples.norms, offsets) + sums(edge_norms, self._edges.offsets)
        self.sizes = np.diff(offsets) + 2 * self._edges.sizes
        self._examples, self.fingerprint = examples, self._checksum(examples.fingerprint)

    def _checksum(self, of_examples):
        mark = crc32(repr((type(self).__name__, self.dim, of_examples)).encode())
        for array in (self.nodes.offsets, self._edges.offsets, self._edges.values, self._edge_features,
                      self._truth.values, self._costs):
            mark = crc32(array.tobytes(), mark)
        return mark

    def is_current(self):
        return self._checksum(self._examples.checksum()) == self.fingerprint

    def prepare(self, w):
        d = self.model.n_features
        if (w[d:] < 0.0).any():
            k = d + int(np.argmax(w[d:] < 0.0))
            raise ParameterError(f"w[{k}], the weight of edge feature {k - d}, must be >= 0, got {w[k]:g}: the cut is "
                                 "exact only then; keep it with nonneg=model.nonneg, or clip it at 0")
        return self._rows.pack(w[:d]), w[d:].copy()

    def solve_batch(self, rows, weights, loss=True):
        rows = check_rows("rows", rows, self.n_examples)
        packed, w_pairs = weights
        at_nodes, at_edges = self.nodes.rows(rows), self._edges.rows(rows)
        scores = np.empty((len(at_nodes), 1))
        self._rows.scores(packed, at_nodes, scores)
        # scores relative to the truth: its label has 0, the other one what changing the label brings
        change = scores[:, 0] * self._turns.take(at_nodes)
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

    def add_planes(self, rows, labellings, scales, slope):
        rows, scales = check_sums(self, rows, scales, slope)
        changed, nodes, node_ends, moved, edges, _ = self._changes(rows, labellings)
        d = self.model.n_features
        per_node, per_edge = (np.repeat(scales, part.sizes[rows]) for part in (self.nodes, self._edges))
        self._rows.add(nodes, np.zeros(len(nodes), np.int64), changed * per_node, slope[:d])
        kept = np.flatnonzero(moved)
        slope[d:] += np.einsum("e,ep->p", (moved * per_edge)[kept], self._edge_features.take(edges[kept], axis=0))
        return float(scales @ self._losses(changed != 0.0, nodes, node_ends))

    def planes(self, rows, labellings):
        rows = check_rows("rows", rows, self.n_examples, labellings)
        if len(rows) == 0:
            return super().planes(rows, labellings)
        changed, nodes, node_ends, moved, edges, edge_ends = self._changes(rows, labellings)
        d = self.model.n_features
        parts = (RowSums(features, *_kept(coefs, places, ends), first) for features, coefs, places, ends, first in (
            (self._rows, changed, nodes, node_ends, 0), (self._edge_rows, moved, edges, edge_ends, d)))
        return self._losses(changed != 0.0, nodes, node_ends), sum_rows(self.dim, *parts)

    def _changes(self, rows, labellings):
        """Coefficients of the features of all nodes and edges of the examples `rows`, what they are, where they end."""
        nodes, edges = self.nodes.rows(rows), self._edges.rows(rows)
        labels = self._joined(rows, labellings)
        node_ends, edge_ends = (np.concatenate([[0], np.cumsum(part.sizes[rows])])
                                for part in (self.nodes, self._edges))
        a, b = self._edges.values.take(edges, axis=0).T + np.repeat(node_ends[:-1], self._edges.sizes[rows])
        changed = 2.0 * (labels.astype(np.int64) - self._truth.values.take(nodes))
        moved = self._is_cut.take(edges).astype(np.float64) - (labels.take(a) != labels.take(b))
        return changed, nodes, node_ends, moved, edges, edge_ends

    def losses(self, rows, labellings):
        rows = check_rows("rows", rows, self.n_examples, labellings)
        at_nodes = self.nodes.rows(rows)
        wrong = self._joined(rows, labellings) != self._truth.values[at_nodes]
        return self._losses(wrong, at_nodes, np.concatenate([[0], np.cumsum(self.nodes.sizes[rows])]))

    def _losses(self, wrong, at_nodes, ends):
        return sums(np.where(wrong, self._costs[at_nodes], 0.0), ends)

    def _joined(self, rows, labellings):
        """Labels of all nodes of the examples `rows`, one after another."""
        if isinstance(labellings, Ragged):
            labels, sizes = labellings.values, labellings.sizes
        else:
            labels, sizes = np.concatenate(labellings), [len(labelling) for labelling in labellings]
        if not np.array_equal(sizes, self.nodes.sizes[rows]):
            raise ParameterError("labellings must have one label for each node of their examples")
        return labels


def _kept(coefs, places, ends):
    """Rows, labels, coefficients and starts of `RowSums` for the coefficients that are not 0."""
    kept = np.flatnonzero(coefs)
    return places[kept], np.zeros(len(kept), np.int32), coefs[kept], np.searchsorted(kept, ends)
