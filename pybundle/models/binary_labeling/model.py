"""Binary labels of the nodes of a graph, decoded by an exact minimum cut, for example in image segmentation.

    <w, Psi(x, y)> = sum_j <w_U, f_j> (2 y_j - 1) - sum_{e = (a, b)} <w_P, f_e> [y_a != y_b],    w = [w_U | w_P],

f_j are the features of node j, and f_e >= 0 those of edge e. The weights w_P >= 0 penalise neighbours whose labels
differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ...core.exceptions import InputTypeError
from ...core.types import Array, Data, Floats
from ...core.validation import check_indices, check_vector, integer_array
from ..batch_oracle import BatchOracle
from ..graphs import GraphModel, labels_of
from .oracle import BinaryLabelingOracle


class BinaryLabeling(GraphModel):
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
    >>> graph = images.X[0]
    >>> model = pb.models.BinaryLabeling(graph.nodes.shape[1], graph.edge_features.shape[1])
    >>> result = pb.minimize(pb.risks.Structured(model, images.X, images.y), lam=1.0)
    >>> result.success, bool((result.x[model.nonneg] >= 0.0).all())
    (True, True)
    >>> model.decode(result.x, images.X[0]).shape
    (36,)
    """

    nonneg: Any

    def __init__(self, n_features: int, n_edge_features: int, loss: str = "mean", class_weights: Any = None) -> None:
        self._set_sizes(2, n_features, n_edge_features, loss, class_weights)
        self.dim: int = self.n_features + self.n_edge_features
        self.nonneg = np.arange(self.dim) >= self.n_features

    def joint_feature(self, x: Any, y: Any) -> Floats:
        oracle, rows = self._bind(x, np.zeros(integer_array("y", labels_of(y)).shape, np.int64)), np.zeros(1, np.intp)
        feature = np.zeros(self.dim)
        oracle.add_planes(rows, [labels_of(y)], np.ones(1), feature)
        nodes = oracle.nodes.values  # `add_planes` subtracted Psi of labels 0, which is minus the sum of all nodes
        feature[:self.n_features] -= np.asarray(nodes.sum(axis=0, dtype=np.float64)).ravel()
        return feature

    def loss(self, y: Any, y_hat: Any) -> float:
        return self._loss_of(y, check_indices("y", labels_of(y), 2), y_hat)

    def decode(self, w: Array, x: Any) -> Array:
        try:
            n = x[0].shape[0] if sp.issparse(x[0]) else len(x[0])
            np.shape(x[1]), np.shape(x[2])          # raises ValueError if rows differ in length
        except (TypeError, ValueError, LookupError) as problem:
            raise InputTypeError(f"x must be a Graph, got {type(x).__name__}") from problem
        return self._solve(w, x, np.zeros(n, np.int64), loss=False)

    def loss_augmented_decode(self, w: Array, x: Any, y: Any) -> Array:
        return self._solve(w, x, y, loss=True)

    def oracle(self, X: Data, Y: Data) -> BatchOracle:
        return BinaryLabelingOracle(self, X, Y)

    def _bind(self, x, y):
        return BinaryLabelingOracle(self, [x], [y])

    def _solve(self, w, x, y, loss):
        oracle = self._bind(x, y)
        weights = oracle.prepare(check_vector("w", w, self.dim))
        return oracle.solve_batch(np.zeros(1, np.intp), weights, loss).labellings[0]
