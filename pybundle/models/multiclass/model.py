"""One label for each example: multiclass classification as a structured model."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ...core.labels import cost_matrix
from ...core.sparse import check_sparse
from ...core.types import Array, Data, Floats
from ...core.validation import check_choice, check_count, check_integer, check_vector
from ..base import StructuredModel
from ..batch_oracle import BatchOracle
from .oracle import MulticlassOracle, violations


class Multiclass(StructuredModel):
    """`<w, Psi(x, y)> = <w_y, x>`, w = W.ravel(), W (K, d); an example is a vector, a labelling its class.

    `pb.risks.MulticlassHinge` trains the same model faster; this one also has slack rescaling and the log-loss.

    Parameters
    ----------
    n_classes, n_features : int
    loss : ndarray, shape (K, K), optional
        Cost loss[y, y_hat] >= 0 with zero diagonal; None is the 0/1 loss.
    rescaling : {"margin", "slack"}

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> X, Y = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), [0, 1, 2]
    >>> risk = pb.risks.Structured(pb.models.Multiclass(3, 2), X, Y, loss="logistic")
    >>> risk.evaluate(np.zeros(6))[0] / np.log(3)
    array([3.])
    """

    def __init__(self, n_classes: int, n_features: int, loss: Any = None, rescaling: str = "margin") -> None:
        self.n_classes: int = check_count("n_classes", n_classes, low=2)
        self.n_features: int = check_count("n_features", n_features)
        self.costs: Floats = cost_matrix(loss, self.n_classes)
        if self.costs is None:
            self.costs = 1.0 - np.eye(self.n_classes)
        self.rescaling: str = check_choice("rescaling", rescaling, ("margin", "slack"))
        self.dim: int = self.n_classes * self.n_features

    def joint_feature(self, x: Any, y: Any) -> Floats:
        feature = np.zeros((self.n_classes, self.n_features))
        feature[self._label("y", y)] = self._dense(x)
        return feature.ravel()

    def loss(self, y: Any, y_hat: Any) -> float:
        return float(self.costs[self._label("y", y), self._label("y_hat", y_hat)])

    def decode(self, w: Array, x: Any) -> int:
        return int(np.argmax(self._scores(w, x)))

    def loss_augmented_decode(self, w: Array, x: Any, y: Any) -> int:
        scores, y = self._scores(w, x), self._label("y", y)
        return int(np.argmax(violations(scores[None] - scores[y], self.costs[[y]], self.rescaling)))

    def oracle(self, X: Data, Y: Data) -> BatchOracle:
        return MulticlassOracle(self, X, Y)

    def _scores(self, w, x):
        return check_vector("w", w, self.dim).reshape(self.n_classes, -1) @ self._dense(x)

    def _dense(self, x):
        return check_vector("x", check_sparse("x", x).toarray().ravel() if sp.issparse(x) else x, self.n_features)

    def _label(self, name, y):
        return check_integer(name, y, low=0, high=self.n_classes - 1)
