"""Examples from files or standard input, in the formats of `pybundle.datasets`."""

from __future__ import annotations

import contextlib
import io
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.exceptions import ParameterError
from ..datasets import read_arrays, read_conll, read_conllu, read_csv, read_svmlight
from .tokens import features

FORMATS = {"svmlight": (".svm", ".svmlight", ".libsvm"), "csv": (".csv", ".tsv"), "npz": (".npz",),
           "conll": (".conll", ".bio", ".iob"), "conllu": (".conllu",)}
"""Ends of names by format."""


class Data(NamedTuple):
    """Examples as estimators take them.

    `shape` says what one is: "row", "sequence" or "sentence"; `rows` are the tokens of CoNLL columns as they stand.
    """

    name: str
    shape: str
    X: Any
    y: Any
    rows: Any = None

    def describe(self):
        """How many there are."""
        if self.shape == "row":
            return f"{self.X.shape[0]} examples, {self.X.shape[1]} features"
        sizes = [len(x.forms) if hasattr(x, "forms") else np.shape(x)[0] if hasattr(x, "shape") else len(x)
                 for x in self.X]
        return f"{len(sizes)} {self.shape}s, {sum(sizes)} {'words' if self.shape == 'sentence' else 'tokens'}"


def read(arguments, *, labelled=True, n_features=None):
    """The data that the arguments name; `n_features` is what a model wants of svmlight."""
    format = arguments.format or _format_of(arguments.data)
    with _source(arguments.data, format) as source:
        name = getattr(source, "name", arguments.data)
        data = READERS[format](source, arguments, labelled, n_features, str(name))
    if labelled and data.y is None:
        raise ParameterError(f"{name} holds no array of labels; --arrays X,y says what the arrays are called")
    if not (min(data.X.shape) if data.shape == "row" else len(data.X)):
        raise ParameterError(f"{name} holds no {'feature' if data.shape == 'row' and data.X.shape[0] else 'example'}")
    return data


def _format_of(path):
    suffix = Path(path.removesuffix(".gz")).suffix.lower()
    for format, suffixes in FORMATS.items():
        if suffix in suffixes:
            return format
    raise ParameterError(f"{path}: the format cannot be told from the name; give --format {', '.join(sorted(FORMATS))}")


@contextlib.contextmanager
def _source(path, format):
    """A path as it is; standard input as a file, which can be sought in where the format needs that."""
    if path != "-":
        yield path
    else:
        if sys.stdin is None:
            raise ParameterError("standard input is closed; give a file, or the data by a pipe")
        stream = getattr(sys.stdin, "buffer", sys.stdin)
        yield io.BytesIO(stream.read()) if format == "npz" else stream


def _svmlight(source, arguments, labelled, n_features, name):
    X, y, _ = read_svmlight(source, n_features=n_features or arguments.features, zero_based=arguments.zero_based)
    return Data(name, "row", X, y.astype(np.int64) if (y == np.rint(y)).all() and (abs(y) < 2**53).all() else y)


def _csv(source, arguments, labelled, n_features, name):
    label = int(arguments.label) if arguments.label.isdecimal() and len(arguments.label) < 10 else arguments.label
    X, y, _ = read_csv(source, label=label if labelled else None)
    return Data(name, "row", X, y)


def _npz(source, arguments, labelled, n_features, name):
    X, y, offsets = read_arrays(source, arguments.arrays)
    if offsets is None:
        return Data(name, "row", X, y)
    if (np.diff(offsets) == 0).any():
        raise ParameterError(f"{name}: sequence {int(np.flatnonzero(np.diff(offsets) == 0)[0])} is empty")
    pieces = list(pairwise(offsets.tolist()))
    return Data(name, "sequence", [X[a:b] for a, b in pieces], None if y is None else [y[a:b] for a, b in pieces])


def _conll(source, arguments, labelled, n_features, name):
    rows = read_conll(source)
    if labelled and rows and len(rows[0][0]) < 2:
        raise ParameterError(f"{name} must have columns of words and of labels, got one column; "
                             "predict --unlabelled reads words alone")
    last = -1 if labelled else None
    X = [features([token[:last] for token in tokens]) for tokens in rows]
    return Data(name, "sequence", X, [[token[-1] for token in tokens] for tokens in rows] if labelled else None, rows)


def _conllu(source, arguments, labelled, n_features, name):
    sentences = read_conllu(source, unlabelled=not labelled)
    return Data(name, "sentence", sentences, [sentence.heads[1:] for sentence in sentences])


READERS = {"svmlight": _svmlight, "csv": _csv, "npz": _npz, "conll": _conll, "conllu": _conllu}
