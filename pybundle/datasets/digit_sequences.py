"""Sequences made from scikit-learn's digits: strings of images for chains, glued images for segmentation.

The digits follow a Markov chain, the planted language: an image that is hard to read alone can be read from its
neighbours.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError
from ..core.ragged import Ragged
from ..core.validation import check_count, check_flag, check_integer, check_number, real_array
from .digits import load_digits


class Language(NamedTuple):
    """A Markov chain over the ten digits.

    Attributes
    ----------
    start : ndarray, shape (10,)
        Probabilities of the first digit.
    transition : ndarray, shape (10, 10)
        `transition[j, k]`: probability that k follows j; rows sum to 1.
    """

    start: np.ndarray
    transition: np.ndarray


class DigitStrings(NamedTuple):
    """Strings of digit images.

    Attributes
    ----------
    X : Ragged of float32, item i of shape (length of string i, 64)
        Pixels, between 0 and 1 without noise.
    y : Ragged of int32
        Digits 0 to 9.
    language : Language
        What the digits were drawn from.
    """

    X: Ragged
    y: Ragged
    language: Language


class GluedDigits(NamedTuple):
    """Digit images glued side by side, to be cut apart.

    Attributes
    ----------
    X : Ragged of float32, item i of shape (columns of image i, 8)
        Images column by column.
    y : Ragged of int32
        Labels of the segments from left to right; their widths add up to the columns of the image.
    widths : ndarray of int32, shape (A,)
        Width of each label.
    symbols : ndarray of int32, shape (A,)
        Digit of each label, 10 for the gap between digits (label 0, one column).
    language : Language
    """

    X: Ragged
    y: Ragged
    widths: np.ndarray
    symbols: np.ndarray
    language: Language


def markov_language(sharpness: float = 2.0, random_state: Any = 0) -> Language:
    """A random language: rows proportional to `exp(sharpness z)`, z standard normal.

    Parameters
    ----------
    sharpness : float, 0 to 100
        0 makes all digits equally likely; at 2 the likeliest successor has a probability of about 0.5.

    Examples
    --------
    >>> float(markov_language(0.0).transition[3, 7])
    0.1
    """
    sharpness = check_number("sharpness", sharpness, low=0.0, high=100.0)
    rng = np.random.default_rng(check_integer("random_state", random_state, low=0))
    rows = np.exp(sharpness * rng.standard_normal((11, 10)))
    rows /= rows.sum(axis=1, keepdims=True)
    return Language(rows[0], rows[1:])


def digit_strings(n: int, *, lengths: tuple[int, int] = (3, 9), language: Language | None = None, noise: float = 0.0,
                  held_out: bool = False, random_state: int = 0) -> DigitStrings:
    """Draws strings from the language, and for each digit one of its images.

    Parameters
    ----------
    n : int
        Number of strings.
    lengths : pair of int
        Shortest and longest; drawn uniformly.
    language : Language, optional
        By default `markov_language()`, the same for every seed, so that training and test strings share it.
    noise : float
        Standard deviation of Gaussian noise on the pixels.
    held_out : bool
        Take images from the held-out part of `load_digits` instead of the training part.
    random_state : int

    Returns
    -------
    DigitStrings
        `X, y, language`; equal arguments give equal data.

    Raises
    ------
    ImportError
        Without scikit-learn.

    Examples
    --------
    >>> X, y, language = digit_strings(5, lengths=(2, 4))
    >>> len(X), X[0].shape[1], len(X[0]) == len(y[0])
    (5, 64, True)
    """
    rng, images, noise, language, offsets, digits = _draw(n, lengths, language, noise, held_out, random_state)
    X = np.concatenate([images(digit) for digit in digits])
    return DigitStrings(Ragged(_noisy(X, noise, rng), offsets), Ragged(digits, offsets), language)


def glued_digits(n: int, *, lengths: tuple[int, int] = (2, 6), widths: tuple[int, int] = (5, 9),
                 gaps: tuple[int, int] = (0, 2), language: Language | None = None, noise: float = 0.0,
                 held_out: bool = False, random_state: Any = 0) -> GluedDigits:
    """Draws strings from the language, stretches each image to a random width and glues them with random gaps.

    Parameters
    ----------
    n : int
        Number of images.
    lengths : pair of int
        Fewest and most digits of an image.
    widths : pair of int
        Least and largest width of a digit in columns; 8 is as photographed. Linear interpolation.
    gaps : pair of int
        Fewest and most empty columns before each digit and at the end.
    language, noise, held_out, random_state
        As in `digit_strings`.

    Returns
    -------
    GluedDigits
        `X, y, widths, symbols, language`. Label 0 is a column of gap, label `1 + 10 (width - least) + digit` a digit.

    Examples
    --------
    >>> X, y, widths, symbols, language = glued_digits(3)
    >>> [int(widths[labels].sum()) == len(columns) for columns, labels in zip(X, y)]
    [True, True, True]
    """
    least, largest = _pair("widths", widths, 1)
    gaps = _pair("gaps", gaps, 0)
    rng, images, noise, language, offsets, digits = _draw(n, lengths, language, noise, held_out, random_state)
    columns, labels = [], []
    for i in range(n):
        item, own = [], []
        for digit in digits[offsets[i]:offsets[i + 1]]:
            gap, width = rng.integers(gaps[0], gaps[1] + 1), rng.integers(least, largest + 1)
            item += [np.zeros((gap, 8), dtype=np.float32), _stretch(images(digit).reshape(8, 8).T, width)]
            own += [0] * gap + [1 + 10 * (width - least) + digit]
        gap = rng.integers(gaps[0], gaps[1] + 1)
        columns.append(_noisy(np.concatenate([*item, np.zeros((gap, 8), dtype=np.float32)]), noise, rng))
        labels.append(np.array(own + [0] * gap, dtype=np.int32))
    alphabet = np.concatenate([[1], np.repeat(np.arange(least, largest + 1), 10)]).astype(np.int32)
    symbols = np.concatenate([[10], np.tile(np.arange(10), largest - least + 1)]).astype(np.int32)
    return GluedDigits(Ragged.of(columns), Ragged.of(labels), alphabet, symbols, language)


def _draw(n, lengths, language, noise, held_out, random_state):
    """What both kinds share: generator, images of a digit, checked options, strings of digits."""
    n = check_integer("n", n, low=1)
    shortest, longest = _pair("lengths", lengths, 1)
    noise = check_number("noise", noise, low=0.0)
    language = markov_language() if language is None else _check_language(language)
    check_flag("held_out", held_out)
    rng = np.random.default_rng(check_integer("random_state", random_state, low=0))
    data = load_digits()
    X, y = (data.X_test, data.y_test) if held_out else (data.X, data.y)
    numbers = [np.flatnonzero(y == digit) for digit in range(10)]

    def images(digit):
        return X[[rng.choice(numbers[digit])]]

    offsets = np.concatenate([[0], np.cumsum(rng.integers(shortest, longest + 1, n))])
    digits = np.empty(offsets[-1], dtype=np.int32)
    cumulated = np.cumsum(np.vstack([language.start, language.transition]), axis=1)
    starts = set(offsets.tolist())
    for t, u in enumerate(rng.random(len(digits))):
        row = cumulated[0 if t in starts else 1 + digits[t - 1]]
        digits[t] = min(np.searchsorted(row, u * row[-1], side="right"), 9)
    return rng, images, noise, language, offsets, digits


def _pair(name, pair, low):
    try:
        first, last = pair
    except (TypeError, ValueError) as problem:
        raise ParameterError(f"{name} must be a pair (least, largest), got {pair!r}") from problem
    first, last = check_count(f"{name}[0]", first, low=low), check_count(f"{name}[1]", last, low=low)
    if last < first:
        raise ParameterError(f"{name} must be a pair (least, largest), got {pair!r}")
    return first, last


def _check_language(language):
    if not isinstance(language, Language):
        raise InputTypeError(f"language must be a Language, got {type(language).__name__}; see markov_language")
    start, transition = (real_array(part) for part in language)
    if start.shape != (10,) or transition.shape != (10, 10):
        raise ParameterError(f"language must hold start (10,) and transition (10, 10), got shapes {start.shape} and "
                             f"{transition.shape}")
    rows = np.vstack([start, transition])
    if not ((rows >= 0).all() and np.allclose(rows.sum(axis=1), 1.0)):
        raise ParameterError("language must hold probabilities: entries >= 0, rows that sum to 1")
    return Language(start, transition)


def _stretch(columns, width):
    """Columns (8, 8) resampled to `width` columns by linear interpolation between column centres."""
    places = np.clip((np.arange(width) + 0.5) * len(columns) / width - 0.5, 0, len(columns) - 1)
    left = np.minimum(places.astype(int), len(columns) - 2)
    share = (places - left).astype(np.float32)[:, None]
    return (1 - share) * columns[left] + share * columns[left + 1]


def _noisy(X, noise, rng):
    return X + noise * rng.standard_normal(X.shape, dtype=np.float32) if noise else X
