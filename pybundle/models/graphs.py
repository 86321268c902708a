"""The base class of models of graphs; checks graphs and their labels, and joins them into arrays of all examples."""

from __future__ import annotations

from collections.abc import Sized

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import InputTypeError, ParameterError
from ..core.graph import Graph, WeightedLabels
from ..core.ragged import Ragged, array_of
from ..core.types import Array, Floats
from ..core.validation import (
    check_choice,
    check_count,
    check_indices,
    check_vector,
    integer_array,
    real_numbers,
    whole_numbers,
)
from ..features.examples import Examples
from .base import StructuredModel
from .batch_oracle import check_lengths

LOSSES = ("mean", "hamming", "balanced")
"""A loss adds for each wrong node j of weight c_j, times the weight of its class: `c_j / sum of all c`, `c_j`, or
`c_j / (K sum of the c of the true class of j)`, which gives the mean of the error rates of all K classes."""


def labels_of(y):
    return y.labels if isinstance(y, WeightedLabels) else y


def refuse_pair(name, y):
    """Refuse a plain tuple of labels and weights, which may be meant as `WeightedLabels`."""
    if type(y) is tuple and len(y) == 2 and all(np.ndim(part) == 1 for part in y):
        raise InputTypeError(f"{name} must hold a label for each node, got a tuple of two arrays; if these are labels "
                             "and weights, pass WeightedLabels(labels, weights)")


def sums(values, offsets):
    """Return the sums of `values[offsets[i]:offsets[i + 1]]`, shape (n,); empty ranges give 0."""
    item = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.bincount(item, values, len(offsets) - 1)


class GraphModel(StructuredModel):
    """Base class of models that label the nodes of graphs: sizes of features, and the costs of wrong nodes."""

    def _set_sizes(self, n_labels, n_features, n_edge_features, loss, class_weights):
        self.n_features: int = check_count("n_features", n_features)
        self.n_edge_features: int = check_count("n_edge_features", n_edge_features)
        self.loss_name: str = check_choice("loss", loss, LOSSES)
        given = np.ones(n_labels) if class_weights is None else class_weights
        self.class_weights: Floats = check_vector("class_weights", given, n_labels)
        if (self.class_weights < 0.0).any():
            raise ParameterError(f"class_weights must be >= 0, got {self.class_weights.tolist()}")

    def node_costs(self, labels: Array, weights: Array, offsets: Array) -> Array:
        """Return the cost of a wrong label at each node of graphs `offsets[i]:offsets[i + 1]`."""
        costs, n_classes = weights * self.class_weights[labels], len(self.class_weights)
        if self.loss_name == "hamming":
            return costs
        item, is_balanced = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), self.loss_name == "balanced"
        if is_balanced:
            item = n_classes * item + labels
        # a class of weight 0 has only nodes of weight 0, so any divisor will do
        totals = np.bincount(item, weights, n_classes * len(offsets))[item]
        return costs / (np.where(totals > 0.0, totals, 1.0) * (float(n_classes) if is_balanced else 1.0))

    def _loss_of(self, y, labels, y_hat, known=True):
        """Return the loss of y_hat at the nodes whose label is known; `labels` are the checked labels of y."""
        found = integer_array("y_hat", labels_of(y_hat))
        if labels.shape != found.shape:
            raise ParameterError(f"y_hat must have shape {labels.shape} like y, got {found.shape}")
        found = check_indices("y_hat", np.where(known, found, 0), len(self.class_weights))
        weights = check_vector("weights of y", y.weights, len(labels)) if isinstance(y, WeightedLabels) else np.ones(
            len(labels))
        labels, found, weights = (part[np.broadcast_to(known, labels.shape)] for part in (labels, found, weights))
        costs = self.node_costs(labels, weights, np.array([0, len(labels)]))
        return float(costs[labels != found].sum())


