"""`BinaryLabelingSVM`: two labels for the nodes of graphs, where neighbours tend to agree."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError, StateError
from ..core.graph import Graph, WeightedLabels
from ..core.ragged import Ragged
from ..core.types import Callbacks
from ..core.validation import check_vector
from ..models import BinaryLabeling
from ..solvers.method import Method
from .labels import class_factors, encode_labels, label_array, label_classes, merged_classes
from .structured import StructuredEstimator


class BinaryLabelingSVM(StructuredEstimator):
    """Binary labels of the nodes of graphs, decoded by minimum cuts, trained to a certified gap.

        F(w) = |w|^2 / (2 C) + sum_i c_i max_y [ loss(y_i, y) + <w, Psi(x_i, y) - Psi(x_i, y_i)> ]

    with weights >= 0 on the features of edges that are cut (`pb.models.BinaryLabeling`): foreground and background of
    images, for instance, nodes being superpixels.

    X is a list of `pb.models.Graph(nodes, edges, edge_features)`, edge features being nonnegative; append a constant
    feature of nodes for a bias. y is a list of arrays of two labels, one for each node, or of
    `pb.models.WeightedLabels(labels, weights)` if nodes have different weights.

    Parameters
    ----------
    {parameters}
    loss : {"mean", "hamming", "balanced"}
        Share of wrong nodes, their number, or the mean of the shares of both true classes.
    class_weight : dict, "balanced" or None
        What a wrong node of each class counts; "balanced": in inverse proportion to the weight of the class.

    Attributes
    ----------
    coef_ : ndarray, shape (d + p,)
    classes_ : ndarray, shape (2,)
    n_features_in_, n_edge_features_ : int
        d and p, features of nodes and of edges.
    class_weight_ : ndarray, shape (2,)
    {certificate}

    Notes
    -----
    `predict` returns a list of arrays of labels; `score` is the mean over the graphs of the (weighted) fraction of
    right nodes.

    Examples
    --------
    >>> import pybundle as pb
    >>> images = pb.datasets.contrast_images(20, shape=(6, 6))
    >>> svm = pb.BinaryLabelingSVM(C=1.0).fit(images.X, images.y)
    >>> svm.score(images.X, images.y) > 0.8, svm.certified_
    (True, True)
    """

    def __init__(self, C: float = 1.0, *, loss: str = "mean", class_weight: dict[Any, float] | str | None = None,
                 tol: float = 0.001, atol: float | None = None,
                 method: str | Method = "auto", max_iter: int | None = None,
                 time_limit: float | None = None, n_jobs: int | None = None, random_state: Any = None,
                 warm_start: Any = False, verbose: int = 0, callback: Callbacks = None) -> None:
        self._take_arguments(locals())

    def _survey(self, X, y, weights):
        """Return the classes, the sums of the weights of their nodes, and the numbers of features."""
        graphs, (labels, of_nodes) = self._encode(X), _split(y)
        classes = label_classes(labels)
        codes = encode_labels(labels, classes)
        counts = _joined(codes, of_nodes) * np.repeat(weights, np.diff(codes.offsets))
        sizes = int(graphs[0].nodes.shape[1]), int(np.shape(graphs[0].edge_features)[-1])
        return classes, np.bincount(codes.values, counts, len(classes)), sizes

    def _learn(self, surveys):
        classes = merged_classes([survey[0] for survey in surveys])
        if len(classes) != 2:
            raise ParameterError(f"y must hold two classes, got {len(classes)}: {classes.tolist()[:5]}")
        if len({sizes for _, _, sizes in surveys}) > 1:
            raise ParameterError("X must have the same numbers of features in all blocks, got (of nodes, of edges) "
                                 + " and ".join(map(str, sorted({sizes for _, _, sizes in surveys}))))
        n_features, n_edge_features = surveys[0][2]
        return {"classes_": classes, "n_features_in_": n_features, "n_edge_features_": n_edge_features,
                "class_weight_": class_factors(self.class_weight, classes, surveys)}

    def _encode_pairs(self, X, y, fitted):
        labels, of_nodes = _split(y)
        codes = encode_labels(labels, fitted["classes_"])
        codes = Ragged(codes.values.astype(np.int64), codes.offsets)
        if of_nodes is not None:
            codes = WeightedLabels(codes, Ragged(_joined(codes, of_nodes), codes.offsets))
        return self._encode(X), codes

    def _check_state(self):
        if len(self.classes_) != 2 or self.class_weight_.shape != (2,):
            raise StateError("classes_ and class_weight_ must be two")
        super()._check_state()

    def _make_model(self, fitted):
        return BinaryLabeling(fitted.n_features_in_, fitted.n_edge_features_, loss=self.loss,
                              class_weights=fitted.class_weight_)

    def _encode(self, X):
        graphs = []
        for i, x in enumerate(X):
            if not isinstance(x, tuple) or len(x) != 3:
                raise InputTypeError(f"X[{i}] must be a Graph(nodes, edges, edge_features), got {type(x).__name__}")
            graph = Graph(*x)
            if len(getattr(graph.nodes, "shape", ())) != 2 or np.ndim(graph.edge_features) != 2:
                raise InputTypeError(f"X[{i}] must have arrays nodes (n, d) and edge_features (m, p), got "
                                     f"{graph.nodes!r:.60} and {graph.edge_features!r:.60}")
            graphs.append(graph)
        return graphs

    def _predict(self, model, x):
        return [self.classes_[labels] for labels in self._labels(model, x)]

    def _labels(self, model, x):
        return self._decoded(model, x, [np.zeros(graph.nodes.shape[0], np.int64) for graph in x])

    def _count(self, X, y):
        found, (labels, weights) = self.predict(X), _split(y)
        right = np.zeros(len(found))
        for i, (guess, truth) in enumerate(zip(found, labels, strict=True)):
            truth = label_array(truth, f"y[{i}]")
            if truth.shape != guess.shape:
                raise ParameterError(f"y[{i}] must have one label for each of the {len(guess)} nodes of X[{i}], got "
                                     f"shape {truth.shape}")
            counts = np.ones(len(guess)) if weights is None else weights[i]
            if not counts.sum() > 0.0:
                raise ParameterError(f"y[{i}] must weight one of its nodes above 0, got a sum of {counts.sum():g}")
            right[i] = np.average(guess == truth, weights=counts)
        return right, np.ones(len(found))


def _split(y):
    """Return the labels and the weights of nodes; the weights are None if no item has any."""
    labels = [item.labels if isinstance(item, WeightedLabels) else item for item in y]
    if not any(isinstance(item, WeightedLabels) for item in y):
        return labels, None
    return labels, [check_vector(f"y[{i}].weights", item.weights, len(item.labels))
                    if isinstance(item, WeightedLabels) else np.ones(len(item)) for i, item in enumerate(y)]


def _joined(codes, of_nodes):
    """Return the weights of all nodes, one after another."""
    return np.ones(len(codes.values)) if of_nodes is None else np.concatenate(of_nodes)
