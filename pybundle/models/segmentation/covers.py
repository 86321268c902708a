"""Check covers of images by labelled segments, and join them into arrays."""

from __future__ import annotations

import numpy as np

from ...core.exceptions import InputTypeError, ParameterError
from ...core.ragged import Ragged
from ...core.validation import integer_array


def read_covers(model, Y, sizes, name):
    """Return labellings as a Ragged of int32 labels; each must cover `sizes[i]` columns (None: any number)."""
    if not isinstance(Y, Ragged):
        Y = [integer_labels(f"{name}[{i}]", y) for i, y in enumerate(Y)]
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
    """Return the labels of pairs (label, first column), which must leave no gap and not overlap."""
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


def integer_labels(name, values):
    return integer_array(name, values).astype(np.int64, copy=False)
