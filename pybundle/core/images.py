"""Images as graphs, masks as labels of nodes, and labels of nodes as images; `Graph.from_image` says which graphs."""

from __future__ import annotations

import math
import os
from contextlib import suppress

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from .exceptions import InputTypeError, LabelWarning, ParameterError
from .types import Array
from .validation import as_array, check_finite, check_integer, integer_array, real_numbers, refuse_masked
from .warn import warn_user

SHIFTS = {4: ((0, 1), (1, 0)), 8: ((0, 1), (1, 0), (1, 1), (1, -1)), 6: ((0, 0, 1), (0, 1, 0), (1, 0, 0))}
"""Steps from a pixel to half of its 4, 8 or 6 neighbours, one of every two opposite ones; 6 is for volumes."""
FEW = 15
"""Integers above this are taken for bytes, which should be divided by 255."""
FEW_CHANNELS = 4
"""More channels than this may be slices of a volume, if they are at least as many as the rows or the columns."""
VOLUME = "a volume needs neighbours=6"
LARGEST = 1e100
"""Sums over pixels, and squares of such sums, stay finite if no pixel exceeds this number."""


def image_graph(image, segments=None, features=None, neighbours=4, name="image"):
    """Return nodes, edges and edge features of an image, see `Graph.from_image`."""
    if check_integer("neighbours", neighbours) not in SHIFTS:
        raise ParameterError(f"neighbours must be 4 or 8, or 6 for a volume, got {neighbours}")
    shifts = SHIFTS[neighbours]
    pixels, shape = _read_image(image, len(shifts[0]), name)
    if segments is None:
        number = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
        means, sides = pixels, [_neighbours(number, shift) for shift in shifts]
        edges, lengths = np.stack([np.concatenate(ends) for ends in zip(*sides, strict=True)], axis=1), []
    else:
        number, n = _read_segments(segments, shape)
        areas = np.bincount(number.ravel(), minlength=n)
        means = np.stack([np.bincount(number.ravel(), column, n) / areas for column in pixels.T], axis=1)
        edges, counts = _borders(number, n, shifts)
        lengths = [counts * len(counts) / counts.sum()]
    squares = np.zeros(len(edges))
    for column in means.T:
        squares += np.subtract(column[edges[:, 0]], column[edges[:, 1]], dtype=np.float64) ** 2
    mean = squares.mean() if squares.any() else 1.0
    of_edges = np.column_stack([np.ones(len(edges)), np.sqrt(squares), np.exp(-0.5 * squares / mean), *lengths])
    own = [] if features is None else [_read_features(features, len(means))]
    nodes = np.column_stack([means, *own, np.ones(len(means))]).astype(
        np.result_type(pixels, *own), copy=False)
    return nodes, edges, of_edges


def mask_labels(mask, segments, ignore):
    """Return labels and weights of nodes, see `WeightedLabels.from_mask`."""
    refuse_masked("mask", mask)
    with suppress(ValueError):          # `integer_array` refuses rows of different lengths
        mask = mask if issparse(mask) else np.asarray(mask)
    is_bool = isinstance(mask, np.ndarray) and mask.dtype == np.bool_
    mask = mask.astype(np.uint8) if is_bool else integer_array("mask", mask)
    if mask.ndim not in (2, 3) or mask.size == 0:
        raise ParameterError(f"mask must have shape (H, W), or (D, H, W) for a volume, got {mask.shape}")
    if mask.min() < -1 or mask.max() >= 2**31:
        raise ParameterError(f"mask must hold labels 0..2^31 - 1, or -1, got {mask.min()}..{mask.max()}")
    labels = mask.astype(np.int64).ravel()
    if ignore is not None:
        is_ignored = labels == check_integer("ignore", ignore)
        rest = labels[~is_ignored]
        if ignore == 255 and 0 < len(rest) < len(labels) and not rest.any():
            warn_user("mask has no label but 0, and 255, which is ignored; if 255 is a label, pass mask > 0",
                      LabelWarning)
        labels[is_ignored] = -1
    if segments is None:
        return labels, (labels >= 0).astype(np.float64)
    number, n = _read_segments(segments, mask.shape, "mask")
    node, labels = number.ravel()[labels >= 0].astype(np.int64), labels[labels >= 0]
    keys, counts = np.unique((node << 31) | labels, return_counts=True)
    order = np.lexsort((-counts, keys >> 31))       # stable: of labels with the same area the smallest is first
    nodes, first = np.unique((keys >> 31)[order], return_index=True)
    found = np.full(n, -1, dtype=np.int64)
    found[nodes] = keys[order][first] & (2**31 - 1)
    return found, np.bincount(node, minlength=n).astype(np.float64)


