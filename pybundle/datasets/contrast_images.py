"""Noisy images of two regions as graphs for binary labelling, with planted weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.exceptions import ParameterError
from ..core.graph import Graph
from ..core.validation import check_integer, check_number

WEIGHTS = (1.0, 0.1, 0.2, 1.0)


class ContrastImages(NamedTuple):
    """Images, their labels, and the weights these were drawn with.

    Attributes
    ----------
    X : list of Graph
        Grids of pixels. Node features: intensity, 1. Edge features: 1, similarity `exp(-difference^2 / 2)`.
    y : list of uint8 arrays, shape (height * width,)
    weights : ndarray, shape (4,)
        Planted: weights of the node features, then of the edge features.
    shape : pair of int
    """

    X: list[Any]
    y: list[Any]
    weights: np.ndarray
    shape: tuple[Any, ...]


def contrast_images(n: int, *, shape: tuple[int, int] = (16, 16), noise: float = 1.0, weights: Any = WEIGHTS,
                    n_sweeps: int = 40, random_state: int = 0) -> ContrastImages:
    """Draws images of two regions, and labels from the model with the planted weights.

    An image is +1 in a random smooth region and -1 outside, plus Gaussian noise. Its labels come from

        P(y | x) ~ exp(sum_j <w_U, f_j> (2 y_j - 1) - sum_e <w_P, f_e> [y_a != y_b])

    by Gibbs sampling, all pixels of one colour of the chessboard at once; so a trained model cannot do better than
    the planted weights by more than chance.

    Parameters
    ----------
    n : int
        Number of images.
    shape : pair of int
        Height and width.
    noise : float
        Standard deviation of the noise on the intensities.
    weights : sequence of four floats
        The last two must not be negative.
    n_sweeps : int
        Sweeps of the Gibbs sampler, which starts at the regions.
    random_state : int

    Returns
    -------
    ContrastImages
        `X, y, weights, shape`; equal arguments give equal data.

    Examples
    --------
    >>> from pybundle.datasets import contrast_images
    >>> X, y, weights, shape = contrast_images(3, shape=(4, 5))
    >>> X[0].nodes.shape, X[0].edges.shape, X[0].edge_features.shape, y[0].shape
    ((20, 2), (31, 2), (31, 2), (20,))
    """
    n = check_integer("n", n, low=1)
    if [isinstance(pair, (tuple, list, np.ndarray)) and len(pair) for pair in (shape, weights)] != [2, 4]:
        raise ParameterError(f"shape must be (height, width) and weights four numbers, got {shape!r} and {weights!r}")
    height, width = (check_integer("shape", size, low=1, high=1 << 15) for size in shape)
    noise, n_sweeps = check_number("noise", noise, low=0.0), check_integer("n_sweeps", n_sweeps, low=0)
    weights = np.array([check_number("weights", weight) for weight in weights])
    if (weights[2:] < 0.0).any():
        raise ParameterError(f"weights must be four numbers, the last two >= 0, got {weights.tolist()}")
    rng = np.random.default_rng(check_integer("random_state", random_state, low=0))
    regions = _regions(n, height, width, rng)
    images = 2.0 * regions - 1.0 + noise * rng.standard_normal(regions.shape)
    across = np.exp(-0.5 * np.diff(images, axis=2) ** 2)
    down = np.exp(-0.5 * np.diff(images, axis=1) ** 2)
    fields = 2.0 * (weights[0] * images + weights[1])
    labels = _gibbs(regions, fields, weights[2] + weights[3] * across, weights[2] + weights[3] * down, n_sweeps, rng)
    nodes = np.arange(height * width).reshape(height, width)
    edges = np.concatenate([np.column_stack([nodes[:, :-1].ravel(), nodes[:, 1:].ravel()]),
                            np.column_stack([nodes[:-1].ravel(), nodes[1:].ravel()])])
    X = []
    for image, right, below in zip(images, across, down, strict=True):
        similarity = np.concatenate([right.ravel(), below.ravel()])
        X.append(Graph(np.column_stack([image.ravel(), np.ones(image.size)]), edges,
                       np.column_stack([np.ones(len(edges)), similarity])))
    return ContrastImages(X, list(labels.reshape(n, -1)), weights, (height, width))


def _regions(n, height, width, rng):
    """Return where a sum of six slow random waves is positive, shape (n, height, width)."""
    rows, columns = np.meshgrid(np.arange(height) / height, np.arange(width) / width, indexing="ij")
    waves = np.zeros((n, height, width))
    for _ in range(6):
        frequency = rng.normal(0.0, 0.8, (2, n, 1, 1))
        phase = rng.uniform(0.0, 1.0, (n, 1, 1))
        waves += np.cos(2.0 * np.pi * (frequency[0] * rows + frequency[1] * columns + phase))
    return waves > 0.0


def _gibbs(labels, fields, across, down, n_sweeps, rng):
    """Draw labels by Gibbs sampling: a sweep draws the two colours of a chessboard in turn."""
    labels = labels.astype(np.float64)
    colour = np.add.outer(np.arange(labels.shape[1]), np.arange(labels.shape[2])) % 2
    for sweep in range(2 * n_sweeps):
        signs = 2.0 * labels - 1.0
        pull = fields.copy()
        pull[:, :, 1:] += across * signs[:, :, :-1]
        pull[:, :, :-1] += across * signs[:, :, 1:]
        pull[:, 1:] += down * signs[:, :-1]
        pull[:, :-1] += down * signs[:, 1:]
        drawn = rng.random(labels.shape) < 1.0 / (1.0 + np.exp(-pull))
        labels = np.where(colour == sweep % 2, drawn, labels)
    return labels.astype(np.uint8)
