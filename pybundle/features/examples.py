"""`Examples` holds the rows X of a linear risk, checked and described for compiled passes; X is not copied."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any
from zlib import crc32

import numpy as np
import scipy.sparse as sp

from ..core.checksum import checksum, piece_checksum, pieces
from ..core.exceptions import InputTypeError, ParameterError
from ..core.sparse import check_sparse
from ..core.types import Array, Floats
from ..core.validation import as_array, check_number, contiguous, refuse_masked, refuse_rounded
from ._norms import square_norms
from ._rows import Rows
from ._sparse_weights import SparseWeightRows

SAMPLE = 1 << 15
"""Number of entries of a sample; a sample has at least one row."""
LARGEST_INDEX = np.iinfo(np.int32).max


class Examples:
    """Rows x_i = scale * X_i, with a constant last feature if `bias` is given.

    Parameters
    ----------
    X : ndarray (float32, float64, uint8) or CSR matrix or array (float32, float64), shape (n, d)
        Kept as it is when C-contiguous (CSR: with int32 indices); other layouts are converted once.
    scale : float
        x_i = scale * X_i; the factor multiplies w, not X.
    bias : float or None
        Value of an additional constant feature.
    name_of : callable, optional
        Returns the name of a row in messages from its index, if rows are not examples.

    Attributes
    ----------
    X : ndarray or csr_array
        The data, sharing memory with the argument if possible.
    storage : tuple
        (X,) or (data, int32 indices, int64 indptr): what the kernels read.
    norms : ndarray, shape (n,)
        |x_i| with scale and bias.
    fingerprint : int
        A checksum of all entries, scale and bias; norms would not tell indicators apart.
    is_mapped : bool
        X lies in a file that is mapped into memory; each pass reads it from there, block after block of rows.
    """

    X: Any
    storage: tuple[Array, ...]

    def __init__(self, X: Any, scale: float = 1.0, bias: float | None = None,
                 name_of: Callable[[int], str] = "row {}".format) -> None:
        self.scale: float = check_number("scale", scale, low=0.0, strict=True)
        self.bias: float | None = None if bias is None else check_number("bias", bias)
        refuse_masked("X", X)
        self.is_sparse: bool = sp.issparse(X)
        self.X, self.storage = _sparse(X) if self.is_sparse else _dense(X)
        self.n_examples: int = int(self.X.shape[0])
        self.n_features: int = int(self.X.shape[1])
        self.width: int = self.n_features + (self.bias is not None)
        if self.n_examples == 0 or self.n_features == 0:
            raise ParameterError("X must have at least one example and one feature, "
                                 f"got shape {self.X.shape}")
        # the loop goes from the view to the memory map of the file, or to None if there is no file
        mapping: Any = self.storage[0]
        while mapping is not None and not isinstance(mapping, mmap.mmap):
            mapping = mapping.obj if isinstance(mapping, memoryview) else getattr(
                mapping, "_mmap", getattr(mapping, "base", None))
        self.is_mapped: bool = mapping is not None
        if mapping is not None and hasattr(mapping, "madvise"):
            mapping.madvise(mmap.MADV_SEQUENTIAL)
        squares = self._read_mapped() if self.is_mapped and not self.is_sparse else square_norms(self.storage)
        if "fingerprint" not in vars(self):
            self.fingerprint: int = self.checksum()
        self._sample = self._sampled()
        if not np.isfinite(squares).all():
            raise ParameterError(not_finite(self.X, int(np.flatnonzero(~np.isfinite(squares))[0]), name_of))
        with np.errstate(over="ignore"):
            self.norms: Floats = np.sqrt(squares) * self.scale
            if self.bias:
                self.norms = np.hypot(self.norms, self.bias)
            overflows = ~np.isfinite(self.norms**2)
        if overflows.any():
            i = int(np.flatnonzero(overflows)[0])
            if self.bias is not None and abs(self.bias) > 1e150:
                raise ParameterError(f"bias must have a finite square, got {self.bias:g}; 100 is large enough to take "
                                     "the constant out of the penalty")
            raise ParameterError(f"scale must leave rows of finite squared norm, got {self.scale:g}, with which row "
                                 f"{i} overflows; choose a smaller scale")

    def checksum(self) -> int:
        """Compute the fingerprint again, which detects changes in place; this reads all data once.

        Files that are mapped for reading only are taken as unchanged.
        """
        if self.is_mapped and not self.storage[0].flags.writeable and "fingerprint" in vars(self):
            return self.fingerprint
        number = self._seed()
        for array in self.storage:
            number = checksum(array, number)
        return number

    def is_current(self, whole: bool = True) -> bool:
        """Return whether norms and fingerprint match the present data, or only a sample of them if not `whole`."""
        return self.checksum() == self.fingerprint if whole else self._sampled() == self._sample

    def _sampled(self):
        """Return checksums of rows or entries that lie far apart; any scaling or shift of all data changes them."""
        return tuple(checksum(np.ascontiguousarray(array[::max(1, array.size // max(SAMPLE, 16 * array[:1].size))]))
                     for array in self.storage)

    def _seed(self):
        return crc32(repr((self.X.shape, str(self.X.dtype), self.scale, self.bias)).encode())

    def _read_mapped(self):
        """Return the squared norms and store the fingerprint, in one read of the file."""
        squares, number = np.empty(self.n_examples), self._seed()
        done = 0
        for rows in pieces(self.X):
            squares[done:done + len(rows)] = square_norms((rows,))
            number = piece_checksum(rows, number)
            done += len(rows)
        self.fingerprint = number
        return squares

    def rows(self, n_scores: int, support: tuple[Array, Array] | None = None) -> Any:
        """Return the rows for products with the weights of `n_scores` linear scores.

        `support` is (starts, labels) of a sparse W, see `SparseWeightRows`, for CSR rows without scale and bias.
        """
        if support is not None:
            return SparseWeightRows(self.storage, self.norms, self.n_features, n_scores, *support)
        return Rows(self.storage, self.norms, self.n_features, n_scores, self.scale, self.bias)

    def dense(self, rows: Any) -> Floats:
        """Return some rows x_i, with scale and bias, as a dense float64 array; products with the scale are rounded."""
        X = np.asarray(self.X[rows].toarray() if self.is_sparse else self.X[rows], dtype=np.float64)
        X = X if self.scale == 1.0 else X * self.scale
        return X if self.bias is None else np.hstack([X, np.full((len(X), 1), self.bias)])

    def unscale(self, slopes: Any, n_scores: int) -> Any:
        """Convert sums of X_i (with bias) to sums of x_i in place; `slopes` are dense or CSR (.., n_scores * width)."""
        if self.scale == 1.0:
            return slopes
        if sp.issparse(slopes):
            slopes.data[slopes.indices % self.width < self.n_features] *= self.scale
        else:
            slopes.reshape(-1, n_scores, self.width)[:, :, :self.n_features] *= self.scale
        return slopes


def _dense(X):
    if not isinstance(X, np.ndarray):
        X = as_array(f"X must be a two-dimensional array or a CSR matrix, got {type(X).__name__}", X)
    if X.dtype == np.bool_:
        X = X.view(np.uint8)
    if X.dtype not in (np.float32, np.float64, np.uint8):
        if X.dtype.kind not in "iuf":
            raise InputTypeError(f"X must be float32, float64 or uint8, got dtype {X.dtype}; "
                                 "convert with X.astype(np.float64)")
        refuse_rounded("X", X)
        X = X.astype(np.float64)
    if X.ndim != 2:
        raise ParameterError(f"X must have shape (n_examples, n_features), got shape {X.shape}; "
                             "reshape images with X.reshape(len(X), -1)")
    X = contiguous(X, dtype=X.dtype.newbyteorder("="))
    return X, (X,)


def _sparse(X):
    if X.ndim != 2:
        raise ParameterError(f"X must have shape (n_examples, n_features), got shape {X.shape}")
    X = check_sparse("X", X)
    if X.format != "csr":
        X = X.tocsr()
    if X.dtype not in (np.float32, np.float64):
        if X.dtype.kind not in "biuf":
            raise InputTypeError(f"X must hold float32 or float64, got dtype {X.dtype}; "
                                 "convert with X.astype(float)")
        refuse_rounded("X", X.data)
        X = X.astype(np.float64)
    if X.shape[1] > LARGEST_INDEX:
        raise ParameterError(f"X must have fewer than 2^31 features, got {X.shape[1]}")
    storage = contiguous(X.data), contiguous(X.indices, np.int32), contiguous(X.indptr, np.int64)
    return X, storage


def not_finite(X, i, name_of):
    """Return the message for row i of X, which holds NaN or infinity, or whose norm overflows."""
    row = X[[i]].toarray().ravel() if sp.issparse(X) else X[i]
    bad = np.flatnonzero(~np.isfinite(row))
    if len(bad) == 0:
        return f"X must have rows of finite norm, but {name_of(i)} overflows; rescale the features"
    return f"X must be finite, got {row[bad[0]]} in {name_of(i)}, column {bad[0]}; drop or impute it"
