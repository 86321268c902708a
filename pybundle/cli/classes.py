"""Count the classes of labels, and check labels against those of the model."""

import numpy as np

from ..core import measurements
from ..core.exceptions import ParameterError
from ..core.labels import labels_of, names_of
from ..core.warn import warn_user
from ..datasets.lines import BOM

MOST = 8
"""Largest number of classes that a summary names."""


def class_counts(data):
    """Return a dictionary of the number of labels of each class, the most frequent first; None for heads of words."""
    if data.shape == "sentence":
        return None
    labels, counts = np.unique(np.concatenate([np.asarray(y) for y in data.y]) if data.shape == "sequence" else data.y,
                               return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return dict(zip(labels[order].tolist(), counts[order].tolist(), strict=True))


def describe_counts(counts):
    """Return one line of text, like `3: b 30, a 20, c 10`."""
    named = [f"{label!s:.20} {count}" for label, count in list(counts.items())[:MOST]]
    return f"{len(counts)}: {', '.join(named)}{', ...' if len(counts) > MOST else ''}"


def warn_of_measurements(y):
    """Warn of labels that look like measurements, also if they are texts of numbers, which estimators do not check."""
    y = np.asarray(y)
    if y.dtype.kind == "U":
        try:
            y = y.astype(np.float64)
        except ValueError:
            return
        if np.isnan(y).any():           # a label is the text nan, so labels are names
            return
    measurements.warn_of_measurements(y)


def warn_of_attributes(data, classes):
    """Warn of labels that look like attributes of CRFsuite, where the label is the first column."""
    if not data.columns.attributes and all("=" in str(label) for label in classes):
        warn_user(f"{data.name}: labels {names_of(classes)} look like attributes; if the first column holds the "
                  "labels, give --attributes", UserWarning)


def check_known(data, model):
    """Refuse labels if the model has none of them as a class; else warn of those that it lacks: they count as wrong."""
    if data.shape == "sentence":
        _check_relations(data, model)
        return
    labels, classes = labels_of(data.y), model.classes_.tolist()
    unknown = labels.difference(classes)
    said = f"{data.name}: labels {names_of(unknown)} are not among the model's classes {names_of(classes)}"
    if unknown == labels:
        raise ParameterError(f"{said}; write them as in the training")
    if unknown:
        warn_user(said, UserWarning)


def check_groups(data, model):
    """Refuse to score a ranking without the groups or the events that the training had."""
    if model.has_events_:
        raise ParameterError("a model of censored times needs their events, which files do not hold; call its score")
    if model.has_groups_ and data.groups is None:
        raise ParameterError(f"{data.name} must have groups, as the training data had; give their sizes by --groups, "
                             "or qid in svmlight")


def _check_relations(data, model):
    """Warn of relations of a treebank that the model lacks, naming the line of the first such relation."""
    known = getattr(model, "relations_", None)
    found = {relation for x in data.X for relation in x.relations}
    unknown = set() if known is None or found == {"_"} else found.difference(known)
    if unknown:
        rows = ((number, line.removeprefix(BOM).split("\t")) for number, line in enumerate(data.original.lines, 1))
        number, row = next((number, row) for number, row in rows if row[0].isdecimal() and row[7] in unknown)
        warn_user(f"{data.name}, line {number}: the relation {row[7]!r:.40} is not among the model's "
                  f"{names_of(known)}; words with {names_of(unknown)} count as wrong", UserWarning)


def check_last_column(data, model):
    """Refuse a last column of words rather than labels, as in sentences typed on one line; `_` means no label."""
    if data.columns.format != "conll":
        return
    labels, classes = [label for labels in data.y for label in labels], set(model.classes_.tolist())
    if sum(label in classes or label == "_" for label in labels) < 0.1 * len(labels):
        side, form = ("first", "attributes") if data.columns.attributes else ("last", "one word a line")
        raise ParameterError(f"{data.name}: the {side} column holds no label of the model, got {labels[0]!r:.30}; give "
                             f"{form}, and --unlabelled if there are no labels")
