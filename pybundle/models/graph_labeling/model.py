"""Labels of the nodes of any graph: regions of images, pixels, labels of an object that depend on each other.

    <w, Psi(x, y)> = sum_j <U_{y_j}, f_j> + sum_{e = (a, b)} <P_{y_a y_b}, f_e>,        w = [U | P],

f_j are the features of node j, f_e those of edge e. The best labelling is hard to find on graphs with cycles; what can
be computed and proven is the maximum over the local polytope, which is at least the score of the best labelling.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...core.exceptions import InputTypeError
from ...core.ragged import Ragged, cut
from ...core.types import Array, Data, Floats
from ...core.validation import check_choice, check_indices, check_integer, check_vector, integer_array
from ...oracles.graph_labeling import MAX_LABELS, GraphLabels, graph_labeling_batch
from ..batch_oracle import BatchOracle
from ..graphs import GraphModel, labels_of
from .oracle import GraphLabelingOracle
from .pair_weights import PairWeights, require_memory_of

DECODED = 1 << 22
"""Number of scores that `decode_batch` holds at a time."""


class GraphLabeling(GraphModel):
    """K labels of the nodes of graphs, with weights of any sign on pairs of labels.

    Parameters
    ----------
    n_labels : int
        Number K >= 2 of labels.
    n_features : int
        Features d of a node; append a constant one for a bias.
    n_edge_features : int
        Features p >= 1 of an edge, of any sign; a constant one makes all edges alike.
    symmetric, antisymmetric : sequence of int
        Edge features whose weights do not change, or change their sign, when the ends of an edge are exchanged.
    loss : {"mean", "hamming", "balanced"}
        As in `BinaryLabeling`: a wrong node j of weight c_j costs "mean": `c_j / (sum of all c)`; "hamming": `c_j`;
        "balanced": `c_j / (K sum of the c of its true class)`.
    class_weights : array_like, shape (K,), optional
        Factors of c_j by true label.
    risk : {"relaxed", "true"}
        "relaxed": the maximum of the hinge loss is over the local polytope. This risk is convex and at least the true
        one, and the gap usually closes. "true": the maximum is over labellings; F is computed from upper bounds, and
        the part of the gap that decoding leaves (`result.inference_gap`) may stay large if there are many features.

    Notes
    -----
    X and Y are as for `BinaryLabeling`, with labels 0..K - 1; features of nodes and of edges may be sparse (CSR). The
    label -1 means unknown: the node and its edges are left out of training and of the loss. Predictions label all
    nodes, and are labellings for both risks.

    Tables of parallel edges are summed before the maximum is relaxed: this makes the relaxed maximum smaller.
    Decoding is exact for forests, and for two labels with submodular tables; else it is sequential tree-reweighted
    message passing, for the relaxed risk with a soft second stage, see `pb.oracles.graph_relaxation`. Messages are kept
    during a run, 16 m K bytes for a graph of m edges, but not in its checkpoint: a resumed run is certified like any
    other, but its numbers are not bit for bit those of an uninterrupted run.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> rng = np.random.default_rng(0)
    >>> edges = [(0, 1), (1, 2), (2, 3), (3, 0)]
    >>> Y = [np.sort(rng.integers(0, 3, 4)) for _ in range(20)]
    >>> X = [pb.Graph(np.eye(3)[y] + rng.normal(size=(4, 3)), edges, np.ones((4, 1)))
    ...      for y in Y]
    >>> model = pb.models.GraphLabeling(3, 3, 1, symmetric=[0])
    >>> result = pb.minimize(pb.risks.Structured(model, X, Y), lam=1.0)
    >>> result.success, result.risk, model.decode(result.x, X[0]).shape
    (True, 'relaxed', (4,))
    """

    def __init__(self, n_labels: int, n_features: int, n_edge_features: int, *, symmetric: ArrayLike = (),
                 antisymmetric: ArrayLike = (), loss: str = "mean", class_weights: Any = None,
                 risk: str = "relaxed") -> None:
        self.n_labels: int = check_integer("n_labels", n_labels, low=2, high=MAX_LABELS)
        self._set_sizes(self.n_labels, n_features, n_edge_features, loss, class_weights)
        require_memory_of(self)
        self.pair_weights: Any = PairWeights(self.n_labels, self.n_edge_features, symmetric, antisymmetric)
        self.risk: str = check_choice("risk", risk, ("relaxed", "true"))
        self.dim: int = self.n_labels * self.n_features + self.pair_weights.size

    def joint_feature(self, x: Any, y: Any) -> Floats:
        oracle = self._bind(x, None)
        labels = check_indices("y", labels_of(y), self.n_labels)
        return oracle.feature_of(labels)

    def loss(self, y: Any, y_hat: Any) -> float:
        labels = integer_array("y", labels_of(y))
        known = labels != -1
        return self._loss_of(y, check_indices("y", np.where(known, labels, 0), self.n_labels), y_hat, known)

    def decode(self, w: Array, x: Any) -> Array:
        return self._labels(self._bind(x, None), w, loss=False)

    def decode_batch(self, w: Array, X: Data) -> GraphLabels:
        """Label many graphs, with scores and bounds on all scores.

        Parameters
        ----------
        w : ndarray, shape (dim,)
        X : sequence of Graph, or Graph of three Ragged

        Returns
        -------
        GraphLabels
            `labels`, a Ragged; `value` (n,), the scores `<w, Psi(x, labels)>`; `upper` (n,), bounds on the scores of
            all labellings, up to the rounding of sums over features.
        """
        oracle = GraphLabelingOracle(self, X, None)
        weights, parts = oracle.prepare(check_vector("w", w, self.dim)), cut(oracle.sizes, DECODED)
        found = [graph_labeling_batch(*oracle.scores(np.arange(*part), weights), tol=0.0) for part in parts]
        labels, value, upper = map(np.concatenate, zip(*found, strict=True))
        return GraphLabels(Ragged(labels, oracle.nodes.offsets), value, upper)

    def loss_augmented_decode(self, w: Array, x: Any, y: Any) -> Array:
        """Return the best labelling found; on graphs with cycles it need not be the best one.

        Nodes whose label in y is unknown have -1, since they are left out.
        """
        oracle, known = self._bind(x, y), np.asarray(labels_of(y)) != -1
        labels = np.full(len(known), -1)
        labels[known] = self._labels(oracle, w, loss=True)
        return labels

    def oracle(self, X: Data, Y: Data) -> BatchOracle:
        return GraphLabelingOracle(self, X, Y)

    def _bind(self, x, y):
        """Return the oracle of one graph; without y all true labels are 0."""
        try:
            x[0], np.shape(x[1]), np.shape(x[2])        # raises ValueError if rows differ in length
        except (TypeError, ValueError, LookupError) as problem:
            raise InputTypeError(f"x must be one Graph, got {type(x).__name__}; decode_batch takes many") from problem
        return GraphLabelingOracle(self, [x], None if y is None else [y])

    def _labels(self, oracle, w, loss):
        weights = oracle.prepare(check_vector("w", w, self.dim))
        return oracle.label(np.zeros(1, np.intp), weights, loss).labels
