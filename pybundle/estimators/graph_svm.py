"""`GraphSVM` labels the nodes of any graph, with any number of labels and weights of any sign."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError, StateError
from ..core.types import Callbacks
from ..models import GraphLabeling
from ..solvers.method import Method
from .graphs import GraphEstimator
from .labels import label_array
from .probabilities import Probabilities
from .structured import BoundedEstimator

UNKNOWN = "a node without a label has -1 or None in y"


class GraphSVM(Probabilities, BoundedEstimator, GraphEstimator):
    """Support vector machine that labels the nodes of graphs, with any number of labels, to a certified gap.

        F(w) = |w|^2 / (2 C) + sum_i c_i max_y [ loss(y_i, y) + <w, Psi(x_i, y) - Psi(x_i, y_i)> ]

    with scores of labels by the features of nodes, and of pairs of labels by the features of edges
    (`pb.models.GraphLabeling`). For instance, nodes are the regions of an image. By default the maximum is over the
    local polytope, which contains the labellings: this risk is convex and at least the true one, and its gap usually
    closes.

    X is a list of `pb.Graph(nodes, edges, edge_features)`, dense or CSR; append a constant feature of nodes for
    a bias. y is a list of arrays of labels, one for each node, or of `pb.models.WeightedLabels(labels, weights)` if
    nodes have different weights. A node without a label has -1 among numbers, unless `classes` holds -1, or None among
    texts or numbers; it and its edges are left out of training. An image (H, W, F) in X stands for the graph of its
    pixels, `pb.Graph.from_image(image)`; its labels in y are (H, W), and so are those predicted.

    Parameters
    ----------
    {C}
    symmetric, antisymmetric : sequence of int
        Edge features whose weights do not change, or change their sign, when the ends of an edge are exchanged; by
        default the first node of an edge and the second one differ.
    loss : {"mean", "hamming", "balanced"}
        Share of wrong nodes, their number, or the mean over all classes of the shares of their nodes.
    class_weight : dict, "balanced" or None
        Factor of a wrong node of each class; "balanced": in inverse proportion to the weight of the class.
    classes : array_like, optional
        All labels, two or more; by default those that occur in y.
    risk : {"relaxed", "true"}
        Whether the maximum is over the local polytope or over labellings; with "true" the gap may stay large.
    {parameters}

    Attributes
    ----------
    coef_ : ndarray, shape (dim,)
        `[U | P]`: K d weights of labels, then K^2 p of pairs of labels, fewer with symmetric features.
    classes_, class_weight_ : ndarray, shape (K,)
    n_features_in_, n_edge_features_ : int
        d and p, features of nodes and of edges.
    {certificate}

    Notes
    -----
    `predict` returns a list of arrays of labels of all nodes; `score` is the mean over the graphs of the (weighted)
    fraction of right nodes, among the nodes whose label is known. Graphs without any do not count.

    `BinaryLabelingSVM` is the better choice for two labels if neighbours tend to agree: its decoder is exact. It has
    weights >= 0 on features >= 0 of the edges that join different labels. Take this class for three labels or more, for
    features of both signs, or if neighbours may tend to differ.

    A pass costs a product with the features of nodes and edges, and up to 100 sweeps of O(m K^2) over the m edges.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> rng = np.random.default_rng(0)
    >>> names, edges = np.array(["sea", "sky", "land"]), [(0, 1), (1, 2), (2, 3), (3, 0)]
    >>> codes = [np.sort(rng.integers(0, 3, 4)) for _ in range(20)]
    >>> X = [pb.Graph(np.eye(3)[k] + 0.3 * rng.normal(size=(4, 3)), edges, np.ones((4, 1)))
    ...      for k in codes]
    >>> svm = pb.GraphSVM(C=10.0, symmetric=[0]).fit(X, [names[code] for code in codes])
    >>> svm.score(X, [names[code] for code in codes]) > 0.9, svm.certified_
    (True, True)
    >>> labels, value, upper = svm.decode(X)
    >>> labels[0].shape, bool((value <= upper).all())
    ((4,), True)
    """

    _log_loss_is = "ChainCRF where graphs are chains"

    def __init__(self, C: float = 1.0, *, symmetric: ArrayLike = (), antisymmetric: ArrayLike = (), loss: str = "mean",
                 class_weight: dict[Any, float] | str | None = None, classes: Any = None, risk: str = "relaxed",
                 tol: float = 0.001, atol: float | None = None, method: str | Method = "auto",
                 max_iter: int | None = None, time_limit: float | None = None, n_jobs: int | None = None,
                 random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self._take_arguments(locals())

    def _known(self, labels, name):
        known = None
        if isinstance(labels, (list, tuple)) or (
                isinstance(labels, np.ndarray) and labels.ndim and labels.dtype.kind == "O"):
            known = np.array([label is not None for label in labels], dtype=bool)
            if not known.all():
                labels = [label for label, is_known in zip(labels, known, strict=True) if is_known]
        labels = label_array(labels, name, UNKNOWN)
        known = np.ones(len(labels), dtype=bool) if known is None else known
        classes = [] if self.classes is None else label_array(self.classes, "classes", UNKNOWN).tolist()
        if labels.dtype.kind in "if" and -1 not in classes:
            has_label = labels != -1
            known[known] = has_label
            labels = labels[has_label]
        return labels, known

    def _choose(self, found):
        if self.classes is None:
            if len(found) == 0:
                raise ParameterError("y must hold at least two classes, got no node whose label is known")
            if len(found) < 2:
                raise ParameterError(f"y must hold at least two classes, got {len(found)}: {found.tolist()}; pass "
                                     "classes= if there are more, and if -1 is a label, not an unknown one")
            return found
        given = label_array(self.classes, "classes", UNKNOWN)
        classes = np.unique(given)
        if not 2 <= len(classes) == len(given):
            raise ParameterError(f"classes must be two or more different labels, got {self.classes!r:.60}")
        others = [label for label in found.tolist() if label not in set(classes.tolist())]
        if others:
            raise ParameterError(f"y must hold the labels of classes, {classes.tolist()!r:.60}, got {others[0]!r}")
        return classes

    def _check_state(self):
        # This check comes before the model is built, because tables of the model have the size checked here.
        K = len(self.classes_)
        if K * self.n_features_in_ + self.n_edge_features_ * (K * (K - 1) // 2) > self.coef_.size:
            raise StateError("coef_ must have a weight for each label and feature")
        super()._check_state()

    def _make_model(self, fitted):
        return GraphLabeling(len(fitted.classes_), fitted.n_features_in_, fitted.n_edge_features_,
                             symmetric=self.symmetric, antisymmetric=self.antisymmetric, loss=self.loss,
                             class_weights=fitted.class_weight_, risk=self.risk)

    def _given(self, labels):
        return [self.classes_[codes] for codes in labels]