def read_graphs(X, n_features, n_edge_features, nonneg=True):
    """Return Ragged nodes, Ragged edges (int32) and float64 edge features of X; node features are not yet checked.

    With `nonneg` edge features must not be negative.
    """
    widths = {"nodes": n_features, "edges": 2, "edge_features": n_edge_features}
    if not isinstance(X, Graph):
        X = [check_graph(x, f"X[{i}]") for i, x in enumerate(X)]
        if len(X) == 0:
            raise ParameterError("X must hold at least one graph, got none")
        empty = np.zeros((0, n_edge_features))
        empty = sp.csr_array(empty) if any(sp.issparse(x.edge_features) for x in X) else empty
        empty = {"edges": np.zeros((0, 2), np.int32), "edge_features": empty}
        X = Graph(*(_joined(X, name, width, empty.get(name)) for name, width in widths.items()))
    elif not all(isinstance(field, Ragged) for field in X):
        kinds = ", ".join(f"{name} {type(field).__name__}" for name, field in zip(widths, X, strict=True))
        raise InputTypeError(f"X must be a sequence of graphs, or one Graph whose fields are all Ragged, got {kinds}; "
                             "for one example pass [x]")
    nodes, edges, features = X
    if not len(nodes) == len(edges) == len(features):
        raise ParameterError(f"X must hold nodes, edges and edge features of the same graphs, got {len(nodes)}, "
                             f"{len(edges)} and {len(features)}")
    for (name, width), ragged in zip(widths.items(), X, strict=True):
        _check_width(f"X[0].{name}", ragged[0], width)
    empty = np.flatnonzero(nodes.sizes == 0)
    if len(empty):
        raise ParameterError(f"X[{empty[0]}] must have at least one node, got none")
    different = np.flatnonzero(edges.sizes != features.sizes)
    if len(different):
        i = int(different[0])
        raise ParameterError(f"X[{i}].edge_features must have one row for each edge, {edges.sizes[i]} in all, got "
                             f"{features.sizes[i]}")
    return nodes, Ragged(_read_edges(edges, nodes.sizes), edges.offsets), _read_edge_features(features, nonneg)


def check_graph(x, name):
    """Return an example as a `Graph`."""
    if not isinstance(x, tuple) or len(x) != 3:
        raise InputTypeError(f"{name} must be a Graph(nodes, edges, edge_features), got {type(x).__name__}"
                             + (f" of {len(x)}" if isinstance(x, tuple) else "")
                             + (f" of shape {x.shape}" if hasattr(x, "shape") else ""))
    if x[2] is None:
        raise InputTypeError(f"{name} must have arrays edge_features (m, p), dense or CSR, got None; if all edges are "
                             "alike, pass np.ones((len(edges), 1))")
    return Graph(*x)


def _joined(graphs, field, width, empty):
    """Return one field of all graphs as a Ragged, after a check of its columns; `empty` stands for no rows."""
    kinds, arrays = "iu" if field == "edges" else "biufO", []
    for i, graph in enumerate(graphs):
        name, value = f"X[{i}].{field}", getattr(graph, field)
        if field == "edges" and sp.issparse(value):
            raise InputTypeError(f"{name} must be an array (m, 2), two nodes an edge, got a sparse matrix; of an "
                                 "adjacency A pass np.transpose(scipy.sparse.triu(A, 1).nonzero())")
        array = empty if empty is not None and _is_empty(value) else array_of(value, name, kinds)
        _check_width(name, array, width)
        arrays.append(array)
    return Ragged.of(arrays, f"{field} of X", kinds)


def _check_width(name, array, width):
    if array.ndim != 2 or array.shape[1] != width:
        argument = "n_features" if name.endswith(".nodes") else "n_edge_features"
        what = "two nodes an edge" if name.endswith(".edges") else f"the {argument} of the model"
        raise ParameterError(f"{name} must have shape (.., {width}), {what}, got {array.shape}")


def _is_empty(rows):
    """Return whether `rows` (edges or their features) is an array, sparse matrix or list of lists without rows."""
    if rows is None:
        return False
    if isinstance(rows, (list, tuple)):
        return all(isinstance(row, Sized) and len(row) == 0 for row in rows)
    return rows.shape[0] == 0 if sp.issparse(rows) else np.size(rows) == 0


def _read_edges(edges, n_nodes):
    ends = np.asarray(edges.values)
    if ends.dtype.kind not in "iu":
        raise InputTypeError(f"X[0].edges must be integers, got dtype {ends.dtype}; {whole_numbers('edges', ends)}")
    most = np.repeat(n_nodes, edges.sizes)
    wrong = (ends < 0).any(axis=1) | (ends >= most[:, None]).any(axis=1) | (ends[:, 0] == ends[:, 1])
    if wrong.any():
        i, k = edges.place(np.flatnonzero(wrong)[0])
        raise ParameterError(f"X[{i}].edges[{k}] must join two different nodes of 0..{n_nodes[i] - 1}, got "
                             f"{tuple(edges[i][k].tolist())}")
    return np.ascontiguousarray(ends, dtype=np.int32)


