"""Classes and codes of labels, which are texts or numbers, and weights of classes."""

import numbers

import numpy as np
from sklearn.base import is_classifier

from ..core.exceptions import InputTypeError, ParameterError
from ..core.measurements import warn_of_measurements
from ..core.ragged import Ragged
from ..core.validation import check_number, refuse_masked, refuse_rounded


def label_array(labels, what, unlabelled="leave out the tokens without a label, or name a class for them"):
    """Return labels as a vector of texts or numbers; refuse a mixture, of which NumPy would make texts.

    `unlabelled` is the remedy for labels that are NaN.
    """
    refuse_masked(what, labels)
    try:
        array = np.asarray(labels)
    except ValueError as problem:
        raise InputTypeError(f"{what} must be a sequence of labels, got {labels!r:.60}") from problem
    if array.ndim != 1 or array.dtype.kind in "cV":
        raise InputTypeError(f"{what} must be a sequence of labels, got "
                             + (f"shape {array.shape}" if array.ndim > 1 else f"{labels!r:.60}"))
    if array.dtype.kind == "O" or (array.dtype.kind == "U" and not isinstance(labels, np.ndarray)):
        are_texts = {isinstance(label, str) for label in labels}
        if len(are_texts) > 1 or (array.dtype.kind == "O" and are_texts == {False} and
                                  not all(isinstance(label, numbers.Real) for label in labels)):
            raise InputTypeError(f"{what} must hold labels of one type, texts or numbers, got {labels!r:.60}")
        array = array if are_texts == {True} else np.asarray(array.tolist())
    if array.dtype.kind == "f" and not isinstance(labels, np.ndarray) and all(
            isinstance(label, numbers.Integral) for label in labels):        # NumPy converts [-1, 2**63] to floats
        array = np.array([int(label) for label in labels], dtype=object)
    if array.dtype == np.uint64 or (array.dtype.kind == "O" and len(array) and isinstance(array[0], int)):
        largest = max(array.tolist(), default=0)
        if largest > np.iinfo(np.int64).max:
            raise ParameterError(f"{what} must hold integers below 2^63, got {largest}; use texts for names")
        array = array.astype(np.int64)
    if array.dtype.kind in "fmM" and not np.isfinite(array).all():
        missing = "NaN or infinity" if array.dtype.kind == "f" else "NaT"
        raise ParameterError(f"{what} must not hold {missing}; {unlabelled}")
    refuse_merged(what, labels, array)
    return array


def refuse_merged(what, labels, array):
    """Refuse integers that were different in `labels` and became one number in the float array `array`."""
    if array.dtype.kind == "f" and getattr(getattr(labels, "dtype", None), "kind", "O") != "f":
        refuse_rounded(what, np.array(labels, dtype=object), "use texts for names, or integers of dtype int64")


def check_kind(labels, classes, what):
    """Refuse texts if `classes` are numbers, and numbers if they are texts: the two cannot be compared."""
    if len(labels) and isinstance(labels[0], str) != isinstance(classes[0], str):
        raise InputTypeError(f"{what} must hold labels like those of training, {classes.tolist()!r:.40}, got "
                             f"{labels.tolist()!r:.40}")


def check_one_type(labels):
    """Refuse texts among other labels, since NumPy makes texts of all, or cannot sort them."""
    if not isinstance(labels, (list, tuple)):
        labels = np.asarray(labels) if getattr(getattr(labels, "dtype", None), "kind", "") == "O" else ()
    texts = (label for label in labels if isinstance(label, str))
    others = (label for label in labels if not isinstance(label, str))
    for text, other in zip(texts, others, strict=False):
        raise InputTypeError(f"y must hold labels of one type, texts or numbers, got {text!r:.40} and {other!r:.40}")


def check_objects(labels):
    """Refuse labels of dtype object that are no texts: scikit-learn's metrics take no others, and None is no class."""
    array = np.asarray(labels) if getattr(getattr(labels, "dtype", None), "kind", "") in ("O", "M") else np.empty(0)
    others = [i for i, label in enumerate(array) if not isinstance(label, str)] if array.dtype.kind == "O" else ()
    is_number = [isinstance(array[i], numbers.Real) and array[i] == array[i] for i in others]
    if others:
        i, remedy = others[0], "np.array(y.tolist()) has a numeric dtype"
        if not all(is_number):
            i, remedy = others[is_number.index(False)], "leave out rows without a label, write other labels as texts"
        raise InputTypeError(f"Unknown label type: y of dtype object must hold texts, got {array[i]!r:.40} at index {i}"
                             f"; {remedy}")


