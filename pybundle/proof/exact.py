"""Sums and products of floats without rounding: arrays of Python integers with a common exponent, and fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import ParameterError

MOST_PRODUCTS = 100_000_000
"""Maximum number of products of integers in one computation; so many take some ten seconds."""


class ExactError(ParameterError):
    """An exact computation is impossible, or would take minutes."""


def check_size(count, what):
    """Raise ExactError if a computation takes more than MOST_PRODUCTS products."""
    if count > MOST_PRODUCTS:
        raise ExactError(f"exact=True takes up to {MOST_PRODUCTS:.0e} products, got {count:.1e} of {what}; pass "
                             "exact=False, which counts rounding errors instead")


def integers(array):
    """Return `(numbers, e)` with `array = numbers * 2^e`, numbers an array of Python integers of the same shape.

    >>> import numpy as np
    >>> numbers, e = integers(np.array([0.5, 3.0]))
    >>> [int(n) * 2.0**e for n in numbers]
    [0.5, 3.0]
    """
    array = np.asarray(array.toarray() if sp.issparse(array) else array, dtype=np.float64)
    mantissas, exponents = np.frexp(array)
    used = exponents[array != 0.0]
    least = int(used.min()) - 53 if used.size else 0
    whole = np.ldexp(mantissas, 53).astype(np.int64).astype(object)
    shifts = np.where(array != 0.0, exponents - 53 - least, 0).astype(object)
    return whole << shifts, least


def fractions(numbers, e):
    """Return the array of fractions `numbers * 2^e`."""
    unit = Fraction(2) ** e
    return np.array([n * unit for n in np.ravel(numbers)], dtype=object).reshape(np.shape(numbers))


def product(A, B):
    """Return `A @ B` of float matrices as fractions.

    >>> import numpy as np
    >>> product(np.array([[0.1, 1.0]]), np.array([[3.0], [2.0**-60]]))[0, 0] == 3 * Fraction(0.1) + Fraction(2)**-60
    True
    """
    check_size(A.shape[0] * A.shape[1] * B.shape[1], "a matrix product")
    (a, i), (b, j) = integers(A), integers(B)
    return fractions(a @ b, i + j)


def total(array):
    """Return the sum of floats as a fraction."""
    numbers, e = integers(np.ravel(array))
    return sum(numbers.tolist()) * Fraction(2) ** e


def total_of_squares(array):
    """Return `sum_j a_j^2` of a float vector as a fraction."""
    numbers, e = integers(np.ravel(array))
    return sum(n * n for n in numbers.tolist()) * Fraction(4) ** e


def at_most(parts, bound):
    """Return whether the sum of floats is at most the float `bound`; both are computed without rounding."""
    return sum(map(Fraction, parts)) <= Fraction(bound)
