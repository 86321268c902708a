"""Read examples from files or standard input, in the formats of `pybundle.datasets`."""

from __future__ import annotations

import copy
import io
import re
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.exceptions import ParameterError
from ..datasets import read_arrays, read_svmlight
from ..datasets.attributes import attributes_of
from ..datasets.conll import sentences_of
from ..datasets.conllu import trees_of
from ..datasets.lines import PACKED_END, Original, numbered_lines
from ..datasets.tables import table_of
from ..metrics import rewritten
from .columns import KEPT, OF_TOKENS, Columns, check_columns, misfit, of_sentences
from .guess import guess

FORMATS = {"svmlight": (".svm", ".svmlight", ".libsvm"), "csv": (".csv", ".tsv"), "npz": (".npz",),
           "conll": (".conll", ".bio", ".iob"), "conllu": (".conllu",)}
"""Endings of file names by format."""
OPTIONS = {"label": "csv", "keep_na": "csv", "zero_based": "svmlight", "features": "svmlight", "arrays": "npz",
           "comment": "conll", "separator": "conll", "attributes": "conll",
           "multiple_roots": "conllu", "skip_bad": "conllu"}
"""The format that each option belongs to."""
BREAK = re.compile("\r*\n|\r")
"""Line ends in quoted names and labels; all become line feeds, so that a model fits files of every system."""


class Data(NamedTuple):
    """Examples in the form that estimators take.

    `shape` is the kind of example: "row", "sequence" or "sentence"; `rows` are the unchanged tokens of CoNLL columns,
    `columns` the `Columns` of the file, `skipped` the places of sentences that were left out, `original` the text of
    the file with the labels marked, `n_rewritten` the number of labels that --repair has changed, `groups` the names
    of the groups of rows.
    """

    name: str
    shape: str
    X: Any
    y: Any
    rows: Any = None
    columns: Any = None
    n_comments: int = 0
    skipped: Any = ()
    original: Any = None
    n_rewritten: int = 0
    groups: Any = None

    def describe(self):
        """Return the numbers of examples, features and so on, in words."""
        comments = f", {self.n_comments} comment{'s' * (self.n_comments != 1)}" if self.n_comments else ""
        if self.shape == "row":
            return f"{self.X.shape[0]} examples, {self.X.shape[1]} features{comments}"
        sizes = [len(x.forms) if hasattr(x, "forms") else np.shape(x)[0] if hasattr(x, "shape") else len(x)
                 for x in self.X]
        skipped = f", {len(self.skipped)} sentence{'s' * (len(self.skipped) > 1)} left out" if self.skipped else ""
        what = "words" if self.shape == "sentence" else "tokens"
        rewritten = f", {self.n_rewritten} label{'s' * (self.n_rewritten > 1)} rewritten" if self.n_rewritten else ""
        return f"{len(sizes)} {self.shape}s, {sum(sizes)} {what}{comments}{skipped}{rewritten}"


def read(arguments, *, labelled=True, trained=None, keeps_text=False):
    """Read the data that the arguments name.

    `trained` are the `Columns` of the model that is to label the data, which are read with the same options. With
    `keeps_text` the result has an `original`, except for npz.
    """
    default = "conll" if getattr(arguments, "model", None) in ("chain", "crf") else getattr(trained, "format", None)
    format = arguments.format or ("conll" if arguments.attributes or getattr(trained, "attributes", False) else
                                  _format_of(arguments.data, default))
    for option, other in OPTIONS.items():
        if option == "features" and isinstance(arguments.features, str):
            other = "conll"
        if getattr(arguments, option) and format != other:
            raise ParameterError(f"--{option.replace('_', '-')} belongs to data of format {other}, got {format}")
    if isinstance(arguments.features, str) and (arguments.attributes or not hasattr(arguments, "model")):
        raise ParameterError(f"--features {arguments.features} is for models that are to be trained on columns, got "
                             f"{'--attributes' if arguments.attributes else 'a saved one'}; leave it out")
    if trained is not None and trained.format == format:
        if arguments.attributes and not trained.attributes:
            raise ParameterError(f"{arguments.data}: the model was trained on columns; leave --attributes out")
        arguments = copy.copy(arguments)
        vars(arguments).update((name, getattr(arguments, name) or getattr(trained, name)) for name in KEPT)
    source = _source(arguments.data, format)
    name = getattr(source, "name", arguments.data)
    keeps_text = keeps_text or getattr(arguments, "scheme", None) is not None
    original = Original(source) if keeps_text and format != "npz" else None
    data = READERS[format](original or source, arguments, labelled, trained, str(name))
    data = data._replace(original=original, columns=data.columns._replace(**{k: getattr(arguments, k) for k in KEPT}))
    if labelled and data.y is None:
        remedy = "add --unlabelled, or name it by --arrays X,y" if hasattr(arguments, "unlabelled") else \
            "--arrays X,y names the arrays"
        raise ParameterError(f"{name} holds no array of labels; {remedy}")
    if not (min(data.X.shape) if data.shape == "row" else len(data.X)):
        raise ParameterError(f"{name} holds no {'feature' if data.shape == 'row' and data.X.shape[0] else 'example'}")
    if getattr(arguments, "groups", None) is not None:
        data = data._replace(groups=_groups(arguments.groups, data))
    return _in_scheme(data, arguments)


