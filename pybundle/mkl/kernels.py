"""Kernels between tokens: values, Gram matrices (dense, or sparse where the kernel has compact support), features.

A kernel is normalised to a unit diagonal unless told otherwise, K(x, z) / sqrt(K(x, x) K(z, z)), so that the groups of
a multiple kernel learner start alike; rows of zero norm stay zero.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import InputTypeError, ParameterError
from ..core.validation import check_integer, check_number, real_array

SAMPLE = 2000
"""Tokens that an automatic width looks at."""
ROWS = 512
"""Rows of a Gram matrix made at a time: such a block of products stays small."""
SYMMETRY = 1e-8
"""Largest difference from symmetry, relative to the largest entry."""
DEFINITE = 1e-8
"""Smallest eigenvalue that passes for zero, as a share of the trace, negative."""
LARGEST_CHECKED = 1000
"""Rows of the principal minor whose eigenvalues are looked at."""


class Kernel:
    """Base: a subclass gives `_values(X, Z)` and `_diagonal(X)` for float64 arrays or CSR matrices.

    Parameters
    ----------
    normalise : bool, default True
        To a unit diagonal.
    columns : slice or int array, optional
        Columns of the tokens that the kernel looks at, default all.
    low_rank : int, optional
        Approximate by that many features (Nystroem): rounds then cost `low_rank` for a token whatever the number of
        tokens.
    """

    def __init__(self, normalise=True, columns=None, low_rank=None):
        if not isinstance(normalise, (bool, np.bool_)):
            raise InputTypeError(f"normalise must be True or False, got {normalise!r}")
        self.normalise, self.columns = bool(normalise), columns
        self.low_rank = None if low_rank is None else check_integer("low_rank", low_rank, low=1)

    is_sparse = False
    is_trusted = True           # known to be symmetric

    def fit(self, X):
        """Chooses what the data decide; gives the kernel itself, or a copy with its choices."""
        return self

    def is_definite(self, X):
        """Whether the kernel is positive semidefinite on such tokens, by theory or by the check of its Gram matrix."""
        return True

    def __call__(self, X, Z=None):
        """Values of all pairs, shape (n, m); `Z=None` stands for X.

        >>> from pybundle.mkl import Polynomial
        >>> Polynomial(2, offset=0.0)([[1.0, 0.0], [1.0, 1.0]]).round(3)
        array([[1. , 0.5],
               [0.5, 1. ]])
        """
        X = self.take(X)
        Z = X if Z is None else self.take(Z)
        if X.shape[1] != Z.shape[1]:
            raise ParameterError(f"Z must have {X.shape[1]} columns like X, got {Z.shape[1]}")
        return self._block(X, Z, self._factors(X), self._factors(Z))

    def gram(self, X, precision="float64", executor=None):
        """The Gram matrix of tokens as (array,), or (data, indices, indptr) where it is sparse."""
        X = self.take(X)
        factors, n = self._factors(X), X.shape[0]
        out = np.empty((n, n), dtype=precision)

        def block(first):
            last = min(first + ROWS, n)
            if not self.is_trusted:
                out[first:last] = self._block(X[first:last], X, factors[first:last], factors)
                return
            # the lower triangle, mirrored: symmetric to the last bit
            out[first:last, :last] = self._block(X[first:last], X[:last], factors[first:last], factors[:last])
            square = out[first:last, first:last]
            square[:] = np.tril(square) + np.tril(square, -1).T
            out[:first, first:last] = out[first:last, :first].T

        _map(executor, block, range(0, n, ROWS))
        check_gram(out, type(self).__name__, self.is_definite(X))
        return (out,)

    def take(self, X):
        """The columns of X that the kernel looks at, float64."""
        if sp.issparse(X):
            X = X.tocsr().astype(np.float64, copy=False)
        else:
            try:
                X = real_array(X)
            except TypeError as problem:
                raise InputTypeError(f"X must hold real numbers, got {type(X).__name__}: {problem}") from problem
        if X.ndim != 2:
            raise ParameterError(f"X must have shape (tokens, features), got shape {X.shape}")
        if self.columns is not None:
            try:
                X = X[:, self.columns]
            except IndexError as problem:
                raise ParameterError(f"columns of {type(self).__name__} must be columns 0..{X.shape[1] - 1} of X: "
                                     f"{problem}") from problem
        return X

    def _factors(self, X):
        if not self.normalise:
            return np.ones(X.shape[0])
        diagonal = self._diagonal(X)
        if not (np.isfinite(diagonal) & (diagonal >= 0.0)).all():
            t = int(np.flatnonzero(~(np.isfinite(diagonal) & (diagonal >= 0.0)))[0])
            raise ParameterError(f"{type(self).__name__} must have a finite diagonal >= 0, got {diagonal[t]} for token "
                                 f"{t}; it is no positive semidefinite kernel on these data")
        return np.divide(1.0, np.sqrt(diagonal), out=np.zeros(len(diagonal)), where=diagonal > 0.0)

    def _block(self, X, Z, left, right):
        values = self._values(X, Z)
        if values.shape != (X.shape[0], Z.shape[0]):
            raise ParameterError(f"{type(self).__name__} must give shape {(X.shape[0], Z.shape[0])}, got "
                                 f"{values.shape}")
        if self.normalise:
            values *= left[:, None]
            values *= right
        if not np.isfinite(values).all():
            raise ParameterError(f"{type(self).__name__} must give finite values, got NaN or infinity; scale the "
                                 "features, or choose smaller parameters")
        return values

    def _values(self, X, Z):
        raise NotImplementedError

    def _diagonal(self, X):
        return np.ones(X.shape[0])


class Linear(Kernel):
    """`K(x, z) = <x, z>`.

    Examples
    --------
    >>> from pybundle.mkl import Linear
    >>> Linear(normalise=False)([[1.0, 2.0]], [[3.0, 1.0]])
    array([[5.]])
    """

    def _values(self, X, Z):
        return _products(X, Z)

    def _diagonal(self, X):
        return squares_of(X)


class Polynomial(Kernel):
    """`K(x, z) = (<x, z> + offset)^degree`.

    Parameters
    ----------
    degree : int >= 1, default 2
    offset : float >= 0, default 1
    normalise, columns, low_rank
        As for every `Kernel`.
    """

    def __init__(self, degree=2, offset=1.0, normalise=True, columns=None, low_rank=None):
        super().__init__(normalise, columns, low_rank)
        self.degree = check_integer("degree", degree, low=1)
        self.offset = check_number("offset", offset, low=0.0)

    def _values(self, X, Z):
        values = _products(X, Z)
        values += self.offset
        return _power(values, self.degree)

    def _diagonal(self, X):
        return _power(squares_of(X) + self.offset, self.degree)


class Gaussian(Kernel):
    """`K(x, z) = exp(-|x - z|^2 / (2 sigma^2))`.

    Parameters
    ----------
    sigma : float > 0, default 1
    columns, low_rank
        As for every `Kernel`.
    """

    def __init__(self, sigma=1.0, columns=None, low_rank=None):
        super().__init__(False, columns, low_rank)      # its diagonal is 1
        self.sigma = check_number("sigma", sigma, low=0.0, strict=True)

    def _values(self, X, Z):
        values = _distances(X, Z)
        values *= -0.5 / self.sigma**2
        return np.exp(values, out=values)


class B1Spline(Kernel):
    """Generalised B1-spline, `K(x, z) = max(0, 1 - |x - z| / width)`, whose Gram matrix is sparse.

    It is positive semidefinite on the line. In more dimensions small negative eigenvalues are possible: it learns well
    all the same (Martins et al. use it so), but the problem has no convex objective then, and nothing is certified.

    Parameters
    ----------
    width : float > 0, optional
        By default the quantile of distances that leaves a share `sparsity` of the Gram matrix zero.
    sparsity : float, default 0.95
    columns : slice or int array, optional

    Examples
    --------
    >>> from pybundle.mkl import B1Spline
    >>> B1Spline(width=2.0)([[0.0], [1.0], [5.0]])
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0. ],
           [0. , 0. , 1. ]])
    """

    is_sparse = True

    def __init__(self, width=None, sparsity=0.95, columns=None):
        super().__init__(False, columns)
        self.width = None if width is None else check_number("width", width, low=0.0, strict=True)
        self.sparsity = check_number("sparsity", sparsity, low=0.0, high=1.0)

    def fit(self, X):
        if self.width is not None:
            return self
        X = self.take(X)
        if X.shape[0] > SAMPLE:
            X = X[np.random.default_rng(0).choice(X.shape[0], SAMPLE, replace=False)]
        distances = np.sqrt(_distances(X, X))
        least = np.min(distances, where=distances > 0.0, initial=np.inf)
        if not np.isfinite(least):
            raise ParameterError("width cannot be chosen where all tokens are equal; pass B1Spline(width=...)")
        # many equal tokens leave a quantile of 0
        return B1Spline(max(float(np.quantile(distances, 1.0 - self.sparsity)), float(least)), self.sparsity,
                        self.columns)

    def is_definite(self, X):
        return self.take(X[:1]).shape[1] == 1

    def gram(self, X, precision="float64", executor=None):
        X = self.take(X)

        def block(first):
            return sp.csr_array(self._values(X[first:first + ROWS], X).astype(precision, copy=False))

        blocks = _map(executor, block, range(0, X.shape[0], ROWS))
        indptr = np.cumsum(np.concatenate([[0], *(np.diff(part.indptr) for part in blocks)]), dtype=np.int64)
        data, indices = np.empty(indptr[-1], dtype=precision), np.empty(indptr[-1], np.int32)
        at = 0
        for j, part in enumerate(blocks):
            data[at:at + part.nnz], indices[at:at + part.nnz] = part.data, part.indices
            at += part.nnz
            blocks[j] = None
        return data, indices, indptr

    def _values(self, X, Z):
        if self.width is None:
            raise ParameterError("width is chosen by fit(X); call it first, or pass B1Spline(width=...)")
        values = _distances(X, Z)
        np.sqrt(values, out=values)
        values *= -1.0 / self.width
        values += 1.0
        return np.maximum(values, 0.0, out=values)


class Mean(Kernel):
    """The mean of kernels, as one kernel: what multiple kernel learning is compared with.

    Parameters
    ----------
    kernels : list of Kernel
    normalise, columns, low_rank
        As for every `Kernel`; columns of the kernels count within these.
    """

    def __init__(self, kernels, normalise=True, columns=None, low_rank=None):
        super().__init__(normalise, columns, low_rank)
        self.kernels = [as_kernel(kernel, index) for index, kernel in enumerate(kernels)]
        if not self.kernels:
            raise ParameterError("kernels must hold at least one kernel, got none")

    def fit(self, X):
        X = self.take(X)
        return Mean([kernel.fit(X) for kernel in self.kernels], self.normalise, self.columns, self.low_rank)

    def is_definite(self, X):
        return all(kernel.is_definite(self.take(X)) for kernel in self.kernels)

    def _values(self, X, Z):
        return sum(kernel(X, Z) for kernel in self.kernels) / len(self.kernels)

    def _diagonal(self, X):
        parts = [kernel.take(X) for kernel in self.kernels]
        return sum(kernel._diagonal(part) * kernel._factors(part)**2
                   for kernel, part in zip(self.kernels, parts, strict=True)) / len(parts)


class Callable(Kernel):
    """Any function of two arrays of tokens, `function(X, Z) -> (n, m)`.

    Parameters
    ----------
    function : callable
    normalise, columns, low_rank
        As for every `Kernel`.
    """

    is_trusted = False

    def __init__(self, function, normalise=True, columns=None, low_rank=None):
        super().__init__(normalise, columns, low_rank)
        if not callable(function):
            raise InputTypeError(f"function must be callable, got {type(function).__name__}")
        self.function = function

    def _values(self, X, Z):
        return np.array(self.function(X, Z), dtype=np.float64)

    def _diagonal(self, X):
        return np.concatenate([np.diagonal(self._values(X[t:t + 64], X[t:t + 64])) for t in range(0, X.shape[0], 64)])


class Precomputed(Kernel):
    """A matrix of values for all tokens there are, of training and of prediction.

    The column of the tokens that the kernel looks at then holds their numbers, rows of the matrix.

    Parameters
    ----------
    matrix : array, shape (N, N)
        Symmetric, positive semidefinite.
    column : int, default 0
    normalise, low_rank
        As for every `Kernel`.

    Examples
    --------
    >>> from pybundle.mkl import Precomputed
    >>> Precomputed([[4.0, 1.0], [1.0, 1.0]])([[0], [1]], [[1]])
    array([[0.5],
           [1. ]])
    """

    def __init__(self, matrix, column=0, normalise=True, low_rank=None):
        super().__init__(normalise, [check_integer("column", column, low=0)], low_rank)
        try:
            self.matrix = real_array(matrix)
        except TypeError as problem:
            raise InputTypeError(f"matrix must hold real numbers, got {type(matrix).__name__}: {problem}") from problem
        check_gram(self.matrix, "matrix")

    def _values(self, X, Z):
        return self.matrix[np.ix_(self._numbers(X), self._numbers(Z))]

    def _diagonal(self, X):
        return np.diagonal(self.matrix)[self._numbers(X)]

    def _numbers(self, X):
        given = X.toarray().ravel() if sp.issparse(X) else X.ravel()
        numbers = given.astype(np.intp)
        if not ((numbers == given) & (numbers >= 0) & (numbers < len(self.matrix))).all():
            raise ParameterError(f"X must hold numbers of tokens 0..{len(self.matrix) - 1}, rows of the precomputed "
                                 f"matrix, in column {self.columns[0]}")
        return numbers


class LowRank:
    """Features whose inner products approximate a kernel (Nystroem, from tokens drawn at random)."""

    def __init__(self, kernel, X, random_state=0):
        X = kernel.take(X)
        rank = min(kernel.low_rank, X.shape[0])
        chosen = np.sort(np.random.default_rng(random_state).choice(X.shape[0], rank, replace=False))
        self._kernel, self._landmarks = kernel, X[chosen]
        self._factors = kernel._factors(self._landmarks)
        values = kernel._block(self._landmarks, self._landmarks, self._factors, self._factors)
        check_gram(values, type(kernel).__name__, kernel.is_definite(X))
        squares, vectors = np.linalg.eigh(values)
        # directions that rounding alone holds would come back magnified
        kept = squares > 1e-10 * squares[-1]
        self._map = vectors[:, kept] / np.sqrt(squares[kept])

    def __call__(self, X):
        X = self._kernel.take(X)
        return self._kernel._block(X, self._landmarks, self._kernel._factors(X), self._factors) @ self._map


def check_gram(matrix, name, is_definite=True):
    """Refuses a matrix that is not finite, symmetric and positive semidefinite, the last by a principal minor."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ParameterError(f"{name} must be a square matrix of kernel values, got shape {matrix.shape}")
    for first in range(0, len(matrix), ROWS):
        rows = matrix[first:first + ROWS]
        if not np.isfinite(rows).all():
            raise ParameterError(f"{name} must hold finite kernel values, got NaN or infinity")
        difference = np.abs(rows - matrix[:, first:first + ROWS].T)
        if difference.max() > SYMMETRY * np.abs(rows).max():
            i, j = np.unravel_index(int(difference.argmax()), difference.shape)
            raise ParameterError(f"{name} must be symmetric, got {matrix[first + i, j]:g} at ({first + i}, {j}) and "
                                 f"{matrix[j, first + i]:g} at ({j}, {first + i}); pass (K + K.T) / 2 if that is meant")
    if not is_definite:
        return
    n = min(len(matrix), LARGEST_CHECKED)
    chosen = np.sort(np.random.default_rng(0).choice(len(matrix), n, replace=False))
    minor = np.asarray(matrix[np.ix_(chosen, chosen)], dtype=np.float64)
    tolerance = max(DEFINITE, 4.0 * float(np.finfo(matrix.dtype).eps)) * max(float(np.trace(minor)), 0.0)
    if not _is_definite(minor, tolerance):
        smallest = float(np.linalg.eigvalsh(minor)[0])
        if smallest < -tolerance:
            raise ParameterError(f"{name} must be positive semidefinite, but the smallest eigenvalue of {n} of its "
                                 f"rows is {smallest:.3g}; it is no kernel on these data (add {-smallest:.2g} to its "
                                 "diagonal if that is meant)")


