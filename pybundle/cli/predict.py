"""`pybundle predict`: a line for each example, or the file's own columns with the labels filled in."""

from __future__ import annotations

import sys

import numpy as np

from ..core.archive import write_atomically
from .classes import check_last_column
from .columns import Columns, columns_of, fitting
from .data import read
from .models import KINDS, check_shape, estimators
from .output import check_outputs, json_text


def predict(arguments):
    """Write predictions to the output of the arguments."""
    check_outputs(arguments, "output")
    model, data = load_with_data(arguments, labelled=not arguments.unlabelled)
    if not arguments.unlabelled:
        check_last_column(data, model)
    found = predictions(model, data)
    if arguments.json:
        text = json_text({"data": data.name, "predictions": found})
    else:
        text = "".join(_lines(data, found))
    if arguments.output is None:
        sys.stdout.write(text)
    else:
        raw = text.encode()
        write_atomically(arguments.output, lambda file: file.write(raw))
    return 0


def load_with_data(arguments, labelled):
    """The model, and the data with the columns that it was trained on."""
    model = estimators().load(arguments.load)
    names = {name: shape for name, shape in KINDS.values()}
    shape = names.get(type(model).__name__.removesuffix("CV"))
    trained = columns_of(model) or (Columns(None, model.n_features_in_) if shape == "row" else None)
    data = read(arguments, labelled=labelled, trained=trained)
    check_shape(data, shape or "other example", type(model).__name__)
    return model, fitting(data, trained)


def predictions(model, data):
    """The labels of all examples, a list."""
    return [np.asarray(labels).tolist() for labels in model.predict(data.X)]


def _lines(data, found):
    for i, labels in enumerate(found):
        if data.shape == "row":
            yield f"{labels}\n"
        elif data.shape == "sentence":
            yield from _sentence(data.X[i], labels)
        elif data.rows is not None:
            for token, label in zip(data.rows[i], labels, strict=True):
                yield " ".join((*token, str(label))) + "\n"
            yield "\n"
        else:
            yield " ".join(map(str, labels)) + "\n"


def _sentence(sentence, heads):
    # relations are not predicted, and those of the input could be mistaken for predictions
    for k, head in enumerate(heads):
        columns = (str(k + 1), sentence.forms[k], sentence.lemmas[k], sentence.upos[k], sentence.xpos[k], "_",
                   str(head), "_", "_", "_")
        yield "\t".join(columns) + "\n"
    yield "\n"
