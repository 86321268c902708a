"""Checks of the labels, weights and costs that users pass to risks and models."""

from __future__ import annotations

from itertools import islice

import numpy as np

from .exceptions import InputTypeError, ParameterError
from .validation import check_choice, check_integer, read_only, real_numbers, refuse_masked


def labels_of(y):
    """Return the set of labels in `y`, whose entries are labels or sequences of them, nested to any depth.

    >>> sorted(labels_of([["a", "b"], ["b"]]))
    ['a', 'b']
    """
    if isinstance(y, np.generic):
        return {y.item()}
    if isinstance(y, (str, bytes)) or not hasattr(y, "__len__"):
        return {y}
    if hasattr(y, "__array__"):
        y = np.asarray(y)
        if y.dtype != object:
            return set(y.ravel().tolist())
    found = set()
    for i in range(len(y)):
        found |= labels_of(y[i])
    return found


def names_of(labels):
    """Return a few labels as a text for messages: `0, 1, 'x', ...`."""
    first = sorted(map(repr, labels))[:5]
    return ", ".join(f"{label:.20}" for label in first) + (", ..." if len(labels) > len(first) else "")


def as_output(found, output, classes=None):
    """Return labellings, a `Ragged` or list of arrays, as lists of Python values (`output="list"`) or as arrays.

    With `classes`, an array, labellings consist of indices into it. In lists, equal labels are then one object.
    """
    if check_choice("output", output, ("list", "array")) == "array":
        return list(found) if classes is None else [classes[codes] for codes in found]
    if classes is None:
        return [labels.tolist() if isinstance(labels, np.ndarray) else labels for labels in found]
    labels = [label.item() if isinstance(label, np.generic) else label for label in classes.tolist()]
    return [[labels[code] for code in codes.tolist()] for codes in found]


def integer_labels(y, n_examples, remedy):
    """Return `y` as an int64 vector of `n_examples` entries; error messages end with `remedy`."""
    refuse_masked("y", y)
    try:
        labels = np.asarray(y)
    except ValueError as problem:
        raise InputTypeError(f"y must hold one integer for each row of X, got {type(y).__name__}: "
                             f"{problem}; {remedy}") from problem
    if labels.shape != (n_examples,):
        raise ParameterError(f"y must have one label for each row of X, shape ({n_examples},), "
                             f"got shape {labels.shape}")
    if labels.dtype.kind not in "biuf":
        raise InputTypeError(f"y must hold integers, got dtype {labels.dtype} "
                             f"(first label {labels[0]!r}); {remedy}")
    if labels.dtype.kind == "f":
        bad = np.flatnonzero(labels != np.floor(labels))    # finds NaN, too, as NaN != NaN
        if len(bad) or not np.isfinite(labels).all():
            i = int(bad[0]) if len(bad) else int(np.flatnonzero(~np.isfinite(labels))[0])
            raise ParameterError(f"y must hold integers, got {labels[i]} at index {i}; {remedy}")
    size = np.abs(labels.astype(np.float64))
    if size.max(initial=0.0) > 2.0**53:
        i = int(size.argmax())
        raise ParameterError(f"y must hold integers of at most 2^53, got {labels[i]} at index {i}; {remedy}")
    return labels.astype(np.int64)


def class_labels(y, n_examples, n_classes=None):
    """Return labels 0..K-1 as int32, and K >= 2."""
    labels = integer_labels(y, n_examples, "encode the labels as 0..K-1 (np.unique(y, return_inverse=True))")
    if labels.min() < 0:
        i = int(labels.argmin())
        raise ParameterError(f"y must hold labels 0..K-1, got {labels[i]} at index {i}; encode the labels as "
                             "0..K-1 (np.unique(y, return_inverse=True)) or use pb.risks.BinaryHinge for -1/+1")
    largest = int(labels.max())
    if n_classes is None:
        n_classes = largest + 1
        if n_classes < 2 or labels.min() == largest:
            raise ParameterError(f"y must hold at least two classes, got only {largest}; pass n_classes= if "
                                 "the other classes are absent on purpose")
        _refuse_absent(labels, n_classes)
    n_classes = check_integer("n_classes", n_classes, low=2)
    if largest >= n_classes:
        i = int(labels.argmax())
        raise ParameterError(f"y must hold labels below n_classes = {n_classes}, got {largest} at index {i}")
    if n_classes > 1 << 24:
        raise ParameterError(f"n_classes must be at most 2^24, got {n_classes}; encode the labels as 0..K-1 "
                             "(np.unique(y, return_inverse=True))")
    return labels.astype(np.int32), n_classes


