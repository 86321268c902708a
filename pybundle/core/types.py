"""Types for annotations in several folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Data: TypeAlias = Any       # examples: an array, a CSR matrix, a data frame or a sequence; each docstring says which
Callbacks: TypeAlias = Callable[[Any], Any] | Sequence[Callable[[Any], Any]] | None
PathLike: TypeAlias = str | os.PathLike[str]
Source: TypeAlias = PathLike | IO[Any]
