"""Images cut into labelled segments that cover all columns; each label has a template, an image of its width.

    <w, Psi(x, y)> = sum over the segments (a, k) of y of  sum_j <w_a[j], x[k + j]>,   j = 0..width(a) - 1

This is the licence plate model of Uricar, Franc, Hlavac, "Bundle methods for structured output learning" (2013). All
windows of a width times all templates of that width are one matrix product; then the exact covers are decoded by
dynamic programming (`pybundle.oracles.segment`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...core.exceptions import InputTypeError, ParameterError
from ...core.ragged import Ragged
from ...core.types import Array, Data, Floats
from ...core.validation import as_array, check_choice, check_count, check_vector, contiguous
from ...oracles.segmentation import check_widths, label_runs, starts_of
from ..base import StructuredModel
from ..batch_oracle import BatchOracle
from ._kernels import Templates, add_windows
from .covers import integer_labels, read_covers
from .oracle import SegmentationOracle, losses_of, solve, truth_of


class Segmentation(StructuredModel):
    """Exact cover of the columns of an image by segments, one template for each label.

    An example x is an image, column by column: shape (W, height). A labelling is the sequence of labels from left to
    right, whose widths add up to W; equivalently, pairs (label, first column). Memory of a pass: O(1) images.

    Parameters
    ----------
    height : int
        Pixels of a column.
    widths : array of int, shape (A,)
        Width of the segments of each label. One symbol of several widths is several labels.
    symbols : array of int, shape (A,), optional
        What a label means, 0..S-1; by default every label is a symbol of its own. Only the loss looks at it.
    fillers : sequence of int
        Labels whose truth columns are not counted by the loss, for instance one column of unknown content.
    loss : {"start", "symbol"}
        The loss is the number of counted columns that lie in a segment of the wrong symbol, or, with "start", that
        lie in a segment of the wrong symbol or the wrong first column.
    rescaling : {"margin", "slack"}
        "slack" is exact too, at O(W^2 A) for an image of W columns.
    layout : {"columns", "image"}
        Whether an example has shape (W, height) or (height, W).

    Attributes
    ----------
    dim : int
        height times the sum of the widths: template after template, each column by column.

    Notes
    -----
    Decoding costs 2 W dim flops in products and O(W A) beyond. Among equal covers the narrower label wins, then the
    smaller, compared from the right end.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> model = pb.models.Segmentation(height=1, widths=[1, 2])
    >>> X = [np.array([[0.0], [1.0], [1.0]]), np.array([[1.0], [1.0], [0.0]])]
    >>> risk = pb.risks.Structured(model, X, [[0, 1], [1, 0]])
    >>> w = pb.minimize(risk, lam=0.1, tol=1e-3).x
    >>> [model.decode(w, x).tolist() for x in X]
    [[0, 1], [1, 0]]
    """

    def __init__(self, height: int, widths: ArrayLike, *, symbols: ArrayLike | None = None, fillers: Sequence[Any] = (),
                 loss: str = "start", layout: str = "columns", rescaling: str = "margin") -> None:
        self.height: int = check_count("height", height)
        self.widths: Array = check_widths(widths)
        n_labels = len(self.widths)
        self.symbols: Array = integer_labels("symbols", np.arange(n_labels) if symbols is None else symbols)
        if self.symbols.shape != (n_labels,) or self.symbols.min() < 0:
            raise ParameterError(f"symbols must hold one number >= 0 for each of the {n_labels} widths, got "
                                 f"shape {self.symbols.shape}, minimum {self.symbols.min(initial=0)}")
        fillers = integer_labels("fillers", fillers)
        if fillers.ndim != 1 or ((fillers < 0) | (fillers >= n_labels)).any():
            raise ParameterError(f"fillers must be labels 0..{n_labels - 1}, got {fillers.tolist()}")
        self.fillers: Array = np.zeros(n_labels, dtype=bool)
        self.fillers[fillers] = True
        self.loss_name: str = check_choice("loss", loss, ("start", "symbol"))
        self.layout: str = check_choice("layout", layout, ("columns", "image"))
        self.rescaling: str = check_choice("rescaling", rescaling, ("margin", "slack"))
        self.first: Array = np.concatenate([[0], self.height * np.cumsum(self.widths, dtype=np.int64)])
        self.dim: int = int(self.first[-1])
        order = np.argsort(self.widths, kind="stable").astype(np.int32)
        place_widths = self.widths[order]
        runs = label_runs(place_widths)
        self._kinds = np.unique(self.symbols, return_inverse=True)[1].astype(np.int32)
        self._templates = Templates(self.height, self.widths, self._kinds, order, runs, self.first, loss == "start")
        # indices of the weights of the labels of each width, shape (labels, width * height)
        self._gathers = [(int(low), int(high), self.first[order[low:high], None] + np.arange(width * self.height))
                         for low, high, width in zip(runs[0], runs[0][1:], runs[1], strict=False)]

    def joint_feature(self, x: Any, y: Any) -> Floats:
        columns, feature = self._columns([x]), np.zeros(self.dim)
        cover = read_covers(self, [y], columns.sizes, "y")
        nothing = truth_of(self, Ragged(cover.values[:0], [0, 0]), columns.offsets)
        add_windows(self._templates, columns.values, nothing, np.zeros(1, np.int64), cover.values, cover.offsets,
                    np.ones(1), feature)
        return feature

    def loss(self, y: Any, y_hat: Any) -> float:
        cover = read_covers(self, [y], None, "y")
        offsets = np.array([0, self.widths[cover.values].sum()])
        found = read_covers(self, [y_hat], offsets[1:], "y_hat")
        return float(losses_of(self, truth_of(self, cover, offsets), np.zeros(1, np.int64), found)[0])

    def decode(self, w: Array, x: Any) -> Array:
        columns = self._columns([x])
        return solve(self, self.prepare(check_vector("w", w, self.dim)), columns, np.zeros(1, np.int64))[0][0]

    def loss_augmented_decode(self, w: Array, x: Any, y: Any) -> Array:
        return self.oracle([x], [y]).solve(0, w).labelling

    def oracle(self, X: Data, Y: Data) -> BatchOracle:
        return SegmentationOracle(self, X, Y)

    def starts(self, y: Any) -> Array:
        """Return the first column of each segment of a labelling, int32."""
        y = integer_labels("y", y)
        return starts_of(y, np.array([0, len(y)]), self.widths)

    def template(self, w: Array, label: Any) -> Floats:
        """Return a view of the weights of one label as an image, shape (height, width)."""
        return w[self.first[label]:self.first[label + 1]].reshape(-1, self.height).T

    def prepare(self, w: Array) -> list[tuple[int, int, Floats]]:
        """Return, for each width, the first and last place of its labels, and the matrix of their templates."""
        return [(low, high, w[index].T) for low, high, index in self._gathers]

    def _columns(self, X):
        """Return the examples as a Ragged of finite rows (height,) of uint8, float32 or float64."""
        if not isinstance(X, Ragged):
            X = [as_array("X must hold images, arrays of numbers", x) for x in X]
            if self.layout == "image":
                X = [x.T for x in X]
            for i, x in enumerate(X):
                _check_shape(self, i, x.shape)
            X = Ragged.of(X)
        elif self.layout == "image":
            raise InputTypeError("X must be a list of images if layout='image'; a Ragged holds columns, pass "
                                 "layout='columns'")
        else:
            _check_shape(self, 0, X.values.shape)
        values = X.values
        if values.dtype.kind not in "biuf":
            raise InputTypeError(f"X must hold real numbers, got dtype {values.dtype}")
        if values.dtype not in (np.uint8, np.float32, np.float64):
            values = values.astype(np.float64)
        values = contiguous(values)
        if values.dtype != np.uint8 and not np.isfinite(values).all():
            row, h = np.argwhere(~np.isfinite(values))[0]
            i, column = X.place(row)
            raise ParameterError(f"X[{i}] must be finite, got {values[row, h]} in column {column}")
        if X.sizes.min() == 0:
            raise ParameterError(f"X[{int(X.sizes.argmin())}] must have at least one column, got none")
        return Ragged(values, X.offsets)


def _check_shape(model, i, shape):
    if len(shape) != 2 or shape[1] != model.height:
        wanted = f"(W, {model.height})" if model.layout == "columns" else f"({model.height}, W)"
        got = shape if model.layout == "columns" else shape[::-1]
        hint = "; pass layout='image'" if len(shape) == 2 and shape[0] == model.height != shape[1] else ""
        raise ParameterError(f"X[{i}] must have shape {wanted}, got {got}"
                             + (hint if model.layout == "columns" else hint.replace("image", "columns")))
