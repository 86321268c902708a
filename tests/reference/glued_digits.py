"""Digit images glued side by side, to be cut apart."""

from typing import NamedTuple

import numpy as np

import pybundle as pb


class GluedDigits(NamedTuple):
    """Images (columns, 8) column by column, and labels of their segments from left to right.

    Label 0 is a column of gap, label `1 + 10 (width - least) + digit` a digit. `widths` and `symbols` hold the width
    and the digit, 10 for a gap, of every label.
    """

    X: list
    y: list
    widths: np.ndarray
    symbols: np.ndarray


def glued_digits(n, *, lengths=(2, 6), widths=(5, 9), gaps=(0, 2), held_out=False, random_state=0):
    """Draws strings of digits, stretches each image to a random width and glues them with gaps of random widths."""
    strings = pb.datasets.digit_strings(n, lengths=lengths, held_out=held_out, random_state=random_state)
    rng, (least, largest) = np.random.default_rng([random_state, 1]), widths
    X, y = [], []
    for images, digits in zip(strings.X, strings.y, strict=True):
        columns, labels = [], []
        for image, digit in zip(images, digits, strict=True):
            gap, width = rng.integers(gaps[0], gaps[1] + 1), rng.integers(least, largest + 1)
            columns += [np.zeros((gap, 8)), stretched(image.reshape(8, 8).T, width)]
            labels += [0] * gap + [1 + 10 * (width - least) + digit]
        gap = rng.integers(gaps[0], gaps[1] + 1)
        X.append(np.concatenate([*columns, np.zeros((gap, 8))]).astype(np.float32))
        y.append(np.array(labels + [0] * gap, dtype=np.int32))
    n_widths = largest - least + 1
    alphabet = np.concatenate([[1], np.repeat(np.arange(least, largest + 1), 10)])
    return GluedDigits(X, y, alphabet, np.concatenate([[10], np.tile(np.arange(10), n_widths)]))


def stretched(columns, width):
    """Columns (8, 8) resampled to `width` columns by linear interpolation between column centres."""
    places = np.clip((np.arange(width) + 0.5) * len(columns) / width - 0.5, 0, len(columns) - 1)
    left = np.minimum(places.astype(int), len(columns) - 2)
    share = (places - left)[:, None]
    return (1 - share) * columns[left] + share * columns[left + 1]