def _groups(path, data):
    """Return the number of the group of each row, from a file of the sizes of groups in the order of the rows."""
    if data.shape != "row":
        raise ParameterError(f"--groups belongs to rows, got {data.name} of {data.shape}s; leave it out")
    lines = [(number, line.strip()) for number, line in numbered_lines(path) if line.strip()]
    for number, text in lines:
        if not text.isdecimal():
            raise ParameterError(f"{path}, line {number}: expected the size of a group, got {text!r:.30}")
    sizes, n = [int(text) for _, text in lines], data.X.shape[0]
    if sum(sizes) != n:
        raise ParameterError(f"{path} must hold sizes of groups whose sum is the number of rows of {data.name}, {n}, "
                             f"got {sum(sizes)}")
    return np.repeat(np.arange(len(sizes)), sizes)


def _format_of(path, default):
    known = ", ".join(sorted(FORMATS))
    if path == "-":
        if default is None:
            raise ParameterError(f"standard input has no name to tell the format; give --format {known}")
        return default
    suffix = Path(PACKED_END.sub("", path)).suffix.lower()
    for format, suffixes in FORMATS.items():
        if suffix in suffixes:
            return "conll" if suffix == ".tsv" and default == "conll" else format
    found = guess(path) or (default if default == "conll" else None)
    if found is None:
        raise ParameterError(f"{path}: the format does not follow from the name; pass --format {known}")
    return found


def _source(path, format):
    """Return a path unchanged, or standard input as a file that can be read twice if the format needs that."""
    if path != "-":
        return path
    if sys.stdin is None:
        raise ParameterError("standard input is closed; give a file, or the data by a pipe")
    stream = getattr(sys.stdin, "buffer", sys.stdin)
    return io.BytesIO(stream.read()) if format == "npz" else stream


def _svmlight(source, arguments, labelled, trained, name):
    X, y, queries = read_svmlight(source, n_features=arguments.features, zero_based=arguments.zero_based,
                                  unlabelled=not labelled)
    if trained is not None and X.shape[1] < trained.n_features:         # the last features do not occur in this file
        X.resize((X.shape[0], trained.n_features))
    return Data(name, "row", X, _plain(y), columns=Columns("svmlight", int(X.shape[1])), groups=queries)


def _plain(y):
    """Return float labels as integers if all are whole, else as texts, as in a table; return other labels unchanged."""
    if y is None or y.dtype.kind != "f" or not (abs(y) < 2**53).all():
        return y
    return y.astype(np.int64) if (y == np.rint(y)).all() else y.astype(str)


def _csv(source, arguments, labelled, trained, name):
    """Read a table; the label column is that of `--label`, else that of the training data, else the last column."""
    seen = []

    def label(names, n):
        names = names and [BREAK.sub("\n", name) for name in names]
        if names is not None and len(set(names)) < n and (trained is None or trained.names is not None):
            twice = next(column for column in names if names.count(column) > 1)
            raise ParameterError(f"{name}: two columns are called {twice!r:.40}; models find columns by name, so each "
                                 "needs a name of its own")
        if not labelled:
            place = None
        elif n == 1 and (trained is None or trained.n_features > 1):
            return "last"               # for one column `table_of` raises an error that lists separators
        elif arguments.label is not None:
            place = int(arguments.label) if arguments.label.isdecimal() and len(arguments.label) < 10 \
                else arguments.label
        elif trained is None or trained.label is None or (trained.names is None and trained.label == trained.n - 1):
            place = "last"
        elif names is None or trained.names is None:
            place = trained.label + 1
        else:
            place = trained.names[trained.label]
            if place not in names:
                others = [column for column in names if column not in trained.features]
                if n == trained.n and len(others) == 1:
                    raise ParameterError(f"{name}: the model's labels stood in the column {place!r:.40}, which is not "
                                         f"there; give --label {others[0]:.40}")
                raise misfit(name, trained, Columns("csv", n, names))
        column = {"first": 0, "last": n - 1}.get(place, place - 1 if isinstance(place, int) else
                                                 names.index(place) if place in (names or ()) else None)
        seen.append(Columns("csv", n, names, column))
        if trained is not None and trained.format not in OF_TOKENS:     # checked before texts become numbers
            check_columns(name, trained, seen[0])
        return place if column is None else column + 1

    table, n_comments = table_of(source, label=label, keep_na=arguments.keep_na)
    y = table.y
    if labelled and y.dtype.kind == "U":
        y = np.array([BREAK.sub("\n", text) for text in y])
    return Data(name, "row", table.X, y, columns=seen[0], n_comments=n_comments)


