"""`BinaryLabelingSVM`: two labels for the nodes of graphs, where neighbours tend to agree."""

from __future__ import annotations

from typing import Any

from ..core.exceptions import ParameterError, StateError
from ..core.types import Callbacks
from ..models import BinaryLabeling
from ..solvers.method import Method
from .graphs import GraphEstimator


class BinaryLabelingSVM(GraphEstimator):
    """Binary labels of the nodes of graphs, decoded by minimum cuts, trained to a certified gap.

        F(w) = |w|^2 / (2 C) + sum_i c_i max_y [ loss(y_i, y) + <w, Psi(x_i, y) - Psi(x_i, y_i)> ]

    with weights >= 0 on the features of edges that are cut (`pb.models.BinaryLabeling`): foreground and background of
    images, for instance, nodes being superpixels.

    X is a list of `pb.Graph(nodes, edges, edge_features)`, edge features being nonnegative; append a constant
    feature of nodes for a bias. y is a list of arrays of two labels, one for each node, or of
    `pb.models.WeightedLabels(labels, weights)` if nodes have different weights. An image (H, W, F) in X stands for the
    graph of its pixels, `pb.Graph.from_image(image)`; its labels in y are (H, W), and so are those predicted.

    Parameters
    ----------
    {C}
    loss : {"mean", "hamming", "balanced"}
        Share of wrong nodes, their number, or the mean of the shares of both true classes.
    class_weight : dict, "balanced" or None
        What a wrong node of each class counts; "balanced": in inverse proportion to the weight of the class.
    {parameters}

    Attributes
    ----------
    coef_ : ndarray, shape (d + p,)
    classes_ : ndarray, shape (2,)
        The labels in sorted order; the second is the positive one.
    n_features_in_, n_edge_features_ : int
        d and p, features of nodes and of edges.
    class_weight_ : ndarray, shape (2,)
    {certificate}

    Notes
    -----
    `predict` returns a list of arrays of labels; `score` is the mean over the graphs of the (weighted) fraction of
    right nodes.

    `GraphSVM` takes any number of labels, and weights and edge features of any sign, for neighbours that tend to differ
    or whose direction counts. Take this class where there are two labels and neighbours tend to agree: cuts are exact,
    so that training and predictions have no gap that decoding leaves.

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

    def _choose(self, found):
        if len(found) != 2:
            raise ParameterError(f"y must hold two classes, got {len(found)}: {found.tolist()[:5]}; GraphSVM takes "
                                 "more")
        return found

    def _check_state(self):
        if len(self.classes_) != 2:
            raise StateError("classes_ must be two")
        super()._check_state()

    def _make_model(self, fitted):
        return BinaryLabeling(fitted.n_features_in_, fitted.n_edge_features_, loss=self.loss,
                              class_weights=fitted.class_weight_)
