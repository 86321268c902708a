"""Checks of Gram matrices, and features that approximate a kernel (Nystroem)."""

from __future__ import annotations

import numpy as np

from ..core.exceptions import ParameterError
from ..runtime.executors import Serial

ROWS = 512
"""Rows of a Gram matrix computed or checked at a time, to keep temporary arrays small."""
SYMMETRY = 1e-8
"""Largest difference from symmetry allowed, relative to the largest entry."""
DEFINITE = 1e-8
"""Eigenvalues down to minus this fraction of the trace count as zero."""
LARGEST_CHECKED = 1000
"""Maximum number of rows of the principal minor whose eigenvalues are checked."""


class LowRank:
    """Features whose inner products approximate a kernel (Nystroem, with landmarks drawn at random)."""

    def __init__(self, kernel, X):
        X = kernel.take(X)
        rank = min(kernel.low_rank, X.shape[0])
        chosen = np.sort(np.random.default_rng(0).choice(X.shape[0], rank, replace=False))
        self._kernel, self._landmarks = kernel, X[chosen]
        self._factors = kernel._factors(self._landmarks)
        values = kernel._block(self._landmarks, self._landmarks, self._factors, self._factors)
        check_gram(values, type(kernel).__name__, kernel.is_definite(X))
        squares, vectors = np.linalg.eigh(values)
        # directions that hold only rounding errors would be magnified
        kept = squares > 1e-10 * squares[-1]
        self._map = vectors[:, kept] / np.sqrt(squares[kept])

    def function(self, theta):
        """Return `<theta, features>` in the form of `KernelPart.function`: the support are the landmarks."""
        return self._kernel, self._landmarks, self._map @ theta

    def __call__(self, X):
        X = self._kernel.take(X)
        return self._kernel._block(X, self._landmarks, self._kernel._factors(X), self._factors) @ self._map


def check_gram(matrix, name, is_definite=True, is_symmetric=False, executor=None):
    """Raise an error if a matrix is not finite, symmetric and positive semidefinite.

    `is_definite` asks for the check of pairs of rows and of a principal minor; `is_symmetric` skips that of symmetry.
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ParameterError(f"{name} must be a square matrix of kernel values, got shape {matrix.shape}")
    rounding = max(DEFINITE, 4.0 * float(np.finfo(matrix.dtype).eps))
    # eigenvalues of a minor show nothing about pairs outside it: check |K(x, z)|^2 <= K(x, x) K(z, z) for all pairs
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