def _npz(source, arguments, labelled, trained, name):
    X, y, offsets = read_arrays(source, arguments.arrays or ("X", "y", "offsets"))
    y = _plain(y)
    columns = Columns("npz", int(X.shape[-1]))
    if offsets is None:
        return Data(name, "row", X, y, columns=columns)
    if (np.diff(offsets) == 0).any():
        raise ParameterError(f"{name}: sequence {int(np.flatnonzero(np.diff(offsets) == 0)[0])} is empty")
    pieces = list(pairwise(offsets.tolist()))
    return Data(name, "sequence", [X[a:b] for a, b in pieces], None if y is None else [y[a:b] for a, b in pieces],
                columns=columns)


def _conll(source, arguments, labelled, trained, name):
    if arguments.attributes:
        X, rows = attributes_of(source, unlabelled=not labelled)
        if rows and not any(map(any, X)):
            raise ParameterError(f"{name} holds no attribute; write a label and attributes on a line, all between tabs")
        return Data(name, "sequence", X, [[token[-1] for token in tokens] for tokens in rows] if labelled else None,
                    rows, Columns("conll", 1 + labelled, label=0 if labelled else None))
    rows, n_comments = sentences_of(source, comment=arguments.comment, separator=arguments.separator,
                                    unlabelled=not labelled)
    n = len(rows[0][0]) if rows else 0
    if labelled and n == 1:
        raise ParameterError(f"{name} must have columns of words and of labels, got one column; "
                             "predict --unlabelled reads words alone")
    X = [[token[:-1] for token in tokens] for tokens in rows] if labelled else rows
    return Data(name, "sequence", X, [[token[-1] for token in tokens] for tokens in rows] if labelled else None, rows,
                Columns("conll", n, label=n - 1 if labelled else None), n_comments)


def _in_scheme(data, arguments):
    """Return data whose labels were checked by --scheme, or rewritten in this scheme with --repair."""
    scheme, repair = (getattr(arguments, name, None) for name in ("scheme", "repair"))
    if scheme is None and repair:
        raise ParameterError("--repair belongs to --scheme, which says how to write the labels")
    if scheme is None or data.shape != "sequence":
        return data
    if not repair:
        from ..estimators.schemes import check_scheme  # imports scikit-learn

        check_scheme(scheme, data.y, partial(place, data.name, data=data),
                     "--repair mends the labels of the file, or leave out --scheme")
        return data
    y = []
    for i, labels in enumerate(data.y):
        try:
            y.append(rewritten(labels, scheme))
        except ValueError as problem:
            raise ParameterError(re.sub(r"^labels\[(\d+)\]", lambda m, i=i: place(data.name, i, int(m[1]), data),
                                        str(problem))) from problem
    n = sum(a != b for sides in zip(data.y, y, strict=True) for a, b in zip(*sides, strict=True))
    return data._replace(y=y, n_rewritten=n)


def place(name, i, t, data=None):
    """Return the place of token t of sequence i of a file in words, which count from 1; the line if `data` knows it."""
    original = getattr(data, "original", None)
    line = "" if original is None else f", line {original.line_of(sum(map(len, data.y[:i])) + t)}"
    return f"{name}{line}: sentence {i + 1}, token {t + 1}"


def _conllu(source, arguments, labelled, trained, name):
    trees = None if not labelled else "any" if not (arguments.checks_trees or arguments.skip_bad) else \
        "multiple" if arguments.multiple_roots else "single"
    sentences, skipped = trees_of(source, trees=trees, skip_bad=arguments.skip_bad, left_out=arguments.left_out)
    return Data(name, "sentence", sentences, [sentence.heads[1:] for sentence in sentences],
                columns=of_sentences(sentences), skipped=skipped)


READERS = {"svmlight": _svmlight, "csv": _csv, "npz": _npz, "conll": _conll, "conllu": _conllu}
