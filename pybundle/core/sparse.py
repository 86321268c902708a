"""Checks of sparse matrices that users pass, because SciPy and the compiled kernels use indices without a check."""

from __future__ import annotations

import numpy as np

from .exceptions import InputTypeError, ParameterError


def check_sparse(name, X, error=ParameterError):
    """Return the matrix itself after a check, in O(nnz), that its indices lie inside its shape.

    SciPy checks indices only on request. A wrong index makes SciPy read or write outside of its arrays.

    Raises
    ------
    error, InputTypeError
    """
    if X.format in ("csr", "csc"):
        _check_compressed(name, X, error)
    elif X.format == "coo":
        for axis, indices in enumerate(X.coords if hasattr(X, "coords") else (X.row, X.col)):
            if len(indices) != len(X.data):
                raise error(f"{name} must be a valid COO matrix, got {len(X.data)} entries and {len(indices)} indices")
            _check_range(name, "indices", indices, X.shape[axis], error)
    elif X.format == "bsr":
        try:
            X.check_format(full_check=True)
        except ValueError as problem:
            raise error(f"{name} must be a valid BSR matrix: {problem}") from problem
    return X


def _check_compressed(name, X, error):
    rows, columns = X.shape if X.format == "csr" and len(X.shape) == 2 else (
        X.shape[::-1] if len(X.shape) == 2 else (1, X.shape[0]))
    kind, arrays = X.format.upper(), (X.data, X.indices, X.indptr)
    for part, array in zip(("data", "indices", "indptr"), arrays, strict=True):
        if not isinstance(array, np.ndarray) or array.ndim != 1:
            raise InputTypeError(f"{name}.{part} must be a vector, an ndarray, got {type(array).__name__}; see "
                                 f"{name}.check_format()")
    if X.indptr.dtype.kind != "i" or X.indices.dtype.kind != "i":
        raise InputTypeError(f"{name} must have indices of int32 or int64, got {X.indices.dtype} and {X.indptr.dtype}")
    if (len(X.indptr) != rows + 1 or X.indptr[0] != 0 or X.indptr[-1] > len(X.data) or len(X.data) != len(X.indices)
            or (np.diff(X.indptr) < 0).any()):
        raise error(f"{name} must be a valid {kind} matrix, but its indptr does not fit its data; see check_format()")
    _check_range(name, "column indices" if kind == "CSR" else "row indices", X.indices, columns, error)


def _check_range(name, what, indices, n, error):
    if len(indices) and (indices.min() < 0 or indices.max() >= n):
        raise error(f"{name} must have {what} in 0..{n - 1}, got {indices.min()}..{indices.max()}; see check_format()")
