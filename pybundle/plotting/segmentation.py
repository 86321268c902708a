"""Segmentations, drawn over their image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import InputTypeError, ParameterError
from ..core.images import paint
from ..core.types import Array
from .canvas import COLOURS, RIGHT, WRONG, Display, bare, fitted, what_came

REGIONS = (4, 0, 2, 3, 1, 5)
"""Colours of the labels 1, 2, ...: neighbours in this order differ most; the colours repeat from label 7 on."""


class SegmentationDisplay(Display):
    """An image, and over it what was predicted: segments of its columns, or regions of two labels or more.

    Segments stand as coloured bars with their labels above the image, those of the truth below it, and wrong ones in
    orange. Regions have the colour of their label, label 0 has none; black lines run around those of the truth, in
    which -1 is not known. Labels that are not integers are numbered in their order.

    Parameters
    ----------
    image : array, shape (height, width) or (height, width, 3)
    found : list of (label, first column), or array, shape (height, width)
        Segments from left to right, or a label for each pixel, as from `pb.models.paint`.
    truth : optional
        Of the same kind.
    fillers : sequence
        Labels of segments without a bar.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
    image_ : AxesImage
    bars_, texts_ : list
        Of segments: bars and labels of the prediction, then of the truth; without fillers.
    overlay_ : AxesImage or None
        Of regions.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> image = np.array([[0.0, 1.0, 1.0, 0.0]])
    >>> display = pb.plotting.SegmentationDisplay.from_predictions(
    ...     [("gap", 0), ("bar", 1), ("gap", 3)], image)
    >>> [text.get_text() for text in display.texts_]
    ['gap', 'bar', 'gap']
    """

    bars_: Any
    texts_: Any
    overlay_: Any
    image_: Any

    def __init__(self, image: ArrayLike, found: Any, *, truth: Any = None, fillers: Sequence[Any] = ()) -> None:
        self.image: Array = np.asarray(image)
        if self.image.ndim not in (2, 3) or self.image.size == 0:
            raise ParameterError(f"image must have shape (height, width), got {self.image.shape}")
        self.fillers: list[int] = list(fillers)
        self.found: Any = found
        self.truth: Any = truth
        self.is_columns: bool = not isinstance(found, np.ndarray)
        check = self._spans if self.is_columns else self._check_map
        check("found", found)
        if truth is not None:
            check("truth", truth)

    @classmethod
    def from_predictions(cls, found: Any, image: ArrayLike, *, truth: Any = None, fillers: Sequence[Any] = (),
                         ax: Any = None) -> Self:
        """Draws a segmentation; see the class for the arguments, `plot` for `ax`."""
        return cls(image, found, truth=truth, fillers=fillers).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, x: Any, *, image: ArrayLike | None = None, truth: Any = None,
                       segments: ArrayLike | None = None, ax: Any = None) -> Self:
        """Draws the prediction for one example.

        Parameters
        ----------
        estimator : SegmentationSVM, BinaryLabelingSVM or GraphSVM
            Fitted.
        x
            As `predict` takes it, without the list around.
        image : array, optional
            What is drawn; for graphs its pixels must be the nodes, row by row, unless there are segments.
        truth : optional
            As `fit` takes it, without the list around.
        segments : array of int, shape (height, width), optional
            The segment of each pixel, as `pb.Graph.from_image` takes it.
        ax : Axes, optional

        Returns
        -------
        SegmentationDisplay
        """
        fitted(estimator, "classes_", "a fitted SegmentationSVM, BinaryLabelingSVM or GraphSVM")
        if hasattr(estimator, "template"):
            if image is None:
                image = np.asarray(x) if estimator.layout == "image" else np.asarray(x).T
            (found,) = estimator.predict([x])
            return cls(image, found, truth=truth, fillers=estimator.fillers).plot(ax)
        if not hasattr(estimator, "n_edge_features_"):
            raise InputTypeError("estimator must be a fitted SegmentationSVM, BinaryLabelingSVM or GraphSVM, got "
                                 f"{what_came(estimator, None)}")
        if image is None:
            raise ParameterError("image must be given for a graph, an array (height, width) of its nodes")
        shape = np.shape(image)[:2]
        (found,) = estimator.predict([x])
        truth = getattr(truth, "labels", truth)
        if segments is not None:
            found, truth = paint(found, segments), None if truth is None else paint(truth, segments)
        if found.size != np.prod(shape):
            raise ParameterError(f"image must have {found.size} pixels, one for each node, got shape {shape}")
        truth = None if truth is None else np.reshape(truth, shape)
        return cls(image, found.reshape(shape), truth=truth).plot(ax)

    def _size(self):
        height, width = self.image.shape[:2]
        size = min(10.0, max(3.0, 0.22 * width))
        return size, size * height / width + (0.8 if self.is_columns else 0.1)

    def _draw(self):
        self.bars_, self.texts_, self.overlay_ = [], [], None
        grey = {}
        if self.image.ndim == 2 and self.image.min() == self.image.max():       # imshow draws a constant image black
            top = 255 if self.image.dtype == np.uint8 else max(1.0, float(self.image.max()))
            grey = {"vmin": 0.0, "vmax": top}
        self.image_ = self.ax_.imshow(self.image, cmap="gray", interpolation="nearest", **grey)
        bare(self.ax_)
        if self.is_columns:
            self._draw_segments()
        else:
            self._draw_map()

    def _draw_segments(self):
        height, width = self.image.shape[:2]
        bar = max(0.8, 0.14 * height)
        truth = self._spans("truth", self.truth) if self.truth is not None else None
        rows = [(self._spans("found", self.found), -0.8 - bar, truth)]
        if truth is not None:
            rows.append((truth, height - 0.2, None))
        for spans, y, expected in rows:
            for label, first, last in spans:
                if label in self.fillers:
                    continue
                is_wrong = expected is not None and (label, first, last) not in expected
                colour = WRONG if is_wrong else RIGHT if y < 0 else "0.45"
                self.bars_ += self.ax_.barh(y + bar / 2, last - first - 0.2, bar, left=first - 0.4, color=colour)
                self.texts_.append(self.ax_.text((first + last - 1) / 2, y + bar / 2, str(label), color="white",
                                                 ha="center", va="center", fontsize="small", fontweight="bold"))
                if y < 0:
                    self.ax_.axvline(first - 0.5, ymin=0, ymax=1, color=colour, linewidth=0.6, alpha=0.6)
        self.ax_.set_xlim(-0.7, width - 0.3)
        self.ax_.set_ylim(height - 0.2 + (bar if truth is not None else 0.0), -0.9 - bar)

    def _draw_map(self):
        found, truth = self.found, self.truth if self.truth is None else np.asarray(self.truth)
        if any(part is not None and part.dtype.kind not in "biu" for part in (found, truth)):
            names = np.unique(np.concatenate([np.ravel(part) for part in (found, truth) if part is not None]))
            found, truth = (part if part is None else np.searchsorted(names, part) for part in (found, truth))
        palette = np.array([[int(COLOURS[j][k:k + 2], 16) / 255 for k in (1, 3, 5)] for j in REGIONS])
        tint = np.concatenate([palette[(found.astype(int) - 1) % len(REGIONS)], 0.55 * (found > 0)[..., None]], axis=2)
        self.overlay_ = self.ax_.imshow(tint, interpolation="nearest")
        for label in () if truth is None else np.unique(truth[truth >= 0])[1:]:
            self.ax_.contour(truth == label, levels=[0.5], colors="black", linewidths=1.2)

    def _spans(self, name, segments):
        """Return (label, first column, column after the last) of every segment, after a check."""
        try:
            starts = [int(start) for _, start in segments]
        except (TypeError, ValueError) as problem:
            raise InputTypeError(f"{name} must be a list of pairs (label, first column) or an array of labels, got "
                                 f"{segments!r:.60}") from problem
        if not starts or starts[0] != 0 or starts != sorted(set(starts)) or starts[-1] >= self.image.shape[1]:
            raise ParameterError(f"{name} must have first columns from 0 on, below {self.image.shape[1]}, got {starts}")
        return [(label, start, end) for (label, start), end in
                zip(segments, [*starts[1:], self.image.shape[1]], strict=True)]

    def _check_map(self, name, labels):
        if np.shape(labels) != self.image.shape[:2]:
            raise ParameterError(f"{name} must have a label for each pixel, shape {self.image.shape[:2]}, got "
                                 f"{np.shape(labels)}")
