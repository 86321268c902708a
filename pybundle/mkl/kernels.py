"""Kernels between tokens for `OnlineMKL`; the Gram matrix of `B1Spline` is sparse, all others are dense."""

from __future__ import annotations

import collections.abc
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ..core.exceptions import InputTypeError, ParameterError
from ..core.types import Array, Data, Floats
from ..core.validation import check_choice, check_integer, check_number, real_numbers
from ..runtime.executors import Serial
from .kernel import ROWS, Kernel, check_gram

SAMPLE = 2000
"""Maximum number of tokens from which a width is chosen."""


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

    Examples
    --------
    >>> from pybundle.mkl import Polynomial
    >>> Polynomial(normalise=False)([[1.0]], [[3.0]]), Polynomial()([[1.0]], [[3.0]])
    (array([[16.]]), array([[0.8]]))
    """

    def __init__(self, degree: int = 2, offset: float = 1.0, normalise: bool = True, columns: Any = None,
                 low_rank: int | None = None) -> None:
        super().__init__(normalise, columns, low_rank)
        self.degree: int = check_integer("degree", degree, low=1)
        self.offset: float = check_number("offset", offset, low=0.0)

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

    Examples
    --------
    >>> from pybundle.mkl import Gaussian
    >>> Gaussian(sigma=2.0)([[1.0]], [[3.0]]).round(4)
    array([[0.6065]])
    """

    def __init__(self, sigma: float = 1.0, columns: Any = None, low_rank: int | None = None) -> None:
        super().__init__(False, columns, low_rank)      # needs no scaling: the diagonal is 1
        self.sigma: float = check_number("sigma", sigma, low=1e-100, high=1e100)

    def _values(self, X, Z):
        values = _distances(X, Z)
        values *= -0.5 / self.sigma**2
        return np.exp(values, out=values)


