"""Check shapes of images and search boxes of landmarks, for models and descriptors of landmarks."""

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError
from ..core.validation import check_count


def check_shape(shape):
    """Return (rows, columns) of images as integers, at least 1."""
    try:
        rows, columns = shape
    except (TypeError, ValueError) as problem:
        raise ParameterError(f"shape must be (rows, columns) of the images, got {shape!r:.60}") from problem
    return check_count("shape[0]", rows), check_count("shape[1]", columns)


def check_boxes(boxes, shape, n_landmarks=None):
    """Return search boxes x_0, y_0, width, height as int32, shape (L, 4), if they lie in images of this shape."""
    try:
        boxes = np.asarray(boxes)
    except ValueError as problem:
        raise InputTypeError(f"boxes must be integers x_0, y_0, width, height, got {boxes!r:.60}") from problem
    n = max(1, boxes.size // 4) if n_landmarks is None else n_landmarks
    if boxes.dtype.kind not in "iu" or boxes.shape != (n, 4):
        raise ParameterError(f"boxes must be integers x_0, y_0, width, height of shape ({n}, 4), got shape "
                             f"{boxes.shape} and dtype {boxes.dtype}")
    low, size = boxes[:, :2], boxes[:, 2:]
    wrong = (low < 0).any(axis=1) | (size < 1).any(axis=1) | (low + size > (shape[1], shape[0])).any(axis=1)
    if wrong.any():
        j = int(np.argmax(wrong))
        raise ParameterError(f"boxes[{j}] must lie in the image of {shape[1]} columns and {shape[0]} rows, got "
                             f"x_0, y_0, width, height = {boxes[j].tolist()}")
    return np.ascontiguousarray(boxes, dtype=np.int32)
