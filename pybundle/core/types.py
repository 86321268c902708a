"""Types that annotations share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int32] | NDArray[np.int64]
Matrix: TypeAlias = ArrayLike | sp.sparray | sp.spmatrix        # rows of features, dense or sparse
Inputs: TypeAlias = Sequence[Any]                               # one item for each example, of the model's kind
Rows: TypeAlias = sp.csr_array | Array                          # slopes of planes
