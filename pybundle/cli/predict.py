"""Label examples (`pybundle predict`): replace the labels of a file, or print a line for each example."""

import sys

import numpy as np

from ..core.archive import write_atomically
from ..datasets.lines import as_word
from .classes import check_last_column
from .columns import Columns, columns_of, fitting
from .data import read
from .models import KINDS, check_shape, estimators
from .output import check_outputs, json_text


def predict(arguments):
    """Write predictions to the output of the arguments."""
    check_outputs(arguments, "output")
    model, data = load_with_data(arguments, labelled=not arguments.unlabelled, keeps_text=not arguments.json)
    if not arguments.unlabelled:
        check_last_column(data, model)
    found = predictions(model, data)
    if arguments.json:
        for place in data.skipped:
            found.insert(place, None)
        raw = json_text({"data": data.name, "predictions": found}).encode()
    elif data.original is None:
        raw = "".join(f"{labels if data.shape == 'row' else ' '.join(map(str, labels))}\n" for labels in found).encode()
    else:
        texts = [_written(label, data.shape) for labels in ([found] if data.shape == "row" else found)
                 for label in labels]
        columns, trained = data.columns, columns_of(model)
        # the labels become a new column
        if columns.format == "csv" and columns.label is None and columns.names is not None:
            is_named = trained is not None and trained.names is not None and trained.label is not None
            texts.insert(0, trained.names[trained.label] if is_named else "label")
        raw = data.original.filled(texts)
    if arguments.output is not None:
        write_atomically(arguments.output, lambda file: file.write(raw))
    elif hasattr(sys.stdout, "buffer"):         # bytes keep the line ends as they are, on every platform
        sys.stdout.buffer.write(raw)
    else:
        sys.stdout.write(raw.decode())
    return 0


def load_with_data(arguments, labelled, keeps_text=False):
    """Return the model, and the data with the columns that it was trained on."""
    model = estimators().load(arguments.load)
    shape = dict(KINDS.values()).get(type(model).__name__.removesuffix("CV"))
    trained = columns_of(model) or (Columns(None, model.n_features_in_) if shape == "row" else None)
    data = read(arguments, labelled=labelled, trained=trained, keeps_text=keeps_text)
    check_shape(data, shape or "other example", type(model).__name__)
    return model, fitting(data, trained)


def predictions(model, data):
    """Return the labels of all examples, a list."""
    return [labels if isinstance(labels, list) else np.asarray(labels).tolist() for labels in model.predict(data.X)]


def _written(label, shape):
    """Return a label as text; a word of a parse becomes the columns 7 and 8 of CoNLL-U."""
    if shape != "sentence":
        return str(label)
    return as_word(label[1], f"{label[0]}\t", separator="tab") if isinstance(label, tuple) else f"{label}\t_"
