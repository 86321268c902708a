"""The risk of the margin-rescaled multiclass hinge loss (Crammer and Singer), with costs and weights."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.labels import class_labels, cost_matrix, example_weights
from ..core.types import Data
from ..core.validation import integer_array
from .label_sums import LabelSums
from .linear import LinearRisk


class MulticlassHinge(LinearRisk):
    """Multiclass hinge risk, a sum over examples.

    R(w) = sum_i c_i max_k [ L(y_i, k) + <w_k - w_{y_i}, x_i> ],     w = W.ravel(), W (K, d)

    Parameters
    ----------
    X : ndarray (float32, float64, uint8) or CSR (float32, float64), shape (n, d)
        Not copied if C-contiguous.
    y : array of int, shape (n,)
        Labels 0..K-1; each must occur unless `n_classes` is given.
    n_parts : int, optional
        Number P of parts of R; None leaves the choice to the solver.
    loss : ndarray, shape (K, K), optional
        Cost L(truth, label) >= 0 with zero diagonal; None means the 0/1 loss.
    sample_weight : array, shape (n,), optional
        Weights c_i >= 0.
    n_classes : int, optional
        K, needed if some classes do not occur in y.
    scale : float
        x_i = scale * X_i; meant for uint8 pixels (1 / 255), which are never expanded.
    bias : float, optional
        Adds a constant feature of this value as last column of W (K, d + 1). Its weight is regularised like every
        other; a large value makes this negligible.
    partition : {"strided", "contiguous", "stratified"}
        See `pybundle.risks.partition.partition`.
    random_state : int
        Seed of the partition.
    precision : {"float32", "float64"}, optional
        Precision of the scores; default float32 for float32 and uint8 data. Rows that rounding might mislabel
        are scored again in float64, so the planes are the same. float64 data always use float64, except in block
        steps on CSR rows, which enter no certificate.

    Attributes
    ----------
    dim, n_examples, n_parts, lower_bounds, n_classes, n_features, n_parts_given
        As in `LinearRisk`.

    Notes
    -----
    A pass costs O(nnz(X) K) flops and reads X once. Of tied labels the smallest is chosen.
    Source: [Crammer2001]; the partition is that of P-BMRM [Uricar2012].

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.risks import MulticlassHinge
    >>> risk = MulticlassHinge(np.eye(3), [0, 1, 2])
    >>> values, slopes = risk.evaluate(np.zeros(9))
    >>> values, slopes.shape
    (array([3.]), (1, 9))
    """

    def __init__(self, X: Data, y: ArrayLike, n_parts: int | None = None, *, loss: Any = None,
                 sample_weight: ArrayLike | None = None, n_classes: int | None = None, scale: float = 1.0,
                 bias: float | None = None, partition: str = "strided", random_state: int = 0,
                 precision: str | None = None) -> None:
        def encode(n_examples):
            labels, self.n_classes = class_labels(y, n_examples, n_classes)
            self.loss = cost_matrix(loss, self.n_classes)
            return labels, self.n_classes, self.loss, 0

        self._build(X, encode, n_parts, sample_weight, scale, bias, partition, random_state, precision,
                    example_weights)

    def _arguments(self, rows):
        return {**super()._arguments(rows), "loss": self.loss, "n_classes": self.n_classes}

    @cached_property
    def label_sums(self) -> LabelSums | None:
        """`LabelSums` if all rows have a last entry of 1; else None."""
        most = 1.0 if self.loss is None else float(np.max(self.loss))
        return LabelSums.of(self.user_rows, self.labels, self.sample_weight, self.n_classes, most)

    # the methods below serve `oracle`; y (n,) are the true labels of its examples
    def _decode(self, y, scores):
        """Return the best labels and their values, both (n,), from scores (n, K)."""
        every = np.arange(len(y))
        u = scores + self._losses(y) - scores[every, y][:, None]
        k = np.argmax(u, axis=1)
        return k, np.maximum(u[every, k], 0.0)

    def _linearise(self, y, labellings):
        """Return offsets (n,), and the classes and coefficients (n, 2) of slopes."""
        k = self._checked(np.asarray(labellings))
        moved = np.where(k == y, 0.0, 1.0)
        offsets = moved if self.loss is None else self.loss[y, k]
        return offsets, np.stack([k, y], axis=1).astype(np.int32), np.stack([moved, -moved], axis=1)

    def _checked(self, labellings):
        k = integer_array("labelling", labellings)
        bad = (k < 0) | (k >= self.n_classes)
        if bad.any():
            raise ParameterError(f"labelling must be a class 0..{self.n_classes - 1}, got {k[bad][0]}")
        return k.astype(np.int64, copy=False)

    def _labellings(self, label, coef):
        """Return labellings from the labels and coefficients of the engine."""
        return np.where(coef != 0.0, label, self.labels)

    def _losses(self, y):
        return np.arange(self.n_classes) != y[:, None] if self.loss is None else self.loss[y]
