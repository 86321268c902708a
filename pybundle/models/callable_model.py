"""Models made of two functions."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import InputTypeError, OracleError
from .base import StructuredModel
from .batch_oracle import check_lengths
from .model_oracle import ModelOracle, checked_loss


class CallableModel(StructuredModel):
    """A model from two functions: `joint_feature(x, y)` and `loss_augmented_decode(w, x, y) -> (y_hat, loss)`.

    The second may return `Decoded((y_hat, loss), upper)`.
    """

    def __init__(self, joint_feature, loss_augmented_decode, dim):
        if not callable(loss_augmented_decode):
            raise InputTypeError(f"loss_augmented_decode must be callable, got {type(loss_augmented_decode).__name__}")
        self._feature, self._decode, self.dim = joint_feature, loss_augmented_decode, dim

    def joint_feature(self, x, y):
        return self._feature(x, y)

    def loss(self, y, y_hat):
        raise NotImplementedError("the loss is known only for the labellings that loss_augmented_decode returns")

    def decode(self, w, x):
        raise NotImplementedError("a pair of callables cannot predict; subclass pb.models.StructuredModel")

    def loss_augmented_decode(self, w, x, y):
        return self._decode(w, x, y)

    def oracle(self, X, Y):
        return CallableOracle(self, X, Y)


class CallableOracle(ModelOracle):
    """A `CallableModel` bound to examples: a labelling is the pair (y_hat, loss) that the decoder returned."""

    def _loss(self, i, y_hat):
        if not isinstance(y_hat, tuple) or len(y_hat) != 2:
            raise OracleError("loss_augmented_decode must return a pair (y_hat, loss), "
                              f"got {type(y_hat).__name__} for example {i}")
        return checked_loss(y_hat[1], i)

    def _feature_of(self, i, y_hat):
        return self._feature(i, y_hat[0])

    def _true_labelling(self, i):
        return self._Y[i], 0.0

    def _decoder(self):
        return self.model._decode


def as_model(model, X, Y):
    """Return a `StructuredModel`: the given one, or one made from a pair of callables."""
    if isinstance(model, tuple) and len(model) == 2:
        check_lengths(X, Y)
        if not callable(model[0]):
            raise InputTypeError(f"joint_feature must be callable, got {type(model[0]).__name__}")
        feature = model[0](X[0], Y[0])
        return CallableModel(*model, int(np.prod(feature.shape)) if sp.issparse(feature) else np.size(feature))
    if not hasattr(model, "oracle") or isinstance(model, type):
        raise InputTypeError("model must be a StructuredModel or a pair (joint_feature, loss_augmented_decode), got "
                             + (f"the class {model.__name__} itself" if isinstance(model, type)
                                else type(model).__name__))
    return model
