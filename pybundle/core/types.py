"""Types for annotations in several folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import IO, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = Array | csr_array
Labels: TypeAlias = Array | list[Any]      # the labels of all examples, in their order
Data: TypeAlias = Any       # examples: an array, a CSR matrix, a data frame or a sequence; each docstring says which
Callbacks: TypeAlias = Callable[[Any], Any] | Sequence[Callable[[Any], Any]] | None
PathLike: TypeAlias = str | os.PathLike[str]
Source: TypeAlias = PathLike | IO[Any]


class Estimator(Protocol):
    """What all estimators of the package have; each class has further members."""

    def predict(self, X: Data) -> Labels: ...

    def score(self, X: Data, y: Any) -> float: ...

    def __getattr__(self, name: str) -> Any: ...
