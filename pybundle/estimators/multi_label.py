"""`MultiLabelSVM` predicts, for each row of a matrix, several labels that depend on each other."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import rel_entr

from ..core.exceptions import InputTypeError, ParameterError, StateError
from ..core.graph import Graph
from ..core.labels import example_weights
from ..core.ragged import Ragged
from ..core.types import Array, Callbacks, Floats
from ..core.validation import check_flag, integer_array, real_array, refuse_masked
from ..models import GraphLabeling
from ..models.batch_oracle import check_lengths
from ..solvers.method import Method
from .base import without_weightless
from .compat import validate_data
from .linear_classifier import FORMATS
from .probabilities import Probabilities
from .structured import BoundedEstimator


class MultiLabelSVM(Probabilities, BoundedEstimator):
    """Support vector machine for several labels of an example, with weights of pairs of labels.

        F(w) = |w|^2 / (2 C) + sum_i c_i max_y [ loss(y_i, y) + s(x_i, y) - s(x_i, y_i) ],
        s(x, y) = sum_l <u_{l, y_l}, x> + sum_{(k, l)} t_{k l}[y_k, y_l],        w = [u | t]

    for y in {0, 1}^L. Each example is a graph whose nodes are the labels (`pb.models.GraphLabeling`), with a table of
    four weights for each of its m edges (k, l). As in `GraphSVM` the maximum is over the local polytope, which is the
    set of labellings if the edges form a tree.

    X (n, d) may be dense or CSR, y (n, L) holds 0 and 1, dense or sparse, a column for each label.

    Parameters
    ----------
    edges : {"full", "tree"} or array_like of int, shape (m, 2)
        Pairs of labels that have weights: all; those of the spanning tree with the largest sum of mutual informations
        in y (Chow and Liu 1968); or those given by numbers of columns of y, [] for none.
    {C}
    loss : {"hamming", "mean", "balanced"}
        Number of wrong labels; their share; or the mean of their shares among the labels 0 and among the labels 1.
    risk : {"relaxed", "true"}
        Whether the maximum is over the local polytope or over labellings.
    fit_intercept : bool
        Whether to add a constant feature of value 1, whose weights are regularised like others.
    {parameters}

    Attributes
    ----------
    coef_ : ndarray, shape (dim,)
        u, shape (2, L, d'), then t, shape (2, 2, m), both flattened; d' is d + 1 with an intercept.
    edges_ : ndarray of int, shape (m, 2)
    n_labels_, n_features_in_ : int
        L and d, the numbers of labels and of columns of X.
    {certificate}

    Notes
    -----
    `predict` returns labels (n, L); `score` is the fraction of rows with all labels right, as for scikit-learn's
    classifiers of several labels. Without edges the labels are learned separately, and with the Hamming loss the result
    is that of `OneVsRestClassifier(LinearSVC(C=2 * C, loss="hinge"))`.

    The weights of pairs belong to a feature of value 1. If the norms of rows are much larger, these weights stay too
    small: standardise the columns and divide them by the root of their number.

    Training holds X as CSR L times, 12 bytes for each entry that is not 0, and about 70 bytes for each of the n m
    edges. A pass takes O(L nnz(X)), and up to 100 sweeps over these edges, or one if they form trees.

    Source: Finley and Joachims 2008 (training structural SVMs when exact inference is intractable).

    Examples
    --------
    >>> import pybundle as pb
    >>> from sklearn.datasets import make_multilabel_classification
    >>> X, y = make_multilabel_classification(200, n_features=10, n_classes=4,
    ...                                       random_state=0)
    >>> svm = pb.MultiLabelSVM("tree", C=0.1, tol=1e-2).fit(X, y)
    >>> svm.predict(X).shape, svm.edges_.shape, svm.certified_
    ((200, 4), (3, 2), True)
    """

    _log_loss_is = "OneVsRestClassifier(MulticlassLogistic())"

    def __init__(self, edges: Any = "full", *, C: float = 1.0, loss: str = "hamming", risk: str = "relaxed",
                 fit_intercept: bool = True, tol: float = 0.001, atol: float | None = None,
                 method: str | Method = "auto", max_iter: int | None = None, time_limit: float | None = None,
                 n_jobs: int | None = None, random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self._take_arguments(locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = tags.input_tags.sparse = True
        tags.target_tags.multi_output, tags.target_tags.single_output = True, False
        return tags

    def _listed(self, X, y):
        return X, label_matrix(y)

    def _examples(self, X):
        return validate_data(self, X, reset=False, **FORMATS)

    def _take(self, X, y, sample_weight):
        X, y = validate_data(self, X, **FORMATS), label_matrix(y)
        return without_weightless(X, y, example_weights(sample_weight, check_lengths(X, y)))

    def _survey(self, X, y, weights):
        """Return how often pairs of labels are 1 together, the sum of the weights, and the number of columns of X."""
        return (y * weights[:, None]).T @ y, float(weights.sum()), int(X.shape[1])

    def _learn(self, surveys):
        sizes = sorted({(width, len(counts)) for counts, _, width in surveys})
        if len(sizes) > 1:
            raise ParameterError(f"X and y must have the same columns in all blocks, got {sizes[0]} and {sizes[1]}")
        (n_features, n_labels), = sizes
        counts, total = (sum(survey[k] for survey in surveys) for k in range(2))
        return {"n_features_in_": n_features, "n_labels_": n_labels, "edges_": self._pairs(counts, total)}

    def _pairs(self, counts, total):
        n_labels = len(counts)
        if isinstance(self.edges, str) and self.edges == "full":
            return np.array(list(combinations(range(n_labels), 2)), dtype=np.int64).reshape(-1, 2)
        if isinstance(self.edges, str) and self.edges == "tree":
            return spanning_tree(counts / total)
        if isinstance(self.edges, str) or self.edges is None:
            raise ParameterError("edges must be 'full', 'tree' or an array (m, 2) of labels, [] for none, got "
                                 f"{self.edges!r:.60}")
        edges = integer_array("edges", self.edges)
        edges = np.empty((0, 2), np.int64) if edges.size == 0 else edges
        if edges.ndim != 2 or edges.shape[1] != 2:
            raise ParameterError(f"edges must have shape (m, 2), two labels an edge, got {edges.shape}")
        wrong = (edges < 0).any(axis=1) | (edges >= n_labels).any(axis=1) | (edges[:, 0] == edges[:, 1])
        if wrong.any():
            k = int(wrong.argmax())
            raise ParameterError(f"edges[{k}] must join two different labels of 0..{n_labels - 1}, got "
                                 f"{tuple(edges[k].tolist())}")
        return edges.astype(np.int64)

    def _encode_pairs(self, X, y, fitted):
        graphs = self._graphs(X, fitted["edges_"], fitted["n_labels_"])
        return graphs, Ragged(y.ravel(), graphs.nodes.offsets)

    def _encode(self, X):
        return self._graphs(X, self.edges_, self.n_labels_)

    def _graphs(self, X, edges, n_labels):
        """Return examples as graphs: node l has x as block l of L blocks of features, edge e has feature e equal to 1.

        All features are sparse, since dense ones would be mostly zeros.
        """
        if check_flag("fit_intercept", self.fit_intercept):
            X = sp.hstack([sp.csr_array(X), np.ones((X.shape[0], 1), dtype=X.dtype)], format="csr")
        n, m = X.shape[0], len(edges)
        nodes = sp.csr_array(X)[np.repeat(np.arange(n), n_labels)]
        label = np.repeat(np.tile(np.arange(n_labels), n), np.diff(nodes.indptr))
        nodes = sp.csr_array((nodes.data, label * X.shape[1] + nodes.indices, nodes.indptr),
                             shape=(n * n_labels, n_labels * X.shape[1]))
        pairs = sp.csr_array((np.ones(n * m), np.tile(np.arange(m), n), np.arange(n * m + 1)), shape=(n * m, max(m, 1)))
        ends = np.arange(n + 1)
        return Graph(Ragged(nodes, ends * n_labels), Ragged(np.tile(edges, (n, 1)), ends * m), Ragged(pairs, ends * m))

    def _make_model(self, fitted):
        width = fitted.n_features_in_ + bool(self.fit_intercept)
        return GraphLabeling(2, fitted.n_labels_ * width, max(len(fitted.edges_), 1), loss=self.loss, risk=self.risk)

    def _check_state(self):
        edges = self.edges_
        if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype != np.int64 or (len(edges) and not (
                0 <= edges.min() <= edges.max() < self.n_labels_ and (edges[:, 0] != edges[:, 1]).all())):
            raise StateError(f"edges_ must be pairs of different labels 0..{self.n_labels_ - 1}")
        super()._check_state()

    def _given(self, labels):
        return labels.values.reshape(-1, self.n_labels_).astype(np.int64)

    def _count(self, X, y):
        found, truth = self.predict(X), label_matrix(y)
        if found.shape != truth.shape:
            raise ParameterError(f"y must have shape {found.shape}, a column for each label, got {truth.shape}")
        return (found == truth).all(axis=1).astype(float), np.ones(len(found))


def label_matrix(y: Any) -> Array:
    """Return labels 0 and 1 as an int64 matrix (n, L)."""
    refuse_masked("y", y)
    y = y.toarray() if sp.issparse(y) else y
    try:
        values = real_array(np.asarray(y))
    except (TypeError, ValueError) as problem:      # ValueError: rows of different lengths
        raise InputTypeError("y must be a matrix (n, L) of 0 and 1, a column for each label, got a "
                             f"{type(y).__name__} of other entries; MultiLabelBinarizer makes it from lists of labels"
                             ) from problem
    if values.ndim != 2 or values.shape[1] == 0:
        raise ParameterError(f"y must have shape (n, L), a column of 0 and 1 for each label, got {values.shape}; "
                             "MultiLabelBinarizer makes it from lists of labels")
    wrong = (values != 0.0) & (values != 1.0)
    if wrong.any():
        i, k = (int(at[0]) for at in np.nonzero(wrong))
        raise ParameterError(f"y[{i}, {k}] must be 0 or 1, got {values[i, k]:g}"
                             + ("; pass y > 0" if values[i, k] == -1.0 else
                                "; leave out rows of which a label is not known" if np.isnan(values[i, k]) else ""))
    return values.astype(np.int64)


def spanning_tree(together: Floats) -> Array:
    """Return the edges (L - 1, 2) of the spanning tree with the largest sum of mutual informations.

    `together` (L, L) are the probabilities that both labels are 1.
    """
    one = np.diag(together)
    single, joint = np.stack([1.0 - one, one]), {(1, 1): together}
    joint[1, 0], joint[0, 1] = one[:, None] - together, one - together
    joint[0, 0] = 1.0 - together - joint[1, 0] - joint[0, 1]
    information = sum(rel_entr(np.where(p > 1e-12, p, 0.0), single[a][:, None] * single[b])     # a tiny p is rounding
                      for (a, b), p in joint.items())
    tree = minimum_spanning_tree(np.triu(-1.0 - information, 1)).tocoo()        # -1, as SciPy takes 0 for no edge
    ends = np.sort(np.stack([tree.row, tree.col], axis=1), axis=1).astype(np.int64)
    return ends[np.lexsort(ends.T[::-1])]