def _refuse_absent(labels, n_classes):
    """Refuse classes without an example: if class 0 is absent, the encoding of labels is usually wrong."""
    found = np.unique(labels)
    if len(found) == n_classes:
        return
    seen = set(found.tolist())
    absent = list(islice((k for k in range(n_classes) if k not in seen), 5))
    rest = n_classes - len(found) - len(absent)
    listed = ", ".join(map(str, absent)) + (f" and {rest} more" if rest else "")
    raise ParameterError(f"y must hold every label 0..{n_classes - 1}, but no example has the label {listed}; encode "
                         "the labels as 0..K-1 (np.unique(y, return_inverse=True)), or pass "
                         f"n_classes={n_classes} if classes are absent on purpose")


def sign_labels(y, n_examples, n_classes=None):
    """Return labels -1/+1 as int32, from {-1, +1} or {0, 1}; with `n_classes=2` one class alone is accepted."""
    labels = integer_labels(y, n_examples, "encode the two classes as -1 and +1")
    low, high = int(labels.min()), int(labels.max())
    if low < -1 or high > 1 or (low == -1 and not labels.all()):
        raise ParameterError(f"y must hold -1 and +1, or 0 and 1, got the labels {np.unique(labels)[:5].tolist()}; use "
                             "pb.risks.MulticlassHinge for more than two classes")
    if n_classes is not None and check_integer("n_classes", n_classes) != 2:
        raise ParameterError(f"n_classes must be 2 or None, got {n_classes!r}")
    if low == high and n_classes is None:
        raise ParameterError(f"y must hold two classes, got only {low}; pass n_classes=2 if the other one is "
                             "absent on purpose")
    return np.where(labels > 0, 1, -1).astype(np.int32)


def example_weights(sample_weight, n_examples):
    """Return finite weights c_i >= 0, ones by default; read-only, because planes depend on them."""
    if sample_weight is None:
        return read_only(np.ones(n_examples))
    weights = real_numbers(f"sample_weight must hold real numbers, got {type(sample_weight).__name__}",
                           sample_weight, copy=True)
    if weights.shape != (n_examples,):
        raise ParameterError(f"sample_weight must have shape ({n_examples},), got shape {weights.shape}")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise ParameterError(f"sample_weight must be finite and >= 0, got {weights[bad[0]]} "
                             f"at index {bad[0]}")
    if 0.0 < (largest := weights.max(initial=0.0)) < 1e-300:      # inverses of smaller ones overflow
        raise ParameterError(f"sample_weight must have an entry of 1e-300 or more, got at most {largest}; multiply all "
                             "by one number")
    return read_only(weights)


def cost_matrix(loss, n_classes):
    """Return L (K, K) with zero diagonal and no negative entry, or None for the 0/1 loss."""
    if loss is None:
        return None
    cost = real_numbers(f"loss must be None or a matrix of real numbers, got {type(loss).__name__}", loss, copy=True)
    if cost.shape != (n_classes, n_classes):
        raise ParameterError(f"loss must be None or have shape ({n_classes}, {n_classes}), "
                             f"got shape {cost.shape}")
    if not np.isfinite(cost).all() or (cost < 0).any():
        raise ParameterError("loss must be finite and >= 0, got "
                             f"{cost[~(np.isfinite(cost) & (cost >= 0))][0]}")
    if np.diagonal(cost).any():
        k = int(np.flatnonzero(np.diagonal(cost))[0])
        raise ParameterError(f"loss must have a zero diagonal (the truth costs nothing), "
                             f"got loss[{k}, {k}] = {cost[k, k]:g}")
    return cost
