"""The base class of structured models: features, loss and decoding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ..core.types import Array, Data, Rows
from .batch_oracle import BatchOracle
from .model_oracle import ModelOracle


class StructuredModel(ABC):
    """Features, loss and decoding of one kind of structure; subclass it for your own, in plain Python.

    With `psi(y) = Psi(x, y) - Psi(x, y_i)` the risk of an example is

        max_y  loss(y_i, y) + <w, psi(y)>                 rescaling = "margin"
        max_y  loss(y_i, y) (1 + <w, psi(y)>)             rescaling = "slack"

    A model holds parameters, never data: `oracle` binds it to examples.

    Attributes
    ----------
    dim : int
        Number of weights.
    nonneg : bool array, shape (dim,), or None
        Weights that must not be negative, for instance because decoding is exact only then.
    rescaling : {"margin", "slack"}

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> class Signs(pb.models.StructuredModel):
    ...     dim = 2
    ...     def joint_feature(self, x, y):
    ...         return y * x
    ...     def loss(self, y, y_hat):
    ...         return float(y != y_hat)
    ...     def decode(self, w, x):
    ...         return 1 if w @ x >= 0.0 else -1
    ...     def loss_augmented_decode(self, w, x, y):
    ...         return max((1, -1), key=lambda z: self.loss(y, z) + z * (w @ x))
    >>> X, Y = np.array([[1.0, 2.0], [2.0, -1.0], [-1.0, -1.0]]), [1, -1, -1]
    >>> risk = pb.risks.Structured(Signs(), X, Y)
    >>> bool(pb.check_oracle(risk))
    True
    >>> pb.minimize(risk, lam=1.0, tol=1e-6).success
    True
    """

    dim: int
    nonneg: np.ndarray | None = None
    rescaling: str = "margin"

    @abstractmethod
    def joint_feature(self, x: Any, y: Any) -> Rows:
        """Psi(x, y): dense, shape (dim,), or a sparse row."""

    @abstractmethod
    def loss(self, y: Any, y_hat: Any) -> float:
        """Loss >= 0 of predicting `y_hat` where y is true; 0 for y itself."""

    @abstractmethod
    def decode(self, w: Array, x: Any) -> object:
        """Return the labelling of largest score `<w, Psi(x, y)>`."""

    @abstractmethod
    def loss_augmented_decode(self, w: Array, x: Any, y: Any) -> object:
        """Return the labelling that attains the maximum in the risk of the example (x, y).

        A run that meets a better one ends with an OracleError. A decoder that is not exact returns `Decoded`, with an
        upper bound, or declares how accurate it is (`pb.risks.Structured(..., accuracy=)`). If the method has a further
        parameter `accuracy`, it receives how close the bound should be.
        """

    def oracle(self, X: Data, Y: Data) -> BatchOracle:
        """Return the model bound to examples: batches of decodings and planes, see `BatchOracle`."""
        return ModelOracle(self, X, Y)