def _read_edge_features(features, nonneg):
    """Return edge features as a float64 array, or as a CSR array if they are sparse and may be negative."""
    if sp.issparse(features.values) and not nonneg:
        return features.values.toarray() if features.values.shape[0] == 0 else Examples(
            features.values, name_of=lambda row: features.name_of(row, field=".edge_features")).X
    values = real_numbers("X[0].edge_features must be real numbers", features.values)
    wrong = ~np.isfinite(values) | ((values < 0.0) & nonneg)
    if wrong.any():
        row, column = (int(k[0]) for k in np.nonzero(wrong))
        i, k = features.place(row)
        raise ParameterError(f"X[{i}].edge_features[{k}, {column}] must be a finite number"
                             + (" >= 0" if nonneg else "") + f", got {values[row, column]}"
                             + ("; a feature of both signs can be split into its positive and its negative part"
                                if nonneg and np.isfinite(values[row, column]) else ""))
    return values


def read_features(nodes):
    """Return `Examples` with the features of the nodes of all graphs."""
    dtype = nodes.values.dtype
    if dtype.kind not in "f" and dtype != np.uint8:
        raise InputTypeError(f"X[0].nodes must be float32, float64 or uint8, got dtype {dtype}; pass "
                             "nodes.astype(float)")
    return Examples(nodes.values, name_of=lambda row: nodes.name_of(row, field=".nodes"))


def split(Y, kinds):
    """Return labels of the kinds of dtype and weights, both Ragged, or None if none of Y has weights."""
    if isinstance(Y, WeightedLabels):
        return Ragged.of(Y.labels, "labels of Y", kinds), Ragged.of(Y.weights, "weights of Y")
    if isinstance(Y, Ragged) or not any(isinstance(y, WeightedLabels) for y in Y):
        return Ragged.of(Y, "Y", kinds), None
    weights = [y.weights if isinstance(y, WeightedLabels) else np.ones(len(y)) for y in Y]
    return Ragged.of([labels_of(y) for y in Y], "Y", kinds), Ragged.of(weights, "weights of Y")


def read_labels(Y, offsets, n_labels=2, unknown=False):
    """Return Ragged labels (int64) and weights of all nodes; Y must fit the nodes of X.

    Labels are 0..n_labels - 1, and with `unknown` also -1 for nodes whose label is not known.
    """
    if not isinstance(Y, (WeightedLabels, Ragged)):
        check_lengths(offsets[1:], Y)
        for i, y in enumerate(Y):
            refuse_pair(f"Y[{i}]", y)
    Y, weights = split(Y, "biu")
    check_lengths(offsets[1:], Y)
    for name, ragged in (("labels", Y), ("weights", weights)):
        if ragged is None:
            continue
        wrong = np.flatnonzero(ragged.sizes != np.diff(offsets)) if len(ragged) == len(Y) else [0]
        if len(wrong) or ragged.values.ndim != 1:
            i = int(wrong[0]) if len(wrong) else 0
            raise ParameterError(f"Y[{i}] must have {name} for its {offsets[i + 1] - offsets[i]} nodes, one each, got "
                                 f"shape {ragged[i].shape}")
    labels = Y.values
    if labels.dtype.kind not in "biu":
        raise InputTypeError(f"Y[0] must hold integer labels, got dtype {labels.dtype}; "
                             + whole_numbers("labels", labels))
    labels = labels.astype(np.int64)
    wrong = np.flatnonzero((labels < (-1 if unknown else 0)) | (labels >= n_labels))
    if len(wrong):
        allowed = "0 or 1" if n_labels == 2 else f"0..{n_labels - 1}"
        raise ParameterError(f"{Y.name_of(wrong[0], 'Y')} must be a label {allowed}"
                             + (", or -1 if it is not known" if unknown else "") + f", got {labels[wrong[0]]}")
    if weights is None:
        return Ragged(labels, offsets), np.ones(len(labels))
    values = real_numbers("Y[0].weights must be real numbers", weights.values)
    wrong = np.flatnonzero(~((values >= 0.0) & np.isfinite(values)))
    if len(wrong):
        raise ParameterError(f"{Y.name_of(wrong[0], 'Y', '.weights')} must be a finite number >= 0, got "
                             f"{values[wrong[0]]}")
    return Ragged(labels, offsets), values
