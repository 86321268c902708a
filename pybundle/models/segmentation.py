"""Images cut into labelled segments that cover all columns: templates slid over the columns.

    <w, Psi(x, y)> = sum over the segments (a, k) of y of  sum_j <w_a[j], x[k + j]>,   j = 0..width(a) - 1

the licence plate model of Uricar, Franc, Hlavac, "Bundle methods for structured output learning" (2013). All windows
of a width times all templates of that width are one matrix product; then the exact covers are decoded by dynamic
programming (`pybundle.oracles.segment`).
"""

from __future__ import annotations

from zlib import crc32

import numpy as np

from ..core.checksum import checksum
from ..core.exceptions import InputTypeError, NumericalError, ParameterError
from ..core.protocols import Decodings
from ..core.ragged import Ragged
from ..core.validation import check_choice, check_count, check_rows, check_vector, contiguous, integer_array
from ..oracles.segmentation import check_widths, gather, label_runs, segment, starts_of
from ._segmentation import Gold, Templates, add_windows, losses, solve_items, solve_slack_items, unfold, window_planes
from .base import StructuredModel
from .batch_oracle import BatchOracle, check_lengths, check_sums

BLOCK = 512
"""Columns whose windows are multiplied at once: windows and scores stay in the cache."""


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
        Labels whose gold columns are not counted by the loss, for instance one column of unknown content.
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

    def __init__(self, height, widths, *, symbols=None, fillers=(), loss="start", layout="columns",
                 rescaling="margin"):
        self.height = check_count("height", height)
        self.widths = check_widths(widths)
        n_labels = len(self.widths)
        self.symbols = _labels("symbols", np.arange(n_labels) if symbols is None else symbols)
        if self.symbols.shape != (n_labels,) or self.symbols.min() < 0:
            raise ParameterError(f"symbols must hold one number >= 0 for each of the {n_labels} widths, got "
                                 f"shape {self.symbols.shape}, minimum {self.symbols.min(initial=0)}")
        fillers = _labels("fillers", fillers)
        if fillers.ndim != 1 or ((fillers < 0) | (fillers >= n_labels)).any():
            raise ParameterError(f"fillers must be labels 0..{n_labels - 1}, got {fillers.tolist()}")
        self.fillers = np.zeros(n_labels, dtype=bool)
        self.fillers[fillers] = True
        self.loss_name = check_choice("loss", loss, ("start", "symbol"))
        self.layout = check_choice("layout", layout, ("columns", "image"))
        self.rescaling = check_choice("rescaling", rescaling, ("margin", "slack"))
        self.first = np.concatenate([[0], self.height * np.cumsum(self.widths, dtype=np.int64)])
        self.dim = int(self.first[-1])
        order = np.argsort(self.widths, kind="stable").astype(np.int32)
        place_widths = self.widths[order]
        runs = label_runs(place_widths)
        self._kinds = np.unique(self.symbols, return_inverse=True)[1].astype(np.int32)
        self._templates = Templates(self.height, self.widths, self._kinds, order, runs, self.first, loss == "start")
        # where the weights of the labels of each width stand, (labels, width * height)
        self._gathers = [(int(low), int(high), self.first[order[low:high], None] + np.arange(width * self.height))
                         for low, high, width in zip(runs[0], runs[0][1:], runs[1], strict=False)]

    def joint_feature(self, x, y):
        columns, feature = self._columns([x]), np.zeros(self.dim)
        cover = _covers(self, [y], columns.sizes, "y")
        nothing = _gold(self, Ragged(cover.values[:0], [0, 0]), columns.offsets)
        add_windows(self._templates, columns.values, nothing, np.zeros(1, np.int64), cover.values, cover.offsets,
                    np.ones(1), feature)
        return feature

    def loss(self, y, y_hat):
        cover = _covers(self, [y], None, "y")
        offsets = np.array([0, self.widths[cover.values].sum()])
        found = _covers(self, [y_hat], offsets[1:], "y_hat")
        return float(_losses(self, _gold(self, cover, offsets), np.zeros(1, np.int64), found)[0])

    def decode(self, w, x):
        columns = self._columns([x])
        return _solve(self, self.prepare(check_vector("w", w, self.dim)), columns, np.zeros(1, np.int64))[0][0]

    def loss_augmented_decode(self, w, x, y):
        return self.oracle([x], [y]).solve(0, w).labelling

    def oracle(self, X, Y):
        return SegmentationOracle(self, X, Y)

    def starts(self, y):
        """First column of each segment of a labelling, int32."""
        y = _labels("y", y)
        return starts_of(y, np.array([0, len(y)]), self.widths)

    def template(self, w, label):
        """The weights of one label as an image, shape (height, width); a view."""
        return w[self.first[label]:self.first[label + 1]].reshape(-1, self.height).T

    def prepare(self, w):
        """For each width the first and last place of its labels, and their templates side by side."""
        return [(low, high, w[index].T) for low, high, index in self._gathers]

    def _columns(self, X):
        """The examples as a Ragged of finite rows (height,) of uint8, float32 or float64."""
        if not isinstance(X, Ragged):
            try:
                X = [np.asarray(x) for x in X]
            except ValueError as problem:
                raise InputTypeError(f"X must hold images, arrays of numbers: {problem}") from problem
            if self.layout == "image":
                X = [x.T for x in X]
            for i, x in enumerate(X):
                _check_shape(self, i, x.shape)
            X = Ragged.of(X)
        elif self.layout == "image":
            raise InputTypeError("X must be a list of images where layout='image'; a Ragged holds columns, pass "
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


class SegmentationOracle(BatchOracle):
    """`Segmentation` bound to images and their gold covers."""

    def __init__(self, model, X, Y):
        self.n_examples = check_lengths(X, Y)
        self.dim, self._model = model.dim, model
        self._columns = model._columns(X)
        gold = _covers(model, Y, self._columns.sizes, "Y")
        self._gold = _gold(model, gold, self._columns.offsets)
        self.sizes = 16 * self._columns.sizes       # a shard is a few blocks of the products
        self.table_losses = self._columns.sizes.astype(float)
        values = self._columns.values
        norms = np.concatenate([np.linalg.norm(values[k:k + BLOCK].astype(np.float64), axis=1)
                                for k in range(0, len(values), BLOCK)])
        # every column lies in one window of either cover
        self.norms = 2.0 * (1.0 + 1e-12) * np.add.reduceat(norms, self._columns.offsets[:-1])
        if model.rescaling == "slack":
            self.norms *= self._columns.sizes       # the largest loss
        self._covers = gold
        self.fingerprint = self._checksum()

    def _checksum(self):
        model, gold = self._model, self._covers
        return checksum(self._columns.values, crc32(self._columns.offsets, crc32(gold.values, crc32(repr((
            type(model).__name__, model.height, model.loss_name, model.rescaling,
            model.widths.tolist(), model.symbols.tolist(),
            model.fillers.tolist(), gold.offsets.tolist())).encode()))))

    def is_current(self):
        return self._checksum() == self.fingerprint

    def prepare(self, w):
        return self._model.prepare(w)

    def solve_batch(self, rows, weights, loss=True):
        rows = check_rows("rows", rows, self.n_examples).astype(np.int64, copy=False)
        labellings, values = _solve(self._model, weights, self._columns, rows, self._gold, loss)
        return Decodings(labellings, values, values)

    def add_planes(self, rows, labellings, scales, slope):
        rows, scales = check_sums(self, rows, scales, slope)
        rows = rows.astype(np.int64, copy=False)
        found = _covers(self._model, labellings, self._columns.sizes[rows], "labellings")
        scales, costs = np.asarray(scales, dtype=np.float64), _losses(self._model, self._gold, rows, found)
        add_windows(self._model._templates, self._columns.values, self._gold, rows, found.values, found.offsets,
                    scales * costs if self._model.rescaling == "slack" else np.ascontiguousarray(scales), slope)
        return float(scales @ costs)

    def planes(self, rows, labellings):
        rows = check_rows("rows", rows, self.n_examples, labellings)
        if len(rows) == 0:
            return super().planes(rows, labellings)
        found = _covers(self._model, labellings, self._columns.sizes[rows], "labellings")
        rows = rows.astype(np.int64, copy=False)
        costs = _losses(self._model, self._gold, rows, found)
        scales = costs if self._model.rescaling == "slack" else np.ones(len(rows))
        return costs, window_planes(self._model._templates, self._columns.values, self._gold, rows, found.values,
                                    found.offsets, scales)

    def losses(self, rows, labellings):
        rows = check_rows("rows", rows, self.n_examples).astype(np.int64, copy=False)
        found = _covers(self._model, labellings, self._columns.sizes[rows], "labellings")
        return _losses(self._model, self._gold, rows, found)


def _solve(model, weights, columns, rows, gold=None, loss=False):
    """Best covers of the examples `rows` as a Ragged, and their values."""
    sizes = columns.sizes[rows]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    labels, counts = np.empty(offsets[-1], dtype=np.int32), np.empty(len(rows), dtype=np.int64)
    values = np.empty(len(rows))
    blocks = _blocks(offsets)
    longest = max((offsets[last] - offsets[first] for first, last in blocks), default=0)
    windows = np.empty((longest, model.height * int(model.widths.max())))
    scores = np.empty((longest, len(model.widths)))
    for first, last in blocks:
        items, low, high = rows[first:last], offsets[first], offsets[last]
        W, S = windows[:high - low], scores[:high - low]
        unfold(columns.values, columns.offsets[items], columns.offsets[items + 1], W)
        with np.errstate(over="ignore", invalid="ignore"):
            for a, b, templates in weights:
                np.matmul(W[:, :len(templates)], templates, out=S[:, a:b])
        found = labels[low:high], counts[first:last], values[first:last]
        if loss and model.rescaling == "slack":
            solve_slack_items(model._templates, S, offsets[first:last + 1] - low, gold, items, *found)
        else:
            solve_items(model._templates, S, offsets[first:last + 1] - low, gold, items, loss, *found)
    failed = np.flatnonzero((counts < 0) | ~np.isfinite(values))
    if len(failed):
        j, known = int(failed[0]), np.unique(model.widths)
        try:
            segment(np.zeros((len(known), sizes[j])), known)
        except ParameterError as problem:
            raise ParameterError(f"X[{rows[j]}] has {sizes[j]} columns, which no segments of the widths "
                                 f"{known.tolist()} cover exactly") from problem
        raise NumericalError(f"the scores of X[{rows[j]}] overflow; scale X or w down")
    return gather(labels, counts, offsets, model.widths)[0], values


def _blocks(offsets):
    """Ranges of neighbouring items of at most BLOCK columns, or one item."""
    first = 0
    blocks = []
    while first < len(offsets) - 1:
        last = max(int(np.searchsorted(offsets, offsets[first] + BLOCK, side="right")) - 1, first + 1)
        blocks.append((first, last))
        first = last
    return blocks


def _losses(model, gold, rows, found):
    out = np.empty(len(rows))
    losses(model._templates, gold, rows, found.values, found.offsets, out)
    return out


def _gold(model, cover, offsets):
    """The gold covers as the kernels want them."""
    widths = model.widths[cover.values]
    symbols = np.where(model.fillers[cover.values], -1, model._kinds[cover.values])
    starts = starts_of(cover.values, cover.offsets, model.widths)
    return Gold(cover.values, cover.offsets, offsets.astype(np.int64), np.repeat(symbols, widths).astype(np.int32),
                np.repeat(starts, widths))


def _covers(model, Y, sizes, name):
    """Labellings as a Ragged of int32 labels; each must cover `sizes[i]` columns (None: any number)."""
    if not isinstance(Y, Ragged):
        Y = [_labels(f"{name}[{i}]", y) for i, y in enumerate(Y)]
        Y = Ragged.of([_check_pairs(model, i, y, name) if y.ndim == 2 else y for i, y in enumerate(Y)], name)
    labels = Y.values
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InputTypeError(f"{name} must hold integer labels or pairs (label, first column), got dtype "
                             f"{labels.dtype}, shape {labels.shape} in all")
    n_labels = len(model.widths)
    if len(labels) and (labels.min() < 0 or labels.max() >= n_labels):
        s = int(np.flatnonzero((labels < 0) | (labels >= n_labels))[0])
        raise ParameterError(f"{Y.name_of(s, name)} must be a label 0..{n_labels - 1}, got {labels[s]}")
    labels = np.ascontiguousarray(labels, dtype=np.int32)
    ends = np.concatenate([[0], np.cumsum(model.widths[labels], dtype=np.int64)])[Y.offsets]
    bad = np.flatnonzero(np.diff(ends) != sizes) if sizes is not None else []
    if len(bad):
        i = int(bad[0])
        covered, size = int(ends[i + 1] - ends[i]), int(sizes[i])
        raise ParameterError(f"{name}[{i}] must cover the {size} columns of X[{i}] exactly, but its segments are "
                             + (f"{covered} columns wide: column {covered} is not covered" if covered < size else
                                f"{covered} columns wide: the last one reaches beyond column {size - 1}"))
    return Ragged(labels, Y.offsets)


def _check_pairs(model, i, pairs, name):
    """The labels of pairs (label, first column), which must follow each other without gap or overlap."""
    if pairs.shape[1] != 2:
        raise ParameterError(f"{name}[{i}] must hold labels or pairs (label, first column), got shape {pairs.shape}")
    labels, starts = pairs[:, 0], pairs[:, 1]
    end = 0
    for j, (label, start) in enumerate(zip(labels.tolist(), starts.tolist(), strict=True)):
        if not 0 <= label < len(model.widths):
            raise ParameterError(f"{name}[{i}][{j}] must have a label 0..{len(model.widths) - 1}, got {label}")
        if start != end:
            what = f"column {end} is not covered" if start > end else f"column {start} is covered twice"
            raise ParameterError(f"{name}[{i}]: {what}: segment {j} must start at column {end}, got {start}")
        end = start + int(model.widths[label])
    return np.ascontiguousarray(labels)


def _check_shape(model, i, shape):
    if len(shape) != 2 or shape[1] != model.height:
        wanted = f"(W, {model.height})" if model.layout == "columns" else f"({model.height}, W)"
        got = shape if model.layout == "columns" else shape[::-1]
        hint = "; pass layout='image'" if len(shape) == 2 and shape[0] == model.height != shape[1] else ""
        raise ParameterError(f"X[{i}] must have shape {wanted}, got {got}"
                             + (hint if model.layout == "columns" else hint.replace("image", "columns")))


def _labels(name, values):
    return integer_array(name, values).astype(np.int64, copy=False)