def paint(labels: ArrayLike, segments: ArrayLike) -> Array:
    """Returns the image whose pixels have the labels of their segments.

    `image[p] = labels[j]` for all pixels p of segment j, segments being numbered in the order of their ids, as the
    nodes of `Graph.from_image`. If the nodes are pixels, `labels.reshape(image.shape[:2])` is the image.

    Parameters
    ----------
    labels : array_like, shape (n_segments, ...)
        Of any type: labels, scores, colours.
    segments : array_like of int, shape (H, W) or (D, H, W)
        The id of the segment of each pixel.

    Returns
    -------
    ndarray, shape (H, W, ...) or (D, H, W, ...)

    Raises
    ------
    ParameterError
        If the number of labels is not that of the segments.

    Notes
    -----
    It takes O(N log N) for N pixels, to sort their ids.

    Examples
    --------
    >>> from pybundle.models import paint
    >>> paint(["sky", "sea"], [[7, 7, 7], [7, -2, -2]]).tolist()
    [['sea', 'sea', 'sea'], ['sea', 'sky', 'sky']]
    """
    number, n = _read_segments(segments)
    refuse_masked("labels", labels)
    if isinstance(labels, tuple):       # a `WeightedLabels`
        labels = getattr(labels, "labels", labels)
    values = as_array("labels must be an array with an entry for each segment", labels)
    if values.ndim == 0 or len(values) != n:
        raise ParameterError(f"labels must have an entry for each of the {n} segments, got shape {values.shape}")
    return values[number]


def _read_image(image, n_axes, name):
    """Return the features of all pixels, (N, F) in float32 or float64, and the shape of the grid."""
    if isinstance(image, (str, bytes, os.PathLike)):
        raise InputTypeError(f"{name} must be an array of numbers, got {type(image).__name__}; read the file first, "
                             "for instance with matplotlib.pyplot.imread")
    if n_axes == 2 and isinstance(image, (list, tuple)) and any(getattr(item, "ndim", 0) > 1 for item in image):
        raise InputTypeError(f"{name} must be one image, got a list of {len(image)}; call from_image for each, or pass "
                             "neighbours=6 if they are slices of a volume")
    kept = np.float32 if getattr(image, "dtype", None) == np.float32 else np.float64
    values = real_numbers(f"{name} must be real numbers", image)
    grid = ("(H, W)", "(H, W, F)") if n_axes == 2 else ("(D, H, W)", "(D, H, W, F)")
    if values.ndim not in (n_axes, n_axes + 1) or values.size == 0:
        raise ParameterError(f"{name} must have shape {grid[0]} or {grid[1]}, none of them 0, got {values.shape}"
                             + (f"; {VOLUME}" if values.ndim == 4 and n_axes == 2 else ""))
    check_finite(name, values)
    if n_axes == 2 and values.ndim == 3 and FEW_CHANNELS < values.shape[2] >= min(values.shape[:2]):
        warn_user("image of shape {} is read as {} x {} pixels with {} channels; ".format(values.shape, *values.shape)
                  + f"{VOLUME}, and channels come last", UserWarning)
    if getattr(image, "dtype", np.dtype(float)).kind in "iu" and values.max() > FEW:
        warn_user(f"image holds integers above {FEW}; divide bytes by 255, since features should be of size 1, and as "
                  "in training", UserWarning)
    if max(values.max(), -values.min()) > LARGEST:
        raise ParameterError(f"{name} must hold numbers of at most {LARGEST:g}, got {values.min():g}..{values.max():g}")
    return values.reshape(math.prod(values.shape[:n_axes]), -1).astype(kept, copy=False), values.shape[:n_axes]


def _read_segments(segments, shape=None, like="image"):
    """Return the number of the segment of each pixel, and how many segments there are."""
    refuse_masked("segments", segments)
    ids = integer_array("segments", segments)
    if shape is not None and ids.shape != shape:
        remedy = ""
        if like == "mask" and ids.shape == shape[:2]:
            remedy = "; a mask has one label a pixel, no colours"
        elif like == "image" and len(shape) < ids.ndim:
            remedy = f"; {VOLUME}"
        raise ParameterError(f"segments must have an id for each pixel of {like}, shape {shape}, got {ids.shape}"
                             f"{remedy}")
    if ids.ndim not in (2, 3) or ids.size == 0:
        raise ParameterError(f"segments must have shape (H, W), or (D, H, W) for a volume, got {ids.shape}")
    names, number = np.unique(ids, return_inverse=True)
    return number.reshape(ids.shape).astype(np.int32), len(names)


def _read_features(features, n):
    values = real_numbers("features must be real numbers", features)
    if values.ndim != 2 or len(values) != n:
        raise ParameterError(f"features must have a row for each of the {n} nodes, shape ({n}, d), got {values.shape}")
    return check_finite("features", values)


def _neighbours(number, shift):
    """Return the numbers of the first and of the second pixels of all pairs that are a shift apart."""
    first = tuple(slice(max(0, -step), size - max(0, step)) for step, size in zip(shift, number.shape, strict=True))
    second = tuple(slice(max(0, step), size - max(0, -step)) for step, size in zip(shift, number.shape, strict=True))
    return number[first].ravel(), number[second].ravel()


def _borders(number, n, shifts):
    """Return the pairs of segments that touch, in order, and for each the number of pairs of pixels that touch."""
    keys = []
    for shift in shifts:
        a, b = _neighbours(number, shift)
        differ = a != b
        a, b = a[differ].astype(np.int64), b[differ]
        keys.append(np.minimum(a, b) * n + np.maximum(a, b))
    keys, counts = np.unique(np.concatenate(keys), return_counts=True)
    return np.stack([keys // n, keys % n], axis=1).astype(np.int32), counts
