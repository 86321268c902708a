"""Small images of deformed shapes whose landmarks are known: generated."""

from typing import NamedTuple

import numpy as np

SIDE = 24
PLACES = np.array([[11.5, 11.5], [5.5, 7.0], [17.0, 6.5], [12.0, 18.0]])


class LandmarkImages(NamedTuple):
    """Images with four landmarks: a bright blob in the middle, a cross, a ring and a corner around it.

    Attributes
    ----------
    X : ndarray of uint8, shape (n, 24, 24)
    Y : ndarray, shape (n, 4, 2)
        Positions (x, y), real numbers.
    parents : ndarray of int, shape (4,)
        The tree they were drawn from: the blob is the parent of the others.
    """

    X: np.ndarray
    Y: np.ndarray
    parents: np.ndarray


def landmark_images(n, *, deformation=1.0, noise=20.0, random_state=0):
    """Draws the landmarks from Gaussian displacements, then paints each one's shape over a noisy background.

    `deformation`, at most 1.2, is the standard deviation of every displacement in pixels, cut at 2.5 of them; `noise`
    is that of Gaussian noise on grey values 0..255.
    """
    rng = np.random.default_rng(random_state)
    moves = deformation * np.clip(rng.standard_normal((n, 4, 2)), -2.5, 2.5)
    moves[:, 1:] = 0.7 * (moves[:, 1:] + moves[:, :1])        # the others follow the blob
    Y = PLACES + moves
    rows, columns = np.mgrid[:SIDE, :SIDE]
    X = np.empty((n, SIDE, SIDE), dtype=np.uint8)
    for i in range(n):
        image = 90.0 + 15.0 * rng.standard_normal() + 2.0 * rng.standard_normal() * (columns - SIDE / 2)
        for shape, (x, y) in zip(SHAPES, Y[i], strict=True):
            image = image + rng.uniform(70.0, 110.0) * shape(columns - x, rows - y)
        X[i] = np.clip(np.round(image + noise * rng.standard_normal(image.shape)), 0, 255)
    return LandmarkImages(X, Y, np.array([-1, 0, 0, 0]))


def _blob(x, y):
    return np.exp(-(x * x + y * y) / 4.0)


def _cross(x, y):
    near = np.maximum(abs(x), abs(y)) <= 3.0
    return near * np.exp(-np.minimum(x * x, y * y))


def _ring(x, y):
    return np.exp(-((np.hypot(x, y) - 2.5) ** 2))


def _corner(x, y):
    """Bright above and to the left of the landmark."""
    return ((x <= 0.5) & (y <= 0.5) & (x > -4.0) & (y > -4.0)).astype(float)


SHAPES = (_blob, _cross, _ring, _corner)