def check_known(labels, array):
    """Refuse dates that are missing, and integers that became one number, in the array made of `labels`."""
    if array.dtype.kind in "mM" and np.isnat(array).any():
        raise ParameterError(f"y must not hold NaT, got it at index {int(np.isnat(array).argmax())}; leave out rows "
                             "without a label")
    refuse_merged("y", labels, array)


def check_one_label(estimator, y):
    """Refuse several labels or targets of an example; the error names the tool of scikit-learn."""
    shape = getattr(y, "shape", (len(y),) if isinstance(y, (list, tuple)) else ())
    rows = y if len(shape) == 1 and getattr(getattr(y, "dtype", None), "kind", "O") == "O" else ()
    if any(isinstance(row, (list, tuple, set, frozenset, np.ndarray)) and len(row) != 1 for row in rows) or (
            len(shape) == 2 and shape[1] > 1):
        remedy = "OneVsRestClassifier or MultiOutputClassifier of scikit-learn for multi-label y, y.argmax(axis=1) " \
            "for one-hot rows" if is_classifier(estimator) else "MultiOutputRegressor of scikit-learn"
        raise ParameterError(f"y must have one entry for each row of X, got several, shape {shape}; use {remedy}")


def label_classes(y):
    """Return the classes that occur in sequences of labels, sorted."""
    arrays = [label_array(labels, f"y[{i}]") for i, labels in enumerate(y)]
    classes = merged_classes(arrays)
    if classes.dtype.kind in "iuf":
        warn_of_measurements(np.concatenate(arrays))
    return classes


def merged_classes(arrays):
    """Return the classes in any of these arrays, sorted; all must hold texts, or all numbers."""
    first, kept = None, []
    for i, labels in enumerate(arrays):
        if len(labels) == 0:                # NumPy makes an empty list a float array
            continue
        kept.append(labels)
        if first is None:
            first = labels
        elif isinstance(labels[0], str) != isinstance(first[0], str) or (labels.dtype.kind == "M") != (
                first.dtype.kind == "M"):
            raise InputTypeError(f"y[{i}] must hold labels of one type, texts or numbers, like those before, got "
                                 f"{labels.tolist()!r:.60}")
    merged = np.concatenate(kept or arrays)
    for labels in kept:
        refuse_merged("y", labels, merged)
    return np.unique(merged)


def encode_labels(y, classes):
    """Return codes of sequences of labels as a `Ragged`: `classes[codes[i]]` is y[i]."""
    arrays = [label_array(labels, f"y[{i}]") for i, labels in enumerate(y)]
    codes = np.searchsorted(classes, np.concatenate([labels for labels in arrays if len(labels)]))
    return Ragged(codes.astype(np.int32), np.concatenate([[0], np.cumsum([len(labels) for labels in y])]))


def class_factors(class_weight, classes, surveys):
    """Return factors of the weights by class, shape (K,).

    A survey of a block of the data begins with the classes there and the sums of their weights.
    """
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        found, sums = (np.concatenate([survey[k] for survey in surveys]) for k in (0, 1))
        sums = np.bincount(np.searchsorted(classes, found), sums, len(classes))
        if not sums.all():
            raise ParameterError("class_weight='balanced' needs a weight > 0 in every class, got none of "
                                 f"{classes.tolist()[int(sums.argmin())]!r}")
        return sums.sum() / (len(classes) * sums)       # an example of weight 2 counts as two
    names = set(classes.tolist())
    if not isinstance(class_weight, dict) or not (names >= set(class_weight) or names <= set(class_weight)):
        raise ParameterError(f"class_weight must be a dictionary of classes of y, {classes.tolist()!r:.60}, 'balanced' "
                             f"or None, got {class_weight!r:.60}")
    factors = np.array([check_number(f"class_weight[{label!r}]", class_weight.get(label, 1.0), low=0.0)
                        for label in classes.tolist()])
    if np.count_nonzero(factors) < 2:
        raise ParameterError("class_weight must leave at least two classes, got weights of zero for all "
                             f"{'but one' if factors.any() else 'of them'}")
    return factors
