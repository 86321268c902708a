"""The UCI optical digits that scikit-learn carries: 1797 real 8 x 8 images of handwritten digits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.extras import optional


class Digits(NamedTuple):
    """A fixed split into training and held-out examples.

    Attributes
    ----------
    X, X_test : ndarray of float32, shape (1437, 64) and (360, 64)
        Pixels between 0 and 1.
    y, y_test : ndarray of int, shape (1437,) and (360,)
        Digits 0 to 9.
    """

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def load_digits() -> Digits:
    """Loads the digits from scikit-learn; every fifth image is held out.

    Returns
    -------
    Digits
        `X, y, X_test, y_test`.

    Raises
    ------
    ImportError
        Without scikit-learn.

    Examples
    --------
    >>> from pybundle.datasets import load_digits
    >>> X, y, X_test, y_test = load_digits()
    >>> X.shape, X_test.shape
    ((1437, 64), (360, 64))
    """
    X, y = optional("sklearn.datasets", "the digits come with scikit-learn", "sklearn").load_digits(return_X_y=True)
    X = np.ascontiguousarray(X / 16.0, dtype=np.float32)
    held_out = np.arange(len(y)) % 5 == 0
    return Digits(X[~held_out], y[~held_out], X[held_out], y[held_out])
