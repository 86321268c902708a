"""Weight templates as images."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

from ..core.exceptions import InputTypeError, ParameterError
from ..core.types import Floats
from ..core.validation import check_integer
from .canvas import DIVERGING, Display, bare, fitted, names_of, weight_bar, what_came

TITLE = 18.0
"""Height of a title in points, with some space above it."""
MARGIN = 1
"""Width of the space between two images, in pixels of the images."""


class WeightImagesDisplay(Display):
    """The weights of every class as an image: red for, blue against, white without a say; one scale for all.

    Parameters
    ----------
    images : sequence of array, shape (height, width) each
        Sizes may differ.
    names : sequence, optional
        Titles; numbers by default.
    n_columns : int
        Images in a row.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
    image_ : AxesImage
        All images side by side, with gaps that are masked.
    colorbar_ : Colorbar

    Examples
    --------
    >>> import pybundle as pb
    >>> X, y, X_test, y_test = pb.datasets.load_digits()
    >>> svm = pb.MulticlassSVM(C=0.1, tol=1e-2).fit(X, y)
    >>> display = pb.plotting.WeightImagesDisplay.from_estimator(svm, (8, 8))
    >>> len(display.images), display.names[:3]
    (10, ['0', '1', '2'])
    """

    image_: Any
    colorbar_: Any

    def __init__(self, images: Any, *, names: Any = None, n_columns: int = 5) -> None:
        try:
            self.images: list[Floats] = [np.asarray(image, dtype=float) for image in images]
        except (TypeError, ValueError) as problem:
            raise InputTypeError(f"images must be a sequence of arrays: {problem}") from problem
        for k, image in enumerate(self.images):
            if image.ndim != 2 or image.size == 0:
                raise ParameterError(f"images must have shape (height, width) each, got {image.shape} for image {k}")
        if not self.images:
            raise ParameterError("images must hold at least one image, got none")
        self.names: list[str] = names_of(names, len(self.images), "names")
        self.n_columns: int = check_integer("n_columns", n_columns, low=1)

    @classmethod
    def from_estimator(cls, estimator: Any, shape: tuple[int, int] | None = None, *, width: int | None = None,
                       n_columns: int = 5, ax: Any = None) -> Self:
        """Draws the weights of a fitted `MulticlassSVM`, `ChainSVM`, `ChainCRF` or `SegmentationSVM`.

        Parameters
        ----------
        estimator : estimator
        shape : pair of int
            Height and width of the images whose pixels are the features; not for `SegmentationSVM`.
        width : int, optional
            Of `SegmentationSVM`: templates of this width; by default the middle one of every label's widths.
        n_columns : int
        ax : Axes, optional

        Returns
        -------
        WeightImagesDisplay
        """
        images, names = _templates(estimator, width) if hasattr(estimator, "template") else _rows(estimator, shape)
        return cls(images, names=names, n_columns=n_columns).plot(ax)

    def _grid(self, pixel=0.0):
        """Return the numbers of columns and rows, and height and width of a cell and height of its title in pixels.

        With `pixel`, the width of a pixel in points, titles get the room that they need.
        """
        columns = min(self.n_columns, len(self.images))
        height, width = (max(image.shape[k] for image in self.images) for k in (0, 1))
        title = max(2, round(0.3 * height), min(height, math.ceil(TITLE / pixel)) if pixel else 0)
        return columns, -(-len(self.images) // columns), height + title, width + MARGIN, title

    def _size(self):
        columns, rows, height, width, _ = self._grid()
        return 1.3 * columns + 0.9, 1.3 * rows * height / width + 0.2

    def _draw(self):
        columns, _, _, width, _ = self._grid()
        pixel = self.ax_.get_window_extent().width / (columns * width) * 72.0 / self.figure_.dpi
        columns, rows, height, width, title = self._grid(pixel)
        mosaic = np.full((rows * height, columns * width - MARGIN), np.nan)
        style = {"ha": "center", "va": "bottom", "fontsize": "medium" if pixel > 10.0 else "small"}
        for k, (image, name) in enumerate(zip(self.images, self.names, strict=True)):
            top, left = k // columns * height + title, k % columns * width
            mosaic[top:top + image.shape[0], left:left + image.shape[1]] = image
            self.ax_.text(left + 0.5 * (image.shape[1] - 1), top - 0.7, name, **style)
        largest = max(float(np.abs(image).max()) for image in self.images) or 1.0
        self.image_ = self.ax_.imshow(np.ma.masked_invalid(mosaic), cmap=DIVERGING, vmin=-largest, vmax=largest,
                                      interpolation="nearest")
        bare(self.ax_)
        self.colorbar_ = weight_bar(self.image_)


def _rows(estimator, shape):
    """Return images of the weights of the classes, and their names; two classes may have one image."""
    is_chain = hasattr(type(estimator), "token_coef_")
    fitted(estimator, "coef_", "a fitted MulticlassSVM, ChainSVM, ChainCRF or SegmentationSVM")
    weights = estimator.token_coef_ if is_chain else estimator.coef_
    weights = weights.toarray() if issparse(weights) else np.asarray(weights)
    if weights.ndim != 2 or not hasattr(estimator, "classes_"):
        raise InputTypeError("estimator must have weights of single features by class, got "
                             f"{what_came(estimator, None)}; pass images to the class itself")
    if shape is None or np.shape(shape) != (2,):
        raise ParameterError(f"shape must be (height, width) of the images, got {shape!r}")
    height, width = (check_integer("shape", size, low=1) for size in shape)
    if height * width != weights.shape[1]:
        raise ParameterError(f"shape must have {weights.shape[1]} pixels, as many as features, got {height} x {width}")
    names = estimator.classes_.tolist()
    return weights.reshape(-1, height, width), names if len(weights) == len(names) else names[1:]


def _templates(estimator, width):
    """Return templates of a segmentation and their labels, for one width, or for the median width of each label."""
    symbols, widths = (fitted(estimator, name, "a fitted SegmentationSVM") for name in ("symbols_", "widths_"))
    if width is not None and width not in widths:
        raise ParameterError(f"width must be that of a template, {sorted(set(widths.tolist()))}, got {width!r}")
    images, names = [], []
    for k, label in enumerate(estimator.classes_.tolist()):
        known = sorted(widths[symbols == k].tolist())
        if width is None or width in known:
            images.append(estimator.template(label, known[len(known) // 2] if width is None else width))
            names.append(label)
    return images, names
