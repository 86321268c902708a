"""Base class of kernels between tokens: it normalises their values, and computes and checks Gram matrices.

By default a kernel is normalised to a unit diagonal, K(x, z) / sqrt(K(x, x) K(z, z)), so that the groups of a multiple
kernel learner have the same scale. Rows of norm 0 stay 0.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import InputTypeError, ParameterError
from ..core.sparse import check_sparse
from ..core.types import Array, Data, Floats, Rows
from ..core.validation import check_choice, check_finite, check_flag, check_integer, real_numbers
from ..runtime.executors import Serial

ROWS = 512
"""Number of rows of a Gram matrix that are computed or checked at a time, so that temporary arrays stay small."""
SYMMETRY = 1e-8
"""Largest difference |K_ij - K_ji| that is accepted, relative to the largest entry."""
DEFINITE = 1e-8
"""Eigenvalues count as nonnegative if they are at least minus this fraction of the trace."""
LARGEST_CHECKED = 1000
"""Maximum number of rows of the principal minor whose eigenvalues are checked."""


def real_rows(name, X):
    """Return X, dense or CSR, as float64."""
    if not sp.issparse(X):
        return real_numbers(f"{name} must hold real numbers, got {type(X).__name__}", X)
    X = sp.csr_array(check_sparse(name, X))
    if X.dtype.kind not in "biuf":
        raise InputTypeError(f"{name} must hold real numbers, got dtype {X.dtype}")
    return X.astype(np.float64, copy=False)


def described(x):
    """Return the call that makes x as text, without arrays and defaults."""
    values = [(name, getattr(x, name, parameter.default), parameter.default)
              for name, parameter in signature(type(x)).parameters.items()]
    given = [f"{name}={value!r}" for name, value, default in values
             if not isinstance(value, np.ndarray) and value is not default and value != default]
    return f"{type(x).__name__}({', '.join(given)})"


class Kernel:
    """Base class: a subclass implements `_values(X, Z)` and `_diagonal(X)` for float64 arrays or CSR matrices.

    Parameters
    ----------
    normalise : bool, default True
        Normalise to a unit diagonal.
    columns : slice or int array, optional
        Columns of the tokens that the kernel uses, default all.
    low_rank : int, optional
        Number of features that approximate the kernel (Nystroem). A round then costs O(low_rank) for each token,
        however many tokens there are.
    """

    def __init__(self, normalise: bool = True, columns: Any = None, low_rank: int | None = None) -> None:
        check_flag("normalise", normalise)
        self.normalise: bool = bool(normalise)
        self.columns: Any = columns
        self.low_rank: int | None = None if low_rank is None else check_integer("low_rank", low_rank, low=1)

    def __repr__(self) -> str:
        return described(self)

    is_trusted = True           # whether values are known to be symmetric

    def fit(self, X: Data) -> Kernel:
        """Choose parameters that depend on the data; return the kernel itself, or a copy with these parameters."""
        return self

    def is_definite(self, X: Data) -> bool:
        """Return False only if the kernel need not be positive semidefinite on tokens such as X."""
        return True

    def __call__(self, X: Data, Z: Data = None) -> Floats:
        """Return the values of all pairs, shape (n, m); Z defaults to X.

        >>> from pybundle.mkl import Polynomial
        >>> Polynomial(2, offset=0.0)([[1.0, 0.0], [1.0, 1.0]]).round(3)
        array([[1. , 0.5],
               [0.5, 1. ]])
        """
        X = self.take(X)
        Z = X if Z is None else self.take(Z, "Z")
        if X.shape[1] != Z.shape[1]:
            raise ParameterError(f"Z must have {X.shape[1]} columns like X, got {Z.shape[1]}")
        return self._block(X, Z, self._factors(X), self._factors(Z))

    def gram(self, X: Data, precision: str = "float64", executor: Any = None) -> tuple[Array, ...]:
        """Return the Gram matrix of tokens as (array,), or as (data, indices, indptr) if it is sparse."""
        check_choice("precision", precision, ("float64", "float32"))
        X = self.take(X)
        if X.shape[0] == 0:
            raise ParameterError("X must hold at least one token, got none")
        factors, n = self._factors(X), X.shape[0]
        out = np.empty((n, n), dtype=precision)

        def block(first):
            last = min(first + ROWS, n)
            if not self.is_trusted:
                out[first:last] = self._block(X[first:last], X, factors[first:last], factors)
                return
            # mirror the lower triangle, so that the matrix is symmetric to the last bit
            out[first:last, :last] = self._block(X[first:last], X[:last], factors[first:last], factors[:last])
            square = out[first:last, first:last]
            square[:] = np.tril(square) + np.tril(square, -1).T
            out[:first, first:last] = out[first:last, :first].T

        (executor or Serial()).map(block, range(0, n, ROWS))
        check_gram(out, type(self).__name__, self.is_definite(X), self.is_trusted, executor)
        return (out,)

    def take(self, X: Data, name: str = "X") -> Rows:
        """Return the columns of X that the kernel uses, as float64."""
        X = real_rows(name, X)
        if X.ndim != 2:
            raise ParameterError(f"{name} must have shape (tokens, features), got shape {X.shape}")
        if self.columns is not None:
            try:
                is_given = not isinstance(self.columns, slice) and np.size(self.columns) > 0
                if is_given and np.asarray(self.columns).dtype.kind not in "biu":
                    raise TypeError("they are no integers")     # for NaN, SciPy reads beyond its arrays
                taken = X[:, self.columns]
            # SciPy raises NotImplementedError for 1-D arrays
            except (IndexError, TypeError, ValueError, NotImplementedError) as problem:
                raise ParameterError(f"columns of {type(self).__name__} must be columns 0..{X.shape[1] - 1} of X, got "
                                     f"{self.columns!r:.40}: {problem!s:.60}") from problem
            if taken.ndim != 2:
                raise ParameterError(f"columns of {type(self).__name__} must be a slice or a vector of columns, got "
                                     f"{self.columns!r:.40}")
            X = taken
        return check_finite(name, X)

    def _factors(self, X):
        if not self.normalise:
            return np.ones(X.shape[0])
        diagonal = self._diagonal(X)
        is_valid = np.isfinite(diagonal) & (diagonal >= 0.0)
        if not is_valid.all():
            t = int(np.argmin(is_valid))
            raise ParameterError(f"{type(self).__name__} must have a finite diagonal >= 0, got {diagonal[t]} for token "
                                 f"{t}; use another kernel on these data")
        return np.divide(1.0, np.sqrt(diagonal), out=np.zeros(len(diagonal)), where=diagonal > 0.0)

    def _block(self, X, Z, left, right):
        values = self._values(X, Z)
        if values.shape != (X.shape[0], Z.shape[0]):
            raise ParameterError(f"{type(self).__name__} must return shape {(X.shape[0], Z.shape[0])}, got "
                                 f"{values.shape}")
        if self.normalise:
            values *= left[:, None]
            values *= right
        if not np.isfinite(values).all():
            raise ParameterError(f"{type(self).__name__} must return finite values, got NaN or infinity; scale the "
                                 "features, or choose smaller parameters")
        return values

    def _values(self, X, Z):
        raise NotImplementedError

    def _diagonal(self, X):
        return np.ones(X.shape[0])


def check_gram(matrix, name, is_definite=True, is_symmetric=False, executor=None):
    """Raise an error if a matrix is not finite, symmetric and positive semidefinite.

    With `is_definite` it checks all pairs of rows and a principal minor; `is_symmetric` skips the check of symmetry.
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ParameterError(f"{name} must be a square matrix of kernel values, got shape {matrix.shape}")
    rounding = max(DEFINITE, 4.0 * float(np.finfo(matrix.dtype).eps))
    # the minor says nothing about other rows: check |K(x, z)|^2 <= K(x, x) K(z, z) for all pairs, too
    sizes = np.sqrt(np.maximum(np.diagonal(matrix), 0.0)) if is_definite and len(matrix) > LARGEST_CHECKED else None

    def check(first):
        rows = matrix[first:first + ROWS]
        if not np.isfinite(rows).all():
            raise ParameterError(f"{name} must hold finite kernel values, got NaN or infinity")
        if not is_symmetric:
            difference = np.abs(rows - matrix[:, first:first + ROWS].T)
            if difference.max() > SYMMETRY * np.abs(rows).max():
                i, j = np.unravel_index(int(difference.argmax()), difference.shape)
                raise ParameterError(f"{name} must be symmetric, got {matrix[first + i, j]:g} at ({first + i}, {j}) "
                                     f"and {matrix[j, first + i]:g} at ({j}, {first + i}); pass (K + K.T) / 2 if that "
                                     "is meant")
        if sizes is not None:
            excess = np.abs(rows) - sizes[first:first + ROWS, None] * sizes
            if excess.max() > rounding * float(sizes.max()) ** 2:
                i, j = np.unravel_index(int(excess.argmax()), excess.shape)
                raise ParameterError(f"{name} must be positive semidefinite, but the value {rows[i, j]:g} at "
                                     f"({first + i}, {j}) exceeds the geometric mean of those at ({first + i}, "
                                     f"{first + i}) and ({j}, {j}); use another kernel on these data")

    (executor or Serial()).map(check, range(0, len(matrix), ROWS))
    if not is_definite:
        return
    n = min(len(matrix), LARGEST_CHECKED)
    chosen = np.sort(np.random.default_rng(0).choice(len(matrix), n, replace=False))
    minor = np.asarray(matrix[np.ix_(chosen, chosen)], dtype=np.float64)
    tolerance = rounding * max(float(np.trace(minor)), 0.0)
    try:
        np.linalg.cholesky(minor + tolerance * np.eye(n))       # takes a tenth of the time of eigenvalues
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(minor)[0])
        if smallest < -tolerance:
            raise ParameterError(f"{name} must be positive semidefinite, but {n} of its rows have the eigenvalue "
                                 f"{smallest:.3g}; use another kernel on these data, or add {-smallest:.2g} to its "
                                 "diagonal") from None
