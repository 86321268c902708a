"""A risk made from two compiled functions: one decodes an example, the other computes the plane of a labelling."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.protocols import Decodings
from ..core.validation import check_count, check_integer, check_vector, integer_array
from ..models.batch_oracle import BatchOracle
from ._compiled import CompiledFunctions, ExampleCalls
from .structured import Structured

PROBED = 64
"""Number of examples in each batch that the fingerprint evaluates."""


class ExampleFunctions(Structured):
    """Risk `R(w) = sum_i c_i max_y [ loss_i(y) + <w, psi_i(y)> ]` whose oracle is compiled code.

    Both functions run without the GIL, and with `n_jobs` in several threads. They return 0, or an error code of their
    own, which an `OracleError` reports together with the example.

    Parameters
    ----------
    solve : scipy.LowLevelCallable
        ``int solve(const double *w, int64_t dim, int64_t example, int32_t *labelling, double *value, double *upper,
        void *user_data)`` sets the labelling of largest loss plus score, and its value relative to the truth, whose
        value is 0. If the maximum is not exact, it also sets `upper`, a proven upper bound.
    plane : scipy.LowLevelCallable
        ``int plane(int64_t example, const int32_t *labelling, double *loss, int64_t *n_entries, int32_t *indices,
        double *values, void *user_data)`` sets the loss of the labelling, and psi as pairs (index, value) in any
        order; values of the same index are added.
    n_examples, dim : int
    label_size : int
        Number of integers in a labelling. They start as zeros; equal labellings must have equal planes.
    max_entries : int, optional
        Largest number of entries of psi, default `dim`.
    sizes : array of int, shape (n_examples,), optional
        Work of each example, by which shards are cut, default 64 each; with `norms` at least the number of pieces.
    norms : array, shape (n_examples,), optional
        Bounds on the sum of the norms of the pieces that psi_i(y) is added from; without them the certificate takes
        values as exact.
    fingerprint : int, optional
        A hash of the data; default a hash of the planes of the examples at w = 0.
    n_parts, sample_weight, partition, random_state
        As in `Structured`.

    Examples
    --------
    >>> import ctypes
    >>> import numpy as np
    >>> import pybundle as pb
    >>> from scipy import LowLevelCallable
    >>> number, integer = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int32)
    >>> count = ctypes.POINTER(ctypes.c_int64)
    >>> X = [2.0, -1.0]
    >>> @ctypes.CFUNCTYPE(ctypes.c_int, number, ctypes.c_int64, ctypes.c_int64, integer,
    ...                   number, number, ctypes.c_void_p)
    ... def solve(w, dim, i, labelling, value, upper, data):    # hinge loss, as an example
    ...     labelling[0] = 1.0 - w[0] * X[i] > 0.0
    ...     value[0] = max(0.0, 1.0 - w[0] * X[i])
    ...     return 0
    >>> @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, integer, number, count, integer,
    ...                   number, ctypes.c_void_p)
    ... def plane(i, labelling, loss, n_entries, indices, values, data):
    ...     loss[0] = n_entries[0] = labelling[0]
    ...     indices[0], values[0] = 0, -X[i]
    ...     return 0
    >>> functions = LowLevelCallable(solve), LowLevelCallable(plane)
    >>> risk = pb.risks.ExampleFunctions(*functions, 2, 1)
    >>> risk.evaluate(np.array([0.25]))
    (array([1.75]), array([[-1.]]))
    """

    def __init__(self, solve: Any, plane: Any, n_examples: int, dim: int, label_size: int = 1,
                 max_entries: int | None = None, *, sizes: ArrayLike | None = None, norms: ArrayLike | None = None,
                 fingerprint: int | None = None, n_parts: int | None = None, sample_weight: ArrayLike | None = None,
                 partition: str = "strided", random_state: int = 0) -> None:
        oracle = FunctionsOracle(solve, plane, n_examples, dim, label_size, max_entries, sizes, norms, fingerprint)
        rows = range(oracle.n_examples)
        super().__init__(FunctionsModel(oracle), rows, rows, n_parts, sample_weight=sample_weight,
                         partition=partition, random_state=random_state)


class FunctionsModel:
    """The model of an `ExampleFunctions` risk. Its functions hold the data, so `oracle` ignores X and Y."""

    nonneg, rescaling = None, "margin"

    def __init__(self, oracle):
        self._oracle, self.dim = oracle, oracle.dim

    def oracle(self, X, Y):
        return self._oracle


class FunctionsOracle(BatchOracle):
    """The oracle that calls `solve` and `plane` in batches; `ExampleFunctions` explains the arguments."""

    has_predictions = decodes_exactly = False

    def __init__(self, solve, plane, n_examples, dim, label_size=1, max_entries=None, sizes=None, norms=None,
                 fingerprint=None):
        self.n_examples = check_count("n_examples", n_examples)
        self.dim = check_count("dim", dim)
        self.label_size = check_count("label_size", label_size)
        max_entries = self.dim if max_entries is None else check_count("max_entries", max_entries)
        self.sizes = np.full(self.n_examples, 64) if sizes is None else self._per_example("sizes", sizes).astype(int)
        self.norms = None if norms is None else self._per_example("norms", norms)
        self._fingerprint = None if fingerprint is None else check_integer("fingerprint", fingerprint)
        self._calls = ExampleCalls(solve, plane, self.n_examples, self.dim, self.label_size, max_entries)

    def _per_example(self, name, value):
        value = check_vector(name, value, self.n_examples)
        if value.min() < 0.0:
            raise ParameterError(f"{name} must not be negative, got {value.min():g} for example {value.argmin()}")
        return value

    @property
    def fingerprint(self):
        """The number given by the caller, or else a hash of the planes that the functions return at w = 0."""
        if self._fingerprint is None:
            mark, zero = crc32(repr((self.dim, self.n_examples, self.label_size)).encode()), np.zeros(self.dim)
            for first in range(0, self.n_examples, PROBED):
                rows = np.arange(first, min(first + PROBED, self.n_examples))
                losses, slopes = self.planes(rows, self.solve_batch(rows, zero).labellings)
                for part in (losses, slopes.indptr.astype(np.int64), slopes.indices, slopes.data):
                    mark = crc32(part.tobytes(), mark)
            self._fingerprint = mark
        return self._fingerprint

    def _decode(self, rows, weights, loss):
        if len(weights) != self.dim:
            raise ParameterError(f"weights must be of shape ({self.dim},), got {np.shape(weights)}")
        return Decodings(*self._calls.solve_batch(rows, weights))

    def _planes(self, rows, labellings):
        return self._calls.planes(rows, self._checked(rows, labellings))

    def _add_planes(self, rows, labellings, scales, slope):
        return self._calls.add_planes(rows, self._checked(rows, labellings), scales, slope)

    def _compiled(self, batch):
        return CompiledFunctions(self._calls, batch)

    def _checked(self, rows, labellings):
        wanted = (len(rows), self.label_size)
        labellings, largest = integer_array("labellings", labellings), np.iinfo(np.int32).max
        if labellings.size and not -largest <= labellings.min() <= labellings.max() <= largest:
            raise ParameterError(f"labellings must be numbers of int32, got {labellings.min()}..{labellings.max()}")
        labellings = np.ascontiguousarray(labellings, dtype=np.int32)
        if labellings.size != len(rows) * self.label_size:
            raise ParameterError(f"labellings must have shape {wanted}, got {labellings.shape}")
        return labellings.reshape(wanted)
