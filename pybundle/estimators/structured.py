"""What the estimators of structured labels share: examples come as lists, a model of `pb.models` is made from them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.exceptions import InputTypeError, ParameterError, StateError
from ..core.labels import example_weights
from ..core.ragged import Ragged
from ..models.base import check_lengths
from ..risks import Structured
from .base import CertifiedEstimator


class StructuredEstimator(CertifiedEstimator):
    """Base of the estimators of structured labels.

    Subclasses give `_learn(X, y) -> (attributes, x, truths)`, `_make_model(attributes)`, `_encode(X)` and `_predict`.
    """

    _log_loss = False

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags

    def _prepare(self, X, y, sample_weight):
        X, y = check_list("X", X), check_list("y", y)
        check_lengths(X, y)
        attributes, x, truths = self._learn(X, y)
        model = self._make_model(SimpleNamespace(**attributes))
        loss = "logistic" if self._log_loss else "hinge"
        return Structured(model, x, truths, loss=loss, sample_weight=sample_weight), attributes

    def _check_state(self):
        super()._check_state()
        if self.coef_.shape != (self.model_.dim,):
            raise StateError(f"coef_ must have the shape ({self.model_.dim},) of the model, got {self.coef_.shape}")

    @property
    def model_(self):
        """The model of `pb.models` behind the estimator, made anew from parameters and fitted attributes."""
        check_is_fitted(self)
        return self._make_model(self)

    def predict(self, X):
        """Best labellings of the examples X, as the class says."""
        model = self.model_
        return self._predict(model, self._encode(check_list("X", X)))

    def decision_function(self, X):
        """Scores `<w, Psi(x, y)>` of the predictions, shape (n,)."""
        model, x = self.model_, self._encode(check_list("X", X))
        labels = self._labels(model, x)
        return np.array([(model.joint_feature(one, label) @ self.coef_).item()
                         for one, label in zip(x, labels, strict=True)])

    def score(self, X, y, sample_weight=None):
        """Mean over the examples of what the class says, weighted; larger is better."""
        X, y = check_list("X", X), check_list("y", y)
        n = check_lengths(X, y)
        weights = example_weights(sample_weight, n)
        right, total = self._count(X, y)
        if (weights @ total) == 0.0:
            raise ParameterError("sample_weight must leave at least one example with labels, got none")
        return float(weights @ right / (weights @ total))

    def _count(self, X, y):
        """What is right in the predictions of every example, and what there is, (n,) each; `score` is the quotient."""
        raise NotImplementedError

    def _decoded(self, model, x, truths):
        """Best labellings of encoded examples by the batches of the model's oracle; `truths` are any admissible."""
        oracle = model.oracle(x, truths)
        return oracle.solve_batch(np.arange(oracle.n_examples), oracle.prepare(self.coef_), loss=False).labellings


def check_list(name, value):
    """A sequence of examples."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__") or not hasattr(value, "__getitem__"):
        raise InputTypeError(f"{name} must be a list with one entry for each example, got {type(value).__name__}")
    if len(value) == 0:
        raise ParameterError(f"{name} must hold at least one example, got none")
    # others, a column of a table for instance, may count from elsewhere than 0
    return value if isinstance(value, (list, tuple, np.ndarray, Ragged)) else list(value)


def encode_labels(y, name="y"):
    """Classes, codes and offsets of sequences of labels: `classes[codes[offsets[i]:offsets[i + 1]]]` is y[i]."""
    arrays = [np.asarray(labels) for labels in y]
    for i, labels in enumerate(arrays):
        if labels.ndim != 1:
            raise InputTypeError(f"{name}[{i}] must be a sequence of labels, got {y[i]!r:.60}")
    kinds = {labels.dtype.kind for labels in arrays if len(labels)}
    if "U" in kinds and len(kinds) > 1:
        i = next(i for i, labels in enumerate(arrays) if labels.dtype.kind != arrays[0].dtype.kind)
        raise InputTypeError(f"{name}[{i}] must hold labels of one type, texts or numbers, got {y[i]!r:.60}")
    classes, codes = np.unique(np.concatenate(arrays), return_inverse=True)
    return classes, codes.astype(np.int32), np.concatenate([[0], np.cumsum([len(labels) for labels in arrays])])