class B1Spline(Kernel):
    """Generalised B1-spline, `K(x, z) = max(0, 1 - |x - z| / width)`, whose Gram matrix is sparse.

    It is positive semidefinite on the line. In more dimensions small negative eigenvalues are possible. It still learns
    well then (Martins et al. use it so), but the objective is not convex, and nothing is certified.

    Parameters
    ----------
    width : float > 0, optional
        By default the quantile of distances for which a fraction `sparsity` of the Gram matrix is zero.
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

    def __init__(self, width: float | None = None, sparsity: float = 0.95, columns: Any = None) -> None:
        super().__init__(False, columns)
        self.width: float | None = None if width is None else check_number("width", width, low=0.0, strict=True)
        self.sparsity: float = check_number("sparsity", sparsity, low=0.0, high=1.0)

    def fit(self, X: Data) -> Kernel:
        if self.width is not None:
            return self
        X = self.take(X)
        if X.shape[0] > SAMPLE:
            X = X[np.random.default_rng(0).choice(X.shape[0], SAMPLE, replace=False)]
        distances = np.sqrt(_distances(X, X))
        least = np.min(distances, where=distances > 0.0, initial=np.inf)
        if not np.isfinite(least):
            raise ParameterError("width cannot be chosen if all tokens are equal; pass B1Spline(width=...)")
        # the quantile may be 0, if many tokens are equal
        return B1Spline(max(float(np.quantile(distances, 1.0 - self.sparsity)), float(least)), self.sparsity,
                        self.columns)

    def is_definite(self, X: Data) -> bool:
        return self.take(X).shape[1] == 1

    def gram(self, X: Data, precision: str = "float64", executor: Any = None) -> tuple[Array, Array, Array]:
        check_choice("precision", precision, ("float64", "float32"))
        X = self.take(X)

        def block(first):
            return sp.csr_array(self._values(X[first:first + ROWS], X).astype(precision, copy=False))

        matrix = sp.vstack((executor or Serial()).map(block, range(0, max(X.shape[0], 1), ROWS)), format="csr")
        return matrix.data, matrix.indices.astype(np.int32, copy=False), matrix.indptr.astype(np.int64)

    def _values(self, X, Z):
        if self.width is None:
            raise ParameterError("width is None until fit(X) chooses it; call fit first, or pass B1Spline(width=...)")
        values = _distances(X, Z)
        np.sqrt(values, out=values)
        values *= -1.0 / self.width
        values += 1.0
        return np.maximum(values, 0.0, out=values)


class Mean(Kernel):
    """The mean of several kernels as one kernel, a baseline for multiple kernel learning.

    Parameters
    ----------
    kernels : list of Kernel
    normalise, columns, low_rank
        As for every `Kernel`; the kernels choose their columns among these.
    """

    def __init__(self, kernels: Sequence[Any], normalise: bool = True, columns: Any = None,
                 low_rank: int | None = None) -> None:
        super().__init__(normalise, columns, low_rank)
        self.kernels: list[Kernel] = [as_kernel(kernel, index) for index, kernel in enumerate(kernels)]
        if not self.kernels:
            raise ParameterError("kernels must hold at least one kernel, got none")

    def fit(self, X: Data) -> Mean:
        X = self.take(X)
        return Mean([kernel.fit(X) for kernel in self.kernels], self.normalise, self.columns, self.low_rank)

    def is_definite(self, X: Data) -> bool:
        return all(kernel.is_definite(self.take(X)) for kernel in self.kernels)

    def _values(self, X, Z):
        return sum(kernel(X, Z) for kernel in self.kernels) / len(self.kernels)

    def _diagonal(self, X):
        parts = [kernel.take(X) for kernel in self.kernels]
        return sum(kernel._diagonal(part) * kernel._factors(part)**2
                   for kernel, part in zip(self.kernels, parts, strict=True)) / len(parts)


class Callable(Kernel):
    """A kernel from a function of two arrays of tokens, `function(X, Z) -> (n, m)`.

    Parameters
    ----------
    function : callable
    normalise, columns, low_rank
        As for every `Kernel`.
    """

    is_trusted = False

    def __init__(self, function: collections.abc.Callable[..., Any], normalise: bool = True, columns: Any = None,
                 low_rank: int | None = None) -> None:
        super().__init__(normalise, columns, low_rank)
        if not callable(function):
            raise InputTypeError(f"function must be callable, got {type(function).__name__}")
        self.function = function

    def _values(self, X, Z):
        values = self.function(X, Z)
        try:
            values = np.array(values, dtype=np.float64)
        except (TypeError, ValueError) as problem:
            raise ParameterError("function of Callable must return an array of numbers, got "
                                 f"{type(values).__name__}: {problem!s:.80}") from problem
        if values.shape != (X.shape[0], Z.shape[0]):
            raise ParameterError(f"function of Callable must return shape {(X.shape[0], Z.shape[0])}, got "
                                 f"{values.shape}")
        return values

    def _diagonal(self, X):
        return np.concatenate([np.diagonal(self._values(X[t:t + 64], X[t:t + 64])) for t in range(0, X.shape[0], 64)])


class Precomputed(Kernel):
    """A kernel given by the matrix of its values for all tokens, those of training and those of prediction.

    Parameters
    ----------
    matrix : array, shape (N, N)
        Symmetric, positive semidefinite.
    column : int, default 0
        Column of the tokens that holds their numbers, which are rows of the matrix.
    normalise, low_rank
        As for every `Kernel`.

    Examples
    --------
    >>> from pybundle.mkl import Precomputed
    >>> Precomputed([[4.0, 1.0], [1.0, 1.0]])([[0], [1]], [[1]])
    array([[0.5],
           [1. ]])
    """

    def __init__(self, matrix: ArrayLike, column: int = 0, normalise: bool = True, low_rank: int | None = None) -> None:
        super().__init__(normalise, [check_integer("column", column, low=0)], low_rank)
        self.matrix: Floats = real_numbers(f"matrix must hold real numbers, got {type(matrix).__name__}", matrix)
        check_gram(self.matrix, "matrix")

    def _values(self, X, Z):
        return self.matrix[np.ix_(self._numbers(X), self._numbers(Z))]

    def _diagonal(self, X):
        return np.diagonal(self.matrix)[self._numbers(X)]

    def _numbers(self, X):
        given = X.toarray().ravel() if sp.issparse(X) else X.ravel()
        numbers = given.astype(np.intp)
        if not ((numbers == given) & (numbers >= 0) & (numbers < len(self.matrix))).all():
            raise ParameterError(f"X must hold token numbers 0..{len(self.matrix) - 1}, rows of the precomputed "
                                 f"matrix, in column {self.columns[0]}")
        return numbers


def as_kernel(kernel, index):
    """Return a `Kernel`; a function is wrapped in `Callable`."""
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
    """Return |x|^2 of all rows."""
    return np.asarray(X.multiply(X).sum(axis=1)).ravel() if sp.issparse(X) else np.einsum("ij,ij->i", X, X)


def _distances(X, Z):
    """Return squared distances of all pairs. Those at the level of rounding become 0, so that equal rows have 0."""
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
