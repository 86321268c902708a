"""Messages between the driver and its workers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.plane import Planes
from ..core.validation import contiguous

FLOAT32 = 2.0**-24
"""Largest relative rounding error of an entry in float32, in the normal range."""
SMALLEST = 2.0**-149
"""Largest absolute rounding error of an entry in float32 below the normal range."""
PACKED_DENSE_FROM = 2.0 / 3.0
"""Fraction of non-zeros above which dense slopes in float64 take fewer bytes than CSR."""


class Question(NamedTuple):
    """A request to a group of parts.

    Attributes
    ----------
    round : int
        Number of the round, which comes back with the answer.
    kind : {"planes", "values", "describe"}
    precision : {None, "float32", "float64"}
        Working precision; None is the precision of the risk.
    single : bool
        Slopes may come back in float32.
    accuracy : float
        See `RiskBase.aim`.
    """

    round: int
    kind: str
    precision: str | None = None
    single: bool = False
    accuracy: float = np.inf


class Failure(NamedTuple):
    """An error of an oracle: the exception (None if it cannot be pickled), a text about it, the worker's traceback."""

    error: Any
    sentence: str
    trace: str


class Answer(NamedTuple):
    """The answer of a group of parts: arrays and a record, or the failure.

    Attributes
    ----------
    arrays : list of ndarray
        "planes": values, offsets and slopes, dense or as data, indices, indptr; "values": values and errors.
    seconds : float
        Time spent on the worker.
    record : object
        Answer to "describe"; to "planes" a pair: slope errors or None, and whether decoding is exact so far.
    failure : Failure or None
    """

    arrays: list
    seconds: float
    record: Any = None
    failure: Failure | None = None

    @property
    def nbytes(self):
        return sum(array.nbytes for array in self.arrays)


def pack(planes, single=False):
    """Return arrays of planes in the smaller of dense and CSR form, with slopes in float32 if `single`."""
    slopes = planes.slopes
    n_parts, dim = slopes.shape
    width = 4 if single else 8
    count = slopes.nnz if sp.issparse(slopes) else np.count_nonzero(slopes)
    if (width + 4) * count + 4 * (n_parts + 1) < width * n_parts * dim <= width * np.iinfo(np.int32).max:
        rows = sp.csr_array(slopes)
        arrays = [rows.data, rows.indices.astype(np.int32, copy=False), rows.indptr.astype(np.int32, copy=False)]
    else:
        arrays = [slopes.toarray() if sp.issparse(slopes) else np.ascontiguousarray(slopes)]
    if single:
        arrays[0] = arrays[0].astype(np.float32)
    return [planes.values, planes.offsets, *arrays]


def unpack(arrays, dim):
    """Return the planes that `pack` packed, up to the rounding of float32."""
    values, offsets, data, *indices = arrays
    # received arrays may be unaligned
    data, indices = contiguous(data, np.float64), [contiguous(array) for array in indices]
    return Planes(values, offsets, sp.csr_array((data, *indices), shape=(len(values), dim)) if indices else data)


def single_errors(sizes, dim):
    """Bound the Euclidean norm of the rounding errors of slopes in float32, from bounds on their norms."""
    return FLOAT32 * np.asarray(sizes) + np.sqrt(dim) * SMALLEST
