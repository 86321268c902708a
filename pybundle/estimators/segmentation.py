"""`SegmentationSVM` cuts images into labelled segments that cover their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError, StateError
from ..core.labels import names_of
from ..core.ragged import Ragged, array_of
from ..core.types import Callbacks, Floats
from ..core.validation import check_choice, check_integer
from ..models import Segmentation
from ..solvers.method import Method
from .labels import label_array
from .structured import StructuredEstimator


class SegmentationSVM(StructuredEstimator):
    """Labelled segments that cover the columns of an image, trained to a certified gap.

        F(w) = |w|^2 / (2 C) + sum_i c_i max_y [ loss(y_i, y) + <w, Psi(x_i, y) - Psi(x_i, y_i)> ],

    Psi being sums of the pixels under the segments, template by template (`pb.models.Segmentation`).

    X is a list of images, each column by column, (W, height), or with `layout="image"` (height, W); y a list of
    segmentations, each a list of pairs (label, first column) from left to right. Every width with which a label occurs
    has a template of its own.

    Parameters
    ----------
    {C}
    loss : {"start", "symbol"}
        Columns under a segment of the wrong label; with "start" or of the wrong first column.
    rescaling : {"margin", "slack"}
    fillers : sequence
        Labels whose columns do not count in the loss.
    widths : dict, optional
        Further widths that predictions may use, `{label: [width, ...]}` for labels that occur.
    layout : {"columns", "image"}
    {parameters}

    Attributes
    ----------
    coef_ : ndarray, shape (dim,)
    classes_ : ndarray, shape (K,)
        The labels, in sorted order.
    symbols_, widths_ : ndarray of int, shape (A,)
        Class (a number of `classes_`) and width of every template.
    height_ : int
    {certificate}

    Notes
    -----
    `predict` returns lists of pairs (label, first column); `score` is the fraction of columns without loss, fillers
    counted like others; `template(label, width)` the weights as an image.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> X = [np.array([[0.0], [1.0], [1.0]]), np.array([[1.0], [1.0], [0.0]])]
    >>> y = [[("gap", 0), ("bar", 1)], [("bar", 0), ("gap", 2)]]
    >>> svm = pb.SegmentationSVM(C=10.0).fit(X, y)
    >>> svm.predict(X) == y
    True
    """

    def __init__(self, C: float = 1.0, *, loss: str = "start", rescaling: str = "margin", fillers: Sequence[Any] = (),
                 widths: Any = None, layout: str = "columns", tol: float = 0.001, atol: float | None = None,
                 method: str | Method = "auto", max_iter: int | None = None, time_limit: float | None = None,
                 n_jobs: int | None = None, random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self._take_arguments(locals())

    def _survey(self, X, y, weights):
        """Return the set of pairs (label, width), and the height of the images."""
        images = self._encode(X)
        kinds = {(label, width) for i, (segments, image) in enumerate(zip(y, images, strict=True))
                 for label, _, width in _pairs(i, segments, len(image), len(image.T))}
        return kinds, int(images[0].shape[1])

    def _learn(self, surveys):
        heights = sorted({height for _, height in surveys})
        if len(heights) > 1:
            raise ParameterError(f"X must hold images of one height, got {heights[0]} and {heights[1]}")
        kinds = set().union(*(kinds for kinds, _ in surveys))
        found = [*kinds, *self._further_widths({label for label, _ in kinds})]
        named = label_array([label for label, _ in found], "labels of y and widths")
        classes, codes = np.unique(named, return_inverse=True)
        kinds = np.unique(np.stack([codes, [width for _, width in found]], axis=1), axis=0)
        return {"classes_": classes, "symbols_": np.ascontiguousarray(kinds[:, 0]),
                "widths_": np.ascontiguousarray(kinds[:, 1]), "height_": heights[0]}

    def _encode_pairs(self, X, y, fitted):
        images, classes = self._encode(X), fitted["classes_"].tolist()
        numbers = {(classes[symbol], width): k for k, (symbol, width) in
                   enumerate(zip(fitted["symbols_"].tolist(), fitted["widths_"].tolist(), strict=True))}
        truths = [[numbers[label, width] for label, _, width in _pairs(i, segments, len(image))]
                  for i, (segments, image) in enumerate(zip(y, images, strict=True))]
        ends = np.cumsum([0] + [len(labels) for labels in truths])
        return images, Ragged(np.concatenate(truths).astype(np.int64), ends)

    def _check_state(self):
        for name, low, high in (("symbols_", 0, len(self.classes_) - 1), ("widths_", 1, self.coef_.size)):
            values = getattr(self, name)
            if values.dtype.kind != "i" or values.ndim != 1 or not low <= values.min() <= values.max() <= high:
                raise StateError(f"{name} must be integers {low}..{high}")
        super()._check_state()

    def _further_widths(self, labels):
        if self.widths is None:
            return []
        if not isinstance(self.widths, Mapping):
            raise InputTypeError(f"widths must be a dictionary of widths by label, got {type(self.widths).__name__}")
        found = []
        for label, widths in self.widths.items():
            if label not in labels:
                raise ParameterError(f"widths must be by labels of y, {names_of(labels)}, got {label!r:.40}")
            if not isinstance(widths, (list, tuple, set, range, np.ndarray)):
                raise InputTypeError(f"widths[{label!r}] must be a list of widths, got {widths!r:.60}")
            found += [(label, check_integer(f"widths[{label!r}]", width, low=1)) for width in widths]
        return found

    def _make_model(self, fitted):
        fillers = list(self.fillers)
        unknown = [label for label in fillers if label not in fitted.classes_.tolist()]
        if unknown:
            raise ParameterError(f"fillers must be labels that occur, got {unknown[0]!r}")
        is_filler = np.isin(fitted.classes_, fillers)[fitted.symbols_]
        return Segmentation(fitted.height_, fitted.widths_, symbols=fitted.symbols_,
                            fillers=np.flatnonzero(is_filler), loss=self.loss, rescaling=self.rescaling)

    def _encode(self, X):
        check_choice("layout", self.layout, ("columns", "image"))
        images = [np.asarray(array_of(x, f"X[{i}]")) for i, x in enumerate(X)]
        for i, image in enumerate(images):
            if image.ndim != 2:
                raise ParameterError(f"X[{i}] must be an image of two dimensions, got shape {image.shape}")
        return [image.T for image in images] if self.layout == "image" else images

    def _predict(self, model, x):
        classes, found = self.classes_.tolist(), []
        for labels in self._labels(model, x):
            starts = model.starts(labels).tolist()
            found.append([(classes[self.symbols_[label]], start)
                          for label, start in zip(labels, starts, strict=True)])
        return found

    def _labels(self, model, x):
        return [model.decode(self.coef_, image) for image in x]

    def _count(self, X, y):
        images = self._encode(X)
        right = np.zeros(len(images))
        for i, (found, truth, image) in enumerate(zip(self.predict(X), y, images, strict=True)):
            # a column is right if its label agrees and, for the loss "start", the first column of its segment, too
            mine, theirs = ([(label, start) if self.loss == "start" else label
                             for label, start, width in _pairs(i, segments, len(image)) for _ in range(width)]
                            for segments in (found, truth))
            right[i] = sum(a == b for a, b in zip(mine, theirs, strict=True))
        return right, np.array([float(len(image)) for image in images])

    def template(self, label: Any, width: Any) -> Floats:
        """The weights of one label at one width, shape (height, width)."""
        model = self.model_
        places = np.flatnonzero((self.classes_[self.symbols_] == label) & (self.widths_ == width))
        if len(places) == 0:
            raise ParameterError("label and width must be those of a template, see symbols_ and widths_, got "
                                 f"{label!r}, {width!r}")
        return model.template(self.coef_, int(places[0]))


def _pairs(i, segments, n_columns, height=0):
    """Return (label, first column, width) of every segment of image i; `height` is for the advice in an error."""
    try:
        pairs = [(label, index(start)) for label, start in segments]
    except (TypeError, ValueError) as problem:
        raise InputTypeError(f"y[{i}] must be a list of pairs (label, first column), got {segments!r:.60}") from problem
    label_array([label for label, _ in pairs], f"labels of y[{i}]")
    starts = [start for _, start in pairs]
    if not starts or starts[0] != 0 or any(b <= a for a, b in zip(starts, [*starts[1:], n_columns], strict=True)):
        is_turned = bool(starts) and n_columns <= starts[-1] < height
        turn = "; images are read as columns, pass layout='image'" if is_turned else ""
        raise ParameterError(f"y[{i}] must hold segments from column 0 on, from left to right, the last one before "
                             f"column {n_columns}, got the first columns {starts!s:.50}{turn}")
    return [(label, start, end - start) for (label, start), end in zip(pairs, [*starts[1:], n_columns], strict=True)]