def _is_definite(matrix, shift):
    """Whether a Cholesky factor of matrix + shift exists; a tenth of the time of eigenvalues."""
    try:
        np.linalg.cholesky(matrix + shift * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True


def as_kernel(kernel, index):
    """A `Kernel`, made of a function where one is given."""
    if isinstance(kernel, Kernel):
        return kernel
    if callable(kernel) and not isinstance(kernel, type):
        return Callable(kernel)
    raise InputTypeError(f"groups[{index}] must be a kernel of pybundle.mkl, Features, or a function of two arrays, "
                         "got " + (f"the class {kernel.__name__} itself" if isinstance(kernel, type)
                            else type(kernel).__name__))


def _products(X, Z):
    values = X @ Z.T
    return values.toarray() if sp.issparse(values) else np.ascontiguousarray(values)


def squares_of(X):
    """|x|^2 of all rows."""
    return np.asarray(X.multiply(X).sum(axis=1)).ravel() if sp.issparse(X) else np.einsum("ij,ij->i", X, X)


def _distances(X, Z):
    """Squared distances; 0 for equal rows, which rounding would leave a little beside it."""
    values, left, right = _products(X, Z), squares_of(X), squares_of(Z)
    values *= -2.0
    values += left[:, None]
    values += right
    floor = 8.0 * np.finfo(float).eps * (left.max(initial=0.0) + right.max(initial=0.0))
    values[values < floor] = 0.0
    return values


def _power(values, degree):
    if degree == 1:
        return values
    with np.errstate(over="ignore"):
        return np.multiply(values, values, out=values) if degree == 2 else values**degree


def _map(executor, function, items):
    return [function(item) for item in items] if executor is None else executor.map(function, items)
