"""Images bound to their covers: batches of decodings and planes."""

from __future__ import annotations

import numpy as np

from ...core.exceptions import NumericalError, ParameterError
from ...core.protocols import Decodings
from ...core.ragged import blocks
from ...oracles.segmentation import gather, segment, starts_of
from ..batch_oracle import BatchOracle, check_lengths
from ._kernels import Truth, add_windows, losses, solve_items, solve_slack_items, unfold, window_planes
from .covers import read_covers

BLOCK = 512
"""Columns whose windows are multiplied at a time; windows and scores fit in the cache."""


class SegmentationOracle(BatchOracle):
    """`Segmentation` bound to images and their truth covers."""

    def __init__(self, model, X, Y):
        self.n_examples = check_lengths(X, Y)
        self.dim, self._model = model.dim, model
        self._columns = model._columns(X)
        truth = read_covers(model, Y, self._columns.sizes, "Y")
        self._truth = truth_of(model, truth, self._columns.offsets)
        self.sizes = 16 * self._columns.sizes       # in these units a shard has a few blocks of the matrix products
        self.table_losses = self._columns.sizes.astype(float)
        values = self._columns.values
        norms = np.concatenate([np.linalg.norm(values[k:k + BLOCK].astype(np.float64), axis=1)
                                for k in range(0, len(values), BLOCK)])
        # every column lies in one window of the cover, and in one of the truth cover
        self.norms = 2.0 * (1.0 + 1e-12) * np.add.reduceat(norms, self._columns.offsets[:-1])
        if model.rescaling == "slack":
            self.norms *= self._columns.sizes       # times the largest loss
        self._covers = truth
        self.fingerprint = self._checksum()

    def _identity(self):
        model, truth = self._model, self._covers
        return ((model.height, model.loss_name, model.rescaling), model.widths, model.symbols, model.fillers,
                truth.offsets, truth.values, self._columns.offsets, self._columns.values)

    def _prepare(self, w):
        return self._model.prepare(w)

    def _decode(self, rows, weights, loss):
        labellings, values = solve(self._model, weights, self._columns, rows, self._truth, loss)
        return Decodings(labellings, values, values)

    def _add_planes(self, rows, labellings, scales, slope):
        found = read_covers(self._model, labellings, self._columns.sizes[rows], "labellings")
        costs = losses_of(self._model, self._truth, rows, found)
        add_windows(self._model._templates, self._columns.values, self._truth, rows, found.values, found.offsets,
                    scales * costs if self._model.rescaling == "slack" else scales, slope)
        return float(scales @ costs)

    def _planes(self, rows, labellings):
        found = read_covers(self._model, labellings, self._columns.sizes[rows], "labellings")
        costs = losses_of(self._model, self._truth, rows, found)
        scales = costs if self._model.rescaling == "slack" else np.ones(len(rows))
        return costs, window_planes(self._model._templates, self._columns.values, self._truth, rows, found.values,
                                    found.offsets, scales)

    def _losses(self, rows, labellings):
        found = read_covers(self._model, labellings, self._columns.sizes[rows], "labellings")
        return losses_of(self._model, self._truth, rows, found)


def solve(model, weights, columns, rows, truth=None, loss=False):
    """Return best covers of the examples `rows` as a Ragged, and their values."""
    sizes = columns.sizes[rows]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    labels, counts = np.empty(offsets[-1], dtype=np.int32), np.empty(len(rows), dtype=np.int64)
    values = np.empty(len(rows))
    ranges = list(blocks(offsets, BLOCK))
    longest = max((offsets[last] - offsets[first] for first, last in ranges), default=0)
    windows = np.empty((longest, model.height * int(model.widths.max())))
    scores = np.empty((longest, len(model.widths)))
    for first, last in ranges:
        items, low, high = rows[first:last], offsets[first], offsets[last]
        W, S = windows[:high - low], scores[:high - low]
        unfold(columns.values, columns.offsets[items], columns.offsets[items + 1], W)
        with np.errstate(over="ignore", invalid="ignore"):
            for a, b, templates in weights:
                np.matmul(W[:, :len(templates)], templates, out=S[:, a:b])
        found = labels[low:high], counts[first:last], values[first:last]
        if loss and model.rescaling == "slack":
            solve_slack_items(model._templates, S, offsets[first:last + 1] - low, truth, items, *found)
        else:
            solve_items(model._templates, S, offsets[first:last + 1] - low, truth, items, loss, *found)
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



def losses_of(model, truth, rows, found):
    out = np.empty(len(rows))
    losses(model._templates, truth, rows, found.values, found.offsets, out)
    return out


def truth_of(model, cover, offsets):
    """Return the truth covers in the form of the kernels."""
    widths = model.widths[cover.values]
    symbols = np.where(model.fillers[cover.values], -1, model._kinds[cover.values])
    starts = starts_of(cover.values, cover.offsets, model.widths)
    return Truth(cover.values, cover.offsets, offsets.astype(np.int64), np.repeat(symbols, widths).astype(np.int32),
                np.repeat(starts, widths))
