"""Strings of scikit-learn's digits from a Markov chain, in which neighbours help to read an image."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.exceptions import ParameterError
from ..core.ragged import Ragged
from ..core.validation import check_count, check_flag, check_integer, check_number
from .digits import load_digits


class DigitStrings(NamedTuple):
    """Strings of digit images.

    Attributes
    ----------
    X : Ragged of float32, item i of shape (length of string i, 64)
        Pixels, between 0 and 1 without noise.
    y : Ragged of int32
        Digits 0 to 9.
    transition : ndarray, shape (10, 10)
        `transition[j, k]`: probability that k follows j; rows sum to 1.
    """

    X: Ragged
    y: Ragged
    transition: np.ndarray


def digit_strings(n: int, *, lengths: tuple[int, int] = (3, 9), noise: float = 0.0, held_out: bool = False,
                  random_state: int = 0) -> DigitStrings:
    """Draws strings from a Markov chain, which is always the same, and for each digit one of its images.

    Parameters
    ----------
    n : int
        Number of strings.
    lengths : pair of int
        Shortest and longest; drawn uniformly.
    noise : float
        Standard deviation of Gaussian noise on the pixels.
    held_out : bool
        Take images from the held-out part of `load_digits` instead of the training part.
    random_state : int

    Returns
    -------
    DigitStrings
        `X, y, transition`; equal arguments give equal data.

    Raises
    ------
    ImportError
        Without scikit-learn.

    Examples
    --------
    >>> from pybundle.datasets import digit_strings
    >>> X, y, transition = digit_strings(5, lengths=(2, 4))
    >>> len(X), X[0].shape[1], len(X[0]) == len(y[0])
    (5, 64, True)
    """
    n = check_integer("n", n, low=1)
    try:
        shortest, longest = lengths
    except (TypeError, ValueError) as problem:
        raise ParameterError(f"lengths must be a pair (least, largest), got {lengths!r}") from problem
    shortest, longest = check_count("lengths[0]", shortest, low=1), check_count("lengths[1]", longest, low=1)
    if longest < shortest:
        raise ParameterError(f"lengths must be a pair (least, largest), got {lengths!r}")
    noise = check_number("noise", noise, low=0.0)
    check_flag("held_out", held_out)
    rng = np.random.default_rng(check_integer("random_state", random_state, low=0))
    data = load_digits()
    images, labels = (data.X_test, data.y_test) if held_out else (data.X, data.y)
    numbers = [np.flatnonzero(labels == digit) for digit in range(10)]
    # row 0 is for first digits, row 1 + k for digits after k; the likeliest digit of a row has probability 0.5 or so
    rows = np.exp(2.0 * np.random.default_rng(0).standard_normal((11, 10)))
    rows /= rows.sum(axis=1, keepdims=True)
    cumulated = np.cumsum(rows, axis=1)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(shortest, longest + 1, n))])
    digits = np.empty(offsets[-1], dtype=np.int32)
    starts = set(offsets.tolist())
    for t, u in enumerate(rng.random(len(digits))):
        row = cumulated[0 if t in starts else 1 + digits[t - 1]]
        digits[t] = min(np.searchsorted(row, u * row[-1], side="right"), 9)
    X = images[[rng.choice(numbers[digit]) for digit in digits]]
    if noise:
        X = X + noise * rng.standard_normal(X.shape, dtype=np.float32)
    return DigitStrings(Ragged(X, offsets), Ragged(digits, offsets), rows[1:])
