"""`GraphEstimator`, the base class of estimators that label the nodes of graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.exceptions import InputTypeError, LabelWarning, ParameterError, StateError
from ..core.graph import Graph, WeightedLabels
from ..core.images import image_graph
from ..core.measurements import warn_of_measurements
from ..core.ragged import Ragged
from ..core.validation import as_array, check_vector
from ..core.warn import warn_user
from ..models.graphs import check_graph, refuse_pair
from .labels import check_kind, class_factors, label_array, merged_classes
from .structured import StructuredEstimator

VOID = 255
"""Masks often have this value where the label of a pixel is not known."""


def is_image(x):
    """Return whether an example is an image (H, W, F), which stands for the graph of its pixels.

    A matrix is none: it may be the features of nodes, or a row of pixels of one image that is not in a list.
    """
    return isinstance(x, np.ndarray) and x.ndim == 3


class GraphEstimator(StructuredEstimator):
    """Base class of estimators of labels of nodes.

    Subclasses define `_make_model` and `_choose(found)`, which returns the classes, given those in y. They may define
    `_known(labels, name)`, which returns the labels of the nodes that have one, and a mask of these nodes.
    """

    class_weight: Any

    def _known(self, labels, name):
        labels = label_array(labels, name, "every node needs a label; GraphSVM takes nodes without one")
        return labels, np.ones(len(labels), dtype=bool)

    def _nodes(self, X, y):
        """Return three lists: labels of the known nodes, masks of these nodes, and weights of all nodes."""
        labels, known, weights = [], [], []
        for i, (x, item) in enumerate(zip(X, y, strict=True)):
            is_weighted = isinstance(item, WeightedLabels)
            refuse_pair(f"y[{i}]", item)
            if is_image(x) and not is_weighted:
                shape = as_array(f"y[{i}] must be the labels of the pixels", item).shape
                if shape not in (x.shape[:2], (x.shape[0] * x.shape[1],)):
                    raise ParameterError(f"y[{i}] must have the shape {x.shape[:2]} of the image X[{i}], got {shape}")
                item = item if len(shape) == 1 else np.ravel(item)
            values, are_known = self._known(item.labels if is_weighted else item, f"y[{i}]")
            labels.append(values)
            known.append(are_known)
            weights.append(check_vector(f"y[{i}].weights", item.weights, len(are_known)) if is_weighted
                           else np.ones(len(are_known)))
        return labels, known, weights

    def _survey(self, X, y, weights):
        """Return the classes, the sums of the weights of their nodes, and the numbers of features."""
        graphs, (labels, known, of_nodes) = self._encode(X), self._nodes(X, y)
        classes = merged_classes(labels)
        if classes.dtype.kind in "iuf":
            warn_of_measurements(np.concatenate(labels))
            is_new = getattr(self, "classes", VOID) is None
            if is_new and VOID in classes and len(classes) > 2 and any(map(is_image, X)):
                warn_user(f"y holds {VOID} beside {len(classes) - 1} other labels, and it becomes a class; if it marks "
                          f"pixels whose label is not known, pass np.where(mask == {VOID}, -1, mask.astype(int)), else "
                          "name all labels by classes=", LabelWarning)
        counts = np.zeros(len(classes))
        for values, are_known, own, c in zip(labels, known, of_nodes, weights, strict=True):
            if len(values):
                counts += c * np.bincount(np.searchsorted(classes, values), own[are_known], len(classes))
        return classes, counts, (int(graphs[0].nodes.shape[1]), int(np.shape(graphs[0].edge_features)[-1]))

    def _learn(self, surveys):
        classes = self._choose(merged_classes([survey[0] for survey in surveys]))
        if len({sizes for _, _, sizes in surveys}) > 1:
            raise ParameterError("X must have the same numbers of features in all blocks, got (of nodes, of edges) "
                                 + " and ".join(map(str, sorted({sizes for _, _, sizes in surveys}))))
        n_features, n_edge_features = surveys[0][2]
        if any(len(counts) for _, counts, _ in surveys) and not any(counts.any() for _, counts, _ in surveys):
            raise ParameterError("y must weight at least one node above 0, got a sum of 0")
        return {"classes_": classes, "n_features_in_": n_features, "n_edge_features_": n_edge_features,
                "class_weight_": class_factors(self.class_weight, classes, surveys)}

    def _encode_pairs(self, X, y, fitted):
        """Return graphs and codes of labels, -1 for nodes without a label; the codes have weights if y has any."""
        labels, known, of_nodes = self._nodes(X, y)
        offsets = np.concatenate([[0], np.cumsum([len(one) for one in known])])
        codes = np.full(offsets[-1], -1, dtype=np.int64)
        codes[np.concatenate(known)] = np.concatenate([
            np.searchsorted(fitted["classes_"], values) for values in labels if len(values)] or [[]])
        codes = Ragged(codes, offsets)
        if any(isinstance(item, WeightedLabels) for item in y):
            codes = WeightedLabels(codes, Ragged(np.concatenate(of_nodes), offsets))
        return self._encode(X), codes

    def _check_state(self):
        if self.class_weight_.shape != self.classes_.shape:
            raise StateError("class_weight_ must be as long as classes_")
        super()._check_state()

    def _encode(self, X):
        graphs = []
        for i, x in enumerate(X):
            if isinstance(x, np.ndarray) and x.ndim == 2:
                raise InputTypeError(f"X must be a list of images (H, W, F), of grey ones image[:, :, None], or of "
                                     f"pb.Graph(nodes, edges, edge_features), got X[{i}] of shape {x.shape}")
            graph = Graph(*image_graph(x, name=f"X[{i}]")) if is_image(x) else check_graph(x, f"X[{i}]")
            for name, value, is_array in (("nodes (n, d)", graph.nodes, hasattr(graph.nodes, "shape")),
                                          ("edge_features (m, p)", graph.edge_features, True)):
                if not is_array or np.ndim(value) != 2:
                    got = f"shape {value.shape}" if hasattr(value, "shape") else type(value).__name__
                    raise InputTypeError(f"X[{i}] must have arrays {name}, dense or CSR, got {got}")
            graphs.append(graph)
        return graphs

    def _shaped(self, X, found):
        return [labels.reshape(x.shape[:2]) if is_image(x) else labels for x, labels in zip(X, found, strict=True)]

    def _predict(self, model, x):
        return [self.classes_[labels] for labels in self._labels(model, x)]

    def _labels(self, model, x):
        return self._decoded(model, x, [np.zeros(graph.nodes.shape[0], np.int64) for graph in x])

    def _count(self, X, y):
        found, (labels, known, weights) = list(map(np.ravel, self.predict(X))), self._nodes(X, y)
        right, graded = np.zeros(len(found)), np.ones(len(found))
        for i, (guess, truth) in enumerate(zip(found, labels, strict=True)):
            if known[i].shape != guess.shape:
                raise ParameterError(f"y[{i}] must have one label for each node of X[{i}], {len(guess)} in all, got "
                                     f"shape {known[i].shape}")
            check_kind(truth, self.classes_, f"y[{i}]")
            counts = weights[i][known[i]]
            if len(counts) == 0:
                graded[i] = 0.0
            elif not counts.sum() > 0.0:
                raise ParameterError(f"y[{i}] must weight one of its nodes above 0, got a sum of {counts.sum():g}")
            else:
                right[i] = np.average(guess[known[i]] == truth, weights=counts)
        return right, graded
